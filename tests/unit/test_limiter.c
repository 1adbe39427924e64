/* SPDX-License-Identifier: MIT
 *
 * The front door: opening, identities, batches, details, a full table, statistics. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/driver.h"
#include "weir/limiter.h"

#define S UINT64_C(1000000000)

static struct weir_limiter *open_limiter(uint64_t memory_bytes)
{
    const struct weir_limiter_config config = {.memory_bytes = memory_bytes, .seed = {1, 2}};
    struct weir_limiter *limiter;
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return limiter;
}

static struct weir_rule rule_of(const struct weir_limiter *limiter, const char *text)
{
    struct weir_rule rule;
    struct weir_error error;
    if (weir_rule_from_text(&rule, limiter, text, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return rule;
}

static struct weir_decision ask(struct weir_limiter *limiter, const struct weir_rule *rule,
                                const char *key, enum weir_operation operation, uint64_t cost_micro,
                                uint64_t now_ns, struct weir_detail *detail)
{
    const struct weir_request request = {
        .rule = rule,
        .key = key,
        .key_len = strlen(key),
        .cost_micro = cost_micro,
        .operation = operation,
        .detail = detail,
    };
    struct weir_decision decision;
    weir_limiter_decide_at(limiter, &request, &decision, 1, now_ns);
    return decision;
}

static struct weir_decision take(struct weir_limiter *limiter, const struct weir_rule *rule,
                                 const char *key, uint64_t units, uint64_t now_ns)
{
    return weir_limiter_take_at(limiter, rule, key, strlen(key), units * WEIR_UNIT, now_ns);
}

static void test_opens_within_the_range_of_memory_only(void **state)
{
    (void)state;
    static const uint64_t BAD[] = {1, WEIR_MEMORY_BYTES_MIN - 1, WEIR_MEMORY_BYTES_MAX + 1};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        const struct weir_limiter_config config = {.memory_bytes = BAD[i]};
        struct weir_limiter *limiter;
        struct weir_error error;
        assert_int_equal(weir_limiter_open(&limiter, &config, &error), WEIR_E_RANGE);
        assert_null(limiter);
        assert_string_equal(error.message, "the memory must be 64 KiB to 16 TiB");
        assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_E_RANGE);
    }
    weir_limiter_close(open_limiter(WEIR_MEMORY_BYTES_MIN));
    weir_limiter_close(NULL);
}

static void test_uses_no_more_memory_than_it_was_given(void **state)
{
    (void)state;
    static const uint64_t SIZES[] = {WEIR_MEMORY_BYTES_MIN, 100000, 1 << 20, 10000000,
                                     UINT64_C(1) << 28};
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        struct weir_limiter *limiter = open_limiter(SIZES[i]);
        struct weir_limiter_stats stats;
        weir_limiter_stats(limiter, &stats);
        assert_in_range(stats.memory_bytes, SIZES[i] * 3 / 4, SIZES[i]);
        assert_true(stats.slot_count * 43 >= stats.memory_bytes * 4 / 5); // <= 43 bytes a bucket
        assert_int_equal(stats.used_count, 0);
        weir_limiter_close(limiter);
    }
}

/* How many mappings of this process the kernel was asked to make of huge pages. */
static int count_huge_mappings(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        count += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL;
    }
    (void)fclose(maps);
    return count;
}

static void test_asks_for_huge_pages_from_64_mib_on(void **state)
{
    (void)state;
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
        skip(); // this kernel has none
    }
    int before = count_huge_mappings();
    struct weir_limiter *small = open_limiter(UINT64_C(48) << 20);
    assert_int_equal(count_huge_mappings(), before);
    struct weir_limiter *large = open_limiter(UINT64_C(64) << 20);
    assert_int_equal(count_huge_mappings(), before + 1);
    weir_limiter_close(large);
    weir_limiter_close(small);
}

