/* SPDX-License-Identifier: MIT
 *
 * Which operations are run against each other. A family is an alphabet of operations and a way to
 * begin; its scripts are all ways to give each thread so many letters, but for the order of the
 * threads, which does not matter. Keys A and C have equal owner bits, B has others. In two lines A
 * and C are at home in the first, B in the second, and each probes both.
 *
 * The limit of most is 3/10ns capacity=6: a unit is 3 1/3 ns, a full bucket drains in 20 ns. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

enum { A, B, C };
enum { LETTERS_MAX = 8 };

/* The limits. */
#define FRACTIONS "3/10ns capacity=6"
#define BLOCKING  "3/10ns capacity=6 block=9ns"
#define EVICTING  "3/10ns capacity=6 on_full=evict"
#define WHOLE     "1/10ns capacity=2" // its takes are usual ones

/* clang-format off */
#define DO(what, which, much, now) {.kind = what, .key = which, .cost = much, .now_ns = now}
#define TAKE(key, cost, now)     DO(WEIR_TAKE, key, cost, now)
#define CAN_TAKE(key, cost, now) DO(WEIR_CAN_TAKE, key, cost, now)
#define FILL(key, cost, now)     DO(WEIR_FILL, key, cost, now)
#define REFUND(key, cost, now)   DO(WEIR_REFUND, key, cost, now)
#define RESET(key, now)          DO(WEIR_RESET, key, 0, now)
#define SHOW(key, now)           DO(WEIR_SHOW, key, 0, now)
#define JOIN(key, cost, now)     DO(LINE_JOIN, key, cost, now)
#define SERVE(key, cost, now)    DO(LINE_SERVE, key, cost, now)
#define LEAVE(key, cost, now)    DO(LINE_LEAVE, key, cost, now)
#define BLOCK(key, lasts, now)   DO(WEIR_BLOCK, key, lasts, now)
#define UNBLOCK(key, now)        DO(WEIR_UNBLOCK, key, 0, now)
#define MOVE(now)                DO(MOVE_ALL, A, 0, now)
#define IN_VAIN(now)             DO(MOVE_IN_VAIN, A, 0, now)

/* Of several keys at once. */
#define DO_MORE(what, which, much, now, count, ...)                                                \
    {.kind = what, .key = which, .cost = much, .now_ns = now, .more_count = count, .more = {__VA_ARGS__}}
#define BOTH(a, cost_a, b, cost_b, now)     DO_MORE(WEIR_TAKE, a, cost_a, now, 1, {b, cost_b})
#define CAN_BOTH(a, cost_a, b, cost_b, now) DO_MORE(WEIR_CAN_TAKE, a, cost_a, now, 1, {b, cost_b})
#define THREE(a, cost_a, b, cost_b, c, cost_c, now)                                                \
    DO_MORE(WEIR_TAKE, a, cost_a, now, 2, {b, cost_b}, {c, cost_c})
/* clang-format on */

struct family {
    const char *name;
    uint64_t line_slots; // compiled for lines of so many slots
    uint64_t line_count;
    uint64_t stripe_count;
    int thread_count;
    int operation_count;
    unsigned long share; // an ordinary run takes every so many-th script, a soak all
    int setup_count;
    int letter_count;
    struct operation setup[SETUP_MAX];
    struct operation letters[LETTERS_MAX];
    const char *limit;
};

/* clang-format off */

/* One key: every mixture of what may be done to it, at readings that go back and forth. */
#define KEY_SETUP    1, 5, {TAKE(A, 2, 100)}
#define KEY_LETTERS  {TAKE(A, 4, 106), FILL(A, 3, 97), REFUND(A, 3, 103), RESET(A, 100), TAKE(A, 2, 100)}

#define STEADY_SETUP   1, 4, {TAKE(A, 2, 100)}
#define STEADY_LETTERS {TAKE(A, 4, 100), FILL(A, 3, 100), REFUND(A, 3, 100), TAKE(A, 2, 100)}

/* One slot that goes from A to B to C. A's first bucket drains at 113 1/3. */
#define REUSE_SETUP   1, 5, {TAKE(A, 4, 100)}
#define REUSE_LETTERS {TAKE(A, 2, 110), REFUND(A, 6, 100), TAKE(B, 4, 112), TAKE(C, 4, 120), REFUND(B, 4, 50)}
#define CHAIN_SETUP   1, 4, {TAKE(A, 4, 100)}
#define CHAIN_LETTERS {TAKE(A, 2, 110), TAKE(B, 4, 120), TAKE(C, 4, 140), RESET(C, 50)}

