/* SPDX-License-Identifier: MIT
 *
 * The commands about the connection itself: what every Redis client sends when it connects, in both
 * its old and its new form. Texts and shapes are those of redis-server 7, which clients look at. */
#include <string.h>

#include "protocol/resp/resp_session.h"
#include "protocol/secret.h"

static const char WRONG_PASSWORD[] =
    "WRONGPASS invalid username-password pair or user is disabled.";

static void write_ok(struct resp_call *call)
{
    resp_write_simple(call->output, "OK");
}

static void handle_ping(struct resp_call *call)
{
    if (call->command->arg_count > 2) {
        resp_fail_arity(call, "ping");
    } else if (call->command->arg_count == 2) {
        resp_write_bulk(call->output, resp_arg(call, 1));
    } else {
        resp_write_simple(call->output, "PONG");
    }
}

static void handle_echo(struct resp_call *call)
{
    resp_write_bulk(call->output, resp_arg(call, 1));
}

static void handle_quit(struct resp_call *call)
{
    write_ok(call);
    call->outcome = RESP_CLOSES;
}

static void handle_select(struct resp_call *call)
{
    int64_t index;
    if (!resp_read_integer(resp_arg(call, 1), &index)) {
        resp_fail(call, "ERR value is not an integer or out of range");
    } else if (index < 0 || index >= RESP_DATABASE_COUNT) {
        resp_fail(call, "ERR DB index is out of range");
    } else {
        write_ok(call);
    }
}

/* True if the name and password are right: the one user is `default`. */
static bool is_right(const struct resp_call *call, struct bytes user, struct bytes password)
{
    const struct service_config *config = call->service->config;
    bool is_user = user.length == 7 && memcmp(user.at, "default", 7) == 0;
    if (config->password == NULL) {
        return is_user; // as Redis: a user without a password takes any
    }
    struct bytes secret = {config->password, config->password_len};
    return secret_equals(password, secret) && is_user;
}

/* Who has said a wrong password RESP_AUTH_FAILURES_MAX times in a row is answered, and the connection ends. */
static bool log_in(struct resp_call *call, struct bytes user, struct bytes password)
{
    if (is_right(call, user, password)) {
        call->session->is_authenticated = true;
        call->session->auth_failures = 0;
        return true;
    }
    call->session->auth_failures++;
    if (call->session->auth_failures >= RESP_AUTH_FAILURES_MAX) {
        call->outcome = RESP_CLOSES;
    }
    counter_add(&call->service->counters->auth_failures[PROTOCOL_RESP], 1);
    resp_fail(call, "%s", WRONG_PASSWORD);
    return false;
}

static void handle_auth(struct resp_call *call)
{
    size_t arg_count = call->command->arg_count;
    if (arg_count > 3) {
        resp_fail(call, "ERR syntax error");
        return;
    }
    if (arg_count == 2 && call->service->config->password == NULL) {
        resp_fail(call,
                  "ERR AUTH <password> called without any password configured for the default "
                  "user. Are you sure your configuration is correct?");
        return;
    }
    struct bytes user = arg_count == 3 ? resp_arg(call, 1) : (struct bytes){"default", 7};
    if (log_in(call, user, resp_arg(call, arg_count - 1))) {
        write_ok(call);
    }
}

/* Copies a name that clients give; false if it has bytes that would break a line of CLIENT LIST, or
 * too many. */
static bool copy_name(char *to, size_t size, struct bytes name)
{
    if (name.length >= size) {
        return false;
    }
    for (size_t i = 0; i < name.length; i++) {
        if (name.at[i] < '!' || name.at[i] > '~') {
            return false;
        }
    }
    memcpy(to, name.at, name.length);
    to[name.length] = '\0';
    return true;
}

static bool set_name(struct resp_call *call, struct bytes name)
{
    if (copy_name(call->session->name, sizeof call->session->name, name)) {
        return true;
    }
    if (name.length > RESP_NAME_BYTES_MAX) {
        resp_fail(call, "ERR Client names cannot be longer than %d bytes.", RESP_NAME_BYTES_MAX);
    } else {
        resp_fail(call, "ERR Client names cannot contain spaces, newlines or special characters.");
    }
    return false;
}

static void write_hello(struct resp_call *call)
{
    struct buffer *output = call->output;
    int version = call->session->version;
    resp_write_map(output, version, 7);
    resp_write_bulk_text(output, "server");
    resp_write_bulk_text(output, "weir");
    resp_write_bulk_text(output, "version");
    resp_write_bulk_text(output, call->service->config->redis_version);
    resp_write_bulk_text(output, "proto");
    resp_write_integer(output, version);
    resp_write_bulk_text(output, "id");
    resp_write_integer(output, (int64_t)call->session->id);
    resp_write_bulk_text(output, "mode");
    resp_write_bulk_text(output, "standalone");
    resp_write_bulk_text(output, "role");
    resp_write_bulk_text(output, "master");
    resp_write_bulk_text(output, "modules");
    resp_write_array(output, 0);
}

/* HELLO [version [AUTH user password] [SETNAME name]]. The version changes only if all the rest was
 * right; a right password counts also where what follows it is wrong, as in Redis. */
