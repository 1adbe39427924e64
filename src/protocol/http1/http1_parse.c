/* SPDX-License-Identifier: MIT
 *
 * Reading HTTP/1.1 requests: a line at a time, and each line once.
 *
 * A line is first scanned for its end, eight bytes at a time; the scan stops at every control
 * character, so it also finds what is forbidden in a line (RFC 9110, section 5.5; a bare CR or LF:
 * RFC 9112, section 2.2). Where it stopped is remembered: bytes that trickle in cost no square. */
#include "protocol/http1/http1_parse.h"

#include <assert.h>
#include <string.h>

#include "protocol/http1/http1_scan.h"

static enum http1_result bad(struct http1_request *request, unsigned status, size_t at,
                             const char *reason)
{
    request->status = status;
    request->reason = reason;
    request->bad_at = (uint32_t)at;
    return HTTP1_BAD;
}

/* ---- Characters ---- */

/* Sets of ASCII characters: a bit for each of 0 .. 127. */
struct char_set {
    uint64_t bits[2];
};

/* tchar of RFC 9110, section 5.6.2: letters, digits and ! # $ % & ' * + - . ^ _ ` | ~ */
static const struct char_set TOKEN_CHARS = {
    {UINT64_C(0x03ff6cfa00000000), UINT64_C(0x57ffffffc7fffffe)}};

/* What uri-host [":" port] is made of, RFC 3986, section 3.2: letters, digits, sub-delims and
 * - . _ ~ % : [ ] */
static const struct char_set HOST_CHARS = {
    {UINT64_C(0x2fff7ff200000000), UINT64_C(0x47fffffeaffffffe)}};

static bool is_in_set(char c, const struct char_set *set)
{
    unsigned char byte = (unsigned char)c;
    return byte < 128 && (set->bits[byte >> 6] >> (byte & 63) & 1) != 0;
}

