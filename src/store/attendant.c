/* SPDX-License-Identifier: MIT */
#include "store/attendant.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/time_units.h"
#include "core/undecided.h"
#include "platform/futex.h"
#include "platform/poll_loop.h"
#include "platform/thread.h"
#include "store/port.h"
#include "sync/atomic.h"
#include "sync/cancel.h"

/* How much is asked as one batch, so that a call of any length finds room in the port: so many questions, or so many
 * bytes of keys, and as far as a run goes. */
enum { PIECE_COUNT = 1024, PIECE_KEY_BYTES = 1 << 20 };

/*   owner       the process whose thread it is
 *   asked       what the thread has not seen yet, the last one first
 *   is_running  set under the mutex, once, when the thread has started; and read by all
 *   is_ending   set when nobody asks any more; the thread is woken */
struct attendant {
    struct store *store;
    pid_t owner;
    struct attendant_ask *asked;
    pthread_mutex_t mutex;
    uint64_t is_running;
    uint64_t is_ending;
    pthread_t thread;
    struct poll_loop loop;
    struct port *port;
};

/* ---- the answers ---- */

static uint64_t utc_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* What is not decided yet. */
static void fail(struct attendant_ask *ask)
{
    size_t at = ask->decided_count;
    answer_undecided(ask->requests + at, ask->decisions + at, ask->count - at, utc_ns());
    ask->done(ask);
}

/* ---- piece by piece ---- */

/* How many questions go out next: whole runs. */
static size_t piece_length(const struct attendant_ask *ask)
{
    const struct weir_request *requests = ask->requests + ask->decided_count;
    size_t left = ask->count - ask->decided_count;
    size_t whole = 0;
    size_t key_bytes = 0;
    for (size_t i = 0; i < left; i++) {
        key_bytes += requests[i].key_len;
        bool is_full = i >= PIECE_COUNT || key_bytes > PIECE_KEY_BYTES;
        if (is_full && whole > 0) {
            return whole;
        }
        whole = requests[i].and_next ? whole : i + 1;
    }
    return left;
}

static void ask_piece(struct port *port, struct attendant_ask *ask,
                      void (*on_answers)(struct batch *batch))
{
    struct asking asking = {.requests = ask->requests + ask->decided_count,
                            .count = piece_length(ask),
                            .now_ns = ask->now_ns,
                            .asker = ask,
                            .done = on_answers};
    if (port_decide(port, &asking) == NULL) {
        fail(ask);
    }
}

/* The next piece goes out when the one before it is answered: they are decided in order. */
static void on_answers(struct batch *batch)
{
    struct attendant_ask *ask = batch->asker;
    struct port *port = batch->port;
    bool is_decided = batch->fate == FATE_DECIDED;
    if (is_decided) {
        batch_answer(batch, ask->requests + ask->decided_count,
                     ask->decisions + ask->decided_count);
        ask->decided_count += batch->count;
    }
    port_forget(batch);
    if (!is_decided) {
        fail(ask);
    } else if (ask->decided_count < ask->count) {
        ask_piece(port, ask, on_answers);
    } else {
        ask->done(ask);
    }
}

/* ---- the thread ---- */

/* All that was asked since the last time, the first one first. */
static struct attendant_ask *take_asked(struct attendant *attendant)
{
    struct attendant_ask *last = __atomic_exchange_n(&attendant->asked, NULL, __ATOMIC_ACQ_REL);
    struct attendant_ask *first = NULL;
    while (last != NULL) {
        struct attendant_ask *before = last->next;
        last->next = first;
        first = last;
        last = before;
    }
    return first;
}

static void send_asked(struct attendant *attendant)
{
    struct attendant_ask *ask = take_asked(attendant);
    while (ask != NULL) {
        struct attendant_ask *next = ask->next; // it may be gone when it is done
        ask_piece(attendant->port, ask, on_answers);
        ask = next;
    }
    port_flush(attendant->port);
}

static void *attend(void *context)
{
    struct attendant *attendant = context;
    while (load_acquire(&attendant->is_ending) == 0) {
        poll_loop_pass(&attendant->loop, UINT64_MAX);
        send_asked(attendant);
    }
    port_close(attendant->port);
    return NULL;
}

