/* SPDX-License-Identifier: MIT
 *
 * Several limits in one take, in one thread: all or nothing, and what each of them says. What threads do to
 * each other is in tests/concurrency/, what a death leaves behind in tests/processes/. */
#include "../support/small_table.h"

#include "core/bucket_math.h"
#include "weir/weir.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

enum { RULES = 4, KEYS = 3 };

static struct weir_limiter *open_limiter(void)
{
    struct weir_limiter_config config = {.memory_bytes = 1 << 20, .caller_clock = true};
    struct weir_limiter *limiter;
    assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_OK);
    return limiter;
}

static struct weir_rule rule_of(const struct weir_limiter *limiter, const char *text)
{
    struct weir_rule rule;
    struct weir_error error;
    if (weir_rule_from_text(&rule, limiter, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
    return rule;
}

static struct weir_request take_of(const struct weir_rule *rule, const char *key, uint64_t cost)
{
    return (struct weir_request){
        .rule = rule, .key = key, .key_len = strlen(key), .cost_micro = cost * WEIR_UNIT};
}

/* Asks all of them together. */
static struct weir_decision decide(struct weir_limiter *limiter, struct weir_request *requests,
                                   struct weir_decision *each, size_t count, uint64_t now_ns,
                                   int *binding)
{
    for (size_t i = 0; i < count; i++) {
        requests[i].and_next = i + 1 < count;
    }
    weir_limiter_decide_at(limiter, requests, each, count, now_ns);
    return weir_decision_of_all(each, count, binding);
}

static uint64_t left(struct weir_limiter *limiter, const struct weir_rule *rule, const char *key,
                     uint64_t now_ns)
{
    struct weir_request show = take_of(rule, key, 0);
    struct weir_decision decision;
    show.operation = WEIR_SHOW;
    weir_limiter_decide_at(limiter, &show, &decision, 1, now_ns);
    return decision.remaining;
}

static void test_all_are_charged_or_none(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule few = rule_of(limiter, "2/s");
    struct weir_rule many = rule_of(limiter, "5/min");
    struct weir_decision each[2];
    int binding;
    for (int turn = 0; turn < 3; turn++) {
        struct weir_request requests[2] = {take_of(&few, "a", 1), take_of(&many, "a", 1)};
        struct weir_decision all = decide(limiter, requests, each, 2, S, &binding);
        uint64_t taken = turn < 2 ? (uint64_t)turn + 1 : 2;
        assert_int_equal(all.verdict, turn < 2 ? WEIR_ALLOWED : WEIR_LIMITED);
        assert_int_equal(binding, turn < 2 ? -1 : 0);
        assert_int_equal(each[0].remaining, 2 - taken);
        assert_int_equal(each[1].remaining, 5 - taken); // as it is, where nothing is charged
        assert_int_equal(each[1].verdict, WEIR_ALLOWED);
        assert_int_equal(all.retry_after_ns, turn < 2 ? -1 : (int64_t)(500 * MS));
        assert_int_equal(left(limiter, &few, "a", S), 2 - taken);
        assert_int_equal(left(limiter, &many, "a", S), 5 - taken);
    }
    weir_limiter_close(limiter);
}

static void test_the_last_can_refuse_too(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule few = rule_of(limiter, "1/s");
    struct weir_rule many = rule_of(limiter, "5/min");
    struct weir_request requests[2] = {take_of(&many, "a", 1), take_of(&few, "all", 1)};
    struct weir_decision each[2];
    int binding;
    assert_int_equal(decide(limiter, requests, each, 2, S, NULL).verdict, WEIR_ALLOWED);
    assert_int_equal(decide(limiter, requests, each, 2, S, &binding).verdict, WEIR_LIMITED);
    assert_int_equal(binding, 1);
    assert_int_equal(left(limiter, &many, "a", S), 4);
    weir_limiter_close(limiter);
}

static void test_a_refusal_makes_no_bucket(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule few = rule_of(limiter, "1/s");
    struct weir_rule many = rule_of(limiter, "5/min");
    struct weir_decision each[2];
    struct weir_limiter_stats stats;
    struct weir_request first[2] = {take_of(&many, "a", 1), take_of(&few, "all", 1)};
    assert_int_equal(decide(limiter, first, each, 2, S, NULL).verdict, WEIR_ALLOWED);
    struct weir_request next[2] = {take_of(&many, "b", 1), take_of(&few, "all", 1)};
    assert_int_equal(decide(limiter, next, each, 2, S, NULL).verdict, WEIR_LIMITED);
    assert_int_equal(each[0].verdict, WEIR_ALLOWED);
    assert_int_equal(each[0].remaining, 5);
    weir_limiter_stats(limiter, &stats);
    assert_int_equal(stats.used_count, 2);
    weir_limiter_close(limiter);
}

static void test_can_take_charges_nothing(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule few = rule_of(limiter, "2/s");
    struct weir_rule many = rule_of(limiter, "5/min");
    struct weir_decision each[2];
    for (int turn = 0; turn < 3; turn++) {
        struct weir_request requests[2] = {take_of(&few, "a", 2), take_of(&many, "a", 2)};
        requests[0].operation = requests[1].operation = WEIR_CAN_TAKE;
        assert_int_equal(decide(limiter, requests, each, 2, S, NULL).verdict, WEIR_ALLOWED);
        assert_int_equal(each[0].remaining, 0); // as a take would say
        assert_int_equal(each[1].remaining, 3);
    }
    struct weir_limiter_stats stats;
    weir_limiter_stats(limiter, &stats);
    assert_int_equal(stats.used_count, 0);
    weir_limiter_close(limiter);
}

static void test_never_comes_before_limited(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule few = rule_of(limiter, "2/s");
    struct weir_rule many = rule_of(limiter, "5/min");
    struct weir_decision each[2];
    int binding;
    struct weir_request fill[2] = {take_of(&few, "a", 1), take_of(&many, "a", 5)};
    assert_int_equal(decide(limiter, fill, each, 2, S, NULL).verdict, WEIR_ALLOWED);
    struct weir_request more[2] = {take_of(&many, "a", 3), take_of(&few, "a", 3)};
    struct weir_decision all = decide(limiter, more, each, 2, S, &binding);
    assert_int_equal(all.verdict, WEIR_NEVER);
    assert_int_equal(all.retry_after_ns, -1);
    assert_int_equal(binding, 1);
    assert_int_equal(each[0].verdict, WEIR_LIMITED);
    assert_int_equal(left(limiter, &few, "a", S), 1);
    weir_limiter_close(limiter);
}

static void test_shadow_refuses_nothing_and_is_then_not_charged(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule few = rule_of(limiter, "1/s");
    struct weir_rule many = rule_of(limiter, "5/min");
    struct weir_decision each[2];
    for (uint64_t turn = 1; turn <= 5; turn++) {
        struct weir_request requests[2] = {take_of(&few, "a", 1), take_of(&many, "a", 1)};
        requests[0].shadow = true;
        (void)decide(limiter, requests, each, 2, S, NULL);
        assert_int_equal(each[0].verdict, turn == 1 ? WEIR_ALLOWED : WEIR_LIMITED);
        assert_int_equal(each[0].retry_after_ns, turn == 1 ? -1 : (int64_t)S);
        assert_int_equal(each[1].verdict, WEIR_ALLOWED);
        assert_int_equal(each[1].remaining, 5 - turn);
    }
    /* Refused by another one, it is not charged either. */
    struct weir_request requests[2] = {take_of(&few, "b", 1), take_of(&many, "a", 1)};
    requests[0].shadow = true;
    (void)decide(limiter, requests, each, 2, S, NULL);
    assert_int_equal(each[1].verdict, WEIR_LIMITED);
    assert_int_equal(left(limiter, &few, "b", S), 1);
    weir_limiter_close(limiter);
}

static void test_the_one_answer_leaves_shadows_out(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule few = rule_of(limiter, "1/h");
    struct weir_rule many = rule_of(limiter, "3/s");
    struct weir_decision each[2], all;
    int binding;
    for (uint64_t turn = 1; turn <= 3; turn++) {
        struct weir_request requests[2] = {take_of(&few, "a", 1), take_of(&many, "a", 1)};
        requests[0].shadow = true;
        (void)decide(limiter, requests, each, 2, S, NULL);
        all = weir_decision_of_run(requests, each, 2, &binding);
        assert_int_equal(all.verdict, WEIR_ALLOWED);
        assert_int_equal(all.capacity, 3);
        assert_int_equal(all.remaining, 3 - turn); // not that of the one with less
        assert_int_equal(binding, -1);
    }
    struct weir_request requests[2] = {take_of(&few, "a", 1), take_of(&many, "a", 1)};
    requests[0].shadow = true;
    (void)decide(limiter, requests, each, 2, S, NULL);
    all = weir_decision_of_run(requests, each, 2, &binding);
    assert_int_equal(all.verdict, WEIR_LIMITED);
    assert_int_equal(binding, 1);                               // among all that were asked
    assert_int_equal(all.retry_after_ns, (int64_t)(S / 3 + 1)); // not the hour
    assert_int_equal(weir_decision_of_all(each, 2, &binding).retry_after_ns,
                     (int64_t)(3600 * S)); // which does not know them
    assert_int_equal(binding, 0);
    weir_limiter_close(limiter);
}

static void test_where_all_are_in_shadow_it_is_allowed(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule small = rule_of(limiter, "1/h");
    struct weir_rule queue = rule_of(limiter, "queue 1/min capacity=5");
    struct weir_request requests[2] = {take_of(&queue, "a", 1), take_of(&small, "a", 2)};
    struct weir_decision each[2], all;
    int binding = 5;
    requests[0].shadow = requests[1].shadow = true;
    (void)decide(limiter, requests, each, 2, S, NULL);
    assert_int_equal(each[0].verdict, WEIR_ALLOWED);
    assert_int_equal(each[0].delay_ns, (int64_t)(60 * S));
    assert_int_equal(each[1].verdict, WEIR_NEVER);
    all = weir_decision_of_run(requests, each, 2, &binding);
    assert_int_equal(all.verdict, WEIR_ALLOWED);
    assert_int_equal(all.capacity, 1); // that with the least remaining
    assert_int_equal(all.retry_after_ns, -1);
    assert_int_equal(all.delay_ns, 0);
    assert_int_equal(binding, -1);
    weir_limiter_close(limiter);
}

static void test_a_shadow_alone_says_what_it_would_and_is_waited_for_by_nobody(void **state)
{
    (void)state;
    struct weir_limiter *limiter;
    assert_int_equal(weir_limiter_open(&limiter, NULL, NULL),
                     WEIR_OK);                         // its own clock: it would wait
    struct weir_rule rule = rule_of(limiter, "1/10s"); // it would be let in after that
    struct weir_request request = take_of(&rule, "a", 1);
    struct weir_decision decision;
    int binding;
    request.shadow = true;
    for (int turn = 0; turn < 2; turn++) { // the first is charged
        weir_limiter_acquire_all(limiter, &request, &decision, 1, 60 * S);
        assert_int_equal(decision.verdict, turn == 0 ? WEIR_ALLOWED : WEIR_LIMITED);
        assert_int_equal(decision.remaining, 0);
        assert_int_equal(weir_decision_of_run(&request, &decision, 1, &binding).verdict,
                         WEIR_ALLOWED);
        assert_int_equal(binding, -1);
    }
    weir_limiter_close(limiter);
}

static void test_a_shadow_locks_out_alone_and_not_among_others(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule rule = rule_of(limiter, "1/s block=1h");
    struct weir_rule many = rule_of(limiter, "5/min");
    struct weir_decision each[2];
    int binding;
    for (int turn = 0; turn < 3; turn++) {
        struct weir_request requests[2] = {take_of(&rule, "a", 1), take_of(&many, "a", 1)};
        requests[0].shadow = true;
        (void)decide(limiter, requests, each, 2, S, NULL);
        assert_int_equal(each[0].verdict, turn == 0 ? WEIR_ALLOWED : WEIR_LIMITED);
    }
    static const enum weir_verdict ALONE[] = {WEIR_LIMITED, WEIR_BLOCKED, WEIR_BLOCKED};
    for (int turn = 0; turn < 3; turn++) {
        struct weir_request request = take_of(&rule, "a", 1);
        request.shadow = true;
        weir_limiter_decide_at(limiter, &request, each, 1, S);
        assert_int_equal(each[0].verdict, ALONE[turn]);
        assert_int_equal(weir_decision_of_run(&request, each, 1, &binding).verdict, WEIR_ALLOWED);
    }
    /* And so it is blocked among others, whom it does not keep from passing. */
    struct weir_request requests[2] = {take_of(&rule, "a", 1), take_of(&many, "a", 1)};
    requests[0].shadow = true;
    (void)decide(limiter, requests, each, 2, S, NULL);
    assert_int_equal(each[0].verdict, WEIR_BLOCKED);
    assert_int_equal(weir_decision_of_run(requests, each, 2, &binding).verdict, WEIR_ALLOWED);
    assert_int_equal(left(limiter, &many, "a", S), 1);
    weir_limiter_close(limiter);
}

static void test_sixteen_are_together_and_seventeen_are_an_error(void **state)
{
    (void)state;
    enum { MANY = 40 };
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule rule = rule_of(limiter, "2/s");
    struct weir_request requests[MANY];
    struct weir_decision each[MANY];
    char keys[MANY][3];
    for (int i = 0; i < MANY; i++) {
        keys[i][0] = (char)('a' + i / 10);
        keys[i][1] = (char)('0' + i % 10);
        keys[i][2] = '\0';
        requests[i] = take_of(&rule, keys[i], 1);
    }
    for (size_t count = 2; count <= MANY; count++) {
        bool is_good = count <= WEIR_TOGETHER_MAX;
        (void)decide(limiter, requests, each, count, count * S, NULL);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(each[i].verdict, is_good ? WEIR_ALLOWED : WEIR_FAILED);
            assert_int_equal(left(limiter, &rule, keys[i], count * S), is_good ? 1 : 2);
        }
    }
    weir_limiter_close(limiter);
}

static void test_the_same_bucket_twice_is_an_error(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule rule = rule_of(limiter, "10/s");
    struct weir_rule same = rule_of(limiter, "600/min capacity=10");
    struct weir_rule other = rule_of(limiter, "11/s");
    struct weir_decision each[3];
    struct weir_request requests[3] = {take_of(&rule, "a", 1), take_of(&other, "a", 1),
                                       take_of(&same, "a", 1)};
    (void)decide(limiter, requests, each, 3, S, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(each[i].verdict, WEIR_FAILED);
    }
    assert_int_equal(left(limiter, &rule, "a", S), 10);
    assert_int_equal(left(limiter, &other, "a", S), 11);
    weir_limiter_close(limiter);
}

static void test_only_takes_can_be_together(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule few = rule_of(limiter, "2/s");
    struct weir_rule many = rule_of(limiter, "5/min");
    struct weir_decision each[2];
    for (int a = WEIR_TAKE; a <= WEIR_RESET; a++) {
        for (int b = WEIR_TAKE; b <= WEIR_RESET; b++) {
            struct weir_request requests[2] = {take_of(&few, "a", 1), take_of(&many, "a", 1)};
            bool is_good = a == b && (a == WEIR_TAKE || a == WEIR_CAN_TAKE);
            requests[0].operation = (enum weir_operation)a;
            requests[1].operation = (enum weir_operation)b;
            (void)decide(limiter, requests, each, 2, S, NULL);
            assert_int_equal(each[0].verdict, is_good ? WEIR_ALLOWED : WEIR_FAILED);
            assert_int_equal(each[1].verdict, is_good ? WEIR_ALLOWED : WEIR_FAILED);
        }
    }
    assert_int_equal(left(limiter, &few, "a", S), 1);
    weir_limiter_close(limiter);
}

static void test_a_delay_is_the_longest(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule edge = rule_of(limiter, "10/s");
    struct weir_rule queue = rule_of(limiter, "queue 5/s capacity=3");
    struct weir_decision each[2];
    for (int turn = 1; turn <= 4; turn++) {
        struct weir_request requests[2] = {take_of(&edge, "a", 1), take_of(&queue, "a", 1)};
        struct weir_decision all = decide(limiter, requests, each, 2, S, NULL);
        assert_int_equal(all.verdict, turn <= 3 ? WEIR_ALLOWED : WEIR_LIMITED);
        assert_int_equal(all.delay_ns, turn <= 3 ? turn * (int)(200 * MS) : 0);
        assert_int_equal(all.remaining, turn <= 3 ? 3 - turn : 0);
    }
    assert_int_equal(left(limiter, &edge, "a", S), 7);
    weir_limiter_close(limiter);
}

/* ---- a table of one stripe, so that hashes can be chosen ---- */

static void take_small(struct small *small, const struct weir_rule *rules, const uint64_t *hashes,
                       struct weir_decision *each, size_t count, uint64_t now_ns)
{
    struct weir_request requests[WEIR_TOGETHER_MAX];
    for (size_t i = 0; i < count; i++) {
        requests[i] = (struct weir_request){.rule = &rules[i], .cost_micro = WEIR_UNIT};
    }
    table_decide_together(&small->table, requests, hashes, each, count, now_ns);
}

static uint64_t empty_at(struct small *small, uint64_t hash)
{
    struct found found;
    if (!table_find(&small->table, hash, table_home_of(&small->table, hash), &found)) {
        return 0;
    }
    assert_int_equal(found.seen.word & BUCKET_FLAGS, 0); // no mark stays
    return found.seen.empty_at_ns;
}

/* Two slots for three buckets: the first and the last find room. */
static void test_where_there_is_no_room_on_full_of_that_limit_answers(void **state)
{
    (void)state;
    const enum weir_on_full ANSWERS[] = {WEIR_ON_FULL_REFUSE, WEIR_ON_FULL_ALLOW};
    for (int i = 0; i < 2; i++) {
        struct small *small = open_small(1, NULL);
        struct weir_rule rules[3];
        struct weir_decision each[3];
        uint64_t hashes[3] = {hash_at(0, 1, 1), hash_at(0, 2, 2), hash_at(0, 3, 3)};
        bool is_let = ANSWERS[i] == WEIR_ON_FULL_ALLOW;
        for (int j = 0; j < 3; j++) {
            rules[j] = small_rule("1/s capacity=5");
        }
        rules[2].limit.on_full = (uint8_t)ANSWERS[i];
        take_small(small, rules, hashes, each, 3, S);
        assert_int_equal(each[0].verdict, WEIR_ALLOWED);
        assert_int_equal(each[2].verdict, is_let ? WEIR_ALLOWED : WEIR_FAILED);
        assert_int_equal(each[0].remaining, is_let ? 4 : 5);
        assert_int_equal(each[2].remaining, is_let ? 4 : 0);
        assert_int_equal(empty_at(small, hashes[0]), is_let ? 2 * S : S);
        assert_int_equal(empty_at(small, hashes[1]), is_let ? 2 * S : S);
        assert_int_equal(empty_at(small, hashes[2]), 0);
        assert_int_equal(small->stripes[0].full_count, 1);
        free(small);
    }
}

/* One line, two slots, one stripe: who makes the second bucket must not take the slot of the first, which
 * is empty too, and marked. */
static void test_two_in_one_line(void **state)
{
    (void)state;
    struct small *small = open_small(1, NULL);
    struct weir_rule rules[2] = {small_rule("1/s capacity=5"), small_rule("1/s capacity=5")};
    uint64_t hashes[2] = {hash_at(0, 1, 1), hash_at(0, 2, 2)};
    uint64_t others[2] = {hash_at(0, 3, 3), hash_at(0, 4, 4)};
    struct weir_decision each[2];
    take_small(small, rules, hashes, each, 2, S);
    assert_int_equal(empty_at(small, hashes[0]), 2 * S);
    assert_int_equal(empty_at(small, hashes[1]), 2 * S);
    take_small(small, rules, others, each, 2, 2 * S + 1); // in the slots of those
    assert_int_equal(empty_at(small, hashes[0]), 0);
    assert_int_equal(empty_at(small, hashes[1]), 0);
    assert_int_equal(empty_at(small, others[0]), 3 * S + 1);
    assert_int_equal(empty_at(small, others[1]), 3 * S + 1);
    take_small(small, rules, others, each, 2, 2 * S + 1);
    assert_int_equal(each[0].remaining, 3);
    assert_int_equal(small->stripes[0].reused_count, 2);
    free(small);
}

static void test_displaced_ones_are_charged_too(void **state)
{
    (void)state;
    struct small *small = open_small(RING, NULL);
    struct weir_rule rules[9];
    uint64_t hashes[9];
    struct weir_decision each[9];
    for (uint64_t i = 0; i < 9; i++) { // all at home in one line, which has two slots
        rules[i] = small_rule("1/s capacity=5");
        hashes[i] = hash_at(7, i + 1, i + 1);
    }
    for (uint64_t turn = 1; turn <= 6; turn++) {
        take_small(small, rules, hashes, each, 9, S);
        for (int i = 0; i < 9; i++) {
            assert_int_equal(each[i].verdict, turn <= 5 ? WEIR_ALLOWED : WEIR_LIMITED);
            assert_int_equal(empty_at(small, hashes[i]), (turn <= 5 ? 1 + turn : 6) * S);
        }
    }
    free(small);
}

/* ---- beside a model ---- */

/* Each bucket of the core's own; a run charges copies, and keeps them if all allow. */
struct model {
    struct weir_bucket buckets[RULES][KEYS];
};

struct question {
    int rule, key;
    bool shadow;
    uint64_t cost_micro;
};

static void model_run(struct model *model, const struct weir_rule *rules,
                      const struct question *questions, struct weir_decision *decisions,
                      size_t count, bool is_take, uint64_t now_ns)
{
    struct model before = *model;
    bool agree = true;
    for (size_t i = 0; i < count; i++) {
        const struct question *question = &questions[i];
        struct weir_bucket *bucket = &model->buckets[question->rule][question->key];
        decisions[i] =
            weir_bucket_take(bucket, &rules[question->rule].limit, question->cost_micro, now_ns);
        agree = agree && (question->shadow || decisions[i].verdict == WEIR_ALLOWED);
    }
    if (!agree || !is_take) {
        *model = before;
    }
    for (size_t i = 0; i < count && !agree; i++) {
        const struct question *question = &questions[i];
        if (decisions[i].verdict == WEIR_ALLOWED) {
            decisions[i] = weir_bucket_show(&before.buckets[question->rule][question->key],
                                            &rules[question->rule].limit, now_ns, NULL);
        }
    }
}

static void test_random_runs_are_what_the_core_says(void **state)
{
    (void)state;
    static const char *const TEXTS[RULES] = {"7/3s capacity=6", "10/s", "queue 5/s capacity=8",
                                             "stepped 3/2s capacity=6"};
    static const char *const NAMES[KEYS] = {"a", "b", "c"};
    struct weir_limiter *limiter = open_limiter();
    struct weir_rule rules[RULES];
    struct model model;
    uint64_t random = 1;
    uint64_t now_ns = S;
    size_t allowed_count = 0;
    memset(&model, 0, sizeof model);
    for (int i = 0; i < RULES; i++) {
        rules[i] = rule_of(limiter, TEXTS[i]);
    }
    for (int turn = 0; turn < 100000; turn++) {
        struct question questions[RULES * KEYS];
        struct weir_request requests[RULES * KEYS];
        struct weir_decision is[RULES * KEYS], expected[RULES * KEYS];
        size_t count = 0;
        bool is_take = next_random(&random) % 4 != 0;
        uint64_t chosen = next_random(&random) & next_random(&random);
        for (int i = 0; i < RULES * KEYS; i++) {
            if ((chosen >> i & 1) == 0) {
                continue;
            }
            struct question *question = &questions[count];
            *question = (struct question){i / KEYS, i % KEYS, next_random(&random) % 8 == 0,
                                          next_random(&random) % (3 * WEIR_UNIT)};
            requests[count] = (struct weir_request){
                .rule = &rules[question->rule],
                .key = NAMES[question->key],
                .key_len = 1,
                .cost_micro = question->cost_micro,
                .operation = is_take ? WEIR_TAKE : WEIR_CAN_TAKE,
                .and_next = true,
                .shadow = question->shadow,
            };
            count++;
        }
        if (count < 2) {
            continue;
        }
        requests[count - 1].and_next = false;
        now_ns += next_random(&random) % (300 * MS);
        weir_limiter_decide_at(limiter, requests, is, count, now_ns);
        model_run(&model, rules, questions, expected, count, is_take, now_ns);
        for (size_t i = 0; i < count; i++) {
            assert_same(&is[i], &expected[i]);
            allowed_count += is[i].verdict == WEIR_ALLOWED && is_take;
        }
    }
    assert_in_range(allowed_count, 50000, 400000); // a mixture
    weir_limiter_close(limiter);
}

/* Runs of random lengths, some too long, in batches of random lengths: as if asked one run at a time. */
static void test_runs_in_a_batch_are_not_divided(void **state)
{
    (void)state;
    enum { BATCH_MAX = 150 };
    struct weir_limiter *together = open_limiter();
    struct weir_limiter *single = open_limiter();
    struct weir_rule rules[2] = {rule_of(together, "7/3s capacity=6"),
                                 rule_of(single, "7/3s capacity=6")};
    uint64_t random = 7;
    for (uint64_t turn = 0; turn < 3000; turn++) {
        struct weir_request requests[BATCH_MAX];
        struct weir_decision many[BATCH_MAX], each[BATCH_MAX];
        uint32_t keys[BATCH_MAX];
        size_t count = 1 + next_random(&random) % BATCH_MAX;
        uint64_t longer = next_random(&random) % 24;
        for (size_t i = 0; i < count; i++) {
            keys[i] = (uint32_t)(next_random(&random) % 5000);
            requests[i] =
                (struct weir_request){.rule = &rules[0],
                                      .key = &keys[i],
                                      .key_len = sizeof keys[i],
                                      .cost_micro = next_random(&random) % (4 * WEIR_UNIT),
                                      .and_next = next_random(&random) % 24 < longer};
        }
        weir_limiter_decide_at(together, requests, many, count, S + turn * 100 * MS);
        for (size_t at = 0, length; at < count; at += length) {
            length = 1;
            while (requests[at + length - 1].and_next && at + length < count) {
                length++;
            }
            for (size_t i = at; i < at + length; i++) {
                requests[i].rule = &rules[1];
            }
            weir_limiter_decide_at(single, requests + at, each + at, length, S + turn * 100 * MS);
        }
        for (size_t i = 0; i < count; i++) {
            assert_same(&many[i], &each[i]);
        }
    }
    weir_limiter_close(together);
    weir_limiter_close(single);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_charged_or_none),
        cmocka_unit_test(test_the_last_can_refuse_too),
        cmocka_unit_test(test_a_refusal_makes_no_bucket),
        cmocka_unit_test(test_can_take_charges_nothing),
        cmocka_unit_test(test_never_comes_before_limited),
        cmocka_unit_test(test_shadow_refuses_nothing_and_is_then_not_charged),
        cmocka_unit_test(test_the_one_answer_leaves_shadows_out),
        cmocka_unit_test(test_where_all_are_in_shadow_it_is_allowed),
        cmocka_unit_test(test_a_shadow_alone_says_what_it_would_and_is_waited_for_by_nobody),
        cmocka_unit_test(test_a_shadow_locks_out_alone_and_not_among_others),
        cmocka_unit_test(test_sixteen_are_together_and_seventeen_are_an_error),
        cmocka_unit_test(test_the_same_bucket_twice_is_an_error),
        cmocka_unit_test(test_only_takes_can_be_together),
        cmocka_unit_test(test_a_delay_is_the_longest),
        cmocka_unit_test(test_where_there_is_no_room_on_full_of_that_limit_answers),
        cmocka_unit_test(test_two_in_one_line),
        cmocka_unit_test(test_displaced_ones_are_charged_too),
        cmocka_unit_test(test_random_runs_are_what_the_core_says),
        cmocka_unit_test(test_runs_in_a_batch_are_not_divided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
