/* SPDX-License-Identifier: MIT
 *
 * What the parts of run_vectors share: what the statements of a case have said so far, and what one of them
 * asks.
 *
 *   vector_read.c  words, numbers and times
 *   vector_ask.c   limits, and asking a bucket or a limiter
 *   run_vectors.c  the statements; opens with how it is called */
#ifndef WEIR_TESTS_VECTOR_RUN_H
#define WEIR_TESTS_VECTOR_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

enum {
    LINE_MAX_BYTES = 512,
    WORDS_MAX = 64,
    LIMITS_MAX = 16,  // per case
    BUCKETS_MAX = 64, // per case
    NAME_MAX_BYTES = 300,
};

enum store_kind { STORE_CORE, STORE_SHARED, STORE_TABLE };

/* A limit of the file: inline, known by its name, or in shadow mode. */
struct known_limit {
    char name[64];
    bool is_named, is_shadow;
    struct weir_limit limit;
    struct weir_rule rule;
    char identity[NAME_MAX_BYTES];
};

struct known_bucket {
    char name[NAME_MAX_BYTES]; // identity and key
    struct weir_shared_bucket shared;
};

struct run {
    enum store_kind store;
    struct weir_limiter *limiter;
    const char *path;
    unsigned line;
    unsigned case_count; // of all files: in a table, each case has keys of its own
    unsigned checked;
    unsigned failed;
    struct known_limit limits[LIMITS_MAX];
    struct known_bucket buckets[BUCKETS_MAX];
    size_t limit_count, bucket_count;
    struct known_limit *used;
};

/* One statement, and its words. */
struct step {
    char text[LINE_MAX_BYTES];
    char *question[WORDS_MAX];
    char *answer[WORDS_MAX];
    size_t question_count, answer_count;
};

/* What is asked of one key under one limit, and what comes back. */
struct question {
    const struct known_limit *known;
    const char *key;
    enum weir_operation operation;
    uint64_t cost_micro;
    uint64_t block_ns;
};

struct result {
    struct weir_decision decision;
    struct weir_detail detail;
};

/* ---- vector_read.c ---- */

/* The file itself is wrong: says where, and ends. */
__attribute__((format(printf, 2, 3), noreturn)) void bad_vector(const struct run *run,
                                                                const char *format, ...);

/* Counts an expectation, and says what was not met. */
void expect(struct run *run, const struct step *step, bool is_right, const char *expected,
            const char *got);

/* "1.5s", "100ms", "0": whole nanoseconds. */
uint64_t read_time(const struct run *run, const char *text);

uint64_t read_cost(const struct run *run, const char *text);
long long read_integer(const struct run *run, const char *text);

/* Cuts a text into words. */
size_t split(char *text, char **words);

/* ---- vector_ask.c ---- */

/* limit NAME TEXT, named NAME TEXT, shadow NAME TEXT */
void define_limit(struct run *run, char *line);

/* A limit that was made of numbers. */
void compile(struct run *run, struct known_limit *known, const struct weir_limit_config *config);

/* NULL: nobody has that name. */
struct known_limit *find_limit(struct run *run, const char *name);

/* Asks the store that is run. */
struct result ask(struct run *run, const struct question *question, uint64_t now_ns);

/* Asks about several together; only a limiter can. */
void ask_all(struct run *run, const struct question *questions, struct result *results,
             size_t count, uint64_t now_ns);

#endif
