/* SPDX-License-Identifier: MIT */
#include "cli/bench/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/duration.h"
#include "cli/reply.h"
#include "cli/request.h"

enum { KEY_DIGITS = 9 };
static const char KEY[] = "bench:000000000";

const char *const LOAD_COMMAND_NAMES[LOAD_COMMAND_COUNT] = {
    "take", "can-take", "fill", "refund", "show", "throttle", "check", "ping",
};

/* ---- Requests ---- */

static const char *const RESP_NAMES[LOAD_COMMAND_COUNT] = {
    [LOAD_TAKE] = "WEIR.TAKE", [LOAD_CAN_TAKE] = "WEIR.CANTAKE",
    [LOAD_FILL] = "WEIR.FILL", [LOAD_REFUND] = "WEIR.REFUND",
    [LOAD_SHOW] = "WEIR.SHOW", [LOAD_THROTTLE] = "CL.THROTTLE",
    [LOAD_PING] = "PING",
};

static const char *const HTTP_PATHS[LOAD_COMMAND_COUNT] = {
    [LOAD_TAKE] = "/v1/take",     [LOAD_CAN_TAKE] = "/v1/can_take", [LOAD_FILL] = "/v1/fill",
    [LOAD_REFUND] = "/v1/refund", [LOAD_SHOW] = "/v1/show",         [LOAD_CHECK] = "/v1/check",
    [LOAD_PING] = "/healthz",
};

static void append_word(struct buffer *output, const char *word)
{
    request_word(output, word, strlen(word));
}

static void append_number(struct buffer *output, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    append_word(output, text);
}

/* CL.THROTTLE knows a burst beyond the first, a count and whole seconds. */
static bool is_throttle(const struct weir_limit_config *limit)
{
    return limit->capacity_micro % WEIR_UNIT == 0 && limit->count_micro % WEIR_UNIT == 0
           && limit->period_ns % NS_PER_S == 0;
}

static void append_resp(struct buffer *output, const struct load_config *config)
{
    const struct weir_limit_config *limit = &config->limit_config;
    const char *name = RESP_NAMES[config->command];
    if (config->command == LOAD_PING) {
        request_begin(output, 1);
        append_word(output, name);
        return;
    }
    bool throttle = config->command == LOAD_THROTTLE;
    size_t cost_words = config->cost == NULL ? 0 : throttle ? 1 : 2;
    request_begin(output, (throttle ? 5 : 3) + cost_words);
    append_word(output, name);
    append_word(output, KEY);
    if (throttle) {
        append_number(output, limit->capacity_micro / WEIR_UNIT - 1);
        append_number(output, limit->count_micro / WEIR_UNIT);
        append_number(output, limit->period_ns / NS_PER_S);
    } else {
        append_word(output, config->limit);
    }
    if (config->cost != NULL) {
        if (!throttle) {
            append_word(output, "COST");
        }
        append_word(output, config->cost);
    }
}

/* A limit is letters, digits and a few signs; in a query only the space needs a disguise. */
static void append_query_text(struct buffer *output, const char *text)
{
    for (; *text != '\0'; text++) {
        buffer_append(output, *text == ' ' ? "+" : text, 1);
    }
}

static void append_http(struct buffer *output, const struct load_config *config)
{
    char body[LOAD_REQUEST_BYTES_MAX / 2];
    const char *path = HTTP_PATHS[config->command];
    bool get = config->command == LOAD_PING || config->command == LOAD_CHECK;
    buffer_printf(output, "%s %s", get ? "GET" : "POST", path);
    if (config->command == LOAD_CHECK) {
        buffer_printf(output, "?key=%s&limit=", KEY);
        append_query_text(output, config->limit);
        buffer_printf(output, "&cost=%s", config->cost != NULL ? config->cost : "1");
    }
    buffer_append_text(output, " HTTP/1.1\r\nHost: localhost\r\n");
    if (config->password.length > 0) {
        buffer_append_text(output, "Authorization: Bearer ");
        buffer_append(output, config->password.at, config->password.length);
        buffer_append_text(output, "\r\n");
    }
    if (get) {
        buffer_append_text(output, "\r\n");
        return;
    }
    const char *cost = config->cost;
    int length = snprintf(body, sizeof body, "{\"key\":\"%s\",\"limit\":\"%s\"%s%s%s}", KEY,
                          config->limit, cost != NULL ? ",\"cost\":\"" : "",
                          cost != NULL ? cost : "", cost != NULL ? "\"" : "");
    buffer_printf(output, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", length,
                  body);
}

static bool may_have_list(enum load_command command)
{
    return command == LOAD_TAKE || command == LOAD_CAN_TAKE || command == LOAD_CHECK;
}

bool load_init(struct load *load, const struct load_config *config, char problem[LOAD_PROBLEM_MAX])
{
    bool resp = config->protocol == LOAD_RESP;
    *load = (struct load){.protocol = config->protocol, .command = config->command};
    if ((resp ? RESP_NAMES : HTTP_PATHS)[config->command] == NULL) {
        (void)snprintf(problem, LOAD_PROBLEM_MAX, "there is no %s over %s",
                       LOAD_COMMAND_NAMES[config->command], resp ? "RESP" : "HTTP");
        return false;
    }
    if (config->limit_count > 1 && !may_have_list(config->command)) {
        (void)snprintf(problem, LOAD_PROBLEM_MAX,
                       "one limit at a time: only take, can-take and check are under several");
        return false;
    }
    if (config->command == LOAD_THROTTLE && !is_throttle(&config->limit_config)) {
        (void)snprintf(problem, LOAD_PROBLEM_MAX,
                       "CL.THROTTLE knows whole counts, capacities and seconds only");
        return false;
    }
    struct buffer output;
    buffer_init(&output, LOAD_REQUEST_BYTES_MAX);
    if (resp) {
        append_resp(&output, config);
    } else {
        append_http(&output, config);
    }
    if (output.failed) {
        buffer_fini(&output);
        (void)snprintf(problem, LOAD_PROBLEM_MAX, "the request is too long");
        return false;
    }
    load->length = output.length;
    memcpy(load->bytes, output.at, output.length);
    buffer_fini(&output);
    const char *key = memmem(load->bytes, load->length, KEY, sizeof KEY - 1);
    if (key != NULL) {
        load->has_key = true;
        load->key_offset = (size_t)(key - load->bytes) + sizeof KEY - 1 - KEY_DIGITS;
    }
    return true;
}

