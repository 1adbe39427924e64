/* SPDX-License-Identifier: MIT
 *
 * One that comes while others are there finds everything as it should be: locks name members that are alive or have
 * heirs, and time goes on. One that comes alone may find
 *
 *   the file of another boot   its buckets are as old as the machine was off, and its pages may be of different
 *                              instants, if the machine lost its power. Nobody waits any longer
 *   a copy                     made while others wrote: its pages are of different instants, too. So are those of a
 *                              file into which a copy was put back; that is told by `in_use` only, for the last one
 *                              that leaves takes it back
 *   what the killed left       for all we know, the same
 *
 * and makes a new **epoch**: each stripe, the pool of events and the room of those that wait are then repaired by the
 * first that locks them. No lock has to be made new: those that a dead member held name it (sync/lock.h).
 *
 * Whether one is alone the kernel says, behind the gate (platform/membership.h). The boot id says only whether time
 * went on, and is believed by one that is alone only: a container may have an id of its own. Killed in the middle,
 * it is done again by the next: `home` is written last. */
#include "store/table/home.h"

#include <assert.h>
#include <errno.h>
#include <sys/file.h>

#include "sync/atomic.h"

struct weir_bucket home_of(const uint64_t boot_id[2], uint64_t inode)
{
    return (struct weir_bucket){boot_id[0], boot_id[1] ^ inode};
}

/* NULL: memory, which has none and needs none, for it ends with those who use it. */
static struct file_header *header_of(const struct table *table)
{
    return table->clock.shared != NULL ? table->mapping.at : NULL;
}

static bool is_at_home(const struct file_header *header, struct weir_bucket here)
{
    return header->home.empty_at_ns == here.empty_at_ns && header->home.word == here.word;
}

static void begin_epoch(struct table *table, struct file_header *header)
{
    header->epoch++;
    if (!is_at_home(header, table->home)) {
        store_clock_resume(&table->clock);
        header->home_epoch = header->epoch;
        header->home = table->home;
    }
}

/* After a virtual machine was set back to an earlier state, and its disk was not. flock() keeps those away that move
 * the buckets, and their time, to another file (transfer.c). */
static void let_time_go_on(struct table *table)
{
    int fd = table->members.gate_fd;
    while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
    } // another error: then without
    if (!store_clock_goes_on(&table->clock)) {
        store_clock_resume(&table->clock);
    }
    (void)flock(fd, LOCK_UN);
}

/* Under the gate. */
static void settle(struct table *table, bool is_alone)
{
    struct file_header *header = header_of(table);
    if (header == NULL) {
        return;
    }
    if (is_alone && (header->in_use != 0 || !is_at_home(header, table->home))) {
        header->in_use = 1; // until it is done
        begin_epoch(table, header);
    }
    if (!store_clock_goes_on(&table->clock)) {
        let_time_go_on(table);
    }
    header->in_use = 1;
    table->epoch = header->epoch;
    table->waiting.epoch = header->epoch + 1;
    table->waiting.since = header->home_epoch + 1;
    table->events.epoch = header->epoch;
}

static bool join_locked(struct table *table)
{
    bool is_alone;
    if (!membership_begin(&table->members, &is_alone)) {
        return false;
    }
    settle(table, is_alone);
    return membership_join(&table->members);
}

bool table_join(struct table *table)
{
    struct membership_wait wait = {.for_ns = MEMBERSHIP_JOIN_NS};
    bool done;
    do {
        membership_fork_lock();
        done = join_locked(table);
        membership_fork_unlock();
    } while (!done && membership_wait(&wait));
    return done;
}

/* The keeper of lines holds the root's store, whatever the table is behind which those stand that wait. */
static void follow_epoch(struct table *root)
{
    const struct waiting_area *waiting = &root->waits_in->waiting;
    root->waiting.epoch = waiting->epoch;
    root->waiting.since = waiting->since;
}

/* All tables or none, for another thread may do the same before the next try. */
static bool join_all_locked(struct table *root)
{
    struct table *table = root;
    for (; table != NULL; table = table->next) {
        membership_forget(&table->members);
        if (!join_locked(table)) {
            break;
        }
    }
    if (table == NULL) {
        follow_epoch(root);
        table_own(root);
        return true;
    }
    int why = errno;
    for (struct table *joined = root; joined != table; joined = joined->next) {
        membership_drop(&joined->members);
    }
    errno = why;
    return false;
}

bool table_join_again(struct table *root)
{
    struct membership_wait wait = {.for_ns = MEMBERSHIP_JOIN_NS};
    bool done;
    do {
        membership_fork_lock();
        done = !table_is_inherited(root) || join_all_locked(root);
        membership_fork_unlock();
    } while (!done && membership_wait(&wait));
    return done;
}

/* Of a member: the last one says that the file is not in use. */
static bool leave_locked(struct table *table)
{
    struct membership *members = &table->members;
    struct file_header *header = header_of(table);
    bool is_alone = false;
    if (table_is_inherited(table->root)) {
        membership_forget(members); // the parent's
    } else if (!membership_end(members, &is_alone)) {
        return false;
    }
    if (is_alone && header != NULL) {
        header->in_use = 0;
    }
    membership_close(members);
    return true;
}

void table_leave(struct table *table)
{
    struct membership_wait wait = {.for_ns = MEMBERSHIP_LEAVE_NS};
    bool has_left = table->members.fd < 0 || table->members.id == 0; // it never joined
    do {
        membership_fork_lock();
        has_left = has_left || leave_locked(table);
        membership_fork_unlock();
    } while (!has_left && membership_wait(&wait));
    membership_fork_lock();
    membership_close(&table->members); // without the gate it leaves as one that is killed
    membership_fork_unlock();
}
