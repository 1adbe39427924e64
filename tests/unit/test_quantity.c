/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "core/quantity.h"

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

static void test_durations_name_their_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } cases[] = {{"0", 0},
                 {"0s", 0},
                 {"1ns", 1},
                 {"2us", 2000},
                 {"50ms", 50000000},
                 {"10s", 10000000000},
                 {"2min", 120000000000},
                 {"1h", 3600000000000},
                 {"366d", QUANTITY_DURATION_NS_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t ns;
        assert_true(quantity_parse_duration(cases[i].text, &ns));
        assert_true(ns == cases[i].ns);
    }
    static const char *const refused[] = {"", "10", "s", "1.5s", "10 s", "10m", "-1s", "367d"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        uint64_t ns;
        assert_false(quantity_parse_duration(refused[i], &ns));
    }
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
        cmocka_unit_test(test_durations_name_their_unit),
        cmocka_unit_test(test_modes_are_octal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
