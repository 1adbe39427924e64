/* SPDX-License-Identifier: MIT
 *
 * What a load is made of: the bytes of each request and what the answers mean, in RESP and HTTP. */
#ifndef WEIR_CLI_BENCH_LOAD_H
#define WEIR_CLI_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "protocol/buffer.h"
#include "weir/limit.h"

enum load_protocol { LOAD_RESP, LOAD_HTTP };

enum load_command {
    LOAD_TAKE,
    LOAD_CAN_TAKE,
    LOAD_FILL,
    LOAD_REFUND,
    LOAD_SHOW,
    LOAD_THROTTLE, // CL.THROTTLE, RESP only
    LOAD_CHECK,    // GET /v1/check, HTTP only
    LOAD_PING,     // PING, or GET /healthz: no decision
    LOAD_COMMAND_COUNT
};

extern const char *const LOAD_COMMAND_NAMES[LOAD_COMMAND_COUNT];

#define LOAD_KEY_COUNT_MAX 1000000000 // "bench:" and nine digits

enum { LOAD_REQUEST_BYTES_MAX = 2048, LOAD_PROBLEM_MAX = 160, LOAD_REPLY_BYTES_MAX = 64 * 1024 };

/* Every request is this, apart from the digits of its key. */
struct load {
    enum load_protocol protocol;
    enum load_command command;
    bool has_key;
    size_t key_offset; // of the digits
    size_t length;
    char bytes[LOAD_REQUEST_BYTES_MAX];
};

/* What the requests say. Texts, since that is what goes over the wire; `limit` also compiled, or the
 * first of `limit_count`. */
struct load_config {
    enum load_protocol protocol;
    enum load_command command;
    const char *limit;
    size_t limit_count;
    struct weir_limit_config limit_config;
    const char *cost;      // NULL: 1
    struct bytes password; // HTTP sends it with every request; length 0: none
};

/* False, and says in `problem` why, where the protocol has no such command, or CL.THROTTLE no such
 * limit. */
bool load_init(struct load *load, const struct load_config *config, char problem[LOAD_PROBLEM_MAX]);

/* Appends one request about a key. */
void load_append(const struct load *load, uint64_t key_index, struct buffer *output);

enum load_verdict {
    LOAD_ALLOWED,
    LOAD_LIMITED,
    LOAD_NEVER,
    LOAD_UNDECIDED, // verdict `error`
    LOAD_PLAIN,     // an answer without a verdict: to PING
    LOAD_FAILED,    // an error reply
    LOAD_VERDICT_COUNT
};

enum load_result { LOAD_DONE, LOAD_MORE, LOAD_BAD };

/* Reads one reply from the front of `input`. Pure. *text is a line of it for people. */
enum load_result load_read(const struct load *load, struct bytes input, enum load_verdict *verdict,
                           struct bytes *text, size_t *used);

#endif
