/* SPDX-License-Identifier: MIT
 *
 * Limits as text: what is accepted and how it prints, what is refused, where and why, and every
 * named maximum of limit.h at its edge. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/limit_words.h"
#include "weir/limit.h"

static struct weir_limit_config parse(const char *text)
{
    struct weir_limit_config config;
    struct weir_error error = {0};
    enum weir_status status = weir_limit_parse(&config, text, strlen(text), &error);
    if (status != WEIR_OK) {
        fail_msg("'%s': at byte %zu: %s", text, error.offset, error.message);
    }
    return config;
}

static void print(const struct weir_limit_config *config, char text[WEIR_LIMIT_TEXT_MAX])
{
    assert_int_equal(weir_limit_print(config, text, WEIR_LIMIT_TEXT_MAX), WEIR_OK);
}

static void assert_prints(const char *text, const char *canonical)
{
    char printed[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit_config config = parse(text);
    print(&config, printed);
    assert_string_equal(printed, canonical);
    config = parse(printed); // and the canonical text is its own
    print(&config, printed);
    assert_string_equal(printed, canonical);
}

struct refusal {
    const char *text;
    enum weir_status status;
    size_t offset;
    const char *message;
};

static void assert_refused(const struct refusal *refusal)
{
    struct weir_limit_config config;
    struct weir_error error = {0};
    size_t length = strlen(refusal->text);
    enum weir_status status = weir_limit_parse(&config, refusal->text, length, &error);
    if (status != refusal->status || error.offset != refusal->offset
        || strcmp(error.message, refusal->message) != 0) {
        fail_msg("'%s': %s at byte %zu: %s", refusal->text, weir_status_name(status), error.offset,
                 error.message);
    }
    assert_int_equal(weir_limit_parse(&config, refusal->text, length, NULL), refusal->status);
}

static void test_a_rate_is_count_per_period(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("10/s");
    assert_int_equal(config.kind, WEIR_KIND_BUCKET);
    assert_int_equal(config.count_micro, 10 * WEIR_UNIT);
    assert_int_equal(config.period_ns, UINT64_C(1000000000));
    assert_int_equal(config.capacity_micro, 10 * WEIR_UNIT);
    assert_int_equal(config.on_full, WEIR_ON_FULL_REFUSE);
    assert_int_equal(config.on_error, WEIR_ON_ERROR_REFUSE);
    config = parse("bucket 2.5/10min capacity=0.75 on_full=allow");
    assert_int_equal(config.count_micro, 2500000);
    assert_int_equal(config.period_ns, UINT64_C(600000000000));
    assert_int_equal(config.capacity_micro, 750000);
    assert_int_equal(config.on_full, WEIR_ON_FULL_ALLOW);
    assert_int_equal(config.on_error, WEIR_ON_ERROR_REFUSE);
    struct weir_limit limit;
    assert_int_equal(weir_limit_from_text(&limit, "10/s on_error=allow", NULL), WEIR_OK);
    assert_int_equal(limit.on_error, WEIR_ON_ERROR_ALLOW);
    assert_int_equal(limit.on_full, WEIR_ON_FULL_REFUSE);
}

static void test_a_queue_is_read_with_its_words(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("queue 5/s capacity=10");
    assert_int_equal(config.kind, WEIR_KIND_QUEUE);
    assert_int_equal(config.first, WEIR_FIRST_INTERVAL);
    assert_int_equal(config.waiting, WEIR_WAITING_MAX);
    config = parse("queue 5/s first=now waiting=17");
    assert_int_equal(config.first, WEIR_FIRST_NOW);
    assert_int_equal(config.waiting, 17);
    assert_int_equal(config.capacity_micro, 5 * WEIR_UNIT);
    assert_int_equal(parse("5/s").waiting, WEIR_WAITING);
    assert_int_equal(parse("5/s waiting=0").waiting, 0);
    assert_int_equal(parse("5/s").block_ns, 0);
    assert_int_equal(parse("5/s block=1ns").block_ns, 1);
    assert_int_equal(parse("stepped 5/s block=2min").block_ns, UINT64_C(120000000000));
    assert_int_equal(parse("5/s block=empty").block_ns, WEIR_BLOCK_UNTIL_EMPTY);
    static const struct refusal REFUSALS[] = {
        {"5/s first=now", WEIR_E_SYNTAX, 4, "only a queue has first="},
        {"queue 5/s first=last", WEIR_E_SYNTAX, 16, "first is either interval or now"},
        {"queue 5/s first", WEIR_E_SYNTAX, 15, "expected '=', but the text ends"},
        {"queue 5/s first=now first=now", WEIR_E_SYNTAX, 20, "first is said twice"},
        {"5/s waiting=x", WEIR_E_SYNTAX, 12, "expected how many may wait, not 'x'"},
        {"5/s waiting=1000001", WEIR_E_RANGE, 12, "waiting is above 1000000"},
        {"5/s waiting=1 waiting=2", WEIR_E_SYNTAX, 14, "waiting is said twice"},
        {"queue", WEIR_E_SYNTAX, 5, "expected a space and a count, but the text ends"},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        assert_refused(&REFUSALS[i]);
    }
}

static void test_a_stepped_limit_keeps_its_count_and_period(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("stepped 10/10s");
    struct weir_limit limit;
    assert_int_equal(config.kind, WEIR_KIND_STEPPED);
    assert_int_equal(config.capacity_micro, 10 * WEIR_UNIT);
    assert_int_equal(config.waiting, WEIR_WAITING);
    assert_int_equal(weir_limit_init(&limit, &config, NULL), WEIR_OK);
    assert_int_equal(limit.denominator, 10 * WEIR_UNIT);
    assert_int_equal(limit.scale, UINT64_C(10000000000));
    assert_int_equal(limit.whole_unit_ns, 0); // it has no usual takes
    static const struct refusal REFUSALS[] = {
        {"stepped 1099511.627776/s capacity=1", WEIR_E_INEXACT, 8,
         "the count of a stepped limit must be at most 1099511.627775"},
        {"stepped 1/36525d capacity=2", WEIR_E_RANGE, 26,
         "a full bucket would take more than 100 years to empty"},
        {"stepped 1/s first=now", WEIR_E_SYNTAX, 12, "only a queue has first="},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        assert_refused(&REFUSALS[i]);
    }
}

static void test_a_fixed_limit_goes_by_the_calendar(void **state)
{
    (void)state;
    struct weir_limit limit;
    struct weir_limit_config config = parse("fixed 1000/3month");
    assert_int_equal(config.kind, WEIR_KIND_FIXED);
    assert_int_equal(config.period_months, 3);
    assert_int_equal(config.period_ns, 3 * WEIR_MONTH_NS);
    assert_int_equal(config.capacity_micro, 1000 * WEIR_UNIT);
    assert_int_equal(parse("fixed 0.5/2year").period_months, 24);
    assert_int_equal(parse("fixed 0.5/d").capacity_micro, WEIR_UNIT / 2);
    assert_int_equal(weir_limit_init(&limit, &config, NULL), WEIR_OK);
    assert_int_equal(limit.grain_micro, 1);
    config.period_ns++;
    assert_int_equal(weir_limit_init(&limit, &config, NULL), WEIR_E_RANGE);
    config = parse("fixed 1000000000000/d");
    assert_int_equal(weir_limit_init(&limit, &config, NULL), WEIR_OK);
    assert_int_equal(limit.grain_micro, WEIR_UNIT);
    config.period_months = 1;
    config.period_ns = WEIR_MONTH_NS;
    config.kind = WEIR_KIND_STEPPED; // which does not go by months
    assert_int_equal(weir_limit_init(&limit, &config, NULL), WEIR_E_RANGE);
    static const struct refusal REFUSALS[] = {
        {"5/month", WEIR_E_SYNTAX, 2,
         "only a fixed limit counts by the month; one of ns us ms s min h d w"},
        {"fixed 5/months", WEIR_E_SYNTAX, 8,
         "unknown unit 'months'; one of ns us ms s min h d w month year"},
        {"fixed 5/601month", WEIR_E_RANGE, 6,
         "the period of a fixed limit must be at most 50 years"},
        {"fixed 1099511.627776/s", WEIR_E_INEXACT, 6,
         "a fixed limit above 1099511.627775 counts whole units: make its count whole"},
        {"fixed 5/s capacity=6", WEIR_E_RANGE, 19,
         "a fixed limit holds its count, and nothing else: leave the capacity out"},
        {"fixed 5/s first=now", WEIR_E_SYNTAX, 10, "only a queue has first="},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        assert_refused(&REFUSALS[i]);
    }
}

static void test_a_sliding_limit_counts_whole_units(void **state)
{
    (void)state;
    struct weir_limit limit;
    struct weir_limit_config config = parse("sliding 1048575/s");
    assert_int_equal(config.kind, WEIR_KIND_SLIDING);
    assert_int_equal(weir_limit_init(&limit, &config, NULL), WEIR_OK);
    assert_int_equal(limit.grain_micro, WEIR_UNIT);
    assert_int_equal(limit.scale, UINT64_C(1000000000));
    static const struct refusal REFUSALS[] = {
        {"sliding 1048576/s", WEIR_E_INEXACT, 8,
         "the count of a sliding limit must be a whole number, 1 to 1048575"},
        {"sliding 1.5/s", WEIR_E_INEXACT, 8,
         "the count of a sliding limit must be a whole number, 1 to 1048575"},
        {"sliding 5/s capacity=4", WEIR_E_RANGE, 21,
         "a sliding limit holds its count, and nothing else: leave the capacity out"},
        {"sliding 5/18263d", WEIR_E_RANGE, 8,
         "the period of a sliding limit must be at most 50 years"},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        assert_refused(&REFUSALS[i]);
    }
}

static void test_every_unit_has_its_length(void **state)
{
    (void)state;
    assert_int_equal(parse("1/ns").period_ns, 1);
    assert_int_equal(parse("1/us").period_ns, 1000);
    assert_int_equal(parse("1/ms").period_ns, 1000000);
    assert_int_equal(parse("1/s").period_ns, UINT64_C(1000000000));
    assert_int_equal(parse("1/min").period_ns, UINT64_C(60000000000));
    assert_int_equal(parse("1/h").period_ns, UINT64_C(3600000000000));
    assert_int_equal(parse("1/d").period_ns, UINT64_C(86400000000000));
    assert_int_equal(parse("1/w").period_ns, UINT64_C(604800000000000));
    assert_int_equal(parse("1/30d").period_ns, UINT64_C(2592000000000000));
}

static void test_the_capacity_is_the_count_but_at_least_one(void **state)
{
    (void)state;
    assert_int_equal(parse("7/s").capacity_micro, 7 * WEIR_UNIT);
    assert_int_equal(parse("0.5/s").capacity_micro, WEIR_UNIT);
    assert_int_equal(parse("1.5/s").capacity_micro, 1500000);
    assert_int_equal(parse("7/s burst=3").capacity_micro, 3 * WEIR_UNIT);
    assert_int_equal(parse("7/s capacity=0.000001").capacity_micro, 1);
}

static void test_the_canonical_text_is_what_people_would_write(void **state)
{
    (void)state;
    assert_prints("10/s", "10/s");
    assert_prints("bucket 10/s", "10/s");
    assert_prints("  010/001s  burst=10.0   ", "10/s");
    assert_prints("600/min capacity=10", "10/s");
    assert_prints("10/10s", "1/s capacity=10");
    assert_prints("10/ms capacity=5", "10000/s capacity=5");
    assert_prints("1000/30d", "1000/30d");
    assert_prints("2000/60d capacity=1000", "1000/30d");
    assert_prints("100/s capacity=20", "100/s capacity=20");
    assert_prints("6/min", "6/min");
    assert_prints("0.1/s", "6/min capacity=1");
    assert_prints("0.5/s capacity=0.5", "30/min capacity=0.5");
    assert_prints("1/7us", "1/7us");
    assert_prints("3/7ns", "3/7ns");
    assert_prints("1/ns", "1000000000/s capacity=1");
    assert_prints("24/d capacity=2", "1/h capacity=2");
    assert_prints("7/w capacity=7", "1/d capacity=7");
    assert_prints("5/w", "5/w");
    assert_prints("5/s on_full=refuse", "5/s");
    assert_prints("5/s on_full=allow", "5/s on_full=allow");
    assert_prints("5/s on_full=evict burst=2", "5/s capacity=2 on_full=evict");
    assert_prints("5/s on_full=allow capacity=2", "5/s capacity=2 on_full=allow");
    assert_prints("5/s on_error=refuse", "5/s");
    assert_prints("5/s on_error=allow capacity=2", "5/s capacity=2 on_error=allow");
    assert_prints("5/s on_error=allow on_full=evict block=1s",
                  "5/s block=1s on_full=evict on_error=allow");
    assert_prints("5/s block=30s", "5/s block=30s");
    assert_prints("5/s block=empty capacity=2", "5/s capacity=2 block=empty");
    assert_prints("5/s on_full=allow block=120s waiting=7",
                  "5/s waiting=7 block=2min on_full=allow");
    assert_prints("5/s block=1500ms", "5/s block=1500ms");
    assert_prints("queue 5/s block=3155760000000000000ns", "queue 5/s block=36525d");
    assert_prints("5/s waiting=1000", "5/s");
    assert_prints("5/s waiting=1000000", "5/s waiting=1000000");
    assert_prints("queue 300/min capacity=5", "queue 5/s");
    assert_prints("stepped 10/10s", "stepped 10/10s");
    assert_prints("stepped 10/60s capacity=5", "stepped 10/min capacity=5");
    assert_prints("stepped 0.5/1000ms", "stepped 0.5/s");
    assert_prints("queue 5/s first=interval waiting=1000000", "queue 5/s");
    assert_prints("queue 5/s on_full=allow waiting=1000 first=now burst=2",
                  "queue 5/s capacity=2 first=now waiting=1000 on_full=allow");
}

/* Another text of the same limit, which keeps its numbers. */
static void test_a_limit_can_be_printed_over_its_own_period(void **state)
{
    (void)state;
    static const char *const TEXTS[][2] = {
        {"9/3s", "9/3s"},
        {"900/31d capacity=100", "900/31d capacity=100"},
        {"23/5000ms burst=2 waiting=7", "23/5s capacity=2 waiting=7"},
        {"270/60s capacity=30", "270/min capacity=30"},
        {"0.5/90min", "0.5/90min"},
        {"2/s capacity=2", "2/s"},
        {"1000/30d block=empty", "1000/30d block=empty"},
        {"queue 10/10s first=now on_full=allow", "queue 10/10s first=now on_full=allow"},
        {"fixed 10/12month", "fixed 10/year"},
        {"1000000/ns", "1000000/ns"},
        {"0.000001/36525d capacity=0.000001", "0.000001/36525d capacity=0.000001"},
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        char printed[WEIR_LIMIT_TEXT_MAX];
        struct weir_limit_config config = parse(TEXTS[i][0]);
        assert_int_equal(limit_print_as_written(&config, printed, sizeof printed), WEIR_OK);
        assert_string_equal(printed, TEXTS[i][1]);
        struct weir_limit_config again = parse(printed);
        assert_int_equal(again.count_micro, config.count_micro);
        assert_int_equal(again.period_ns, config.period_ns);
        assert_int_equal(again.capacity_micro, config.capacity_micro);
    }
    struct weir_limit_config config = parse("9/3s");
    char small[4];
    assert_int_equal(limit_print_as_written(&config, small, sizeof small), WEIR_E_NO_SPACE);
    assert_string_equal(small, "9/3");
}

