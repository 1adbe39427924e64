/* SPDX-License-Identifier: MIT
 *
 * Limits with names: which numbers a key has, what a chain's keys become, which route a request takes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/names/names.h"

static struct names *names;
static struct weir_limiter *limiter;

static int open_both(void **state)
{
    (void)state;
    const struct weir_limiter_config config = {.memory_bytes = 1 << 20, .seed = {1, 2}};
    names = names_open();
    return names != NULL && weir_limiter_open(&limiter, &config, NULL) == WEIR_OK ? 0 : -1;
}

static int close_both(void **state)
{
    (void)state;
    names_close(names);
    weir_limiter_close(limiter);
    return 0;
}

static struct bytes text(const char *bytes)
{
    return (struct bytes){bytes, strlen(bytes)};
}

static void add_limit(const char *name, const char *limit)
{
    assert_int_equal(names_check(names, text(name), NULL), WEIR_OK);
    assert_int_equal(
        names_add_limit(names, text(name), text(limit), (struct limit_policy){0}, NULL), WEIR_OK);
}

static void add_override(const char *key, const char *limit)
{
    assert_int_equal(names_check_override(names, text(key), NULL), WEIR_OK);
    assert_int_equal(names_add_override(names, text(key), text(limit), NULL), WEIR_OK);
}

static const struct named_limit *find(const char *name)
{
    struct name_found found = names_find(names, name, strlen(name));
    assert_non_null(found.limit);
    return found.limit;
}

/* The numbers of a key, as they were written. */
static void assert_numbers(const char *name, const char *key, const char *expected)
{
    struct bytes words = named_limit_rule(find(name), key, strlen(key))->words;
    assert_int_equal(words.length, strlen(expected));
    assert_memory_equal(words.at, expected, words.length);
}

static void test_a_name_is_found_and_nothing_else(void **state)
{
    (void)state;
    add_limit("api", "100/s");
    add_limit("login", "5/min");
    assert_string_equal(find("api")->name, "api");
    assert_string_equal(find("login")->name, "login");
    assert_null(names_find(names, "ap", 2).limit);
    assert_null(names_find(names, "apis", 4).limit);
    assert_null(names_find(names, "", 0).limit);
    assert_numbers("api", "anybody", "100/s");
}

static void test_what_cannot_be_a_name(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",       "Api",   "1api",     "-api",   "a b",
                                        "ap\xc3", "queue", "throttle", "inline", "api"};
    static const size_t places[] = {0, 0, 0, 0, 1, 2, 0, 0, 0, 0};
    add_limit("api", "1/s");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct weir_error error = {.offset = 99};
        assert_int_not_equal(names_check(names, text(wrong[i]), &error), WEIR_OK);
        assert_int_equal(error.offset, places[i]);
    }
    char longest[NAME_BYTES_MAX + 2];
    memset(longest, 'a', sizeof longest);
    assert_int_equal(names_check(names, (struct bytes){longest, NAME_BYTES_MAX}, NULL), WEIR_OK);
    assert_int_equal(names_check(names, (struct bytes){longest, NAME_BYTES_MAX + 1}, NULL),
                     WEIR_E_RANGE);
}

static void test_a_text_is_meant_as_a_name(void **state)
{
    (void)state;
    assert_true(name_is_meant("api", 3));
    assert_true(name_is_meant("queues 1/s", 10));
    assert_false(name_is_meant("queue 1/s", 9));
    assert_false(name_is_meant("10/s", 4));
    assert_false(name_is_meant("", 0));
    assert_false(name_is_meant(" api", 4));
}

static void test_an_exact_key_wins_over_patterns_and_the_first_pattern_over_others(void **state)
{
    (void)state;
    add_limit("api", "1/s");
    add_override("tenant:gold-*", "2/s");
    add_override("tenant:*", "3/s");
    add_override("*:free", "4/s");
    add_override("a*a", "5/s");
    add_override("tenant:gold-acme", "6/s");
    assert_numbers("api", "tenant:gold-acme", "6/s");
    assert_numbers("api", "tenant:gold-", "2/s");
    assert_numbers("api", "tenant:gold-x:free", "2/s");
    assert_numbers("api", "tenant:gold", "3/s");
    assert_numbers("api", "x:free", "4/s");
    assert_numbers("api", ":free", "4/s");
    assert_numbers("api", "free", "1/s");
    assert_numbers("api", "a", "1/s"); // its one letter is not both ends
    assert_numbers("api", "aa", "5/s");
    assert_numbers("api", "", "1/s");
}