static bool is_token_char(char c)
{
    return is_in_set(c, &TOKEN_CHARS);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool http1_is_word(struct bytes text, const char *word)
{
    for (size_t i = 0; i < text.length; i++) {
        if (word[i] == '\0' || lower(text.at[i]) != word[i]) {
            return false;
        }
    }
    return word[text.length] == '\0';
}

/* The first control character (below 0x20, or 0x7f) in [at, end), or `end`. */
static const char *find_control(const char *at, const char *end)
{
    for (; end - at >= SCAN_BYTES; at += SCAN_BYTES) {
        uint64_t word = scan_load(at);
        uint64_t marks = scan_below(word, 0x20) | scan_equal(word, 0x7f);
        if (marks != 0) {
            return at + scan_first(marks);
        }
    }
    while (at < end && (unsigned char)*at >= 0x20 && *at != 0x7f) {
        at++;
    }
    return at;
}

/* The first byte in [at, end) that is no visible ASCII character (0x21 to 0x7e), or `end`. */
static const char *find_invisible(const char *at, const char *end)
{
    for (; end - at >= SCAN_BYTES; at += SCAN_BYTES) {
        uint64_t word = scan_load(at);
        uint64_t marks = scan_below(word, 0x21) | scan_equal(word, 0x7f) | (word & SCAN_HIGH);
        if (marks != 0) {
            return at + scan_first(marks);
        }
    }
    while (at < end && (unsigned char)(*at - 0x21) <= 0x7e - 0x21) {
        at++;
    }
    return at;
}

/* ---- Lines ---- */

/* Finds the end of the line that begins at request->line_at.
 *   HTTP1_DONE  *line is the line without its CRLF, `scanned` is behind it
 *   HTTP1_MORE  the line has not ended, nor grown beyond `bytes_max`
 *   HTTP1_BAD   `request` says why; too long is `long_status` */
static enum http1_result read_line(struct http1_request *request, struct bytes input,
                                   uint32_t bytes_max, unsigned long_status, struct bytes *line)
{
    const char *end = input.at + input.length;
    const char *at = find_control(input.at + request->scanned, end);
    while (at < end && *at == '\t') {
        at = find_control(at + 1, end);
    }
    size_t offset = (size_t)(at - input.at);
    if (offset - request->line_at > bytes_max) {
        return bad(request, long_status, request->line_at, "the line is too long");
    }
    request->scanned = (uint32_t)offset;
    if (end - at < 2) {
        if (at == end || *at == '\r') {
            return HTTP1_MORE;
        }
    } else if (at[0] == '\r' && at[1] == '\n') {
        *line = (struct bytes){input.at + request->line_at, offset - request->line_at};
        request->scanned += 2;
        return HTTP1_DONE;
    }
    if (*at == '\n') {
        return bad(request, 400, offset, "a line must end with CR LF, not with LF alone");
    }
    return bad(request, 400, offset,
               *at == '\r' ? "a CR that is not followed by LF"
                           : "a control character that is not allowed here");
}

/* ---- The request line: RFC 9112, section 3 ---- */

static const char *const METHOD_NAMES[] = {"?",      "GET",     "HEAD",    "POST",  "PUT",
                                           "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};

const char *http1_method_name(enum http1_method method)
{
    return METHOD_NAMES[method];
}

/* Methods are case-sensitive: RFC 9110, section 9.1. */
static enum http1_method find_method(const char *name, size_t length)
{
    if (length == 3 && memcmp(name, "GET", 3) == 0) {
        return HTTP1_GET;
    }
    for (int i = HTTP1_HEAD; i <= HTTP1_PATCH; i++) {
        if (strlen(METHOD_NAMES[i]) == length && memcmp(METHOD_NAMES[i], name, length) == 0) {
            return (enum http1_method)i;
        }
    }
    return HTTP1_UNKNOWN;
}

/* HTTP-version: RFC 9112, section 2.3. A later minor version is read as 1.1: RFC 9110, 2.5. */
static enum http1_result read_version(struct http1_request *request, const char *text,
                                      size_t length, size_t at)
{
    if (length != 8 || memcmp(text, "HTTP/", 5) != 0 || text[6] != '.' || text[5] < '0'
        || text[5] > '9' || text[7] < '0' || text[7] > '9') {
        return bad(request, 400, at, "the request line must end with HTTP/1.1");
    }
    if (text[5] != '1') {
        return bad(request, 505, at, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    request->is_http10 = text[7] == '0';
    return HTTP1_DONE;
}

/* One space between the three parts, and none anywhere else. */
static enum http1_result read_request_line(struct http1_request *request, struct bytes line)
{
    const char *end = line.at + line.length;
    const char *at = line.at;
    while (at < end && is_token_char(*at)) {
        at++;
    }
    size_t start = request->line_at;
    if (at == line.at || at == end || *at != ' ') {
        return bad(request, 400, start + (size_t)(at - line.at), "a method and a space must begin");
    }
    request->method = find_method(line.at, (size_t)(at - line.at));
    const char *target = ++at;
    at = find_invisible(target, end);
    size_t offset = start + (size_t)(at - line.at);
    if (at == target || at == end || *at != ' ') {
        return bad(request, 400, offset, "a target of visible ASCII and a space must follow");
    }
    request->target = (struct http1_slice){(uint32_t)(start + (size_t)(target - line.at)),
                                           (uint32_t)(at - target)};
    at++;
    return read_version(request, at, (size_t)(end - at), offset + 1);
}

/* ---- Fields: RFC 9112, section 5 ---- */

struct known_field {
    const char *name;
    enum http1_field field;
};

/* By the length of the name: at most two share one. */
static const struct known_field KNOWN_FIELDS[18][2] = {
    [4] = {{"host", HTTP1_HOST}},
    [6] = {{"expect", HTTP1_EXPECT}, {"origin", HTTP1_ORIGIN}},
    [10] = {{"connection", HTTP1_CONNECTION}, {"x-weir-key", HTTP1_X_WEIR_KEY}},
    [11] = {{"x-weir-cost", HTTP1_X_WEIR_COST}},
    [13] = {{"authorization", HTTP1_AUTHORIZATION}},
    [14] = {{"content-length", HTTP1_CONTENT_LENGTH}, {"sec-fetch-site", HTTP1_SEC_FETCH_SITE}},
    [15] = {{"x-forwarded-for", HTTP1_X_FORWARDED_FOR}},
    [17] = {{"transfer-encoding", HTTP1_TRANSFER_ENCODING}},
};

static const struct known_field *find_field(struct bytes name)
{
    if (name.length >= sizeof KNOWN_FIELDS / sizeof KNOWN_FIELDS[0]) {
        return NULL;
    }
    for (const struct known_field *known = KNOWN_FIELDS[name.length];
         known < KNOWN_FIELDS[name.length] + 2; known++) {
        if (known->name != NULL && http1_is_word(name, known->name)) {
            return known;
        }
    }
    return NULL;
}

/* field-line = field-name ":" OWS field-value OWS. False if the line is none. */
static bool split_field(struct bytes line, struct bytes *name, struct bytes *value)
{
    const char *end = line.at + line.length;
    const char *at = line.at;
    while (at < end && is_token_char(*at)) {
        at++;
    }
    if (at == line.at || at == end || *at != ':') {
        return false;
    }
    *name = (struct bytes){line.at, (size_t)(at - line.at)};
    at++;
    while (at < end && is_blank(*at)) {
        at++;
    }
    while (end > at && is_blank(end[-1])) {
        end--;
    }
    *value = (struct bytes){at, (size_t)(end - at)};
    return true;
}

bool http1_field_next(struct bytes fields, size_t *at, struct bytes *name, struct bytes *value)
{
    const char *line = fields.at + *at;
    const char *end = memchr(line, '\r', fields.length - *at);
    if (end == NULL) {
        return false;
    }
    *at += (size_t)(end - line) + 2;
    bool is_field = split_field((struct bytes){line, (size_t)(end - line)}, name, value);
    assert(is_field); // http1_parse() has read it before
    return is_field;
}

/* Content-Length: digits and nothing else, and said twice only if the same: RFC 9110, 8.6. */
static bool repeats_differently(const struct http1_request *request, const char *base,
                                enum http1_field field, struct bytes value)
{
    struct bytes before = http1_slice_bytes(base, request->field[field]);
    return before.length != value.length || memcmp(before.at, value.at, value.length) != 0;
}

static enum http1_result keep_field(struct http1_request *request, const char *base,
                                    enum http1_field field, struct bytes value)
{
    if (http1_has(request, field)) {
        request->repeated |= (uint16_t)(1u << field);
        if (field == HTTP1_HOST || field == HTTP1_TRANSFER_ENCODING || field == HTTP1_EXPECT) {
            return bad(request, 400, request->line_at, "this field may be there only once");
        }
        if (field == HTTP1_CONTENT_LENGTH && repeats_differently(request, base, field, value)) {
            return bad(request, 400, request->line_at, "two different values of Content-Length");
        }
    }
    request->seen |= (uint16_t)(1u << field);
    request->field[field] =
        (struct http1_slice){(uint32_t)(value.at - base), (uint32_t)value.length};
    return HTTP1_DONE;
}

/* Connection = #token, in one line or several: RFC 9110, section 7.6.1. */
static void read_connection(struct http1_request *request, struct bytes value)
{
    const char *at = value.at;
    const char *end = value.at + value.length;
    while (at < end) {
        const char *option = at;
        while (at < end && *at != ',' && !is_blank(*at)) {
            at++;
        }
        struct bytes word = {option, (size_t)(at - option)};
        request->close |= http1_is_word(word, "close");
        request->keep_alive |= http1_is_word(word, "keep-alive");
        while (at < end && (*at == ',' || is_blank(*at))) {
            at++;
        }
    }
}

/* Counts a field line of `length` bytes against what a head may have. */
static enum http1_result count_field(struct http1_request *request, size_t length)
{
    request->field_count++;
    request->field_bytes += (uint32_t)length + 2;
    if (request->field_count > HTTP1_FIELD_COUNT_MAX) {
        return bad(request, 431, request->line_at, "more than 100 header fields");
    }
    if (request->field_bytes > HTTP1_HEADER_BYTES_MAX) {
        return bad(request, 431, request->line_at, "more than 16 KiB of header fields");
    }
    return HTTP1_DONE;
}

static enum http1_result read_field(struct http1_request *request, const char *base,
                                    struct bytes line)
{
    struct bytes name;
    struct bytes value;
    if (count_field(request, line.length) == HTTP1_BAD) {
        return HTTP1_BAD;
    }
    if (!split_field(line, &name, &value)) { // a fold begins with a blank: RFC 9112, section 5.2
        return bad(request, 400, request->line_at,
                   is_blank(line.at[0]) ? "folded header lines are not allowed"
                                        : "a header line must be NAME: VALUE");
    }
    if (request->phase == HTTP1_IN_TRAILERS) {
        return HTTP1_DONE; // checked and forgotten: RFC 9110, section 6.5.1
    }
    const struct known_field *known = find_field(name);
    if (known == NULL) {
        return HTTP1_DONE;
    }
    if (known->field == HTTP1_CONNECTION) {
        read_connection(request, value);
    }
    return keep_field(request, base, known->field, value);
}

/* ---- What the head says of the rest: RFC 9112, sections 3.2, 6 and 9.3 ---- */

static bool is_host(struct bytes host)
{
    for (size_t i = 0; i < host.length; i++) {
        if (!is_in_set(host.at[i], &HOST_CHARS)) {
            return false;
        }
    }
    return true;
}

static enum http1_result check_host(struct http1_request *request, const char *base)
{
    if (!http1_has(request, HTTP1_HOST)) {
        return request->is_http10 ? HTTP1_DONE
                                  : bad(request, 400, request->line_at, "Host is missing");
    }
    struct http1_slice host = request->field[HTTP1_HOST];
    return is_host(http1_slice_bytes(base, host))
               ? HTTP1_DONE
               : bad(request, 400, host.at, "the value of Host is no host");
}

static enum http1_result read_content_length(struct http1_request *request, const char *base)
{
    struct http1_slice slice = request->field[HTTP1_CONTENT_LENGTH];
    uint64_t length = 0;
    if (slice.length == 0 || slice.length > HTTP1_CONTENT_LENGTH_DIGITS_MAX) {
        return bad(request, 400, slice.at, "Content-Length must be a number of bytes");
    }
    for (uint32_t i = 0; i < slice.length; i++) {
        char c = base[slice.at + i];
        if (c < '0' || c > '9') {
            return bad(request, 400, slice.at + i, "Content-Length must be a number of bytes");
        }
        length = length * 10 + (uint64_t)(c - '0');
    }
    if (length > HTTP1_BODY_BYTES_MAX) {
        return bad(request, 413, slice.at, "a body may have at most 64 KiB");
    }
    request->body_bytes = (uint32_t)length;
    return HTTP1_DONE;
}

/* Chooses how the body is delimited: RFC 9112, section 6.3. Whatever a proxy in front of us could
 * have read in another way is refused: that is how requests are smuggled (section 11.2). */
static enum http1_result choose_framing(struct http1_request *request, const char *base)
{
    if (!http1_has(request, HTTP1_TRANSFER_ENCODING)) {
        return http1_has(request, HTTP1_CONTENT_LENGTH) ? read_content_length(request, base)
                                                        : HTTP1_DONE;
    }
    struct http1_slice coding = request->field[HTTP1_TRANSFER_ENCODING];
    if (http1_has(request, HTTP1_CONTENT_LENGTH)) {
        return bad(request, 400, coding.at, "Transfer-Encoding together with Content-Length");
    }
    if (request->is_http10) { // section 6.1
        return bad(request, 400, coding.at, "Transfer-Encoding in HTTP/1.0");
    }
    if (!http1_is_word(http1_slice_bytes(base, coding), "chunked")) {
        return bad(request, 501, coding.at, "the only Transfer-Encoding here is chunked");
    }
    request->is_chunked = true;
    return HTTP1_DONE;
}

static enum http1_result check_expect(struct http1_request *request, const char *base)
{
    if (!http1_has(request, HTTP1_EXPECT) || request->is_http10) { // RFC 9110, section 10.1.1
        return HTTP1_DONE;
    }
    struct http1_slice expect = request->field[HTTP1_EXPECT];
    if (!http1_is_word(http1_slice_bytes(base, expect), "100-continue")) {
        return bad(request, 417, expect.at, "the only Expect here is 100-continue");
    }
    request->expects_continue = true;
    return HTTP1_DONE;
}

/* The empty line has been read: the head is complete. */
static enum http1_result end_head(struct http1_request *request, const char *base)
{
    request->fields.length = request->line_at - request->fields.at;
    if (check_host(request, base) == HTTP1_BAD || choose_framing(request, base) == HTTP1_BAD
        || check_expect(request, base) == HTTP1_BAD) {
        return HTTP1_BAD;
    }
    request->keep_alive &= request->is_http10 && !request->close;
    request->close |= request->is_http10 && !request->keep_alive;
    request->body.at = request->scanned;
    request->phase = request->is_chunked       ? HTTP1_IN_CHUNK_LINE
                     : request->body_bytes > 0 ? HTTP1_IN_BODY
                                               : HTTP1_AT_END;
    return HTTP1_DONE;
}

/* ---- Bodies: RFC 9112, sections 6.2 and 7.1 ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* chunk-size [chunk-ext]. Extensions are ignored; the space that the grammar tolerates before the
 * semicolon is not, since parsers differ about it.
 * Returns how many digits there are, 0 if this is no such line. */
static size_t read_chunk_size(struct bytes line, uint32_t *bytes)
{
    uint32_t size = 0;
    size_t count = 0;
    for (; count < line.length && hex_digit(line.at[count]) >= 0; count++) {
        if (count == HTTP1_CHUNK_DIGITS_MAX) {
            return 0;
        }
        size = size << 4 | (uint32_t)hex_digit(line.at[count]);
    }
    if (count < line.length && line.at[count] != ';') {
        return 0;
    }
    *bytes = size;
    return count;
}

static enum http1_result read_chunk_line(struct http1_request *request, struct bytes line)
{
    if (read_chunk_size(line, &request->chunk_bytes) == 0) {
        return bad(request, 400, request->line_at, "a chunk must begin with its size in hex");
    }
    if (request->chunk_bytes > HTTP1_BODY_BYTES_MAX - request->body_bytes) {
        return bad(request, 413, request->line_at, "a body may have at most 64 KiB");
    }
    request->body_bytes += request->chunk_bytes;
    request->phase = request->chunk_bytes > 0 ? HTTP1_IN_CHUNK_DATA : HTTP1_IN_TRAILERS;
    return HTTP1_DONE;
}

static enum http1_result skip_chunk_data(struct http1_request *request, struct bytes input)
{
    size_t end = (size_t)request->line_at + request->chunk_bytes;
    if (input.length > end && input.at[end] != '\r') {
        return bad(request, 400, end, "a chunk must end with CR LF");
    }
    if (input.length < end + 2) {
        return HTTP1_MORE;
    }
    if (input.at[end + 1] != '\n') {
        return bad(request, 400, end + 1, "a chunk must end with CR LF");
    }
    request->scanned = (uint32_t)end + 2;
    request->phase = HTTP1_IN_CHUNK_LINE;
    return HTTP1_DONE;
}

void http1_body_copy(const struct http1_request *request, const char *base, char *body)
{
    struct bytes rest = http1_slice_bytes(base, request->body);
    if (!request->is_chunked) {
        memcpy(body, rest.at, request->body_bytes);
        return;
    }
    for (uint32_t left = request->body_bytes; left > 0;) {
        uint32_t bytes = 0;
        const char *line_end = memchr(rest.at, '\n', rest.length);
        assert(line_end != NULL); // http1_parse() has read it before
        size_t line = (size_t)(line_end + 1 - rest.at);
        size_t digits = read_chunk_size((struct bytes){rest.at, line - 2}, &bytes);
        assert(digits > 0 && bytes > 0 && bytes <= left);
        memcpy(body, rest.at + line, bytes);
        body += bytes;
        left -= bytes;
        rest.at += line + bytes + 2;
        rest.length -= line + bytes + 2;
    }
}

/* ---- The whole ---- */

/* A server ignores one empty line before a request: RFC 9112, section 2.2. */
static bool is_first_empty_line(const struct http1_request *request, struct bytes line)
{
    return line.length == 0 && request->line_at == 0;
}

static enum http1_result step_request_line(struct http1_request *request, struct bytes input)
{
    struct bytes line;
    enum http1_result result = read_line(request, input, HTTP1_LINE_BYTES_MAX, 414, &line);
    if (result != HTTP1_DONE || is_first_empty_line(request, line)) {
        return result;
    }
    result = read_request_line(request, line);
    request->fields.at = request->scanned;
    request->phase = HTTP1_IN_FIELDS;
    return result;
}

static enum http1_result step_fields(struct http1_request *request, struct bytes input)
{
    struct bytes line;
    uint32_t bytes_max = HTTP1_HEADER_BYTES_MAX - request->field_bytes;
    enum http1_result result = read_line(request, input, bytes_max, 431, &line);
    if (result != HTTP1_DONE) {
        return result;
    }
    if (line.length > 0) {
        return read_field(request, input.at, line);
    }
    if (request->phase == HTTP1_IN_FIELDS) {
        return end_head(request, input.at);
    }
    request->body.length = request->scanned - request->body.at;
    request->phase = HTTP1_AT_END;
    return HTTP1_DONE;
}

static enum http1_result step_body(struct http1_request *request, struct bytes input)
{
    size_t end = (size_t)request->body.at + request->body_bytes;
    if (input.length < end) {
        return HTTP1_MORE;
    }
    request->body.length = request->body_bytes;
    request->scanned = (uint32_t)end;
    request->phase = HTTP1_AT_END;
    return HTTP1_DONE;
}

static enum http1_result step_chunk_line(struct http1_request *request, struct bytes input)
{
    struct bytes line;
    if (request->line_at - request->body.at > HTTP1_CHUNKED_BYTES_MAX) {
        return bad(request, 413, request->line_at, "a chunked body may have at most 128 KiB");
    }
    enum http1_result result = read_line(request, input, HTTP1_CHUNK_LINE_BYTES_MAX, 400, &line);
    return result == HTTP1_DONE ? read_chunk_line(request, line) : result;
}

/* Reads what the phase is about; HTTP1_DONE means that there may be another step. */
static enum http1_result step(struct http1_request *request, struct bytes input)
{
    switch (request->phase) {
    case HTTP1_IN_REQUEST_LINE: return step_request_line(request, input);
    case HTTP1_IN_FIELDS:
    case HTTP1_IN_TRAILERS: return step_fields(request, input);
    case HTTP1_IN_BODY: return step_body(request, input);
    case HTTP1_IN_CHUNK_LINE: return step_chunk_line(request, input);
    case HTTP1_IN_CHUNK_DATA: return skip_chunk_data(request, input);
    case HTTP1_AT_END: break;
    }
    return HTTP1_DONE;
}

enum http1_result http1_parse(struct http1_request *request, struct bytes input, size_t *used)
{
    assert(input.length >= request->scanned);
    assert(input.length <= UINT32_MAX); // places are 32 bits
    while (request->phase != HTTP1_AT_END) {
        enum http1_result result = step(request, input);
        if (result != HTTP1_DONE) {
            return result;
        }
        request->line_at = request->scanned; // behind what the step has read
    }
    *used = request->scanned;
    return HTTP1_DONE;
}
