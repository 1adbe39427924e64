/* SPDX-License-Identifier: MIT
 *
 * Strings in JSON, on the way out. */
#ifndef WEIR_PROTOCOL_JSON_TEXT_H
#define WEIR_PROTOCOL_JSON_TEXT_H

#include "core/bytes.h"

/* What a byte may become at most: \u00XX. */
enum { JSON_ESCAPED_BYTES_MAX = 6 };

/* Writes `text` at `at` as it stands between the quotes of a JSON string, and returns the end.
 * Whatever the bytes are, what comes out is ASCII or the UTF-8 that was there: bytes that are no
 * UTF-8 (RFC 3629) become U+FFFD. There must be room for JSON_ESCAPED_BYTES_MAX per byte. */
char *json_put_escaped(char *at, struct bytes text);

#endif
