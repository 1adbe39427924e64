/* SPDX-License-Identifier: MIT
 *
 * How a process ends whose file of buckets does not let it go on: with 3, and by a sentence or a line of its log.
 *
 *   store_cut      SIGBUS   the file was cut short while it was open, or its disk has failed
 *   store_damaged  SIGABRT  what is in the file has failed an assertion, or weir has a bug
 *   store_stuck    SIGALRM  a process that is stopped holds a lock of the file, or the file is damaged
 *
 *     store_end_begin(url, NULL);
 *     store_end_watch(STUCK_S);
 *     ...
 *     store_end_unwatch();
 *
 * Startup and main thread only. */
#ifndef WEIR_SERVER_STORE_END_H
#define WEIR_SERVER_STORE_END_H

#include <stdint.h>

#include "server/log.h"

enum { STUCK_S = 8 };              // what a decision never takes, however busy the machine is
enum { SCANNED_PER_S = 64 << 20 }; // bytes of a file that is looked through: at least as many

/* Ends the process so from now on. `log` NULL: by a sentence on standard error. The log stays the caller's. */
void store_end_begin(const char *url, struct log *log);

/* Gives the process so many seconds from now on; then, in case that it was itself stopped meanwhile, one or two
 * more. Then it is stuck. */
void store_end_watch(uint64_t seconds);

/* The same with STUCK_S, if the file is there. Making one takes as long as the disk does. */
void store_end_watch_opening(void);

void store_end_unwatch(void);

#endif
