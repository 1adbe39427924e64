/* SPDX-License-Identifier: MIT
 *
 * From one file to another, with everything.
 *
 *   1  flock() this file: one at a time
 *   2  make another file, without a name, with all its space, on the disk; same seed, owner and rights
 *   3  lock the room of those who wait (struct line_mover), then `moving` in the header
 *   4  phase = FILE_MOVING
 *   5  carry the buckets, stripe by stripe, marking them here (moving.c); then the events of windows, which
 *      nobody can reach any longer but by a bucket
 *   6  give the other file the name of a successor (file_successor_path()), take along those who stand in line, and
 *      the time; then phase = FILE_MOVED      this is the step that counts
 *   7  give the other file its name
 *   8  unlock; write it all to the disk
 *
 * What the other processes do about it is in following.c. A death before the phase is FILE_MOVED undoes everything, and
 * one after it undoes nothing. What may be missing then is the name: the next process that opens this file, or follows
 * from it, finds the phase and the successor's other name, and does step 7 (find_successor()).
 *
 * The kernel removes a file without a name together with the mover. A mover that dies in step 6 leaves a file with a
 * name, and the phase FILE_MOVING: the next process that meets a mark removes the file (file_stay()). If the old file was
 * deleted and nobody else has it open, the other file stays. Nobody may remove such a file because of its name alone: a
 * process that sleeps may still have to follow to it. Where the file system knows no files without a name, the other file
 * has the name of a successor from step 2 on; the next mover of the same file removes it.
 *
 * From step 3 on nobody joins a line, leaves it or is served. So those who were there before stand in the other file,
 * and those who come afterwards join behind them, there. The order of locks is that of everybody who is in
 * the room: first its own, then `moving`, then those of stripes.
 *
 * The shared time of the file is copied last, so that time goes on exactly; flock() keeps processes away
 * meanwhile that would make it go on after the machine's clock was set back.
 *
 * Price: a take that meets a marked bucket waits until step 8, and so do all who wait in line; and the disk holds
 * both files until the last process has gone that had the old one open. After a loss of power in the seconds between
 * the steps 7 and 8 the file may lack what had not been written yet: at most one capacity for each key. */
#include "store/table/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/fail.h"
#include "store/table/inside.h"
#include "store/table/moving.h"
#include "weir/clock.h"

enum {
    FETCH_BYTES = 16 << 20, // of a mapping, at once
    ACL_BYTES_MAX = 4096,
};

struct file_header *transfer_header(const struct table *table)
{
    return table->mapping.at;
}

uint64_t transfer_now_ns(const struct transfer *transfer)
{
    return transfer->config->is_caller_clock ? transfer->config->now_ns
                                             : store_clock_now_ns(&transfer->from.table->clock);
}

