/* SPDX-License-Identifier: MIT
 *
 * Going on under the name of a file that was deleted or replaced while it is open (named.c notices that). What
 * was done to the file says what its owner wants:
 *
 *   it has another name    `mv`: it gets this name too, by a link. Nothing moves
 *   it has no name         `rm`: its buckets, and those who wait, move to a new file of this name (transfer.c). No
 *                          charge is lost. Linking it again is not possible: the kernel gives a file that has lost
 *                          its last name no other one
 *   another file has the   `mv` of another file, or a backup that was put back: everybody goes on in that one.
 *   name                   Everything that the old buckets hold is lost, as it would be if they were all
 *                          closed and opened again. Those who wait join the lines of the other file, each process its
 *                          own people in their order
 *
 * In the last case the old file must have no name at all, for everybody who has it open goes along: a file that
 * was moved aside may be in use there. And the other one must be the same store: its seed is that of the old one,
 * for a rule knows its buckets by it, and its clock agrees, for those who wait have a deadline. A file that was made
 * anew has another seed.
 *
 * Several processes may do this at once. The lock of the old file lets one of them go first, and then its phase
 * tells the others where to go. A file that somebody else makes under the name meanwhile is not touched: the new one
 * gets its name only where there is none (file_take_name()), and otherwise the move is taken back. Killed anywhere,
 * it leaves everything as it was, or done, but for that name, which the first one that follows gives
 * (find_successor()). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"
#include "store/table/transfer.h"

enum {
    REGAIN_TRIES = 16, // others may do something about the name at the same time
    CLOCK_OFF_NS_MAX = 1000000000
};

struct regaining {
    struct store *store;
    const struct file_origin *origin;
    struct resize_config config;
    struct store_regained *regained;
    struct weir_error *error;
};

/* ---- a file with another name ---- */

/* Which one, as far as the kernel says: of several names it may remember one that is gone. */
static void find_name(int fd, char name[STORE_PATH_MAX])
{
    char descriptor[FILE_DESCRIPTOR_MAX];
    struct stat there, ours;
    file_descriptor_path(descriptor, fd);
    ssize_t length = readlink(descriptor, name, STORE_PATH_MAX - 1);
    name[length > 0 ? length : 0] = '\0';
    bool is_it = stat(name, &there) == 0 && fstat(fd, &ours) == 0 && there.st_ino == ours.st_ino
                 && there.st_dev == ours.st_dev;
    if (!is_it) {
        (void)snprintf(name, STORE_PATH_MAX, "under another name");
    }
}

static enum weir_status link_again(const struct regaining *regaining, int fd, bool *again)
{
    char real[STORE_PATH_MAX];
    const char *path = regaining->origin->path;
    if (file_place(real, path) && file_link(fd, real)) {
        regaining->regained->outcome = STORE_LINKED;
        return WEIR_OK;
    }
    int why = errno;
    *again = why == EEXIST || why == ENOENT; // the one name has come, or the other one gone
    find_name(fd, real);
    return fail(regaining->error, WEIR_E_SYSTEM, 0,
                "%.*s has been moved, and cannot get its name again: %s; it is still there: %.*s",
                PATH_SHOWN, path, strerror(why), PATH_SHOWN, real);
}

static enum weir_status refuse_two(const struct regaining *regaining, int fd)
{
    char now[STORE_PATH_MAX];
    find_name(fd, now);
    return fail(
        regaining->error, WEIR_E_FILE, 0,
        "%.*s is another file, and the one in use is still there, where others may use it: %.*s; "
        "delete that one, or move it back",
        PATH_SHOWN, regaining->origin->path, PATH_SHOWN, now);
}

/* ---- a file without a name ---- */

/* Another file has come meanwhile, or has gone again. */
static enum weir_status overtaken(struct transfer *transfer)
{
    transfer->is_overtaken = true;
    return transfer_stop(transfer, WEIR_E_FILE, "was made or replaced meanwhile");
}

