/* SPDX-License-Identifier: MIT */
#include "server/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/stream.h"

/* ---- lists: what each connection waits for ---- */

/* Adds 1 to what the worker shows the others of its strangers; or takes 1 away, which wraps round to that. */
static void show_stranger(struct worker *worker, enum wait wait, uint64_t one)
{
    if (wait == WAIT_STRANGER) {
        counter_add(&worker->stranger_count, one);
    }
}

static void list_remove(struct worker *worker, struct connection *connection)
{
    struct connection_list *list = &worker->lists[connection->wait];
    if (connection->previous != NULL) {
        connection->previous->next = connection->next;
    } else {
        list->first = connection->next;
    }
    if (connection->next != NULL) {
        connection->next->previous = connection->previous;
    } else {
        list->last = connection->previous;
    }
    show_stranger(worker, (enum wait)connection->wait, UINT64_MAX);
}

static void list_append(struct worker *worker, struct connection *connection, enum wait wait)
{
    struct connection_list *list = &worker->lists[wait];
    connection->wait = (uint8_t)wait;
    connection->next = NULL;
    connection->previous = list->last;
    if (list->last != NULL) {
        list->last->next = connection;
    } else {
        list->first = connection;
    }
    list->last = connection;
    show_stranger(worker, wait, 1);
}

/* From now on it waits for this. */
static void wait_for(struct worker *worker, struct connection *connection, enum wait wait)
{
    list_remove(worker, connection);
    connection->since_ns = worker->now_ns;
    list_append(worker, connection, wait);
}

static void run_again_later(struct worker *worker, struct connection *connection)
{
    if (connection->is_again) {
        return;
    }
    connection->is_again = true;
    connection->again_next = NULL;
    if (worker->again_last != NULL) {
        worker->again_last->again_next = connection;
    } else {
        worker->again_first = connection;
    }
    worker->again_last = connection;
}

bool connection_any(const struct worker *worker)
{
    for (int wait = 0; wait < WAIT_COUNT; wait++) {
        if (worker->lists[wait].first != NULL) {
            return true;
        }
    }
    return false;
}

/* What holds of every open connection between two turns. */
static bool connection_valid(const struct connection *connection)
{
    return connection->fd >= 0 && connection->wait < WAIT_COUNT
           && (connection->output != NULL) == (connection->wait == WAIT_WRITE)
           && (connection->waiting != NULL || connection->wait != WAIT_LINE)
           && (connection->inquiry != NULL || connection->wait != WAIT_STORE)
           && connection->output_at <= connection->output_len
           && connection->input_len <= connection->input_capacity
           && (connection->input_len > 0 || !connection->is_unread);
}

/* ---- the end ---- */

static const char *reason_label(enum close_reason reason)
{
    static const char *const labels[] = {
#define CLOSE_REASON_ENTRY(name, label) [name] = label,
        CLOSE_REASON_MAP(CLOSE_REASON_ENTRY)
#undef CLOSE_REASON_ENTRY
    };
    return labels[reason];
}

void connection_print_client(const struct connection *connection, char name[ADDRESS_TEXT_BYTES_MAX])
{
    struct socket_address from = {.length = sizeof from.storage};
    if (getpeername(connection->fd, &from.any, &from.length) == 0) {
        address_print(&from, name, ADDRESS_TEXT_BYTES_MAX);
    } else {
        (void)snprintf(name, ADDRESS_TEXT_BYTES_MAX, "unknown");
    }
}

/* Clients that are cut off are worth a line, those that leave are not. Of wrong passwords there is a line
 * already. */
static void log_close(struct worker *worker, const struct connection *connection,
                      enum close_reason reason)
{
    struct server *server = worker->server;
    uint64_t skipped = 0;
    bool is_cut = reason != CLOSE_CLIENT && reason != CLOSE_PROTOCOL && reason != CLOSE_ERROR
                  && reason != CLOSE_AUTH_FAILURES && reason != CLOSE_IDLE_TIMEOUT
                  && reason != CLOSE_DRAIN;
    if (!is_cut || !log_gate_pass(&server->cut_gate, worker->now_ns, &skipped)) {
        return;
    }
    char name[ADDRESS_TEXT_BYTES_MAX];
    connection_print_client(connection, name);
    LOG(&server->log, LOG_WARN, "cut_off", log_text("reason", reason_label(reason)),
        log_text("protocol", connection->engine->name), log_text("client", name),
        log_number("skipped", skipped));
}