static void handle_hello(struct resp_call *call)
{
    size_t arg_count = call->command->arg_count;
    int64_t version = call->session->version;
    struct bytes name = {NULL, 0};
    if (arg_count > 1 && !resp_read_integer(resp_arg(call, 1), &version)) {
        resp_fail(call, "ERR Protocol version is not an integer or out of range");
        return;
    }
    if (version != 2 && version != 3) {
        resp_fail(call, "NOPROTO unsupported protocol version");
        return;
    }
    for (size_t i = 2; i < arg_count; i++) {
        struct bytes option = resp_arg(call, i);
        if (resp_word_is(option, "auth") && i + 2 < arg_count) {
            if (!log_in(call, resp_arg(call, i + 1), resp_arg(call, i + 2))) {
                return;
            }
            i += 2;
        } else if (resp_word_is(option, "setname") && i + 1 < arg_count) {
            name = resp_arg(call, ++i);
        } else {
            resp_fail(call, "ERR Syntax error in HELLO option '%.*s'",
                      option.length < 64 ? (int)option.length : 64, option.at);
            return;
        }
    }
    if (call->service->config->password != NULL && !call->session->is_authenticated) {
        resp_fail(
            call,
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the "
            "HELLO AUTH <user> <pass> option can be used to authenticate the client and select the "
            "RESP protocol version at the same time");
        return;
    }
    if (name.at != NULL && !set_name(call, name)) {
        return;
    }
    call->session->version = (uint8_t)version;
    write_hello(call);
}

static void handle_reset(struct resp_call *call)
{
    resp_transaction_release(call->session);
    call->session->version = 2;
    call->session->is_authenticated = false;
    call->session->name[0] = '\0';
    resp_write_simple(call->output, "RESET");
}

/* CLIENT. */

static void client_id(struct resp_call *call)
{
    resp_write_integer(call->output, (int64_t)call->session->id);
}

static void client_getname(struct resp_call *call)
{
    if (call->session->name[0] == '\0') {
        resp_write_null(call->output, call->session->version);
    } else {
        resp_write_bulk_text(call->output, call->session->name);
    }
}

static void client_setname(struct resp_call *call)
{
    if (set_name(call, resp_arg(call, 2))) {
        write_ok(call);
    }
}

static void client_setinfo(struct resp_call *call)
{
    struct resp_session *session = call->session;
    struct bytes option = resp_arg(call, 2);
    bool is_name = resp_word_is(option, "lib-name");
    if (!is_name && !resp_word_is(option, "lib-ver")) {
        resp_fail(call, "ERR Unrecognized option '%.*s'",
                  option.length < 64 ? (int)option.length : 64, option.at);
        return;
    }
    char *to = is_name ? session->library_name : session->library_version;
    if (copy_name(to, RESP_LIBRARY_BYTES_MAX + 1, resp_arg(call, 3))) {
        write_ok(call);
    } else {
        resp_fail(call,
                  "ERR %s must be at most %d bytes without spaces, newlines or special "
                  "characters.",
                  is_name ? "lib-name" : "lib-ver", RESP_LIBRARY_BYTES_MAX);
    }
}

/* One line about this connection; a worker does not look into those of others. */
static void write_client_line(struct resp_call *call)
{
    const struct resp_session *session = call->session;
    struct buffer line;
    buffer_init(&line, 1024);
    buffer_printf(
        &line,
        "id=%llu addr=%s laddr=%s name=%s db=0 user=default resp=%d lib-name=%s lib-ver=%s\n",
        (unsigned long long)session->id, session->peer_name, session->local_name, session->name,
        session->version, session->library_name, session->library_version);
    resp_write_verbatim(call->output, session->version, (struct bytes){line.at, line.length});
    buffer_fini(&line);
}

static void client_accept(struct resp_call *call)
{
    write_ok(call); // nothing is evicted or touched here
}

static void client_kill(struct resp_call *call)
{
    resp_fail(call, "ERR No such client");
}

static void client_reply(struct resp_call *call)
{
    if (resp_word_is(resp_arg(call, 2), "on")) {
        write_ok(call);
    } else {
        resp_fail(call, "ERR weir answers every command: only CLIENT REPLY ON is supported");
    }
}

static void client_tracking(struct resp_call *call)
{
    if (resp_word_is(resp_arg(call, 2), "off")) {
        write_ok(call);
    } else {
        resp_fail(call, "ERR weir stores no keys to track: only CLIENT TRACKING OFF is supported");
    }
}

static const struct resp_handler CLIENT_HANDLERS[] = {
    {"id", 2, false, client_id},
    {"getname", 2, false, client_getname},
    {"setname", 3, false, client_setname},
    {"setinfo", 4, false, client_setinfo},
    {"info", 2, false, write_client_line},
    {"list", -2, false, write_client_line},
    {"kill", -3, false, client_kill},
    {"no-evict", 3, false, client_accept},
    {"no-touch", 3, false, client_accept},
    {"reply", 3, false, client_reply},
    {"tracking", -3, false, client_tracking},
    {NULL, 0, false, NULL},
};

static void handle_client(struct resp_call *call)
{
    resp_handle_subcommand(call, "client", CLIENT_HANDLERS);
}

const struct resp_handler RESP_CONNECTION_HANDLERS[] = {
    {"ping", -1, false, handle_ping},
    {"echo", 2, false, handle_echo},
    {"hello", -1, true, handle_hello},
    {"auth", -2, true, handle_auth},
    {"select", 2, false, handle_select},
    {"quit", -1, true, handle_quit},
    {"reset", 1, true, handle_reset},
    {"client", -2, false, handle_client},
    {NULL, 0, false, NULL},
};
