/* SPDX-License-Identifier: MIT
 *
 * Reading configurations: what is right is all there, and each thing that is wrong has its line, its
 * column and its reason. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static const char GOOD[] = "# who may do how much\n"
                           "routes:\n"
                           "  - {path: /api/login, method: POST, limit: login, cost: 2.5}\n"
                           "  - path: /api\n"
                           "    method: [GET, HEAD]\n"
                           "    limit: request\n"
                           "chains:\n"
                           "  request:\n"
                           "    - limit: api\n"
                           "      key: user:{user}\n"
                           "    - {limit: tenant, key: \"{tenant}\"}\n"
                           "    - everyone\n"
                           "limits:\n"
                           "  api: 100/s capacity=200\n"
                           "  login: 'queue 5/min'\n"
                           "  everyone: 1000/s\n"
                           "  tenant:\n"
                           "    limit: 100/s\n"
                           "    shadow: true\n"
                           "    on_change: reset\n"
                           "    overrides:\n"
                           "      acme: 1000/s\n"
                           "      gold-*: 500/s\n";

static void test_a_configuration_is_read(void **state)
{
    (void)state;
    struct config_error error;
    struct names *names = config_parse(GOOD, sizeof GOOD - 1, &error);
    assert_string_equal(error.message, "");
    assert_non_null(names);
    assert_int_equal(names_limit_count(names), 4);
    assert_int_equal(names_chain_count(names), 1);
    assert_int_equal(names_route_count(names), 2);
    assert_int_equal(names_override_count(names), 2);
    const struct named_limit *tenant = names_find(names, "tenant", 6).limit;
    assert_true(tenant->is_shadow);
    assert_true(tenant->resets);
    assert_int_equal(named_limit_rule(tenant, "acme", 4)->rule.limit.capacity, 1000);
    assert_int_equal(named_limit_rule(tenant, "gold-x", 6)->rule.limit.capacity, 500);
    const struct named_limit *api = names_find(names, "api", 3).limit;
    assert_false(api->is_shadow);
    assert_false(api->resets);
    assert_int_equal(api->usual.rule.limit.capacity, 200);
    const struct named_chain *chain = names_find(names, "request", 7).chain;
    assert_int_equal(chain->link_count, 3);
    assert_ptr_equal(chain->links[0].limit, api);
    assert_true(chain->uses_key); // "- everyone" is on the request's own
    assert_int_equal(names_route_at(names, 0)->cost_micro, 2500000);
    assert_ptr_equal(names_route_at(names, 1)->target.chain, chain);
    assert_int_equal(names_route_at(names, 1)->cost_micro, WEIR_UNIT);
    names_close(names);
}

static void test_there_may_be_no_limits_if_that_is_said(void **state)
{
    (void)state;
    static const char *const nothing[] = {
        "limits: {}", "limits: {}\nchains:\nroutes:\n", "limits: {}\nroutes: []\n",
        "limits: {}\nchains: null\nroutes: ~\n", "\xef\xbb\xbflimits: {}\n"};
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        struct config_error error;
        struct names *names = config_parse(nothing[i], strlen(nothing[i]), &error);
        assert_string_equal(error.message, "");
        assert_non_null(names);
        assert_int_equal(names_limit_count(names), 0);
        names_close(names);
    }
}

struct wrong {
    const char *text;
    uint32_t line, column;
    const char *why; // a part of it
};

static void assert_wrong(const struct wrong *wrong)
{
    struct config_error error;
    struct names *names = config_parse(wrong->text, strlen(wrong->text), &error);
    if (names != NULL || error.line != wrong->line || error.column != wrong->column
        || strstr(error.message, wrong->why) == NULL) {
        fail_msg("%s\n-> %u:%u: %s\nexpected %u:%u: %s", wrong->text, error.line, error.column,
                 error.message, wrong->line, wrong->column, wrong->why);
    }
}

/* As an editor or a deployment may leave it for an instant: no wish to forget all limits. */
static void test_nothing_is_no_configuration(void **state)
{
    (void)state;
    static const struct wrong WRONG[] = {
        {"", 1, 1, "there are no limits in it: 'limits: {}' says that there shall be none"},
        {"\n", 1, 1, "there are no limits"},
        {"# later\n", 1, 1, "there are no limits"},
        {"---\n", 2, 1, "there are no limits"},
        {"{}", 1, 1, "there are no limits"},
        {"~", 1, 1, "there are no limits"},
        {"\xef\xbb\xbf", 1, 1, "there are no limits"},
        {"limits:\n", 1, 8, "there are no limits"},
        {"limits: ~\nchains: null\n", 1, 9, "there are no limits"},
        {"chains: {}\nroutes: []\n", 1, 1, "there are no limits"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        assert_wrong(&WRONG[i]);
    }
}

/* What YAML itself does not allow, or weir does not want. */
static void test_what_is_no_yaml(void **state)
{
    (void)state;
    static const struct wrong WRONG[] = {
        {"limits:\n\tapi: 1/s\n", 2, 1, "this is no YAML: a tab cannot stand here"},
        {"limits:\n  api:\n   \tlimit: 1/s\n", 3, 4, "a tab cannot stand here"},
        {"limits:\n  # f\xfcr alle\n", 2, 6, "this is no YAML: invalid leading UTF-8 octet"},
        {"limits:\n  api: 1/s\x07\n", 2, 11, "control characters are not allowed"},
        {"\xff\xfel", 1, 1, "this is no YAML"},
        {"limits:\n  a: {limit: 1/s}\n  b:\n    <<: *a\n", 4, 9, "aliases"},
        {"a: &a [x, x]\nb: [*a, *a]\n", 1, 4, "anchors and tags"},
        {"limits: [\n", 2, 1, "this is no YAML"},
        {"limits:\n  api: \"1/s\n", 3, 1, "this is no YAML"},
        {"limits:\n  api: &a 1/s\n", 2, 8, "anchors and tags"},
        {"limits:\n  api: !!str 1/s\n", 2, 8, "anchors and tags"},
        {"limits:\n  api: *a\n", 2, 8, "aliases"},
        {"limits: {}\n---\nlimits: {}\n", 2, 1, "a second document"},
        {"[[[[[[[[[[[[[[[[[[[[", 1, 17, "nested too deeply"},
        {"limits:\n  api: 1/s\n  login: {}}\n", 3, 12, "this is no YAML"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        assert_wrong(&WRONG[i]);
    }
}

/* As editors of other systems leave them. */
static void test_line_ends_and_marks(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "limits:\r\n  api: 10/s\r\n  login:\r\n    limit: 5/min\r\n",
        "\xef\xbb\xbflimits:\n  api: 10/s\n  login: 5/min\n",
        "limits:\r  api: 10/s\r  login: 5/min\r",
        "limits:\n  api:\t10/s\n  login: 5/min", // between a name and its value tabs are good
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        struct config_error error;
        struct names *names = config_parse(TEXTS[i], strlen(TEXTS[i]), &error);
        assert_string_equal(error.message, "");
        assert_int_equal(names_find(names, "api", 3).limit->usual.rule.limit.capacity, 10);
        assert_int_equal(names_find(names, "login", 5).limit->usual.rule.limit.capacity, 5);
        names_close(names);
    }
}

static void test_what_is_no_configuration(void **state)
{
    (void)state;
    static const struct wrong WRONG[] = {
        {"- a\n", 1, 1, "a configuration must be a mapping, not a list"},
        {"api\n", 1, 1, "a configuration must be a mapping, not a text"},
        {"limit:\n  api: 1/s\n", 1, 1,
         "unknown field 'limit' of a configuration: there are limits"},
        {"limits: {}\nlimits: {}\n", 2, 1, "'limits' is there twice, first in line 1"},
        {"[a]: 1\n", 1, 1, "not a list"},
        {"limits: 5\n", 1, 9, "limits must be a mapping of names"},
        {"limits:\n  - 1/s\n", 2, 3, "limits must be a mapping of names, not a list"},
        {"limits:\n  Api: 1/s\n", 2, 3, "'Api' is no name"},
        {"limits:\n  a.b: 1/s\n", 2, 4, "'a.b' is no name"},
        {"limits:\n  queue: 1/s\n", 2, 3, "is a kind of limit"},
        {"limits:\n  inline: 1/s\n", 2, 3, "means something else"},
        {"limits:\n  api: 1/s\n  api: 2/s\n", 3, 3, "there is a limit 'api' already"},
        {"limits:\n  ? [a]\n  : 1/s\n", 2, 5, "a name must be a text, not a list"},
        {"limits:\n  api: 1/x\n", 2, 10, "the limit: unknown unit 'x'"},
        {"limits:\n  api: '10/s capacity=0'\n", 2, 23, "the capacity is zero"},
        {"limits:\n  api:\n", 2, 7, "a limit is missing"},
        {"limits:\n  api: login\n", 2, 8, "'login' is no kind"},
        {"limits:\n  api: [1/s]\n", 2, 8, "a limit must be a mapping, not a list"},
        {"limits:\n  api: {shadow: true}\n", 2, 8, "api has no field 'limit'"},
        {"limits:\n  api: {limit: 1/s, shadow: yes}\n", 2, 29,
         "shadow is false or true, not 'yes'"},
        {"limits:\n  api: {limit: 1/s, on_change: drop}\n", 2, 32, "on_change is keep or reset"},
        {"limits:\n  api: {limit: 1/s, burst: 5}\n", 2, 21, "unknown field 'burst' of a limit"},
        {"limits:\n  api: {limit: 1/s, overrides: [a]}\n", 2, 32, "overrides must be a mapping"},
        {"limits:\n  api: {limit: 1/s, overrides: {a: 1/s, a: 2/s}}\n", 2, 41,
         "'a' is there twice"},
        {"limits:\n  api: {limit: 1/s, overrides: {a*b*: 1/s}}\n", 2, 36, "a pattern has one *"},
        {"limits:\n  api: {limit: 1/s, overrides: {a: queue 1/s}}\n", 2, 36, "the same kind"},
        {"limits:\n  api: {limit: 1/s, overrides: {a: 1/q}}\n", 2, 38, "unknown unit 'q'"},
        {"limits:\n  api: {limit: 1/s, overrides: {a: {}}}\n", 2, 36, "not a mapping"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        assert_wrong(&WRONG[i]);
    }
}

#define LIMITS "limits: {api: 1/s, all: 9/s}\n"

static void test_what_is_no_chain(void **state)
{
    (void)state;
    static const struct wrong WRONG[] = {
        {LIMITS "chains:\n  a: api\n", 3, 6, "a chain is a list"},
        {LIMITS "chains:\n  a: []\n", 3, 6, "a chain is a list"},
        {LIMITS "chains:\n  api: [all]\n", 3, 3, "there is a limit 'api' already"},
        {LIMITS "chains:\n  a: [b]\n", 3, 7, "there is no limit 'b'"},
        {LIMITS "chains:\n  a: [a]\n", 3, 7, "'a' is a chain, and chains do not nest"},
        {LIMITS "chains:\n  a: [b]\n  b: [a]\n", 3, 7, "'b' is a chain, and chains do not nest"},
        {LIMITS "chains:\n  a: [api]\n  b: [a]\n", 4, 7, "chains do not nest"},
        {LIMITS "chains:\n  a: [api, api]\n", 3, 12, "api has this key in this chain already"},
        {LIMITS "chains:\n  a: [10/s]\n", 3, 7, "there is no limit '10/s'"},
        {LIMITS "chains:\n  a: [{key: x}]\n", 3, 7, "needs the field 'limit'"},
        {LIMITS "chains:\n  a: [{limit: api, cost: 2}]\n", 3, 20, "unknown field 'cost'"},
        {LIMITS "chains:\n  a:\n  - limit: api\n    key: user:{user\n", 5, 15, "has no }"},
        {LIMITS "chains:\n  a:\n  - limit: api\n    key: {user}\n", 5, 10, "quote what begins"},
        {LIMITS "chains:\n  a:\n  - {limit: api, key: '{a}{b}{c}{d}{e}{f}{g}{h}{key}{a}'}\n"
                "  - {limit: all, key: '{a}{i}{j}{k}{l}{m}{n}{o}{p}{q}'}\n",
         5, 24, "a chain asks for at most 16 variables"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        assert_wrong(&WRONG[i]);
    }
}

/* Whoever asks, the numbers that count for him hold it. */
static void test_a_cost_that_all_can_pay(void **state)
{
    (void)state;
    static const char *const GOOD_COSTS[] = {
        "limits: {a: {limit: 1/s, overrides: {b: 5/s}}}\nroutes: [{path: /, limit: a, cost: 1}]\n",
        "limits: {a: {limit: 5/s, overrides: {b: 6/s}}}\nroutes: [{path: /, limit: a, cost: 5}]\n",
        "limits: {a: 1/s}\nroutes: [{path: /, limit: a, cost: 0}]\n",
    };
    for (size_t i = 0; i < sizeof GOOD_COSTS / sizeof GOOD_COSTS[0]; i++) {
        struct config_error error;
        struct names *names = config_parse(GOOD_COSTS[i], strlen(GOOD_COSTS[i]), &error);
        assert_string_equal(error.message, "");
        names_close(names);
    }
}

/* Not even where it is only some who would never pass, or the limit refuses nothing yet. */
static void test_a_cost_that_somebody_cannot_pay(void **state)
{
    (void)state;
#define COST_3 "chains: {c: [a]}\nroutes: [{path: /, limit: a, cost: 3}]\n"
    static const struct wrong WRONG[] = {
        {"limits: {a: {limit: 5/s, overrides: {x: 1/s capacity=0.5, y: 2/s}}}\n" COST_3, 3, 36,
         "no request of 'x' would ever pass: a never holds so much for it"},
        {"limits: {a: {limit: 5/s, overrides: {x: 9/s, 'y*': 2/s}}}\n" COST_3, 3, 36,
         "no request of 'y*' would ever pass"},
        {"limits: {a: {limit: 5/s, overrides: {x: 1/s capacity=0.5}}}\nchains: {c: [a]}\n"
         "routes: [{path: /, limit: c}]\n",
         3, 27, "no request of 'x' would ever pass"},
        {"limits: {a: {limit: 1/s, overrides: {x: 5/s}}}\n" COST_3, 3, 36,
         "no request would ever pass: a never holds so much"},
        {"limits: {a: {limit: 1/s, shadow: true}}\n" COST_3, 3, 36, "a never holds so much"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        assert_wrong(&WRONG[i]);
    }
}

static void test_what_is_no_route(void **state)
{
    (void)state;
    static const struct wrong WRONG[] = {
        {LIMITS "routes: {}\n", 2, 9, "routes must be a list, not a mapping"},
        {LIMITS "routes: [api]\n", 2, 10, "a route must be a mapping, not a text"},
        {LIMITS "routes: [{path: /}]\n", 2, 10, "needs the fields 'path' and 'limit'"},
        {LIMITS "routes: [{path: /, limit: b}]\n", 2, 27, "there is no limit or chain 'b'"},
        {LIMITS "routes: [{path: api, limit: api}]\n", 2, 17, "a path begins with /"},
        {LIMITS "routes: [{path: /a//b, limit: api}]\n", 2, 17, "write it as /a/b"},
        {LIMITS "routes: [{path: /, limit: api, method: BREW}]\n", 2, 40,
         "'BREW' is no method: GET HEAD POST"},
        {LIMITS "routes: [{path: /, limit: api, method: [POST, Get]}]\n", 2, 47,
         "'Get' is no method: they are written in capitals, GET"},
        {LIMITS "routes: [{path: /, limit: api, method: []}]\n", 2, 40, "this list of methods"},
        {LIMITS "routes: [{path: /, limit: api, method: [GET, GET]}]\n", 2, 46, "twice"},
        {LIMITS "routes: [{path: /, limit: api, cost: -1}]\n", 2, 38, "expected the cost"},
        {"limits: {a: sliding 5/min, b: 5/s}\nchains: {c: [b, a]}\n"
         "routes: [{path: /, limit: c, cost: 0.5}]\n",
         3, 36, "the cost: this limit counts whole units"},
        {LIMITS "routes: [{path: /, limit: api, cost: 1.000001}]\n", 2, 38,
         "no request would ever pass: api never holds so much"},
        {LIMITS "chains: {c: [all, api]}\nroutes: [{path: /, limit: c, cost: 9}]\n", 3, 36,
         "api never holds so much"},
        {"limits: {half: 1/s capacity=0.5}\nroutes: [{path: /, limit: half}]\n", 2, 27,
         "half never holds so much"},
        {LIMITS "routes:\n- {path: /, limit: api}\n- {path: /x, limit: all}\n", 4, 10,
         "no request comes here"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        assert_wrong(&WRONG[i]);
    }
}

/* A text of `count` lines, made by a format with one number in it. */
static char *make_lines(const char *head, const char *format, int count)
{
    size_t size = strlen(head) + (size_t)count * 64 + 1;
    char *text = malloc(size);
    size_t length = (size_t)snprintf(text, size, "%s", head);
    for (int i = 0; i < count; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        length += (size_t)snprintf(text + length, size - length, format, i);
#pragma GCC diagnostic pop
    }
    return text;
}

static void assert_bounded(const char *head, const char *format, int max, uint32_t line)
{
    struct config_error error;
    char *text = make_lines(head, format, max);
    struct names *names = config_parse(text, strlen(text), &error);
    assert_string_equal(error.message, "");
    names_close(names);
    free(text);
    text = make_lines(head, format, max + 1);
    assert_null(config_parse(text, strlen(text), &error));
    assert_int_equal(error.line, line + (uint32_t)max);
    free(text);
}

static void test_every_count_has_a_maximum(void **state)
{
    (void)state;
    assert_bounded("limits:\n", "  a%d: 1/s\n", NAMES_LIMIT_COUNT_MAX, 2);
    assert_bounded(LIMITS "chains:\n", "  a%d: [api]\n", NAMES_CHAIN_COUNT_MAX, 3);
    assert_bounded(LIMITS "routes:\n", "  - {path: /%d, limit: api}\n", NAMES_ROUTE_COUNT_MAX, 3);
    assert_bounded("limits:\n  a:\n    limit: 1/s\n    overrides:\n", "      k%d: 2/s\n",
                   NAMES_OVERRIDE_COUNT_MAX, 5);
    struct config_error error;
    char *large = calloc(1, CONFIG_BYTES_MAX + 1);
    memset(large, '#', CONFIG_BYTES_MAX + 1);
    memcpy(large, "limits: {} ", strlen("limits: {} "));
    struct names *names = config_parse(large, CONFIG_BYTES_MAX, &error);
    assert_non_null(names);
    names_close(names);
    assert_null(config_parse(large, CONFIG_BYTES_MAX + 1, &error));
    assert_string_equal(error.message, "it is larger than 4 MiB");
    assert_int_equal(error.line, 0);
    free(large);
}

static void test_errors_as_compilers_print_them(void **state)
{
    (void)state;
    char line[128];
    config_error_print(&(struct config_error){3, 7, "no"}, "/etc/x", line, sizeof line);
    assert_string_equal(line, "/etc/x:3:7: no");
    config_error_print(&(struct config_error){0, 0, "no"}, "/etc/x", line, sizeof line);
    assert_string_equal(line, "/etc/x: no");
}

static void test_a_file_that_is_not_there(void **state)
{
    (void)state;
    struct config_error error;
    assert_null(config_read("/nonexistent/weir.yaml", &error));
    assert_string_equal(error.message, "No such file or directory");
    assert_null(config_read("/", &error));
    assert_string_equal(error.message, "Is a directory");
}

int main(void)
{
    if (config_library() == NULL) {
        (void)printf("skipped: this weir was built without libyaml\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_configuration_is_read),
        cmocka_unit_test(test_there_may_be_no_limits_if_that_is_said),
        cmocka_unit_test(test_nothing_is_no_configuration),
        cmocka_unit_test(test_what_is_no_yaml),
        cmocka_unit_test(test_line_ends_and_marks),
        cmocka_unit_test(test_what_is_no_configuration),
        cmocka_unit_test(test_what_is_no_chain),
        cmocka_unit_test(test_a_cost_that_all_can_pay),
        cmocka_unit_test(test_a_cost_that_somebody_cannot_pay),
        cmocka_unit_test(test_what_is_no_route),
        cmocka_unit_test(test_every_count_has_a_maximum),
        cmocka_unit_test(test_errors_as_compilers_print_them),
        cmocka_unit_test(test_a_file_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
