/* SPDX-License-Identifier: MIT
 *
 * How far a pipe is, on standard error: "1200 lines  5/s  4 min", once a second and at the end. On a
 * terminal one line, written over and over. */
#ifndef WEIR_CLI_PIPE_METER_H
#define WEIR_CLI_PIPE_METER_H

#include <stdbool.h>
#include <stdint.h>

struct meter {
    bool shows;
    bool by_bytes;
    bool on_terminal;
    uint64_t count; // lines or bytes that have left
    uint64_t start_ns;
    uint64_t next_ns; // when it is shown next; UINT64_MAX: never
};

void meter_start(struct meter *meter, bool shows, bool by_bytes, uint64_t now_ns);

/* Shows it, and sets when it is next. */
void meter_show(struct meter *meter, uint64_t now_ns);

/* Shows it for the last time. */
void meter_end(struct meter *meter, uint64_t now_ns);

#endif
