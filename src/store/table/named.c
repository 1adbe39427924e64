/* SPDX-License-Identifier: MIT
 *
 * Whether the file of a table still has its name. Somebody may delete it, or put another one in its place:
 * then this process goes on deciding in a file that nobody else will ever open, and that is gone when it ends.
 *
 * A file that gets another size (resize.c) is replaced as well, and rightly so. While its buckets move nothing
 * is said; then this process goes on in the other file, which is the right one from now on. What can be done about
 * a file that has lost its name is in regain.c. */
#include <sys/stat.h>

#include "store/table/file_opening.h"

/* The table in which the buckets are now; goes there. */
static struct table *go_on(struct store *store)
{
    struct weir_error error;
    struct table *table = table_current(store);
    while (file_phase(table->mapping.at) == FILE_MOVED && file_go_on(table, &error) == WEIR_OK) {
        table = table_current(store);
    }
    return table;
}

enum store_name table_look_at_name(struct store *store)
{
    const struct table *root = (struct table *)store;
    if (root->origin == NULL) {
        return STORE_NAMED;
    }
    struct stat status;
    const struct table *table = go_on(store);
    bool is_there = stat(root->origin->path, &status) == 0;
    if (file_phase(table->mapping.at) == FILE_MOVING) {
        return STORE_NAMED; // soon
    }
    if (!is_there) {
        return STORE_DELETED;
    }
    bool is_ours = status.st_dev == table->members.device && status.st_ino == table->members.inode;
    return is_ours ? STORE_NAMED : STORE_REPLACED;
}