/* Before its end is seen: whoever sees that may come again at once, or ask for the figures. */
static void count_close(struct worker *worker, const struct connection *connection,
                        enum close_reason reason)
{
    counter_add(&worker->stats.closed[reason], 1);
    counter_add(&worker->stats.ended[connection->engine->protocol], 1);
    if (connection->has_address) {
        address_table_leave(worker->server->addresses, connection->address);
    }
    /* Relaxed: a bound, see state.h. */
    (void)atomic_fetch_sub_explicit(&worker->server->connection_count, 1, memory_order_relaxed);
}

static void close_now(struct worker *worker, struct connection *connection,
                      enum close_reason reason)
{
    log_close(worker, connection, reason);
    if (connection->waiting != NULL) {
        waiting_end(worker, connection);
    }
    if (connection->inquiry != NULL) {
        asking_forget(worker, connection);
    }
    connection->engine->close(connection->session);
    list_remove(worker, connection);
    stream_release_input(worker, connection);
    stream_release_output(worker, connection);
    stream_count_held(worker, connection, true);
    count_close(worker, connection, reason);
    (void)close(connection->fd); // leaves the poller by itself
    connection->fd = -1;
    if (!connection->is_again) {
        free(connection);
    }
}

/* Everything is sent, and nothing more will be. If the client may still be sending, a close() now
 * would answer its next packet with a reset, which can destroy the answers on their way: so the
 * sending side closes first, and what arrives is thrown away for a moment. */
static void finish(struct worker *worker, struct connection *connection)
{
    bool was_quiet = worker->now_ns - connection->active_ns > worker->timeouts_ns[WAIT_LINGER];
    if (was_quiet || shutdown(connection->fd, SHUT_WR) != 0) {
        close_now(worker, connection, connection->reason);
        return;
    }
    stream_release_input(worker, connection);
    wait_for(worker, connection, WAIT_LINGER);
    run_again_later(worker, connection); // an edge may be gone already
}

static void throw_input_away(struct worker *worker, struct connection *connection)
{
    ssize_t count = recv(connection->fd, worker->input, READ_BYTES, 0);
    if (count > 0) {
        run_again_later(worker, connection);
    } else if (count == 0 || errno != EAGAIN) {
        close_now(worker, connection, connection->reason);
    }
}

/* ---- one turn ---- */

static enum wait idle_wait(const struct connection *connection)
{
    return connection->engine->protocol == PROTOCOL_RESP ? WAIT_RESP_IDLE : WAIT_HTTP_IDLE;
}

static enum wait next_wait(const struct connection *connection)
{
    if (connection->waiting != NULL) {
        return WAIT_LINE;
    }
    if (connection->inquiry != NULL) {
        return WAIT_STORE;
    }
    if (connection->share == POOL_STRANGERS) {
        return WAIT_STRANGER;
    }
    if (connection->transaction != 0) {
        return WAIT_EXEC;
    }
    return connection->input_len > 0 ? WAIT_REQUEST : idle_wait(connection);
}

static enum pool_share share_of(struct worker *worker, const struct connection *connection)
{
    return connection->engine->is_stranger(connection->session, &worker->service) ? POOL_STRANGERS
                                                                                  : POOL_FRIENDS;
}

void connection_begin(struct worker *worker, struct connection *connection)
{
    connection->share = (uint8_t)share_of(worker, connection);
    connection->since_ns = worker->now_ns;
    list_append(worker, connection, next_wait(connection));
}

/* What the engine has made of the client: whether it knows the password now, which transaction is open, and how
 * much is kept for it. Another transaction has its whole time. */
static void look_at_session(struct worker *worker, struct connection *connection)
{
    const struct engine_ops *engine = connection->engine;
    uint32_t before = connection->transaction;
    pool_set_share(worker, connection, share_of(worker, connection));
    connection->transaction =
        engine->transaction != NULL ? engine->transaction(connection->session) : 0;
    if (connection->wait == WAIT_EXEC && connection->transaction != before) {
        wait_for(worker, connection, WAIT_EXEC);
    }
    stream_count_held(worker, connection, false);
}

/* What it waits for from now on. `used`: whether a request was answered in this turn. A stranger has the time
 * that it had when it connected, and a transaction that which it had at MULTI, whatever comes meanwhile. */
