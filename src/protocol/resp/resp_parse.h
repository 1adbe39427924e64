/* SPDX-License-Identifier: MIT
 *
 * Reads the commands that Redis clients send: arrays of bulk strings, and inline commands as people
 * type them.
 *
 *     *3\r\n$9\r\nWEIR.TAKE\r\n$5\r\nalice\r\n$4\r\n10/s\r\n
 *     WEIR.TAKE alice 10/s\r\n
 *
 * The limits are those of a rate limiter, far below Redis': a key is short, and so is a command. */
#ifndef WEIR_PROTOCOL_RESP_RESP_PARSE_H
#define WEIR_PROTOCOL_RESP_RESP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"

enum {
    RESP_ARG_COUNT_MAX = 1024,
    RESP_BULK_BYTES_MAX = 64 * 1024,
    RESP_COMMAND_BYTES_MAX = 192 * 1024, // a whole command, framing included
    RESP_INLINE_BYTES_MAX = 64 * 1024,   // one line, its end included
    RESP_NUMBER_BYTES_MAX = 32,          // "*3\r\n": a line that holds one number

    /* Of a client that has not said the password yet: AUTH and HELLO need no more. Redis 7 (networking.c) has
     * the same number of arguments, of 16 KiB each. */
    RESP_STRANGER_ARG_COUNT_MAX = 10,
    RESP_STRANGER_BULK_BYTES_MAX = 1024, // every password fits
    RESP_STRANGER_BYTES_MAX = 4 * 1024,  // a whole command, and all commands together
};

/* One command. The slices point into the input, or into `unquoted` where an inline argument was
 * written in quotes. */
struct resp_command {
    size_t arg_count; // 0: nothing was asked (an empty line, "*0"); go on
    struct bytes args[RESP_ARG_COUNT_MAX];
    bool is_inline;
    char unquoted[RESP_INLINE_BYTES_MAX];
};

enum resp_result {
    RESP_DONE, // *command is filled, `used` bytes are consumed
    RESP_MORE, // a valid beginning: call again when the input has at least `need` bytes
    RESP_BAD,  // can never become valid: answer with `error`, then close
};

/* What a parser says beside the command. All zeroes at first; kept by the caller while a command is
 * incomplete, so that a byte at a time does not cost a square. */
struct resp_progress {
    size_t used;       // RESP_DONE
    size_t need;       // RESP_MORE: with fewer bytes it cannot become whole (but be bad already)
    size_t searched;   // bytes at the front that hold no end of an inline command
    const char *error; // RESP_BAD: the text of Redis, "Protocol error: .."
    char error_text[64];
};

/* Parses one command from the front of `input`. Pure: no I/O, no allocation; remembers nothing but
 * *progress.
 *   is_stranger  the tighter limits of a client that has not said the password */
enum resp_result resp_parse(struct bytes input, bool is_stranger, struct resp_command *command,
                            struct resp_progress *progress);

#endif