/* The identity of a bucket: its rate in lowest terms and its capacity. */
static int same_identity(const struct weir_limit_config *a, const struct weir_limit_config *b)
{
    struct weir_limit one;
    struct weir_limit two;
    assert_int_equal(weir_limit_init(&one, a, NULL), WEIR_OK);
    assert_int_equal(weir_limit_init(&two, b, NULL), WEIR_OK);
    return one.denominator == two.denominator && one.scale == two.scale
           && one.capacity_micro == two.capacity_micro && one.on_full == two.on_full;
}

static void test_the_same_bucket_is_the_same_text(void **state)
{
    (void)state;
    static const uint64_t COUNTS[] = {1,       2,         500000,     1000000,
                                      1500000, 10000000,  333333,     60000000,
                                      7000000, 700000000, 1000000007, UINT64_C(1000000000000)};
    static const uint64_t PERIODS[] = {1,
                                       7,
                                       1000,
                                       1000000,
                                       UINT64_C(1000000000),
                                       UINT64_C(10000000000),
                                       UINT64_C(60000000000),
                                       UINT64_C(3600000000000),
                                       UINT64_C(2592000000000000)};
    static const uint64_t CAPACITIES[] = {1, 500000, 1000000, 10000000, 700000000};
    enum { CONFIG_MAX = 12 * 9 * 5 };
    static struct weir_limit_config configs[CONFIG_MAX];
    static char texts[CONFIG_MAX][WEIR_LIMIT_TEXT_MAX];
    size_t count = 0;
    for (size_t i = 0; i < CONFIG_MAX; i++) {
        struct weir_limit_config config = {.count_micro = COUNTS[i % 12],
                                           .period_ns = PERIODS[i / 12 % 9],
                                           .capacity_micro = CAPACITIES[i / 12 / 9]};
        struct weir_limit limit;
        if (weir_limit_init(&limit, &config, NULL) == WEIR_OK) {
            configs[count] = config;
            print(&config, texts[count]);
            struct weir_limit_config again = parse(texts[count]);
            assert_true(same_identity(&config, &again));
            count++;
        }
    }
    assert_true(count > 300);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_int_equal(same_identity(&configs[i], &configs[j]),
                             strcmp(texts[i], texts[j]) == 0);
        }
    }
}

