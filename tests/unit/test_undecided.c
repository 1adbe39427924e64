/* SPDX-License-Identifier: MIT
 *
 * Answers where no store can decide: by on_error of each limit, and then as an empty bucket answers. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/undecided.h"
#include "weir/limiter.h"

#define NOW_NS (UINT64_C(1790000000) * UINT64_C(1000000000) + 123456789) // in September 2026

static struct weir_limiter *limiter;

static int open_limiter(void **state)
{
    (void)state;
    const struct weir_limiter_config config = {
        .memory_bytes = 1 << 20, .seed = {1, 2}, .caller_clock = true};
    return weir_limiter_open(&limiter, &config, NULL) == WEIR_OK ? 0 : -1;
}

static int close_limiter(void **state)
{
    (void)state;
    weir_limiter_close(limiter);
    return 0;
}

static struct weir_rule rule_of(const char *text)
{
    struct weir_rule rule;
    struct weir_error error;
    if (weir_rule_from_text(&rule, limiter, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
    return rule;
}

static struct weir_request request_of(const struct weir_rule *rule, enum weir_operation operation,
                                      uint64_t cost_micro)
{
    return (struct weir_request){
        .rule = rule, .key = "k", .key_len = 1, .cost_micro = cost_micro, .operation = operation};
}

/* A take of 1. */
static struct weir_request take_of(const struct weir_rule *rule, const char *key)
{
    return (struct weir_request){
        .rule = rule, .key = key, .key_len = strlen(key), .cost_micro = WEIR_UNIT};
}

static void assert_same(const struct weir_decision *a, const struct weir_decision *b,
                        const char *what)
{
    if (a->verdict != b->verdict || a->capacity != b->capacity || a->remaining != b->remaining
        || a->retry_after_ns != b->retry_after_ns || a->reset_after_ns != b->reset_after_ns
        || a->delay_ns != b->delay_ns) {
        fail_msg("%s: %s remaining %llu reset %lld delay %lld, and not %s %llu %lld %lld", what,
                 weir_verdict_word(a->verdict), (unsigned long long)a->remaining,
                 (long long)a->reset_after_ns, (long long)a->delay_ns,
                 weir_verdict_word(b->verdict), (unsigned long long)b->remaining,
                 (long long)b->reset_after_ns, (long long)b->delay_ns);
    }
}

static void assert_failed(const struct weir_decision *decision, uint64_t capacity)
{
    const struct weir_decision failed = {
        .verdict = WEIR_FAILED, .capacity = capacity, .retry_after_ns = -1, .reset_after_ns = -1};
    assert_same(decision, &failed, "an error");
}

/* ---- one request ---- */

static const enum weir_operation ALL[] = {WEIR_TAKE,   WEIR_CAN_TAKE, WEIR_FILL,
                                          WEIR_REFUND, WEIR_SHOW,     WEIR_RESET,
                                          WEIR_BLOCK,  WEIR_UNBLOCK,  (enum weir_operation)77};
enum { ALL_COUNT = sizeof ALL / sizeof ALL[0], PASSING_COUNT = 3 };

/* Also what on_full allows: the store is not full, it is not there. */
static void test_a_limit_refuses_unless_it_says_otherwise(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"5/s", "5/s on_error=refuse", "5/s on_full=allow",
                                        "window 5/s on_full=evict"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        struct weir_rule rule = rule_of(TEXTS[i]);
        for (size_t j = 0; j < ALL_COUNT; j++) {
            struct weir_detail detail = {.empty_at_ns = 9, .full = true, .existed = true};
            struct weir_request request = request_of(&rule, ALL[j], WEIR_UNIT);
            struct weir_decision decision;
            request.detail = &detail;
            answer_undecided(&request, &decision, 1, NOW_NS);
            assert_failed(&decision, 5);
            assert_false(detail.full || detail.existed || detail.empty_at_ns != 0);
        }
    }
}

/* What was not done must not be reported as done, nor what nobody has seen as seen. */
static void test_only_takes_and_fills_are_allowed(void **state)
{
    (void)state;
    struct weir_rule rule = rule_of("5/s on_error=allow");
    for (size_t i = 0; i < ALL_COUNT; i++) {
        struct weir_request request = request_of(&rule, ALL[i], WEIR_UNIT);
        struct weir_decision decision;
        answer_undecided(&request, &decision, 1, NOW_NS);
        if (i < PASSING_COUNT) {
            assert_int_equal(decision.verdict, WEIR_ALLOWED);
            assert_int_equal(decision.remaining, 4);
        } else {
            assert_failed(&decision, 5);
        }
    }
}

