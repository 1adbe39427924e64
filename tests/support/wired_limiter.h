/* SPDX-License-Identifier: MIT
 *
 * A limiter whose store answers later: the table behind the wire of delayed_driver.c, asked by the attendant for the
 * threads of this process. Nothing is slept for: what is waited for comes, or this program is ended.
 *
 * The store has 20 ms of real time to answer. A machine that stops this program for as long makes an answer an error;
 * so what is counted allows for errors, and most tests begin with a take that is decided. */
#ifndef WEIR_TESTS_WIRED_LIMITER_H
#define WEIR_TESTS_WIRED_LIMITER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/stores.h"
#include "store/remote.h"
#include "weir/weir.h"

enum { END_S = 120, LISTS_MAX = 1 << 16 };

/* ---- the wire ---- */

/* The words of delayed_driver.c that are used here. */
enum word {
    WAY_NS = 1,
    THERE_NS,
    BACK_NS,
    PARTS,
    NOT_ASKED = 6,
    REFUSED_SENDING,
    LOST_THERE,
    UNKNOWN_THERE,
    LOST_BACK,
    UNKNOWN_BACK,
    BREAKS,
    IS_SILENT,
    REFUSES,
    FAILS,
    WORD_COUNT
};

static uint64_t *words;

static inline void set_wire(enum word word, uint64_t value)
{
    __atomic_store_n(&words[word], value, __ATOMIC_RELAXED);
}

/* As good a wire as there can be. */
static inline void mend_wire(void)
{
    for (int word = 0; word < WORD_COUNT; word++) {
        set_wire((enum word)word, 0);
    }
}

static inline int lay_wire(void **state)
{
    (void)state;
    char path[32];
    int fd = memfd_create("wire", MFD_CLOEXEC);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || ftruncate(fd, WORD_COUNT * sizeof *words) != 0
        || setenv("WEIR_DELAYED", path, 1) != 0) {
        return -1;
    }
    void *at = mmap(NULL, WORD_COUNT * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    words = at;
    (void)alarm(END_S);
    return at != MAP_FAILED ? 0 : -1;
}

/* ---- who looks on ---- */

/* A gate through which all that is asked goes, in the attendant's thread.
 *   lists   how many were sent, and of how many batches each */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_int at_gate;
static atomic_uint list_count;
static atomic_uint lists[LISTS_MAX];
static struct remote_ops watched_remote;
static struct store_ops watched_ops;
static const struct remote_ops *wire_remote;
static bool has_no_lines;

static inline void send_watched(struct link *link, struct batch_list *asked)
{
    unsigned count = 0;
    for (const struct batch *batch = asked->first; batch != NULL;
         batch = batch_list_next(asked, batch)) {
        count++;
    }
    atomic_store(&lists[atomic_load(&list_count) % LISTS_MAX], count);
    atomic_fetch_add(&list_count, 1);
    atomic_fetch_add(&at_gate, 1);
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
    atomic_fetch_sub(&at_gate, 1);
    wire_remote->link_send(link, asked);
}

static inline unsigned sent_count(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < atomic_load(&list_count); i++) {
        count += atomic_load(&lists[i % LISTS_MAX]);
    }
    return count;
}

static inline enum weir_status open_watched(struct store **store, const char *url,
                                            struct store_settings *settings,
                                            struct weir_error *error)
{
    enum weir_status status = STORE_DRIVERS[0]->open(store, url, settings, error);
    if (status == WEIR_OK) {
        wire_remote = (*store)->ops->remote;
        watched_remote = *wire_remote;
        watched_remote.link_send = send_watched;
        watched_ops = *(*store)->ops;
        watched_ops.remote = &watched_remote;
        watched_ops.lines = has_no_lines ? NULL : watched_ops.lines;
        (*store)->ops = &watched_ops;
    }
    return status;
}

static inline enum weir_status read_watched(const char *url, char path[STORE_PATH_MAX],
                                            struct weir_error *error)
{
    return STORE_DRIVERS[0]->read(url, path, error);
}

static const struct weir_store_driver WATCHED = {
    .scheme = "memory:", .form = "memory:", .read = read_watched, .open = open_watched};
static const struct weir_store_driver *const DRIVERS[] = {&WATCHED, NULL};

/* ---- limiters ---- */

static struct weir_limiter *limiter;
static struct weir_rule refusing, allowing; // under on_error

static inline struct weir_limiter *open_with(const struct weir_store_driver *const *drivers,
                                             bool is_caller_clock)
{
    struct weir_limiter *opened;
    const struct weir_limiter_config config = {.memory_bytes = 4 << 20,
                                               .seed = {1, 2},
                                               .drivers = drivers,
                                               .caller_clock = is_caller_clock};
    assert_int_equal(weir_limiter_open(&opened, &config, NULL), WEIR_OK);
    return opened;
}

static inline struct weir_rule rule_of(const char *text)
{
    struct weir_rule rule;
    assert_int_equal(weir_rule_from_text(&rule, limiter, text, NULL), WEIR_OK);
    return rule;
}

static inline int open_limiter(void **state)
{
    (void)state;
    mend_wire();
    atomic_store(&list_count, 0);
    limiter = open_with(DRIVERS, false);
    refusing = rule_of("100000/100d");
    allowing = rule_of("100000/100d on_error=allow");
    return 0;
}

static inline int close_limiter(void **state)
{
    (void)state;
    weir_limiter_close(limiter);
    return 0;
}

static inline struct weir_decision take(const struct weir_rule *rule, const char *key)
{
    return weir_limiter_take(limiter, rule, key, strlen(key), WEIR_UNIT);
}

/* The store answers within 20 ms, now. */
static inline void wait_for_answers(void)
{
    while (take(&refusing, "whoever").verdict != WEIR_ALLOWED) {
    }
}

/* The breaker is open: what is asked now does not go out. */
static inline void wait_for_outage(void)
{
    unsigned before;
    do {
        before = sent_count();
        assert_int_not_equal(take(&refusing, "nobody").verdict, WEIR_LIMITED);
    } while (sent_count() != before);
}

static uint64_t level_of(const char *key)
{
    struct weir_detail detail;
    struct weir_request request = {.rule = &refusing,
                                   .key = key,
                                   .key_len = strlen(key),
                                   .operation = WEIR_SHOW,
                                   .detail = &detail};
    struct weir_decision decision;
    do {
        weir_limiter_decide(limiter, &request, &decision, 1);
    } while (decision.verdict == WEIR_FAILED);
    return 100000 - decision.remaining;
}

#define OVER_A_WIRE(name) cmocka_unit_test_setup_teardown(name, open_limiter, close_limiter)

#endif
