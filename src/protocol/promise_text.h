/* SPDX-License-Identifier: MIT
 *
 * What a limit promises, as a sentence ends: "login is limited to 5 per 1 min". */
#ifndef WEIR_PROTOCOL_PROMISE_TEXT_H
#define WEIR_PROTOCOL_PROMISE_TEXT_H

#include "core/bytes.h"
#include "weir/limit.h"

enum { PROMISE_TEXT_MAX = WEIR_LIMIT_TEXT_MAX + 64 };

/* Writes "25/5s capacity=30" as "25 per 5 s, at most 30 at once", without a NUL, at most PROMISE_TEXT_MAX
 * bytes; returns where that ends. `words` are those from which the limit was made. */
char *promise_put_text(char *at, struct bytes words, const struct weir_limit *limit);

#endif
