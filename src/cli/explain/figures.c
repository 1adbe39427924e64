/* SPDX-License-Identifier: MIT
 *
 * Figures that more than one form of an explanation has, and their texts. */
#include <string.h>

#include "cli/explain/explain.h"
#include "cli/promise.h"

const char *limit_text(const struct weir_limit_config *config, char text[WEIR_LIMIT_TEXT_MAX])
{
    /* The buffer suffices for any limit, so this cannot fail. */
    (void)!weir_limit_print(config, text, WEIR_LIMIT_TEXT_MAX);
    return text;
}

int explain_text_width(const struct plan_choice *choices, size_t count)
{
    size_t width = TEXT_WIDTH_MIN;
    for (size_t i = 0; i < count; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];
        size_t length = strlen(plan_text(&choices[i].config, text));
        width = length >= width ? length + 1 : width;
    }
    return (int)width;
}

uint64_t explain_key_bytes_min(const struct weir_limit_config *config)
{
    return BUCKET_BYTES + (config->kind == WEIR_KIND_WINDOW ? EVENT_CHUNK_BYTES : 0);
}

uint64_t explain_key_bytes(const struct weir_limit_config *config)
{
    return BUCKET_BYTES + (config->kind == WEIR_KIND_WINDOW ? promise_events_bytes(config) : 0);
}

const char *window_text(uint64_t window_ns, char text[DURATION_TEXT_MAX])
{
    struct weir_amount amount = {.numerator_low = window_ns, .denominator_low = 1};
    return duration_print_exact(&amount, text);
}

uint64_t requests_at_most(const struct explanation *e, const struct weir_amount *bound)
{
    return e->config.capacity_micro >= WEIR_UNIT ? amount_floor(bound) : 0;
}
