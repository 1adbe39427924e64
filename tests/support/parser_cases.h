/* SPDX-License-Identifier: MIT
 *
 * Runs a parser's case in every way in which bytes can arrive: whole, a byte at a time, and split in
 * two at every byte; each time in memory that ends at a page which nobody may touch.
 *
 *     struct parser_case run = {.parse = parse, .finish = compare, .context = &outcomes};
 *     parser_case_run(&run, text, SIZE_MAX); */
#ifndef WEIR_TESTS_PARSER_CASES_H
#define WEIR_TESTS_PARSER_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/bytes.h"

enum { PARSER_CASE_BYTES_MAX = 256 * 1024 };

struct parser_case {
    /* Parses the text as far as it has arrived; true once that decided it. */
    bool (*parse)(void *context, struct bytes arrived);
    /* A way has ended, decided or not. */
    void (*finish)(void *context, size_t way);
    void *context;
    /* NULL, or how many bytes the parser said it needs: with fewer, `parse` is not called. */
    const size_t *need;
};

/* Memory whose last byte is followed by a page that nobody may touch. */
static inline char *parser_case_memory(void)
{
    static char *memory;
    if (memory == NULL) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        memory = mmap(NULL, PARSER_CASE_BYTES_MAX + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED
            || mprotect(memory + PARSER_CASE_BYTES_MAX, page, PROT_NONE) != 0) {
            abort();
        }
    }
    return memory;
}

/* The first `length` bytes arrive. */
static inline bool parser_case_arrive(const struct parser_case *run, struct bytes text,
                                      size_t length)
{
    if (length > PARSER_CASE_BYTES_MAX) {
        abort();
    }
    if (run->need != NULL && length < *run->need) {
        return false;
    }
    char *at = parser_case_memory() + PARSER_CASE_BYTES_MAX - length;
    memcpy(at, text.at, length);
    return run->parse(run->context, (struct bytes){at, length});
}

/* All ways. Way 0 is the whole, way 1 a byte at a time, and way 2 + i is split at byte i. Texts
 * longer than `split_max` are split there only. */
static inline void parser_case_run(const struct parser_case *run, struct bytes text,
                                   size_t split_max)
{
    size_t way = 0;
    (void)parser_case_arrive(run, text, text.length);
    run->finish(run->context, way++);
    for (size_t length = 0; length <= text.length; length++) {
        if (parser_case_arrive(run, text, length)) {
            break;
        }
    }
    run->finish(run->context, way++);
    for (size_t at = 0; at < text.length && at < split_max; at++) {
        if (!parser_case_arrive(run, text, at)) {
            (void)parser_case_arrive(run, text, text.length);
        }
        run->finish(run->context, way++);
    }
}

#endif
