/* SPDX-License-Identifier: MIT
 *
 * Whether the file of a table still has its name. Somebody may delete it, or put another one in its place:
 * then this process goes on deciding in a file that nobody else will ever open, and that is gone when it ends.
 *
 * A file that gets another size (resize.c) is replaced as well, and rightly so. While its buckets move nothing
 * is said; then this process goes on in the other file, which is the right one from now on. What can be done about
 * a file that has lost its name is in regain.c. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "store/table/file_opening.h"

/* Goes where the buckets are now. False: that is out of reach. A mover at work may still take back what it says. */
static bool go_on(struct store *store, const char *path)
{
    struct weir_error error;
    struct table *table = table_current(store);
    while (file_phase(table->mapping.at) == FILE_MOVED) {
        if (!file_settle(table, path) && file_go_on(table, &error) != WEIR_OK) {
            return false;
        }
        table = table_current(store);
    }
    return true;
}

static bool is_overwritten(const struct table *table, const struct file_origin *origin)
{
    const struct file_header *header = table->mapping.at;
    return memcmp(header->stamp.seed, origin->config.seed, sizeof origin->config.seed) != 0;
}

enum store_name table_look_at_name(struct store *store)
{
    const struct table *root = (struct table *)store;
    if (root->origin == NULL) {
        return STORE_NAMED;
    }
    if (!go_on(store, root->origin->path)) {
        return STORE_LOST;
    }
    struct stat status;
    const struct table *table = table_current(store);
    int error = stat(root->origin->path, &status) == 0 ? 0 : errno;
    if (file_phase(table->mapping.at) != FILE_STAYS) {
        return STORE_NAMED; // it moves, or has just moved
    }
    if (error != 0) {
        return error == ENOENT || error == ENOTDIR ? STORE_DELETED : STORE_UNSEEN;
    }
    if (status.st_dev != table->members.device || status.st_ino != table->members.inode) {
        return STORE_REPLACED;
    }
    return is_overwritten(table, root->origin) ? STORE_OVERWRITTEN : STORE_NAMED;
}
