/* SPDX-License-Identifier: MIT
 *
 * The cache of compiled limits: whatever it holds or has dropped, it gives the same rule as compiling
 * would. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "limiter/rule_cache.h"

#define S UINT64_C(1000000000)

static struct weir_limiter *limiter;
static struct rule_cache *cache;

static int open_both(void **state)
{
    (void)state;
    const struct weir_limiter_config config = {.memory_bytes = 1 << 20, .seed = {1, 2}};
    if (weir_limiter_open(&limiter, &config, NULL) != WEIR_OK) {
        return -1;
    }
    cache = rule_cache_open(limiter);
    return cache != NULL ? 0 : -1;
}

static int close_both(void **state)
{
    (void)state;
    rule_cache_close(cache);
    weir_limiter_close(limiter);
    return 0;
}

static void assert_same_rule(const struct weir_rule *a, const struct weir_rule *b)
{
    assert_memory_equal(&a->limit, &b->limit, sizeof a->limit);
    assert_memory_equal(a->hash_key, b->hash_key, sizeof a->hash_key);
}

static void assert_right(const char *text)
{
    struct weir_rule cached;
    struct weir_rule compiled;
    assert_int_equal(weir_rule_from_text(&compiled, limiter, text, NULL), WEIR_OK);
    assert_int_equal(rule_cache_text(cache, &cached, text, strlen(text), NULL), WEIR_OK);
    assert_same_rule(&cached, &compiled);
}

static void test_a_text_gives_its_rule_at_first_and_again(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_right("10/s");
        assert_right("10/s capacity=5");
        assert_right("10/s on_full=allow");
        assert_right("600/min capacity=10");
    }
}

static void test_many_texts_push_each_other_out(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i < 10000; i++) {
            char text[64];
            (void)snprintf(text, sizeof text, "%d/s capacity=%d", i, i % 7 + 1);
            assert_right(text);
        }
    }
}

static void test_a_long_text_is_compiled_each_time(void **state)
{
    (void)state;
    char text[WEIR_LIMIT_TEXT_MAX + 2];
    for (size_t length = 44; length <= WEIR_LIMIT_TEXT_MAX; length++) {
        memset(text, ' ', length);
        memcpy(text, "10/s", 4);
        memcpy(text + length - 10, "capacity=7", 10);
        text[length] = '\0';
        assert_right(text);
        assert_right(text);
    }
}

static void test_a_refused_text_stays_refused(void **state)
{
    (void)state;
    struct weir_rule rule;
    struct weir_error error;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rule_cache_text(cache, &rule, "10/x", 4, &error), WEIR_E_SYNTAX);
        assert_int_equal(error.offset, 3);
        assert_int_equal(rule_cache_text(cache, &rule, "", 0, &error), WEIR_E_SYNTAX);
        assert_int_equal(rule_cache_text(cache, &rule, "1/s capacity=3155760001", 23, &error),
                         WEIR_E_RANGE);
        assert_int_equal(error.offset, 13);
    }
    char text[WEIR_LIMIT_TEXT_MAX + 1];
    memset(text, ' ', sizeof text);
    assert_int_equal(rule_cache_text(cache, &rule, text, sizeof text, &error), WEIR_E_RANGE);
}

static void test_a_text_is_as_long_as_it_is(void **state)
{
    (void)state;
    struct weir_rule rule;
    assert_right("10/s capacity=51");
    assert_int_equal(rule_cache_text(cache, &rule, "10/s capacity=51", 15, NULL), WEIR_OK);
    assert_int_equal(rule.limit.capacity, 5);
    assert_int_equal(rule_cache_text(cache, &rule, "10/s\0", 5, NULL), WEIR_E_SYNTAX);
}

static void throttle(struct weir_rule *rule, uint64_t capacity, uint64_t count, uint64_t period_ns)
{
    struct weir_error error;
    if (rule_cache_throttle(cache, rule, capacity, count, period_ns, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
}

static void test_throttle_is_known_by_its_key_whatever_its_numbers(void **state)
{
    (void)state;
    struct weir_rule one;
    struct weir_rule two;
    for (int i = 0; i < 2; i++) {
        throttle(&one, 16, 30, 60 * S);
        throttle(&two, 1, 7, 1 * S);
        assert_int_equal(one.limit.capacity, 16);
        assert_int_equal(two.limit.capacity, 1);
        assert_int_equal(one.limit.unit_ns, UINT64_C(2000000000));
        assert_int_equal(two.limit.denominator, 7);
        assert_memory_equal(one.hash_key, two.hash_key, sizeof one.hash_key);
    }
    struct weir_rule inline_rule;
    assert_int_equal(rule_cache_text(cache, &inline_rule, "30/min capacity=16", 18, NULL), WEIR_OK);
    assert_memory_not_equal(inline_rule.hash_key, one.hash_key, sizeof one.hash_key);
}

static void test_throttle_numbers_at_the_edges_of_their_ranges(void **state)
{
    (void)state;
    static const struct {
        uint64_t capacity, count, period_ns;
        enum weir_status status;
    } CASES[] = {
        {1, 1, 1, WEIR_OK},
        {0, 1, 1, WEIR_E_RANGE},
        {1, 0, 1, WEIR_E_RANGE},
        {1, 1, 0, WEIR_E_RANGE},
        {1, 1, WEIR_SPAN_NS_MAX, WEIR_OK},
        {1, 1, WEIR_SPAN_NS_MAX + 1, WEIR_E_RANGE},
        {2, 1, WEIR_SPAN_NS_MAX, WEIR_E_RANGE}, // two hundred years from full to empty
        {WEIR_UNITS_MAX, WEIR_UNITS_MAX, S, WEIR_OK},
        {WEIR_UNITS_MAX + 1, WEIR_UNITS_MAX, S, WEIR_E_RANGE},
        {1, WEIR_UNITS_MAX + 1, S, WEIR_E_RANGE},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, WEIR_E_RANGE},
        {1, UINT64_C(999999999989), S, WEIR_OK}, // a prime: whole units are never too fine
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct weir_rule rule;
        struct weir_error error = {0};
        enum weir_status status = rule_cache_throttle(cache, &rule, CASES[i].capacity,
                                                      CASES[i].count, CASES[i].period_ns, &error);
        if (status != CASES[i].status) {
            fail_msg("case %zu: %s: %s", i, weir_status_name(status), error.message);
        }
        assert_true(status == WEIR_OK || error.message[0] != '\0');
    }
}

/* A text of 24 bytes could be the bytes of three numbers; they are told apart. */
static void test_texts_and_numbers_do_not_mix(void **state)
{
    (void)state;
    static const char TEXT[] = "10/s capacity=5         ";
    uint64_t numbers[3];
    struct weir_rule rule;
    assert_int_equal(sizeof TEXT - 1, sizeof numbers);
    memcpy(numbers, TEXT, sizeof numbers);
    assert_right(TEXT);
    assert_int_equal(rule_cache_throttle(cache, &rule, numbers[0], numbers[1], numbers[2], NULL),
                     WEIR_E_RANGE);
    assert_right(TEXT);
}

