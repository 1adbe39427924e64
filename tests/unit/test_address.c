/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "server/address.h"
#include "server/address_table.h"

static void test_addresses_are_host_and_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port;
    } cases[] = {{"127.0.0.1:6390", "127.0.0.1", 6390},
                 {"localhost:0", "localhost", 0},
                 {"[::1]:65535", "::1", 65535},
                 {":8390", "", 8390}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct address address;
        assert_null(address_parse(&address, cases[i].text));
        assert_false(address.is_unix);
        assert_string_equal(address.host, cases[i].host);
        assert_int_equal(address.port, cases[i].port);
    }
}

static void test_unix_sockets_have_a_path(void **state)
{
    (void)state;
    struct address address;
    assert_null(address_parse(&address, "unix:/run/weir.sock"));
    assert_true(address.is_unix);
    assert_string_equal(address.path, "/run/weir.sock");
    char text[5 + 108 + 1] = "unix:/";
    memset(text + 6, 'x', 108 - 2);
    assert_null(address_parse(&address, text)); // 107 bytes and a NUL fill sun_path
    memset(text + 6, 'x', 108 - 1);
    assert_non_null(address_parse(&address, text));
}

static void test_what_is_no_address_is_refused(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "",        "127.0.0.1", "6390",    "host:", "host:x", "h:-1",
        "h:65536", "::1:1",     "[]:6390", "unix:", "h: 80",  "h:80 "};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct address address;
        assert_non_null(address_parse(&address, refused[i]));
    }
    char text[300];
    memset(text, 'h', sizeof text);
    memcpy(text + 254, ":80", 4);
    struct address address;
    assert_non_null(address_parse(&address, text));
}

static struct socket_address resolve(const char *text)
{
    struct address address;
    struct socket_address resolved[ADDRESS_RESOLVED_COUNT_MAX];
    const char *why;
    assert_null(address_parse(&address, text));
    assert_int_equal(address_resolve(&address, resolved, &why), 1);
    return resolved[0];
}

static void test_local_is_what_this_machine_alone_can_reach(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_local;
    } cases[] = {{"127.0.0.1:1", true},      {"127.255.0.9:1", true},
                 {"[::1]:1", true},          {"[::ffff:127.0.0.1]:1", true},
                 {"0.0.0.0:1", false},       {":1", false},
                 {"[::]:1", false},          {"10.0.0.1:1", false},
                 {"[2001:db8::1]:1", false}, {"[::ffff:10.0.0.1]:1", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct socket_address address = resolve(cases[i].text);
        assert_int_equal(address_is_local(&address), cases[i].is_local);
    }
    struct socket_address local = {.length = sizeof local.local};
    local.local.sun_family = AF_UNIX;
    assert_true(address_is_local(&local));
}

static void test_addresses_print_as_they_are_written(void **state)
{
    (void)state;
    static const char *const texts[] = {"127.0.0.1:6390", "[::1]:6390", "[2001:db8::1]:1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct socket_address address = resolve(texts[i]);
        char text[ADDRESS_TEXT_BYTES_MAX];
        address_print(&address, text, sizeof text);
        assert_string_equal(text, texts[i]);
    }
    struct socket_address mapped = resolve("[::ffff:10.0.0.1]:9");
    char text[ADDRESS_TEXT_BYTES_MAX];
    address_print(&mapped, text, sizeof text);
    assert_string_equal(text, "10.0.0.1:9"); // as the client calls itself
}

static void test_networks_have_a_prefix(void **state)
{
    (void)state;
    struct cidr cidr;
    assert_null(address_parse_cidr(&cidr, "10.0.0.0/8"));
    assert_int_equal(cidr.prefix_bits, 96 + 8);
    assert_int_equal(cidr.address[12], 10);
    assert_int_equal(cidr.address[11], 0xff);
    assert_null(address_parse_cidr(&cidr, "2001:db8::/32"));
    assert_int_equal(cidr.prefix_bits, 32);
    assert_null(address_parse_cidr(&cidr, "192.0.2.1"));
    assert_int_equal(cidr.prefix_bits, 128);
    static const char *const refused[] = {"",       "10/8",        "10.0.0.0/33", "10.0.0.0/",
                                          "::/129", "10.0.0.0/-1", "name/8"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_non_null(address_parse_cidr(&cidr, refused[i]));
    }
}

static void make_address(uint8_t address[16], unsigned number)
{
    memset(address, 0, 10);
    memset(address + 10, 0xff, 2);
    memcpy(address + 12, &number, 4);
}

static void test_each_address_has_its_share_of_connections(void **state)
{
    (void)state;
    struct address_table *table = address_table_open(4, 2);
    uint8_t one[16], two[16];
    make_address(one, 1);
    make_address(two, 2);
    assert_true(address_table_enter(table, one));
    assert_true(address_table_enter(table, one));
    assert_false(address_table_enter(table, one));
    assert_true(address_table_enter(table, two));
    address_table_leave(table, one);
    assert_true(address_table_enter(table, one));
    address_table_close(table);
}

static void test_ipv6_addresses_of_one_network_share(void **state)
{
    (void)state;
    struct address_table *table = address_table_open(4, 1);
    uint8_t one[16] = {0x20, 0x01, 0, 0, 0, 0, 0, 1, 9};
    uint8_t same_network[16] = {0x20, 0x01, 0, 0, 0, 0, 0, 1, 7};
    uint8_t other_network[16] = {0x20, 0x01, 0, 0, 0, 0, 0, 2, 9};
    assert_true(address_table_enter(table, one));
    assert_false(address_table_enter(table, same_network));
    assert_true(address_table_enter(table, other_network));
    address_table_close(table);
}

/* Every address counts for itself, whatever its neighbours in the table come and go. */
static void test_the_table_counts_like_a_list(void **state)
{
    (void)state;
    enum { ADDRESSES = 64, STEPS = 20000, SHARE = 3 };
    struct address_table *table = address_table_open(ADDRESSES, SHARE);
    unsigned counts[ADDRESSES] = {0};
    unsigned random = 1;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525 + 1013904223;
        unsigned number = (random >> 16) % ADDRESSES;
        uint8_t address[16];
        make_address(address, number);
        if ((random >> 30) < 2) {
            assert_int_equal(address_table_enter(table, address), counts[number] < SHARE);
            counts[number] += counts[number] < SHARE;
        } else if (counts[number] > 0) {
            address_table_leave(table, address);
            counts[number]--;
        }
    }
    address_table_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_are_host_and_port),
        cmocka_unit_test(test_unix_sockets_have_a_path),
        cmocka_unit_test(test_what_is_no_address_is_refused),
        cmocka_unit_test(test_local_is_what_this_machine_alone_can_reach),
        cmocka_unit_test(test_addresses_print_as_they_are_written),
        cmocka_unit_test(test_networks_have_a_prefix),
        cmocka_unit_test(test_each_address_has_its_share_of_connections),
        cmocka_unit_test(test_ipv6_addresses_of_one_network_share),
        cmocka_unit_test(test_the_table_counts_like_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
