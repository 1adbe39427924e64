/* SPDX-License-Identifier: MIT
 *
 * Configurations: from a file to limits with names.
 *
 *     char path[CONFIG_PATH_BYTES_MAX];
 *     struct config_error error;
 *     if (config_find(path)) {
 *         struct names *names = config_read(path, &error);
 *         if (names == NULL) {
 *             fprintf(stderr, "%s:%u:%u: %s\n", path, error.line, error.column, error.message);
 *         }
 *     }
 *
 * docs/config.md is the page for whoever writes one. */
#ifndef WEIR_CONFIG_CONFIG_H
#define WEIR_CONFIG_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limiter/names/names.h"

enum {
    CONFIG_BYTES_MAX = 4 << 20, // of the file
    CONFIG_PATH_BYTES_MAX = PATH_MAX,
    CONFIG_MESSAGE_BYTES_MAX = WEIR_ERROR_TEXT_MAX + 128,
    CONFIG_ERROR_COUNT_MAX = 20 // that are told; more are counted
};

/* What is wrong, and where. Lines and columns count from 1; 0: it is not about a place in the file. */
struct config_error {
    uint32_t line, column;
    char message[CONFIG_MESSAGE_BYTES_MAX]; // a sentence without a full stop
};

/* All that is wrong, as far as it can be told before that is mended. In the order in which it was found.
 *   count  how many; there may be more than are told */
struct config_errors {
    size_t count;
    struct config_error at[CONFIG_ERROR_COUNT_MAX];
};

/* "FILE:LINE:COLUMN: message", or "FILE: message". Cut to `size`. */
void config_error_print(const struct config_error *error, const char *path, char *text,
                        size_t size);

/* Writes the first of $XDG_CONFIG_HOME/weir/weir.yaml (~/.config/weir/weir.yaml) and
 * /etc/weir/weir.yaml that is there. False if none is. */
bool config_find(char path[CONFIG_PATH_BYTES_MAX]);

/* Reads a file: all of it is right, or NULL and *error says what is not, first. names_close() releases what
 * comes back; it is not bound to a limiter yet. Thread-safe. */
struct names *config_read(const char *path, struct config_error *error);

struct names *config_read_all(const char *path, struct config_errors *errors);

/* The same from memory. */
struct names *config_parse(const char *text, size_t length, struct config_error *error);
struct names *config_parse_all(const char *text, size_t length, struct config_errors *errors);

/* The version of libyaml; NULL: this weir was built without it, and reads no configuration. */
const char *config_library(void);

#endif
