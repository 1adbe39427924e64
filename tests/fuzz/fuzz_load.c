/* SPDX-License-Identifier: MIT
 *
 * What the client reads of a server: any bytes give a reply, a wish for more, or a refusal; a reply
 * is never longer than what is there, and needs all of it. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const struct load *load, struct bytes input)
{
    enum load_verdict verdict = LOAD_VERDICT_COUNT;
    struct bytes text = {NULL, 0};
    size_t used = 0;
    while (load_read(load, input, &verdict, &text, &used) == LOAD_DONE) {
        assert(used > 0 && used <= input.length);
        assert(verdict < LOAD_VERDICT_COUNT);
        assert(text.at >= input.at && text.at + text.length <= input.at + used);
        struct bytes shorter = {input.at, used - 1};
        enum load_verdict unused_verdict;
        struct bytes unused_text;
        size_t unused;
        assert(load_read(load, shorter, &unused_verdict, &unused_text, &unused) == LOAD_MORE);
        input.at += used;
        input.length -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + (size == 0)); // exactly so long: a step too far is seen
    assert(copy != NULL);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    const struct load resp = {.protocol = LOAD_RESP};
    const struct load http = {.protocol = LOAD_HTTP};
    read_all(&resp, (struct bytes){copy, size});
    read_all(&http, (struct bytes){copy, size});
    free(copy);
    return 0;
}