static void test_a_limiter_with_no_seed_draws_one(void **state)
{
    (void)state;
    struct weir_limiter *one;
    struct weir_limiter *two;
    assert_int_equal(weir_limiter_open(&one, NULL, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_open(&two, NULL, NULL), WEIR_OK);
    struct weir_rule first = rule_of(one, "10/s");
    struct weir_rule second = rule_of(two, "10/s");
    assert_memory_not_equal(first.hash_key, second.hash_key, sizeof first.hash_key);
    weir_limiter_close(one);
    weir_limiter_close(two);
}

static void test_the_same_numbers_are_the_same_buckets(void **state)
{
    (void)state;
    static const char *const SAME[] = {"10/s", "600/min capacity=10", "10/s on_full=allow",
                                       "bucket 0.01/ms burst=10", "10/s on_error=allow"};
    static const char *const OTHER[] = {"10/s capacity=11", "11/s capacity=10", "20/s capacity=10",
                                        "10/2s", "10/s capacity=9"};
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_rule rule = rule_of(limiter, "10/s");
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++) {
        struct weir_rule same = rule_of(limiter, SAME[i]);
        struct weir_rule other = rule_of(limiter, OTHER[i]);
        assert_memory_equal(same.hash_key, rule.hash_key, sizeof rule.hash_key);
        assert_memory_not_equal(other.hash_key, rule.hash_key, sizeof rule.hash_key);
    }
    struct weir_rule unused;
    assert_int_equal(weir_rule_from_text(&unused, limiter, "10/x", NULL), WEIR_E_SYNTAX);
    weir_limiter_close(limiter);
}

static void test_names_are_framed(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_limit limit = rule_of(limiter, "10/s").limit;
    struct weir_limit changed = rule_of(limiter, "7/min").limit;
    struct weir_rule rules[6];
    weir_rule_init(&rules[0], limiter, &limit);
    weir_rule_init_named(&rules[1], limiter, &limit, "", 0);
    weir_rule_init_named(&rules[2], limiter, &limit, "a", 1);
    weir_rule_init_named(&rules[3], limiter, &limit, "a\0", 2);
    weir_rule_init_named(&rules[4], limiter, &limit, "ab", 2);
    weir_rule_init_named(&rules[5], limiter, &limit, "b", 1);
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(rules[i].hash_key, rules[j].hash_key, sizeof rules[i].hash_key);
        }
    }
    struct weir_rule again;
    weir_rule_init_named(&again, limiter, &changed, "a", 1);
    assert_memory_equal(again.hash_key, rules[2].hash_key, sizeof again.hash_key);
    weir_limiter_close(limiter);
}

static void test_keys_are_bytes_of_any_length(void **state)
{
    (void)state;
    static char longest[WEIR_KEY_BYTES_MAX];
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_rule rule = rule_of(limiter, "1/h");
    for (size_t length = 1; length <= sizeof longest; length = length * 2 + length % 3) {
        assert_int_equal(
            weir_limiter_take_at(limiter, &rule, longest, length, WEIR_UNIT, S).verdict,
            WEIR_ALLOWED);
        assert_int_equal(
            weir_limiter_take_at(limiter, &rule, longest, length, WEIR_UNIT, S).verdict,
            WEIR_LIMITED);
    }
    assert_int_equal(
        weir_limiter_take_at(limiter, &rule, longest, sizeof longest, WEIR_UNIT, S).verdict,
        WEIR_ALLOWED);
    longest[sizeof longest - 1] = 1; // the last byte counts
    assert_int_equal(
        weir_limiter_take_at(limiter, &rule, longest, sizeof longest, WEIR_UNIT, S).verdict,
        WEIR_ALLOWED);
    weir_limiter_close(limiter);
}

static void test_the_empty_key_and_any_cost_are_answered(void **state)
{
    struct weir_limiter *limiter = open_limiter(WEIR_MEMORY_BYTES_MIN);
    const struct weir_rule rule = rule_of(limiter, "1/s");
    const struct weir_rule all = rule_of(limiter, "1000000000000/s");
    (void)state;
    assert_int_equal(take(limiter, &rule, "", 1, S).verdict, WEIR_ALLOWED);
    assert_int_equal(take(limiter, &rule, "", 1, S).verdict, WEIR_LIMITED);
    assert_int_equal(take(limiter, &rule, "a", 1, S).verdict, WEIR_ALLOWED);
    const uint64_t costs[] = {WEIR_COST_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < 2; i++) {
        struct weir_detail detail;
        assert_int_equal(ask(limiter, &all, "b", WEIR_TAKE, costs[i], S, NULL).verdict, WEIR_NEVER);
        (void)ask(limiter, &rule, "c", WEIR_FILL, costs[i], S, &detail);
        assert_true(detail.full);
        assert_int_equal(ask(limiter, &rule, "c", WEIR_REFUND, costs[i], S, NULL).remaining, 1);
    }
    weir_limiter_close(limiter);
}

