/* SPDX-License-Identifier: MIT
 *
 * Going on where the buckets of a file are now, for everybody who had it open when it got another size;
 * transfer.c opens with the steps of that.
 *
 * Whoever comes upon a bucket that has moved waits for `moving` and looks at the phase (table_follow):
 *
 *   FILE_MOVED             all buckets are in the other file: open it, and go on there
 *   otherwise              the mover is dead, or gave up. Nobody has used the other file. It is removed, and
 *                          the marks are taken back: those of the stripe in question at once, those of
 *                          the others by whoever comes upon them
 *
 * Those who wait in line stand in the room behind the buckets, and whoever comes there finds the phase, too.
 * While the lock of the room is held it does not change. So whoever is in the room of a file that has not
 * moved finds its buckets in this very file, or in none.
 *
 * An open table gets to the new one through `next`; threads that are still inside the old mapping find
 * marks there, so it stays until the table is closed.
 *
 *  Shared word    Written by                            Order    Pairs with
 *  table next     whoever opened the successor first    full     load in next_of()
 *  table current  the same                              full     table_current() */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"
#include "store/table/file_opening.h"
#include "store/table/home.h"
#include "store/table/inside.h"
#include "store/table/moving.h"
#include "sync/cancel.h"

enum { PATH_SHOWN = 200 }; // of a path, in a message

/* ---- by their names ---- */

static bool is_file_of(const struct table *table, const struct stat *status)
{
    return status->st_dev == table->members.device && status->st_ino == table->members.inode;
}

/* Gives the successor of a table's file its name, if its mover could not; unless another file has the name. */
static void finish_naming(const struct table *table, const char *successor, const char *real)
{
    struct stat status;
    if (stat(real, &status) != 0) {
        (void)file_take_name(successor, real); // the old file was deleted
    } else if (is_file_of(table, &status)) {
        (void)rename(successor, real);
    }
}

/* Under which name the successor of a table's file is to be found. */
static enum weir_status find_successor(const struct table *table, const char *path,
                                       char name[FILE_NAME_MAX], struct weir_error *error)
{
    struct file_header *header = table->mapping.at;
    char real[STORE_PATH_MAX];
    char successor[FILE_NAME_MAX] = "";
    struct stat status;
    enum weir_status result = WEIR_OK;
    (void)lock_acquire(&header->moving, &table->members); // nothing is half done when this ends
    if (file_place(real, path)) {
        file_successor_path(successor, real, table->members.inode);
        finish_naming(table, successor, real);
    }
    if (access(successor, F_OK) == 0) {
        (void)snprintf(name, FILE_NAME_MAX, "%s", successor);
    } else if (stat(path, &status) == 0 && !is_file_of(table, &status)) {
        (void)snprintf(name, FILE_NAME_MAX, "%s", path);
    } else {
        result = fail(error, WEIR_E_FILE, 0,
                      "%.*s is not in use any longer: its buckets have moved to another file, and "
                      "it is not where this one is",
                      PATH_SHOWN, path);
    }
    lock_release(&header->moving);
    return result;
}

enum weir_status opening_lead_on(struct opening *opening)
{
    const char *path = opening->config->path;
    bool stays = file_settle(opening->table, path); // its mover took it back: it is looked at again
    return stays ? WEIR_OK : find_successor(opening->table, path, opening->name, opening->error);
}

/* ---- by their marks ---- */

void file_stay(const struct table *table, const char *path)
{
    struct file_header *header = table->mapping.at;
    char real[STORE_PATH_MAX];
    char successor[FILE_NAME_MAX];
    if (file_phase(header) == FILE_MOVING) {
        if (file_place(real, path)) {
            file_successor_path(successor, real, table->members.inode);
            (void)unlink(successor);
        }
        store_release(&header->phase, FILE_STAYS);
    }
}

