/* SPDX-License-Identifier: MIT
 *
 * Limits, lists of them, and costs as text: what is accepted prints as a text of the same limit, and
 * that text is its own; what is not accepted is explained, at a place within the text. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/limit_words.h"
#include "limiter/limit_list.h"
#include "weir/limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_explained(const struct weir_error *error, size_t size)
{
    size_t length = strlen(error->message);
    require(length > 0 && length < WEIR_ERROR_TEXT_MAX - 1);
    require(error->offset <= size);
}

/* Another text of the same limit, with the numbers that it had. */
static void check_as_written(const struct weir_limit_config *config, const struct weir_limit *limit)
{
    char text[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit_config read;
    struct weir_limit again;
    require(limit_print_as_written(config, text, sizeof text) == WEIR_OK);
    require(weir_limit_parse(&read, text, strlen(text), NULL) == WEIR_OK);
    require(read.count_micro == config->count_micro && read.period_ns == config->period_ns);
    require(weir_limit_init(&again, &read, NULL) == WEIR_OK);
    require(memcmp(limit, &again, sizeof again) == 0);
}

static void check_printed(const struct weir_limit_config *config)
{
    char text[WEIR_LIMIT_TEXT_MAX];
    char again[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit_config read;
    struct weir_limit one;
    struct weir_limit two;
    require(weir_limit_init(&one, config, NULL) == WEIR_OK);
    require(weir_limit_print(config, text, sizeof text) == WEIR_OK);
    require(weir_limit_parse(&read, text, strlen(text), NULL) == WEIR_OK);
    require(weir_limit_init(&two, &read, NULL) == WEIR_OK);
    require(memcmp(&one, &two, sizeof one) == 0); // all integers, no padding
    require(weir_limit_print(&read, again, sizeof again) == WEIR_OK);
    require(strcmp(text, again) == 0);
    check_as_written(config, &one);
}

/* The limits of a list lie in it in order, a comma behind each but the last, and none in any. */
static void check_list(const struct limit_list *list, const char *text, size_t size)
{
    size_t at = 0;
    require(list->count >= 1 && list->count <= LIMIT_LIST_COUNT_MAX);
    for (size_t i = 0; i < list->count; i++) {
        const struct limit_span *span = &list->spans[i];
        require(span->at >= at && span->at + span->length <= size);
        require(span->length > 0 || list->count == 1);
        require(span->length == 0 || memchr(text + span->at, ',', span->length) == NULL);
        at = span->at + span->length + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct limit_list list;
    struct weir_limit_config config;
    struct weir_error error;
    uint64_t cost_micro;
    char *text = malloc(size > 0 ? size : 1); // no NUL: a sanitizer sees the first byte beyond
    require(text != NULL);
    memcpy(text, data, size);
    if (weir_limit_parse(&config, text, size, &error) == WEIR_OK) {
        check_printed(&config);
    } else {
        check_explained(&error, size);
    }
    if (limit_list_split(&list, text, size, &error) == WEIR_OK) {
        check_list(&list, text, size);
    } else {
        check_explained(&error, size);
    }
    if (weir_cost_parse(&cost_micro, text, size, &error) == WEIR_OK) {
        require(cost_micro <= WEIR_COST_MAX);
    } else {
        check_explained(&error, size);
    }
    free(text);
    return 0;
}