static void test_a_batch_is_decided_in_order_at_one_instant(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_rule rule = rule_of(limiter, "10/s capacity=50");
    struct weir_request requests[COUNT];
    struct weir_decision decisions[COUNT];
    char keys[COUNT][8];
    for (size_t i = 0; i < COUNT; i++) { // the same four keys over and over: 50 takes each
        int length = snprintf(keys[i], sizeof keys[i], "key %zu", i % 4);
        requests[i] = (struct weir_request){
            .rule = &rule, .key = keys[i], .key_len = (size_t)length, .cost_micro = WEIR_UNIT};
    }
    weir_limiter_decide_at(limiter, requests, decisions, COUNT, S);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(decisions[i].verdict, WEIR_ALLOWED);
        assert_int_equal(decisions[i].remaining, 49 - i / 4);
    }
    weir_limiter_decide_at(limiter, requests, decisions, 0, S);
    weir_limiter_decide_at(limiter, requests, decisions, 4, S);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(decisions[i].verdict, WEIR_LIMITED);
    }
    weir_limiter_close(limiter);
}

static void test_details_tell_what_a_decision_has_no_room_for(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_rule rule = rule_of(limiter, "3/s capacity=3");
    struct weir_detail detail;
    char text[WEIR_AMOUNT_TEXT_MAX];

    (void)ask(limiter, &rule, "k", WEIR_SHOW, 0, S, &detail);
    assert_false(detail.existed);
    assert_int_equal(detail.empty_at_ns, 0);
    (void)ask(limiter, &rule, "k", WEIR_RESET, 0, S, &detail);
    assert_false(detail.existed);

    (void)ask(limiter, &rule, "k", WEIR_FILL, 4 * WEIR_UNIT, S, &detail);
    assert_true(detail.full);
    (void)weir_amount_print(&detail.amount, text);
    assert_string_equal(text, "1");
    (void)ask(limiter, &rule, "k", WEIR_REFUND, 2 * WEIR_UNIT, S, &detail);

    (void)ask(limiter, &rule, "k", WEIR_SHOW, 0, S, &detail);
    assert_true(detail.existed);
    (void)weir_amount_print(&detail.amount, text);
    assert_string_equal(text, "1");
    assert_int_equal(detail.empty_at_ns, S + 333333334); // rounded up

    (void)ask(limiter, &rule, "k", WEIR_RESET, 0, S, &detail);
    assert_true(detail.existed);
    (void)ask(limiter, &rule, "k", WEIR_RESET, 0, S, NULL);
    weir_limiter_close(limiter);
}

static void test_what_charges_nothing_makes_no_bucket(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_rule rule = rule_of(limiter, "10/s");
    struct weir_limiter_stats stats;
    (void)ask(limiter, &rule, "k", WEIR_CAN_TAKE, WEIR_UNIT, S, NULL);
    (void)ask(limiter, &rule, "k", WEIR_TAKE, 0, S, NULL);
    assert_int_equal(ask(limiter, &rule, "k", WEIR_TAKE, 11 * WEIR_UNIT, S, NULL).verdict,
                     WEIR_NEVER);
    (void)ask(limiter, &rule, "k", WEIR_FILL, 0, S, NULL);
    (void)ask(limiter, &rule, "k", WEIR_REFUND, WEIR_UNIT, S, NULL);
    (void)ask(limiter, &rule, "k", WEIR_SHOW, 0, S, NULL);
    (void)ask(limiter, &rule, "k", WEIR_RESET, 0, S, NULL);
    weir_limiter_stats(limiter, &stats);
    assert_int_equal(stats.used_count, 0);
    (void)ask(limiter, &rule, "k", WEIR_TAKE, WEIR_UNIT, S, NULL);
    weir_limiter_stats(limiter, &stats);
    assert_int_equal(stats.used_count, 1);
    weir_limiter_close(limiter);
}

static uint64_t take_many(struct weir_limiter *limiter, const struct weir_rule *rule,
                          uint64_t count, uint64_t now_ns, enum weir_verdict verdict)
{
    uint64_t matches = 0;
    for (uint64_t i = 0; i < count; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "many %llu", (unsigned long long)i);
        matches += take(limiter, rule, key, 1, now_ns).verdict == verdict;
    }
    return matches;
}

