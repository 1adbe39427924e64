/* SPDX-License-Identifier: MIT
 *
 * The whole of it happens behind the gate (home.h): one that is alone there stays alone until it opens the gate. */
#include "store/table/renew.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"
#include "store/table/file_opening.h"
#include "store/table/home.h"

enum { PATH_SHOWN = 200 }; // of a path, in a message

/* In an order in which a death leaves a file that says that it was in use. */
static void make_new(struct opening *opening)
{
    struct table *table = opening->table;
    struct file_header *header = opening->mapping.at;
    header->in_use = 1;
    memset((char *)opening->mapping.at + FILE_HEADER_BYTES, 0,
           opening->mapping.bytes - FILE_HEADER_BYTES);
    header->moving = (struct lock){LOCK_OPEN};
    header->phase = FILE_STAYS;
    header->epoch = header->home_epoch = 0;
    store_clock_start(&table->clock);
    header->home = table->home;
    header->in_use = 0;
}

/* Behind the gate. */
static enum weir_status renew_alone(struct opening *opening, bool is_alone)
{
    const char *path = opening->config->path;
    if (!is_alone) {
        return fail(opening->error, WEIR_E_FILE, 0,
                    "%.*s is in use: end the processes that have it open first; fuser -v '%.*s' "
                    "lists them",
                    PATH_SHOWN, path, PATH_SHOWN, path);
    }
    make_new(opening);
    return fsync(opening->fd) == 0 ? WEIR_OK
                                   : fail(opening->error, WEIR_E_SYSTEM, 0, "cannot write %.*s: %s",
                                          PATH_SHOWN, path, strerror(errno));
}

static enum weir_status renew(struct opening *opening)
{
    struct membership *members = &opening->table->members;
    struct membership_wait wait = {.for_ns = MEMBERSHIP_JOIN_NS};
    enum weir_status status = WEIR_OK;
    bool is_open = membership_open(members, opening->fd, opening->name);
    bool done;
    do {
        bool is_alone;
        membership_fork_lock();
        done = is_open && membership_begin(members, &is_alone);
        if (done) {
            status = renew_alone(opening, is_alone);
            membership_close(members);
        }
        membership_fork_unlock();
    } while (!done && membership_wait(&wait));
    return done ? status
                : fail(opening->error, WEIR_E_SYSTEM, 0, "cannot have %.*s alone: %s", PATH_SHOWN,
                       opening->config->path, membership_explain(errno));
}

enum weir_status table_renew_file(const char *path, struct weir_error *error)
{
    const struct file_config config = {.path = path, .must_exist = true};
    struct opening opening;
    enum weir_status status = opening_look(&opening, &config, error);
    status = status == WEIR_OK ? renew(&opening) : status;
    opening_drop(&opening);
    return status;
}
