/* SPDX-License-Identifier: MIT
 *
 * What can go wrong when weir is asked for something.
 *
 *     struct weir_error error;
 *     if (weir_limit_from_text(&limit, "10/fortnight", &error) != WEIR_OK) {
 *         fprintf(stderr, "at byte %zu: %s\n", error.offset, error.message);
 *     }
 *
 * A refusal ("limited", "never") is an answer and not an error: see decision.h. */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One table makes the enum, the names and the texts: X(name, value, text). */
#define WEIR_STATUS_MAP(X)                                                                         \
    X(WEIR_OK, 0, "done")                                                                          \
    X(WEIR_E_SYNTAX, 1, "the text cannot be read")                                                 \
    X(WEIR_E_RANGE, 2, "a number is outside its range")                                            \
    X(WEIR_E_INEXACT, 3, "the limit cannot be represented exactly")                                \
    X(WEIR_E_NO_MEMORY, 4, "out of memory")                                                        \
    X(WEIR_E_SYSTEM, 5, "the operating system refused; errno says why")                            \
    X(WEIR_E_NO_SPACE, 6, "the caller's buffer is too small")                                      \
    X(WEIR_E_FILE, 7, "the file is not one that this weir can use")                                \
    X(WEIR_E_FORKED, 8, "the buckets are private to the parent of this process")

enum weir_status {
#define WEIR_STATUS_ENTRY(name, value, text) name = value,
    WEIR_STATUS_MAP(WEIR_STATUS_ENTRY)
#undef WEIR_STATUS_ENTRY
};

#if defined(__GNUC__)
#define WEIR_MUST_USE __attribute__((warn_unused_result))
#else
#define WEIR_MUST_USE
#endif

#define WEIR_ERROR_TEXT_MAX 768

/* Where in a text something is wrong, and what. Filled only when a call returns an error.
 *   offset   bytes from the start of the text to the first byte that cannot be right
 *   message  one sentence without a full stop, NUL-terminated, for a person to read */
struct weir_error {
    size_t offset;
    char message[WEIR_ERROR_TEXT_MAX];
};

/* The name of a status ("WEIR_E_SYNTAX") and its text. Static strings; "unknown" for a value that
 * is none. Thread-safe. */
const char *weir_status_name(enum weir_status status);
const char *weir_status_text(enum weir_status status);

#ifdef __cplusplus
}
#endif

#endif