#define TURNS_SETUP   1, 3, {TAKE(A, 4, 100)}
#define TURNS_LETTERS {TAKE(A, 2, 120), TAKE(B, 4, 120), REFUND(A, 4, 120)}

/* A is charged and given back, to the very state that it had; B wants its slot meanwhile. */
#define RETURN_SETUP   2, 4, {TAKE(A, 4, 100), RESET(A, 100)}
#define RETURN_LETTERS {TAKE(B, 4, 115), RESET(A, 100), TAKE(A, 6, 100), TAKE(A, 2, 100)}

/* Two slots, in one line or in two, for three keys. */
#define PAIR_SETUP   1, 6, {TAKE(A, 4, 100)}
#define PAIR_LETTERS {TAKE(A, 2, 110), CAN_TAKE(A, 4, 110), TAKE(B, 4, 120), TAKE(C, 4, 121), FILL(C, 2, 105), RESET(A, 112)}
#define TRIO_SETUP   1, 4, {TAKE(A, 4, 100)}
#define TRIO_LETTERS {TAKE(A, 2, 110), TAKE(B, 4, 120), TAKE(C, 4, 121), REFUND(C, 4, 105)}

/* Somebody waits for A; others take beside it, or give back, or want its slot when it has drained, at 120. */
#define LINE_SETUP   1, 6, {TAKE(A, 6, 100)}
#define LINE_LETTERS {JOIN(A, 4, 103), TAKE(A, 1, 107), SERVE(A, 4, 114), LEAVE(A, 1, 105), REFUND(A, 3, 104), TAKE(B, 4, 125)}
#define MARK_SETUP   2, 6, {TAKE(A, 6, 100), JOIN(A, 4, 101)}
#define MARK_LETTERS {TAKE(A, 1, 107), SERVE(A, 4, 125), JOIN(A, 6, 110), TAKE(B, 4, 125), RESET(A, 103), LEAVE(A, 0, 104)}

/* All buckets move; others take, give back, make buckets and want the slot of one that has drained, at 112. */
#define MOVE_SETUP   1, 6, {TAKE(A, 4, 100)}
#define MOVE_LETTERS {MOVE(108), IN_VAIN(114), TAKE(A, 2, 110), REFUND(A, 3, 104), TAKE(B, 4, 112), SHOW(B, 107)}
#define CARRY_SETUP   1, 5, {TAKE(A, 4, 100)}
#define CARRY_LETTERS {MOVE(120), TAKE(A, 4, 106), FILL(A, 3, 97), RESET(A, 103), TAKE(B, 4, 121)}

/* Two keys at once, in either order, beside what else may be done to them. */
#define BOTH_SETUP   2, 8, {TAKE(A, 2, 100), TAKE(B, 3, 100)}
#define BOTH_LETTERS {BOTH(A, 2, B, 2, 106), BOTH(B, 2, A, 4, 103), TAKE(A, 3, 104), TAKE(B, 2, 106), REFUND(A, 3, 103), CAN_BOTH(A, 2, B, 2, 105), RESET(B, 104), BOTH(A, 3, B, 6, 101)}

/* A is charged together with B and given back, to the very state that it had; somebody reads both. */
#define BACK_SETUP   2, 4, {TAKE(A, 2, 100), TAKE(B, 1, 100)}
#define BACK_LETTERS {CAN_BOTH(A, 2, B, 1, 104), BOTH(A, 3, B, 1, 104), TAKE(B, 1, 104), REFUND(A, 3, 104)}

/* The same with usual takes: of one unit each. */
#define WHOLE_SETUP   2, 8, {TAKE(A, 1, 100), TAKE(B, 1, 100)}
#define WHOLE_LETTERS {BOTH(A, 1, B, 1, 106), BOTH(B, 1, A, 1, 103), TAKE(A, 1, 104), TAKE(B, 1, 106), REFUND(A, 1, 103), CAN_BOTH(A, 1, B, 1, 105), RESET(B, 104), BOTH(A, 1, B, 1, 101)}

/* They have no buckets yet, or drained ones; others want their slots. */
#define FRESH_SETUP   1, 6, {TAKE(A, 4, 100)}
#define FRESH_LETTERS {BOTH(A, 2, B, 2, 120), BOTH(B, 4, A, 4, 110), TAKE(C, 4, 120), TAKE(B, 3, 121), REFUND(A, 4, 100), BOTH(C, 2, B, 2, 125)}