bool file_settle(struct table *table, const char *path)
{
    struct file_header *header = table->mapping.at;
    (void)lock_acquire(&header->moving, &table->members);
    bool stays =
        file_phase(header) != FILE_MOVED; // else that was the last step of one that has died
    if (stays) {
        file_stay(table, path);
    }
    lock_release(&header->moving);
    return stays;
}

/* Opens the file that counts now. */
static enum weir_status run_next(struct opening *opening, struct file_config *config,
                                 char name[FILE_NAME_MAX], const struct table *table,
                                 struct weir_error *error)
{
    const struct file_origin *origin = table->root->origin;
    enum weir_status status = find_successor(table, origin->path, name, error);
    *config = origin->config;
    config->path = name;
    return status == WEIR_OK ? opening_run(opening, config, error) : status;
}

/* Threads may do so at once: one of them is the first. */
static struct table *open_next(struct table *table, struct weir_error *error)
{
    struct table *root = table->root;
    struct opening opening = {.fd = -1};
    struct file_config config;
    char name[FILE_NAME_MAX];
    struct table *next = NULL;
    bool is_open = run_next(&opening, &config, name, table, error) == WEIR_OK;
    store_relaxed(&root->is_lost, !is_open); // relaxed: for status()
    if (is_open) {
        struct table *opened = opening_take_table(&opening);
        opened->root = root;
        opened->members.path = root->origin->path;
        next = opened;
        if (!cas_pointer(&table->next, NULL, opened)) {
            table_leave(opened);
            mapping_close(&opened->mapping);
            free(opened);
            next = load_pointer(&table->next);
        }
    }
    opening_drop(&opening);
    return next;
}

/* The table to which one leads whose buckets have moved, or NULL. */
static struct table *next_of(struct table *table, struct weir_error *error)
{
    struct table *next = load_pointer(&table->next);
    return next != NULL ? next : open_next(table, error);
}

enum weir_status file_go_on(struct table *table, struct weir_error *error)
{
    int before = cancel_forbid();
    struct table *next = next_of(table, error);
    cancel_allow(before);
    if (next != NULL) {
        (void)cas_pointer(&table->root->current, table, next); // if it fails, another was faster
    }
    return next != NULL ? WEIR_OK : WEIR_E_FILE;
}

/* The same, or this table if its buckets stay after all. Cancelled in here, a thread would lose what it has
 * opened. */
static struct table *settle_where(struct table *table, uint64_t hash)
{
    struct file_header *header = table->mapping.at;
    struct weir_error error;
    int before = cancel_forbid();
    (void)lock_acquire(&header->moving, &table->members); // what its holder left, the phase says
    bool has_moved = file_phase(header) == FILE_MOVED;
    if (!has_moved) {
        file_stay(table, table->root->origin->path);
        moving_take_back(table, table_stripe_of(table, hash));
    }
    lock_release(&header->moving);
    struct table *next = has_moved ? next_of(table, &error) : table;
    cancel_allow(before);
    return next;
}

struct table *table_follow(struct table *table, uint64_t hash)
{
    struct table *next = load_pointer(&table->next);
    if (next == NULL) {
        next = settle_where(table, hash);
    }
    if (next != NULL && next != table) {
        (void)cas_pointer(&table->root->current, table, next); // if it fails, another was faster
    }
    return next;
}

bool table_waits_elsewhere(const struct store *store)
{
    const struct table *root = (const struct table *)store;
    const struct table *table = root->waits_in;
    return root->origin != NULL && file_phase(table->mapping.at) == FILE_MOVED;
}

bool table_follow_waiting(struct store *store)
{
    struct table *root = (struct table *)store;
    struct table *table = root->waits_in;
    struct weir_error error;
    struct table *next = next_of(table, &error);
    if (next != NULL) {
        (void)cas_pointer(&root->current, table,
                          next); // if it fails, somebody has gone there before
        root->waits_in = next;
        root->waiting = next->waiting;
    }
    return next != NULL;
}
