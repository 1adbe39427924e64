/* SPDX-License-Identifier: MIT
 *
 * A strict reader of HTTP/1.1 requests (RFC 9112). It finds where a request ends, and what of its
 * head matters to weir; what two servers could read in two ways it refuses.
 *
 *     struct http1_request request = {0};
 *     switch (http1_parse(&request, input, &used)) { ... }
 *
 * Nothing is copied: a slice is a place in the input, counted from the request's first byte. */
#ifndef WEIR_PROTOCOL_HTTP1_PARSE_H
#define WEIR_PROTOCOL_HTTP1_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"

enum {
    HTTP1_LINE_BYTES_MAX = 8 * 1024,      // RFC 9112, section 3: at least 8000 is recommended
    HTTP1_HEADER_BYTES_MAX = 16 * 1024,   // all field lines, RFC 9110, section 5.4; trailers too
    HTTP1_FIELD_COUNT_MAX = 100,          // likewise
    HTTP1_BODY_BYTES_MAX = 64 * 1024,     // after decoding
    HTTP1_CHUNK_DIGITS_MAX = 8,           // RFC 9112, section 7.1: guard against overflow
    HTTP1_CHUNK_LINE_BYTES_MAX = 256,     // with extensions, RFC 9112, section 7.1.1
    HTTP1_CHUNKED_BYTES_MAX = 128 * 1024, // a chunked body as it stands on the wire
    HTTP1_CONTENT_LENGTH_DIGITS_MAX = 18, // fits 64 bits; RFC 9110, section 8.6
};

enum http1_method {
    HTTP1_UNKNOWN, // RFC 9110, section 9.1: 501
    HTTP1_GET,
    HTTP1_HEAD,
    HTTP1_POST,
    HTTP1_PUT,
    HTTP1_DELETE,
    HTTP1_CONNECT,
    HTTP1_OPTIONS,
    HTTP1_TRACE,
    HTTP1_PATCH // RFC 5789
};

/* Fields that are remembered; all others are checked and forgotten. */
enum http1_field {
    HTTP1_HOST,
    HTTP1_CONTENT_LENGTH,
    HTTP1_TRANSFER_ENCODING,
    HTTP1_CONNECTION,
    HTTP1_EXPECT,
    HTTP1_AUTHORIZATION,
    HTTP1_X_FORWARDED_FOR,
    HTTP1_X_WEIR_KEY,
    HTTP1_X_WEIR_COST,
    HTTP1_ORIGIN,
    HTTP1_SEC_FETCH_SITE,
    HTTP1_FIELD_COUNT
};

struct http1_slice {
    uint32_t at;
    uint32_t length;
};

/* What http1_parse() is in the middle of. A request goes down the list, some leave lines out. */
enum http1_phase {
    HTTP1_IN_REQUEST_LINE,
    HTTP1_IN_FIELDS,
    HTTP1_IN_BODY, // Content-Length says how much
    HTTP1_IN_CHUNK_LINE,
    HTTP1_IN_CHUNK_DATA, // and the CRLF behind it
    HTTP1_IN_TRAILERS,
    HTTP1_AT_END
};

/* All zeroes is a request of which nothing has been seen. */
struct http1_request {
    /* Valid once `phase` is beyond HTTP1_IN_FIELDS. */
    enum http1_method method;
    bool is_http10;
    bool close;            // the connection ends after this request
    bool keep_alive;       // an HTTP/1.0 client asked for it, and wants to be told
    bool expects_continue; // RFC 9110, section 10.1.1
    bool is_chunked;
    uint16_t seen;                               // bit f: enum http1_field f was there ..
    uint16_t repeated;                           // .. more than once
    struct http1_slice target;                   // never empty, printable ASCII
    struct http1_slice fields;                   // the field lines, for http1_field_next()
    struct http1_slice field[HTTP1_FIELD_COUNT]; // the value; of the last line if repeated
    struct http1_slice body;                     // as on the wire: http1_body_copy()
    uint32_t body_bytes;                         // decoded

    /* After HTTP1_BAD: what to answer (400, 413, 414, 417, 431, 501, 505), what was wrong, and at
     * which byte of the request. */
    unsigned status;
    const char *reason;
    uint32_t bad_at;

    /* Where the reader stands. */
    enum http1_phase phase;
    uint32_t line_at; // the current line's first byte; or of the chunk's data
    uint32_t scanned; // up to here the line has neither an end nor anything forbidden
    uint32_t field_count;
    uint32_t field_bytes;
    uint32_t chunk_bytes; // how much data the chunk has
};

enum http1_result {
    HTTP1_DONE, // the request is complete; *used bytes are its own
    HTTP1_MORE, // a valid beginning; call again when more bytes have arrived
    HTTP1_BAD   // can never become valid; answer request->status and close
};

/* Reads one request from the front of `input`.
 *   request  all zeroes for a new one; after HTTP1_MORE the same again
 *   input    from the request's first byte; after HTTP1_MORE the same bytes and more, at any address
 *   used     set when done
 * No I/O, no allocation. Looks at each byte a bounded number of times, however they arrive. */
enum http1_result http1_parse(struct http1_request *request, struct bytes input, size_t *used);

static inline struct bytes http1_slice_bytes(const char *base, struct http1_slice slice)
{
    return (struct bytes){base + slice.at, slice.length};
}

static inline bool http1_has(const struct http1_request *request, enum http1_field field)
{
    return (request->seen >> field & 1) != 0;
}

/* Steps through request->fields of a complete request: false at the end.
 *   at  0 to begin with */
bool http1_field_next(struct bytes fields, size_t *at, struct bytes *name, struct bytes *value);

/* Writes the decoded body, request->body_bytes of a complete request, to `body`. */
void http1_body_copy(const struct http1_request *request, const char *base, char *body);

/* True if `text` is `lower`, a lower-case NUL-terminated word, without regard to case. */
bool http1_is_word(struct bytes text, const char *lower);

/* The names that RFC 9110 knows: "GET"; "?" for HTTP1_UNKNOWN. */
const char *http1_method_name(enum http1_method method);

#endif
