/* SPDX-License-Identifier: MIT
 *
 * SipHash-c-d: c rounds for each 8-byte block of the message, d rounds at the end; the last block
 * carries the bytes that are left and the length.
 *
 * A single short message leaves most of a processor idle: each round waits for the one before. So
 * siphash13_many() runs LANES messages side by side, one per lane of a vector. The vector code is
 * written once, in GNU C vectors (an extension: there is no portable way to say this), and compiled
 * for each instruction set. Lanes whose message is over keep their state while longer ones go on. */
#include "store/table/siphash.h"

#include <stdbool.h>
#include <string.h>

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
static uint64_t last_block(const unsigned char *bytes, size_t length)
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

uint64_t siphash13(const uint64_t key[2], const void *bytes, size_t length)
{
    return siphash(key, bytes, length, 1, 3);
}

void siphash13_many_plain(const struct siphash_input *inputs, uint64_t *hashes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hashes[i] = siphash13(inputs[i].key, inputs[i].bytes, inputs[i].length);
    }
}

#if defined(__x86_64__)

enum {
    LANES = 8,            // of 64 bits: one AVX-512 register, or two of AVX2
    LANE_BLOCKS_MAX = 17, // messages of up to 128 bytes share registers; longer ones go alone
    LANE_BYTES_MAX = 8 * (LANE_BLOCKS_MAX - 1),
};

typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

/* The messages of one vector, turned on their side: word[block][lane]. */
struct lane_messages {
    lanes word[LANE_BLOCKS_MAX];
    lanes block_count; // at least 1
    lanes key[2];
    size_t block_count_max;
    bool same_length;
};

static void load_lanes(struct lane_messages *messages, const struct siphash_input *inputs)
{
    messages->block_count_max = 0;
    messages->same_length = true;
    for (size_t lane = 0; lane < LANES; lane++) {
        const unsigned char *bytes = inputs[lane].bytes;
        size_t whole = inputs[lane].length / 8;
        for (size_t i = 0; i < whole; i++) {
            messages->word[i][lane] = load_word(bytes + 8 * i);
        }
        messages->word[whole][lane] = last_block(bytes, inputs[lane].length);
        messages->block_count[lane] = whole + 1;
        messages->key[0][lane] = inputs[lane].key[0];
        messages->key[1][lane] = inputs[lane].key[1];
        messages->same_length =
            messages->same_length && inputs[lane].length / 8 == inputs[0].length / 8;
        if (whole + 1 > messages->block_count_max) {
            messages->block_count_max = whole + 1;
        }
    }
}

#define ROTATE_LANES(v, bits) ((v) << (bits) | (v) >> (64 - (bits)))

#define ROUND_LANES(v0, v1, v2, v3)                                                                \
    do {                                                                                           \
        v0 += v1;                                                                                  \
        v1 = ROTATE_LANES(v1, 13) ^ v0;                                                            \
        v0 = ROTATE_LANES(v0, 32);                                                                 \
        v2 += v3;                                                                                  \
        v3 = ROTATE_LANES(v3, 16) ^ v2;                                                            \
        v0 += v3;                                                                                  \
        v3 = ROTATE_LANES(v3, 21) ^ v0;                                                            \
        v2 += v1;                                                                                  \
        v1 = ROTATE_LANES(v1, 17) ^ v2;                                                            \
        v2 = ROTATE_LANES(v2, 32);                                                                 \
    } while (0)

/* Inlined into one function per instruction set, and compiled for that one. */
__attribute__((always_inline)) static inline void hash_lanes(const struct lane_messages *messages,
                                                             uint64_t hashes[LANES])
{
    lanes v0 = messages->key[0] ^ INIT_0;
    lanes v1 = messages->key[1] ^ INIT_1;
    lanes v2 = messages->key[0] ^ INIT_2;
    lanes v3 = messages->key[1] ^ INIT_3;
    for (size_t i = 0; i < messages->block_count_max; i++) {
        lanes old0 = v0, old1 = v1, old2 = v2, old3 = v3;
        v3 ^= messages->word[i];
        ROUND_LANES(v0, v1, v2, v3);
        v0 ^= messages->word[i];
        if (!messages->same_length) { // a lane whose message is over keeps what it had
            lanes live = (lanes)(messages->block_count > i);
            v0 = (v0 & live) | (old0 & ~live);
            v1 = (v1 & live) | (old1 & ~live);
            v2 = (v2 & live) | (old2 & ~live);
            v3 = (v3 & live) | (old3 & ~live);
        }
    }
    v2 ^= 0xff;
    ROUND_LANES(v0, v1, v2, v3);
    ROUND_LANES(v0, v1, v2, v3);
    ROUND_LANES(v0, v1, v2, v3);
    lanes hash = v0 ^ v1 ^ v2 ^ v3;
    memcpy(hashes, &hash, sizeof hash);
}

__attribute__((target("avx512f"))) static void
hash_lanes_avx512(const struct lane_messages *messages, uint64_t hashes[LANES])
{
    hash_lanes(messages, hashes);
}

__attribute__((target("avx2"))) static void hash_lanes_avx2(const struct lane_messages *messages,
                                                            uint64_t hashes[LANES])
{
    hash_lanes(messages, hashes);
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
    bool has_avx512 = __builtin_cpu_supports("avx512f") != 0;
    bool has_lanes = has_avx512 || __builtin_cpu_supports("avx2") != 0;
    struct lane_messages messages;
    while (has_lanes && count >= LANES) {
        if (!fit_lanes(inputs)) {
            siphash13_many_plain(inputs, hashes, LANES);
        } else {
            load_lanes(&messages, inputs);
            (has_avx512 ? hash_lanes_avx512 : hash_lanes_avx2)(&messages, hashes);
        }
        inputs += LANES;
        hashes += LANES;
        count -= LANES;
    }
    siphash13_many_plain(inputs, hashes, count);
}

#else

void siphash13_many(const struct siphash_input *inputs, uint64_t *hashes, size_t count)
{
    siphash13_many_plain(inputs, hashes, count);
}

#endif
