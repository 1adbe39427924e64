/* SPDX-License-Identifier: MIT
 *
 * Lines of a file or a pipe, read in large pieces and never copied:
 *
 *     for (;;) {
 *         switch (input_next(&input, &line)) {
 *         case INPUT_LINE: ...             // slices stay good until input_refill()
 *         case INPUT_DRY: use what was kept; input_refill(&input); */
#ifndef WEIR_CLI_SIMULATE_INPUT_H
#define WEIR_CLI_SIMULATE_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"

enum { INPUT_BYTES = 1 << 20, INPUT_LINE_BYTES_MAX = 65535 };

struct input {
    int fd;
    char *buffer; // INPUT_BYTES
    size_t begin, end;
    bool ended;             // nothing more will come
    bool skipping;          // inside a line that is too long
    int failed;             // errno of a read that failed, or 0
    uint64_t line_number;   // of the line that was returned last
    uint64_t bytes_read;    // so far
    uint64_t bytes_left;    // that may still be read
    uint64_t bytes_at_most; // the size of a file; 0: not known
    bool is_file;           // and not a pipe or a terminal
    uint64_t origin;        // where in the file it began
};

enum input_status {
    INPUT_LINE, // *line, without its end
    INPUT_LONG, // a line of more than INPUT_LINE_BYTES_MAX, which is passed over
    INPUT_DRY,  // no whole line is here
    INPUT_END
};

/* Opens a file; NULL or "-" is standard input. False, with errno. */
bool input_open(struct input *input, const char *path);
void input_close(struct input *input);

enum input_status input_next(struct input *input, struct bytes *line);

/* Begins once more, with the bytes that have been read and none that have come behind them since. False if they
 * cannot be read again: they came through a pipe. */
bool input_again(struct input *input);

/* Reads on. What was returned before is gone. A read that fails, or that a signal interrupts, ends the
 * input. */
void input_refill(struct input *input);

#endif