static void test_many_exact_keys(void **state)
{
    (void)state;
    add_limit("api", "1/s");
    for (int i = 1; i <= 3000; i++) {
        char key[32];
        char limit[32];
        (void)snprintf(key, sizeof key, "tenant:%d", i);
        (void)snprintf(limit, sizeof limit, "%d/s", i);
        add_override(key, limit);
        assert_int_equal(names_check_override(names, text(key), NULL), WEIR_E_SYNTAX);
    }
    for (int i = 1; i <= 3000; i++) {
        char key[32];
        char limit[32];
        (void)snprintf(key, sizeof key, "tenant:%d", i);
        (void)snprintf(limit, sizeof limit, "%d/s", i);
        assert_numbers("api", key, limit);
    }
    assert_numbers("api", "tenant:3001", "1/s");
}

static void test_overrides_that_cannot_be(void **state)
{
    (void)state;
    struct weir_error error;
    add_limit("api", "queue 1/s");
    assert_int_equal(names_check_override(names, text("a*b*c"), &error), WEIR_E_SYNTAX);
    assert_int_equal(error.offset, 3);
    assert_int_equal(names_check_override(names, text(""), NULL), WEIR_E_RANGE);
    assert_int_equal(names_add_override(names, text("a"), text("1/s"), &error), WEIR_E_SYNTAX);
    assert_non_null(strstr(error.message, "the same kind"));
    assert_int_equal(names_add_override(names, text("a"), text("queue 1/x"), &error),
                     WEIR_E_SYNTAX);
    assert_int_equal(error.offset, 8);
    add_override("a", "queue 2/s");
    assert_int_equal(names_check_override(names, text("a"), NULL), WEIR_E_SYNTAX);
    for (int i = 0; i < NAMES_PATTERN_COUNT_MAX; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "%d-*", i);
        add_override(key, "queue 3/s");
    }
    assert_int_equal(names_check_override(names, text("x*"), NULL), WEIR_E_RANGE);
    assert_int_equal(names_check_override(names, text("0-*"), NULL), WEIR_E_RANGE);
}

/* As with routes: what an earlier and wider pattern takes never comes to a later one. */
static void test_a_pattern_that_no_key_comes_to(void **state)
{
    (void)state;
    struct weir_error error;
    add_limit("api", "1/s");
    add_override("ab*z", "2/s");
    static const char *const NOWHERE[] = {"abc*z", "ab*yz", "abz*z", "ab*zz"};
    for (size_t i = 0; i < sizeof NOWHERE / sizeof NOWHERE[0]; i++) {
        assert_int_equal(names_check_override(names, text(NOWHERE[i]), &error), WEIR_E_SYNTAX);
        assert_string_equal(error.message, "no key comes here: 'ab*z' before it takes them all");
    }
    static const char *const REACHED[] = {"a*z",  "ab*",  "*z",   "abcz",
                                          "ac*z", "ab*y", "abz*", "*abz"};
    for (size_t i = 0; i < sizeof REACHED / sizeof REACHED[0]; i++) {
        assert_int_equal(names_check_override(names, text(REACHED[i]), &error), WEIR_OK);
    }
    add_override("*", "3/s");
    assert_int_equal(names_check_override(names, text("b*"), &error), WEIR_E_SYNTAX);
    assert_non_null(strstr(error.message, "'*' before it"));
    assert_int_equal(names_check_override(names, text("*"), &error), WEIR_E_SYNTAX);
    assert_non_null(strstr(error.message, "is there twice"));
    assert_int_equal(names_check_override(names, text("b"), &error), WEIR_OK);
}

/* A bucket is (name, kind, key): other numbers are another view of the same one, unless the limit
 * resets. */
static void test_whose_bucket_it_is(void **state)
{
    (void)state;
    static const struct limit_policy RESETS = {.resets = true};
    add_limit("kept", "10/s");
    add_override("acme", "20/s");
    add_limit("other", "10/s");
    assert_int_equal(names_add_limit(names, text("reset"), text("10/s"), RESETS, NULL), WEIR_OK);
    add_override("acme", "20/s");
    add_override("policy", "10/s on_full=allow");
    names_bind(names, limiter);
    struct weir_rule by_name;
    weir_rule_init_named(&by_name, limiter, &find("kept")->usual.rule.limit, "kept", 4);
    const uint64_t *kept = find("kept")->usual.rule.hash_key;
    const uint64_t *reset = find("reset")->usual.rule.hash_key;
    assert_memory_equal(kept, by_name.hash_key, 16);
    assert_memory_equal(kept, named_limit_rule(find("kept"), "acme", 4)->rule.hash_key, 16);
    assert_memory_not_equal(kept, find("other")->usual.rule.hash_key, 16);
    assert_memory_not_equal(reset, named_limit_rule(find("reset"), "acme", 4)->rule.hash_key, 16);
    assert_memory_equal(reset, named_limit_rule(find("reset"), "policy", 6)->rule.hash_key, 16);
}

