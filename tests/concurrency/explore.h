/* SPDX-License-Identifier: MIT
 *
 * The explorer: every interleaving of a few threads in the real table. README.md in this folder says
 * what it proves; explore.c how it walks.
 *
 *   explore.c          the walk over all schedules
 *   explore_memory.c   the accesses of the table, each one a step
 *   explore_lines.c    the keeper of lines: who waits for a bucket, and what happens to them
 *   explore_move.c     all buckets go to another table, or not
 *   explore_model.c    what is right: the specification, followed along each schedule
 *   explore_acts.c     what one operation may come to, by the specification
 *   explore_memo.c     the same, remembered
 *   explore_scripts.c  which operations are run against each other */
#ifndef WEIR_TESTS_EXPLORE_H
#define WEIR_TESTS_EXPLORE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/table/inside.h"

enum {
    KEYS = 3,
    THREADS_MAX = 3,
    OPERATIONS_MAX = 3,
    SETUP_MAX = 6,
    LINES_MAX = 2,
    STRIPES_MAX = 2,
    TOGETHER_MAX = 3, // keys of one operation
    SLOTS_MAX = LINES_MAX * TABLE_LINE_SLOTS,
    STEPS_MAX = 160,   // of one operation
    GUESSES_MAX = 192, // histories that explain what was seen so far
    DEPTH_MAX = 480,   // of a schedule
};

/* What the keeper of lines does: somebody joins one, or is served, or leaves. */
enum { LINE_JOIN = WEIR_UNBLOCK + 1, LINE_SERVE, LINE_LEAVE };

/* What the mover does: it carries all buckets to another table, or gives up when it has carried them. */
enum { MOVE_ALL = LINE_LEAVE + 1, MOVE_IN_VAIN };

/* One call: all that distinguishes it from another. A take under several limits has one key for each. */
struct operation {
    int kind;        // enum weir_operation, or one of the keeper's
    int key;         // 0 .. KEYS - 1
    uint64_t cost;   // in units; of a block, for how many nanoseconds
    uint64_t now_ns; // its own reading of the clock
    int more_count;  // keys that are asked together with it
    struct {
        int key;
        uint64_t cost;
    } more[TOGETHER_MAX - 1];
};

/* Where the lines are two, they may be a stripe each. */
struct script {
    uint64_t line_count; // 1 or 2
    uint64_t stripe_count;
    const char *limit;
    bool is_whole;   // its limit has no fractions: its takes are usual ones
    int setup_count; // done one after the other, before the threads start
    int thread_count;
    int operation_count; // of each thread
    struct operation setup[SETUP_MAX];
    struct operation operations[THREADS_MAX][OPERATIONS_MAX];
};

/* What one access showed. The first `seen_count` of them, since the operation began, are all that a
 * thread's own state depends on. */
struct observation {
    uint64_t low, high;
};

struct fiber {
    int done_count; // operations
    int seen_count;
    uint64_t seen_digest;
    struct observation seen[STEPS_MAX];
};

/* What the explorer itself remembers of a slot: see explore_memory.c. */
struct ghost {
    uint64_t given_at_ns; // the reading at which it was last reused; 0: never
    uint64_t highest_ns;  // the highest moment of its present bucket
};

/* Where the buckets go.
 *   has_moved  1: everybody goes on there */
struct later {
    struct table_line lines[LINES_MAX];
    struct stripe stripe;
    struct mutex moving_mutex;
    uint64_t has_moved;
};

/* The memory that threads share. */
struct shared {
    struct table_line lines[LINES_MAX];
    struct stripe stripes[STRIPES_MAX];
    struct ghost ghosts[SLOTS_MAX];
    struct mutex lines_mutex;
    uint64_t standing[KEYS]; // 1: somebody stands in line; under lines_mutex
    uint64_t failed_count;   // requests answered by on_full
    struct later later;      // last: looked at only where a script moves anything
};

/* What is known of a key.
 *   bucket    where its bucket stands, by the pure core; with the flags of the line and of the block
 *   block_ns  the end of its latest block: with the flag it runs until then */
struct known {
    struct weir_bucket bucket;
    uint64_t block_ns;
};

/* One way in which the operations so far may have taken effect, one after the other.
 *   keys      what that has come to
 *   is_early  threads whose present operation took effect although it has not answered yet
 *   answers   and what it must then answer
 *   late_ns   provided that an operation with this reading has begun by then; 0: none
 *   dropped_count  live buckets that were dropped, on_full=evict */
