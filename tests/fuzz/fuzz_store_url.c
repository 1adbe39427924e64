/* SPDX-License-Identifier: MIT
 *
 * URLs of stores: what is read keeps to its ranges, what is not is explained, at a place in the text. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/driver.h"
#include "store/table/table_url.h"
#include "weir/limiter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store_url url;
    struct weir_error error;
    char *text = malloc(size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    char path[STORE_PATH_MAX];
    if (store_driver_read(text, NULL, path, &error) != NULL) {
        require(store_url_parse(&url, text, &error) == WEIR_OK && strcmp(path, url.path) == 0);
        require(url.bytes == 0
                || (url.bytes >= WEIR_MEMORY_BYTES_MIN && url.bytes <= WEIR_MEMORY_BYTES_MAX));
        require(url.kind != STORE_FILE || url.path[0] == '/');
        require(url.kind == STORE_FILE || url.flush_every_ns == 0);
        require((url.mode & ~0660U) == 0 && (url.mode & 0600) == 0600);
    } else {
        size_t length = strlen(error.message);
        require(length > 0 && length < WEIR_ERROR_TEXT_MAX - 1);
        require(error.offset <= strlen(text));
    }
    free(text);
    return 0;
}
