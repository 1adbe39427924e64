/* SPDX-License-Identifier: MIT
 *
 * What the log gets of a sentence that quotes a client. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "protocol/quotes.h"

static void test_empties_what_is_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *sentence, *emptied;
    } CASES[] = {
        {"", ""},
        {"EXEC without MULTI", "EXEC without MULTI"},
        {"unknown unit 'parsec'; one of ns us ms", "unknown unit '..'; one of ns us ms"},
        {"'alice' is no kind of limit", "'..' is no kind of limit"},
        {"unknown command 'GET', with args beginning with: 'alice' 'x' ", "unknown command '..' "},
        {"unknown subcommand 'x'. Try CLIENT HELP.", "unknown subcommand '..'. Try CLIENT HELP."},
        {"expected '/' and a period, not 'x'", "expected '/' and a period, not '..'"},
        {"expected '=', but the text ends", "expected '=', but the text ends"},
        {"only this server's own may, under its client's",
         "only this server's own may, under its client's"},
        {"Host 'evil' is not this server's", "Host '..' is not this server's"},
        {"(of 'alice') twice", "(of '..') twice"},
        /* with quotes in what is quoted */
        {"unknown unit 'a' b'; one of ns", "unknown unit '..'; one of ns"},
        {"unknown unit ''''; one of ns", "unknown unit '..'; one of ns"},
        {"unknown unit ''; one of ns", "unknown unit '..'; one of ns"},
        {"expected a count, not '''", "expected a count, not '..'"},
        {"unknown unit '/'alice'; one of ns", "unknown unit '..'; one of ns"},
        /* cut before the last quote */
        {"unknown unit 'ali", "unknown unit '..'"},
        {"unknown unit '", "unknown unit '..'"},
        {"unknown unit '/", "unknown unit '..'"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char emptied[128];
        assert_string_equal(quotes_empty(CASES[i].sentence, emptied, sizeof emptied),
                            CASES[i].emptied);
    }
}

static void test_is_cut_to_its_room(void **state)
{
    (void)state;
    char emptied[8];
    assert_string_equal(quotes_empty("a longer sentence", emptied, sizeof emptied), "a longe");
    assert_string_equal(quotes_empty("of 'alice' twice", emptied, sizeof emptied), "of '..'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empties_what_is_quoted),
        cmocka_unit_test(test_is_cut_to_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
