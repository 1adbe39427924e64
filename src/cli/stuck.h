/* SPDX-License-Identifier: MIT
 *
 * A command that decides in a file ends with a sentence if the file does not let it go on: because a process is
 * stopped that holds a lock of it, or because the file is damaged.
 *
 *     stuck_begin(url);
 *     stuck_watch(STUCK_S);
 *     ...
 *     stuck_end();
 *
 * Startup and main thread only: it sets SIGALRM and SIGABRT. */
#ifndef WEIR_CLI_STUCK_H
#define WEIR_CLI_STUCK_H

#include <stdint.h>

enum { STUCK_S = 8 }; // what a decision never takes, however busy the machine is

/* What to name in the sentence. */
void stuck_begin(const char *url);

/* Gives the command so many seconds from now on; then, in case that it was itself stopped meanwhile, one or two
 * more. Then it ends with 3. */
void stuck_watch(uint64_t seconds);

void stuck_end(void);

#endif
