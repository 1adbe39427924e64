/* SPDX-License-Identifier: MIT
 *
 * SipHash: by the vectors of its authors, by a second implementation that is written to be obvious,
 * and the vector code by the plain one. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/siphash.h"

enum { LENGTH_MAX = 300, COUNT_MAX = 40 };

/* "vectors_sip64" of the reference implementation: key 00 01 .. 0f, message 00 01 .. of each length. */
static const uint64_t VECTORS[64] = {
    0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
    0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
    0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
    0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
    0x3f2acc7f57c29bdb, 0x699ae9f52cbe4794, 0x4bc1b3f0968dd39c, 0xbb6dc91da77961bd,
    0xbed65cf21aa2ee98, 0xd0f2cbb02e3b67c7, 0x93536795e3a33e88, 0xa80c038ccd5ccec8,
    0xb8ad50c6f649af94, 0xbce192de8a85b8ea, 0x17d835b85bbb15f3, 0x2f2e6163076bcfad,
    0xde4daaaca71dc9a5, 0xa6a2506687956571, 0xad87a3535c49ef28, 0x32d892fad841c342,
    0x7127512f72f27cce, 0xa7f32346f95978e3, 0x12e0b01abb051238, 0x15e034d40fa197ae,
    0x314dffbe0815a3b4, 0x027990f029623981, 0xcadcd4e59ef40c4d, 0x9abfd8766a33735c,
    0x0e3ea96b5304a7d0, 0xad0c42d6fc585992, 0x187306c89bc215a9, 0xd4a60abcf3792b95,
    0xf935451de4f21df2, 0xa9538f0419755787, 0xdb9acddff56ca510, 0xd06c98cd5c0975eb,
    0xe612a3cb9ecba951, 0xc766e62cfcadaf96, 0xee64435a9752fe72, 0xa192d576b245165a,
    0x0a8787bf8ecb74b2, 0x81b3e73d20b49b6f, 0x7fa8220ba3b2ecea, 0x245731c13ca42499,
    0xb78dbfaf3a8d83bd, 0xea1ad565322a1a0b, 0x60e61c23a3795013, 0x6606d7e446282b93,
    0x6ca4ecb15c5f91e1, 0x9f626da15c9625f3, 0xe51b38608ef25f57, 0x958a324ceb064572,
};