/* Under the mutex. Without memory, descriptors or threads it is tried again with the next question. */
static bool start(struct attendant *attendant)
{
    if (!poll_loop_open(&attendant->loop)) {
        return false;
    }
    attendant->port =
        port_open(attendant->store, attendant->store->ops->remote, &attendant->loop.loop, NULL);
    if (attendant->port != NULL && thread_start(&attendant->thread, attend, attendant)) {
        return true;
    }
    port_close(attendant->port);
    poll_loop_close(&attendant->loop);
    return false;
}

static bool is_running(struct attendant *attendant)
{
    if (load_acquire(&attendant->is_running) != 0) {
        return true;
    }
    (void)pthread_mutex_lock(&attendant->mutex);
    bool is_started = load_relaxed(&attendant->is_running) != 0 || start(attendant);
    store_release(&attendant->is_running, is_started);
    (void)pthread_mutex_unlock(&attendant->mutex);
    return is_started;
}

/* ---- for everybody ---- */

bool attendant_is_inherited(const struct attendant *attendant)
{
    return attendant->owner != getpid();
}

struct attendant *attendant_open(struct store *store)
{
    struct attendant *attendant = calloc(1, sizeof *attendant);
    if (attendant != NULL) {
        attendant->store = store;
        attendant->owner = getpid();
        (void)pthread_mutex_init(&attendant->mutex, NULL);
    }
    return attendant;
}

/* In a child the connections are the parent's: closing them would end its sessions. */
void attendant_close(struct attendant *attendant)
{
    if (attendant == NULL || attendant_is_inherited(attendant)) {
        return;
    }
    if (load_acquire(&attendant->is_running) != 0) {
        store_release(&attendant->is_ending, 1);
        poll_loop_wake(&attendant->loop);
        (void)pthread_join(attendant->thread, NULL);
        for (struct attendant_ask *ask = take_asked(attendant); ask != NULL;) {
            struct attendant_ask *next = ask->next;
            fail(ask);
            ask = next;
        }
        poll_loop_close(&attendant->loop);
    }
    (void)pthread_mutex_destroy(&attendant->mutex);
    free(attendant);
}

void attendant_ask(struct attendant *attendant, struct attendant_ask *ask)
{
    assert(ask->count > 0 && ask->decided_count == 0);
    if (attendant_is_inherited(attendant) || !is_running(attendant)) {
        fail(ask);
        return;
    }
    struct attendant_ask *last = __atomic_load_n(&attendant->asked, __ATOMIC_RELAXED);
    do {
        ask->next = last;
    } while (!__atomic_compare_exchange_n(&attendant->asked, &last, ask, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    if (last == NULL) { // otherwise it was woken for the one before. The ask may be done and gone
        poll_loop_wake(&attendant->loop);
    }
}

/* One that sleeps. */
struct sleeper {
    struct attendant_ask ask; // first
    uint32_t is_done;
};

/* The sleeper may be gone when it is woken: then nobody sleeps at that address, or somebody who looks again. */
static void wake(struct attendant_ask *ask)
{
    uint32_t *is_done = &((struct sleeper *)(void *)ask)->is_done;
    __atomic_store_n(is_done, 1, __ATOMIC_RELEASE);
    futex_wake(is_done);
}

void attendant_decide(struct attendant *attendant, const struct weir_request *requests,
                      struct weir_decision *decisions, size_t count, uint64_t now_ns)
{
    if (count == 0) {
        return;
    }
    int before = cancel_forbid(); // the thread has an address in this stack
    struct sleeper sleeper = {.ask = {.requests = requests,
                                      .decisions = decisions,
                                      .count = count,
                                      .now_ns = now_ns,
                                      .done = wake}};
    attendant_ask(attendant, &sleeper.ask);
    while (__atomic_load_n(&sleeper.is_done, __ATOMIC_ACQUIRE) == 0) {
        futex_wait(&sleeper.is_done, 0, FUTEX_FOR_EVER);
    }
    cancel_allow(before);
}

void attendant_store_decide(struct store *store, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count, uint64_t now_ns)
{
    attendant_decide(store->attendant, requests, decisions, count, now_ns);
}

struct weir_decision attendant_store_take(struct store *store, const struct weir_rule *rule,
                                          const void *key, size_t key_len, uint64_t cost_micro)
{
    struct weir_request request = {
        .rule = rule, .key = key, .key_len = key_len, .cost_micro = cost_micro};
    struct weir_decision decision;
    attendant_decide(store->attendant, &request, &decision, 1, STORE_NOW);
    return decision;
}
