/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/limit_arguments.h"

enum { LINE_BYTES = 80, WORD_COUNT = 12 };

/* The words of a line, with one space between any two, joined again. */
static void expect(const char *line, const char *joined_text)
{
    char copy[LINE_BYTES];
    char *words[WORD_COUNT];
    int count = 0;
    struct limit_arguments joined;
    assert_true(strlen(line) < sizeof copy);
    memcpy(copy, line, strlen(line) + 1);
    char *rest;
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    assert_true(limit_arguments_join(&joined, count, words));
    assert_string_equal(joined.text, joined_text);
}

static void a_rate_or_a_kind_begins_a_limit(void **state)
{
    (void)state;
    expect("10/s 1000/h", "10/s, 1000/h");
    expect("10/s capacity=5 fixed 20/h on_full=allow", "10/s capacity=5, fixed 20/h on_full=allow");
    expect("10/s, 5/s", "10/s, 5/s");
}

static void a_name_is_a_limit_wherever_it_stands(void **state)
{
    (void)state;
    expect("login 10/s", "login, 10/s");
    expect("10/s login", "10/s, login");
    expect("login guard", "login, guard");
    expect("login, guard a-1_b, 5/s", "login, guard, a-1_b, 5/s");
    expect("fixed 20/h block=1h login queue 5/s", "fixed 20/h block=1h, login, queue 5/s");
    expect("10/s login,guard fixed 2/h", "10/s, login,guard, fixed 2/h");
}

static void what_cannot_be_a_name_goes_on(void **state)
{
    (void)state;
    expect("10/s Login", "10/s Login");
    expect("10/s log.in", "10/s log.in");
    expect("login capacity=5", "login capacity=5");
    expect("fixed login", "fixed login"); // a count is missing
    expect("10/s capacity 5", "10/s capacity 5");
    expect("10/s capcity 5 burst 6", "10/s capcity 5 burst 6");
    expect("10/s block = empty", "10/s block = empty");
    expect("10/s block= empty", "10/s block= empty");
    expect("10/s block =empty", "10/s block =empty");
}

static void a_name_has_so_many_bytes(void **state)
{
    (void)state;
    char name[65];
    memset(name, 'n', sizeof name);
    name[64] = '\0';
    assert_false(word_is_name(name));
    name[63] = '\0';
    assert_true(word_is_name(name));
    assert_false(word_is_name(""));
    assert_false(word_is_name("1st"));
    assert_false(word_is_name("window"));
    assert_true(word_is_name("windows, 5/s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_or_a_kind_begins_a_limit),
        cmocka_unit_test(a_name_is_a_limit_wherever_it_stands),
        cmocka_unit_test(what_cannot_be_a_name_goes_on),
        cmocka_unit_test(a_name_has_so_many_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