static void test_refusals_say_where_and_why(void **state)
{
    (void)state;
    static const struct refusal REFUSALS[] = {
        {"", WEIR_E_SYNTAX, 0, "expected the count, but the text ends"},
        {"   ", WEIR_E_SYNTAX, 3, "expected the count, but the text ends"},
        {"ten/s", WEIR_E_SYNTAX, 0,
         "unknown kind 'ten'; a limit starts with a count or with a kind: bucket queue stepped "
         "fixed sliding window"},
        {"windows 25/5s", WEIR_E_SYNTAX, 0,
         "unknown kind 'windows'; a limit starts with a count or with a kind: bucket queue stepped "
         "fixed sliding window"},
        {"Bucket 1/s", WEIR_E_SYNTAX, 0,
         "unknown kind 'Bucket'; a limit starts with a count or with a kind: bucket queue stepped "
         "fixed sliding window"},
        {"bucket", WEIR_E_SYNTAX, 6, "expected a space and a count, but the text ends"},
        {"bucket10/s", WEIR_E_SYNTAX, 6, "expected a space and a count, not '1'"},
        {"bucket ", WEIR_E_SYNTAX, 7, "expected the count, but the text ends"},
        {"-1/s", WEIR_E_SYNTAX, 0, "expected the count, not '-'"},
        {"+1/s", WEIR_E_SYNTAX, 0, "expected the count, not '+'"},
        {".5/s", WEIR_E_SYNTAX, 0, "expected the count, not '.'"},
        {"/s", WEIR_E_SYNTAX, 0, "expected the count, not '/'"},
        {"0/s", WEIR_E_RANGE, 0, "the count is zero"},
        {"bucket  0.000/s", WEIR_E_RANGE, 8, "the count is zero"},
        {"1./s", WEIR_E_SYNTAX, 2, "expected a digit after the point, not '/'"},
        {"1e3/s", WEIR_E_SYNTAX, 1, "expected '/' and a period, not 'e'"},
        {"10", WEIR_E_SYNTAX, 2, "expected '/' and a period, but the text ends"},
        {"10 /s", WEIR_E_SYNTAX, 2, "expected '/' and a period, not ' '"},
        {"10/", WEIR_E_SYNTAX, 3, "expected a unit: ns us ms s min h d w, but the text ends"},
        {"10/ s", WEIR_E_SYNTAX, 3, "expected a unit: ns us ms s min h d w, not ' '"},
        {"10/5", WEIR_E_SYNTAX, 4, "expected a unit: ns us ms s min h d w, but the text ends"},
        {"10/1.5s", WEIR_E_SYNTAX, 4, "expected a unit: ns us ms s min h d w, not '.'"},
        {"10/-1s", WEIR_E_SYNTAX, 3, "expected a unit: ns us ms s min h d w, not '-'"},
        {"10/0s", WEIR_E_RANGE, 3, "the period is zero"},
        {"10/S", WEIR_E_SYNTAX, 3, "unknown unit 'S'; one of ns us ms s min h d w"},
        {"10/2month", WEIR_E_SYNTAX, 4,
         "only a fixed limit counts by the month; one of ns us ms s min h d w"},
        {"10/s,20/min", WEIR_E_SYNTAX, 4, "expected a space or the end, not ','"},
        {"10/s\tcapacity=5", WEIR_E_SYNTAX, 4, "expected a space or the end, not byte 0x09"},
        {"10/s\xff", WEIR_E_SYNTAX, 4, "expected a space or the end, not byte 0xff"},
        {"10/s =5", WEIR_E_SYNTAX, 5,
         "expected an option: capacity=, first=, waiting=, block=, on_full= or on_error=, not '='"},
        {"10/s size=5", WEIR_E_SYNTAX, 5,
         "a limit has no option 'size'; one of capacity burst first waiting block on_full"
         " on_error"},
        {"10/s capacity", WEIR_E_SYNTAX, 13, "expected '=', but the text ends"},
        {"10/s capacity =5", WEIR_E_SYNTAX, 13, "expected '=', not ' '"},
        {"10/s capacity=", WEIR_E_SYNTAX, 14, "expected the capacity, but the text ends"},
        {"10/s capacity=-5", WEIR_E_SYNTAX, 14, "expected the capacity, not '-'"},
        {"10/s capacity=0", WEIR_E_RANGE, 14, "the capacity is zero"},
        {"10/s capacity=5x", WEIR_E_SYNTAX, 15, "expected a space or the end, not 'x'"},
        {"10/s capacity=5 burst=5", WEIR_E_SYNTAX, 16, "the capacity is said twice"},
        {"10/s block=0s", WEIR_E_RANGE, 11, "the block is zero"},
        {"10/s block=30", WEIR_E_SYNTAX, 13,
         "expected a unit: ns us ms s min h d w, but the text ends"},
        {"10/s block=s", WEIR_E_SYNTAX, 11,
         "expected how long a block lasts, such as 30s, or empty, not 's'"},
        {"10/s block=", WEIR_E_SYNTAX, 11,
         "expected how long a block lasts, such as 30s, or empty, but the text ends"},
        {"10/s block=-1s", WEIR_E_SYNTAX, 11,
         "expected how long a block lasts, such as 30s, or empty, not '-'"},
        {"10/s block=1.5s", WEIR_E_SYNTAX, 12, "expected a unit: ns us ms s min h d w, not '.'"},
        {"10/s block=emptyish", WEIR_E_SYNTAX, 16, "expected a space or the end, not 'i'"},
        {"10/s block=5219w", WEIR_E_RANGE, 11, "the block is above 100 years"},
        {"10/s block=99999999999999999999s", WEIR_E_RANGE, 11, "the block is above 100 years"},
        {"10/s block=1s block=empty", WEIR_E_SYNTAX, 14, "block is said twice"},
        {"10/s on_full=maybe", WEIR_E_SYNTAX, 13, "on_full is refuse, allow or evict"},
        {"10/s on_full=allow on_full=allow", WEIR_E_SYNTAX, 19, "on_full is said twice"},
        {"10/s on_error=local", WEIR_E_SYNTAX, 14,
         "on_error=local is not available; on_error is refuse or allow"},
        {"10/s on_error=evict", WEIR_E_SYNTAX, 14, "on_error is refuse or allow"},
        {"10/s on_error=", WEIR_E_SYNTAX, 14, "on_error is refuse or allow"},
        {"10/s on_error=allow on_error=refuse", WEIR_E_SYNTAX, 20, "on_error is said twice"},
        {"10/s on_full", WEIR_E_SYNTAX, 12, "expected '=', but the text ends"},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        assert_refused(&REFUSALS[i]);
    }
}

