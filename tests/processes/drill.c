/* SPDX-License-Identifier: MIT */
#include "drill.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

enum {
    TAKERS_MAX = 512,
    LOOKS = 6, // at a holder, before one is believed to wait: the last ones are 32 ms apart
    KEYS_TRIED_MAX = 1000000
};

struct drill drill;

static struct taker *takers; // of this scenario
static int taker_count;
static int begun_count, skipped_count;

/* ---- scenarios ---- */

void drill_open(void)
{
    struct weir_limiter_config config = {.store = drill.url};
    struct weir_error error;
    if (weir_limiter_open(&drill.limiter, &config, &error) != WEIR_OK
        || weir_rule_from_text(&drill.rule, drill.limiter, DRILL_LIMIT, &error) != WEIR_OK) {
        give_up("%s", error.message);
    }
}

void drill_close(void)
{
    weir_limiter_close(drill.limiter);
    drill.limiter = NULL;
}

static void begin(const char *name)
{
    if (takers == NULL) {
        takers = world_share(TAKERS_MAX * sizeof *takers);
    }
    memset(takers, 0, TAKERS_MAX * sizeof *takers);
    taker_count = 0;
    begun_count++;
    printf("%s\n", name);
    (void)fflush(stdout);
    (void)alarm(DRILL_BLOCKED_S);
}

void drill_begin(const char *name)
{
    begin(name);
    (void)snprintf(drill.folder, sizeof drill.folder, "/tmp/weir-drill-XXXXXX");
    if (mkdtemp(drill.folder) == NULL) {
        give_up("no folder in /tmp");
    }
    (void)snprintf(drill.path, sizeof drill.path, "%s/store", drill.folder);
    (void)snprintf(drill.url, sizeof drill.url, "file:%s?size=64K", drill.path);
    drill_open();
}

void drill_begin_in_memory(const char *name)
{
    begin(name);
    drill.path[0] = drill.folder[0] = '\0';
    (void)snprintf(drill.url, sizeof drill.url, "memory:?shared=yes&size=64K");
    drill_open();
}

void drill_end(void)
{
    if (drill.limiter != NULL) {
        drill_close();
    }
    if (drill.path[0] != '\0') {
        (void)unlink(drill.path);
        (void)rmdir(drill.folder);
    }
    (void)alarm(0);
}

void drill_skip(const char *name, const char *why)
{
    skipped_count++;
    printf("%s: skipped: %s\n", name, why);
}

int drill_exit_code(void)
{
    return begun_count == 0 && skipped_count > 0 ? 77 : 0;
}

const struct table *drill_table(void)
{
    return table_current(drill.limiter->store);
}

const struct file_header *drill_header(void)
{
    return drill_table()->mapping.at;
}

