/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "server/options.h"

static struct options options;
static char message[OPTIONS_MESSAGE_BYTES_MAX];

enum { WORDS_MAX = 80 };

/* Parses words that are separated by single spaces. */
static enum options_result parse(const char *line)
{
    static char copy[1024];
    char *argv[WORDS_MAX] = {copy};
    int argc = 1;
    memcpy(copy, "serve ", 6);
    memcpy(copy + 6, line, strlen(line) + 1);
    copy[5] = '\0';
    for (char *rest = copy + 6; rest != NULL && *rest != '\0' && argc < WORDS_MAX - 1;) {
        argv[argc++] = strsep(&rest, " ");
    }
    argv[argc] = NULL;
    return options_parse(&options, argc, argv, message);
}

static void assert_refused(const char *line, const char *why)
{
    assert_int_equal(parse(line), OPTIONS_BAD);
    if (strstr(message, why) == NULL) {
        fail_msg("'%s' says '%s', which does not name '%s'", line, message, why);
    }
}

static int clear_environment(void **state)
{
    (void)state;
    return unsetenv("WEIR_RESP") + unsetenv("WEIR_HTTP") + unsetenv("WEIR_PASSWORD_FILE");
}

static void test_the_defaults_are_loopback_and_256_mebibytes(void **state)
{
    (void)state;
    assert_int_equal(parse(""), OPTIONS_RUN);
    assert_int_equal(options.listen_count, 2);
    assert_int_equal(options.listen[0].protocol, PROTOCOL_RESP);
    assert_string_equal(options.listen[0].address.host, "127.0.0.1");
    assert_int_equal(options.listen[0].address.port, 6390);
    assert_int_equal(options.listen[1].address.port, 8390);
    assert_false(options.listen_chosen[PROTOCOL_RESP]);
    assert_int_equal(options.memory_bytes, 0);
    assert_null(options.store);
    assert_int_equal(options.idle_timeout_ns[PROTOCOL_RESP], 0);
    assert_true(options.idle_timeout_ns[PROTOCOL_HTTP] == 75000000000);
    assert_int_equal(options.service.refused_status, 429);
    assert_string_equal(options.service.redis_version, "7.2.4");
}

static void test_every_option_is_read(void **state)
{
    (void)state;
    assert_int_equal(
        parse("--resp unix:/a --resp [::1]:1 --http off --unix-mode 0666 --password-file /p "
              "--store memory: --memory 1G --threads 3 --max-connections 9 "
              "--max-connections-per-address 2 --output-max 1M --buffers-max 2M "
              "--header-timeout 1s --idle-timeout 2s --write-timeout 3s --drain-timeout 4s "
              "--headers used --retry-after-date --refused-status 403 --disclose-keys "
              "--trusted-proxy 10.0.0.0/8 --http-host a.example --http-host b --redis-version 6.0 "
              "--log json --log-level debug "
              "--test-clock"),
        OPTIONS_RUN);
    assert_int_equal(options.listen_count, 2);
    assert_true(options.listen[0].address.is_unix);
    assert_string_equal(options.listen[1].address.host, "::1");
    assert_true(options.listen_chosen[PROTOCOL_HTTP]);
    assert_int_equal(options.unix_mode, 0666);
    assert_string_equal(options.password_file, "/p");
    assert_int_equal(options.memory_bytes, 1 << 30);
    assert_string_equal(options.store, "memory:");
    assert_int_equal(options.thread_count, 3);
    assert_int_equal(options.connections_max, 9);
    assert_int_equal(options.connections_per_address_max, 2);
    assert_int_equal(options.output_bytes_max, 1 << 20);
    assert_int_equal(options.buffers_bytes_max, 2 << 20);
    assert_true(options.header_timeout_ns == 1000000000);
    assert_true(options.idle_timeout_ns[PROTOCOL_HTTP] == 2000000000);
    assert_true(options.write_timeout_ns == 3000000000);
    assert_true(options.drain_timeout_ns == 4000000000);
    assert_int_equal(options.service.headers, HEADERS_USED);
    assert_true(options.service.retry_after_date && options.service.disclose_keys);
    assert_int_equal(options.service.refused_status, 403);
    assert_int_equal(options.service.trusted_proxy_count, 1);
    assert_int_equal(options.service.http_host_count, 2);
    assert_string_equal(options.service.http_hosts[0], "a.example");
    assert_string_equal(options.service.http_hosts[1], "b");
    assert_string_equal(options.service.redis_version, "6.0");
    assert_true(options.log_json && options.test_clock);
    assert_int_equal(options.log_level, LOG_DEBUG);
}

static void test_quiet_leaves_warnings(void **state)
{
    (void)state;
    assert_int_equal(parse("-q"), OPTIONS_RUN);
    assert_int_equal(options.log_level, LOG_WARN);
    assert_int_equal(parse("-q --log-level error"), OPTIONS_RUN);
    assert_int_equal(options.log_level, LOG_ERROR);
}