static void test_a_long_word_is_shown_in_part(void **state)
{
    (void)state;
    struct refusal refusal = {
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz 1/s", WEIR_E_SYNTAX, 0,
        "unknown kind 'abcdefghijklmnopqrstuvwxyzabcdef'; a limit starts with a count or with a"
        " kind: bucket queue stepped fixed sliding window"};
    assert_refused(&refusal);
}

static void test_a_zero_byte_is_a_byte_like_others(void **state)
{
    (void)state;
    struct weir_limit_config config;
    struct weir_error error;
    assert_int_equal(weir_limit_parse(&config, "1/s\0", 4, &error), WEIR_E_SYNTAX);
    assert_int_equal(error.offset, 3);
    assert_string_equal(error.message, "expected a space or the end, not byte 0x00");
}

static void test_numbers_at_the_edges_of_their_ranges(void **state)
{
    (void)state;
    assert_int_equal(parse("0.000001/s").count_micro, 1);
    assert_int_equal(parse("1000000000000/s").count_micro, WEIR_MICRO_MAX);
    assert_int_equal(parse("1000000000000.000000/s").count_micro, WEIR_MICRO_MAX);
    assert_int_equal(parse("1/1ns").period_ns, 1);
    assert_int_equal(parse("1/3155760000000000000ns").period_ns, WEIR_SPAN_NS_MAX);
    assert_int_equal(parse("1/3155760000000000us").period_ns, WEIR_SPAN_NS_MAX);
    assert_int_equal(parse("1/36525d").period_ns, WEIR_SPAN_NS_MAX);
    assert_int_equal(parse("1/5217w").period_ns, 5217 * UINT64_C(604800000000000));
    assert_int_equal(parse("1/s capacity=0.000001").capacity_micro, 1);
    assert_int_equal(parse("1000/s capacity=1000000000000").capacity_micro, WEIR_MICRO_MAX);
    static const struct refusal REFUSALS[] = {
        {"0.0000009/s", WEIR_E_INEXACT, 8, "the count has more than six places after the point"},
        {"0.0000010/s", WEIR_E_INEXACT, 8, "the count has more than six places after the point"},
        {"1000000000000.000001/s", WEIR_E_RANGE, 0, "the count is above 1000000000000"},
        {"1000000000001/s", WEIR_E_RANGE, 0, "the count is above 1000000000000"},
        {"99999999999999999999999999/s", WEIR_E_RANGE, 0, "the count is above 1000000000000"},
        {"1/3155760000000000001ns", WEIR_E_RANGE, 2, "the period is above 100 years"},
        {"1/36526d", WEIR_E_RANGE, 2, "the period is above 100 years"},
        {"1/5218w", WEIR_E_RANGE, 2, "the period is above 100 years"},
        {"1/18446744073709551617ns", WEIR_E_RANGE, 2, "the period is above 100 years"},
        {"1/s capacity=0.0000001", WEIR_E_INEXACT, 21,
         "the capacity has more than six places after the point"},
        {"1/s capacity=1000000000000.000001", WEIR_E_RANGE, 13,
         "the capacity is above 1000000000000"},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        assert_refused(&REFUSALS[i]);
    }
}

