/* SPDX-License-Identifier: MIT
 *
 * Ports over a bad wire: random questions, askers that go, threads that stop, requests and answers that are delayed,
 * come in parts, get lost, connections that break or are refused, a store that falls silent. A second table is told
 * what was charged, and when. Then:
 *
 *   each batch ends once          by the end of the turn in which its deadline has passed, and never from within
 *                                 port_decide() or port_flush(). A deadline moves once, where this thread was stopped
 *   decided                       the answers are those of the other table, in every field
 *   not asked                     nothing is charged, then or later
 *   nothing is charged twice      each question comes to the table once at most, and in order
 *   the books agree               what was charged is decided, late, or known to the wire as lost
 *   bounds hold                   batches and bytes
 *   the port comes back           within a second after the store has
 *   nothing is left behind        no batch, link or timer
 *
 * seeds.h says how to repeat one walk, and how to walk for longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "../support/delayed/delayed_link.h"
#include "../support/still_loop.h"
#include "limiter/limiter_state.h"
#include "seeds.h"
#include "store/port.h"

enum { WALKS = 4000, STEPS = 120, ASKS = 4 * STEPS, PORTS = 2, RULES = 4, KEYS = 5, COUNT_MAX = 6 };
enum { BATCHES_MAX = 10, BYTES_MAX = 12000 };

#define MS UINT64_C(1000000)

static const char *const KEY[KEYS] = {"", "a", "bb", "ccccccccccccccccccccc", "dddddddd"};

struct question {
    int rule, key;
    enum weir_operation operation;
    uint64_t cost_micro;
    bool and_next, wants_detail;
};

/*   batch          NULL once it was forgotten, or if there was none
 *   charged_count  of the questions; the decisions and details are those of the other table */
struct ask {
    struct question questions[COUNT_MAX];
    size_t count, charged_count;
    uint64_t asked_ns;
    struct batch *batch;
    bool is_done, is_forgotten, keeps, asks_again;
    enum fate fate;
    int port;
    struct weir_decision decisions[COUNT_MAX];
    struct weir_detail details[COUNT_MAX];
};

#define STALL_NS_MAX (60 * MS)

struct walk {
    uint64_t seed, random;
    struct still_loop loop;
    struct weir_limiter *limiter, *other;
    struct weir_rule rules[RULES];
    struct delayed_store delayed;
    struct port *ports[PORTS];
    struct ask asks[ASKS];
    int ask_count;
    bool may_be_done;
};

static struct walk *current;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("WEIR_SEED=%llu: not so at %llu ns: %s", (unsigned long long)current->seed,   \
                     (unsigned long long)current->loop.now_ns, #condition);                        \
        }                                                                                          \
    } while (0)

static uint64_t below(uint64_t limit)
{
    current->random ^= current->random << 13; // xorshift64, G. Marsaglia, 2003
    current->random ^= current->random >> 7;
    current->random ^= current->random << 17;
    return (current->random >> 16) % limit;
}

static bool chance(uint64_t one_in)
{
    return below(one_in) == 0;
}

/* ---- the other table ---- */

static void requests_of(struct ask *ask, struct weir_request *requests)
{
    for (size_t i = 0; i < ask->count; i++) {
        const struct question *question = &ask->questions[i];
        requests[i] = (struct weir_request){
            .rule = &current->rules[question->rule],
            .key = KEY[question->key],
            .key_len = strlen(KEY[question->key]),
            .cost_micro = question->cost_micro,
            .operation = question->operation,
            .and_next = question->and_next,
            .detail = question->wants_detail ? &ask->details[i] : NULL,
            .block_ns = 3 * MS,
        };
    }
}

static void on_charged(void *context, const struct batch *batch, size_t first, size_t count)
{
    struct ask *ask = batch->asker;
    struct store *store = current->other->store;
    struct weir_request requests[COUNT_MAX];
    (void)context;
    CHECK(first == ask->charged_count && first + count <= ask->count);
    CHECK(!ask->is_done || ask->fate == FATE_UNKNOWN);
    requests_of(ask, requests);
    store->ops->decide(store, requests + first, ask->decisions + first, count, ask->asked_ns);
    ask->charged_count += count;
}

