/* SPDX-License-Identifier: MIT
 *
 * URLs of stores: what is read, and what is refused, where. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "store/driver.h"
#include "store/table/table_url.h"

static struct store_url parse(const char *text)
{
    struct store_url url;
    struct weir_error error;
    if (store_url_parse(&url, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
    return url;
}

static void test_memory_is_private_unless_said(void **state)
{
    (void)state;
    struct store_url url = parse("memory:");
    assert_int_equal(url.kind, STORE_MEMORY);
    assert_false(url.is_shared);
    assert_int_equal(url.bytes, 0);
    assert_true(parse("memory:?shared=yes").is_shared);
    assert_false(parse("memory:?shared=no").is_shared);
    url = parse("memory:?size=1G&shared=yes");
    assert_true(url.is_shared && url.bytes == UINT64_C(1) << 30);
}

static void test_a_file_has_a_path_and_options(void **state)
{
    (void)state;
    struct store_url url = parse("file:/var/lib/weir/a.weir");
    assert_int_equal(url.kind, STORE_FILE);
    assert_string_equal(url.path, "/var/lib/weir/a.weir");
    assert_int_equal(url.mode, 0600);
    assert_int_equal(url.flush_every_ns, 0);
    url = parse("file:/a?mode=0660&size=64M&flush=10s");
    assert_string_equal(url.path, "/a");
    assert_int_equal(url.mode, 0660);
    assert_int_equal(url.bytes, 64 << 20);
    assert_int_equal(url.flush_every_ns, UINT64_C(10000000000));
    assert_string_equal(parse("file:///a/b").path, "/a/b");
    assert_string_equal(parse("file:/a%3fb%25%2F").path, "/a?b%/");
    char longest[STORE_PATH_MAX + 8] = "file:/";
    memset(longest + 6, 'a', STORE_PATH_MAX - 2);
    assert_int_equal(strlen(parse(longest).path), STORE_PATH_MAX - 1);
}

static void test_what_is_wrong_is_said_and_where(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t offset;
        const char *message;
    } CASES[] = {
        {"", 0, "a store is memory: or file:/path"},
        {"memory", 0, "a store is"},
        {"/tmp/a", 0, "a store is"},
        {"postgres://h/db", 0, "a store is"},
        {"memory:/a", 7, "options begin with ?"},
        {"memory:?", 8, "the options are size=64M, events=16M and shared=yes"},
        {"memory:?mode=0600", 8, "the options are size=64M, events=16M and shared=yes"},
        {"memory:?shared=maybe", 8, "shared is yes or no"},
        {"memory:?shared", 8, "the options are"},
        {"memory:?shared=yes&shared=yes", 19, "an option is given once"},
        {"file:", 5, "the path of a file starts with /"},
        {"file:a", 5, "the path of a file starts with /"},
        {"file:~/a", 5, "the path of a file starts with /"},
        {"file://host/a", 5, "a file is on this host"},
        {"file:/a%", 7, "are a byte"},
        {"file:/a%0", 7, "are a byte"},
        {"file:/a%00", 7, "are a byte"},
        {"file:/a%g0", 7, "are a byte"},
        {"file:/a?shared=yes", 8, "the options are size=64M, events=16M, mode=0660 and flush=10s"},
        {"file:/a?size=63K", 8, "a size is 64K to 16T"},
        {"file:/a?size=17T", 8, "a size is 64K to 16T"},
        {"memory:?events=3K", 8, "the size for events is 4K to 1T"},
        {"file:/a?events=2T", 8, "the size for events is 4K to 1T"},
        {"file:/a?events=", 8, "a size is a number"},
        {"file:/a?size=", 8, "a size is a number"},
        {"file:/a?size=1M&mode=0666", 16, "a mode is 0600"},
        {"file:/a?mode=0060", 8, "a mode is 0600"},
        {"file:/a?mode=4600", 8, "a mode is 0600"},
        {"file:/a?mode=00000000000000000000000000000000000000600", 8, "a mode is 0600"},
        {"file:/a?flush=10", 8, "a duration"},
        {"file:/a?size=1M&", 16, "the options are"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char path[STORE_PATH_MAX];
        struct weir_error error;
        if (store_driver_read(CASES[i].text, NULL, path, &error) != NULL) {
            fail_msg("'%s' was read", CASES[i].text);
        }
        if (error.offset != CASES[i].offset || strstr(error.message, CASES[i].message) == NULL) {
            fail_msg("'%s': at %zu: %s", CASES[i].text, error.offset, error.message);
        }
    }
    char too_long[STORE_PATH_MAX + 8] = "file:/";
    struct store_url url;
    memset(too_long + 6, 'a', STORE_PATH_MAX - 1);
    assert_int_equal(store_url_parse(&url, too_long, NULL), WEIR_E_RANGE);
}

static enum weir_status read_far(const char *url, char path[STORE_PATH_MAX],
                                 struct weir_error *error)
{
    (void)url, (void)path, (void)error;
    return WEIR_OK;
}

static void test_drivers_that_are_handed_over_come_first(void **state)
{
    (void)state;
    static const struct weir_store_driver FAR = {
        .scheme = "far:", .form = "far://host", .read = read_far};
    static const struct weir_store_driver FILES_OF_OTHERS = {
        .scheme = "file:", .form = "file:NAME", .read = read_far};
    const struct weir_store_driver *const drivers[] = {&FAR, &FILES_OF_OTHERS, NULL};
    char path[STORE_PATH_MAX];
    struct weir_error error;
    assert_ptr_equal(store_driver_read("far://a", drivers, path, &error), &FAR);
    assert_string_equal(path, "");
    assert_ptr_equal(store_driver_read("file:a", drivers, path, &error), &FILES_OF_OTHERS);
    assert_non_null(store_driver_read("memory:", drivers, path, &error));
    assert_null(store_driver_read("near:", drivers, path, &error));
    assert_string_equal(error.message, "a store is memory:, far://host or file:NAME");
    const struct weir_store_driver *const nobody[] = {NULL};
    assert_null(store_driver_read("far://a", nobody, path, &error));
    assert_string_equal(error.message, "a store is memory: or file:/path");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_private_unless_said),
        cmocka_unit_test(test_a_file_has_a_path_and_options),
        cmocka_unit_test(test_what_is_wrong_is_said_and_where),
        cmocka_unit_test(test_drivers_that_are_handed_over_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