/* 2^40 - 1 millionths per nanosecond is the finest rate; 2^40 is even, so it needs an odd period. */
static void test_the_denominator_at_its_edge(void **state)
{
    (void)state;
    struct weir_limit limit;
    assert_int_equal(weir_limit_from_text(&limit, "1099511.627775/ns", NULL), WEIR_OK);
    assert_int_equal(limit.denominator, WEIR_DENOMINATOR_MAX);
    assert_int_equal(limit.scale, 1);
    assert_int_equal(weir_limit_from_text(&limit, "1099511.627776/2ns", NULL), WEIR_OK);
    struct weir_limit_config config;
    struct weir_error error;
    const char *text = "1099511.627776/ns";
    assert_int_equal(weir_limit_parse(&config, text, strlen(text), &error), WEIR_E_INEXACT);
    assert_string_equal(error.message,
                        "the rate cannot be represented exactly: in lowest terms it needs a"
                        " numerator below 2^40; use a rounder count");
    assert_int_equal(weir_limit_from_text(&limit, "1099511.627776/3ns", NULL), WEIR_E_INEXACT);
}

static void test_a_bucket_empties_within_a_hundred_years(void **state)
{
    (void)state;
    struct weir_limit limit;
    struct weir_error error;
    assert_int_equal(weir_limit_from_text(&limit, "1/s capacity=3155760000", &error), WEIR_OK);
    assert_int_equal(limit.full_ns, WEIR_SPAN_NS_MAX);
    assert_int_equal(weir_limit_from_text(&limit, "1/s capacity=3155760000.000001", &error),
                     WEIR_E_RANGE);
    assert_string_equal(error.message, "a full bucket would take more than 100 years to empty");
    assert_int_equal(weir_limit_from_text(&limit, "0.5/36525d capacity=0.5", &error), WEIR_OK);
    assert_int_equal(weir_limit_from_text(&limit, "0.5/36525d", &error), WEIR_E_RANGE);
}