static bool is_same_detail(const struct weir_detail *a, const struct weir_detail *b)
{
    return memcmp(&a->amount, &b->amount, sizeof a->amount) == 0 && a->empty_at_ns == b->empty_at_ns
           && a->full == b->full && a->existed == b->existed && a->waiting == b->waiting;
}

static void check_answers(struct ask *ask)
{
    struct weir_request requests[COUNT_MAX];
    struct weir_decision decisions[COUNT_MAX];
    struct weir_detail details[COUNT_MAX];
    requests_of(ask, requests);
    for (size_t i = 0; i < ask->count; i++) {
        requests[i].detail = requests[i].detail != NULL ? &details[i] : NULL;
    }
    batch_answer(ask->batch, requests, decisions);
    for (size_t i = 0; i < ask->count; i++) {
        const struct weir_decision *a = &decisions[i], *b = &ask->decisions[i];
        CHECK(a->verdict == b->verdict && a->capacity == b->capacity);
        CHECK(a->remaining == b->remaining && a->retry_after_ns == b->retry_after_ns);
        CHECK(a->reset_after_ns == b->reset_after_ns && a->delay_ns == b->delay_ns);
        CHECK(requests[i].detail == NULL || is_same_detail(&details[i], &ask->details[i]));
    }
}

/* ---- asking ---- */

static void ask_port(int port);

static void forget(struct ask *ask)
{
    port_forget(ask->batch);
    ask->batch = NULL;
}

static void on_done(struct batch *batch)
{
    struct ask *ask = batch->asker;
    CHECK(current->may_be_done && !ask->is_done && !ask->is_forgotten && ask->batch == batch);
    ask->is_done = true;
    ask->fate = batch->fate;
    if (ask->fate == FATE_DECIDED) {
        CHECK(ask->charged_count == ask->count);
        check_answers(ask);
    }
    if (!ask->keeps) {
        forget(ask);
    }
    if (ask->asks_again) {
        ask_port(ask->port);
    }
}

/* Runs of takes, and single questions of all kinds. */
static void think_of(struct ask *ask)
{
    static const enum weir_operation OPERATIONS[] = {WEIR_TAKE,  WEIR_TAKE,   WEIR_CAN_TAKE,
                                                     WEIR_FILL,  WEIR_REFUND, WEIR_SHOW,
                                                     WEIR_RESET, WEIR_BLOCK,  WEIR_UNBLOCK};
    ask->count = 1 + below(COUNT_MAX);
    for (size_t i = 0; i < ask->count; i++) {
        struct question *question = &ask->questions[i];
        bool is_in_run = i > 0 && ask->questions[i - 1].and_next;
        *question = (struct question){.rule = (int)below(RULES),
                                      .key = (int)below(KEYS),
                                      .cost_micro = below(4) * WEIR_UNIT,
                                      .wants_detail = chance(3)};
        question->and_next = i + 1 < ask->count && chance(3);
        question->operation = is_in_run || question->and_next ? WEIR_TAKE : OPERATIONS[below(9)];
    }
}

/* What it is asked with is overwritten before anything is sent. */
static void ask_port(int port)
{
    struct weir_request requests[COUNT_MAX];
    struct weir_rule rules[COUNT_MAX];
    char keys[COUNT_MAX][32];
    if (current->ask_count == ASKS) {
        return;
    }
    struct ask *ask = &current->asks[current->ask_count++];
    think_of(ask);
    ask->port = port;
    ask->asked_ns = current->loop.now_ns;
    ask->keeps = chance(4);
    ask->asks_again = chance(6);
    requests_of(ask, requests);
    for (size_t i = 0; i < ask->count; i++) {
        rules[i] = *requests[i].rule;
        requests[i].rule = &rules[i];
        memcpy(keys[i], requests[i].key, requests[i].key_len);
        requests[i].key = keys[i];
    }
    struct asking asking = {.requests = requests,
                            .count = ask->count,
                            .now_ns = ask->asked_ns,
                            .own_bytes = below(3) * 8,
                            .asker = ask,
                            .done = on_done};
    bool before = current->may_be_done;
    current->may_be_done = false;
    ask->batch = port_decide(current->ports[port], &asking);
    current->may_be_done = before;
    ask->is_forgotten = ask->batch == NULL; // nobody waits
    if (ask->batch != NULL) {
        memset(ask->batch->own, 0xee, asking.own_bytes);
    }
    memset(requests, 0xee, sizeof requests);
    memset(rules, 0xee, sizeof rules);
    memset(keys, 0xee, sizeof keys);
}

