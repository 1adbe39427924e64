/* SPDX-License-Identifier: MIT */
#include "cli/request.h"

void request_begin(struct buffer *request, size_t word_count)
{
    buffer_printf(request, "*%zu\r\n", word_count);
}

void request_word(struct buffer *request, const void *word, size_t length)
{
    buffer_printf(request, "$%zu\r\n", length);
    buffer_append(request, word, length);
    buffer_append_text(request, "\r\n");
}