/* ---- chains ---- */

static void add_link(const char *name, const char *key)
{
    assert_int_equal(names_add_link(names, find(name), text(key), NULL), WEIR_OK);
}

static void add_three_links(void)
{
    add_limit("user", "10/s");
    add_limit("tenant", "100/s");
    add_limit("everyone", "1000/s");
    assert_int_equal(names_add_chain(names, text("request"), NULL), WEIR_OK);
    add_link("user", "{tenant}:{user}");
    add_link("tenant", "{tenant}");
    add_link("everyone", "everyone");
}

static char room[CHAIN_KEYS_BYTES_MAX];

static enum weir_status fill(const struct variables *variables, const char *key,
                             struct bytes keys[CHAIN_LINK_COUNT_MAX], struct weir_error *error)
{
    size_t used = 0;
    const struct named_chain *chain = names_find(names, "request", 7).chain;
    return chain_fill_in(chain, text(key), variables, room, sizeof room, &used, keys, error);
}

static void assert_text(struct bytes is, const char *expected)
{
    assert_int_equal(is.length, strlen(expected));
    assert_memory_equal(is.at, expected, is.length);
}

static void test_a_chain_is_filled_in(void **state)
{
    (void)state;
    struct bytes keys[CHAIN_LINK_COUNT_MAX];
    const struct variables variables = {3,
                                        {{text("plan"), text("gold")},
                                         {text("user"), text("ann")},
                                         {text("tenant"), text("acme")}}};
    add_three_links();
    assert_int_equal(fill(&variables, "", keys, NULL), WEIR_OK);
    assert_text(keys[0], "acme:ann");
    assert_text(keys[1], "acme");
    assert_text(keys[2], "everyone");
    assert_false(names_find(names, "request", 7).chain->uses_key);
}

static void test_a_missing_variable(void **state)
{
    (void)state;
    struct bytes keys[CHAIN_LINK_COUNT_MAX];
    struct weir_error error;
    const struct variables without = {1, {{text("user"), text("ann")}}};
    const struct variables empty = {2, {{text("user"), text("ann")}, {text("tenant"), text("")}}};
    add_three_links();
    assert_int_equal(fill(&without, "k", keys, &error), WEIR_E_SYNTAX);
    assert_non_null(strstr(error.message, "{tenant} is missing: request asks for it"));
    assert_int_equal(fill(&empty, "k", keys, &error), WEIR_E_SYNTAX);
    assert_non_null(strstr(error.message, "{tenant} is empty: request asks for it"));
}

static void test_the_requests_own_key(void **state)
{
    (void)state;
    struct bytes keys[CHAIN_LINK_COUNT_MAX];
    const struct variables none = {0};
    add_limit("user", "10/s");
    assert_int_equal(names_add_chain(names, text("request"), NULL), WEIR_OK);
    add_link("user", "{key}");
    add_link("user", "all:{key}");
    assert_true(names_find(names, "request", 7).chain->uses_key);
    assert_int_equal(fill(&none, "ann", keys, NULL), WEIR_OK);
    assert_text(keys[0], "ann");
    assert_text(keys[1], "all:ann");
    assert_int_equal(fill(&none, "", keys, NULL), WEIR_E_SYNTAX);
}

static void test_two_keys_that_become_one(void **state)
{
    (void)state;
    struct bytes keys[CHAIN_LINK_COUNT_MAX];
    struct weir_error error;
    static const char first[] = "x"; // each of its own memory
    static const char second[] = "x";
    const struct variables same = {2, {{text("a"), text(first)}, {text("b"), text(second)}}};
    const struct variables two = {2, {{text("a"), text("x")}, {text("b"), text("y")}}};
    add_limit("user", "10/s");
    assert_int_equal(names_add_chain(names, text("request"), NULL), WEIR_OK);
    add_link("user", "{a}");
    add_link("user", "{b}");
    assert_int_equal(fill(&two, "", keys, NULL), WEIR_OK);
    assert_int_equal(fill(&same, "", keys, &error), WEIR_E_SYNTAX);
    assert_non_null(strstr(error.message, "{a} and {b} of user are the same here"));
}