static void settle(struct worker *worker, struct connection *connection, bool used, bool is_more)
{
    if (worker->is_draining && !connection->is_unread && !is_more && !connection->is_ending
        && connection->waiting == NULL) {
        connection->is_ending = true; // all that had arrived is answered
        connection->reason = CLOSE_DRAIN;
    }
    if (connection->output != NULL) {
        if (connection->wait != WAIT_WRITE) {
            wait_for(worker, connection, WAIT_WRITE);
        }
        return;
    }
    if (connection->is_ending) {
        finish(worker, connection);
        return;
    }
    enum wait wait = next_wait(connection);
    if (wait != connection->wait || (wait == WAIT_REQUEST && used)) {
        wait_for(worker, connection, wait);
    }
    bool has_to_wait = connection->waiting != NULL || asking_is_out(connection);
    if (is_more || (connection->is_unread && !has_to_wait)) {
        run_again_later(worker, connection);
    }
}

void connection_give_way(struct worker *worker, struct connection *connection)
{
    enum close_reason reason =
        connection->share == POOL_STRANGERS ? CLOSE_STRANGERS_MAX : CLOSE_BUFFERS_MAX;
    if (connection->is_ending) {
        reason = (enum close_reason)connection->reason;
    }
    run_again_later(worker, connection);
    close_now(worker, connection, reason);
}

void connection_make_room(struct worker *worker)
{
    struct connection *one;
    while (!worker->is_draining && (one = pool_choose(worker)) != NULL) {
        connection_give_way(worker, one);
    }
}

/* False if the connection had to end because all together keep too much. While the server drains nobody else
 * can: the lists are being walked through. */
static bool may_stay(struct worker *worker, struct connection *connection)
{
    if (connection->kept_bytes == 0) { // whatever presses, others press
        return true;
    }
    if (!worker->is_draining) {
        connection_make_room(worker);
    } else if (pool_is_pressed(worker->server)) {
        connection_give_way(worker, connection);
    }
    return connection->fd >= 0;
}

/* What an engine has left behind: its state, what it answers, and the input that it is not done with. */
static void conclude(struct worker *worker, struct connection *connection, enum engine_state state,
                     struct bytes rest, bool used, bool is_more)
{
    /* An engine that pauses, or asks, has more to say to the same input; one whose take waits, or has just waited, has
     * not looked at it. */
    bool is_unread = state == ENGINE_PAUSED || state == ENGINE_WAITING || state == ENGINE_ASKING
                     || connection->has_waited;
    connection->has_waited = false;
    if (state == ENGINE_CLOSE) {
        connection->is_ending = true;
        connection->reason = connection->is_refused ? CLOSE_AUTH_FAILURES : CLOSE_PROTOCOL;
        rest.length = 0;
    }
    if (worker->output.failed) {
        close_now(worker, connection, CLOSE_OUTPUT_MAX);
    } else if (rest.length > ENGINE_INPUT_BYTES_MAX && !is_unread) {
        close_now(worker, connection, CLOSE_INPUT_MAX);
    } else if (!stream_keep_input(worker, connection, rest)) {
        close_now(worker, connection, CLOSE_ERROR);
    } else if (!stream_send(worker, connection)) {
        close_now(worker, connection, CLOSE_ERROR);
    } else if (may_stay(worker, connection)) {
        connection->is_unread = is_unread && rest.length > 0;
        settle(worker, connection, used, is_more);
    }
    stream_reset_output(worker);
}

static void renew_test_clock(struct worker *worker)
{
    if (worker->server->options.test_clock) {
        worker->service.now_ns = test_clock_now_ns(&worker->server->test_clock);
    }
}

/* Wrong passwords are worth a line: somebody guesses, or a client is not set up well. */
static void log_auth_failures(struct worker *worker, const struct connection *connection,
                              uint64_t count)
{
    uint64_t skipped = 0;
    if (!log_gate_pass(&worker->server->auth_gate, worker->now_ns, &skipped)) {
        return;
    }
    char name[ADDRESS_TEXT_BYTES_MAX];
    connection_print_client(connection, name);
    LOG(&worker->server->log, LOG_WARN, "auth_failed",
        log_text("protocol", connection->engine->name), log_text("client", name),
        log_number("count", count), log_number("skipped", skipped));
}