enum weir_status transfer_stop(const struct transfer *transfer, enum weir_status status,
                               const char *format, ...)
{
    char why[WEIR_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return fail(transfer->error, status, 0, "%.*s %s; nothing has changed", PATH_SHOWN,
                transfer->config->path, why);
}

static enum weir_status watch(const struct transfer *transfer, enum resize_phase phase,
                              uint64_t done, uint64_t total)
{
    const struct resize_config *config = transfer->config;
    if (config->watch != NULL && !config->watch(config->context, phase, done, total)) {
        return transfer_stop(transfer, WEIR_E_SYSTEM, "keeps its size, as was asked for");
    }
    return WEIR_OK;
}

/* ---- 1: one at a time ---- */

bool transfer_lock(const struct transfer *transfer)
{
    while (flock(transfer->from.fd, LOCK_EX) != 0 && errno == EINTR) {
    } // until it is closed
    return file_settle(transfer->from.table, transfer->config->path);
}

void transfer_end(struct transfer *transfer)
{
    opening_drop(&transfer->into);
    (void)flock(transfer->from.fd, LOCK_UN); // as long as it is mapped it would be held
    opening_drop(&transfer->from);
}

/* ---- 2: the other file ---- */

/* Gives the new file what the old one has: owner, group, and who else may use it. */
static enum weir_status copy_rights(const struct transfer *transfer)
{
    static const char ACL[] = "system.posix_acl_access";
    char acl[ACL_BYTES_MAX];
    const struct stat *old = &transfer->status;
    struct stat new;
    int fd = transfer->into.fd;
    if (fstat(fd, &new) != 0
        || ((new.st_uid != old->st_uid || new.st_gid != old->st_gid)
            && fchown(fd, old->st_uid, old->st_gid) != 0)
        || fchmod(fd, old->st_mode & 0777) != 0) {
        return transfer_stop(transfer, WEIR_E_SYSTEM,
                             "belongs to somebody else, who can do this, or root: %s",
                             strerror(errno));
    }
    ssize_t length = fgetxattr(transfer->from.fd, ACL, acl, sizeof acl);
    if (length > 0 && fsetxattr(fd, ACL, acl, (size_t)length, 0) != 0) {
        return transfer_stop(transfer, WEIR_E_SYSTEM, "has an ACL that cannot be copied: %s",
                             strerror(errno));
    }
    return WEIR_OK;
}

/* Has all pages of both files at hand, so that takes do not wait for them. */
static enum weir_status fetch_all(const struct transfer *transfer)
{
    const struct mapping mappings[] = {transfer->into.mapping, transfer->from.mapping};
    uint64_t total = mappings[0].bytes + mappings[1].bytes;
    uint64_t done = 0;
    enum weir_status status = WEIR_OK;
    for (int i = 0; i < 2; i++) {
        for (size_t at = 0; at < mappings[i].bytes && status == WEIR_OK; at += FETCH_BYTES) {
            size_t left = mappings[i].bytes - at;
            mapping_fetch((char *)mappings[i].at + at, left < FETCH_BYTES ? left : FETCH_BYTES);
            done += left < FETCH_BYTES ? left : FETCH_BYTES;
            status = watch(transfer, RESIZE_ALLOCATING, done, total);
        }
    }
    return status;
}

static enum weir_status make(struct transfer *transfer)
{
    enum weir_status status = watch(transfer, RESIZE_ALLOCATING, 0, transfer->made.bytes);
    if (status == WEIR_OK) {
        status = opening_make(&transfer->into, &transfer->made, transfer->error);
    }
    status = status == WEIR_OK ? copy_rights(transfer) : status;
    return status == WEIR_OK ? fetch_all(transfer) : status;
}

/* Whether this attempt makes the other file. If not, nothing is carried there: it has buckets and a time of its own. */
static bool is_maker(const struct transfer *transfer)
{
    return transfer->made.path != NULL;
}

static void remove_made(const struct transfer *transfer)
{
    if (is_maker(transfer) && transfer->into.fd >= 0) {
        (void)unlink(transfer->made_path);
    }
}

enum weir_status transfer_make(struct transfer *transfer, uint64_t bytes, uint64_t events_bytes)
{
    const struct file_stamp *stamp = &transfer_header(transfer->from.table)->stamp;
    transfer->made = (struct file_config){
        .path = transfer->made_path,
        .bytes = bytes,
        .events_bytes = events_bytes,
        .mode = 0600, // until it has its owner
        .is_caller_clock = transfer->config->is_caller_clock,
        .seed = {stamp->seed[0], stamp->seed[1]},
        .made_wall_s = stamp->made_wall_s,
    };
    enum weir_status status = make(transfer);
    if (status != WEIR_OK) {
        remove_made(transfer);
    }
    return status;
}

/* ---- 3 to 7: all that is in it ---- */

/* In a table of the same shape every bucket has the place that it had, so they fit however full it is. */
static bool is_same_shape(const struct table *from, const struct table *into)
{
    return into != NULL && from->stripe_count == into->stripe_count
           && from->stripe_lines == into->stripe_lines;
}

/* What the events of windows need, and the table beside its buckets. */
static enum weir_status move_rest(struct transfer *transfer, struct moving *moving)
{
    moving_end(moving);
    if (!event_pool_carry(&moving->into->events, &moving->from->events)) {
        return transfer_stop(transfer, WEIR_E_RANGE,
                             "holds more events than fit into %" PRIu64 " bytes",
                             transfer->made.events_bytes);
    }
    return WEIR_OK;
}

/* Carries all buckets, or marks them only. */
static enum weir_status move_all(struct transfer *transfer, uint64_t now_ns)
{
    struct table *from = transfer->from.table;
    struct table *into = is_maker(transfer) ? transfer->into.table : NULL;
    struct moving moving = {.from = from,
                            .into = into,
                            .keeps_places = is_same_shape(from, into),
                            .now_ns = now_ns,
                            .since_ns = now_ns};
    for (uint64_t i = 0; i < from->stripe_count; i++) {
        if (!moving_carry(&moving, &from->stripes[i])) {
            return transfer_stop(transfer, WEIR_E_RANGE,
                                 "holds more buckets than fit into %" PRIu64 " bytes",
                                 transfer->made.bytes);
        }
        enum weir_status status = watch(transfer, RESIZE_MOVING, i + 1, from->stripe_count);
        if (status != WEIR_OK) {
            return status;
        }
    }
    transfer->report->carried_count = moving.carried_count;
    transfer->report->left_count = moving.left_count;
    return into != NULL ? move_rest(transfer, &moving) : WEIR_OK;
}

static void copy_first_size(const struct transfer *transfer)
{
    const struct file_header *from = transfer_header(transfer->from.table);
    struct file_header *into = transfer_header(transfer->into.table);
    uint64_t events_bytes = from->stamp.regions[FILE_REGION_EVENTS].bytes;
    bool is_first = from->first_bytes == 0;
    into->first_bytes = is_first ? from->stamp.table_bytes : from->first_bytes;
    into->first_events_bytes = is_first ? events_bytes : from->first_events_bytes;
}

static void copy_time(const struct transfer *transfer)
{
    const struct file_header *from = transfer_header(transfer->from.table);
    struct file_header *into = transfer_header(transfer->into.table);
    into->time = (struct shared_time){
        .last = load_bucket(&from->time.last),
        .offset_ns = load_relaxed(&from->time.offset_ns),
        .flushed_ns = load_relaxed(&from->time.flushed_ns),
    };
}

/* Steps 4 to 7, under all locks. */
static enum weir_status move(struct transfer *transfer, const struct naming *naming)
{
    struct file_header *header = transfer_header(transfer->from.table);
    struct line_mover *lines = transfer->config->lines;
    store_release(&header->phase, FILE_MOVING);
    enum weir_status status = move_all(transfer, transfer_now_ns(transfer));
    status = status == WEIR_OK ? naming->look(transfer) : status;
    status = status == WEIR_OK ? opening_give_name(&transfer->into) : status;
    if (status != WEIR_OK) {
        return status;
    }
    transfer->report->waiting_count = lines->carry(lines, transfer_now_ns(transfer));
    if (is_maker(transfer)) {
        copy_time(transfer);
        copy_first_size(transfer);
    }
    store_release(&header->phase, FILE_MOVED);
    return naming->give(transfer);
}

/* Steps 3 to 7. */
static enum weir_status move_locked(struct transfer *transfer, const struct naming *naming)
{
    struct file_header *header = transfer_header(transfer->from.table);
    struct line_mover *lines = transfer->config->lines;
    struct store *into = is_maker(transfer) ? &transfer->into.table->store : NULL;
    uint64_t hold_from_ns = weir_clock_now_ns();
    enum line_mover_result result =
        lines->enter(lines, &transfer->from.table->store, into, transfer_now_ns(transfer));
    if (result == LINES_DO_NOT_FIT) {
        return transfer_stop(transfer, WEIR_E_RANGE,
                             "is where more stand in line than have a place in %" PRIu64 " bytes",
                             transfer->made.bytes);
    }
    if (result == LINES_NO_MEMORY) {
        return transfer_stop(transfer, WEIR_E_NO_MEMORY, "finds no memory for those who wait");
    }
    (void)lock_acquire(&header->moving, &transfer->from.table->members);
    enum weir_status status = move(transfer, naming);
    if (status != WEIR_OK) {
        store_release(&header->phase, FILE_MOVING); // whatever it has come to
        file_stay(transfer->from.table, transfer->config->path);
    }
    lock_release(&header->moving);
    lines->leave(lines, transfer_now_ns(transfer));
    transfer->report->held_ns = weir_clock_now_ns() - hold_from_ns;
    return status;
}

enum weir_status transfer_move(struct transfer *transfer, const struct naming *naming)
{
    enum weir_status status = move_locked(transfer, naming);
    if (status != WEIR_OK) {
        remove_made(transfer);
    }
    return status;
}

/* ---- 8: to the disk ---- */

enum weir_status transfer_write(struct transfer *transfer)
{
    (void)watch(transfer, RESIZE_WRITING, 0, 1); // too late to give up
    file_drop_name(transfer->real_path);
    int folder = open(transfer->real_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fsync(transfer->into.fd) == 0 && folder >= 0 && fsync(folder) == 0;
    int why = errno;
    if (folder >= 0) {
        (void)close(folder);
    }
    return done ? WEIR_OK
                : fail(transfer->error, WEIR_E_SYSTEM, 0,
                       "%.*s has all its buckets, but the disk refused to write it: %s", PATH_SHOWN,
                       transfer->config->path, strerror(why));
}
