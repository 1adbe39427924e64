/* SPDX-License-Identifier: MIT
 *
 * Saying what went wrong: fills the caller's weir_error, if there is one, and passes the status on. */
#ifndef WEIR_CORE_FAIL_H
#define WEIR_CORE_FAIL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "weir/status.h"

__attribute__((format(printf, 4, 5))) static inline enum weir_status
fail(struct weir_error *error, enum weir_status status, size_t offset, const char *format, ...)
{
    if (error != NULL) {
        va_list args;
        va_start(args, format);
        error->offset = offset;
        (void)vsnprintf(error->message, sizeof error->message, format, args);
        va_end(args);
    }
    return status;
}

#endif