/* Feeds the engine, and sends what it answers. */
static void answer(struct worker *worker, struct connection *connection, struct bytes input,
                   bool is_more)
{
    renew_test_clock(worker);
    worker_follow(worker);
    bool has_answers = connection->inquiry != NULL;
    if (has_answers) {
        asking_lend(worker, connection);
    }
    size_t used = 0;
    worker->running = connection;
    worker->fed_ns = worker->now_ns;
    const uint64_t *failures = &worker->counters.auth_failures[connection->engine->protocol];
    uint64_t failures_before = *failures;
    enum engine_state state = connection->engine->feed(connection->session, &worker->service, input,
                                                       &worker->output, &used);
    assert(used <= input.length);
    connection->is_behind = is_more;
    if (has_answers) {
        asking_take_back(worker, connection, state == ENGINE_CLOSE);
    }
    connection->is_refused = *failures != failures_before;
    if (connection->is_refused) {
        log_auth_failures(worker, connection, *failures - failures_before);
    }
    assert((state == ENGINE_WAITING) == (connection->waiting != NULL));
    assert((state == ENGINE_ASKING) == asking_is_out(connection));
    look_at_session(worker, connection);
    struct bytes rest = {input.at + used, input.length - used};
    if (state == ENGINE_PAUSED) {
        worker->renew_countdown = 0; // the reading is old now
    }
    conclude(worker, connection, state, rest, used > 0 || state == ENGINE_PAUSED, is_more);
}

void connection_resume(struct worker *worker, struct connection *connection,
                       struct edition *edition, const struct weir_decision *decisions)
{
    assert(connection->waiting == NULL);
    renew_test_clock(worker);
    editions_lend(worker, edition);
    worker->running = connection;
    enum engine_state state = connection->engine->resume(connection->session, &worker->service,
                                                         decisions, &worker->output);
    editions_lend(worker, worker->edition);
    look_at_session(worker, connection);
    struct bytes rest = {connection->input, connection->input_len};
    connection->has_waited = true;
    conclude(worker, connection, state, rest, true, true); // what came meanwhile is unread, too
}

/* Something has happened to a connection that stands in line: it reads nothing there. */
static void stand(struct worker *worker, struct connection *connection)
{
    if (connection->is_hangup) {
        close_now(worker, connection, CLOSE_CLIENT);
    } else if (worker->is_draining) {
        waiting_fail(worker, connection);
    } else {
        settle(worker, connection, false, false);
    }
}

void connection_run(struct worker *worker, struct connection *connection, bool is_hangup)
{
    if (connection->fd < 0) {
        return; // it gave way to others, in this turn
    }
    assert(connection_valid(connection));
    if (connection->wait == WAIT_LINGER) {
        throw_input_away(worker, connection);
        return;
    }
    if (connection->output != NULL) {
        enum stream_result sent = stream_send_waiting(worker, connection);
        if (sent == STREAM_FAILED) {
            close_now(worker, connection, CLOSE_ERROR);
        }
        if (sent != STREAM_DONE) {
            return;
        }
    }
    if (connection->is_ending) {
        finish(worker, connection);
        return;
    }
    connection->is_hangup = connection->is_hangup || is_hangup;
    if (connection->waiting != NULL) {
        stand(worker, connection);
        return;
    }
    bool has_asked = connection->inquiry != NULL;
    if (asking_is_out(connection)) { // also if the client has closed its side: it may wait for it
        connection->is_behind = true;
        settle(worker, connection, false, false);
        return;
    }
    if (connection->is_unread && connection->is_again) {
        connection->is_behind = true;
        return; // it has more to do than others: not before they have been heard
    }
    bool is_more = connection->is_hangup; // the end of the stream is behind the bytes
    struct bytes input = {connection->input, connection->input_len};
    if (connection->is_unread) {
        answer(worker, connection, input, is_more || connection->is_behind || !has_asked);
        return;
    }
    switch (stream_receive(worker, connection, &input, &is_more)) {
    case STREAM_DONE: answer(worker, connection, input, is_more); break;
    case STREAM_NOTHING: settle(worker, connection, false, false); break;
    case STREAM_END: close_now(worker, connection, CLOSE_CLIENT); break;
    case STREAM_FAILED: close_now(worker, connection, CLOSE_ERROR); break;
    }
}