static void test_a_full_table_answers_by_policy_and_counts(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter(WEIR_MEMORY_BYTES_MIN);
    struct weir_rule refuse = rule_of(limiter, "1/h");
    struct weir_rule allow = rule_of(limiter, "1/h on_full=allow");
    struct weir_limiter_stats stats;
    weir_limiter_stats(limiter, &stats);
    uint64_t keys = stats.slot_count * 4;
    uint64_t failed = take_many(limiter, &refuse, keys, S, WEIR_FAILED);
    weir_limiter_stats(limiter, &stats);
    assert_in_range(keys - failed, stats.slot_count * 8 / 10, stats.slot_count);
    assert_int_equal(stats.used_count, keys - failed);
    assert_int_equal(stats.full_count, failed);

    /* Who has a bucket is still limited; who has none is told nothing about time. */
    assert_int_equal(take_many(limiter, &refuse, keys, S, WEIR_LIMITED), keys - failed);
    struct weir_decision decision = {0};
    for (uint64_t i = 0; decision.verdict != WEIR_FAILED; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "more %llu", (unsigned long long)i);
        decision = take(limiter, &refuse, key, 1, S);
    }
    assert_int_equal(decision.capacity, 1);
    assert_int_equal(decision.remaining, 0);
    assert_int_equal(decision.retry_after_ns, -1);
    assert_int_equal(decision.reset_after_ns, -1);
    assert_int_equal(decision.delay_ns, 0);

    /* The same buckets under the other policy: nobody is refused for want of room. */
    assert_int_equal(take_many(limiter, &allow, keys, S, WEIR_FAILED), 0);
    weir_limiter_close(limiter);
}

static void test_what_has_drained_makes_room(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter(WEIR_MEMORY_BYTES_MIN);
    struct weir_rule rule = rule_of(limiter, "1/s");
    struct weir_limiter_stats before;
    struct weir_limiter_stats after;
    weir_limiter_stats(limiter, &before);
    (void)take_many(limiter, &rule, before.slot_count / 2, S, WEIR_ALLOWED);
    weir_limiter_stats(limiter, &before);
    for (uint64_t round = 1; round <= 20; round++) {
        char key[32];
        (void)snprintf(key, sizeof key, "round %llu", (unsigned long long)round);
        for (uint64_t i = 0; i < before.slot_count / 2; i++) {
            char mine[64];
            (void)snprintf(mine, sizeof mine, "%s %llu", key, (unsigned long long)i);
            assert_int_equal(take(limiter, &rule, mine, 1, S + round * 2 * S).verdict,
                             WEIR_ALLOWED);
        }
    }
    weir_limiter_stats(limiter, &after);
    assert_true(after.reused_count > 0);
    assert_int_equal(after.full_count, 0);
    assert_true(after.used_count <= after.slot_count);
    weir_limiter_close(limiter);
}

/* Whatever number the caller has written there: nothing is charged, alone or beside another one. */
static void ask_for_what_does_not_exist(const char *text, int number)
{
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_rule rules[2] = {rule_of(limiter, text), rule_of(limiter, "9/h")};
    struct weir_detail detail = {.existed = true};
    struct weir_request requests[2];
    struct weir_decision decisions[2];
    assert_int_equal(take(limiter, &rules[0], "k", 1, S).verdict, WEIR_ALLOWED);
    for (size_t i = 0; i < 2; i++) {
        requests[i] = (struct weir_request){.rule = &rules[i],
                                            .key = "k",
                                            .key_len = 1,
                                            .cost_micro = WEIR_UNIT,
                                            .operation = (enum weir_operation)number,
                                            .detail = &detail};
    }
    for (size_t count = 1; count <= 2; count++) {
        requests[0].and_next = count == 2;
        weir_limiter_decide_at(limiter, requests, decisions, count, S);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(decisions[i].verdict, WEIR_FAILED);
        }
        assert_false(detail.existed);
        assert_int_equal(ask(limiter, &rules[0], "k", WEIR_SHOW, 0, S, NULL).remaining, 4);
        assert_int_equal(ask(limiter, &rules[1], "k", WEIR_SHOW, 0, S, NULL).remaining, 9);
    }
    weir_limiter_close(limiter);
}

static void test_an_operation_that_does_not_exist_is_an_error(void **state)
{
    (void)state;
    static const int NUMBERS[] = {77, WEIR_UNBLOCK + 1, -1};
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        ask_for_what_does_not_exist("5/h", NUMBERS[i]);
        ask_for_what_does_not_exist("queue 5/h", NUMBERS[i]);
        ask_for_what_does_not_exist("window 5/h", NUMBERS[i]);
    }
}

