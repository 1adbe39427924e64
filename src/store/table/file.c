/* SPDX-License-Identifier: MIT
 *
 * Making, checking and opening a table's file; file_header.h says what it looks like.
 *
 * Making one: without a name, with all its space allocated, complete and on the disk before it is linked under its
 * name. So nobody ever sees half a file, not after a loss of power either, and of two who make one at once the second
 * finds the first one's. The kernel removes it if its maker is killed meanwhile. On a file system without O_TMPFILE it
 * has another name in the same folder until then, which a killed maker leaves behind; nobody looks at that.
 *
 * Opening one checks all that its header says: every size and every region follows from two numbers, so a header
 * that leads anywhere else is refused. Then the process joins those that have it open (home.c).
 *
 * A file whose buckets have moved to a larger one (resize.c) leads there, until it has lost its name to
 * it.
 *
 * Caveats. A user that may write the file is trusted by all that open it: there are no pointers in it, but what is
 * in it can stop them, by an assertion or for ever. A process that cuts it short while it is open gets everyone else
 * a SIGBUS. It must not be shared between hosts. */
#include "store/table/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "core/fail.h"
#include "platform/boot.h"
#include "platform/siphash.h"
#include "store/table/file_opening.h"
#include "store/table/home.h"

enum {
    FILE_TRIES = 16,  // it may vanish and come back while we look
    PATH_SHOWN = 200, // of a path, in a message
    GROUPS_SHOWN = 1024
};

/* Of file systems that linux/magic.h does not know everywhere. */
#define GFS2_MAGIC   0x01161970
#define LUSTRE_MAGIC 0x0bd00bd0
#define VBOXSF_MAGIC 0x786f4256

static struct file_header *header_of(const struct opening *opening)
{
    return opening->mapping.at;
}

bool file_system_is_remote(uint64_t type)
{
    static const uint64_t REMOTE[] = {
        NFS_SUPER_MAGIC,   CIFS_SUPER_MAGIC, SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC, V9FS_MAGIC,
        CEPH_SUPER_MAGIC,  AFS_SUPER_MAGIC,  AFS_FS_MAGIC,    CODA_SUPER_MAGIC, FUSE_SUPER_MAGIC,
        OCFS2_SUPER_MAGIC, GFS2_MAGIC,       LUSTRE_MAGIC,    VBOXSF_MAGIC,
    };
    for (size_t i = 0; i < sizeof REMOTE / sizeof REMOTE[0]; i++) {
        if (type == REMOTE[i]) {
            return true;
        }
    }
    return false;
}

/* ---- the stamp ---- */

static uint64_t sum_of(const struct file_stamp *stamp)
{
    static const uint64_t KEY[2] = {0};
    return siphash24(KEY, stamp, offsetof(struct file_stamp, sum));
}

/* How large a new file is to be without the events. */
static uint64_t table_bytes_of_new(const struct file_config *config)
{
    return config->bytes != 0 ? config->bytes : config->new_bytes;
}

static struct table_shape shape_of_new(uint64_t table_bytes)
{
    return table_shape_of(table_bytes - FILE_HEADER_BYTES - table_waiting_bytes(table_bytes));
}

/* Where the regions of a new file lie. */
static void lay_regions(struct file_region regions[FILE_REGION_COUNT],
                        const struct file_config *config)
{
    uint64_t table_bytes = table_bytes_of_new(config);
    uint64_t waiting_at = FILE_HEADER_BYTES + shape_of_new(table_bytes).bytes;
    uint64_t events_at =
        (table_bytes + FILE_HEADER_BYTES - 1) / FILE_HEADER_BYTES * FILE_HEADER_BYTES;
    uint64_t events_bytes =
        config->events_bytes != 0 ? config->events_bytes : table_events_bytes(table_bytes);
    regions[FILE_REGION_WAITING] =
        (struct file_region){waiting_at, table_waiting_bytes(table_bytes)};
    regions[FILE_REGION_EVENTS] = (struct file_region){events_at, events_bytes};
}

/* The events come last. */
static uint64_t file_bytes_of_new(const struct file_config *config)
{
    struct file_region regions[FILE_REGION_COUNT];
    lay_regions(regions, config);
    return regions[FILE_REGION_EVENTS].at + regions[FILE_REGION_EVENTS].bytes;
}

