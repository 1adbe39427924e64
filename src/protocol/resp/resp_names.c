/* SPDX-License-Identifier: MIT
 *
 * What names mean: the variables that a command brings for them, and WEIR.LIMITS, which says what they
 * come to for a key. Nothing is decided here. */
#include "protocol/resp/resp_session.h"

bool resp_read_variables(struct resp_call *call, size_t first, struct variables *variables)
{
    variables->count = 0;
    size_t words;
    for (size_t i = first; i + 2 < call->command->arg_count; i += words) {
        words = resp_option_words(resp_arg(call, i));
        if (!resp_word_is(resp_arg(call, i), "var")) {
            continue;
        }
        struct bytes name = resp_arg(call, i + 1);
        struct bytes value = resp_arg(call, i + 2);
        if (!variables_add(variables, name, value)) {
            resp_fail(call, "ERR invalid VAR: at most %d, each name once", VARIABLE_COUNT_MAX);
            return false;
        }
    }
    return true;
}

/* False, and the command has failed, unless nothing but variables follows the limit. */
static bool check_variables(struct resp_call *call, size_t first)
{
    for (size_t i = first; i < call->command->arg_count; i += 3) {
        if (!resp_word_is(resp_arg(call, i), "var") || i + 2 >= call->command->arg_count) {
            resp_fail(call, "ERR syntax error: after the limit comes nothing or VAR, a name and a "
                            "value");
            return false;
        }
    }
    return true;
}

static void write_part(struct resp_call *call, const struct asked_part *part)
{
    int version = call->session->version;
    if (version == 3) {
        resp_write_map(call->output, version, 2);
        resp_write_simple(call->output, "name");
    } else {
        resp_write_array(call->output, 2);
    }
    resp_write_bulk(call->output, part->said);
    if (version == 3) {
        resp_write_simple(call->output, "limit");
    }
    resp_write_bulk(call->output, part->words);
}

/* WEIR.LIMITS key limit [VAR name value ...]. The batch is empty: its memory is free. */
static void handle_limits(struct resp_call *call)
{
    struct resp_batch *batch = call->batch;
    struct bytes key = resp_arg(call, 1);
    struct bytes text = resp_arg(call, 2);
    struct variables variables;
    struct asked asked;
    struct weir_error error;
    if (!resp_check_key(call, key) || !check_variables(call, 3)
        || !resp_read_variables(call, 3, &variables)) {
        return;
    }
    const struct asking asking = {
        .names = call->service->names,
        .cache = call->service->rules,
        .key = {key.at, key.length},
        .variables = &variables,
        .room = batch->keys,
        .room_bytes = CHAIN_KEYS_BYTES_MAX,
    };
    if (asked_read(&asking, text.at, text.length, batch->rules, batch->parts, &asked, &error)
        != WEIR_OK) {
        resp_fail(call, "ERR invalid limit at byte %zu: %s", error.offset, error.message);
        return;
    }
    resp_write_array(call->output, asked.count);
    for (size_t i = 0; i < asked.count; i++) {
        write_part(call, &batch->parts[i]);
    }
}

const struct resp_handler RESP_NAME_HANDLERS[] = {
    {"weir.limits", -3, false, handle_limits},
    {NULL, 0, false, NULL},
};