static void assert_failed(struct weir_decision decision)
{
    assert_int_equal(decision.verdict, WEIR_FAILED);
    assert_int_equal(decision.capacity, 0);
    assert_int_equal(decision.remaining, 0);
    assert_int_equal(decision.retry_after_ns, -1);
    assert_int_equal(decision.reset_after_ns, -1);
    assert_int_equal(decision.delay_ns, 0);
}

/* A limiter whose keys of a rule of zeroes, "there" and "blocked", have buckets: their hash key is zeroes as well, so a
 * compiled limit with that hash key makes them. */
static struct weir_limiter *open_with_buckets_of_zeroes(void)
{
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_rule same = rule_of(limiter, "7/s");
    memset(same.hash_key, 0, sizeof same.hash_key);
    assert_int_equal(weir_limiter_take(limiter, &same, "there", 5, WEIR_UNIT).verdict,
                     WEIR_ALLOWED);
    assert_int_equal(weir_limiter_block(limiter, &same, "blocked", 7, 3600 * S).verdict,
                     WEIR_BLOCKED);
    return limiter;
}

static void test_a_rule_that_could_not_be_read_is_all_zeroes(void **state)
{
    (void)state;
    static const char *const BAD[] = {"10/parsec", "", "0/s", "window 1.5/s", "1/99y"};
    static const struct weir_rule ZEROES = {.hash_key = {0}};
    struct weir_limiter *limiter = open_limiter(1 << 20);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct weir_rule rule;
        memset(&rule, 0xa5, sizeof rule);
        assert_int_not_equal(weir_rule_from_text(&rule, limiter, BAD[i], NULL), WEIR_OK);
        assert_memory_equal(&rule, &ZEROES, sizeof rule);
    }
    weir_limiter_close(limiter);
}

static void test_every_operation_with_a_rule_of_zeroes_is_an_error(void **state)
{
    (void)state;
    static const char *const KEYS[] = {"", "there", "blocked", "new"};
    static const uint64_t COSTS[] = {0, 1, WEIR_UNIT, 2 * WEIR_UNIT, WEIR_COST_MAX, UINT64_MAX};
    static const struct weir_rule ZEROES = {.hash_key = {0}};
    struct weir_limiter *limiter = open_with_buckets_of_zeroes();
    for (size_t i = 0; i < 4; i++) {
        const char *key = KEYS[i];
        size_t key_len = strlen(key);
        for (size_t j = 0; j < sizeof COSTS / sizeof COSTS[0]; j++) {
            for (int operation = WEIR_TAKE; operation <= WEIR_UNBLOCK; operation++) {
                struct weir_detail detail;
                assert_failed(ask(limiter, &ZEROES, key, (enum weir_operation)operation, COSTS[j],
                                  weir_limiter_now_ns(limiter), &detail));
                assert_false(detail.existed);
                assert_false(detail.full);
            }
            assert_failed(weir_limiter_take(limiter, &ZEROES, key, key_len, COSTS[j]));
            assert_failed(weir_limiter_take_at(limiter, &ZEROES, key, key_len, COSTS[j], 5));
            assert_failed(weir_limiter_can_take(limiter, &ZEROES, key, key_len, COSTS[j]));
            assert_failed(weir_limiter_refund(limiter, &ZEROES, key, key_len, COSTS[j]));
            assert_failed(weir_limiter_acquire(limiter, &ZEROES, key, key_len, COSTS[j], 0));
            assert_failed(weir_limiter_acquire(limiter, &ZEROES, key, key_len, COSTS[j], S));
        }
        assert_failed(weir_limiter_block(limiter, &ZEROES, key, key_len, S));
        assert_false(weir_limiter_unblock(limiter, &ZEROES, key, key_len));
    }
    weir_limiter_close(limiter);
}