static void some_go(void)
{
    for (int i = 0; i < current->ask_count; i++) {
        struct ask *ask = &current->asks[i];
        if (ask->batch != NULL && chance(ask->is_done ? 2 : 10)) {
            ask->is_forgotten = !ask->is_done;
            forget(ask);
        }
    }
}

/* ---- turns ---- */

static void end_turn(void *context)
{
    (void)context;
    current->may_be_done = false;
    for (int i = 0; i < PORTS; i++) {
        struct port_stats stats;
        port_flush(current->ports[i]);
        port_stats(current->ports[i], &stats);
        CHECK(stats.pending <= BATCHES_MAX && stats.pending_bytes <= BYTES_MAX);
    }
    current->may_be_done = true;
    for (int i = 0; i < current->ask_count; i++) {
        const struct ask *ask = &current->asks[i];
        bool waits = ask->batch != NULL && !ask->is_done;
        CHECK(!waits || loop_timers_next_ns(&current->loop.timers) <= current->loop.now_ns
              || current->loop.now_ns < ask->batch->deadline_ns);
        CHECK(!waits
              || ask->batch->deadline_ns <= ask->asked_ns + 2 * PORT_DEADLINE_NS + STALL_NS_MAX);
    }
}

static unsigned seldom(unsigned most)
{
    return chance(3) ? (unsigned)below(most) : 0;
}

static void change_plan(void)
{
    struct delayed_plan *plan = &current->delayed.plan;
    *plan = (struct delayed_plan){
        .connect_ns = below(3) * MS,
        .way_ns = chance(8) ? below(15) * MS : 0,
        .there_ns = below(8) * MS,
        .back_ns = below(8) * MS,
        .parts = (unsigned)below(4),
        .written_max = chance(2) ? 0 : (unsigned)below(6),
        .not_asked = seldom(300),
        .held = seldom(300),
        .refused_sending = seldom(100),
        .lost_there = seldom(200),
        .unknown_there = seldom(200),
        .lost_back = seldom(200),
        .unknown_back = seldom(200),
        .breaks = seldom(60),
        .is_silent = chance(8),
        .refuses = chance(8),
        .fails_at_once = chance(2),
    };
    delayed_look(&current->delayed);
}

static void take_step(void)
{
    struct still_loop *loop = &current->loop;
    uint64_t random = below(16);
    if (random == 0) {
        change_plan();
    } else if (random == 1) {
        still_loop_stall(loop, loop->now_ns + below(STALL_NS_MAX), chance(2));
    } else if (random == 2) {
        some_go();
    } else if (random == 3) {
        delayed_break(&current->delayed);
    } else if (random == 4) {
        still_loop_go(loop, loop->now_ns + below(300) * MS);
    } else {
        for (uint64_t i = below(4); i > 0; i--) {
            ask_port((int)below(PORTS));
        }
        if (!chance(8)) { // the thread is stopped before the end of its turn
            still_loop_pass(loop);
        }
        still_loop_go(loop, loop->now_ns + below(9) * MS);
    }
}

/* ---- a walk ---- */

