/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "cli/reply.h"

/* Parses the bytes whole, and every beginning of them, each in memory of exactly its size so that
 * AddressSanitizer sees a step too far. A beginning of a good reply is MORE. */
static enum reply_result parse(const char *text, struct reply *reply, size_t *used)
{
    size_t length = strlen(text);
    enum reply_result result = REPLY_MORE;
    for (size_t cut = 0; cut <= length; cut++) {
        static char kept[4096]; // the reply's texts point into it after we return
        char *copy = malloc(cut + (cut == 0));
        assert_non_null(copy);
        memcpy(copy, text, cut);
        result = reply_parse((struct bytes){copy, cut}, reply, used);
        free(copy);
        if (cut == length) {
            memcpy(kept, text, length);
            result = reply_parse((struct bytes){kept, length}, reply, used);
        } else if (result == REPLY_BAD) {
            return REPLY_BAD; // it stays so
        } else {
            assert_true(result == REPLY_MORE || *used <= cut);
        }
    }
    return result;
}

static void good(const char *text, struct reply *reply)
{
    size_t used = 0;
    assert_int_equal(parse(text, reply, &used), REPLY_DONE);
    assert_int_equal(used, strlen(text));
}

static void bad(const char *text)
{
    struct reply reply;
    size_t used;
    assert_int_equal(parse(text, &reply, &used), REPLY_BAD);
}

static void a_decision_is_six_numbers(void **state)
{
    (void)state;
    struct reply reply;
    good("*6\r\n:1\r\n:10\r\n:0\r\n:78000000\r\n:978000000\r\n:-1\r\n", &reply);
    assert_true(reply.is_array);
    assert_int_equal(reply.count, 6);
    assert_int_equal(reply.items[0].number, 1);
    assert_int_equal(reply.items[3].number, 78000000);
    assert_int_equal(reply.items[5].number, -1);
}

static void texts_come_with_a_length_or_in_a_line(void **state)
{
    (void)state;
    struct reply reply;
    good("*2\r\n$4\r\n10/3\r\n:1\r\n", &reply);
    assert_int_equal(reply.items[0].type, '$');
    assert_memory_equal(reply.items[0].text.at, "10/3", 4);
    assert_int_equal(reply.items[0].text.length, 4);
    good("+OK\r\n", &reply);
    assert_false(reply.is_array);
    assert_int_equal(reply.items[0].type, '+');
    good("$0\r\n\r\n", &reply);
    assert_int_equal(reply.items[0].text.length, 0);
}

static void arrays_within_an_array_are_items_in_a_row(void **state)
{
    (void)state;
    struct reply reply;
    good("*4\r\n:0\r\n*2\r\n:7\r\n$1\r\nx\r\n*1\r\n:8\r\n:9\r\n", &reply);
    assert_true(reply.is_array);
    assert_int_equal(reply.count, 7);
    assert_int_equal(reply.items[1].type, '*');
    assert_int_equal(reply.items[1].number, 2);
    assert_int_equal(reply.items[2].number, 7);
    assert_int_equal(reply.items[4].type, '*');
    assert_int_equal(reply.items[5].number, 8);
    assert_int_equal(reply.items[6].number, 9);
    good("*1\r\n*1\r\n:1\r\n", &reply);
    assert_int_equal(reply.count, 2);
}

static void errors_are_known_by_their_first_word(void **state)
{
    (void)state;
    struct reply reply;
    good("-WRONGPASS invalid\r\n", &reply);
    assert_true(reply_is_error(&reply, "WRONGPASS"));
    assert_true(reply_is_error(&reply, ""));
    assert_false(reply_is_error(&reply, "NOAUTH"));
    good(":1\r\n", &reply);
    assert_false(reply_is_error(&reply, ""));
}

static void only_the_first_reply_is_used(void **state)
{
    (void)state;
    struct reply reply;
    size_t used;
    assert_int_equal(reply_parse((struct bytes){":1\r\n:2\r\n", 8}, &reply, &used), REPLY_DONE);
    assert_int_equal(used, 4);
}

static void the_edges_of_64_bits_are_numbers(void **state)
{
    (void)state;
    struct reply reply;
    good(":9223372036854775807\r\n", &reply);
    assert_true(reply.items[0].number == INT64_MAX);
    good(":-9223372036854775807\r\n", &reply);
    bad(":9223372036854775808\r\n");
    bad(":99999999999999999999\r\n");
}

static void what_is_no_reply_is_refused(void **state)
{
    (void)state;
    bad("HTTP/1.1 400 Bad Request\r\n");
    bad("\r\n");
    bad(":\r\n");
    bad(":-\r\n");
    bad(":1x\r\n");
    bad(":+1\r\n");
    bad(": 1\r\n");
    bad(":1\n");
    bad("*0\r\n");
    bad("*81\r\n");
    bad("*-1\r\n");
    bad("*1\r\n*0\r\n");
    bad("*1\r\n*-1\r\n");
    bad("*1\r\n*1\r\n*1\r\n:1\r\n");
    bad("*2\r\n*2\r\n:1\r\n*1\r\n:1\r\n:1\r\n");
    bad("*1\r\n*80\r\n");
    bad("*80\r\n*1\r\n");
    bad("$-1\r\n");
    bad("$65537\r\n");
    bad("$2\r\nabc\r\n");
    bad("%1\r\n");
}

static void a_line_without_an_end_is_refused(void **state)
{
    (void)state;
    static char line[REPLY_LINE_BYTES_MAX + 2];
    struct reply reply;
    size_t used;
    memset(line, '-', sizeof line);
    assert_int_equal(reply_parse((struct bytes){line, REPLY_LINE_BYTES_MAX}, &reply, &used),
                     REPLY_MORE);
    assert_int_equal(reply_parse((struct bytes){line, sizeof line}, &reply, &used), REPLY_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_is_six_numbers),
        cmocka_unit_test(texts_come_with_a_length_or_in_a_line),
        cmocka_unit_test(arrays_within_an_array_are_items_in_a_row),
        cmocka_unit_test(errors_are_known_by_their_first_word),
        cmocka_unit_test(only_the_first_reply_is_used),
        cmocka_unit_test(the_edges_of_64_bits_are_numbers),
        cmocka_unit_test(what_is_no_reply_is_refused),
        cmocka_unit_test(a_line_without_an_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