/* One bad limit among others spoils the take, whether its bucket is there or not, and charges nobody. */
static void test_a_run_with_a_rule_of_zeroes_is_an_error(void **state)
{
    (void)state;
    static const struct weir_rule ZEROES = {.hash_key = {0}};
    struct weir_limiter *limiter = open_with_buckets_of_zeroes();
    struct weir_rule good = rule_of(limiter, "10/d");
    for (uint64_t cost_micro = 0; cost_micro <= WEIR_UNIT; cost_micro += WEIR_UNIT / 2) {
        for (int first = 0; first < 2; first++) {
            struct weir_request requests[3] = {
                {.rule = &good, .key = "k", .key_len = 1, .cost_micro = cost_micro},
                {.rule = &good, .key = "l", .key_len = 1, .cost_micro = cost_micro},
                {.rule = &good, .key = "m", .key_len = 1, .cost_micro = cost_micro},
            };
            struct weir_decision decisions[3];
            requests[first].rule = &ZEROES;
            requests[first].key = "there";
            requests[first].key_len = 5;
            requests[0].and_next = true;
            weir_limiter_decide(limiter, requests, decisions, 3);
            assert_int_equal(decisions[0].verdict, WEIR_FAILED);
            assert_int_equal(decisions[1].verdict, WEIR_FAILED);
            assert_int_equal(decisions[2].verdict, WEIR_ALLOWED); // no part of the run
            weir_limiter_acquire_all(limiter, requests, decisions, 2, S);
            assert_int_equal(decisions[0].verdict, WEIR_FAILED);
            assert_int_equal(decisions[1].verdict, WEIR_FAILED);
        }
    }
    assert_int_equal(weir_limiter_can_take(limiter, &good, "k", 1, 0).remaining, 10);
    assert_int_equal(weir_limiter_can_take(limiter, &good, "l", 1, 0).remaining, 10);
    weir_limiter_close(limiter);
}

static void test_decides_by_its_own_clock(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_rule rule = rule_of(limiter, "1/h");
    assert_int_equal(weir_limiter_can_take(limiter, &rule, "k", 1, WEIR_UNIT).verdict,
                     WEIR_ALLOWED);
    assert_int_equal(weir_limiter_take(limiter, &rule, "k", 1, WEIR_UNIT).verdict, WEIR_ALLOWED);
    struct weir_decision decision = weir_limiter_take(limiter, &rule, "k", 1, WEIR_UNIT);
    assert_int_equal(decision.verdict, WEIR_LIMITED);
    assert_in_range(decision.retry_after_ns, 3590 * S, 3600 * S);
    assert_int_equal(weir_limiter_refund(limiter, &rule, "k", 1, WEIR_UNIT).remaining, 1);
    assert_int_equal(weir_limiter_take(limiter, &rule, "k", 1, WEIR_UNIT).verdict, WEIR_ALLOWED);
    weir_limiter_close(limiter);
}

static void test_readings_beyond_the_last_count_as_the_last(void **state)
{
    (void)state;
    struct weir_limiter *limiter = open_limiter(1 << 20);
    struct weir_rule rule = rule_of(limiter, "1/h");
    assert_int_equal(take(limiter, &rule, "k", 1, UINT64_MAX).verdict, WEIR_ALLOWED);
    assert_int_equal(take(limiter, &rule, "k", 1, WEIR_NOW_NS_MAX).retry_after_ns,
                     (int64_t)(3600 * S));
    assert_int_equal(ask(limiter, &rule, "k", WEIR_SHOW, 0, UINT64_MAX, NULL).reset_after_ns,
                     (int64_t)(3600 * S));
    weir_limiter_close(limiter);
}

static uint64_t wall_ns(void)
{
    struct timespec time;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &time), 0);
    return (uint64_t)time.tv_sec * S + (uint64_t)time.tv_nsec;
}

/* By the real clocks: the window ends at midnight, give or take how long we were interrupted. */
static void test_a_fixed_limit_goes_by_the_wall_clock(void **state)
{
    (void)state;
    static const char *const STORES[] = {"memory:", "memory:?shared=yes"};
    for (size_t i = 0; i < 2; i++) {
        const struct weir_limiter_config config = {.memory_bytes = 1 << 20, .store = STORES[i]};
        struct weir_limiter *limiter;
        assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_OK);
        struct weir_rule rule = rule_of(limiter, "fixed 5/d");
        uint64_t before_ns = wall_ns();
        struct weir_decision decision = weir_limiter_take(limiter, &rule, "k", 1, WEIR_UNIT);
        uint64_t until_ns = wall_ns() + (uint64_t)decision.reset_after_ns;
        const uint64_t day_ns = 86400 * S;
        assert_int_equal(decision.verdict, WEIR_ALLOWED);
        assert_in_range(decision.reset_after_ns, 1, day_ns);
        assert_in_range((until_ns + S / 100) % day_ns, 0, S / 50 + wall_ns() - before_ns);
        weir_limiter_close(limiter);
    }
}

