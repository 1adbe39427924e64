/* SPDX-License-Identifier: MIT
 *
 * Whether the file of a table still has its name. Somebody may delete it, or put another one in its place:
 * then this process goes on deciding in a file that nobody else will ever open, and that is gone when it ends.
 *
 * A file that gets another size (resize.c) is replaced as well, and rightly so. While its buckets move, and
 * until this process has gone on in the other file, nothing is said; then that one is the right one. */
#include <sys/stat.h>

#include "store/table/file_opening.h"

static void note(struct file_identity *identity, const struct table *table,
                 const struct stat *status)
{
    *identity = (struct file_identity){table, status->st_dev, status->st_ino};
}

enum store_name table_look_at_name(struct store *store)
{
    struct table *root = (struct table *)store;
    struct file_origin *origin = root->origin;
    if (origin == NULL) {
        return STORE_NAMED;
    }
    struct stat status;
    const struct table *table = table_current(store);
    bool is_there = stat(origin->path, &status) == 0;
    if (file_phase(table->mapping.at) != FILE_STAYS) {
        return STORE_NAMED; // it moves, or has moved, and we are not there yet
    }
    if (is_there && origin->identity.table != table) {
        note(&origin->identity, table, &status);
    }
    if (!is_there) {
        return STORE_DELETED;
    }
    return origin->identity.device == status.st_dev && origin->identity.inode == status.st_ino
               ? STORE_NAMED
               : STORE_REPLACED;
}