static void test_numbers_that_do_not_go_together_have_a_place(void **state)
{
    (void)state;
    static const struct refusal REFUSALS[] = {
        {"bucket 1099511.627776/ns burst=5", WEIR_E_INEXACT, 7,
         "the rate cannot be represented exactly: in lowest terms it needs a numerator below 2^40;"
         " use a rounder count"},
        {"bucket 1/s on_full=allow capacity=3155760001", WEIR_E_RANGE, 34,
         "a full bucket would take more than 100 years to empty"},
        {"  0.5/36525d", WEIR_E_RANGE, 2, "a full bucket would take more than 100 years to empty"},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        assert_refused(&REFUSALS[i]);
    }
}

static void test_a_text_has_a_maximum(void **state)
{
    (void)state;
    char text[WEIR_LIMIT_TEXT_MAX + 1];
    memset(text, ' ', sizeof text);
    memcpy(text, "10/s", 4);
    struct weir_limit_config config;
    struct weir_error error;
    assert_int_equal(weir_limit_parse(&config, text, WEIR_LIMIT_TEXT_MAX, &error), WEIR_OK);
    assert_int_equal(weir_limit_parse(&config, text, WEIR_LIMIT_TEXT_MAX + 1, &error),
                     WEIR_E_RANGE);
    assert_int_equal(error.offset, WEIR_LIMIT_TEXT_MAX);
    assert_string_equal(error.message, "the limit is longer than 256 bytes");
}

