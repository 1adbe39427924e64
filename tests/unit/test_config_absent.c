/* SPDX-License-Identifier: MIT
 *
 * What a weir that was built without libyaml says of configurations: tree_absent.c, in place of tree.c. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "config/config.h"

static void test_no_configuration_is_read(void **state)
{
    (void)state;
    struct config_error error = {.line = 7};
    assert_null(config_parse("limits: {}\n", 11, &error));
    assert_string_equal(error.message,
                        "this weir was built without libyaml, and reads no configuration");
    assert_int_equal(error.line, 0);
    assert_null(config_library());
}

static void test_a_file_that_is_not_there_is_said_first(void **state)
{
    (void)state;
    struct config_error error;
    assert_null(config_read("/nonexistent/weir.yaml", &error));
    assert_string_equal(error.message, "No such file or directory");
    assert_null(config_read("/dev/null", &error));
    assert_string_equal(error.message,
                        "this weir was built without libyaml, and reads no configuration");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_configuration_is_read),
        cmocka_unit_test(test_a_file_that_is_not_there_is_said_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