#define TRIPLE_SETUP   2, 5, {TAKE(A, 2, 100), TAKE(B, 3, 100)}
#define TRIPLE_LETTERS {THREE(A, 2, B, 2, C, 2, 106), THREE(C, 3, A, 3, B, 1, 104), TAKE(A, 3, 104), REFUND(B, 3, 103), BOTH(B, 2, C, 2, 105)}

/* Somebody waits for one of them. */
#define BEHIND_SETUP   2, 7, {TAKE(A, 6, 100), TAKE(B, 1, 100)}
#define BEHIND_LETTERS {BOTH(A, 1, B, 1, 107), BOTH(B, 1, A, 1, 107), JOIN(A, 4, 103), SERVE(A, 4, 114), LEAVE(A, 1, 105), JOIN(B, 6, 104), TAKE(A, 1, 107)}

/* A is locked out, for longer or shorter, and let in, beside all that may be asked of it. */
#define LOCK_SETUP   1, 8, {TAKE(A, 2, 100)}
#define LOCK_LETTERS {BLOCK(A, 10, 102), TAKE(A, 2, 104), BLOCK(A, 20, 101), UNBLOCK(A, 105), FILL(A, 3, 108), TAKE(A, 1, 113), REFUND(A, 2, 103), SHOW(A, 122)}

/* Others want the slot of its bucket, which drains at 106 2/3, or of its block. */
#define LET_SETUP   1, 6, {TAKE(A, 2, 100)}
#define LET_LETTERS {BLOCK(A, 6, 102), TAKE(A, 2, 107), TAKE(B, 4, 110), UNBLOCK(A, 104), TAKE(C, 4, 109), BLOCK(B, 5, 107)}

/* A refusal blocks, and so does what fills up. */
#define OUT_SETUP   1, 7, {TAKE(A, 4, 100)}
#define OUT_LETTERS {TAKE(A, 4, 101), TAKE(A, 2, 101), FILL(A, 3, 103), UNBLOCK(A, 104), TAKE(A, 1, 109), REFUND(A, 3, 102), BLOCK(A, 4, 105)}

/* The same under several limits: of each that refused the key is blocked, and one that is blocked is enough. */
#define RUN_SETUP   2, 7, {TAKE(A, 4, 100), TAKE(B, 2, 100)}
#define RUN_LETTERS {BOTH(A, 4, B, 1, 101), TAKE(A, 2, 101), BOTH(B, 1, A, 1, 104), BOTH(B, 5, A, 4, 102), TAKE(B, 2, 103), UNBLOCK(A, 105), CAN_BOTH(A, 1, B, 1, 112)}

/* Blocks move with their buckets. */
#define SWAP_SETUP   1, 6, {TAKE(A, 2, 100)}
#define SWAP_LETTERS {MOVE(103), BLOCK(A, 10, 102), TAKE(A, 2, 104), UNBLOCK(A, 105), IN_VAIN(101), TAKE(A, 1, 113)}

/* One slot, or two, for three keys that drop each other. */
#define EVICT_SETUP   1, 6, {TAKE(A, 4, 100)}
#define EVICT_LETTERS {TAKE(A, 2, 110), TAKE(B, 4, 106), TAKE(C, 3, 108), REFUND(A, 3, 104), FILL(B, 1, 111), SHOW(A, 107)}

/* One slot, for two keys, of which one comes with a clock that lags. */
#define DROP_SETUP   1, 4, {TAKE(A, 4, 100)}
#define DROP_LETTERS {TAKE(A, 2, 104), TAKE(B, 4, 106), REFUND(A, 3, 104), TAKE(A, 2, 110)}
#define LAG_SETUP   1, 4, {TAKE(A, 4, 100)}
#define LAG_LETTERS {TAKE(A, 2, 104), TAKE(B, 4, 106), REFUND(A, 3, 104), SHOW(A, 104)}

