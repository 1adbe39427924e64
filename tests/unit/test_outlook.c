/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/outlook.h"

static void told(struct outlook *outlook, uint64_t now_ns, const char *expected)
{
    char text[OUTLOOK_TEXT_MAX];
    assert_string_equal(outlook_print(outlook, now_ns, text), expected);
}

static void the_place_is_that_of_the_instant_of_joining(void **state)
{
    (void)state;
    struct outlook outlook = {.turn_ns = 100 * NS_PER_S, .place = 5};
    told(&outlook, 75 * NS_PER_S, "5th in line, about 25 s");
    told(&outlook, 88 * NS_PER_S, "joined as 5th, about 12 s left");
    told(&outlook, 99 * NS_PER_S + 1, "joined as 5th, about 1 s left");
    told(&outlook, 100 * NS_PER_S, "joined as 5th, any moment");
    told(&outlook, 101 * NS_PER_S, "joined as 5th, any moment");
}

static void without_a_place_there_is_the_time(void **state)
{
    (void)state;
    struct outlook outlook = {.turn_ns = 5400 * NS_PER_S};
    told(&outlook, 1, "about 1 h 30 min");
    told(&outlook, 5310 * NS_PER_S, "about 1 min 30 s left");
    told(&outlook, 5400 * NS_PER_S, "any moment");
}

static void a_place_is_an_ordinal(void **state)
{
    (void)state;
    static const struct {
        uint64_t place;
        const char *text;
    } CASES[] = {
        {1, "1st in line, any moment"},
        {2, "2nd in line, any moment"},
        {3, "3rd in line, any moment"},
        {4, "4th in line, any moment"},
        {10, "10th in line, any moment"},
        {11, "11th in line, any moment"},
        {12, "12th in line, any moment"},
        {13, "13th in line, any moment"},
        {21, "21st in line, any moment"},
        {102, "102nd in line, any moment"},
        {111, "111th in line, any moment"},
        {1003, "1003rd in line, any moment"},
        {UINT64_MAX, "18446744073709551615th in line, any moment"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct outlook outlook = {.turn_ns = 1, .place = CASES[i].place};
        told(&outlook, 1, CASES[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_place_is_that_of_the_instant_of_joining),
        cmocka_unit_test(without_a_place_there_is_the_time),
        cmocka_unit_test(a_place_is_an_ordinal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
