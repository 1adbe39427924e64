/* SPDX-License-Identifier: MIT
 *
 * The query of a URL, as forms write it (application/x-www-form-urlencoded): NAME=VALUE joined by
 * '&', percent-encoded, '+' for a space. */
#ifndef WEIR_PROTOCOL_HTTP1_QUERY_H
#define WEIR_PROTOCOL_HTTP1_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/bytes.h"

/* Splits a target at its first '?'. */
void query_split(struct bytes target, struct bytes *path, struct bytes *query);

/* Takes the next NAME[=VALUE] from the front of *rest; both still encoded. False at the end. */
bool query_next(struct bytes *rest, struct bytes *name, struct bytes *value);

/* Decodes `value`, which becomes a slice of the input if nothing was encoded in it, and otherwise
 * of `room`, where value->length bytes must be free; *used says how many of them were needed.
 *   false  a '%' that two hex digits do not follow: value->at is then there */
bool query_decode(struct bytes *value, char *room, size_t *used);

#endif
