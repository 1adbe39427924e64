/* SPDX-License-Identifier: MIT
 *
 * Names and texts of statuses; the version of headers and library. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "weir/status.h"
#include "weir/version.h"

static void test_each_status_has_a_name_and_a_text(void **state)
{
    (void)state;
#define CHECK(name, value, text)                                                                   \
    assert_int_equal(name, value);                                                                 \
    assert_string_equal(weir_status_name(name), #name);                                            \
    assert_string_equal(weir_status_text(name), text);
    WEIR_STATUS_MAP(CHECK)
#undef CHECK
    assert_string_equal(weir_status_name((enum weir_status)99), "unknown");
    assert_string_equal(weir_status_text((enum weir_status)99), "unknown");
}

static void test_library_and_headers_are_of_one_version(void **state)
{
    (void)state;
    assert_string_equal(weir_version(), WEIR_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_status_has_a_name_and_a_text),
        cmocka_unit_test(test_library_and_headers_are_of_one_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