/* The same as a store says to the first that it hears of a key. */
static void test_what_is_allowed_has_the_figures_of_an_empty_bucket(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "5/s",
        "7/9ns capacity=4",
        "0.3/min capacity=2.5",
        "queue 5/s",
        "stepped 2/7s",
        "queue 5/s first=now",
        "stepped 2/7s capacity=5",
        "fixed 5/h",
        "fixed 5/3month",
        "fixed 0.5/w",
        "sliding 5/min",
        "window 5/10s",
    };
    static const uint64_t COSTS[] = {0,
                                     1,
                                     500000,
                                     WEIR_UNIT,
                                     2000000,
                                     2500000,
                                     5 * WEIR_UNIT,
                                     6 * WEIR_UNIT,
                                     WEIR_COST_MAX,
                                     UINT64_MAX};
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s on_error=allow", TEXTS[i]);
        struct weir_rule rule = rule_of(text);
        for (size_t j = 0; j < sizeof COSTS / sizeof COSTS[0]; j++) {
            for (size_t k = 0; k < PASSING_COUNT; k++) {
                char what[128];
                char key[16];
                char amounts[2][WEIR_AMOUNT_TEXT_MAX];
                struct weir_detail details[2] = {{.amount = amount_of(0, 1)},
                                                 {.amount = amount_of(0, 1)}};
                struct weir_decision decisions[2];
                struct weir_request request = request_of(&rule, ALL[k], COSTS[j]);
                (void)snprintf(key, sizeof key, "%zu %zu", j, k); // new to the store
                (void)snprintf(what, sizeof what, "'%s', cost %zu, operation %zu", text, j, k);
                request.key = key;
                request.key_len = strlen(key);
                request.detail = &details[0];
                weir_limiter_decide_at(limiter, &request, &decisions[0], 1, NOW_NS);
                request.detail = &details[1];
                answer_undecided(&request, &decisions[1], 1, NOW_NS);
                assert_same(&decisions[1], &decisions[0], what);
                (void)weir_amount_print(&details[0].amount, amounts[0]);
                (void)weir_amount_print(&details[1].amount, amounts[1]);
                assert_string_equal(amounts[1], amounts[0]);
                assert_int_equal(details[1].full, details[0].full);
                assert_false(details[1].existed);
            }
        }
    }
}

static void test_a_limit_of_zeroes_is_an_error(void **state)
{
    (void)state;
    struct weir_rule zeroes = {.hash_key = {0}};
    struct weir_rule allow = rule_of("10/s on_error=allow");
    struct weir_request requests[2] = {take_of(&allow, "a"), take_of(&zeroes, "b")};
    struct weir_decision decisions[2];
    answer_undecided(requests, decisions, 2, NOW_NS);
    assert_int_equal(decisions[0].verdict, WEIR_ALLOWED);
    assert_failed(&decisions[1], 0);
    requests[0].and_next = true; // and so is all of a run
    answer_undecided(requests, decisions, 2, NOW_NS);
    assert_failed(&decisions[0], 10);
    assert_failed(&decisions[1], 0);
}

/* ---- several limits ---- */

static void test_a_run_passes_if_all_limits_allow(void **state)
{
    (void)state;
    struct weir_rule ten = rule_of("10/s on_error=allow");
    struct weir_rule nine = rule_of("9/s on_error=allow");
    struct weir_request requests[2] = {take_of(&ten, "alice"), take_of(&nine, "all")};
    struct weir_decision decisions[2];
    int binding;
    requests[0].and_next = true;
    answer_undecided(requests, decisions, 2, NOW_NS);
    assert_int_equal(decisions[0].verdict, WEIR_ALLOWED);
    assert_int_equal(decisions[0].remaining, 9);
    assert_int_equal(decisions[0].reset_after_ns, 100000000);
    assert_int_equal(decisions[1].verdict, WEIR_ALLOWED);
    assert_int_equal(decisions[1].remaining, 8);
    struct weir_decision all = weir_decision_of_run(requests, decisions, 2, &binding);
    assert_int_equal(all.verdict, WEIR_ALLOWED);
    assert_int_equal(all.remaining, 8);
    assert_int_equal(binding, -1);
}

/* Of the others each says that it would have allowed, and that nothing was charged. */
static void test_one_limit_that_refuses_is_enough(void **state)
{
    (void)state;
    struct weir_rule allow = rule_of("queue 10/s on_error=allow");
    struct weir_rule refuse = rule_of("9/s");
    struct weir_rule small = rule_of("0.5/s capacity=0.5 on_error=allow");
    for (int i = 0; i < 3; i++) {
        struct weir_request requests[2] = {take_of(&allow, "alice"),
                                           take_of(i < 2 ? &refuse : &small, "all")};
        struct weir_decision decisions[2];
        int binding;
        requests[0].and_next = true;
        requests[0].operation = requests[1].operation = i == 1 ? WEIR_CAN_TAKE : WEIR_TAKE;
        answer_undecided(requests, decisions, 2, NOW_NS);
        const struct weir_decision as_it_is = {
            .verdict = WEIR_ALLOWED, .capacity = 10, .remaining = 10, .retry_after_ns = -1};
        assert_same(&decisions[0], &as_it_is, "the one that allows");
        struct weir_decision all = weir_decision_of_run(requests, decisions, 2, &binding);
        assert_int_equal(all.verdict, i < 2 ? WEIR_FAILED : WEIR_NEVER);
        assert_int_equal(binding, 1);
    }
}

