/* SPDX-License-Identifier: MIT
 *
 * SipHash-c-d: c rounds for each 8-byte block of the message, d rounds at the end; the last block
 * carries the bytes that are left and the length.
 *
 * A single short message leaves most of a processor idle: each round waits for the one before. So
 * siphash13_many() runs LANES messages side by side, one per lane of a vector, in GNU C vectors (an
 * extension: there is no portable way to say this). Lanes whose message is over keep their state while
 * longer ones go on. That needs the registers of AVX-512: of AVX2 there are too few and too small ones,
 * so that a message would take twice as long there as by itself.
 *
 * One message alone is a matter of few instructions rather than of little time: the processor hashes
 * the next key while it waits for the line of the one before, if it sees that far ahead. */
#include "platform/siphash.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Blocks are little-endian words; so are all machines that weir runs on. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weir needs a little-endian machine");

#define INIT_0 UINT64_C(0x736f6d6570736575) // "somepseudorandomlygeneratedbytes": the paper, 2.1
#define INIT_1 UINT64_C(0x646f72616e646f6d)
#define INIT_2 UINT64_C(0x6c7967656e657261)
#define INIT_3 UINT64_C(0x7465646279746573)

static uint64_t load_word(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* The last block: the bytes after the last whole word, and the length's low byte on top. */
static inline uint64_t last_block(const unsigned char *bytes, size_t length)
{
    size_t rest = length % 8;
    uint64_t word = 0;
    if (rest != 0 && length >= 8) { // the eight bytes that end the message, shifted into place
        word = load_word(bytes + length - 8) >> (8 * (8 - rest));
    } else {
        for (size_t i = rest; i > 0; i--) {
            word = word << 8 | bytes[length - rest + i - 1];
        }
    }
    return word | (uint64_t)length << 56;
}

static uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static inline void absorb(uint64_t v[4], uint64_t block, int rounds)
{
    v[3] ^= block;
    for (int i = 0; i < rounds; i++) {
        sip_round(v);
    }
    v[0] ^= block;
}

static inline uint64_t siphash(const uint64_t key[2], const void *message, size_t length,
                               int block_rounds, int end_rounds)
{
    const unsigned char *bytes = message;
    uint64_t v[4] = {key[0] ^ INIT_0, key[1] ^ INIT_1, key[0] ^ INIT_2, key[1] ^ INIT_3};
    for (size_t at = 0; at + 8 <= length; at += 8) {
        absorb(v, load_word(bytes + at), block_rounds);
    }
    absorb(v, last_block(bytes, length), block_rounds);
    v[2] ^= 0xff;
    for (int i = 0; i < end_rounds; i++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t siphash24(const uint64_t key[2], const void *bytes, size_t length)
{
    return siphash(key, bytes, length, 2, 4);
}

static uint64_t siphash13_plain(const uint64_t key[2], const void *bytes, size_t length)
{
    return siphash(key, bytes, length, 1, 3);
}

void siphash13_many_plain(const struct siphash_input *inputs, uint64_t *hashes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hashes[i] = siphash13_plain(inputs[i].key, inputs[i].bytes, inputs[i].length);
    }
}

#if defined(__x86_64__)

#define ALWAYS_INLINE __attribute__((always_inline)) static inline
#define PAIRED        __attribute__((target("avx512f,avx512vl")))

/* One message, its four words in two registers, (v0, v2) and (v1, v3): what half a round does to one
 * word of a register it does to the other, so it takes half the instructions (AVX-512 rotates each
 * word by its own number of bits). The second half is the first with v0 and v2 in each other's place:
 * the shuffle changes them over, and rotates by 32 bits the one that was v0. */
PAIRED static inline void pair_round(__m128i *v02, __m128i *v13)
{
    *v02 = _mm_add_epi64(*v02, *v13);
    *v13 = _mm_xor_si128(_mm_rolv_epi64(*v13, _mm_set_epi64x(16, 13)), *v02);
    *v02 = _mm_shuffle_epi32(*v02, _MM_SHUFFLE(0, 1, 3, 2));
    *v02 = _mm_add_epi64(*v02, *v13);
    *v13 = _mm_xor_si128(_mm_rolv_epi64(*v13, _mm_set_epi64x(21, 17)), *v02);
    *v02 = _mm_shuffle_epi32(*v02, _MM_SHUFFLE(0, 1, 3, 2));
}

PAIRED static inline void pair_absorb(__m128i *v02, __m128i *v13, uint64_t block)
{
    __m128i low = _mm_cvtsi64_si128((int64_t)block);
    *v13 = _mm_xor_si128(*v13, _mm_slli_si128(low, 8)); // into v3; below, into v0
    pair_round(v02, v13);
    *v02 = _mm_xor_si128(*v02, low);
}

PAIRED static uint64_t siphash13_paired(const uint64_t key[2], const void *message, size_t length)
{
    const unsigned char *bytes = message;
    __m128i v02 = _mm_xor_si128(_mm_set1_epi64x((int64_t)key[0]),
                                _mm_set_epi64x((int64_t)INIT_2, (int64_t)INIT_0));
    __m128i v13 = _mm_xor_si128(_mm_set1_epi64x((int64_t)key[1]),
                                _mm_set_epi64x((int64_t)INIT_3, (int64_t)INIT_1));
    for (size_t at = 0; at + 8 <= length; at += 8) {
        pair_absorb(&v02, &v13, load_word(bytes + at));
    }
    pair_absorb(&v02, &v13, last_block(bytes, length));
    v02 = _mm_xor_si128(v02, _mm_set_epi64x(0xff, 0));
    pair_round(&v02, &v13);
    pair_round(&v02, &v13);
    pair_round(&v02, &v13);
    __m128i end = _mm_xor_si128(v02, v13);
    return (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(end, _mm_unpackhi_epi64(end, end)));
}

uint64_t siphash13(const uint64_t key[2], const void *bytes, size_t length)
{
    return __builtin_cpu_supports("avx512vl") ? siphash13_paired(key, bytes, length)
                                              : siphash13_plain(key, bytes, length);
}

enum {
    LANES = 8,            // of 64 bits: one AVX-512 register
    LANE_BLOCKS_MAX = 17, // messages of up to 128 bytes share registers; longer ones go alone
    LANE_BYTES_MAX = 8 * (LANE_BLOCKS_MAX - 1),
};

typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

#define ROTATE_LANES(v, bits) ((v) << (bits) | (v) >> (64 - (bits)))

#define ROUND_LANES(v)                                                                             \
    do {                                                                                           \
        (v)[0] += (v)[1];                                                                          \
        (v)[1] = ROTATE_LANES((v)[1], 13) ^ (v)[0];                                                \
        (v)[0] = ROTATE_LANES((v)[0], 32);                                                         \
        (v)[2] += (v)[3];                                                                          \
        (v)[3] = ROTATE_LANES((v)[3], 16) ^ (v)[2];                                                \
        (v)[0] += (v)[3];                                                                          \
        (v)[3] = ROTATE_LANES((v)[3], 21) ^ (v)[0];                                                \
        (v)[2] += (v)[1];                                                                          \
        (v)[1] = ROTATE_LANES((v)[1], 17) ^ (v)[2];                                                \
        (v)[2] = ROTATE_LANES((v)[2], 32);                                                         \
    } while (0)

/* One word of each message, from the same place, straight into a register: eight small stores that
 * one large load reads back would wait for each other. */
#define GATHER(inputs, at)                                                                         \
    ((lanes){load_lane(inputs, 0, at), load_lane(inputs, 1, at), load_lane(inputs, 2, at),         \
             load_lane(inputs, 3, at), load_lane(inputs, 4, at), load_lane(inputs, 5, at),         \
             load_lane(inputs, 6, at), load_lane(inputs, 7, at)})

#define GATHER_KEY(inputs, word)                                                                   \
    ((lanes){(inputs)[0].key[word], (inputs)[1].key[word], (inputs)[2].key[word],                  \
             (inputs)[3].key[word], (inputs)[4].key[word], (inputs)[5].key[word],                  \
             (inputs)[6].key[word], (inputs)[7].key[word]})

ALWAYS_INLINE uint64_t load_lane(const struct siphash_input *inputs, size_t lane, size_t at)
{
    return load_word((const unsigned char *)inputs[lane].bytes + at);
}

ALWAYS_INLINE void start_lanes(lanes v[4], const struct siphash_input *inputs)
{
    lanes key0 = GATHER_KEY(inputs, 0);
    lanes key1 = GATHER_KEY(inputs, 1);
    v[0] = key0 ^ INIT_0;
    v[1] = key1 ^ INIT_1;
    v[2] = key0 ^ INIT_2;
    v[3] = key1 ^ INIT_3;
}

ALWAYS_INLINE void end_lanes(lanes v[4], uint64_t hashes[LANES])
{
    v[2] ^= 0xff;
    ROUND_LANES(v);
    ROUND_LANES(v);
    ROUND_LANES(v);
    lanes hash = v[0] ^ v[1] ^ v[2] ^ v[3];
    memcpy(hashes, &hash, sizeof hash);
}

/* Messages of one length, at least 8 bytes: the usual case. */
ALWAYS_INLINE void hash_same(const struct siphash_input *inputs, size_t length,
                             uint64_t hashes[LANES])
{
    lanes v[4];
    start_lanes(v, inputs);
    for (size_t at = 0; at + 8 <= length; at += 8) {
        lanes word = GATHER(inputs, at);
        v[3] ^= word;
        ROUND_LANES(v);
        v[0] ^= word;
    }
    lanes last = {0};
    if (length % 8 != 0) {
        last = GATHER(inputs, length - 8) >> (8 * (8 - length % 8));
    }
    last |= (uint64_t)length << 56;
    v[3] ^= last;
    ROUND_LANES(v);
    v[0] ^= last;
    end_lanes(v, hashes);
}

/* Messages of different lengths: turned on their side in memory first. */
ALWAYS_INLINE void hash_mixed(const struct siphash_input *inputs, uint64_t hashes[LANES])
{
    uint64_t words[LANE_BLOCKS_MAX][LANES];
    uint64_t block_counts[LANES];
    size_t block_count_max = 0;
    for (size_t lane = 0; lane < LANES; lane++) {
        size_t whole = inputs[lane].length / 8;
        for (size_t i = 0; i < whole; i++) {
            words[i][lane] = load_lane(inputs, lane, 8 * i);
        }
        words[whole][lane] = last_block(inputs[lane].bytes, inputs[lane].length);
        block_counts[lane] = whole + 1;
        block_count_max = whole + 1 > block_count_max ? whole + 1 : block_count_max;
    }
    lanes v[4];
    lanes block_count;
    memcpy(&block_count, block_counts, sizeof block_count);
    start_lanes(v, inputs);
    for (size_t i = 0; i < block_count_max; i++) {
        lanes before[4] = {v[0], v[1], v[2], v[3]};
        lanes live = (lanes)(block_count > i); // a lane whose message is over keeps what it had
        lanes word;
        memcpy(&word, words[i], sizeof word);
        word &= live; // what stands there for the others was never written
        v[3] ^= word;
        ROUND_LANES(v);
        v[0] ^= word;
        for (size_t j = 0; j < 4; j++) {
            v[j] = (v[j] & live) | (before[j] & ~live);
        }
    }
    end_lanes(v, hashes);
}

ALWAYS_INLINE void hash_lanes(const struct siphash_input *inputs, uint64_t hashes[LANES])
{
    size_t length = inputs[0].length;
    bool same_length = length >= 8;
    for (size_t lane = 1; lane < LANES; lane++) {
        same_length &= inputs[lane].length == length;
    }
    if (same_length) {
        hash_same(inputs, length, hashes);
    } else {
        hash_mixed(inputs, hashes);
    }
}

__attribute__((target("avx512f"))) static void hash_lanes_avx512(const struct siphash_input *inputs,
                                                                 uint64_t hashes[LANES])
{
    hash_lanes(inputs, hashes);
}

static bool fit_lanes(const struct siphash_input *inputs)
{
    size_t longest = 0;
    for (size_t lane = 0; lane < LANES; lane++) {
        longest |= inputs[lane].length; // at least the longest; at most twice as much
    }
    return longest < LANE_BYTES_MAX;
}

void siphash13_many(const struct siphash_input *inputs, uint64_t *hashes, size_t count)
{
    bool has_lanes = __builtin_cpu_supports("avx512f") != 0;
    while (has_lanes && count >= LANES) {
        if (fit_lanes(inputs)) {
            hash_lanes_avx512(inputs, hashes);
        } else {
            siphash13_many_plain(inputs, hashes, LANES);
        }
        inputs += LANES;
        hashes += LANES;
        count -= LANES;
    }
    siphash13_many_plain(inputs, hashes, count);
}

#else

uint64_t siphash13(const uint64_t key[2], const void *bytes, size_t length)
{
    return siphash13_plain(key, bytes, length);
}

void siphash13_many(const struct siphash_input *inputs, uint64_t *hashes, size_t count)
{
    siphash13_many_plain(inputs, hashes, count);
}

#endif
