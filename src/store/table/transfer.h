/* SPDX-License-Identifier: MIT
 *
 * Moving everything from one file to another while processes use it: for resize.c, which gives a file
 * another size, and for regain.c, where it has lost its name. transfer.c opens with the steps.
 *
 *     struct transfer transfer = {.config = &config, .report = &report, .error = error, .into = {.fd = -1}};
 *     ... open transfer.from
 *     transfer_lock(&transfer)              one at a time
 *     transfer_make(&transfer, ...)         the other file
 *     transfer_move(&transfer, &naming)     the buckets, and all that lies beside them
 *     transfer_write(&transfer)             to the disk
 *     transfer_end(&transfer) */
#ifndef WEIR_STORE_TABLE_TRANSFER_H
#define WEIR_STORE_TABLE_TRANSFER_H

#include <sys/stat.h>

#include "store/table/file_opening.h"
#include "store/table/resize.h"

enum { PATH_SHOWN = 200 }; // of a path, in a message

/* One attempt.
 *   made       what `into` is, if this attempt has made it. If made.path is NULL it was there: then nothing is
 *              carried. Everybody goes on there, those who wait join its lines, and what the buckets held is lost
 *   is_overtaken  it has come to nothing because the name leads elsewhere now: worth another attempt
 *   status     of the old file
 *   real_path  where the new file will be; made_path: the name that it has before that */
struct transfer {
    const struct resize_config *config;
    struct resize_report *report;
    struct weir_error *error;
    struct opening from;
    struct opening into;
    struct file_config made;
    bool is_overtaken;
    struct stat status;
    char real_path[STORE_PATH_MAX];
    char made_path[FILE_NAME_MAX];
};

/* What is to become of the name. Both run under all locks.
 *   look()  before the step that counts; not WEIR_OK: it does not come to that
 *   give()  after that step, with the same answer: the step is taken back then, and nobody has seen it */
struct naming {
    enum weir_status (*look)(struct transfer *transfer);
    enum weir_status (*give)(struct transfer *transfer);
};

struct file_header *transfer_header(const struct table *table);

/* The reading of the clock by which this transfer goes. */
uint64_t transfer_now_ns(const struct transfer *transfer);

/* Fails: "PATH <format>; nothing has changed". */
__attribute__((format(printf, 3, 4))) enum weir_status
transfer_stop(const struct transfer *transfer, enum weir_status status, const char *format, ...);

/* Waits for others who move this file, and removes what a dead one has left. False: the buckets are no longer
 * here. */
bool transfer_lock(const struct transfer *transfer);

/* Makes the other file for made_path, complete, with all its pages at hand. */
enum weir_status transfer_make(struct transfer *transfer, uint64_t bytes, uint64_t events_bytes);

/* Moves the buckets, those who wait, and the name. On failure all is as it was, and the file that was made is gone. */
enum weir_status transfer_move(struct transfer *transfer, const struct naming *naming);

/* Writes the new file and its name to the disk. */
enum weir_status transfer_write(struct transfer *transfer);

/* Releases everything. */
void transfer_end(struct transfer *transfer);

#endif
