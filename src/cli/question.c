/* SPDX-License-Identifier: MIT */
#include "cli/question.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/local.h"
#include "cli/request.h"
#include "core/bucket_math.h"
#include "core/quantity.h"
#include "limiter/names/names.h"

enum {
    REQUEST_COUNT_MAX = 4, // in one write: what names mean, two that look ahead, and the question
    REQUEST_BYTES_MAX = REQUEST_COUNT_MAX * (WEIR_KEY_BYTES_MAX + LIMIT_LIST_TEXT_MAX + 4096),
    KEY_SHOWN_MAX = 40,
    LIMIT_SHOWN_MAX = 40,
};

#define ERASE_LINE "\r\033[K"

/* Between them a line that is too long ends at the terminal's edge, so that it can be written over. */
#define WRAP_OFF "\033[?7l"
#define WRAP_ON  "\033[?7h"

/* The words of the wire, by operation. */
static const char *const WIRE_NAMES[] = {
    [WEIR_TAKE] = "WEIR.TAKE",     [WEIR_CAN_TAKE] = "WEIR.CANTAKE", [WEIR_FILL] = "WEIR.FILL",
    [WEIR_REFUND] = "WEIR.REFUND", [WEIR_SHOW] = "WEIR.SHOW",        [WEIR_RESET] = "WEIR.RESET",
    [WEIR_BLOCK] = "WEIR.BLOCK",   [WEIR_UNBLOCK] = "WEIR.UNBLOCK",
};

struct question question_of(const struct command *command, enum weir_operation operation)
{
    return (struct question){
        .command = command,
        .operation = operation,
        .cost_micro = WEIR_UNIT,
        .timeout_ns = 5 * NS_PER_S,
    };
}

struct question question_that_waits(const struct command *command)
{
    struct question question = question_of(command, WEIR_TAKE);
    question.wait_ms = QUESTION_WAIT_MS_MAX;
    question.unbounded = true;
    return question;
}

