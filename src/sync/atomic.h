/* SPDX-License-Identifier: MIT
 *
 * The few atomic accesses that lock-free code here is made of, under one name each. They are all
 * that touches shared memory in the table, so that a checker can put its own in their place and
 * walk through every interleaving (tests/concurrency/).
 *
 * The 16-byte ones are what C11 cannot give without libatomic:
 *
 *   compare-and-swap  one instruction on x86-64; the __sync builtin elsewhere, and for ThreadSanitizer,
 *                     which understands that. On aarch64 that is a function of libgcc: CASP where the
 *                     processor has LSE, else a loop of LDAXP and STLXP
 *   load              one aligned load, where the processor promises that it is atomic. x86-64: with AVX (Intel
 *                     SDM volume 3, 9.1.1; AMD APM volume 2, 7.3.2). aarch64: with LSE2 (Arm ARM, B2.2.1),
 *                     which Linux calls "uscat". Elsewhere a compare-and-swap of what was read with itself,
 *                     which writes, but changes nothing. Price: there a refusal takes the line of the cache for
 *                     itself, as a charge does
 *   store             one aligned store on x86-64 with AVX; elsewhere a compare-and-swap with what is known
 *                     to be there
 *
 * Why the load elsewhere is no compare-and-swap of zero with zero, which needs no reading before: where it does not
 * match, that is an LDAXP without its STLXP on an aarch64 without LSE (Cortex-A53, A57, A72), and such a one is two
 * loads of 8 bytes. Only a swap that succeeds shows that both halves were there at one instant. */
#ifndef WEIR_SYNC_ATOMIC_H
#define WEIR_SYNC_ATOMIC_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "weir/bucket.h"

#if defined(__SANITIZE_THREAD__)
#define WEIR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR_TSAN 1
#endif
#endif

#if defined(__x86_64__) && !defined(WEIR_TSAN)
#include <emmintrin.h>
#define WEIR_X86_ASM 1
#endif

#if defined(__aarch64__) && !defined(WEIR_TSAN)
#define WEIR_ARM_ASM 1

/* Whether this processor has LSE2. atomic.c sets it once, before main() or before dlopen() returns, and nobody
 * ever changes it again: a byte that all threads only read, like the processor's features that the compiler's own
 * functions keep. A load before that finds 0 and takes the other way, which is right on every processor. */
extern bool atomic_has_lse2 __attribute__((visibility("hidden")));
#endif

/* May alias: the same 16 bytes are a struct weir_bucket to everybody else. */
__extension__ typedef unsigned __int128 uint128_alias __attribute__((may_alias));

static inline uint64_t load_acquire(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline uint64_t load_relaxed(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void store_release(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void store_relaxed(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline void *load_pointer(void *const *at) // acquire
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* Replaces *at by `next` if it equals `expected`. Acquire and release. */
static inline bool cas_pointer(void **at, void *expected, void *next)
{
    return __atomic_compare_exchange_n(at, &expected, next, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* Replaces *word by `next` if it equals *expected; otherwise reads it into *expected. Acquire and
 * release. */
static inline bool cas_word(uint64_t *word, uint64_t *expected, uint64_t next)
{
    return __atomic_compare_exchange_n(word, expected, next, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static inline uint128_alias bucket_bits(struct weir_bucket bucket)
{
    return (uint128_alias)bucket.word << 64 | bucket.empty_at_ns; // little-endian, as in memory
}

/* Replaces *bucket by `next` if it still equals `expected`. Acquire and release. The bucket is 16-byte
 * aligned. */
static inline bool cas_bucket(struct weir_bucket *bucket, struct weir_bucket expected,
                              struct weir_bucket next)
{
#ifdef WEIR_X86_ASM
    /* What the builtin makes, without a detour of the operands through memory. */
    bool is_done;
    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(is_done), "+m"(*bucket), "+a"(expected.empty_at_ns),
                       "+d"(expected.word)
                     : "b"(next.empty_at_ns), "c"(next.word)
                     : "memory");
    return is_done;
#else
    void *at = bucket;
    return __sync_bool_compare_and_swap((uint128_alias *)at, bucket_bits(expected),
                                        bucket_bits(next));
#endif
}

/* Two halves that may be of two instants. */
static inline struct weir_bucket load_halves(const struct weir_bucket *bucket)
{
    return (struct weir_bucket){load_relaxed(&bucket->empty_at_ns), load_relaxed(&bucket->word)};
}

/* The swap fails only because another one succeeded meanwhile (lock-free). */
static inline struct weir_bucket load_bucket_by_cas(const struct weir_bucket *bucket)
{
    union {
        const struct weir_bucket *from;
        struct weir_bucket *to;
    } at = {.from = bucket}; // it writes what is there
    struct weir_bucket seen;
    do {
        seen = load_halves(bucket);
    } while (!cas_bucket(at.to, seen, seen));
    return seen;
}

/* Reads all 16 bytes at one instant. Acquire. The bucket is 16-byte aligned. */
static inline struct weir_bucket load_bucket(const struct weir_bucket *bucket)
{
#ifdef WEIR_X86_ASM
    if (__builtin_expect(__builtin_cpu_supports("avx") != 0, 1)) {
        __m128i bits;
        /* Volatile and with a memory clobber: later reads stay later; x86 keeps loads in order. */
        __asm__ volatile("movdqa %1, %0"
                         : "=x"(bits)
                         : "m"(*(const __m128i *)(const void *)bucket)
                         : "memory");
        /* Both halves straight out of the register: by way of memory they would wait. */
        return (struct weir_bucket){
            (uint64_t)_mm_cvtsi128_si64(bits),
            (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(bits, bits)),
        };
    }
#elif defined(WEIR_ARM_ASM)
    if (__builtin_expect(atomic_has_lse2, 1)) {
        struct weir_bucket seen;
        /* The barrier makes it an acquire: later reads and writes stay later. */
        __asm__ volatile("ldp %0, %1, %2\n\tdmb ishld"
                         : "=&r"(seen.empty_at_ns), "=r"(seen.word)
                         : "Q"(*bucket)
                         : "memory");
        return seen;
    }
#endif
    return load_bucket_by_cas(bucket);
}

/* Writes all 16 bytes at one instant, over `last`, which nobody but the caller may change meanwhile. Release.
 * The bucket is 16-byte aligned. */
static inline void store_bucket(struct weir_bucket *bucket, struct weir_bucket last,
                                struct weir_bucket next)
{
#ifdef WEIR_X86_ASM
    if (__builtin_expect(__builtin_cpu_supports("avx") != 0, 1)) {
        /* As load_bucket(); and x86 keeps stores in order, behind all that was read before. */
        __m128i bits = _mm_set_epi64x((int64_t)next.word, (int64_t)next.empty_at_ns);
        __asm__ volatile("movdqa %1, %0" : "=m"(*(__m128i *)(void *)bucket) : "x"(bits) : "memory");
        return;
    }
#endif
    bool done = cas_bucket(bucket, last, next);
    assert(done);
    (void)done;
}

#endif