static enum weir_status any_name(struct transfer *transfer)
{
    (void)transfer;
    return WEIR_OK;
}

static enum weir_status take_name(struct transfer *transfer)
{
    if (file_take_name(transfer->made_path, transfer->real_path)) {
        return WEIR_OK;
    }
    return errno == EEXIST
               ? overtaken(transfer)
               : transfer_stop(transfer, WEIR_E_SYSTEM, "cannot get its name: %s", strerror(errno));
}

/* To a new file. That the disk refuses to write it is no reason not to use it: it may be written later. */
static enum weir_status carry(struct transfer *transfer)
{
    static const struct naming NAMING = {.look = any_name, .give = take_name};
    const struct file_stamp *stamp = &transfer_header(transfer->from.table)->stamp;
    if (!file_place(transfer->real_path, transfer->config->path)) {
        return transfer_stop(transfer, WEIR_E_SYSTEM,
                             "cannot be made again, for want of its folder: %s", strerror(errno));
    }
    file_successor_path(transfer->made_path, transfer->real_path, transfer->status.st_ino);
    enum weir_status status =
        transfer_make(transfer, stamp->table_bytes, stamp->regions[FILE_REGION_EVENTS].bytes);
    status = status == WEIR_OK ? transfer_move(transfer, &NAMING) : status;
    if (status == WEIR_OK) {
        struct weir_error ignored;
        transfer->error = &ignored;
        (void)transfer_write(transfer);
    }
    return status;
}

/* ---- another file ---- */

static enum weir_status must_lead_there(struct transfer *transfer)
{
    const struct membership *there = &transfer->into.table->members;
    struct stat now;
    bool leads = stat(transfer->config->path, &now) == 0 && now.st_dev == there->device
                 && now.st_ino == there->inode;
    return leads ? WEIR_OK : overtaken(transfer);
}

static enum weir_status keep_name(struct transfer *transfer)
{
    (void)transfer;
    return WEIR_OK;
}

static enum weir_status check_clock(const struct transfer *transfer)
{
    uint64_t ours_ns = store_clock_now_ns(&transfer->from.table->clock);
    uint64_t theirs_ns = store_clock_now_ns(&transfer->into.table->clock);
    uint64_t off_ns = ours_ns > theirs_ns ? ours_ns - theirs_ns : theirs_ns - ours_ns;
    if (transfer->config->is_caller_clock || off_ns < CLOCK_OFF_NS_MAX) {
        return WEIR_OK;
    }
    return transfer_stop(transfer, WEIR_E_FILE,
                         "has a clock that is %" PRIu64 " s off that of the file before it",
                         off_ns / CLOCK_OFF_NS_MAX);
}

static enum weir_status go_there(struct transfer *transfer, const struct file_config *config)
{
    static const struct naming NAMING = {.look = must_lead_there, .give = keep_name};
    enum weir_status status = opening_run(&transfer->into, config, transfer->error);
    status = status == WEIR_OK ? check_clock(transfer) : status;
    return status == WEIR_OK ? transfer_move(transfer, &NAMING) : status;
}

/* ---- the whole ---- */

/* The old file has no name. *again: it is not so, or somebody else has done this. */
static enum weir_status leave_file(struct regaining *regaining, const struct stat *old,
                                   enum store_name name, bool *again)
{
    struct resize_report moved = {.carried_count = 0};
    struct transfer transfer = {.config = &regaining->config,
                                .report = &moved,
                                .error = regaining->error,
                                .into = {.fd = -1},
                                .status = *old};
    const struct file_config *config = &regaining->origin->config;
    enum weir_status status =
        opening_again(&transfer.from, table_current(regaining->store), config, regaining->error);
    status = status == WEIR_OK ? opening_keep_origin(&transfer.from) : status;
    if (status == WEIR_OK && !transfer_lock(&transfer)) {
        *again = true;
    } else if (status == WEIR_OK) {
        status = name == STORE_DELETED ? carry(&transfer) : go_there(&transfer, config);
        *again = transfer.is_overtaken;
    }
    if (status == WEIR_OK && !*again) {
        *regaining->regained = (struct store_regained){
            .outcome = name == STORE_DELETED ? STORE_CARRIED : STORE_EXCHANGED,
            .bucket_count = moved.carried_count,
            .waiting_count = moved.waiting_count,
            .held_ns = moved.held_ns,
        };
    }
    transfer_end(&transfer);
    return status;
}