static void assert_list(const char *text, size_t count, const char *const *limits)
{
    struct weir_rule rules[LIMIT_LIST_COUNT_MAX];
    size_t found = 0;
    struct weir_error error = {.message = ""};
    if (rule_cache_list(cache, rules, &found, text, strlen(text), &error) != WEIR_OK) {
        fail_msg("%s: %s", text, error.message);
    }
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++) {
        struct weir_rule compiled;
        assert_int_equal(weir_rule_from_text(&compiled, limiter, limits[i], NULL), WEIR_OK);
        assert_same_rule(&rules[i], &compiled);
    }
}

static void test_a_list_gives_its_rules_in_order_at_first_and_again(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_list("10/s", 1, (const char *const[]){"10/s"});
        assert_list("10/s, 100/min", 2, (const char *const[]){"10/s", "100/min"});
        assert_list("100/min,10/s", 2, (const char *const[]){"100/min", "10/s"});
        assert_list("1/s,2/s,3/s,4/s,5/s", 5,
                    (const char *const[]){"1/s", "2/s", "3/s", "4/s", "5/s"});
    }
}

/* There is a place for 128: whoever is put out is right all the same, and so is who puts him out. */
static void test_many_lists_push_each_other_out(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i < 3000; i++) {
            char text[64];
            char seconds[16];
            char hours[16];
            (void)snprintf(seconds, sizeof seconds, "%d/s", i);
            (void)snprintf(hours, sizeof hours, "%d/h", i);
            (void)snprintf(text, sizeof text, "%s,%s", seconds, hours);
            assert_list(text, 2, (const char *const[]){seconds, hours});
        }
    }
}