static void test_a_mistake_is_named_with_its_place(void **state)
{
    (void)state;
    assert_refused("--frobnicate", "unknown option '--frobnicate'");
    assert_refused("--threads 2 --frobnicate", "'--frobnicate'");
    assert_refused("-x", "'-x'");
    assert_refused("--memory", "'--memory' needs a value");
    assert_refused("please", "unexpected argument 'please'");
    assert_refused("--memory 1X", "--memory '1X'");
    assert_refused("--memory 1K", "from 64K to 16T");
    assert_refused("--threads 0", "--threads '0'");
    assert_refused("--threads 257", "--threads '257'");
    assert_refused("--resp 6390", "--resp '6390'");
    assert_refused("--http ::1:80", "brackets");
    assert_refused("--unix-mode 999", "--unix-mode '999'");
    assert_refused("--store redis:", "memory:");
    assert_refused("--store file:x", "starts with /");
    assert_refused("--header-timeout 10", "--header-timeout '10'");
    assert_refused("--drain-timeout 1y", "--drain-timeout '1y'");
    assert_refused("--headers mine", "x-ratelimit");
    assert_refused("--memory 1", "a size from 64K to 16T");
    assert_refused("--threads 0", "from 1 to 256");
    assert_refused("--threads 100000", "from 1 to 256");
    assert_refused("--max-connections 100000000", "from 1 to 16777216");
    assert_refused("--max-connections-per-address 0", "from 1 to 16777216");
    assert_refused("--output-max 1K", "a size from 64K to 1T");
    assert_refused("--buffers-max 2T", "a size from 64K to 1T");
    assert_refused("--refused-status 200", "400 to 599");
    assert_refused("--trusted-proxy 10.0.0.0/99", "--trusted-proxy");
    assert_refused("--http-host a:80", "--http-host 'a:80': a name alone");
    assert_refused("--http-host http://a/", "a name alone");
    assert_refused("--redis-version 7\r\n", "--redis-version");
    assert_refused("--log xml", "text or json");
    assert_refused("--log-level loud", "--log-level 'loud'");
}

static void test_too_many_names_are_refused(void **state)
{
    (void)state;
    char line[1024] = "";
    for (int i = 0; i < HTTP_HOST_COUNT_MAX; i++) {
        strcat(line, "--http-host=a ");
    }
    assert_int_equal(parse(line), OPTIONS_RUN);
    strcat(line, "--http-host=a");
    assert_refused(line, "at most 64 names");
}

static void test_too_many_addresses_are_refused(void **state)
{
    (void)state;
    char line[1024] = "";
    for (int i = 0; i < LISTEN_OPTION_COUNT_MAX; i++) {
        strcat(line, "--resp :1 ");
    }
    strcat(line, "--http off");
    assert_int_equal(parse(line), OPTIONS_RUN);
    strcat(line, " --resp :1");
    assert_refused(line, "at most 16");
}

static void test_help_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(parse("--help"), OPTIONS_HELP);
    assert_int_equal(parse("-h"), OPTIONS_HELP);
}

static void test_the_environment_stands_in_for_the_command_line(void **state)
{
    (void)state;
    assert_int_equal(setenv("WEIR_RESP", "127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("WEIR_HTTP", "off", 1), 0);
    assert_int_equal(setenv("WEIR_PASSWORD_FILE", "/env", 1), 0);
    assert_int_equal(parse(""), OPTIONS_RUN);
    assert_int_equal(options.listen_count, 1);
    assert_int_equal(options.listen[0].address.port, 1);
    assert_true(options.listen_chosen[PROTOCOL_HTTP]);
    assert_string_equal(options.password_file, "/env");
    assert_int_equal(parse("--resp :2 --password-file /own"), OPTIONS_RUN);
    assert_int_equal(options.listen[0].address.port, 2);
    assert_string_equal(options.password_file, "/own");
    assert_int_equal(setenv("WEIR_RESP", "nonsense", 1), 0);
    assert_refused("", "WEIR_RESP 'nonsense'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_defaults_are_loopback_and_256_mebibytes, clear_environment),
        cmocka_unit_test_setup(test_every_option_is_read, clear_environment),
        cmocka_unit_test_setup(test_quiet_leaves_warnings, clear_environment),
        cmocka_unit_test_setup(test_a_mistake_is_named_with_its_place, clear_environment),
        cmocka_unit_test_setup(test_too_many_names_are_refused, clear_environment),
        cmocka_unit_test_setup(test_too_many_addresses_are_refused, clear_environment),
        cmocka_unit_test_setup(test_help_is_asked_for, clear_environment),
        cmocka_unit_test_setup(test_the_environment_stands_in_for_the_command_line,
                               clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
