/* SPDX-License-Identifier: MIT
 *
 * URLs of stores in PostgreSQL: what goes to libpq, what is shown, and that no part of a password is. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "store/postgres/url.h"

static struct postgres_url parse(const char *text)
{
    struct postgres_url url;
    struct weir_error error;
    if (postgres_url_parse(&url, text, &error) != WEIR_OK) {
        fail_msg("'%s': %s", text, error.message);
    }
    return url;
}

/* What is shown of it, too. */
static void refuse(const char *text, const char *shown)
{
    struct postgres_url url;
    struct weir_error error;
    char text_shown[POSTGRES_URL_MAX];
    assert_int_equal(postgres_url_parse(&url, text, &error), WEIR_E_SYNTAX);
    assert_null(strstr(error.message, "zecr"));
    postgres_url_show(text, text_shown, sizeof text_shown);
    assert_string_equal(text_shown, shown);
}

static void test_libpq_gets_what_is_its_own(void **state)
{
    (void)state;
    static const char *const SAME[] = {
        "postgres://",
        "postgresql:///limits",
        "postgres://weir@db.example/limits",
        "postgres://weir:pass@db.example:5432/limits?sslmode=require&connect_timeout=3",
        "postgres://[::1]:5433,other:5434/limits?target_session_attrs=any",
        "postgres://%2Frun%2Fpostgresql/limits",
        "postgres://weir:pa%40ss%2F%3F%3A@db/limits?host=/run/postgresql",
        "postgres:///limits?host=@abstract",
    };
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++) {
        struct postgres_url url = parse(SAME[i]);
        assert_string_equal(url.libpq, SAME[i]);
        assert_true(url.prepares);
    }
}

static void test_our_options_are_taken_out(void **state)
{
    (void)state;
    struct postgres_url url = parse("postgres://db/limits?prepare=off");
    assert_string_equal(url.libpq, "postgres://db/limits");
    assert_string_equal(url.shown, "postgres://db/limits?prepare=off");
    assert_false(url.prepares);
    url = parse("postgres://db/limits?sslmode=require&prepare=off&service=a");
    assert_string_equal(url.libpq, "postgres://db/limits?sslmode=require&service=a");
    assert_false(url.prepares);
    url = parse("postgres://db?prepare=on&prepared=off"); // the latter is for libpq to refuse
    assert_string_equal(url.libpq, "postgres://db?prepared=off");
    assert_true(url.prepares);
    assert_int_equal(url.deadline_ms, 0);
    url = parse("postgres://db?deadline=50ms&sslmode=require");
    assert_string_equal(url.libpq, "postgres://db?sslmode=require");
    assert_int_equal(url.deadline_ms, 50);
    assert_int_equal(parse("postgres://db?deadline=1ms").deadline_ms, 1);
    assert_int_equal(parse("postgres://db?deadline=1000ms").deadline_ms, 1000);
}

static void test_a_deadline_is_a_number_of_milliseconds(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "postgres://db?deadline=",       "postgres://db?deadline=ms",
        "postgres://db?deadline=50",     "postgres://db?deadline=0ms",
        "postgres://db?deadline=1001ms", "postgres://db?deadline=99999999999999999999ms",
        "postgres://db?deadline=1s",     "postgres://db?deadline=-1ms",
        "postgres://db?deadline=5ms0",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        refuse(BAD[i], BAD[i]);
    }
}

static void test_passwords_are_not_shown(void **state)
{
    (void)state;
    assert_string_equal(parse("postgres://weir:pass@db/limits").shown, "postgres://weir@db/limits");
    assert_string_equal(parse("postgresql://:pass@db").shown, "postgresql://@db");
    assert_string_equal(parse("postgres://weir@db:5432/limits").shown,
                        "postgres://weir@db:5432/limits");
    assert_string_equal(parse("postgres://db/?password=pass&user=weir&sslpassword=pass").shown,
                        "postgres://db/?user=weir");
}

/* libpq would take a part of the password for a host, a port or a database. */
static void test_what_may_hide_a_password_is_refused_unseen(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "postgres://weir:pa@ss@db/limits",
        "postgres://weir:pa/ss@db/limits",
        "postgres://weir:pa?ss@db/limits",
        "postgres://weir:12?34@db/limits",
        "postgres://weir:12/34@db/limits",
        "postgres://weir:pa%ss@db/limits",
        "postgres://weir:pa%00ss@db/limits",
        "postgres://weir:pa%4",
        "postgres://weir:zecr",
        "postgres://db:zecr/limits",
        "postgres://db,other:zecr/limits",
        "postgres://[::1]:zecr/limits",
        "postgres://db/limits?zecr",
        "postgres://db/limits?=zecr",
        "postgres://db/limits?password=zecr=word",
        "postgres://db/limits?pass%77ord=zecr",
        "postgres:zecr",
        "postgresql:/zecr",
        "postgresx://weir:zecr@db",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        refuse(BAD[i], "postgres://...");
    }
    refuse("postgres://weir:zecr@db/limits?prepare=zecr", "postgres://weir@db/limits?prepare=zecr");
}

static void test_lengths_have_an_end(void **state)
{
    (void)state;
    char text[POSTGRES_URL_MAX + 1];
    memset(text, 'a', sizeof text);
    memcpy(text, "postgres://", 11);
    text[POSTGRES_URL_MAX - 1] = '\0';
    assert_string_equal(parse(text).libpq, text);
    text[POSTGRES_URL_MAX - 1] = 'a';
    text[POSTGRES_URL_MAX] = '\0';
    struct postgres_url url;
    assert_int_equal(postgres_url_parse(&url, text, NULL), WEIR_E_SYNTAX);
    char shown[20];
    postgres_url_show("postgres://weir:pass@db.example/limits", shown, sizeof shown);
    assert_string_equal(shown, "postgres://weir@db.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libpq_gets_what_is_its_own),
        cmocka_unit_test(test_our_options_are_taken_out),
        cmocka_unit_test(test_a_deadline_is_a_number_of_milliseconds),
        cmocka_unit_test(test_passwords_are_not_shown),
        cmocka_unit_test(test_what_may_hide_a_password_is_refused_unseen),
        cmocka_unit_test(test_lengths_have_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
