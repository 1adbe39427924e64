/* SPDX-License-Identifier: MIT
 *
 * Lists of limits: where each stands in the text, and what is said of a list that is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limit_list.h"

/* Splits a copy without a NUL, so that a sanitizer sees the first byte beyond. */
static enum weir_status split(struct limit_list *list, const char *text, struct weir_error *error)
{
    size_t length = strlen(text);
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    enum weir_status status = limit_list_split(list, copy, length, error);
    free(copy);
    return status;
}

static void assert_spans(const char *text, size_t count, const char *const *expected)
{
    struct limit_list list;
    struct weir_error error;
    assert_int_equal(split(&list, text, &error), WEIR_OK);
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list.spans[i].length, strlen(expected[i]));
        assert_memory_equal(text + list.spans[i].at, expected[i], strlen(expected[i]));
    }
}

static void test_a_comma_stands_between_limits(void **state)
{
    (void)state;
    assert_spans("10/s,100/min", 2, (const char *const[]){"10/s", "100/min"});
    assert_spans("  10/s ,  100/min capacity=5  ,1000/h ", 3,
                 (const char *const[]){"10/s", "100/min capacity=5", "1000/h"});
}

static void test_one_limit_is_all_of_the_text(void **state)
{
    (void)state;
    assert_spans("10/s", 1, (const char *const[]){"10/s"});
    assert_spans("  10/s ", 1, (const char *const[]){"  10/s "});
    assert_spans("", 1, (const char *const[]){""});
}

static void assert_refused(const char *text, enum weir_status status, size_t offset,
                           const char *message)
{
    struct limit_list list;
    struct weir_error error;
    assert_int_equal(split(&list, text, &error), status);
    assert_string_equal(error.message, message);
    assert_int_equal(error.offset, offset);
    assert_int_equal(split(&list, text, NULL), status);
}

static void test_an_empty_one_is_refused(void **state)
{
    (void)state;
    assert_refused(",", WEIR_E_SYNTAX, 0, "limit 1 of 2 is empty");
    assert_refused("10/s,", WEIR_E_SYNTAX, 5, "limit 2 of 2 is empty");
    assert_refused("10/s, ,5/s", WEIR_E_SYNTAX, 6, "limit 2 of 3 is empty");
    assert_refused(" ,10/s", WEIR_E_SYNTAX, 1, "limit 1 of 2 is empty");
}

static void repeat(char *text, const char *piece, size_t count)
{
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        strcat(text, piece);
    }
}

static void test_sixteen_are_taken_together_and_not_seventeen(void **state)
{
    (void)state;
    char text[256] = "1/s";
    struct limit_list list;
    repeat(text + 3, ",1/s", 15);
    assert_int_equal(split(&list, text, NULL), WEIR_OK);
    assert_int_equal(list.count, 16);
    assert_refused(strcat(text, ",1/s"), WEIR_E_RANGE, 63,
                   "17 limits: at most 16 can be taken together");
}

static void test_a_list_has_a_longest_text(void **state)
{
    (void)state;
    char text[LIMIT_LIST_TEXT_MAX + 2];
    struct limit_list list;
    memset(text, ' ', sizeof text);
    memcpy(text, "1/s,2/s", 7);
    text[LIMIT_LIST_TEXT_MAX] = '\0';
    assert_int_equal(split(&list, text, NULL), WEIR_OK);
    text[LIMIT_LIST_TEXT_MAX] = ' ';
    text[LIMIT_LIST_TEXT_MAX + 1] = '\0';
    assert_refused(text, WEIR_E_RANGE, LIMIT_LIST_TEXT_MAX,
                   "the limits are longer than 4128 bytes together");
}

static void test_says_which_limit_and_where(void **state)
{
    (void)state;
    struct limit_list list;
    struct weir_error error = {.offset = 3, .message = "unknown unit 'x'"};
    assert_int_equal(split(&list, "10/s, 100/x", NULL), WEIR_OK);
    assert_int_equal(limit_list_fail(&list, 1, WEIR_E_SYNTAX, &error), WEIR_E_SYNTAX);
    assert_string_equal(error.message, "limit 2 of 2: unknown unit 'x'");
    assert_int_equal(error.offset, 9);
    assert_int_equal(limit_list_fail_twice(&list, 1, 0, &error), WEIR_E_SYNTAX);
    assert_string_equal(error.message, "limit 2 of 2 is limit 1 again, the same bucket twice");
    assert_int_equal(error.offset, 6);
    assert_int_equal(limit_list_fail(&list, 1, WEIR_E_RANGE, NULL), WEIR_E_RANGE);
}

/* Of the only limit nothing is said that was not said before there were lists. */
static void test_one_limit_is_not_numbered(void **state)
{
    (void)state;
    struct limit_list list;
    struct weir_error error = {.offset = 3, .message = "unknown unit 'x'"};
    assert_int_equal(split(&list, "10/x", NULL), WEIR_OK);
    assert_int_equal(limit_list_fail(&list, 0, WEIR_E_SYNTAX, &error), WEIR_E_SYNTAX);
    assert_string_equal(error.message, "unknown unit 'x'");
    assert_int_equal(error.offset, 3);
}

static void test_the_longest_message_is_cut_and_not_lost(void **state)
{
    (void)state;
    struct limit_list list;
    struct weir_error error = {.offset = 0};
    memset(error.message, 'x', sizeof error.message - 1);
    assert_int_equal(split(&list, "10/s, 100/x", NULL), WEIR_OK);
    (void)limit_list_fail(&list, 1, WEIR_E_SYNTAX, &error);
    assert_memory_equal(error.message, "limit 2 of 2: xxx", 17);
    assert_true(strlen(error.message) < sizeof error.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_comma_stands_between_limits),
        cmocka_unit_test(test_one_limit_is_all_of_the_text),
        cmocka_unit_test(test_an_empty_one_is_refused),
        cmocka_unit_test(test_sixteen_are_taken_together_and_not_seventeen),
        cmocka_unit_test(test_a_list_has_a_longest_text),
        cmocka_unit_test(test_says_which_limit_and_where),
        cmocka_unit_test(test_one_limit_is_not_numbered),
        cmocka_unit_test(test_the_longest_message_is_cut_and_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