struct guess {
    struct known keys[KEYS];
    uint64_t answers[THREADS_MAX];
    uint64_t late_ns[THREADS_MAX];
    uint64_t is_early;
    uint64_t dropped_count;
};

/* States are compared by it: two words that are computed apart. */
struct digest {
    uint64_t low, high;
};

/*   guesses_digest  of the guesses: they change less often than they are looked at */
struct world {
    struct shared shared;
    struct fiber fibers[THREADS_MAX];
    struct digest guesses_digest;
    int guess_count;
    struct guess guesses[GUESSES_MAX];
};

/* explore.c */
extern const struct script *script;
extern struct world world; // the state that is being looked at
extern struct table table; // over world.shared
extern int running;        // the thread whose step it is
/* Tells what is wrong, and how it came about, and gives up this script. */
_Noreturn void explore_violation(const char *what);
void explore_report(const char *name); // what was visited so far
/* Of whole words, `size` bytes in all, and of what `digest` is of. */
struct digest digest_words(struct digest digest, const void *at, size_t size);

/* explore_memory.c */
void memory_start(void);       // `running` begins or goes on with its operation
bool memory_has_stepped(void); // true if it has come farther since
extern jmp_buf memory_stop;    // where it leaves to when its step is over
void memory_check_quiet(void); // invariants while nobody holds the lock
uint64_t hash_of_key(int key);
bool holds_stripe(int thread); // of any stripe, the lock

/* explore_lines.c */
extern struct line_keeper lines_keeper;
void lines_do(const struct operation *operation, struct weir_decision *decision);
void lines_check_quiet(void); // invariants while nobody holds its lock

/* explore_move.c */
extern struct table later_table; // over world.shared.later
void move_do(const struct operation *operation, struct weir_decision *decision);
bool move_is_in(const struct script *script); // whether it moves anything
bool move_is_done(void);                      // whether the buckets are there now
/* Whether this thread holds the lock of the mover, and nobody else looks at the other table. */
bool move_is_ours(int thread);
bool move_has_free_locks(void);

/* explore_model.c. An answer is compared by its digest. */
static inline uint64_t digest_mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 29;
}

uint64_t digest_answer(const struct operation *operation, const struct weir_decision *decision,
                       const struct weir_detail *detail);
uint64_t digest_together(const struct operation *operation, const struct weir_decision *decisions);
enum {
    DIGEST_BEHIND_A_LINE = 7
}; // of several keys, by somebody who stands in line for one of them
int key_of(const struct operation *operation, int i); // of those that are asked together
uint64_t cost_of(const struct operation *operation, int i);
extern struct weir_rule model_rule;
static inline bool model_evicts(void)
{
    return model_rule.limit.on_full == WEIR_ON_FULL_EVICT;
}
bool model_is_begun(uint64_t reading_ns);                // by some operation that has begun
int model_readings(uint64_t *readings, bool only_begun); // all of them, READINGS_MAX at most
uint64_t model_begun(void);                              // how many of each thread have; never 0
void model_start(void);
void model_respond(int thread, uint64_t answer); // the thread's operation has answered
void model_finish(void);                         // all have: the table agrees with some guess

/* explore_acts.c. One way in which an operation may take effect: on its key, or on all of its keys.
 *   late_ns  the latest reading of another operation that it ran into; 0: none */
enum { READINGS_MAX = SETUP_MAX + THREADS_MAX * OPERATIONS_MAX + 1, CHOICES_MAX = 512 };

struct choice {
    struct known keys[TOGETHER_MAX];
    uint64_t answer;
    uint64_t late_ns;
    uint64_t dropped_count;
};

struct choices {
    int count;
    struct choice at[CHOICES_MAX];
};

/* All ways after what a guess holds. `is_early`: other operations may begin before this one answers. */
void acts_choose(struct choices *choices, const struct guess *guess,
                 const struct operation *operation, bool is_early);

/* explore_memo.c */
struct chosen {
    int count;
    struct choice *at;
};

/* As acts_choose(). Stays until memo_forget(), or memo_tidy(). */
struct chosen memo_choose(const struct guess *guess, const struct operation *operation,
                          bool is_early);
void memo_forget(void); // before another script
void memo_tidy(void);   // if it is too much

/* explore_scripts.c */
/* Runs the scripts of a family ("all": of all) until one is broken. `every` thins the selection: 0
 * takes all scripts, 1 the ordinary share, more every so many-th of that. Returns how many broke. */
int scripts_run(bool (*run)(const struct script *script), const char *family, unsigned long every);

#endif
