/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "core/quantity.h"
#include "core/time_units.h"
#include "weir/limit.h"

static void test_counts_are_whole_digits_in_range(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_true(quantity_parse_count("1", 1, 9, &value));
    assert_int_equal(value, 1);
    assert_true(quantity_parse_count("18446744073709551615", 0, UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
    value = 7;
    static const char *const refused[] = {"",
                                          "0",
                                          "10",
                                          "-1",
                                          "+1",
                                          " 1",
                                          "1 ",
                                          "1.0",
                                          "0x1",
                                          "18446744073709551616",
                                          "99999999999999999999999"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_false(quantity_parse_count(refused[i], 1, 9, &value));
        assert_int_equal(value, 7);
    }
}

static void test_sizes_count_in_powers_of_1024(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"0", 0},           {"4096", 4096},         {"1K", 1024},
                 {"1k", 1024},       {"256M", 256ULL << 20}, {"256MiB", 256ULL << 20},
                 {"3G", 3ULL << 30}, {"16T", 16ULL << 40}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes;
        assert_true(quantity_parse_bytes(cases[i].text, &bytes));
        assert_true(bytes == cases[i].bytes);
    }
    static const char *const refused[] = {"",    "M",    "1.5G", "-1M",
                                          "1 M", "1MB ", "1P",   "17179869184G"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        uint64_t bytes;
        assert_false(quantity_parse_bytes(refused[i], &bytes));
    }
}

static void reads(const char *text, uint64_t expected_ns)
{
    uint64_t ns = 42;
    assert_int_equal(quantity_parse_duration(&ns, text, NULL), WEIR_OK);
    assert_true(ns == expected_ns);
}

static void refuses(const char *text, enum weir_status status, size_t offset)
{
    uint64_t ns;
    struct weir_error error;
    assert_int_equal(quantity_parse_duration(&ns, text, &error), status);
    assert_int_equal(error.offset, offset);
}

static void test_durations_are_read_exactly(void **state)
{
    (void)state;
    reads("0s", 0);
    reads("0", 0);
    reads("1ns", 1);
    reads("7us", 7000);
    reads("500ms", 500 * NS_PER_MS);
    reads("1.5s", 1500 * NS_PER_MS);
    reads("0.000000001s", 1);
    reads("2min", 120 * NS_PER_S);
    reads("24h", 86400 * NS_PER_S);
    reads("30d", 30 * 86400 * NS_PER_S);
    reads("1w", 7 * 86400 * NS_PER_S);
    reads("36525d", WEIR_SPAN_NS_MAX); // the maximum
}

static void test_what_is_no_duration_is_refused_with_its_place(void **state)
{
    (void)state;
    refuses("", WEIR_E_SYNTAX, 0);
    refuses("s", WEIR_E_SYNTAX, 0);
    refuses("-1s", WEIR_E_SYNTAX, 0);
    refuses("+1s", WEIR_E_SYNTAX, 0);
    refuses(" 1s", WEIR_E_SYNTAX, 0);
    refuses("10", WEIR_E_SYNTAX, 2);
    refuses("10 s", WEIR_E_SYNTAX, 2);
    refuses("10sec", WEIR_E_SYNTAX, 2);
    refuses("1.s", WEIR_E_SYNTAX, 1);
    refuses("1.5.5s", WEIR_E_SYNTAX, 3);
    refuses("0.5ns", WEIR_E_INEXACT, 0);
    refuses("36525.000000001d", WEIR_E_RANGE, 0);
    refuses("36526d", WEIR_E_RANGE, 0);
    refuses("99999999999999999999999s", WEIR_E_RANGE, 0);
    refuses("0.00000000000000000000001s", WEIR_E_RANGE, 0);
}

static void test_modes_are_octal(void **state)
{
    (void)state;
    unsigned mode;
    assert_true(quantity_parse_mode("0660", &mode));
    assert_int_equal(mode, 0660);
    assert_true(quantity_parse_mode("777", &mode));
    static const char *const refused[] = {"", "8", "1000", "0x1ff", "rw", "777777777777777777"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_false(quantity_parse_mode(refused[i], &mode));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_are_whole_digits_in_range),
        cmocka_unit_test(test_sizes_count_in_powers_of_1024),
        cmocka_unit_test(test_durations_are_read_exactly),
        cmocka_unit_test(test_what_is_no_duration_is_refused_with_its_place),
        cmocka_unit_test(test_modes_are_octal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
