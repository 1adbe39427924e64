/* SPDX-License-Identifier: MIT
 *
 * A driver opens the stores of one scheme. drivers.c lists those of libweir; a store that needs a library of its own
 * (a database's client) is one, too, and its driver is handed over when a limiter is opened:
 *
 *     static const struct weir_store_driver *const DRIVERS[] = {&weir_postgres_driver, NULL};
 *     struct weir_limiter_config config = {.store = "postgres://...", .drivers = DRIVERS};
 *
 * What an implementer may assume: a URL is a string that begins with the scheme. All functions are thread-safe. */
#ifndef WEIR_STORE_DRIVER_H
#define WEIR_STORE_DRIVER_H

#include "store/database.h"
#include "store/store.h"

enum { STORE_SHOWN_MAX = 1024 }; // of a URL in messages, with its NUL

/* What is asked of a store beside its URL.
 *   memory_bytes, events_bytes  0: as the URL says
 *   is_caller_clock  only decisions at a time of the caller's will be asked for
 *   seed             of the keyed hash; a store that has one of its own writes it here */
struct store_settings {
    uint64_t memory_bytes;
    uint64_t events_bytes;
    bool is_caller_clock;
    uint64_t seed[2];
};

/*   scheme        "memory:", "file:"
 *   form          an example of a URL, for messages: "file:/path"; NULL: it is not in this build
 *   is_forgotten  what is in it ends with the process that opened it
 *   read()        reads a URL without opening anything: WEIR_OK, or WEIR_E_SYNTAX or _RANGE and where it is wrong.
 *                 `path` gets the file in which the store lives; "": in none
 *   open()        as weir_limiter_open(). The URL has been read
 *   files         looking after a store that is not open; NULL: not offered
 *   show()        the URL as others may see it: without a password. NULL: as it is
 *   database      looking after a store in a database; NULL: it is in none */
struct weir_store_driver {
    const char *scheme;
    const char *form;
    bool is_forgotten;
    enum weir_status (*read)(const char *url, char path[STORE_PATH_MAX], struct weir_error *error);
    enum weir_status (*open)(struct store **store, const char *url, struct store_settings *settings,
                             struct weir_error *error);
    const struct file_upkeep *files;
    void (*show)(const char *url, char *shown, size_t size);
    const struct database_upkeep *database;
};

/* The driver of this URL: one of `more`, which may be NULL and ends with NULL, or else one of libweir's. NULL, and
 * the error lists the forms that there are, if nobody knows the scheme. Thread-safe. */
const struct weir_store_driver *store_driver_find(const char *url,
                                                  const struct weir_store_driver *const *more,
                                                  struct weir_error *error);

/* Finds the driver and has it read the URL. NULL, and error->offset says where it is wrong. */
const struct weir_store_driver *store_driver_read(const char *url,
                                                  const struct weir_store_driver *const *more,
                                                  char path[STORE_PATH_MAX],
                                                  struct weir_error *error);

/* The URL as it may be shown: in a message, in a log. */
void store_url_show(const char *url, const struct weir_store_driver *const *more, char *shown,
                    size_t size);

#endif
