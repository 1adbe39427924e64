/* SPDX-License-Identifier: MIT
 *
 * Several processes share a table, and answer in turns what one table in private memory answers: the
 * same to the last field, for random operations at readings that go forwards and back.
 *
 *     same_answers [soak]
 *
 * Every process goes through the same random trace and asks its own private table each question; the
 * shared one is asked by the process whose turn it is. The trace says how long a turn is, too: from one operation to
 * some dozens. The others sleep meanwhile: where they looked again and again whether it is their turn, they took the
 * processor from the one whose turn it was. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum {
    PROCESSES = 3,
    KEYS = 3000, // more than there are slots: 1536
    TURN = 8,    // operations, in the mean
    COUNT = 100000,
    COUNT_SOAK = 10000000
};

#define S UINT64_C(1000000000)

static struct weir_decision ask(struct table *table, const struct weir_request *question,
                                struct weir_detail *detail, uint64_t now_ns)
{
    struct weir_request request = *question;
    struct weir_decision decision;
    memset(detail, 0, sizeof *detail);
    request.detail = detail;
    table->store.ops->decide(&table->store, &request, &decision, 1, now_ns);
    return decision;
}

static bool is_same(const struct weir_decision *a, const struct weir_decision *b)
{
    return a->verdict == b->verdict && a->capacity == b->capacity && a->remaining == b->remaining
           && a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns
           && a->delay_ns == b->delay_ns;
}

static bool is_same_detail(const struct weir_detail *a, const struct weir_detail *b)
{
    char left[WEIR_AMOUNT_TEXT_MAX], right[WEIR_AMOUNT_TEXT_MAX];
    (void)weir_amount_print(&a->amount, left);
    (void)weir_amount_print(&b->amount, right);
    return strcmp(left, right) == 0 && a->empty_at_ns == b->empty_at_ns && a->full == b->full
           && a->existed == b->existed;
}

/* A byte in the pipe of a process says that it is its turn. */
static int turns[PROCESSES][2];

static void give_turn(int process)
{
    if (write(turns[process][1], "", 1) != 1) {
        give_up("no pipe");
    }
}

static void wait_for_turn(int process)
{
    char byte;
    if (read(turns[process][0], &byte, 1) != 1) {
        give_up("no turn");
    }
}

static void walk(struct table *shared, int mine, uint64_t count)
{
    static const char *const LIMITS[] = {"7/3s capacity=6", "10/ms", "1/h capacity=3"};
    struct weir_rule rules[3];
    struct store *own = // as many lines as the file has
        table_open(WEIR_MEMORY_BYTES_MIN - 4096, WEIR_EVENTS_BYTES_MIN);
    uint64_t random = 2463534242;
    uint64_t time_ns = S;
    int turn = PROCESSES - 1; // whose it is
    bool is_last = true;      // of that turn
    if (own == NULL) {
        give_up("no memory");
    }
    for (int i = 0; i < 3; i++) {
        rules[i] = world_rule(LIMITS[i]);
        rules[i].hash_key[0] += (uint64_t)i;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint32_t key = (uint32_t)(world_random(&random) % KEYS);
        time_ns += world_random(&random) % (S / 100);
        struct weir_request question = {
            .rule = &rules[world_random(&random) % 3],
            .key = &key,
            .key_len = sizeof key,
            .cost_micro = world_random(&random) % (3 * WEIR_UNIT),
            .operation = (enum weir_operation)(world_random(&random) % (WEIR_RESET + 1)),
        };
        uint64_t now_ns = time_ns - world_random(&random) % 4 * world_random(&random) % (S / 2);
        struct weir_detail expected_detail, detail;
        struct weir_decision expected =
            ask((struct table *)own, &question, &expected_detail, now_ns);
        bool is_first = is_last;
        turn = is_first ? (turn + 1) % PROCESSES : turn;
        is_last = world_random(&random) % TURN == 0 || i == count - 1;
        if (turn != mine) {
            continue;
        }
        if (is_first) {
            wait_for_turn(mine);
        }
        struct weir_decision decision = ask(shared, &question, &detail, now_ns);
        if (!is_same(&decision, &expected) || !is_same_detail(&detail, &expected_detail)) {
            give_up("operation %" PRIu64 " was answered %s, %" PRIu64
                    " remaining; not %s, %" PRIu64,
                    i, weir_verdict_word(decision.verdict), decision.remaining,
                    weir_verdict_word(expected.verdict), expected.remaining);
        }
        if (is_last) {
            give_turn((mine + 1) % PROCESSES);
        }
    }
    own->ops->close(own);
}

static void compare(const char *name, struct table *shared, uint64_t count)
{
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        if (pipe(turns[i]) != 0) {
            give_up("no pipe");
        }
    }
    give_turn(0);
    (void)fflush(stdout);
    (void)alarm(600); // if one gives up, the others would wait for it
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            (void)alarm(600);
            walk(shared, i, count);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        pid_t child = wait(&status);
        if (child < 0 || status != 0) {
            for (int j = 0; j < PROCESSES; j++) {
                (void)(children[j] != child && kill(children[j], SIGKILL));
            }
            give_up("%s: a process failed", name);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        (void)(close(turns[i][0]), close(turns[i][1]));
    }
    struct weir_limiter_stats stats;
    shared->store.ops->stats(&shared->store, &stats);
    printf("%s: %" PRIu64 " operations by %d processes, %" PRIu64 " slots used again\n", name,
           count, PROCESSES, stats.reused_count);
    world_check(shared);
    shared->store.ops->close(&shared->store);
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 && strcmp(argv[1], "soak") == 0 ? COUNT_SOAK : COUNT;
    compare("file", world_open(WEIR_MEMORY_BYTES_MIN), count);
    struct store *forked = table_open_shared(WEIR_MEMORY_BYTES_MIN - 4096, WEIR_EVENTS_BYTES_MIN);
    if (forked == NULL) {
        give_up("no memory");
    }
    compare("memory for children", (struct table *)forked, count);
    return 0;
}
