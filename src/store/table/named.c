/* SPDX-License-Identifier: MIT
 *
 * Whether the file of a table still has its name. Somebody may delete it, or put another one in its place:
 * then this process goes on deciding in a file that nobody else will ever open, and that is gone when it ends.
 *
 * A file that gets another size (resize.c) is replaced as well, and rightly so. While its buckets move, and
 * until this process has gone on in the other file, nothing is said; then that one is the right one. */
#include <sys/stat.h>

#include "store/table/file_opening.h"

enum store_name table_look_at_name(struct store *store)
{
    struct table *root = (struct table *)store;
    if (root->origin == NULL) {
        return STORE_NAMED;
    }
    struct stat status;
    const struct table *table = table_current(store);
    bool is_there = stat(root->origin->path, &status) == 0;
    if (file_phase(table->mapping.at) != FILE_STAYS) {
        return STORE_NAMED; // it moves, or has moved, and we are not there yet
    }
    if (!is_there) {
        return STORE_DELETED;
    }
    bool is_ours = status.st_dev == table->members.device && status.st_ino == table->members.inode;
    return is_ours ? STORE_NAMED : STORE_REPLACED;
}
