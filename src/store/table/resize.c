/* SPDX-License-Identifier: MIT
 *
 * A file of another size for the same buckets.
 *
 *   1  flock() this file: one at a time
 *   2  make another file beside it, with all its space, on the disk; same seed, owner and rights
 *   3  lock the room of those who wait (struct line_mover), then `moving` in the header
 *   4  phase = FILE_MOVING
 *   5  carry the buckets, stripe by stripe, marking them here (moving.c); then the events of windows, which
 *      nobody can reach any longer but by a bucket; then those who stand in line
 *   6  phase = FILE_MOVED                 this is the step that counts
 *   7  rename() the other file over this one
 *   8  unlock; write it all to the disk
 *
 * What everybody else does about it is in following.c. A death before step 6 undoes everything, and one after
 * it undoes nothing. What may be missing then is the name: whoever opens this file finds the phase and the
 * successor's other name, and does step 7 (opening_lead_on()).
 *
 * From step 3 on nobody joins a line, leaves it or is served; so whoever was there before stands in the other
 * file, and whoever comes afterwards joins behind, there. The order of locks is that of everybody who is in
 * the room: first its own, then `moving`, then those of stripes.
 *
 * The shared time of the file is copied last, so that time goes on exactly; flock() keeps those away
 * meanwhile who would make it go on after the machine's clock was set back.
 *
 * Price: whoever asks for a bucket that is marked waits until step 8, and so does everybody who waits in line;
 * and the disk holds both files until the last process has gone that had the old one open. After a loss of
 * power in the seconds between the steps 7 and 8 the file may lack what had not been written yet: at most one
 * capacity for each key. */
#include "store/table/resize.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/fail.h"
#include "store/table/file_opening.h"
#include "store/table/inside.h"
#include "store/table/moving.h"
#include "weir/clock.h"

enum {
    PATH_SHOWN = 200,
    FETCH_BYTES = 16 << 20, // of a mapping, at once
    ACL_BYTES_MAX = 4096,
    RESIZE_TRIES = 16,    // others may resize it at the same time
    LOAD_MAX_PERCENT = 80 // see README.md
};

static struct file_header *header_of(const struct table *table)
{
    return table->mapping.at;
}

/* One attempt. */
struct attempt {
    const struct resize_config *config;
    struct resize_report *report;
    struct weir_error *error;
    struct opening from;
    struct opening into;
    struct file_config made; // what `into` is
    struct stat status;      // of the old file
    char real_path[STORE_PATH_MAX];
    char made_path[FILE_NAME_MAX];
};