bool drill_may(drill_entrance *enters)
{
    int status;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        enters();
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* ---- takes ---- */

enum weir_verdict drill_take(const char *key)
{
    struct weir_decision decision =
        weir_limiter_take(drill.limiter, &drill.rule, key, strlen(key), WEIR_UNIT);
    return (enum weir_verdict)decision.verdict;
}

int drill_count(const char *key)
{
    int count = 0;
    while (drill_take(key) == WEIR_ALLOWED) {
        count++;
    }
    return count;
}

void drill_must_be(int count, int expected, const char *of_whom)
{
    if (count != expected) {
        give_up("%s: %d were let through, and not %d", of_whom, count, expected);
    }
}

static uint64_t hash_of(const char *key)
{
    struct weir_request request = {.rule = &drill.rule, .key = key, .key_len = strlen(key)};
    return drill.limiter->store->ops->lines->id(drill.limiter->store, &request);
}

/* ---- one in the middle of an insertion ---- */

/*   forks  its child does nothing, and lives on */
static struct {
    pid_t pid;
    char key[DRILL_KEY_MAX];
    drill_entrance *enters;
    bool forks;
    struct {
        volatile pid_t child;
        volatile int verdict;
    } * told;
} holder;

static struct path path;

void drill_key(enum drill_where where, char key[DRILL_KEY_MAX])
{
    static int tried;
    uint64_t held = hash_of(holder.key);
    for (int i = 0; i < KEYS_TRIED_MAX; i++) {
        (void)snprintf(key, DRILL_KEY_MAX, "key %d", tried++);
        uint64_t hash = hash_of(key);
        bool is_beside = table_home_of(drill_table(), hash) == table_home_of(drill_table(), held);
        bool is_elsewhere =
            table_stripe_of(drill_table(), hash) != table_stripe_of(drill_table(), held);
        if (where == DRILL_SAME_LINE ? is_beside : is_elsewhere) {
            return;
        }
    }
    give_up("no such key");
}

static void begin_to_hold(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // also while it is stopped
    if (holder.enters != NULL) {
        holder.enters();
    }
    drill_open();
    pid_t child = holder.forks ? fork() : 0;
    if (holder.forks && child == 0) {
        (void)alarm(2 * DRILL_BLOCKED_S);
        (void)close(STDOUT_FILENO); // else a test that fails would not end before that
        (void)close(STDERR_FILENO);
        for (;;) {
            (void)pause();
        }
    }
    holder.told->child = child;
}

static void insert(const void *key)
{
    holder.told->verdict = (int)drill_take(key);
}

/* Another key may be at home there, too. */
static bool is_half_inserted(const struct table_line *line)
{
    for (int i = 0; i < TABLE_LINE_SLOTS; i++) {
        if (line->states[i].word != 0 && line->tags[i] == 0) {
            return true;
        }
    }
    return false;
}

static void hold(const char *key, drill_entrance *enters, bool forks)
{
    if (holder.told == NULL) {
        holder.told = world_share(sizeof *holder.told);
    }
    (void)snprintf(holder.key, sizeof holder.key, "%s", key);
    holder.told->verdict = -1;
    holder.enters = enters;
    holder.forks = forks;
    uint64_t home = table_home_of(drill_table(), hash_of(key));
    holder.pid = steps_start(&path, begin_to_hold, insert, holder.key);
    while (!is_half_inserted(&drill_table()->lines[home])) {
        if (!steps_next(&path, holder.pid)) {
            give_up("it was never in the middle of its insertion");
        }
    }
}

void drill_hold(const char *key, drill_entrance *enters)
{
    hold(key, enters, false);
}

pid_t drill_hold_with_child(const char *key)
{
    hold(key, NULL, true);
    return holder.told->child;
}

static void must_have_been_allowed(void)
{
    if (holder.told->verdict != WEIR_ALLOWED) {
        give_up("the holder got %d", holder.told->verdict);
    }
}

void drill_let_go(void)
{
    steps_run_out(holder.pid);
    drill_kill_holder();
    must_have_been_allowed();
}

void drill_freeze(void)
{
    steps_freeze(holder.pid);
}

void drill_thaw(void)
{
    (void)kill(holder.pid, SIGCONT);
    (void)waitpid(holder.pid, NULL, WUNTRACED); // it stops itself at the end
    drill_kill_holder();
    must_have_been_allowed();
}

void drill_kill_holder(void)
{
    steps_end(holder.pid);
}

/* ---- others ---- */

struct taker *drill_start_taker(const char *key, drill_entrance *enters)
{
    if (taker_count == TAKERS_MAX) {
        give_up("too many");
    }
    struct taker *taker = &takers[taker_count++];
    pid_t pid = fork();
    if (pid < 0) {
        give_up("no process");
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (enters != NULL) {
            enters();
        }
        drill_open();
        taker->opened_ns = weir_limiter_now_ns(drill.limiter);
        taker->has_opened = true;
        taker->allowed = drill_count(key);
        taker->has_answer = true;
        drill_close();
        _exit(0);
    }
    taker->pid = pid;
    return taker;
}

/* How often it has slept. */
static long sleeps_of(pid_t pid)
{
    char name[64];
    char line[256];
    long count = -1;
    (void)snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
    FILE *file = fopen(name, "r");
    while (file != NULL && count < 0 && fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "voluntary_ctxt_switches: %ld", &count);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return count;
}

void drill_must_wait(const struct taker *taker)
{
    while (!taker->has_opened) {
        (void)sched_yield(); // that it never does is what alarm() is for
    }
    long before = sleeps_of(taker->pid);
    while (!taker->has_answer && sleeps_of(taker->pid) < before + LOOKS) {
        (void)sched_yield();
    }
    if (taker->has_answer) {
        give_up("it got %d while the lock was held", taker->allowed);
    }
}

void drill_kill(struct taker *taker)
{
    (void)kill(taker->pid, SIGKILL);
    (void)waitpid(taker->pid, NULL, 0);
}

int drill_answer(struct taker *taker)
{
    int status = 0;
    (void)waitpid(taker->pid, &status, 0);
    if (status != 0 || !taker->has_answer) {
        give_up("a process ended with status %d", status);
    }
    return taker->allowed;
}