static const struct family FAMILIES[] = {
    {"key-2x3", 1, 1, 1, 2, 3, 11, KEY_SETUP, KEY_LETTERS, FRACTIONS},
    {"reuse-2x3", 1, 1, 1, 2, 3, 7, REUSE_SETUP, REUSE_LETTERS, FRACTIONS},
    {"chain-2x3", 1, 1, 1, 2, 3, 5, CHAIN_SETUP, CHAIN_LETTERS, FRACTIONS},
    {"return-2x3", 1, 1, 1, 2, 3, 3, RETURN_SETUP, RETURN_LETTERS, FRACTIONS},
    {"line-2x3", 1, 1, 1, 2, 3, 31, LINE_SETUP, LINE_LETTERS, FRACTIONS},
    {"mark-2x3", 1, 1, 1, 2, 3, 61, MARK_SETUP, MARK_LETTERS, FRACTIONS},
    {"mark-2x3", 2, 2, 1, 2, 3, 101, MARK_SETUP, MARK_LETTERS, FRACTIONS},
    {"move-2x3", 1, 1, 1, 2, 3, 61, MOVE_SETUP, MOVE_LETTERS, FRACTIONS},
    {"move-2x3", 2, 1, 1, 2, 3, 101, MOVE_SETUP, MOVE_LETTERS, FRACTIONS},
    {"carry-2x3", 1, 2, 1, 2, 3, 31, CARRY_SETUP, CARRY_LETTERS, FRACTIONS},
    {"move-3x2", 1, 1, 1, 3, 2, 8999, MOVE_SETUP, MOVE_LETTERS, FRACTIONS},
    {"line-3x2", 1, 1, 1, 3, 2, 499, LINE_SETUP, LINE_LETTERS, FRACTIONS},
    {"pair-2x3", 1, 2, 1, 2, 3, 101, PAIR_SETUP, PAIR_LETTERS, FRACTIONS},
    {"pair-2x3", 2, 1, 1, 2, 3, 61, PAIR_SETUP, PAIR_LETTERS, FRACTIONS},
    {"wide-2x3", 2, 2, 1, 2, 3, 61, PAIR_SETUP, PAIR_LETTERS, FRACTIONS},
    {"key-3x2", 1, 1, 1, 3, 2, 397, KEY_SETUP, KEY_LETTERS, FRACTIONS},
    {"steady-3x2", 1, 1, 1, 3, 2, 19, STEADY_SETUP, STEADY_LETTERS, FRACTIONS},
    {"turns-3x2", 1, 1, 1, 3, 2, 7, TURNS_SETUP, TURNS_LETTERS, FRACTIONS},
    {"reuse-3x2", 1, 1, 1, 3, 2, 131, CHAIN_SETUP, CHAIN_LETTERS, FRACTIONS},
    {"pair-3x2", 1, 2, 1, 3, 2, 499, TRIO_SETUP, TRIO_LETTERS, FRACTIONS},
    {"pair-3x2", 2, 1, 1, 3, 2, 397, TRIO_SETUP, TRIO_LETTERS, FRACTIONS},
    {"both-2x2", 1, 2, 2, 2, 2, 7, BOTH_SETUP, BOTH_LETTERS, FRACTIONS},
    {"both-2x2", 2, 1, 1, 2, 2, 7, BOTH_SETUP, BOTH_LETTERS, FRACTIONS},
    {"both-3x1", 1, 2, 2, 3, 1, 2, BOTH_SETUP, BOTH_LETTERS, FRACTIONS},
    {"back-2x3", 1, 2, 2, 2, 3, 17, BACK_SETUP, BACK_LETTERS, FRACTIONS},
    {"fresh-2x2", 1, 2, 2, 2, 2, 5, FRESH_SETUP, FRESH_LETTERS, FRACTIONS},
    {"fresh-2x2", 2, 1, 1, 2, 2, 17, FRESH_SETUP, FRESH_LETTERS, FRACTIONS},
    {"fresh-2x2", 2, 2, 2, 2, 2, 11, FRESH_SETUP, FRESH_LETTERS, FRACTIONS},
    {"triple-2x2", 2, 2, 2, 2, 2, 7, TRIPLE_SETUP, TRIPLE_LETTERS, FRACTIONS},
    {"behind-2x2", 1, 2, 2, 2, 2, 2, BEHIND_SETUP, BEHIND_LETTERS, FRACTIONS},
    {"behind-3x1", 2, 2, 2, 3, 1, 1, BEHIND_SETUP, BEHIND_LETTERS, FRACTIONS},
    {"whole-2x2", 1, 2, 2, 2, 2, 7, WHOLE_SETUP, WHOLE_LETTERS, WHOLE},
    {"whole-2x2", 2, 1, 1, 2, 2, 7, WHOLE_SETUP, WHOLE_LETTERS, WHOLE},
    {"whole-3x1", 1, 2, 2, 3, 1, 7, WHOLE_SETUP, WHOLE_LETTERS, WHOLE},
    {"lock-2x2", 2, 1, 1, 2, 2, 31, LOCK_SETUP, LOCK_LETTERS, FRACTIONS},
    {"lock-3x1", 2, 1, 1, 3, 1, 7, LOCK_SETUP, LOCK_LETTERS, FRACTIONS},
    {"let-2x2", 1, 2, 1, 2, 2, 11, LET_SETUP, LET_LETTERS, FRACTIONS},
    {"let-2x2", 2, 2, 1, 2, 2, 11, LET_SETUP, LET_LETTERS, FRACTIONS},
    {"out-2x2", 2, 1, 1, 2, 2, 31, OUT_SETUP, OUT_LETTERS, BLOCKING},
    {"out-2x2", 1, 2, 1, 2, 2, 11, OUT_SETUP, OUT_LETTERS, BLOCKING},
    {"out-3x1", 2, 1, 1, 3, 1, 17, OUT_SETUP, OUT_LETTERS, BLOCKING},
    {"run-2x2", 2, 2, 1, 2, 2, 211, RUN_SETUP, RUN_LETTERS, BLOCKING},
    {"run-2x2", 2, 2, 2, 2, 2, 211, RUN_SETUP, RUN_LETTERS, BLOCKING},
    {"swap-2x2", 2, 1, 1, 2, 2, 11, SWAP_SETUP, SWAP_LETTERS, FRACTIONS},
    {"evict-2x3", 1, 1, 1, 2, 3, 331, EVICT_SETUP, EVICT_LETTERS, EVICTING},
    {"drop-2x3", 1, 1, 1, 2, 3, 61, DROP_SETUP, DROP_LETTERS, EVICTING},
    {"lag-2x3", 1, 1, 1, 2, 3, 61, LAG_SETUP, LAG_LETTERS, EVICTING},
    {"evict-2x3", 1, 2, 1, 2, 3, 601, EVICT_SETUP, EVICT_LETTERS, EVICTING},
    {"evict-2x3", 2, 1, 1, 2, 3, 601, EVICT_SETUP, EVICT_LETTERS, EVICTING},
};

