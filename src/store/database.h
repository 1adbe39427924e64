/* SPDX-License-Identifier: MIT
 *
 * Looking after a store that lives in a database: for `weir store`. Nothing here needs the store to be open, and servers
 * may use it all the while. Each function connects, does its work and disconnects. Where it fails nothing has changed
 * (unless it says otherwise), and the error is one sentence without the password, with the command that helps where there
 * is one.
 *
 * Startup and main thread only. They wait for the database. */
#ifndef WEIR_STORE_DATABASE_H
#define WEIR_STORE_DATABASE_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/limit.h"

/* What is to be made.
 *   role         NULL, or the role of servers: it gets the rights and the settings that these need, and no more
 *   is_unlogged  the buckets are in a table that a crash of the database empties */
struct database_plan {
    const char *role;
    bool is_unlogged;
};

/* Versions of the schema.
 *   to  the newest that this weir knows */
struct database_migration {
    int from, to;
};

enum { DATABASE_IDENTITY_BYTES = 16 };

/* A limit that SQL takes under by its name: of kind bucket or queue, without a block.
 *   text      canonical
 *   identity  as limiter/identity.h makes it of the name */
struct database_limit {
    const char *name, *text;
    const struct weir_limit *limit;
    uint8_t identity[DATABASE_IDENTITY_BYTES];
};

/* How a database is doing. Texts are empty where there is nothing to say.
 *   server           name and version
 *   role             as whom weir is connected
 *   lacking          rights that a server needs, and this role lacks
 *   settings         "name=value" of what the role, the database or both bring
 *   unset            "name=value" that are to be brought, because weir does not set them (prepare=off)
 *   commits          how durable a commit is: synchronous_commit
 *   vacuumed         when the table was vacuumed last, RFC 3339
 *   version          of the schema; -1: this role may not read it
 *   known_version    the one that this weir knows
 *   bucket_count     an estimate, from the statistics of the last vacuum
 *   page_count       of the table; pruning goes on at next_page
 *   update_count     since the statistics were reset; of these hot_count touched no index
 *   dead_count       versions of rows that wait for a vacuum */
struct database_description {
    char server[64], role[64];
    char lacking[512], settings[1024], unset[256];
    char commits[32], vacuumed[32];
    int version, known_version;
    bool is_unlogged;
    uint64_t bucket_count, table_bytes, index_bytes;
    uint64_t page_count, next_page;
    uint64_t update_count, hot_count, dead_count;
};

/*   pruned_count    buckets that were deleted
 *   is_whole        all pages were looked at; otherwise `watch` ended it */
struct database_pruning {
    uint64_t pruned_count;
    bool is_whole;
};

/*   describe()  looks, and changes nothing
 *   script()    the SQL of init() for this plan, which the caller frees
 *   init()      makes the schema, or renews its functions. It may be there, and of the newest version. If the role cannot
 *               be given what it needs the schema is there all the same
 *   migrate()   brings an older schema to the newest version; a newest one it leaves alone
 *   prune()     deletes the buckets that have been empty for a minute, a few pages at a time, and looks at each page
 *               once. `watch` is told how many of how many pages are done; false: stop
 *   reset()     forgets all buckets
 *   add_limit()      or gives the limit of this name other numbers
 *   list_limits()    tells each, in the order of their names
 *   remove_limit()   *existed: there was one. Its buckets stay */
struct database_upkeep {
    enum weir_status (*describe)(const char *url, struct database_description *description,
                                 struct weir_error *error);
    enum weir_status (*script)(const struct database_plan *plan, char **text,
                               struct weir_error *error);
    enum weir_status (*init)(const char *url, const struct database_plan *plan,
                             struct weir_error *error);
    enum weir_status (*migrate)(const char *url, struct database_migration *migration,
                                struct weir_error *error);
    enum weir_status (*prune)(const char *url,
                              bool (*watch)(void *context, uint64_t done, uint64_t total),
                              void *context, struct database_pruning *pruning,
                              struct weir_error *error);
    enum weir_status (*reset)(const char *url, struct weir_error *error);
    enum weir_status (*add_limit)(const char *url, const struct database_limit *limit,
                                  struct weir_error *error);
    enum weir_status (*list_limits)(const char *url,
                                    void (*tell)(void *context, const char *name, const char *text),
                                    void *context, struct weir_error *error);
    enum weir_status (*remove_limit)(const char *url, const char *name, bool *existed,
                                     struct weir_error *error);
};

#endif