/* Whose name this process cannot see, or whose content is another store's. */
static enum weir_status refuse_unknown(struct regaining *regaining, enum store_name name)
{
    struct stat status;
    if (name == STORE_UNSEEN && stat(regaining->origin->path, &status) != 0) {
        return fail(regaining->error, WEIR_E_FILE, 0, "%.*s cannot be looked at: %s", PATH_SHOWN,
                    regaining->origin->path, strerror(errno));
    }
    return fail(regaining->error, WEIR_E_FILE, 0,
                "another store was copied into %.*s: only a restart goes on in that", PATH_SHOWN,
                regaining->origin->path);
}

/* One attempt. */
static enum weir_status regain(struct regaining *regaining, enum store_name name, bool *again)
{
    const struct table *table = table_current(regaining->store);
    struct stat status;
    if (name == STORE_UNSEEN || name == STORE_OVERWRITTEN) {
        return refuse_unknown(regaining, name);
    }
    int fd = membership_open_file(&table->members);
    if (fd < 0 || fstat(fd, &status) != 0) {
        return fail(regaining->error, WEIR_E_SYSTEM, 0, "cannot open %.*s once more: %s",
                    PATH_SHOWN, regaining->origin->path, strerror(errno));
    }
    enum weir_status result = status.st_nlink == 0    ? leave_file(regaining, &status, name, again)
                              : name == STORE_DELETED ? link_again(regaining, fd, again)
                                                      : refuse_two(regaining, fd);
    (void)close(fd);
    return result;
}

/* The name as it is now, in the file where the buckets are now; not while they move. False: they are out of reach. */
static bool look(struct regaining *regaining, enum store_name *name)
{
    struct store *store = regaining->store;
    do {
        struct table *table = table_current(store);
        if (!file_settle(table, regaining->origin->path)
            && file_go_on(table, regaining->error) != WEIR_OK) {
            return false;
        }
        *name = table_look_at_name(store);
    } while (file_phase(table_current(store)->mapping.at) != FILE_STAYS); // another has begun
    return true;
}

enum weir_status table_regain_name(struct store *store, struct line_mover *lines, uint64_t now_ns,
                                   struct store_regained *regained, struct weir_error *error)
{
    const struct file_origin *origin = ((const struct table *)store)->origin;
    enum weir_status status = WEIR_OK;
    enum store_name name;
    *regained = (struct store_regained){.outcome = STORE_AS_IT_WAS};
    if (origin == NULL) {
        return WEIR_OK;
    }
    struct regaining regaining = {.store = store,
                                  .origin = origin,
                                  .config = {.path = origin->path,
                                             .is_caller_clock = origin->config.is_caller_clock,
                                             .now_ns = now_ns,
                                             .lines = lines},
                                  .regained = regained,
                                  .error = error};
    for (int i = 0; i < REGAIN_TRIES; i++) {
        bool again = false;
        if (!look(&regaining, &name)) {
            return WEIR_E_FILE;
        }
        if (name == STORE_NAMED) {
            return WEIR_OK;
        }
        status = regain(&regaining, name, &again);
        if (status != WEIR_OK && !again) {
            return status;
        }
    }
    return status != WEIR_OK ? status
                             : fail(error, WEIR_E_SYSTEM, 0, "%.*s is being replaced all the time",
                                    PATH_SHOWN, origin->path);
}
