/* SPDX-License-Identifier: MIT
 *
 * What a limit's text asks for where names stand in it: the right rules, keys and words, in order; and
 * nothing where anything is wrong. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "limiter/names/asked.h"

static struct names *names;
static struct weir_limiter *limiter;
static struct rule_cache *cache;

static struct bytes text(const char *bytes)
{
    return (struct bytes){bytes, strlen(bytes)};
}

static void add_limit(const char *name, const char *limit)
{
    assert_int_equal(
        names_add_limit(names, text(name), text(limit), (struct limit_policy){0}, NULL), WEIR_OK);
}

static void add_chain(const char *name, const char *const *links)
{
    assert_int_equal(names_add_chain(names, text(name), NULL), WEIR_OK);
    for (; links[0] != NULL; links += 2) {
        const struct named_limit *limit = names_find(names, links[0], strlen(links[0])).limit;
        assert_int_equal(names_add_link(names, limit, text(links[1]), NULL), WEIR_OK);
    }
}

static int open_all(void **state)
{
    static const char *const request[] = {"user", "user:{user}", "all", "all", NULL};
    static const char *const own[] = {"user", "{key}", NULL};
    const struct weir_limiter_config config = {.memory_bytes = 1 << 20, .seed = {1, 2}};
    (void)state;
    names = names_open();
    if (names == NULL || weir_limiter_open(&limiter, &config, NULL) != WEIR_OK) {
        return -1;
    }
    cache = rule_cache_open(limiter);
    add_limit("user", "10/s");
    assert_int_equal(names_add_override(names, text("ann"), text("20/s"), NULL), WEIR_OK);
    add_limit("all", "1000/s");
    add_chain("request", request);
    add_chain("own", own);
    names_bind(names, limiter);
    return cache != NULL ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    rule_cache_close(cache);
    names_close(names);
    weir_limiter_close(limiter);
    return 0;
}

static struct weir_rule rules[LIMIT_LIST_COUNT_MAX];
static struct asked_part parts[LIMIT_LIST_COUNT_MAX];
static struct asked asked;
static char room[CHAIN_KEYS_BYTES_MAX];

static enum weir_status read_text(const char *limits, const char *key, struct weir_error *error)
{
    static const struct variables variables = {1, {{{"user", 4}, {"bob", 3}}}};
    const struct asking asking = {names, cache, text(key), &variables, room, sizeof room};
    return asked_read(&asking, limits, strlen(limits), rules, parts, &asked, error);
}

static void assert_part(size_t i, const char *said, const char *key, const char *words)
{
    const struct asked_part *part = &parts[i];
    struct weir_limit limit;
    assert_int_equal(part->said.length, strlen(said));
    assert_memory_equal(part->said.at, said, part->said.length);
    assert_int_equal(part->key.length, strlen(key));
    assert_memory_equal(part->key.at, key, part->key.length);
    assert_int_equal(part->words.length, strlen(words));
    assert_memory_equal(part->words.at, words, part->words.length);
    assert_int_equal(weir_limit_from_text(&limit, words, NULL), WEIR_OK);
    assert_memory_equal(&rules[i].limit, &limit, sizeof limit);
}

static void test_texts_that_mean_no_name_are_left_alone(void **state)
{
    (void)state;
    static const char *const written[] = {"10/s", "queue 10/s", "10/s, 5/min",
                                          "",     "User",       "10/s,,a"};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        assert_false(asked_by_name(names, written[i], strlen(written[i])));
    }
    assert_true(asked_by_name(names, "user", 4));
    assert_true(asked_by_name(names, "10/s, user", 10));
    assert_true(asked_by_name(names, "nobody", 6));
    assert_false(asked_by_name(NULL, "user", 4));
}

static void test_a_name_has_the_numbers_of_its_key(void **state)
{
    (void)state;
    assert_int_equal(read_text("user", "bob", NULL), WEIR_OK);
    assert_int_equal(asked.count, 1);
    assert_false(asked.has_chain);
    assert_part(0, "user", "bob", "10/s");
    assert_int_equal(read_text("user", "ann", NULL), WEIR_OK);
    assert_part(0, "user", "ann", "20/s");
}

static void test_names_and_limits_in_a_list(void **state)
{
    (void)state;
    assert_int_equal(read_text("all, 5/min,user", "ann", NULL), WEIR_OK);
    assert_int_equal(asked.count, 3);
    assert_part(0, "all", "ann", "1000/s");
    assert_part(1, "5/min", "ann", "5/min");
    assert_part(2, "user", "ann", "20/s");
    assert_null(parts[1].named);
}

static void test_a_chain_brings_its_own_keys(void **state)
{
    (void)state;
    assert_int_equal(read_text("request, 5/min", "ann", NULL), WEIR_OK);
    assert_int_equal(asked.count, 3);
    assert_true(asked.has_chain);
    assert_part(0, "user", "user:bob", "10/s");
    assert_part(1, "all", "all", "1000/s");
    assert_part(2, "5/min", "ann", "5/min");
    assert_int_equal(asked.used, strlen("user:bob"));
    assert_int_equal(read_text("request", "", NULL), WEIR_OK); // none of its keys is the request's
}

static void test_what_cannot_be_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *limits, *key, *why;
        size_t offset;
    } wrong[] = {
        {"nobody", "ann", "nothing in the configuration has this name", 0},
        {"user capacity=5", "ann", "a name stands alone", 4},
        {"user", "", "this limit needs a key", 0},
        {"10/s,user", "", "limit 1 of 2: this limit needs a key", 0},
        {"user, 10/s", "", "limit 1 of 2: this limit needs a key", 0},
        {"own", "", "{key} is missing", 0},
        {"all, own", "", "limit 1 of 2: this limit needs a key", 0},
        {"request, own", "", "limit 2 of 2: {key} is missing", 9},
        {"user, 1/x", "ann", "limit 2 of 2: unknown unit", 8},
        {"user, user", "ann", "limit 2 of 2 is limit 1 again", 6},
        {"user, own", "ann", "limit 2 is limit 1 again", 6},
        {"request, all, user,own", "ann", "limit 5 is limit 4 again", 19},
        {"request, request, all", "ann", "limit 3 is limit 1 again", 9},
        {"user, 10/s, 600/min capacity=10", "ann", "limit 3 of 3 is limit 2 again", 12},
        {"request,request,request,request,request,request,request,request,user", "ann",
         "more than 16 limits", 64},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct weir_error error = {.message = ""};
        assert_int_not_equal(read_text(wrong[i].limits, wrong[i].key, &error), WEIR_OK);
        if (strstr(error.message, wrong[i].why) == NULL) {
            fail_msg("%s: \"%s\" does not say \"%s\"", wrong[i].limits, error.message,
                     wrong[i].why);
        }
        assert_int_equal(error.offset, wrong[i].offset);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_texts_that_mean_no_name_are_left_alone),
        TEST(test_a_name_has_the_numbers_of_its_key),
        TEST(test_names_and_limits_in_a_list),
        TEST(test_a_chain_brings_its_own_keys),
        TEST(test_what_cannot_be_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