static void open_walk(void)
{
    static const char *const LIMITS[RULES] = {"10/s capacity=5", "3/10ms capacity=8",
                                              "queue 50/s capacity=6", "window 4/100ms"};
    const struct weir_limiter_config memory = {
        .memory_bytes = WEIR_MEMORY_BYTES_MIN, .seed = {current->seed, 1}, .caller_clock = true};
    struct weir_error error;
    struct still_loop *loop = &current->loop;
    CHECK(weir_limiter_open(&current->limiter, &memory, &error) == WEIR_OK);
    CHECK(weir_limiter_open(&current->other, &memory, &error) == WEIR_OK);
    for (int i = 0; i < RULES; i++) {
        CHECK(weir_rule_from_text(&current->rules[i], current->limiter, LIMITS[i], &error)
              == WEIR_OK);
    }
    still_loop_init(loop, end_turn, NULL);
    loop->now_ns = 1000 * MS;
    delayed_init(&current->delayed, current->limiter->store, current->seed);
    current->delayed.charged = on_charged;
    change_plan();
    for (int i = 0; i < PORTS; i++) {
        struct port_config config = {.batch_count_max = BATCHES_MAX,
                                     .bytes_max = BYTES_MAX,
                                     .linger_ns = 200 * MS,
                                     .seed = current->seed + (uint64_t)i};
        current->ports[i] = port_open(&current->delayed.store, &delayed_ops, &loop->loop, &config);
        CHECK(current->ports[i] != NULL);
    }
    current->may_be_done = true;
}

/* Each bucket is as the other table has it. */
static void check_tables(void)
{
    for (int i = 0; i < RULES * KEYS; i++) {
        const char *key = KEY[i % KEYS];
        struct weir_detail details[2];
        struct weir_decision decisions[2];
        for (int j = 0; j < 2; j++) {
            struct store *store = (j == 0 ? current->limiter : current->other)->store;
            struct weir_request show = {.rule = &current->rules[i / KEYS],
                                        .key = key,
                                        .key_len = strlen(key),
                                        .operation = WEIR_SHOW,
                                        .detail = &details[j]};
            store->ops->decide(store, &show, &decisions[j], 1, current->loop.now_ns);
        }
        CHECK(decisions[0].reset_after_ns == decisions[1].reset_after_ns);
        CHECK(is_same_detail(&details[0], &details[1]));
    }
}

static void check_books(void)
{
    uint64_t charged = 0, answered = 0;
    for (int i = 0; i < PORTS; i++) {
        struct port_stats stats;
        port_stats(current->ports[i], &stats);
        answered += stats.decided + stats.late;
        CHECK(stats.asked == stats.decided + stats.not_asked + stats.unknown + stats.forgotten);
        CHECK(stats.pending == 0 && stats.pending_bytes == 0);
    }
    for (int i = 0; i < current->ask_count; i++) {
        const struct ask *ask = &current->asks[i];
        CHECK(ask->is_done != ask->is_forgotten);
        CHECK(!ask->is_done || ask->fate != FATE_NOT_ASKED || ask->charged_count == 0);
        charged += ask->charged_count > 0;
    }
    CHECK(charged == answered + current->delayed.unheard);
}

static void end_walk(bool closes_early)
{
    struct still_loop *loop = &current->loop;
    if (!closes_early) {
        current->delayed.plan = (struct delayed_plan){0};
        delayed_look(&current->delayed);
        still_loop_go(loop, loop->now_ns + 1000 * MS);
        for (int i = 0; i < PORTS; i++) {
            struct port_stats stats;
            port_stats(current->ports[i], &stats);
            CHECK(!stats.is_down);
        }
        check_books();
    }
    for (int i = 0; i < PORTS; i++) {
        port_close(current->ports[i]);
    }
    for (int i = 0; i < current->ask_count; i++) {
        struct ask *ask = &current->asks[i];
        CHECK(ask->is_done != ask->is_forgotten);
        CHECK(!ask->is_done || ask->fate != FATE_NOT_ASKED || ask->charged_count == 0);
        if (ask->batch != NULL) {
            forget(ask);
        }
    }
    check_tables();
    CHECK(loop->timers.first == NULL && current->delayed.first_link == NULL);
    weir_limiter_close(current->limiter);
    weir_limiter_close(current->other);
}

static void run_walk(uint64_t seed)
{
    static struct walk walk;
    walk = (struct walk){.seed = seed, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    current = &walk;
    open_walk();
    for (int step = 0; step < STEPS; step++) {
        take_step();
    }
    end_walk(chance(2));
}

static void test_walks(void **state)
{
    (void)state;
    (void)walk_seeds(WALKS, run_walk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walks)};
    return cmocka_run_group_tests_name("port", tests, NULL, NULL);
}
