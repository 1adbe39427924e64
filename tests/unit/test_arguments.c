/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/arguments.h"

enum { OPTION_COST, OPTION_JSON };

static const struct option OPTIONS[] = {
    [OPTION_COST] = {"cost", "N", "how much"},
    [OPTION_JSON] = {"json", NULL, "as JSON"},
    {NULL, NULL, NULL},
};

/* What the only argument of a command line is. */
static int only(const char *word, struct arguments *arguments, const char **value)
{
    static char *words[1];
    words[0] = (char *)(uintptr_t)word; // argv is not const in C, and nobody writes to it
    *arguments = (struct arguments){.count = 1, .words = words};
    return arguments_next(arguments, OPTIONS, value);
}

static void words_and_options_come_in_any_order(void **state)
{
    (void)state;
    char *words[] = {(char[]){"alice"},  (char[]){"--cost"}, (char[]){"5"},       (char[]){"10/s"},
                     (char[]){"--json"}, (char[]){"--json"}, (char[]){"--cost=6"}};
    struct arguments arguments = {.count = 7, .words = words};
    const char *value;
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), ARGUMENT_WORD);
    assert_string_equal(value, "alice");
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), OPTION_COST);
    assert_string_equal(value, "5");
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), ARGUMENT_WORD);
    assert_string_equal(value, "10/s");
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), OPTION_JSON);
    assert_null(value);
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), OPTION_JSON); // harmless twice
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), ARGUMENT_BAD);
    assert_string_equal(arguments.problem, "--cost is given twice");
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), ARGUMENT_END);
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), ARGUMENT_END);
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    char *words[] = {(char[]){"--"}, (char[]){"--json"}, (char[]){"--"}};
    struct arguments arguments = {.count = 3, .words = words};
    const char *value;
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), ARGUMENT_WORD);
    assert_string_equal(value, "--json");
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), ARGUMENT_WORD);
    assert_string_equal(value, "--");
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), ARGUMENT_END);
}

static void two_dashes_may_be_last(void **state)
{
    (void)state;
    struct arguments arguments;
    const char *value;
    assert_int_equal(only("--", &arguments, &value), ARGUMENT_END);
}

static void a_single_dash_and_an_empty_word_are_words(void **state)
{
    (void)state;
    struct arguments arguments;
    const char *value;
    assert_int_equal(only("-", &arguments, &value), ARGUMENT_WORD);
    assert_int_equal(only("", &arguments, &value), ARGUMENT_WORD);
}

static void help_is_known_everywhere(void **state)
{
    (void)state;
    struct arguments arguments;
    const char *value;
    assert_int_equal(only("--help", &arguments, &value), ARGUMENT_HELP);
    assert_int_equal(only("-h", &arguments, &value), ARGUMENT_HELP);
}

static void problems_name_the_option(void **state)
{
    (void)state;
    struct arguments arguments;
    const char *value;
    assert_int_equal(only("--cots=5", &arguments, &value), ARGUMENT_BAD);
    assert_string_equal(arguments.problem, "unknown option --cots=5; did you mean --cost?");
    assert_int_equal(only("--frobnicate", &arguments, &value), ARGUMENT_BAD);
    assert_string_equal(arguments.problem,
                        "unknown option --frobnicate; a word that starts with - comes after --");
    assert_int_equal(only("-x", &arguments, &value), ARGUMENT_BAD);
    assert_string_equal(arguments.problem,
                        "unknown option -x; a word that starts with - comes after --");
    assert_int_equal(only("--co", &arguments, &value), ARGUMENT_BAD); // a beginning is no name
    assert_int_equal(only("--cost", &arguments, &value), ARGUMENT_BAD);
    assert_string_equal(arguments.problem, "--cost needs a value: N");
    assert_int_equal(only("--json=yes", &arguments, &value), ARGUMENT_BAD);
    assert_string_equal(arguments.problem, "--json takes no value");
}

static void a_value_may_be_empty_and_may_look_like_an_option(void **state)
{
    (void)state;
    struct arguments arguments;
    const char *value;
    assert_int_equal(only("--cost=", &arguments, &value), OPTION_COST);
    assert_string_equal(value, "");
    char *words[] = {(char[]){"--cost"}, (char[]){"--json"}};
    arguments = (struct arguments){.count = 2, .words = words};
    assert_int_equal(arguments_next(&arguments, OPTIONS, &value), OPTION_COST);
    assert_string_equal(value, "--json");
}

static const char *next_name(const void *names, int i)
{
    return ((const char *const *)names)[i];
}

static void the_nearest_word_is_at_most_two_letters_away(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"take", "fill", "show", "can-take", NULL};
    assert_string_equal(nearest_word("tkae", next_name, NAMES), "take");
    assert_string_equal(nearest_word("cantake", next_name, NAMES), "can-take");
    assert_string_equal(nearest_word("fil", next_name, NAMES), "fill");
    assert_null(nearest_word("xyzzy", next_name, NAMES));
    assert_null(nearest_word("", next_name, NAMES));
    assert_null(nearest_word("a-word-that-is-longer-than-any-command", next_name, NAMES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_options_come_in_any_order),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(two_dashes_may_be_last),
        cmocka_unit_test(a_single_dash_and_an_empty_word_are_words),
        cmocka_unit_test(help_is_known_everywhere),
        cmocka_unit_test(problems_name_the_option),
        cmocka_unit_test(a_value_may_be_empty_and_may_look_like_an_option),
        cmocka_unit_test(the_nearest_word_is_at_most_two_letters_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