static void stamp_file(struct file_stamp *stamp, const struct file_config *config)
{
    struct table_shape shape = shape_of_new(table_bytes_of_new(config));
    *stamp = (struct file_stamp){
        .byte_order = FILE_BYTE_ORDER,
        .format = FILE_FORMAT,
        .file_bytes = file_bytes_of_new(config),
        .table_bytes = table_bytes_of_new(config),
        .stripe_count = shape.stripe_count,
        .stripe_lines = shape.stripe_lines,
        .line_bytes = sizeof(struct table_line),
        .stripe_bytes = sizeof(struct stripe),
        .chunk_bytes = sizeof(struct chunk),
        .is_caller_clock = config->is_caller_clock,
        .seed = {config->seed[0], config->seed[1]},
        .made_wall_s = config->made_wall_s != 0 ? config->made_wall_s : (uint64_t)time(NULL),
    };
    memcpy(stamp->magic, FILE_MAGIC, sizeof stamp->magic);
    lay_regions(stamp->regions, config);
    stamp->sum = sum_of(stamp);
}

__attribute__((format(printf, 3, 4))) static enum weir_status
refuse(const struct opening *opening, bool set_aside, const char *format, ...)
{
    const char *path = opening->config->path;
    char why[WEIR_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (set_aside) {
        return fail(opening->error, WEIR_E_FILE, 0,
                    "%.*s %s; this sets it aside: mv '%.*s' '%.*s.old'", PATH_SHOWN, path, why,
                    PATH_SHOWN, path, PATH_SHOWN, path);
    }
    return fail(opening->error, WEIR_E_FILE, 0, "%.*s %s", PATH_SHOWN, path, why);
}

/* Whether every size and region is what follows from the two sizes that a new file is made of. */
static bool is_laid_out(const struct file_stamp *stamp)
{
    const struct file_config config = {.bytes = stamp->table_bytes,
                                       .events_bytes = stamp->regions[FILE_REGION_EVENTS].bytes};
    struct file_region regions[FILE_REGION_COUNT];
    if (config.bytes < WEIR_MEMORY_BYTES_MIN || config.bytes > WEIR_MEMORY_BYTES_MAX
        || config.events_bytes < WEIR_EVENTS_BYTES_MIN
        || config.events_bytes > WEIR_EVENTS_BYTES_MAX) {
        return false;
    }
    struct table_shape shape = shape_of_new(config.bytes);
    lay_regions(regions, &config);
    return stamp->stripe_count == shape.stripe_count && stamp->stripe_lines == shape.stripe_lines
           && stamp->file_bytes == file_bytes_of_new(&config)
           && memcmp(stamp->regions, regions, sizeof regions) == 0;
}

/* Whether this is a file of weir, and of this one. Its numbers may be trusted afterwards. */
static enum weir_status check_stamp(const struct opening *opening, const struct file_stamp *stamp)
{
    if (memcmp(stamp->magic, FILE_MAGIC, sizeof stamp->magic) != 0) {
        return refuse(opening, false, "is not a file of weir: choose another path");
    }
    if (stamp->byte_order != FILE_BYTE_ORDER) {
        return refuse(opening, true, "was made on a machine of another byte order");
    }
    if (stamp->format != FILE_FORMAT) {
        return refuse(opening, true,
                      "has format %" PRIu32 ", and this version of weir has format %d",
                      stamp->format, FILE_FORMAT);
    }
    if (stamp->line_bytes != sizeof(struct table_line)
        || stamp->stripe_bytes != sizeof(struct stripe)
        || stamp->chunk_bytes != sizeof(struct chunk)) {
        return refuse(opening, true, "was made by a weir for another processor");
    }
    if (stamp->sum != sum_of(stamp)) {
        return refuse(opening, true, "is damaged: its header does not add up");
    }
    if (!is_laid_out(stamp)) {
        return refuse(opening, true, "is damaged: its header leads outside the file");
    }
    return WEIR_OK;
}

/* Whether a size that was asked for is right: the one that the file has now, or the one that it had before it
 * was given another one, which is what those still say who had it made. */
static bool is_right_size(uint64_t asked, uint64_t now, uint64_t first)
{
    return asked == 0 || asked == now || asked == first;
}

static enum weir_status check_size(const struct opening *opening, const struct file_header *header)
{
    const struct file_config *config = opening->config;
    const struct file_stamp *stamp = &header->stamp;
    uint64_t events_bytes = stamp->regions[FILE_REGION_EVENTS].bytes;
    if (!is_right_size(config->bytes, stamp->table_bytes, header->first_bytes)) {
        return refuse(opening, false,
                      "has %" PRIu64 " bytes and not %" PRIu64
                      ": leave out the size, or: weir store resize %" PRIu64 " --store 'file:%.*s'",
                      stamp->table_bytes, config->bytes, config->bytes, PATH_SHOWN, config->path);
    }
    if (!is_right_size(config->events_bytes, events_bytes, header->first_events_bytes)) {
        return refuse(opening, false,
                      "has %" PRIu64 " bytes for events and not %" PRIu64
                      ": leave out events, or: weir store resize %" PRIu64 " --events %" PRIu64
                      " --store 'file:%.*s'",
                      events_bytes, config->events_bytes, stamp->table_bytes, config->events_bytes,
                      PATH_SHOWN, config->path);
    }
    return WEIR_OK;
}

/* Whether it is the one that was asked for. */
static enum weir_status check_choice(const struct opening *opening, const struct file_stamp *stamp)
{
    const struct file_config *config = opening->config;
    if (config->must_exist && (config->seed[0] | config->seed[1]) != 0
        && memcmp(config->seed, stamp->seed, sizeof stamp->seed) != 0) {
        return refuse(
            opening, false,
            "is not the file that was open, nor a copy of it: its seed is another one, and "
            "none of the buckets would be found in it");
    }
    if (opening->file_bytes != stamp->file_bytes) {
        return refuse(opening, true, "is truncated: it has %" PRIu64 " bytes of %" PRIu64,
                      opening->file_bytes, stamp->file_bytes);
    }
    if (config->is_caller_clock != (stamp->is_caller_clock != 0)) {
        return refuse(
            opening, false,
            config->is_caller_clock
                ? "holds buckets of real time, and tests have a clock of their own: "
                  "choose another path"
                : "holds buckets of a test, with a clock of its own: choose another path");
    }
    return WEIR_OK;
}

static enum weir_status check_file_system(const struct opening *opening)
{
    struct statfs system;
    if (fstatfs(opening->fd, &system) == 0 && file_system_is_remote((uint64_t)system.f_type)) {
        return refuse(opening, false,
                      "is on a file system that other hosts may share, and they cannot share its "
                      "locks: choose a path on a disk of this host, or ask a server: weir serve");
    }
    return WEIR_OK;
}

/* ---- joining ---- */

static enum weir_status join(struct opening *opening)
{
    struct table *table = opening->table;
    if (membership_open(&table->members, opening->fd, opening->name) && table_join(table)) {
        return WEIR_OK;
    }
    int why = errno;
    return fail(opening->error, WEIR_E_SYSTEM, 0, "cannot share %.*s with its other users: %s%s",
                PATH_SHOWN, opening->config->path, membership_explain(why),
                why == ENOTSUP ? "; ask a server: weir serve" : "");
}

/* ---- mapping ---- */

/* A table over the mapped file, and its regions. */
static enum weir_status lay_table(struct opening *opening, struct table_shape shape,
                                  const struct file_region regions[FILE_REGION_COUNT])
{
    opening->table = malloc(sizeof *opening->table);
    if (opening->table == NULL) {
        return fail(opening->error, WEIR_E_NO_MEMORY, 0, "no memory for a store");
    }
    struct file_header *header = header_of(opening);
    char *file = opening->mapping.at;
    table_place(opening->table, file + FILE_HEADER_BYTES, shape);
    const struct file_region *waiting = &regions[FILE_REGION_WAITING];
    table_place_waiting(opening->table, file + waiting->at, waiting->bytes);
    const struct file_region *events = &regions[FILE_REGION_EVENTS];
    event_pool_place(&opening->table->events, file + events->at, events->bytes,
                     &opening->table->members);
    opening->table->mapping = opening->mapping;
    opening->table->home = home_of(opening->boot_id, opening->inode);
    opening->table->clock = (struct store_clock){
        .shared = &header->time,
        .bias_ns = boot_namespace_bias_ns(),
        .flushed = opening->mapping,
        .flush_every_ns = opening->config->flush_every_ns,
    };
    return WEIR_OK;
}

static enum weir_status map(struct opening *opening)
{
    if (!mapping_open_file(&opening->mapping, opening->fd, opening->file_bytes)) {
        return fail(opening->error, WEIR_E_NO_MEMORY, 0, "cannot map %.*s: %s", PATH_SHOWN,
                    opening->config->path, strerror(errno));
    }
    return WEIR_OK;
}

/* ---- making a file ---- */

static enum weir_status fail_making(const struct opening *opening, const char *what, int why)
{
    const char *path = opening->config->path;
    const char *help = opening->is_growing              ? "; nothing has changed"
                       : why == ENOSPC || why == EDQUOT ? "; choose less with size="
                       : why == ENOENT                  ? "; make the folder first: mkdir -p"
                                                        : "; choose another path";
    const char *slash = strrchr(path, '/');
    int folder_length = why == ENOENT && !opening->is_growing ? (int)(slash - path) : 0;
    return fail(opening->error, WEIR_E_SYSTEM, 0, "cannot %s %.*s: %s%s%s%.*s", what, PATH_SHOWN,
                path, strerror(why), help, folder_length > 0 ? " " : "", folder_length, path);
}

/* Fills a file that nobody else knows yet. */
static enum weir_status fill_file(struct opening *opening)
{
    enum weir_status result = check_file_system(opening);
    if (result != WEIR_OK) {
        return result;
    }
    int why = posix_fallocate(opening->fd, 0, (off_t)opening->file_bytes);
    if (why != 0) {
        return fail_making(opening, "allocate", why);
    }
    struct stat status;
    if (fstat(opening->fd, &status) != 0 || fchmod(opening->fd, opening->config->mode) != 0) {
        return fail_making(opening, "make", errno);
    }
    opening->inode = status.st_ino;
    result = map(opening);
    if (result != WEIR_OK) {
        return result;
    }
    struct file_header *header = header_of(opening);
    stamp_file(&header->stamp, opening->config);
    struct table_shape shape = {header->stamp.stripe_count, header->stamp.stripe_lines, 0};
    result = lay_table(opening, shape, header->stamp.regions);
    if (result != WEIR_OK) {
        return result;
    }
    store_clock_start(&opening->table->clock);
    header->home = opening->table->home;
    result = join(opening);
    if (result != WEIR_OK) {
        return result;
    }
    return fsync(opening->fd) == 0 ? WEIR_OK : fail_making(opening, "write", errno);
}

/* Opens a new file without a name, in the folder where it will have one. False: not on this file system. */
static bool open_nameless(struct opening *opening)
{
    char folder[FILE_NAME_MAX];
    (void)snprintf(folder, sizeof folder, "%s", opening->config->path);
    file_drop_name(folder);
    opening->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return opening->fd >= 0;
}

enum weir_status opening_give_name(struct opening *opening)
{
    if (opening->is_nameless && !file_link(opening->fd, opening->config->path)) {
        return fail_making(opening, "name", errno);
    }
    opening->is_nameless = false;
    return WEIR_OK;
}

/* *exists: somebody else was faster. */
static enum weir_status make(struct opening *opening, bool *exists)
{
    const char *path = opening->config->path;
    char made_path[FILE_NAME_MAX];
    (void)snprintf(made_path, sizeof made_path, "%s.XXXXXX", path);
    bool is_named = !open_nameless(opening);
    if (is_named) {
        opening->fd = mkostemp(made_path, O_CLOEXEC);
    }
    if (opening->fd < 0) {
        return fail_making(opening, "make", errno);
    }
    opening->file_bytes = file_bytes_of_new(opening->config);
    enum weir_status status = fill_file(opening);
    bool is_linked =
        status == WEIR_OK && (is_named ? link(made_path, path) == 0 : file_link(opening->fd, path));
    if (status == WEIR_OK && !is_linked) {
        *exists = errno == EEXIST;
        status = fail_making(opening, "make", errno);
    }
    if (is_named) {
        (void)unlink(made_path);
    }
    return status;
}

/* ---- opening one that is there ---- */

static enum weir_status fail_opening(const struct opening *opening, int why)
{
    const char *path = opening->config->path;
    if (why == EACCES || why == EPERM) {
        return fail(opening->error, WEIR_E_SYSTEM, 0,
                    "cannot open %.*s: %s; weir reads and writes it, and its owner can allow that: "
                    "chmod g+rw '%.*s'",
                    PATH_SHOWN, path, strerror(why), PATH_SHOWN, path);
    }
    return fail(opening->error, WEIR_E_SYSTEM, 0, "cannot open %.*s: %s; %s", PATH_SHOWN, path,
                strerror(why),
                why == EROFS ? "weir writes it: choose a path where that is possible"
                             : "choose another path");
}

static bool is_our_group(gid_t group)
{
    gid_t groups[GROUPS_SHOWN];
    int count = getgroups(GROUPS_SHOWN, groups);
    for (int i = 0; i < count; i++) {
        if (groups[i] == group) {
            return true;
        }
    }
    return group == getegid();
}

/* Whether the file lies where everybody may put one. */
static bool is_in_public(const char *path)
{
    char real[STORE_PATH_MAX];
    struct stat folder;
    if (!file_place(real, path)) {
        return true;
    }
    file_drop_name(real);
    return stat(real, &folder) != 0 || (folder.st_mode & S_IWOTH) != 0;
}

/* What is in the file comes from a user that we have reason to trust: ourselves, root, or one that shares it with
 * our group. Root looks after the files of others too, but for those that somebody left in a folder like /tmp. */
static enum weir_status check_owner(const struct opening *opening, const struct stat *status)
{
    uid_t user = geteuid();
    bool is_trusted = status->st_uid == user || status->st_uid == 0
                      || ((status->st_mode & S_IWGRP) != 0 && is_our_group(status->st_gid))
                      || (user == 0 && !is_in_public(opening->config->path));
    return is_trusted
               ? WEIR_OK
               : refuse(
                   opening, false,
                   "belongs to user %ju and not to you, and what is in it can stop you: choose "
                   "another path, or let its owner share it with a group of yours: chmod g+rw",
                   (uintmax_t)status->st_uid);
}

static enum weir_status look_at_file(struct opening *opening)
{
    struct stat status;
    if (fstat(opening->fd, &status) != 0) {
        return fail_opening(opening, errno);
    }
    if (!S_ISREG(status.st_mode)) {
        return refuse(opening, false, "is not a file: choose another path");
    }
    if ((status.st_mode & S_IWOTH) != 0) {
        return refuse(opening, false, "can be written by everybody: chmod o-w '%.*s'", PATH_SHOWN,
                      opening->config->path);
    }
    opening->inode = status.st_ino;
    opening->file_bytes = (uint64_t)status.st_size;
    enum weir_status result = check_owner(opening, &status);
    return result == WEIR_OK ? check_file_system(opening) : result;
}

/* A table over a file that may be used, which this process has not joined. */
static enum weir_status check_file(struct opening *opening)
{
    struct file_header header = {.epoch = 0};
    const struct file_stamp *stamp = &header.stamp;
    enum weir_status status = look_at_file(opening);
    if (status != WEIR_OK) {
        return status;
    }
    if (pread(opening->fd, &header, sizeof header, 0) != (ssize_t)sizeof header) {
        return refuse(opening, false, "is not a file of weir: choose another path");
    }
    status = check_stamp(opening, stamp);
    status = status == WEIR_OK ? check_choice(opening, stamp) : status;
    status = status == WEIR_OK ? check_size(opening, &header) : status;
    status = status == WEIR_OK ? map(opening) : status;
    struct table_shape shape = {stamp->stripe_count, stamp->stripe_lines, 0};
    return status == WEIR_OK ? lay_table(opening, shape, stamp->regions) : status;
}

/* What its regions say of themselves in a few words. Most damage shows only where it is. */
static enum weir_status check_body(const struct opening *opening)
{
    return event_pool_is_possible(&opening->table->events)
               ? WEIR_OK
               : refuse(opening, false,
                        "is damaged: it counts more events than it has room for; when all that use "
                        "it have ended, copy it; this forgets what is in it: weir store reset "
                        "--force --store 'file:%.*s'",
                        PATH_SHOWN, opening->config->path);
}

static enum weir_status use_file(struct opening *opening)
{
    enum weir_status status = check_file(opening);
    status = status == WEIR_OK ? check_body(opening) : status;
    return status == WEIR_OK ? join(opening) : status;
}

/* ---- the whole ---- */

struct table *opening_take_table(struct opening *opening)
{
    struct table *table = opening->table;
    table->members.path = table->root->origin != NULL ? table->root->origin->path : NULL;
    opening->mapping = (struct mapping){0};
    opening->table = NULL;
    return table;
}

void opening_drop(struct opening *opening)
{
    if (opening->fd >= 0) {
        (void)close(opening->fd); // what is mapped stays
    }
    if (opening->table != NULL) {
        table_leave(opening->table);
        free(opening->table->origin);
    }
    free(opening->table);
    mapping_close(&opening->mapping);
    opening->fd = -1;
    opening->table = NULL;
}

static enum weir_status begin(struct opening *opening, const struct file_config *config,
                              struct weir_error *error)
{
    *opening = (struct opening){.config = config, .error = error, .fd = -1};
    (void)snprintf(opening->name, sizeof opening->name, "%s", config->path);
    if (!boot_read_id(opening->boot_id)) {
        return fail(error, WEIR_E_SYSTEM, 0,
                    "cannot tell one boot from another, for want of %s: %s", BOOT_ID_PATH,
                    strerror(errno));
    }
    return WEIR_OK;
}

enum weir_status opening_make(struct opening *opening, const struct file_config *config,
                              struct weir_error *error)
{
    enum weir_status status = begin(opening, config, error);
    if (status != WEIR_OK) {
        return status;
    }
    opening->is_growing = true;
    if (unlink(config->path) != 0 && errno != ENOENT) { // better now than when it gets that name
        return fail_making(opening, "make", errno);
    }
    opening->is_nameless = open_nameless(opening);
    if (!opening->is_nameless) {
        opening->fd = open(config->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    opening->file_bytes = file_bytes_of_new(config);
    return opening->fd >= 0 ? fill_file(opening) : fail_making(opening, "make", errno);
}

static bool open_file(struct opening *opening)
{
    opening->fd = open(opening->name, O_RDWR | O_CLOEXEC | O_NOCTTY);
    return opening->fd >= 0;
}

enum weir_status opening_look(struct opening *opening, const struct file_config *config,
                              struct weir_error *error)
{
    enum weir_status status = begin(opening, config, error);
    if (status == WEIR_OK) {
        status = open_file(opening) ? check_file(opening) : fail_opening(opening, errno);
    }
    return status;
}

enum weir_status opening_again(struct opening *opening, const struct table *table,
                               const struct file_config *config, struct weir_error *error)
{
    enum weir_status status = begin(opening, config, error);
    if (status == WEIR_OK) {
        opening->fd = membership_open_file(&table->members);
        status = opening->fd >= 0 ? use_file(opening) : fail_opening(opening, errno);
    }
    return status;
}

/* One look. *again: what was found, or not, is no longer so. */
static enum weir_status open_or_make(struct opening *opening, bool *again)
{
    *again = false;
    if (open_file(opening)) {
        enum weir_status status = use_file(opening);
        bool has_moved = status == WEIR_OK && file_phase(header_of(opening)) == FILE_MOVED;
        status = has_moved ? opening_lead_on(opening) : status;
        *again = has_moved && status == WEIR_OK;
        return status;
    }
    if (errno != ENOENT || opening->config->must_exist) {
        return fail_opening(opening, errno);
    }
    return make(opening, again);
}

enum weir_status opening_run(struct opening *opening, const struct file_config *config,
                             struct weir_error *error)
{
    bool again;
    enum weir_status status = begin(opening, config, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (int i = 0; i < FILE_TRIES; i++) {
        status = open_or_make(opening, &again);
        if (!again) {
            return status;
        }
        opening_drop(opening);
    }
    return fail_opening(opening, EEXIST);
}

enum weir_status opening_keep_origin(struct opening *opening)
{
    const struct file_config *config = opening->config;
    struct file_origin *origin = calloc(1, sizeof *origin);
    if (origin == NULL) {
        return fail(opening->error, WEIR_E_NO_MEMORY, 0, "no memory for a store");
    }
    (void)snprintf(origin->path, sizeof origin->path, "%s", config->path);
    origin->config = (struct file_config){
        .path = origin->path,
        .must_exist = true,
        .is_caller_clock = config->is_caller_clock,
        .flush_every_ns = config->flush_every_ns,
    };
    memcpy(origin->config.seed, header_of(opening)->stamp.seed, sizeof origin->config.seed);
    opening->table->origin = origin;
    return WEIR_OK;
}

enum weir_status table_open_file(struct store **store, const struct file_config *config,
                                 uint64_t seed[2], struct weir_error *error)
{
    struct opening opening;
    enum weir_status status = opening_run(&opening, config, error);
    status = status == WEIR_OK ? opening_keep_origin(&opening) : status;
    if (status == WEIR_OK) {
        memcpy(seed, header_of(&opening)->stamp.seed, sizeof header_of(&opening)->stamp.seed);
        struct table *table = opening_take_table(&opening);
        table_guard_against_fork(table);
        *store = &table->store;
    }
    opening_drop(&opening);
    return status;
}
