/* SPDX-License-Identifier: MIT
 *
 * What the operating system knows about this process. */
#ifndef WEIR_SERVER_PROCESS_H
#define WEIR_SERVER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process_usage {
    uint64_t user_cpu_us, system_cpu_us;
    uint64_t resident_bytes, resident_bytes_max, virtual_bytes;
    uint64_t open_fds, max_fds;
};

/* What cannot be found out is 0. Thread-safe. */
void process_usage_read(struct process_usage *usage);

/* Opens /dev/null in place of whichever of standard input, output and error is closed: otherwise a
 * client's socket could become fd 2, and the log go there. False if it cannot. Startup only. */
bool process_hold_standard_fds(void);

/* Gives memory that was freed, and that the allocator keeps, back to the system. May take milliseconds per 100 MiB,
 * in which other threads that allocate wait. Thread-safe. */
void process_trim_memory(void);

/* How many processors this process may run on: less than the machine's in a container or under
 * taskset. At least 1. */
size_t process_processor_count(void);

/* Raises the soft limit on open files to the hard one, and returns it. Startup only. */
uint64_t process_raise_fd_limit(void);

#endif