void connection_run_again(struct worker *worker, uint64_t until_ns)
{
    struct connection *last = worker->again_last; // whoever comes behind is of the next turn
    while (worker->again_first != NULL) {
        struct connection *connection = worker->again_first;
        bool was_last = connection == last;
        worker->again_first = connection->again_next;
        if (worker->again_first == NULL) {
            worker->again_last = NULL;
        }
        connection->is_again = false;
        if (connection->fd < 0) {
            free(connection);
        } else {
            worker_renew_clock(worker);
            connection_run(worker, connection, false);
        }
        if (was_last || worker->now_ns >= until_ns) {
            break;
        }
    }
}

/* ---- time ---- */

static void expire(struct worker *worker, struct connection *connection)
{
    static const enum close_reason reasons[WAIT_COUNT] = {
        [WAIT_RESP_IDLE] = CLOSE_IDLE_TIMEOUT, [WAIT_HTTP_IDLE] = CLOSE_IDLE_TIMEOUT,
        [WAIT_STRANGER] = CLOSE_AUTH_TIMEOUT,  [WAIT_EXEC] = CLOSE_MULTI_TIMEOUT,
        [WAIT_REQUEST] = CLOSE_HEADER_TIMEOUT, [WAIT_WRITE] = CLOSE_WRITE_TIMEOUT};
    bool is_lingering = connection->wait == WAIT_LINGER;
    const char *too_late = connection->engine->too_late;
    bool is_late = connection->wait == WAIT_REQUEST || connection->wait == WAIT_STRANGER;
    if (is_late && connection->input_len > 0 && too_late != NULL) { // if the socket takes it
        (void)send(connection->fd, too_late, strlen(too_late), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    close_now(worker, connection,
              is_lingering ? (enum close_reason)connection->reason : reasons[connection->wait]);
}

/* An idle connection does not move in its list with every request, that would touch its
 * neighbours' memory; only here it is seen that it was active meanwhile. So an idle connection ends
 * between one and two timeouts after its last request. */
static bool was_active(struct worker *worker, struct connection *connection)
{
    bool is_idle = connection->wait == WAIT_RESP_IDLE || connection->wait == WAIT_HTTP_IDLE;
    if (!is_idle || connection->active_ns <= connection->since_ns) {
        return false;
    }
    enum wait wait = connection->wait;
    list_remove(worker, connection);
    connection->since_ns = connection->active_ns;
    list_append(worker, connection, wait);
    return true;
}

uint64_t connection_expire(struct worker *worker)
{
    uint64_t next_ns = UINT64_MAX;
    for (int wait = 0; wait < WAIT_COUNT; wait++) {
        uint64_t timeout_ns = worker->timeouts_ns[wait];
        struct connection *first;
        while (timeout_ns > 0 && (first = worker->lists[wait].first) != NULL) {
            uint64_t waited_ns = worker->now_ns - first->since_ns;
            if (waited_ns < timeout_ns) {
                uint64_t left_ns = timeout_ns - waited_ns;
                next_ns = left_ns < next_ns ? left_ns : next_ns;
                break;
            }
            if (!was_active(worker, first)) {
                expire(worker, first);
            }
        }
    }
    return next_ns;
}

/* ---- the server ends ---- */

void connection_drain_all(struct worker *worker)
{
    for (int wait = 0; wait < WAIT_LINGER; wait++) {
        /* The list is taken off first: running a connection moves it to another one, or frees it. */
        struct connection *last = worker->lists[wait].last;
        while (worker->lists[wait].first != NULL) {
            struct connection *connection = worker->lists[wait].first;
            bool was_last = connection == last;
            list_remove(worker, connection);
            list_append(worker, connection, (enum wait)wait); // if it stays, it stays behind
            connection_run(worker, connection, false);
            if (was_last) {
                break;
            }
        }
    }
}

void connection_close_all(struct worker *worker)
{
    for (int wait = 0; wait < WAIT_COUNT; wait++) {
        while (worker->lists[wait].first != NULL) {
            struct connection *connection = worker->lists[wait].first;
            bool is_owed = connection->output != NULL;
            close_now(worker, connection, is_owed ? CLOSE_DRAIN_TIMEOUT : CLOSE_DRAIN);
        }
    }
    connection_run_again(worker, UINT64_MAX); // frees those that were closed on that list
}
