/* SPDX-License-Identifier: MIT
 *
 * What a limit promises, as JSON. Amounts are strings, since a number of JSON would be rounded: "2.5",
 * "10/3". */
#include <jansson.h>
#include <stdio.h>

#include "cli/explain/explain.h"
#include "cli/promise.h"
#include "core/limit_words.h"

static const char *kind_word(enum weir_kind kind)
{
    switch (kind) {
    case WEIR_KIND_BUCKET: return "bucket";
    case WEIR_KIND_QUEUE: return "queue";
    case WEIR_KIND_STEPPED: return "stepped";
    case WEIR_KIND_FIXED: return "fixed";
    case WEIR_KIND_SLIDING: return "sliding";
    case WEIR_KIND_WINDOW: return "window";
    }
    return "unknown";
}

static json_t *json_amount(const struct weir_amount *amount)
{
    char text[WEIR_AMOUNT_TEXT_MAX];
    (void)weir_amount_print(amount, text);
    return json_string(text);
}

static json_t *json_windows(const struct explanation *e)
{
    json_t *windows = json_array();
    for (size_t i = 0; i < e->window_count; i++) {
        struct weir_amount bound = promise_bound(&e->config, e->windows_ns[i]);
        json_t *window = json_pack("{sI so sI sb}", "window_ns", (json_int_t)e->windows_ns[i],
                                   "at_most", json_amount(&bound), "requests_at_most",
                                   (json_int_t)requests_at_most(e, &bound), "end_included",
                                   promise_includes_end(&e->config));
        if (e->is_queue) {
            struct weir_amount leaving = promise_leaving(&e->config, e->windows_ns[i]);
            json_object_set_new(window, "leave_at_most",
                                json_integer((json_int_t)requests_at_most(e, &leaving)));
        }
        json_array_append_new(windows, window);
    }
    return windows;
}

static json_t *json_strict(const struct explanation *e)
{
    json_t *choices = json_array();
    for (size_t i = 0; i < e->strict_count && !e->is_queue; i++) {
        char text[WEIR_LIMIT_TEXT_MAX];
        const struct weir_limit_config *config = &e->strict[i].config;
        json_array_append_new(choices, json_pack("{ss sI sI sI}", "limit", plan_text(config, text),
                                                 "at_most", (json_int_t)e->count, "window_ns",
                                                 (json_int_t)e->windows_ns[0], "burst",
                                                 (json_int_t)(config->capacity_micro / WEIR_UNIT)));
    }
    return choices;
}

/* Keys may hold bytes that are no text; those are null. */
static json_t *json_overrides(const struct named_limit *named)
{
    json_t *overrides = json_array();
    for (size_t i = 0; i < named->override_count; i++) {
        const struct bytes *key = &named->overrides[i].key;
        const struct bytes *words = &named->overrides[i].numbers.words;
        json_t *name = json_stringn(key->at, key->length);
        json_array_append_new(overrides,
                              json_pack("{so so}", "key", name != NULL ? name : json_null(),
                                        "limit", json_stringn(words->at, words->length)));
    }
    return overrides;
}

int explain_in_json(const struct command *command, const struct explanation *e)
{
    char count[MICRO_TEXT_MAX];
    char capacity[MICRO_TEXT_MAX];
    json_t *root = json_pack(
        "{ss ss ss sI ss ss ss so so so so sI so so}", "limit", e->canonical, "kind",
        kind_word(e->config.kind), "count", print_micro(e->config.count_micro, count), "period_ns",
        (json_int_t)e->config.period_ns, "capacity",
        print_micro(e->config.capacity_micro, capacity), "on_full",
        limit_on_full_word(e->config.on_full), "on_error", limit_on_error_word(e->config.on_error),
        "rate_per_s", json_amount(&e->rate_per_s), "interval_ns", json_amount(&e->interval_ns),
        "drain_ns", json_amount(&e->drain_ns), "wait_max_ns", json_amount(&e->wait_max_ns),
        "bucket_bytes", (json_int_t)BUCKET_BYTES, "windows", json_windows(e), "strict",
        json_strict(e));
    if (root != NULL && e->is_queue) {
        json_object_set_new(root, "first",
                            json_string(e->config.first == WEIR_FIRST_NOW ? "now" : "interval"));
        json_object_set_new(root, "delay_max_ns", json_amount(&e->delay_max_ns));
    }
    if (root != NULL && e->config.block_ns != 0) {
        json_object_set_new(root, "block_bytes", json_integer(BUCKET_BYTES));
    }
    if (root != NULL && e->config.on_full == WEIR_ON_FULL_EVICT) {
        json_object_set_new(root, "evict_forgives_max", json_string(capacity));
    }
    if (root != NULL && e->config.kind == WEIR_KIND_WINDOW) {
        json_object_set_new(root, "events_bytes_min", json_integer(EVENT_CHUNK_BYTES));
        json_object_set_new(root, "events_bytes_max",
                            json_integer((json_int_t)promise_events_bytes(&e->config)));
    }
    if (root != NULL && e->config.period_months != 0) {
        json_object_set_new(root, "period_months", json_integer(e->config.period_months));
    }
    if (root != NULL && e->max_latency_ns > 0) {
        json_object_set_new(root, "max_latency_ns", json_integer((json_int_t)e->max_latency_ns));
    }
    if (root != NULL && e->named != NULL) {
        json_object_set_new(root, "name", json_string(e->named->name));
        json_object_set_new(root, "shadow", json_boolean(e->named->is_shadow));
        json_object_set_new(root, "overrides", json_overrides(e->named));
    }
    if (root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) != 0) {
        json_decref(root);
        complain(command, "out of memory");
        return CLI_FAILED;
    }
    json_decref(root);
    (void)putchar('\n');
    return CLI_DONE;
}