int question_read_cost(struct question *question, const char *text)
{
    struct weir_error error;
    if (weir_cost_parse(&question->cost_micro, text, strlen(text), &error) != WEIR_OK) {
        complain_at(question->command, text, &error);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int read_timeout(struct question *question, const char *text)
{
    struct weir_error error;
    if (quantity_parse_duration(&question->timeout_ns, text, &error) != WEIR_OK) {
        complain_at(question->command, text, &error);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

int question_read_wait(struct question *question, const char *text)
{
    struct weir_error error;
    uint64_t wait_ns = 0;
    if (quantity_parse_duration(&wait_ns, text, &error) != WEIR_OK) {
        complain_at(question->command, text, &error);
        return CLI_USAGE;
    }
    if (wait_ns % NS_PER_MS != 0 || wait_ns / NS_PER_MS > QUESTION_WAIT_MS_MAX) {
        return usage_error(question->command,
                           "--wait is a whole number of milliseconds, at most 24 h, not '%.40s'",
                           text);
    }
    question->wait_ms = wait_ns / NS_PER_MS;
    return CLI_DONE;
}

/* The next NAME=VALUE of a list with commas between; false at its end, or where it is none. */
static bool next_variable(const char **rest, struct bytes *name, struct bytes *value)
{
    size_t length = strcspn(*rest, ",");
    const char *equals = memchr(*rest, '=', length);
    if (equals == NULL || equals == *rest) {
        return false;
    }
    *name = (struct bytes){*rest, (size_t)(equals - *rest)};
    *value = (struct bytes){equals + 1, length - name->length - 1};
    *rest += length + ((*rest)[length] == ',');
    return true;
}

static unsigned count_variables(const char *vars)
{
    struct bytes name;
    struct bytes value;
    unsigned count = 0;
    while (vars != NULL && next_variable(&vars, &name, &value)) {
        count++;
    }
    return count;
}

int question_read_vars(struct question *question, const char *text)
{
    struct bytes name;
    struct bytes value;
    const char *rest = text;
    unsigned count = 0;
    while (*rest != '\0' && next_variable(&rest, &name, &value)) {
        count++;
    }
    if (*rest != '\0' || count == 0 || count > VARIABLE_COUNT_MAX) {
        return usage_error(question->command, "--vars is NAME=VALUE,..., at most %d, not '%.40s'",
                           VARIABLE_COUNT_MAX, text);
    }
    question->vars = text;
    return CLI_DONE;
}

int question_read_option(struct question *question, int option, const char *value)
{
    switch (option) {
    case QUESTION_SERVER: question->server.text = value; break;
    case QUESTION_PASSWORD_FILE: question->server.password_file = value; break;
    default: return read_timeout(question, value);
    }
    return CLI_DONE;
}

/* How long a block lasts. */
static int read_block(struct question *question, const char *text)
{
    struct weir_error error;
    uint64_t block_ns = 0;
    if (quantity_parse_duration(&block_ns, text, &error) != WEIR_OK) {
        complain_at(question->command, text, &error);
        return CLI_USAGE;
    }
    if (block_ns == 0 || block_ns % NS_PER_MS != 0) {
        return usage_error(question->command,
                           "a block lasts a whole number of milliseconds, not '%.40s'", text);
    }
    question->block_ms = block_ns / NS_PER_MS;
    return CLI_DONE;
}

int question_read_words(struct question *question, int count, char **words)
{
    if (question->operation == WEIR_BLOCK) {
        if (count < 3) {
            return usage_error(question->command,
                               "say which key, which limit and how long: login:alice 5/min 15min");
        }
        int code = read_block(question, words[--count]);
        if (code != CLI_DONE) {
            return code;
        }
    }
    if (count == 0) {
        return usage_error(question->command, "say which key and which limit: login:alice 10/s");
    }
    if (count == 1) {
        return usage_error(question->command, "say which limit, for example 10/s");
    }
    size_t key_len = strlen(words[0]);
    if (key_len == 0 || key_len > WEIR_KEY_BYTES_MAX) {
        return usage_error(question->command, "a key has 1 to %d bytes", WEIR_KEY_BYTES_MAX);
    }
    question->key = words[0];
    struct limit_arguments joined;
    if (!limit_arguments_join(&joined, count - 1, words + 1)) {
        return usage_error(question->command, "limits have at most %d bytes",
                           (int)LIMIT_LIST_TEXT_MAX);
    }
    memcpy(question->limit, joined.text, joined.length + 1);
    struct weir_error error;
    struct limits_said said;
    if (limits_read(question->limit, &said, &error) != WEIR_OK) {
        complain_at(question->command, question->limit, &error);
        return CLI_USAGE;
    }
    question->list = said.list;
    question->config = said.first;
    question->has_queue = said.has_queue;
    question->is_named = said.is_named;
    if (question->list.count > 1 && question->operation != WEIR_TAKE
        && question->operation != WEIR_CAN_TAKE) {
        const struct limit_span *second = &question->list.spans[1];
        return usage_error(question->command,
                           "one limit at a time, and '%.*s' is another: only take and can-take are "
                           "under several",
                           second->length < LIMIT_SHOWN_MAX ? (int)second->length : LIMIT_SHOWN_MAX,
                           question->limit + second->at);
    }
    if (question->vars != NULL && !question->is_named) { // under a name the server knows who asks
        return usage_error(question->command,
                           "--vars are for the keys of a chain: no name is among these limits");
    }
    if (question->operation == WEIR_REFUND && !kind_takes_refund(question->config.kind)) {
        return usage_error(question->command, LIMIT_TAKES_NO_REFUND);
    }
    return question->cost_micro % said.grain_micro == 0
               ? CLI_DONE
               : usage_error(question->command, "--cost: " LIMIT_COUNTS_WHOLE);
}

int question_prepare(struct question *question, struct local *local)
{
    const struct command *command = question->command;
    int code = place_choose(&question->server, &local->store.url, command);
    if (code != CLI_DONE) {
        return code;
    }
    if (question->server.text != NULL) {
        return server_option_complete(&question->server, command);
    }
    if (question->server.password_file != NULL) {
        return usage_error(command, "a password is for a server: say which, --server ADDR");
    }
    question->local = local;
    return store_option_complete(&local->store, command);
}

const char *question_place(const struct question *question, char text[PLACE_TEXT_MAX])
{
    bool is_local = question->local != NULL;
    (void)snprintf(text, PLACE_TEXT_MAX, "the %s%.300s", is_local ? "store" : "server at ",
                   is_local ? "" : question->server.text);
    return text;
}

void question_fini(struct question *question)
{
    if (question->local != NULL) {
        local_close(question->local);
    }
    server_option_fini(&question->server);
}

/* The connection failed. */
static int fail_client(const struct question *question, const struct client *client,
                       enum client_status status)
{
    if (status == CLIENT_NO_SERVER) {
        return complain_no_server(&question->server, question->command, "--resp", client->problem);
    }
    char place[PLACE_TEXT_MAX];
    complain(question->command, "%s: %s", question_place(question, place), client->problem);
    return CLI_FAILED;
}

/* The server answered with an error. What it calls invalid is wrong on the command line, as it
 * is when it is found out here: a script must not take a typing error for an outage. */
static int fail_reply(const struct question *question, const struct reply *reply)
{
    const struct command *command = question->command;
    const char *where = question->server.text;
    const char *file = question->server.password_file;
    if (reply_is_error(reply, "NOAUTH")) {
        complain(command,
                 "the server at %s wants a password: --password-file FILE or WEIR_PASSWORD_FILE",
                 where);
    } else if (reply_is_error(reply, "WRONGPASS")) {
        complain(command, "the server at %s refuses the password from %s", where, file);
    } else if (file != NULL && reply_is_error(reply, "ERR AUTH")) {
        complain(command, "the server at %s has no password; leave out the one from %s", where,
                 file);
    } else if (reply_is_error(reply, "")) {
        complain(command, "the server at %s says: %.*s", where, (int)reply->items[0].text.length,
                 reply->items[0].text.at);
    } else {
        complain(command, "the server at %s: its answer is none to %s", where,
                 WIRE_NAMES[question->operation]);
    }
    return reply_is_error(reply, "ERR invalid ") ? CLI_USAGE : CLI_FAILED;
}

static void write_variables(struct buffer *request, const char *vars)
{
    const char *rest = vars;
    struct bytes variable;
    struct bytes value;
    while (rest != NULL && next_variable(&rest, &variable, &value)) {
        request_word(request, "VAR", 3);
        request_word(request, variable.at, variable.length);
        request_word(request, value.at, value.length);
    }
}

/* `operation` is the question's own, or one that looks ahead of it. */
static void write_request(struct buffer *request, const struct question *question,
                          enum weir_operation operation)
{
    char number[MICRO_TEXT_MAX];
    bool has_cost = question->cost_micro != WEIR_UNIT && operation != WEIR_SHOW;
    bool waits = question->wait_ms > 0 && operation == question->operation;
    const char *name = WIRE_NAMES[operation];
    bool blocks = operation == WEIR_BLOCK;
    const char *vars = operation == WEIR_SHOW ? NULL : question->vars; // they are for chains
    bool asks_shadow = answer_hears_shadow(question->is_named, operation);
    request_begin(request, 3U + blocks + 2U * has_cost + 2U * waits + asks_shadow
                               + 3U * count_variables(vars));
    request_word(request, name, strlen(name));
    request_word(request, question->key, strlen(question->key));
    request_word(request, question->limit, strlen(question->limit));
    if (blocks) {
        (void)snprintf(number, sizeof number, "%" PRIu64, question->block_ms);
        request_word(request, number, strlen(number));
    }
    if (has_cost) {
        (void)print_micro(question->cost_micro, number);
        request_word(request, "COST", 4);
        request_word(request, number, strlen(number));
    }
    if (waits) {
        (void)snprintf(number, sizeof number, "%" PRIu64, question->wait_ms);
        request_word(request, "WAIT", 4);
        request_word(request, number, strlen(number));
    }
    if (asks_shadow) {
        request_word(request, "SHADOW", 6);
    }
    write_variables(request, vars);
}

bool question_has_one_line(const struct question *question)
{
    return question->list.count == 1;
}

/* AUTH, where there is a password; what names mean, where there are names; and what there is to expect in
 * line, where somebody wants to see it. */
static void write_ahead(struct buffer *request, const struct question *question)
{
    if (question->logs_in) {
        request_begin(request, 2);
        request_word(request, "AUTH", 4);
        request_word(request, question->server.password.text, question->server.password.length);
    }
    if (question->learns) {
        request_begin(request, 3U + 3U * count_variables(question->vars));
        request_word(request, "WEIR.LIMITS", 11);
        request_word(request, question->key, strlen(question->key));
        request_word(request, question->limit, strlen(question->limit));
        write_variables(request, question->vars);
    }
    if (question->looks_ahead) {
        write_request(request, question, WEIR_CAN_TAKE);
        if (question_has_one_line(question)) {
            write_request(request, question, WEIR_SHOW);
        }
    }
}

void question_begin_answer(const struct question *question, struct answer *answer)
{
    *answer = (struct answer){
        .operation = question->operation,
        .cost_micro = question->cost_micro,
        .config = question->config,
        .is_together = question->list.count > 1,
        .is_named = question->is_named,
        .known = question->known.count > 0 ? &question->known : NULL,
        .limits = question->limit,
        .list = question->list,
        .binding = -1,
        .shadow = WEIR_ALLOWED,
    };
}

/* The client is what there will be something to read from. */
static int open_local(struct question *question, struct client *client)
{
    client_open_fd(client, -1);
    int code = local_open(question->local, question);
    if (code == CLI_DONE) {
        client->fd = dup(question->local->fd);
    }
    return code;
}

int question_open(struct question *question, struct client *client)
{
    if (question->local != NULL) {
        question->waiting_since_ns =
            question->waiting_since_ns != 0 ? question->waiting_since_ns : monotonic_now_ns();
        return open_local(question, client);
    }
    enum client_status status = client_open(client, question->server.resolved,
                                            question->server.resolved_count, question->timeout_ns);
    question->logs_in = question->server.password.text != NULL;
    question->learns = question->is_named;
    if (status != CLIENT_OK) {
        return fail_client(question, client, status);
    }
    if (question->wait_ms > 0) {
        client_keep_alive(client);
    }
    if (question->waiting_since_ns == 0) {
        question->waiting_since_ns = monotonic_now_ns();
    }
    return CLI_DONE;
}

/* One write; `only_ahead`: without the question itself. */
static int send_request(struct question *question, struct client *client, bool only_ahead)
{
    struct buffer request;
    enum client_status status = CLIENT_OK;
    buffer_init(&request, REQUEST_BYTES_MAX);
    write_ahead(&request, question);
    if (!only_ahead) {
        write_request(&request, question, question->operation);
    }
    bool failed = request.failed;
    if (!failed) {
        status = client_send(client, (struct bytes){request.at, request.length});
    }
    buffer_fini(&request);
    if (failed) {
        complain(question->command, "out of memory");
        return CLI_FAILED;
    }
    return status == CLIENT_OK ? CLI_DONE : fail_client(question, client, status);
}

int question_send(struct question *question, struct client *client)
{
    if (question->local != NULL) {
        client_set_timeout(client, UINT64_MAX / 2); // store_end.h says when this has taken too long
        return local_send(question->local, question);
    }
    client_set_timeout(client, question->timeout_ns + question->wait_ms * NS_PER_MS);
    return send_request(question, client, false);
}

void question_expect(struct question *question, const struct answer *can_take,
                     const struct answer *show)
{
    uint64_t wait_ns = answer_wait_ns(can_take);
    if (wait_ns > 0) {
        question->outlook.turn_ns = monotonic_now_ns() + wait_ns;
        question->outlook.place = show != NULL ? show->waiting + 1 : 0;
    }
}

/* A server that does not understand what looks ahead says so, and answers the question all the same: then
 * nothing is known. To a name that is a chain the show is such an error. */
static enum client_status receive_outlook(struct question *question, struct client *client,
                                          struct reply *reply)
{
    struct answer can_take;
    struct answer show;
    enum client_status status = client_receive(client, reply);
    question_begin_answer(question, &can_take);
    can_take.operation = WEIR_CAN_TAKE;
    bool is_understood = status == CLIENT_OK && answer_read(&can_take, reply);
    bool has_place = status == CLIENT_OK && question_has_one_line(question);
    if (has_place) {
        status = client_receive(client, reply);
        question_begin_answer(question, &show);
        show.operation = WEIR_SHOW;
        has_place = status == CLIENT_OK && answer_read(&show, reply);
    }
    if (is_understood) {
        question_expect(question, &can_take, has_place ? &show : NULL);
    }
    return status;
}

/* The answers to what went ahead of the question, which come at once. A name that means nothing is no
 * failure yet: the answer to the question itself says so. */
static int receive_ahead(struct question *question, struct client *client, struct reply *reply)
{
    enum client_status status = CLIENT_OK;
    if (question->logs_in) {
        status = client_receive(client, reply);
        if (status == CLIENT_OK && reply->items[0].type != '+') {
            return fail_reply(question, reply);
        }
        question->logs_in = false;
    }
    if (status == CLIENT_OK && question->learns) {
        status = client_receive(client, reply);
        question->learns = false;
        if (status == CLIENT_OK) {
            (void)known_limits_read(&question->known, reply);
        }
    }
    if (status == CLIENT_OK && question->looks_ahead) {
        status = receive_outlook(question, client, reply);
        question->looks_ahead = false;
    }
    return status == CLIENT_OK ? CLI_DONE : fail_client(question, client, status);
}

int question_learn(struct question *question)
{
    struct client client;
    struct reply reply;
    int code = question_open(question, &client);
    if (code == CLI_DONE) {
        code = send_request(question, &client, true);
    }
    code = code == CLI_DONE ? receive_ahead(question, &client, &reply) : code;
    if (code == CLI_DONE && question->known.count == 0) {
        code = fail_reply(question, &reply);
    }
    client_close(&client);
    return code;
}

int question_receive(struct question *question, struct client *client, struct answer *answer)
{
    if (question->local != NULL) {
        local_receive(question->local, question, answer);
        answer->wait_ns = question->wait_ms * NS_PER_MS;
        return CLI_DONE;
    }
    struct reply reply;
    int code = receive_ahead(question, client, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    enum client_status status = client_receive(client, &reply);
    if (status != CLIENT_OK) {
        return fail_client(question, client, status);
    }
    question_begin_answer(question, answer);
    answer->wait_ns = question->wait_ms * NS_PER_MS;
    return answer_read(answer, &reply) ? CLI_DONE : fail_reply(question, &reply);
}

/* One line on the terminal, written over and over: for which key, what there is to expect, and when it ends. */
static void show_waiting(void *context)
{
    struct question *question = context;
    char words[OUTLOOK_TEXT_MAX];
    char time[DURATION_TEXT_MAX];
    char end[DURATION_TEXT_MAX + 32] = "";
    char key[KEY_SHOWN_MAX + 1];
    size_t length = 0;
    for (; length < KEY_SHOWN_MAX && question->key[length] != '\0'; length++) {
        unsigned char c = (unsigned char)question->key[length];
        key[length] = (char)(c < ' ' || c == 0x7f ? '?' : c); // a key is anything
    }
    key[length] = '\0';
    uint64_t now_ns = monotonic_now_ns();
    if (question->outlook.turn_ns > 0) {
        (void)outlook_print(&question->outlook, now_ns, words);
    } else {
        uint64_t waited_s = (now_ns - question->waiting_since_ns) / NS_PER_S;
        (void)snprintf(words, sizeof words, "%s so far",
                       duration_print_near(waited_s * NS_PER_S, time));
    }
    if (!question->unbounded) {
        (void)snprintf(end, sizeof end, " (gives up after %s)",
                       duration_print_near(question->wait_ms * NS_PER_MS, time));
    }
    (void)fprintf(stderr, WRAP_OFF ERASE_LINE "weir %s: waiting for '%s': %s%s" WRAP_ON,
                  question->command->name, key, words, end);
    (void)fflush(stderr);
}

static bool shows_waiting(const struct question *question)
{
    return question->wait_ms > 0 && isatty(STDERR_FILENO);
}

int question_ask(struct question *question, struct client *client, struct answer *answer)
{
    int code = question_open(question, client);
    bool shows = shows_waiting(question);
    question->looks_ahead = shows;
    question->outlook = (struct outlook){.turn_ns = 0};
    if (code == CLI_DONE) {
        code = question_send(question, client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    if (shows) {
        client_tick(client, show_waiting, question);
    }
    if (question->local == NULL) {
        struct reply reply;
        code = receive_ahead(question, client, &reply);
        if (code != CLI_DONE) {
            return code;
        }
    }
    enum client_status status = client_expect(client);
    if (shows) {
        (void)fputs(ERASE_LINE, stderr); // whatever is said next has a line of its own
    }
    return status == CLIENT_OK ? question_receive(question, client, answer)
                               : fail_client(question, client, status);
}

void question_pause(struct question *question, uint64_t pause_ns)
{
    bool shows = shows_waiting(question);
    question->outlook = (struct outlook){.turn_ns = 0}; // it stands in no line meanwhile
    uint64_t end_ns = monotonic_now_ns() + pause_ns;
    for (uint64_t now_ns; (now_ns = monotonic_now_ns()) < end_ns;) {
        uint64_t left_ns = end_ns - now_ns;
        if (shows) {
            show_waiting(question);
            left_ns = left_ns < NS_PER_S ? left_ns : NS_PER_S;
        }
        struct timespec left = {(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
        (void)nanosleep(&left, NULL); // woken early, it looks at the clock again
    }
    if (shows) {
        (void)fputs(ERASE_LINE, stderr);
    }
}