static void test_a_config_out_of_range_is_not_compiled(void **state)
{
    (void)state;
    const struct weir_limit_config good = {
        .count_micro = WEIR_UNIT, .period_ns = 1000, .capacity_micro = WEIR_UNIT};
    struct weir_limit limit;
    struct weir_error error;
    struct weir_limit_config config = good;
    assert_int_equal(weir_limit_init(&limit, &config, &error), WEIR_OK);
    config.count_micro = 0;
    assert_int_equal(weir_limit_init(&limit, &config, &error), WEIR_E_RANGE);
    assert_string_equal(error.message, "the count must be 0.000001 to 1000000000000");
    config.count_micro = WEIR_MICRO_MAX + 1;
    assert_int_equal(weir_limit_init(&limit, &config, &error), WEIR_E_RANGE);
    config = good;
    config.period_ns = 0;
    assert_int_equal(weir_limit_init(&limit, &config, &error), WEIR_E_RANGE);
    assert_string_equal(error.message, "the period must be 1 ns to 100 years");
    config.period_ns = WEIR_SPAN_NS_MAX + 1;
    assert_int_equal(weir_limit_init(&limit, &config, &error), WEIR_E_RANGE);
    config = good;
    config.capacity_micro = 0;
    assert_int_equal(weir_limit_init(&limit, &config, &error), WEIR_E_RANGE);
    assert_string_equal(error.message, "the capacity must be 0.000001 to 1000000000000");
    config.capacity_micro = WEIR_MICRO_MAX + 1;
    assert_int_equal(weir_limit_init(&limit, &config, NULL), WEIR_E_RANGE);
}

static void test_a_config_of_no_known_words_is_not_compiled(void **state)
{
    (void)state;
    const struct weir_limit_config good = {.kind = WEIR_KIND_QUEUE,
                                           .count_micro = WEIR_UNIT,
                                           .period_ns = 1000,
                                           .capacity_micro = WEIR_UNIT,
                                           .first = WEIR_FIRST_NOW,
                                           .waiting = WEIR_WAITING_MAX};
    struct weir_limit_config bad[7];
    struct weir_limit limit;
    struct weir_error error;
    assert_int_equal(weir_limit_init(&limit, &good, &error), WEIR_OK);
    for (size_t i = 0; i < 7; i++) {
        bad[i] = good;
    }
    bad[0].kind = (enum weir_kind)7;
    bad[1].first = (enum weir_first)(WEIR_FIRST_NOW + 1);
    bad[2].on_full = (enum weir_on_full)(WEIR_ON_FULL_EVICT + 1);
    bad[3].kind = WEIR_KIND_BUCKET; // which has no `first`
    bad[4].on_error = (enum weir_on_error)(WEIR_ON_ERROR_ALLOW + 1);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(weir_limit_init(&limit, &bad[i], &error), WEIR_E_RANGE);
        assert_string_equal(error.message,
                            "the kind, first, on_full or on_error is none of its values");
    }
    bad[5].waiting = WEIR_WAITING_MAX + 1;
    assert_int_equal(weir_limit_init(&limit, &bad[5], &error), WEIR_E_RANGE);
    assert_string_equal(error.message, "waiting must be 0 to 1000000");
    bad[6].block_ns = WEIR_BLOCK_NS_MAX + 1;
    assert_int_equal(weir_limit_init(&limit, &bad[6], &error), WEIR_E_RANGE);
    assert_string_equal(error.message, "a block must be 1 ns to 100 years");
}

static void test_a_text_that_does_not_fit_is_cut(void **state)
{
    (void)state;
    struct weir_limit_config config = parse("100/s capacity=20");
    char text[WEIR_LIMIT_TEXT_MAX];
    assert_int_equal(weir_limit_print(&config, text, 18), WEIR_OK);
    assert_string_equal(text, "100/s capacity=20");
    assert_int_equal(weir_limit_print(&config, text, 17), WEIR_E_NO_SPACE);
    assert_string_equal(text, "100/s capacity=2");
    assert_int_equal(weir_limit_print(&config, text, 1), WEIR_E_NO_SPACE);
    assert_string_equal(text, "");
    assert_int_equal(weir_limit_print(&config, NULL, 0), WEIR_E_NO_SPACE);
}

/* Each prefix of a good text is read without looking beyond its end. */
static void test_prefixes_are_read_to_their_end_only(void **state)
{
    (void)state;
    static const char TEXT[] = "bucket 12.5/30min capacity=7.25 on_full=allow";
    static const size_t WHOLE[] = {13, 14, 17, 18, 28, 30, 31, 32, 45}; // lengths that are limits
    for (size_t length = 0; length < sizeof TEXT; length++) {
        struct weir_limit_config config;
        int is_whole = 0;
        for (size_t i = 0; i < sizeof WHOLE / sizeof WHOLE[0]; i++) {
            is_whole |= WHOLE[i] == length;
        }
        struct weir_error error;
        enum weir_status status = weir_limit_parse(&config, TEXT, length, &error);
        if (length == 13 || length == 14) { // "12.5/3", "12.5/30": no unit yet
            is_whole = 0;
        }
        if ((status == WEIR_OK) != is_whole) {
            fail_msg("%zu bytes: %s", length, weir_status_name(status));
        }
        if (status != WEIR_OK) {
            assert_true(error.offset <= length);
        }
    }
}