static void test_keys_that_are_too_long(void **state)
{
    (void)state;
    struct bytes keys[CHAIN_LINK_COUNT_MAX];
    static char longest[WEIR_KEY_BYTES_MAX + 1];
    memset(longest, 'x', WEIR_KEY_BYTES_MAX);
    const struct variables variables = {1, {{text("a"), text(longest)}}};
    add_limit("user", "10/s");
    add_limit("tenant", "10/s");
    assert_int_equal(names_add_chain(names, text("request"), NULL), WEIR_OK);
    add_link("user", "{a}");
    assert_int_equal(fill(&variables, "", keys, NULL), WEIR_OK);
    assert_int_equal(keys[0].length, WEIR_KEY_BYTES_MAX);
    add_link("tenant", "t{a}");
    assert_int_equal(fill(&variables, "", keys, NULL), WEIR_E_RANGE);
    longest[WEIR_KEY_BYTES_MAX - 1] = '\0';
    const struct variables shorter = {1, {{text("a"), text(longest)}}};
    assert_int_equal(fill(&shorter, "", keys, NULL), WEIR_OK);
    add_link("tenant", "{a}t"); // 65535 and as many: beyond the room
    assert_int_equal(fill(&shorter, "", keys, NULL), WEIR_E_RANGE);
}

static void test_templates_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        size_t offset;
    } wrong[] = {{"", 0},
                 {"a{", 1},
                 {"a{b", 1},
                 {"a}", 1},
                 {"{}", 1},
                 {"{A}", 1},
                 {"{a b}", 1},
                 {"{{a}}", 0},
                 {"{a}}", 3},
                 {"{1}", 1},
                 {"{a}{b}{c}{d}{e}{f}{g}{h}{i}{j}{k}{l}{m}{n}{o}{p}{q}", 49}};
    add_limit("user", "10/s");
    assert_int_equal(names_add_chain(names, text("request"), NULL), WEIR_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct weir_error error = {.offset = 99};
        assert_int_not_equal(names_add_link(names, find("user"), text(wrong[i].key), &error),
                             WEIR_OK);
        assert_int_equal(error.offset, wrong[i].offset);
    }
    add_link("user", "x");
    assert_int_equal(names_add_link(names, find("user"), text("x"), NULL), WEIR_E_SYNTAX);
    for (int i = 1; i < CHAIN_LINK_COUNT_MAX; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        add_link("user", key);
    }
    assert_int_equal(names_add_link(names, find("user"), text("y"), NULL), WEIR_E_RANGE);
}

/* ---- routes ---- */

static void add_route(unsigned methods, const char *path, const char *limit)
{
    assert_int_equal(names_add_route(names, methods, text(path),
                                     names_find(names, limit, strlen(limit)), WEIR_UNIT, NULL),
                     WEIR_OK);
}

static void assert_route(const char *method, const char *target, const char *expected)
{
    char path_room[256];
    struct bytes path;
    assert_true(route_path(text(target), path_room, &path));
    const struct route *route = names_route(names, text(method), path);
    if (expected == NULL) {
        assert_null(route);
    } else {
        assert_non_null(route);
        assert_string_equal(route->target.limit->name, expected);
    }
}

static void test_the_first_route_that_matches(void **state)
{
    (void)state;
    add_limit("login", "1/s");
    add_limit("api", "2/s");
    add_limit("rest", "3/s");
    add_route(method_bit(text("POST")), "/api/login", "login");
    add_route(method_bit(text("GET")), "/api/login/form", "login");
    add_route(0, "/api", "api");
    add_route(method_bit(text("GET")) | method_bit(text("HEAD")), "/", "rest");
    assert_route("POST", "/api/login", "login");
    assert_route("POST", "/api/login/", "login");
    assert_route("POST", "/api/login?next=/", "login");
    assert_route("GET", "/api/login", "api");
    assert_route("GET", "/api/login/form", "login");
    assert_route("HEAD", "/api/login/form", "api");
    assert_route("POST", "/api/logins", "api");
    assert_route("POST", "/api", "api");
    assert_route("BREW", "/api/x", "api");
    assert_route("GET", "/apis", "rest");
    assert_route("POST", "/apis", NULL);
    assert_route("BREW", "/", NULL);
}

