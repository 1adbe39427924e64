/* SPDX-License-Identifier: MIT
 *
 * What makes a bucket the same bucket, in a store of one host and in one that hosts share; and SHA-256, of which names
 * there are made. The expected digests of names are Python's hashlib's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "limiter/identity.h"
#include "platform/sha256.h"
#include "store/bucket_name.h"

static const struct identity_source HOSTS = {.is_of_all_hosts = true};

static const char *hex(const void *bytes, size_t length)
{
    static char text[2 * SHA256_BYTES + 1];
    for (size_t i = 0; i < length; i++) {
        (void)sprintf(text + 2 * i, "%02x", ((const uint8_t *)bytes)[i]);
    }
    return text;
}

static const char *digest_of(const char *text, size_t times, size_t part)
{
    static uint8_t digest[SHA256_BYTES];
    struct sha256 sha;
    sha256_begin(&sha);
    for (size_t i = 0; i < times; i++) {
        for (size_t at = 0; at < strlen(text); at += part) {
            size_t left = strlen(text) - at;
            sha256_add(&sha, text + at, left < part ? left : part);
        }
    }
    sha256_end(&sha, digest);
    return hex(digest, sizeof digest);
}

/* FIPS 180-4's examples (NIST, Cryptographic Standards and Guidelines), and lengths around a block. */
static void test_sha256_is_that_of_the_standard(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
        size_t times;
    } CASES[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 1},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 1},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", 1},
        {"a", "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", 1000000},
        {"a", "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318", 55},
        {"a", "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a", 56},
        {"a", "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb", 64},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        assert_string_equal(digest_of(CASES[i].text, CASES[i].times, 64), CASES[i].digest);
        assert_string_equal(digest_of(CASES[i].text, CASES[i].times, 7), CASES[i].digest);
    }
}

static struct weir_limit limit_of(const char *text)
{
    struct weir_limit limit;
    struct weir_error error;
    if (weir_limit_from_text(&limit, text, &error) != WEIR_OK) {
        fail_msg("%s: %s", text, error.message);
    }
    return limit;
}

static void test_hosts_agree_on_names(void **state)
{
    (void)state;
    uint64_t identity[2];
    uint8_t name[BUCKET_NAME_BYTES];
    identity_of_name(identity, &HOSTS, WEIR_KIND_BUCKET, "login", 5);
    assert_string_equal(hex(identity, sizeof identity), "97a29abb661e95ba09cf86f2a5eff2f7");
    bucket_name(name, identity, "alice", 5);
    assert_string_equal(hex(name, sizeof name), "a730c4d4da8c5a5dd729257a3248e527");
    struct weir_limit limit = limit_of("10/s");
    identity_of_numbers(identity, &HOSTS, &limit);
    assert_string_equal(hex(identity, sizeof identity), "6589b1fe8861965bd79a465d80708172");
}

static void test_the_same_limit_in_other_words_is_the_same(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"10/s",
                                        "600/min capacity=10",
                                        "10/s capacity=11",
                                        "20/s",
                                        "queue 10/s",
                                        "queue 10/s first=now",
                                        "fixed 10/s",
                                        "10/s on_full=allow on_error=allow block=1min"};
    const struct identity_source sources[] = {HOSTS, {.seed = {1, 2}}};
    for (size_t source = 0; source < 2; source++) {
        uint64_t keys[8][2];
        for (size_t i = 0; i < 8; i++) {
            struct weir_limit limit = limit_of(TEXTS[i]);
            identity_of_numbers(keys[i], &sources[source], &limit);
            for (size_t j = 0; j < i; j++) {
                bool same = memcmp(keys[i], keys[j], sizeof keys[i]) == 0;
                bool is_10s = (i == 1 || i == 7) && (j == 0 || j == 1);
                assert_int_equal(same, is_10s);
            }
        }
    }
}

static void test_names_are_neither_numbers_nor_each_other(void **state)
{
    (void)state;
    uint64_t keys[4][2];
    identity_of_name(keys[0], &HOSTS, WEIR_KIND_BUCKET, "login", 5);
    identity_of_name(keys[1], &HOSTS, WEIR_KIND_QUEUE, "login", 5);
    identity_of_name(keys[2], &HOSTS, WEIR_KIND_BUCKET, "logi", 4);
    identity_of_name(keys[3], &(struct identity_source){.seed = {1, 2}}, WEIR_KIND_BUCKET, "login",
                     5);
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(keys[i], keys[j], sizeof keys[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_is_that_of_the_standard),
        cmocka_unit_test(test_hosts_agree_on_names),
        cmocka_unit_test(test_the_same_limit_in_other_words_is_the_same),
        cmocka_unit_test(test_names_are_neither_numbers_nor_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
