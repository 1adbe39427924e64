/* SPDX-License-Identifier: MIT
 *
 * The URL of a store in PostgreSQL. libpq reads it; weir takes its own options out, and shows it without the password.
 *
 *     postgres://weir:secret@db.example/limits?sslmode=require&prepare=off&deadline=50ms
 *
 *     to libpq   postgres://weir:secret@db.example/limits?sslmode=require
 *     shown      postgres://weir@db.example/limits?sslmode=require&prepare=off&deadline=50ms
 *
 * libpq forgives a password with an @ or a / in it, takes a part of it for a host, and names that in its messages. So
 * the parts of the URL are found here first, and one whose password might be elsewhere than behind the user is refused. */
#ifndef WEIR_STORE_POSTGRES_URL_H
#define WEIR_STORE_POSTGRES_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/status.h"

enum { POSTGRES_URL_MAX = 2048, POSTGRES_DEADLINE_MS_MAX = 1000 }; // the former with its NUL

/*   libpq        what libpq reads, with the password if it is there
 *   shown        for messages
 *   prepares     statements are prepared, and settings are made for the session
 *   deadline_ms  how long a decision may take; 0: it does not say */
struct postgres_url {
    char libpq[POSTGRES_URL_MAX];
    char shown[POSTGRES_URL_MAX];
    bool prepares;
    unsigned deadline_ms;
};

/* WEIR_OK, or WEIR_E_SYNTAX. No message has a part of the URL in it but the name of an option. Thread-safe. */
enum weir_status postgres_url_parse(struct postgres_url *url, const char *text,
                                    struct weir_error *error);

/* The same text without passwords; of one that cannot be read, nothing but the scheme. */
void postgres_url_show(const char *text, char *shown, size_t size);

#endif