/* Whoever writes the path in other words meets the same route. */
static void test_paths_in_other_words(void **state)
{
    (void)state;
    static const char *const same[] = {
        "/api/login",      "//api//login",           "/%61pi/login",       "/api/./login",
        "/x/../api/login", "/api/login/..//login",   "/../api/login/x/..", "/api%2flogin",
        "/api/login#top",  "/%2e/api/x/%2e%2e/login"};
    add_limit("login", "1/s");
    add_route(0, "/api/login", "login");
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_route("GET", same[i], "login");
    }
    assert_route("GET", "/api/login/..", NULL);
    assert_route("GET", "/api/log%69n%2", NULL);
    assert_route("GET", "/..", NULL);
    char unused[8];
    struct bytes path;
    assert_false(route_path(text("api"), unused, &path));
    assert_false(route_path(text(""), unused, &path));
}

static enum weir_status try_route(unsigned methods, const char *path)
{
    return names_add_route(names, methods, text(path), names_find(names, "api", 3), 0, NULL);
}

static void test_routes_that_cannot_be(void **state)
{
    (void)state;
    unsigned get = method_bit(text("GET"));
    unsigned post = method_bit(text("POST"));
    add_limit("api", "1/s");
    static const char *const wrong[] = {"", "api", "/api?x", "/%61pi", "//", "/a/../b", "/a/."};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_not_equal(try_route(0, wrong[i]), WEIR_OK);
    }
    assert_int_equal(try_route(get, "/api"), WEIR_OK);
    assert_int_equal(try_route(get, "/api/x"), WEIR_E_SYNTAX);
    assert_int_equal(try_route(get | post, "/api/x"), WEIR_OK);
    assert_int_equal(try_route(0, "/api/x"), WEIR_OK);
    assert_int_equal(try_route(post, "/api/x"), WEIR_E_SYNTAX);
    assert_int_equal(try_route(post, "/api"), WEIR_OK);
    assert_int_equal(try_route(get | post, "/api"), WEIR_E_SYNTAX);
    assert_int_equal(try_route(get | post, "/ap"), WEIR_OK);
}

/* ---- comparing ---- */

static struct names *build(const char *const *limits, const char *route)
{
    struct names *made = names_open();
    for (; limits[0] != NULL; limits += 2) {
        assert_int_equal(
            names_add_limit(made, text(limits[0]), text(limits[1]), (struct limit_policy){0}, NULL),
            WEIR_OK);
    }
    struct name_found first = {.limit = names_limit(made, 0)};
    assert_int_equal(names_add_route(made, 0, text(route), first, 0, NULL), WEIR_OK);
    return made;
}

static void test_what_has_changed(void **state)
{
    (void)state;
    static const char *const then[] = {"a", "1/s", "b", "1/s", "c", "1/s", NULL};
    static const char *const now[] = {"a", "1/s", "b", "2/s", "d", "1/s", "e", "1/s", NULL};
    struct names *before = build(then, "/x");
    struct names *after = build(now, "/x");
    struct names_changes changes = names_compare(before, after);
    assert_int_equal(changes.added_count, 2);
    assert_int_equal(changes.changed_count, 1);
    assert_int_equal(changes.removed_count, 1);
    assert_false(changes.routes_changed);
    names_close(after);
    after = build(then, "/y");
    changes = names_compare(before, after);
    assert_int_equal(changes.added_count + changes.changed_count + changes.removed_count, 0);
    assert_true(changes.routes_changed);
    names_close(after);
    names_close(before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_name_is_found_and_nothing_else),
        TEST(test_what_cannot_be_a_name),
        TEST(test_a_text_is_meant_as_a_name),
        TEST(test_an_exact_key_wins_over_patterns_and_the_first_pattern_over_others),
        TEST(test_many_exact_keys),
        TEST(test_overrides_that_cannot_be),
        TEST(test_a_pattern_that_no_key_comes_to),
        TEST(test_whose_bucket_it_is),
        TEST(test_a_chain_is_filled_in),
        TEST(test_a_missing_variable),
        TEST(test_the_requests_own_key),
        TEST(test_two_keys_that_become_one),
        TEST(test_keys_that_are_too_long),
        TEST(test_templates_that_cannot_be),
        TEST(test_the_first_route_that_matches),
        TEST(test_paths_in_other_words),
        TEST(test_routes_that_cannot_be),
        TEST(test_what_has_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