static void test_readings_of_the_callers_clock_are_utc(void **state)
{
    (void)state;
    const struct weir_limiter_config config = {.memory_bytes = 1 << 20, .caller_clock = true};
    struct weir_limiter *limiter;
    assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_OK);
    struct weir_rule rule = rule_of(limiter, "fixed 5/d");
    assert_int_equal(take(limiter, &rule, "k", 1, 3600 * S).reset_after_ns, 23 * 3600 * S);
    weir_limiter_close(limiter);
}

/* ---- a store that can do nothing but decide ---- */

static void allow_all(struct store *store, const struct weir_request *requests,
                      struct weir_decision *decisions, size_t count, uint64_t now_ns)
{
    (void)store, (void)requests, (void)now_ns;
    for (size_t i = 0; i < count; i++) {
        decisions[i] = (struct weir_decision){.verdict = WEIR_ALLOWED};
    }
}

static uint64_t no_time(const struct store *store)
{
    (void)store;
    return S;
}

static enum weir_status all_is_well(struct store *store)
{
    (void)store;
    return WEIR_OK;
}

static void close_nothing(struct store *store)
{
    (void)store;
}

static enum weir_status read_bare(const char *url, char path[STORE_PATH_MAX],
                                  struct weir_error *error)
{
    (void)url, (void)path, (void)error;
    return WEIR_OK;
}

static enum weir_status open_bare(struct store **store, const char *url,
                                  struct store_settings *settings, struct weir_error *error)
{
    static const struct store_ops OPS = {
        .decide = allow_all, .now_ns = no_time, .status = all_is_well, .close = close_nothing};
    static struct store bare = {.ops = &OPS};
    (void)url, (void)settings, (void)error;
    *store = &bare;
    return WEIR_OK;
}

static void test_nobody_waits_over_a_store_without_lines(void **state)
{
    (void)state;
    static const struct weir_store_driver BARE = {
        .scheme = "bare:", .form = "bare:", .read = read_bare, .open = open_bare};
    const struct weir_store_driver *const drivers[] = {&BARE, NULL};
    const struct weir_limiter_config config = {.store = "bare:", .drivers = drivers};
    struct weir_limiter *limiter;
    assert_int_equal(weir_limiter_open(&limiter, &config, NULL), WEIR_OK);
    struct weir_rule rule = rule_of(limiter, "1/s");
    assert_int_equal(weir_limiter_can_take(limiter, &rule, "k", 1, WEIR_UNIT).verdict,
                     WEIR_ALLOWED);
    assert_int_equal(weir_limiter_acquire(limiter, &rule, "k", 1, WEIR_UNIT, S).verdict,
                     WEIR_FAILED);
    weir_limiter_close(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_within_the_range_of_memory_only),
        cmocka_unit_test(test_uses_no_more_memory_than_it_was_given),
        cmocka_unit_test(test_asks_for_huge_pages_from_64_mib_on),
        cmocka_unit_test(test_a_limiter_with_no_seed_draws_one),
        cmocka_unit_test(test_the_same_numbers_are_the_same_buckets),
        cmocka_unit_test(test_names_are_framed),
        cmocka_unit_test(test_keys_are_bytes_of_any_length),
        cmocka_unit_test(test_the_empty_key_and_any_cost_are_answered),
        cmocka_unit_test(test_a_batch_is_decided_in_order_at_one_instant),
        cmocka_unit_test(test_details_tell_what_a_decision_has_no_room_for),
        cmocka_unit_test(test_what_charges_nothing_makes_no_bucket),
        cmocka_unit_test(test_a_full_table_answers_by_policy_and_counts),
        cmocka_unit_test(test_what_has_drained_makes_room),
        cmocka_unit_test(test_an_operation_that_does_not_exist_is_an_error),
        cmocka_unit_test(test_a_rule_that_could_not_be_read_is_all_zeroes),
        cmocka_unit_test(test_every_operation_with_a_rule_of_zeroes_is_an_error),
        cmocka_unit_test(test_a_run_with_a_rule_of_zeroes_is_an_error),
        cmocka_unit_test(test_decides_by_its_own_clock),
        cmocka_unit_test(test_readings_beyond_the_last_count_as_the_last),
        cmocka_unit_test(test_a_fixed_limit_goes_by_the_wall_clock),
        cmocka_unit_test(test_readings_of_the_callers_clock_are_utc),
        cmocka_unit_test(test_nobody_waits_over_a_store_without_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
