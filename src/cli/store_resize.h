/* SPDX-License-Identifier: MIT
 *
 * weir store resize: a file of another size for the same buckets, while others use them. */
#ifndef WEIR_CLI_STORE_RESIZE_H
#define WEIR_CLI_STORE_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "store/upkeep.h"

/* Resizes the file at `path`, with so much memory for events (0: in proportion), and says what came of it. Returns the
 * command's exit code. */
int store_resize(const struct command *command, const struct file_upkeep *files, const char *path,
                 uint64_t bytes, uint64_t events_bytes, bool json);

#endif