/* Texts that end where the page does: the next byte may not even be looked at. */
static void test_texts_are_not_read_beyond_their_end(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"10/s",
                                        "10/",
                                        "10",
                                        "bucket",
                                        "bucket ",
                                        "10/s capacity",
                                        "10/s capacity=",
                                        "10/s capacity=1.",
                                        "10/s on_full=allow",
                                        "1.25"};
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *pages =
        mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page_bytes, page_bytes, PROT_NONE), 0);
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        struct weir_limit_config config;
        struct weir_error near_error = {0};
        struct weir_error error = {0};
        uint64_t cost_micro;
        size_t length = strlen(TEXTS[i]);
        char *text = pages + page_bytes - length;
        memcpy(text, TEXTS[i], length);
        enum weir_status status = weir_limit_parse(&config, text, length, &near_error);
        assert_int_equal(status, weir_limit_parse(&config, TEXTS[i], length, &error));
        assert_string_equal(near_error.message, error.message);
        status = weir_cost_parse(&cost_micro, text, length, NULL);
        assert_int_equal(status, weir_cost_parse(&cost_micro, TEXTS[i], length, NULL));
    }
    assert_int_equal(munmap(pages, 2 * page_bytes), 0);
}

static void test_costs_are_decimals_with_six_places(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t micro;
    } GOOD[] = {{"0", 0},
                {"0.000000", 0},
                {"1", WEIR_UNIT},
                {"0.000001", 1},
                {"2.5", 2500000},
                {"007", 7 * WEIR_UNIT},
                {"1000000000000", WEIR_COST_MAX},
                {"1000000000000.0", WEIR_COST_MAX}};
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        uint64_t micro = UINT64_MAX;
        assert_int_equal(weir_cost_parse(&micro, GOOD[i].text, strlen(GOOD[i].text), NULL),
                         WEIR_OK);
        assert_int_equal(micro, GOOD[i].micro);
    }
    static const struct refusal BAD[] = {
        {"", WEIR_E_SYNTAX, 0, "expected the cost, but the text ends"},
        {" 1", WEIR_E_SYNTAX, 0, "expected the cost, not ' '"},
        {"1 ", WEIR_E_SYNTAX, 1, "expected the end of the cost, not ' '"},
        {"-1", WEIR_E_SYNTAX, 0, "expected the cost, not '-'"},
        {"+1", WEIR_E_SYNTAX, 0, "expected the cost, not '+'"},
        {"1e3", WEIR_E_SYNTAX, 1, "expected the end of the cost, not 'e'"},
        {"0x1", WEIR_E_SYNTAX, 1, "expected the end of the cost, not 'x'"},
        {".5", WEIR_E_SYNTAX, 0, "expected the cost, not '.'"},
        {"1.", WEIR_E_SYNTAX, 2, "expected a digit after the point, but the text ends"},
        {"1.5.5", WEIR_E_SYNTAX, 3, "expected the end of the cost, not '.'"},
        {"nan", WEIR_E_SYNTAX, 0, "expected the cost, not 'n'"},
        {"0.0000001", WEIR_E_INEXACT, 8, "the cost has more than six places after the point"},
        {"1000000000000.000001", WEIR_E_RANGE, 0, "the cost is above 1000000000000"},
        {"1000000000001", WEIR_E_RANGE, 0, "the cost is above 1000000000000"},
        {"18446744073709551617", WEIR_E_RANGE, 0, "the cost is above 1000000000000"},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        uint64_t micro;
        struct weir_error error = {0};
        size_t length = strlen(BAD[i].text);
        assert_int_equal(weir_cost_parse(&micro, BAD[i].text, length, &error), BAD[i].status);
        assert_int_equal(error.offset, BAD[i].offset);
        assert_string_equal(error.message, BAD[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rate_is_count_per_period),
        cmocka_unit_test(test_a_queue_is_read_with_its_words),
        cmocka_unit_test(test_a_stepped_limit_keeps_its_count_and_period),
        cmocka_unit_test(test_a_fixed_limit_goes_by_the_calendar),
        cmocka_unit_test(test_a_sliding_limit_counts_whole_units),
        cmocka_unit_test(test_every_unit_has_its_length),
        cmocka_unit_test(test_the_capacity_is_the_count_but_at_least_one),
        cmocka_unit_test(test_the_canonical_text_is_what_people_would_write),
        cmocka_unit_test(test_a_limit_can_be_printed_over_its_own_period),
        cmocka_unit_test(test_the_same_bucket_is_the_same_text),
        cmocka_unit_test(test_refusals_say_where_and_why),
        cmocka_unit_test(test_a_long_word_is_shown_in_part),
        cmocka_unit_test(test_a_zero_byte_is_a_byte_like_others),
        cmocka_unit_test(test_numbers_at_the_edges_of_their_ranges),
        cmocka_unit_test(test_the_denominator_at_its_edge),
        cmocka_unit_test(test_a_bucket_empties_within_a_hundred_years),
        cmocka_unit_test(test_numbers_that_do_not_go_together_have_a_place),
        cmocka_unit_test(test_a_text_has_a_maximum),
        cmocka_unit_test(test_a_config_out_of_range_is_not_compiled),
        cmocka_unit_test(test_a_config_of_no_known_words_is_not_compiled),
        cmocka_unit_test(test_a_text_that_does_not_fit_is_cut),
        cmocka_unit_test(test_prefixes_are_read_to_their_end_only),
        cmocka_unit_test(test_texts_are_not_read_beyond_their_end),
        cmocka_unit_test(test_costs_are_decimals_with_six_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
