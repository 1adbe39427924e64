/* SPDX-License-Identifier: MIT
 *
 * A file of another size for the same buckets: everything moves to one that is made beside it (transfer.c), and
 * that one is renamed over the first. */
#include "store/table/resize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "store/table/transfer.h"

enum {
    RESIZE_TRIES = 16,    // others may resize it at the same time
    LOAD_MAX_PERCENT = 80 // see README.md
};

/* Whether the file can be replaced under its name, and what has to be kept. */
static enum weir_status look_at_name(struct transfer *transfer)
{
    if (!file_real_path(transfer->real_path, transfer->config->path)
        || fstat(transfer->from.fd, &transfer->status) != 0) {
        return transfer_stop(transfer, WEIR_E_SYSTEM, "cannot be found: %s", strerror(errno));
    }
    file_successor_path(transfer->made_path, transfer->real_path, transfer->status.st_ino);
    if (transfer->status.st_nlink != 1) {
        return transfer_stop(
            transfer, WEIR_E_FILE,
            "has other names too, hard links, and would get its new size under one of them");
    }
    return WEIR_OK;
}

static enum weir_status must_be_named(struct transfer *transfer)
{
    struct stat now;
    bool is_named = stat(transfer->real_path, &now) == 0 && now.st_ino == transfer->status.st_ino
                    && now.st_dev == transfer->status.st_dev;
    return is_named ? WEIR_OK
                    : transfer_stop(transfer, WEIR_E_FILE, "has been moved or replaced meanwhile");
}

static enum weir_status rename_over(struct transfer *transfer)
{
    (void)rename(transfer->made_path,
                 transfer->real_path); // else the next one that opens it does
    return WEIR_OK;
}

/* Whether it is worth a try: takes would be held up in vain. */
static enum weir_status check_room(const struct transfer *transfer, uint64_t now_ns)
{
    uint64_t bytes = transfer->config->bytes;
    struct table_shape shape =
        table_shape_of(bytes - FILE_HEADER_BYTES - table_waiting_bytes(bytes));
    uint64_t slot_count = shape.stripe_count * shape.stripe_lines * TABLE_LINE_SLOTS;
    uint64_t live_count = table_live_count(transfer->from.table, now_ns);
    if (live_count > slot_count / 100 * LOAD_MAX_PERCENT) {
        return transfer_stop(transfer, WEIR_E_RANGE,
                             "holds %" PRIu64 " buckets, too many for %" PRIu64 " bytes",
                             live_count, bytes);
    }
    return WEIR_OK;
}

/* How much memory for events: as it was beside the table; though no chunk that was ever taken is given up. */
static uint64_t choose_events_bytes(const struct transfer *transfer)
{
    const struct file_stamp *stamp = &transfer_header(transfer->from.table)->stamp;
    const struct resize_config *config = transfer->config;
    uint64_t bytes = config->events_bytes;
    if (bytes == 0 && stamp->table_bytes == config->bytes) {
        bytes = stamp->regions[FILE_REGION_EVENTS].bytes;
    } else if (bytes == 0) {
        uint128 product = (uint128)stamp->regions[FILE_REGION_EVENTS].bytes * config->bytes;
        uint128 share = product / stamp->table_bytes;
        uint64_t least = (event_pool_fresh_count(&transfer->from.table->events) + 1) * CHUNK_BYTES;
        bytes = share < WEIR_EVENTS_BYTES_MAX ? (uint64_t)share : WEIR_EVENTS_BYTES_MAX;
        bytes = bytes < WEIR_EVENTS_BYTES_MIN ? WEIR_EVENTS_BYTES_MIN : bytes;
        bytes = bytes < least ? least : bytes;
    }
    return bytes - bytes % CHUNK_BYTES;
}

static enum weir_status replace(struct transfer *transfer)
{
    static const struct naming OVER = {.look = must_be_named, .give = rename_over};
    const struct resize_config *config = transfer->config;
    enum weir_status status = look_at_name(transfer);
    status = status == WEIR_OK ? check_room(transfer, transfer_now_ns(transfer)) : status;
    status = status == WEIR_OK
                 ? transfer_make(transfer, config->bytes, transfer->report->events_bytes)
                 : status;
    status = status == WEIR_OK ? transfer_move(transfer, &OVER) : status;
    return status == WEIR_OK ? transfer_write(transfer) : status;
}

/* All steps, with the file that has this name now. *again: another one was faster. */
static enum weir_status resize_once(struct transfer *transfer, bool *again)
{
    struct resize_report *report = transfer->report;
    const struct file_stamp *stamp = &transfer_header(transfer->from.table)->stamp;
    *again = false;
    report->from_bytes = stamp->table_bytes;
    report->from_events_bytes = stamp->regions[FILE_REGION_EVENTS].bytes;
    report->events_bytes = choose_events_bytes(transfer);
    if (report->from_bytes == transfer->config->bytes
        && report->from_events_bytes == report->events_bytes) {
        return WEIR_OK;
    }
    if (!transfer_lock(transfer)) {
        *again = true;
        return WEIR_OK;
    }
    return replace(transfer);
}

enum weir_status resize_file(const struct resize_config *config, struct resize_report *report,
                             struct weir_error *error)
{
    struct file_config file = {
        .path = config->path, .must_exist = true, .is_caller_clock = config->is_caller_clock};
    bool again = true;
    enum weir_status status = WEIR_OK;
    for (int i = 0; i < RESIZE_TRIES && again; i++) {
        struct transfer transfer = {
            .config = config, .report = report, .error = error, .into = {.fd = -1}};
        *report = (struct resize_report){0};
        status = opening_run(&transfer.from, &file, error);
        status = status == WEIR_OK ? opening_keep_origin(&transfer.from) : status;
        status = status == WEIR_OK ? resize_once(&transfer, &again) : status;
        again = again && status == WEIR_OK;
        transfer_end(&transfer);
    }
    return again ? fail(error, WEIR_E_SYSTEM, 0, "%.*s is being resized all the time", PATH_SHOWN,
                        config->path)
                 : status;
}