static void test_a_shadow_refuses_nothing(void **state)
{
    (void)state;
    struct weir_rule allow = rule_of("10/s on_error=allow");
    struct weir_rule refuse = rule_of("9/s");
    struct weir_request requests[2] = {take_of(&refuse, "all"), take_of(&allow, "alice")};
    struct weir_decision decisions[2];
    requests[0].and_next = requests[0].shadow = true;
    answer_undecided(requests, decisions, 2, NOW_NS);
    assert_failed(&decisions[0], 9);
    assert_int_equal(decisions[1].verdict, WEIR_ALLOWED);
    assert_int_equal(decisions[1].remaining, 9);
    assert_int_equal(weir_decision_of_run(requests, decisions, 2, NULL).verdict, WEIR_ALLOWED);
    requests[0].shadow = false;
    requests[1].shadow = true; // what it says does not help
    answer_undecided(requests, decisions, 2, NOW_NS);
    assert_int_equal(weir_decision_of_run(requests, decisions, 2, NULL).verdict, WEIR_FAILED);
    assert_int_equal(decisions[1].remaining, 10);
}

static void test_a_run_that_makes_no_sense_is_an_error(void **state)
{
    (void)state;
    struct weir_rule rule = rule_of("10/s on_error=allow");
    struct weir_request requests[WEIR_TOGETHER_MAX + 1];
    struct weir_decision decisions[WEIR_TOGETHER_MAX + 1];
    static const char *const KEYS[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                       "j", "k", "l", "m", "n", "o", "p", "q"};
    for (size_t i = 0; i <= WEIR_TOGETHER_MAX; i++) {
        requests[i] = take_of(&rule, KEYS[i]);
        requests[i].and_next = true; // of the last it does not matter
    }
    answer_undecided(requests, decisions, WEIR_TOGETHER_MAX, NOW_NS);
    assert_int_equal(decisions[WEIR_TOGETHER_MAX - 1].verdict, WEIR_ALLOWED);
    answer_undecided(requests, decisions, WEIR_TOGETHER_MAX + 1, NOW_NS); // too long
    for (size_t i = 0; i <= WEIR_TOGETHER_MAX; i++) {
        assert_failed(&decisions[i], 10);
    }
    requests[2].key = "a"; // twice
    answer_undecided(requests, decisions, 3, NOW_NS);
    assert_failed(&decisions[1], 10);
    requests[2].key_len = 0; // the empty key is another
    answer_undecided(requests, decisions, 3, NOW_NS);
    assert_int_equal(decisions[1].verdict, WEIR_ALLOWED);
    requests[1].operation = WEIR_CAN_TAKE; // mixed
    answer_undecided(requests, decisions, 3, NOW_NS);
    assert_failed(&decisions[0], 10);
    requests[0].operation = requests[1].operation = WEIR_FILL; // a fill is asked alone
    answer_undecided(requests, decisions, 2, NOW_NS);
    assert_failed(&decisions[0], 10);
}

/* Each is answered as if it were asked alone, with its own detail. */
static void test_a_batch_is_answered_request_by_request_and_run_by_run(void **state)
{
    (void)state;
    struct weir_rule allow = rule_of("10/s on_error=allow");
    struct weir_rule refuse = rule_of("10/s");
    struct weir_detail detail;
    struct weir_request requests[] = {
        take_of(&allow, "a"),  take_of(&refuse, "a"),
        take_of(&allow, "b"), // a run of two
        take_of(&refuse, "c"), request_of(&allow, WEIR_FILL, 12 * WEIR_UNIT),
        take_of(&allow, "a"), // another one
        take_of(&allow, "b"),
    };
    static const enum weir_verdict VERDICTS[] = {WEIR_ALLOWED, WEIR_FAILED,  WEIR_ALLOWED,
                                                 WEIR_FAILED,  WEIR_ALLOWED, WEIR_ALLOWED,
                                                 WEIR_ALLOWED};
    static const uint64_t REMAINING[] = {9, 0, 10, 0, 0, 9, 9};
    struct weir_decision decisions[7];
    requests[2].and_next = requests[5].and_next = true;
    requests[4].detail = &detail;
    answer_undecided(requests, decisions, 7, NOW_NS);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(decisions[i].verdict, VERDICTS[i]);
        assert_int_equal(decisions[i].remaining, REMAINING[i]);
    }
    assert_true(detail.full);
    assert_int_equal(detail.amount.numerator_low / detail.amount.denominator_low, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_limit_refuses_unless_it_says_otherwise),
        cmocka_unit_test(test_only_takes_and_fills_are_allowed),
        cmocka_unit_test(test_what_is_allowed_has_the_figures_of_an_empty_bucket),
        cmocka_unit_test(test_a_limit_of_zeroes_is_an_error),
        cmocka_unit_test(test_a_run_passes_if_all_limits_allow),
        cmocka_unit_test(test_one_limit_that_refuses_is_enough),
        cmocka_unit_test(test_a_shadow_refuses_nothing),
        cmocka_unit_test(test_a_run_that_makes_no_sense_is_an_error),
        cmocka_unit_test(test_a_batch_is_answered_request_by_request_and_run_by_run),
    };
    return cmocka_run_group_tests(tests, open_limiter, close_limiter);
}
