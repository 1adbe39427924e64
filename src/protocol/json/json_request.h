/* SPDX-License-Identifier: MIT
 *
 * A question in JSON:
 *
 *     {"key": "login:alice", "limit": "10/s", "cost": 1, "wait_ms": 500}
 *     {"key": "login:alice", "limit": ["10/s", "100/min"]}
 *
 * and about several keys at once:
 *
 *     {"limits": [{"key": "user:alice", "limit": "10/s"}, {"key": "everyone", "limit": "1000/s"}]}
 *
 * Where the limit is a chain of the configuration, "vars" has what its keys are made of:
 *
 *     {"limit": "request", "vars": {"user": "alice", "tenant": "acme"}}
 *
 * The key is any string of 1 .. WEIR_KEY_BYTES_MAX bytes of UTF-8, "\u0000" included. An array of
 * limits is the list that its strings make, joined by commas (limiter/limit_list.h). The cost is 1
 * unless said: an integer, a decimal string ("0.25"), or a number with a fraction, which is read to
 * the nearest millionth. Nobody waits unless he says so. Who blocks a key says for how long:
 *
 *     {"key": "login:alice", "limit": "5/min", "block_ms": 900000} */
#ifndef WEIR_PROTOCOL_JSON_REQUEST_H
#define WEIR_PROTOCOL_JSON_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "limiter/limit_list.h"
#include "limiter/names/names.h"
#include "weir/limit.h"
#include "weir/limiter.h"

enum { JSON_ERROR_TEXT_MAX = 320 };

/* A key, and its limit or a list of them, not yet read: 1 .. LIMIT_LIST_TEXT_MAX bytes. The texts are
 * the caller's memory; `key` may hold any bytes, and has none where it was not said. */
struct json_pair {
    struct bytes key;
    struct bytes limit;
};

struct json_question {
    size_t pair_count; // 1; about several keys 1 .. LIMIT_LIST_COUNT_MAX
    struct json_pair pairs[LIMIT_LIST_COUNT_MAX];
    uint64_t cost_micro;
    uint64_t wait_ns;
    uint64_t block_ns;
    bool has_cost;              // false: nothing was said, and it is 1
    bool has_wait;              // false: nothing was said, and it is 0
    bool has_block;             // the same
    struct variables variables; // for chains; the texts in the caller's room, too
};

enum json_form {
    JSON_ONE_KEY,     // "key" and "limit"
    JSON_SEVERAL_KEYS // "limits"
};

enum json_result {
    JSON_OK,
    JSON_BAD,      // `error` says what, and where: for a person
    JSON_NO_MEMORY // there is none at the moment
};

/* Reads a question of this form from `body`.
 *   room   where the texts go: as many bytes as the body has
 *   used   how many bytes of it were needed
 *   error  at least JSON_ERROR_TEXT_MAX bytes; filled after JSON_BAD
 * Unknown fields, fields given twice and anything behind the object are refused. Nothing is kept:
 * what it allocates on the way it releases. */
enum json_result json_question_read(struct json_question *question, enum json_form form,
                                    struct bytes body, char *room, size_t *used, char *error);

#endif
