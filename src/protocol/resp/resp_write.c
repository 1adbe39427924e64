/* SPDX-License-Identifier: MIT */
#include "protocol/resp/resp_write.h"

#include <stdarg.h>
#include <stdio.h>

const char RESP_DIGIT_PAIRS[201] = "00010203040506070809101112131415161718192021222324252627282930"
                                   "31323334353637383940414243444546474849505152535455565758596061"
                                   "62636465666768697071727374757677787980818283848586878889909192"
                                   "93949596979899";

static void write_header(struct buffer *output, char type, uint64_t number)
{
    char text[RESP_INTEGER_BYTES_MAX];
    char *to = text;
    *to++ = type;
    to = resp_put_digits(to, number);
    to = resp_put_text(to, "\r\n", 2);
    buffer_append(output, text, (size_t)(to - text));
}

void resp_write_integer(struct buffer *output, int64_t value)
{
    char text[RESP_INTEGER_BYTES_MAX];
    buffer_append(output, text, (size_t)(resp_put_integer(text, value) - text));
}

void resp_write_bulk(struct buffer *output, struct bytes bytes)
{
    write_header(output, '$', bytes.length);
    buffer_append(output, bytes.at, bytes.length);
    buffer_append(output, "\r\n", 2);
}

void resp_write_bulk_text(struct buffer *output, const char *text)
{
    resp_write_bulk(output, (struct bytes){text, strlen(text)});
}

void resp_write_simple(struct buffer *output, const char *text)
{
    buffer_append(output, "+", 1);
    buffer_append_text(output, text);
    buffer_append(output, "\r\n", 2);
}

void resp_write_null(struct buffer *output, int version)
{
    buffer_append_text(output, version == 3 ? "_\r\n" : "$-1\r\n");
}

void resp_write_array(struct buffer *output, size_t count)
{
    write_header(output, '*', count);
}

void resp_write_map(struct buffer *output, int version, size_t pair_count)
{
    write_header(output, version == 3 ? '%' : '*', version == 3 ? pair_count : 2 * pair_count);
}

void resp_write_verbatim(struct buffer *output, int version, struct bytes text)
{
    if (version == 3) {
        write_header(output, '=', text.length + 4);
        buffer_append(output, "txt:", 4);
        buffer_append(output, text.at, text.length);
        buffer_append(output, "\r\n", 2);
    } else {
        resp_write_bulk(output, text);
    }
}

void resp_write_error(struct buffer *output, const char *format, ...)
{
    char text[512]; // longer ones are cut
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '\r' || *at == '\n') {
            *at = ' ';
        }
    }
    buffer_printf(output, "-%s\r\n", text);
}