void load_append(const struct load *load, uint64_t key_index, struct buffer *output)
{
    char *at = buffer_reserve(output, load->length);
    if (at == NULL) {
        return;
    }
    memcpy(at, load->bytes, load->length);
    if (load->has_key) {
        char *digits = at + load->key_offset;
        for (int i = KEY_DIGITS - 1; i >= 0; i--) {
            digits[i] = (char)('0' + key_index % 10);
            key_index /= 10;
        }
    }
    output->length += load->length;
}

/* ---- Replies ---- */

static enum load_verdict verdict_of_number(int64_t number)
{
    switch (number) {
    case 0: return LOAD_ALLOWED;
    case 1:
    case 3: return LOAD_LIMITED; // or blocked: 429 over HTTP, both
    case 2: return LOAD_NEVER;
    case 4: return LOAD_UNDECIDED;
    default: return LOAD_FAILED;
    }
}

static enum load_result read_resp(struct bytes input, enum load_verdict *verdict,
                                  struct bytes *text, size_t *used)
{
    struct reply reply;
    switch (reply_parse(input, &reply, used)) {
    case REPLY_DONE: break;
    case REPLY_MORE: return LOAD_MORE;
    case REPLY_BAD: return LOAD_BAD;
    }
    *text = reply.items[0].text;
    if (reply.is_array && reply.items[0].type == ':') {
        *verdict = verdict_of_number(reply.items[0].number);
    } else {
        *verdict = reply.items[0].type == '+' ? LOAD_PLAIN : LOAD_FAILED;
    }
    return LOAD_DONE;
}

/* "Content-Length: 42", in any letters; 0 without one. -1 if it is nonsense. */
static long content_length(struct bytes head)
{
    static const char NAME[] = "\r\ncontent-length:";
    const char *at = head.at;
    const char *end = head.at + head.length;
    while ((at = memchr(at, '\r', (size_t)(end - at))) != NULL) {
        if ((size_t)(end - at) >= sizeof NAME - 1 && strncasecmp(at, NAME, sizeof NAME - 1) == 0) {
            long length = 0;
            at += sizeof NAME - 1;
            at += at < end && *at == ' ';
            for (; at < end && *at >= '0' && *at <= '9'; at++) {
                length = length * 10 + (*at - '0');
                if (length > LOAD_REPLY_BYTES_MAX) {
                    return -1;
                }
            }
            return length;
        }
        at++;
    }
    return 0;
}

static enum load_verdict verdict_of_status(const struct load *load, int status)
{
    switch (status) {
    case 200: return load->command == LOAD_PING ? LOAD_PLAIN : LOAD_ALLOWED;
    case 204: return LOAD_ALLOWED;
    case 403: return load->command == LOAD_CHECK ? LOAD_LIMITED : LOAD_FAILED;
    case 422: return LOAD_NEVER;
    case 429: return LOAD_LIMITED;
    case 503: return LOAD_UNDECIDED;
    default: return LOAD_FAILED;
    }
}

static enum load_result read_http(const struct load *load, struct bytes input,
                                  enum load_verdict *verdict, struct bytes *text, size_t *used)
{
    static const char START[] = "HTTP/1.1 ";
    enum { STATUS_LINE_MIN = sizeof START - 1 + 4 };
    size_t known = input.length < sizeof START - 1 ? input.length : sizeof START - 1;
    if (memcmp(input.at, START, known) != 0) {
        return LOAD_BAD;
    }
    const char *end = memmem(input.at, input.length, "\r\n\r\n", 4);
    if (end == NULL) {
        return input.length > LOAD_REPLY_BYTES_MAX ? LOAD_BAD : LOAD_MORE;
    }
    struct bytes head = {input.at, (size_t)(end - input.at)};
    long body = content_length(head);
    if (body < 0 || head.length < STATUS_LINE_MIN) {
        return LOAD_BAD;
    }
    size_t total = head.length + 4 + (size_t)body;
    if (input.length < total) {
        return LOAD_MORE;
    }
    const char *code = input.at + sizeof START - 1;
    int status = (code[0] - '0') * 100 + (code[1] - '0') * 10 + (code[2] - '0');
    *verdict = verdict_of_status(load, status);
    *text =
        (struct bytes){input.at, (size_t)((const char *)memchr(input.at, '\r', total) - input.at)};
    *used = total;
    return LOAD_DONE;
}

enum load_result load_read(const struct load *load, struct bytes input, enum load_verdict *verdict,
                           struct bytes *text, size_t *used)
{
    if (input.length == 0) {
        return LOAD_MORE;
    }
    return load->protocol == LOAD_RESP ? read_resp(input, verdict, text, used)
                                       : read_http(load, input, verdict, text, used);
}