static const uint64_t VECTOR_KEY[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

static void fill_counting(unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (unsigned char)i;
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The paper's words, byte by byte: pad with zeroes to one less than a multiple of 8, append the length. */
static void obvious_rounds(uint64_t v[4], int rounds)
{
    static const int ADD[4][2] = {{0, 1}, {2, 3}, {0, 3}, {2, 1}}; // v[a] += v[b]
    static const int TURN[4] = {13, 16, 21, 17};                   // v[b] <<<= ..., ^= v[a]
    for (int i = 0; i < 4 * rounds; i++) {
        int a = ADD[i % 4][0];
        int b = ADD[i % 4][1];
        v[a] += v[b];
        v[b] = (v[b] << TURN[i % 4] | v[b] >> (64 - TURN[i % 4])) ^ v[a];
        if (i % 4 != 1 && i % 4 != 2) {
            v[a] = v[a] << 32 | v[a] >> 32;
        }
    }
}

static uint64_t obvious_siphash(const uint64_t key[2], const unsigned char *bytes, size_t length,
                                int block_rounds, int end_rounds)
{
    static const char START[] = "somepseudorandomlygeneratedbytes";
    uint64_t v[4] = {key[0], key[1], key[0], key[1]};
    for (int i = 0; i < 32; i++) { // each eight letters are a number, its first letter on top
        v[i / 8] ^= (uint64_t)(unsigned char)START[i] << (8 * (7 - i % 8));
    }
    size_t padded = (length / 8 + 1) * 8;
    uint64_t block = 0;
    for (size_t i = 0; i < padded; i++) {
        uint64_t byte = i < length ? bytes[i] : i == padded - 1 ? length & 0xff : 0;
        block |= byte << (8 * (i % 8));
        if (i % 8 == 7) {
            v[3] ^= block;
            obvious_rounds(v, block_rounds);
            v[0] ^= block;
            block = 0;
        }
    }
    v[2] ^= 0xff;
    obvious_rounds(v, end_rounds);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void test_the_vectors_of_its_authors(void **state)
{
    (void)state;
    unsigned char bytes[64];
    fill_counting(bytes, sizeof bytes);
    for (size_t length = 0; length < 64; length++) {
        assert_true(siphash24(VECTOR_KEY, bytes, length) == VECTORS[length]);
        assert_true(obvious_siphash(VECTOR_KEY, bytes, length, 2, 4) == VECTORS[length]);
    }
}

static void test_fewer_rounds_are_the_same_function_otherwise(void **state)
{
    (void)state;
    unsigned char bytes[LENGTH_MAX];
    uint64_t random = 42;
    for (size_t length = 0; length <= LENGTH_MAX; length++) {
        uint64_t key[2] = {next_random(&random), next_random(&random)};
        for (size_t i = 0; i < length; i++) {
            bytes[i] = (unsigned char)next_random(&random);
        }
        assert_true(siphash13(key, bytes, length) == obvious_siphash(key, bytes, length, 1, 3));
        assert_true(siphash24(key, bytes, length) == obvious_siphash(key, bytes, length, 2, 4));
    }
}

/* Memory that ends where nothing may be read. */
struct guarded {
    unsigned char *at;
    size_t page;
};

static struct guarded open_guarded(void)
{
    struct guarded guarded = {.page = (size_t)sysconf(_SC_PAGESIZE)};
    void *at =
        mmap(NULL, 2 * guarded.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    guarded.at = at;
    assert_int_equal(mprotect(guarded.at + guarded.page, guarded.page, PROT_NONE), 0);
    return guarded;
}

static void close_guarded(struct guarded guarded)
{
    assert_int_equal(munmap(guarded.at, 2 * guarded.page), 0);
}

static void assert_many_are_plain(const struct siphash_input *inputs, size_t count)
{
    uint64_t many[COUNT_MAX + 1];
    uint64_t plain[COUNT_MAX];
    many[count] = 7; // not to be written
    siphash13_many(inputs, many, count);
    siphash13_many_plain(inputs, plain, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(many[i] == plain[i]);
        assert_true(plain[i] == siphash13(inputs[i].key, inputs[i].bytes, inputs[i].length));
    }
    assert_true(many[count] == 7);
}

static void test_many_of_one_length_are_as_one_by_one(void **state)
{
    (void)state;
    struct guarded guarded = open_guarded();
    fill_counting(guarded.at, guarded.page);
    for (size_t length = 0; length <= LENGTH_MAX; length++) {
        for (size_t count = 1; count <= COUNT_MAX; count++) {
            struct siphash_input inputs[COUNT_MAX];
            for (size_t i = 0; i < count;
                 i++) { // of different bytes; the last one ends at the guard
                size_t back = length + (count - 1 - i);
                inputs[i] =
                    (struct siphash_input){VECTOR_KEY, guarded.at + guarded.page - back, length};
            }
            assert_many_are_plain(inputs, count);
        }
    }
    close_guarded(guarded);
}

static void test_many_of_mixed_lengths_are_as_one_by_one(void **state)
{
    (void)state;
    struct guarded guarded = open_guarded();
    fill_counting(guarded.at, guarded.page);
    uint64_t random = 7;
    for (int time = 0; time < 20000; time++) {
        size_t count = 1 + next_random(&random) % COUNT_MAX;
        /* Often short, so that messages share registers; sometimes one is long. */
        size_t longest = next_random(&random) % 4 == 0 ? LENGTH_MAX : 8 + next_random(&random) % 60;
        uint64_t keys[COUNT_MAX][2];
        struct siphash_input inputs[COUNT_MAX];
        for (size_t i = 0; i < count; i++) {
            size_t length = next_random(&random) % (longest + 1);
            keys[i][0] = next_random(&random);
            keys[i][1] = next_random(&random);
            inputs[i] = (struct siphash_input){keys[i], guarded.at + guarded.page - length, length};
        }
        assert_many_are_plain(inputs, count);
    }
    close_guarded(guarded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_vectors_of_its_authors),
        cmocka_unit_test(test_fewer_rounds_are_the_same_function_otherwise),
        cmocka_unit_test(test_many_of_one_length_are_as_one_by_one),
        cmocka_unit_test(test_many_of_mixed_lengths_are_as_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
