/* SPDX-License-Identifier: MIT */
#include "platform/futex.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
    struct timespec timeout = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
    (void)syscall(SYS_futex, word, FUTEX_WAIT, value,
                  timeout_ns != FUTEX_FOR_EVER ? &timeout : NULL, NULL, 0);
}

void futex_wake(uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