static void test_a_long_list_is_found_limit_by_limit(void **state)
{
    (void)state;
    char text[LIMIT_LIST_TEXT_MAX + 1];
    char limits[LIMIT_LIST_COUNT_MAX][WEIR_LIMIT_TEXT_MAX + 1];
    const char *expected[LIMIT_LIST_COUNT_MAX];
    size_t length = 0;
    for (size_t i = 0; i < LIMIT_LIST_COUNT_MAX; i++) { // each as long as a limit may be
        memset(limits[i], ' ', WEIR_LIMIT_TEXT_MAX);
        limits[i][WEIR_LIMIT_TEXT_MAX] = '\0';
        int digits = snprintf(limits[i], 16, "%zu/s", i + 1);
        limits[i][digits] = ' ';
        memcpy(limits[i] + WEIR_LIMIT_TEXT_MAX - 10, "capacity=7", 10);
        expected[i] = limits[i];
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? ", " : "",
                                   limits[i]);
    }
    assert_list(text, LIMIT_LIST_COUNT_MAX, expected);
    assert_list(text, LIMIT_LIST_COUNT_MAX, expected);
}

static void assert_list_refused(const char *text, enum weir_status status, size_t offset,
                                const char *message)
{
    for (int i = 0; i < 2; i++) {
        struct weir_rule rules[LIMIT_LIST_COUNT_MAX];
        size_t count;
        struct weir_error error = {.message = ""};
        assert_int_equal(rule_cache_list(cache, rules, &count, text, strlen(text), &error), status);
        assert_string_equal(error.message, message);
        assert_int_equal(error.offset, offset);
        assert_int_equal(rule_cache_list(cache, rules, &count, text, strlen(text), NULL), status);
    }
}

static void test_a_refused_list_says_which_limit_and_where(void **state)
{
    (void)state;
    assert_list_refused("10/x", WEIR_E_SYNTAX, 3, "unknown unit 'x'; one of ns us ms s min h d w");
    assert_list_refused("10/s, 9/x", WEIR_E_SYNTAX, 8,
                        "limit 2 of 2: unknown unit 'x'; one of ns us ms s min h d w");
    assert_list_refused("10/s,,9/s", WEIR_E_SYNTAX, 5, "limit 2 of 3 is empty");
    assert_list_refused("1/s capacity=3155760001, 9/s", WEIR_E_RANGE, 13,
                        "limit 1 of 2: a full bucket would take more than 100 years to empty");
}

static void test_the_same_bucket_twice_is_refused_however_it_is_written(void **state)
{
    (void)state;
    assert_list_refused("10/s, 10/s", WEIR_E_SYNTAX, 6,
                        "limit 2 of 2 is limit 1 again, the same bucket twice");
    assert_list_refused("5/s, 10/s, 600/min capacity=10 on_full=allow", WEIR_E_SYNTAX, 11,
                        "limit 3 of 3 is limit 2 again, the same bucket twice");
    assert_list("10/s, queue 10/s", 2, (const char *const[]){"10/s", "queue 10/s"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_gives_its_rule_at_first_and_again),
        cmocka_unit_test(test_many_texts_push_each_other_out),
        cmocka_unit_test(test_a_long_text_is_compiled_each_time),
        cmocka_unit_test(test_a_refused_text_stays_refused),
        cmocka_unit_test(test_a_text_is_as_long_as_it_is),
        cmocka_unit_test(test_a_list_gives_its_rules_in_order_at_first_and_again),
        cmocka_unit_test(test_many_lists_push_each_other_out),
        cmocka_unit_test(test_a_long_list_is_found_limit_by_limit),
        cmocka_unit_test(test_a_refused_list_says_which_limit_and_where),
        cmocka_unit_test(test_the_same_bucket_twice_is_refused_however_it_is_written),
        cmocka_unit_test(test_throttle_is_known_by_its_key_whatever_its_numbers),
        cmocka_unit_test(test_throttle_numbers_at_the_edges_of_their_ranges),
        cmocka_unit_test(test_texts_and_numbers_do_not_mix),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