/* clang-format on */

/* The number-th word of `length` letters. */
static void spell(const struct family *family, struct operation *operations, unsigned long number)
{
    for (int i = 0; i < family->operation_count; i++) {
        operations[i] = family->letters[number % (unsigned long)family->letter_count];
        number /= (unsigned long)family->letter_count;
    }
}

static unsigned long count_words(const struct family *family)
{
    unsigned long words = 1;
    for (int i = 0; i < family->operation_count; i++) {
        words *= (unsigned long)family->letter_count;
    }
    return words;
}

/* The next choice of words, none smaller than the one before. False: that was the last. */
static bool advance(unsigned long numbers[THREADS_MAX], int thread_count, unsigned long words)
{
    int i = thread_count - 1;
    while (i >= 0 && numbers[i] == words - 1) {
        i--;
    }
    if (i < 0) {
        return false;
    }
    numbers[i]++;
    for (int j = i + 1; j < thread_count; j++) {
        numbers[j] = numbers[i];
    }
    return true;
}

/* Runs every `every`-th script of a family. Stops at one that is broken. */
static bool run_family(const struct family *family, bool (*run)(const struct script *script),
                       unsigned long every)
{
    struct script next = {
        .line_count = family->line_count,
        .stripe_count = family->stripe_count,
        .limit = family->limit,
        .is_whole = strcmp(family->limit, WHOLE) == 0,
        .setup_count = family->setup_count,
        .thread_count = family->thread_count,
        .operation_count = family->operation_count,
    };
    memcpy(next.setup, family->setup, sizeof next.setup);
    unsigned long numbers[THREADS_MAX] = {0};
    unsigned long count = 0;
    do {
        if (count++ % every != 0) {
            continue;
        }
        for (int thread = 0; thread < family->thread_count; thread++) {
            spell(family, next.operations[thread], numbers[thread]);
        }
        if (!run(&next)) {
            return false;
        }
    } while (advance(numbers, family->thread_count, count_words(family)));
    return true;
}

int scripts_run(bool (*run)(const struct script *script), const char *name, unsigned long every)
{
    for (size_t i = 0; i < sizeof FAMILIES / sizeof FAMILIES[0]; i++) {
        const struct family *family = &FAMILIES[i];
        bool is_asked = strcmp(name, "all") == 0 || strcmp(name, family->name) == 0;
        unsigned long stride = every == 0 ? 1 : family->share * every;
        if (!is_asked || family->line_slots != TABLE_LINE_SLOTS) {
            continue;
        }
        if (!run_family(family, run, stride)) {
            printf("  family %s\n", family->name);
            return 1;
        }
        explore_report(family->name);
    }
    return 0;
}