__attribute__((format(printf, 3, 4))) static enum weir_status
stop(const struct attempt *attempt, enum weir_status status, const char *format, ...)
{
    char why[WEIR_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return fail(attempt->error, status, 0, "%.*s %s; nothing has changed", PATH_SHOWN,
                attempt->config->path, why);
}

static enum weir_status watch(const struct attempt *attempt, enum resize_phase phase, uint64_t done,
                              uint64_t total)
{
    const struct resize_config *config = attempt->config;
    if (config->watch != NULL && !config->watch(config->context, phase, done, total)) {
        return stop(attempt, WEIR_E_SYSTEM, "keeps its size, as was asked for");
    }
    return WEIR_OK;
}

/* Whether the file can be replaced under its name, and what has to be kept. */
static enum weir_status look_at_name(struct attempt *attempt)
{
    if (!file_real_path(attempt->real_path, attempt->config->path)
        || fstat(attempt->from.fd, &attempt->status) != 0) {
        return stop(attempt, WEIR_E_SYSTEM, "cannot be found: %s", strerror(errno));
    }
    file_successor_path(attempt->made_path, attempt->real_path);
    if (attempt->status.st_nlink != 1) {
        return stop(
            attempt, WEIR_E_FILE,
            "has other names too, hard links, and would get its new size under one of them");
    }
    return WEIR_OK;
}

static bool is_still_named(const struct attempt *attempt)
{
    struct stat now;
    return stat(attempt->real_path, &now) == 0 && now.st_ino == attempt->status.st_ino
           && now.st_dev == attempt->status.st_dev;
}

/* Gives the new file what the old one has: owner, group, and who else may use it. */
static enum weir_status copy_rights(const struct attempt *attempt)
{
    static const char ACL[] = "system.posix_acl_access";
    char acl[ACL_BYTES_MAX];
    const struct stat *old = &attempt->status;
    struct stat new;
    int fd = attempt->into.fd;
    if (fstat(fd, &new) != 0
        || ((new.st_uid != old->st_uid || new.st_gid != old->st_gid)
            && fchown(fd, old->st_uid, old->st_gid) != 0)
        || fchmod(fd, old->st_mode & 0777) != 0) {
        return stop(attempt, WEIR_E_SYSTEM,
                    "belongs to somebody else, who can do this, or root: %s", strerror(errno));
    }
    ssize_t length = fgetxattr(attempt->from.fd, ACL, acl, sizeof acl);
    if (length > 0 && fsetxattr(fd, ACL, acl, (size_t)length, 0) != 0) {
        return stop(attempt, WEIR_E_SYSTEM, "has an ACL that cannot be copied: %s",
                    strerror(errno));
    }
    return WEIR_OK;
}

/* Has all pages of both files at hand, so that takes do not wait for them. */
static enum weir_status fetch_all(const struct attempt *attempt)
{
    const struct mapping mappings[] = {attempt->into.mapping, attempt->from.mapping};
    uint64_t total = mappings[0].bytes + mappings[1].bytes;
    uint64_t done = 0;
    enum weir_status status = WEIR_OK;
    for (int i = 0; i < 2; i++) {
        for (size_t at = 0; at < mappings[i].bytes && status == WEIR_OK; at += FETCH_BYTES) {
            size_t left = mappings[i].bytes - at;
            mapping_fetch((char *)mappings[i].at + at, left < FETCH_BYTES ? left : FETCH_BYTES);
            done += left < FETCH_BYTES ? left : FETCH_BYTES;
            status = watch(attempt, RESIZE_ALLOCATING, done, total);
        }
    }
    return status;
}

static enum weir_status make_successor(struct attempt *attempt)
{
    const struct file_stamp *stamp = &header_of(attempt->from.table)->stamp;
    attempt->made = (struct file_config){
        .path = attempt->made_path,
        .bytes = attempt->config->bytes,
        .events_bytes = attempt->report->events_bytes,
        .mode = 0600, // until it has its owner
        .is_caller_clock = attempt->config->is_caller_clock,
        .seed = {stamp->seed[0], stamp->seed[1]},
        .made_wall_s = stamp->made_wall_s,
    };
    enum weir_status status = watch(attempt, RESIZE_ALLOCATING, 0, attempt->made.bytes);
    if (status == WEIR_OK) {
        status = opening_make(&attempt->into, &attempt->made, attempt->error);
    }
    status = status == WEIR_OK ? copy_rights(attempt) : status;
    return status == WEIR_OK ? fetch_all(attempt) : status;
}

/* Carries all buckets. */
static enum weir_status move_all(struct attempt *attempt, uint64_t now_ns)
{
    struct table *from = attempt->from.table;
    struct moving moving = {
        .from = from, .into = attempt->into.table, .now_ns = now_ns, .since_ns = now_ns};
    for (uint64_t i = 0; i < from->stripe_count; i++) {
        if (!moving_carry(&moving, &from->stripes[i])) {
            return stop(attempt, WEIR_E_RANGE, "holds more buckets than fit into %" PRIu64 " bytes",
                        attempt->config->bytes);
        }
        enum weir_status status = watch(attempt, RESIZE_MOVING, i + 1, from->stripe_count);
        if (status != WEIR_OK) {
            return status;
        }
    }
    moving_end(&moving);
    if (!event_pool_carry(&moving.into->events, &from->events)) {
        return stop(attempt, WEIR_E_RANGE, "holds more events than fit into %" PRIu64 " bytes",
                    attempt->report->events_bytes);
    }
    attempt->report->carried_count = moving.carried_count;
    attempt->report->left_count = moving.left_count;
    return WEIR_OK;
}

static void copy_first_size(const struct attempt *attempt)
{
    const struct file_header *from = header_of(attempt->from.table);
    struct file_header *into = header_of(attempt->into.table);
    uint64_t events_bytes = from->stamp.regions[FILE_REGION_EVENTS].bytes;
    bool is_first = from->first_bytes == 0;
    into->first_bytes = is_first ? from->stamp.table_bytes : from->first_bytes;
    into->first_events_bytes = is_first ? events_bytes : from->first_events_bytes;
}

static void copy_time(const struct attempt *attempt)
{
    const struct file_header *from = header_of(attempt->from.table);
    struct file_header *into = header_of(attempt->into.table);
    into->time = (struct shared_time){
        .last = load_bucket(&from->time.last),
        .offset_ns = load_relaxed(&from->time.offset_ns),
        .flushed_ns = load_relaxed(&from->time.flushed_ns),
    };
}

/* Whether it is worth a try: takes would be held up in vain. */
static enum weir_status check_room(const struct attempt *attempt, uint64_t now_ns)
{
    uint64_t bytes = attempt->config->bytes;
    struct table_shape shape =
        table_shape_of(bytes - FILE_HEADER_BYTES - table_waiting_bytes(bytes));
    uint64_t slot_count = shape.stripe_count * shape.stripe_lines * TABLE_LINE_SLOTS;
    uint64_t live_count = table_live_count(attempt->from.table, now_ns);
    if (live_count > slot_count / 100 * LOAD_MAX_PERCENT) {
        return stop(attempt, WEIR_E_RANGE,
                    "holds %" PRIu64 " buckets, too many for %" PRIu64 " bytes", live_count, bytes);
    }
    return WEIR_OK;
}

static uint64_t now_of(const struct attempt *attempt)
{
    return attempt->config->is_caller_clock ? attempt->config->now_ns
                                            : store_clock_now_ns(&attempt->from.table->clock);
}

/* Steps 4 to 7, under all locks. */
static enum weir_status move(struct attempt *attempt)
{
    struct file_header *header = header_of(attempt->from.table);
    struct line_mover *lines = attempt->config->lines;
    store_release(&header->phase, FILE_MOVING);
    enum weir_status status = move_all(attempt, now_of(attempt));
    if (status == WEIR_OK && !is_still_named(attempt)) {
        status = stop(attempt, WEIR_E_FILE, "has been moved or replaced meanwhile");
    }
    if (status != WEIR_OK) {
        return status;
    }
    attempt->report->waiting_count = lines->carry(lines, now_of(attempt));
    copy_time(attempt);
    copy_first_size(attempt);
    store_release(&header->phase, FILE_MOVED);
    (void)rename(attempt->made_path, attempt->real_path); // else whoever opens it tries that again
    return WEIR_OK;
}

/* Steps 3 to 7. */
static enum weir_status move_locked(struct attempt *attempt)
{
    struct file_header *header = header_of(attempt->from.table);
    struct line_mover *lines = attempt->config->lines;
    uint64_t hold_from_ns = weir_clock_now_ns();
    enum line_mover_result result = lines->enter(lines, &attempt->from.table->store,
                                                 &attempt->into.table->store, now_of(attempt));
    if (result == LINES_DO_NOT_FIT) {
        return stop(attempt, WEIR_E_RANGE,
                    "is where more stand in line than have a place in %" PRIu64 " bytes",
                    attempt->config->bytes);
    }
    if (result == LINES_NO_MEMORY) {
        return stop(attempt, WEIR_E_NO_MEMORY, "finds no memory for those who wait");
    }
    (void)lock_acquire(&header->moving, &attempt->from.table->members);
    enum weir_status status = move(attempt);
    if (status != WEIR_OK) {
        file_stay(header, attempt->config->path);
    }
    lock_release(&header->moving);
    lines->leave(lines, now_of(attempt));
    attempt->report->held_ns = weir_clock_now_ns() - hold_from_ns;
    return status;
}

/* Steps 2 to 7. */
static enum weir_status replace(struct attempt *attempt)
{
    enum weir_status status = look_at_name(attempt);
    status = status == WEIR_OK ? check_room(attempt, now_of(attempt)) : status;
    status = status == WEIR_OK ? make_successor(attempt) : status;
    status = status == WEIR_OK ? move_locked(attempt) : status;
    if (status != WEIR_OK && attempt->into.fd >= 0) {
        (void)unlink(attempt->made_path);
    }
    return status;
}

/* The rest of step 8. The name, too. */
static enum weir_status write_to_disk(struct attempt *attempt)
{
    enum weir_status status = watch(attempt, RESIZE_WRITING, 0, 1);
    char *slash = strrchr(attempt->real_path, '/');
    slash[slash == attempt->real_path] = '\0';
    int folder = open(attempt->real_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fsync(attempt->into.fd) == 0 && folder >= 0 && fsync(folder) == 0;
    (void)status; // too late to give up
    if (folder >= 0) {
        (void)close(folder);
    }
    return done ? WEIR_OK
                : fail(attempt->error, WEIR_E_SYSTEM, 0,
                       "%.*s has its new size, but the disk refused to write it: %s", PATH_SHOWN,
                       attempt->config->path, strerror(errno));
}

/* How much memory for events: as it was beside the table; though no chunk that was ever taken is given up. */
static uint64_t choose_events_bytes(const struct attempt *attempt)
{
    const struct file_stamp *stamp = &header_of(attempt->from.table)->stamp;
    const struct resize_config *config = attempt->config;
    uint64_t bytes = config->events_bytes;
    if (bytes == 0 && stamp->table_bytes == config->bytes) {
        bytes = stamp->regions[FILE_REGION_EVENTS].bytes;
    } else if (bytes == 0) {
        uint128 product = (uint128)stamp->regions[FILE_REGION_EVENTS].bytes * config->bytes;
        uint128 share = product / stamp->table_bytes;
        uint64_t least = (event_pool_fresh_count(&attempt->from.table->events) + 1) * CHUNK_BYTES;
        bytes = share < WEIR_EVENTS_BYTES_MAX ? (uint64_t)share : WEIR_EVENTS_BYTES_MAX;
        bytes = bytes < WEIR_EVENTS_BYTES_MIN ? WEIR_EVENTS_BYTES_MIN : bytes;
        bytes = bytes < least ? least : bytes;
    }
    return bytes - bytes % CHUNK_BYTES;
}

/* What a mover left that has died. False: its last step was that all have moved. */
static bool clear_up(const struct attempt *attempt)
{
    struct file_header *header = header_of(attempt->from.table);
    (void)lock_acquire(&header->moving, &attempt->from.table->members);
    bool stays = file_phase(header) != FILE_MOVED;
    if (stays) {
        file_stay(header, attempt->config->path);
    }
    lock_release(&header->moving);
    return stays;
}

/* All steps, with the file that has this name now. *again: another one was faster. */
static enum weir_status resize_once(struct attempt *attempt, bool *again)
{
    struct resize_report *report = attempt->report;
    const struct file_stamp *stamp = &header_of(attempt->from.table)->stamp;
    *again = false;
    report->from_bytes = stamp->table_bytes;
    report->from_events_bytes = stamp->regions[FILE_REGION_EVENTS].bytes;
    report->events_bytes = choose_events_bytes(attempt);
    if (report->from_bytes == attempt->config->bytes
        && report->from_events_bytes == report->events_bytes) {
        return WEIR_OK;
    }
    while (flock(attempt->from.fd, LOCK_EX) != 0 && errno == EINTR) {
    } // until it is closed
    if (!clear_up(attempt)) {
        *again = true;
        return WEIR_OK;
    }
    enum weir_status status = replace(attempt);
    return status == WEIR_OK ? write_to_disk(attempt) : status;
}

enum weir_status resize_file(const struct resize_config *config, struct resize_report *report,
                             struct weir_error *error)
{
    struct file_config file = {
        .path = config->path, .must_exist = true, .is_caller_clock = config->is_caller_clock};
    bool again = true;
    enum weir_status status = WEIR_OK;
    for (int i = 0; i < RESIZE_TRIES && again; i++) {
        struct attempt attempt = {
            .config = config, .report = report, .error = error, .into = {.fd = -1}};
        *report = (struct resize_report){0};
        status = opening_run(&attempt.from, &file, error);
        status = status == WEIR_OK ? opening_keep_origin(&attempt.from) : status;
        status = status == WEIR_OK ? resize_once(&attempt, &again) : status;
        again = again && status == WEIR_OK;
        opening_drop(&attempt.into);
        (void)flock(attempt.from.fd, LOCK_UN); // as long as it is mapped it would be held
        opening_drop(&attempt.from);
    }
    return again ? fail(error, WEIR_E_SYSTEM, 0, "%.*s is being resized all the time", PATH_SHOWN,
                        config->path)
                 : status;
}
