/* SPDX-License-Identifier: MIT
 *
 * The password, from a file, in a page of memory that is neither swapped nor dumped and is wiped
 * when the server ends. */
#ifndef WEIR_SERVER_PASSWORD_H
#define WEIR_SERVER_PASSWORD_H

#include <stdbool.h>
#include <stddef.h>

enum { PASSWORD_BYTES_MAX = 1024 }; // RESP takes as much from a stranger

struct password {
    char *text; // NULL: none is wanted
    size_t length;
    bool is_world_readable; // somebody should be told
};

/* Reads the first line of the file. False, and *why in words without the path, if that cannot be
 * done. Startup only. */
bool password_read(struct password *password, const char *path, const char **why);

/* Wipes and releases it. */
void password_fini(struct password *password);

#endif
