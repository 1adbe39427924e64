/* SPDX-License-Identifier: MIT */
#include "server/door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/arrivals.h"
#include "server/connection.h"

void door_reject(struct worker *worker, const struct engine_ops *engine, int fd,
                 enum reject_reason reason)
{
    static const char *const words[PROTOCOL_COUNT] = {
        [PROTOCOL_RESP] = "-ERR max number of clients reached\r\n",
        [PROTOCOL_HTTP] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                          "Content-Length: 0\r\nConnection: close\r\n\r\n"};
    static const char *const labels[] = {
#define REJECT_REASON_ENTRY(name, label) [name] = label,
        REJECT_REASON_MAP(REJECT_REASON_ENTRY)
#undef REJECT_REASON_ENTRY
    };
    const char *text = words[engine->protocol];
    (void)recv(fd, worker->input, READ_BYTES, MSG_DONTWAIT); // unread bytes would make it a reset
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)close(fd);
    counter_add(&worker->stats.rejected[reason], 1);
    uint64_t skipped = 0;
    if (log_gate_pass(&worker->server->full_gate, worker->now_ns, &skipped)) {
        LOG(&worker->server->log, LOG_WARN, "turned_away", log_text("reason", labels[reason]),
            log_text("protocol", engine->name),
            log_number("max_connections", worker->server->connections_max),
            log_number("skipped", skipped));
    }
}

/* ---- strangers ---- */

/* The password may have arrived, and wait to be read in this turn. */
static bool has_unread_bytes(const struct connection *connection)
{
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* How much a stranger should end for another one: more, the more connections its address has, so that a client that
 * is slow to say the password outlasts a crowd. */
static uint64_t weigh(const struct worker *worker, const struct connection *stranger)
{
    if (has_unread_bytes(stranger)) {
        return 0;
    }
    return stranger->has_address
               ? 1 + address_table_count(worker->server->addresses, stranger->address)
               : 1;
}

/* One of the strangers that have been here longest; NULL if there is none. Sets *is_silent: it has not sent anything
 * that waits to be read, so the password is not on its way. */
static struct connection *find_stranger(const struct worker *worker, bool *is_silent)
{
    enum { LOOK_COUNT = 16 };
    struct connection *ended = worker->lists[WAIT_LINGER].first;
    *is_silent = true;
    if (ended != NULL && ended->share == POOL_STRANGERS) {
        return ended; // it has its answer
    }
    struct connection *found = NULL;
    struct connection *at = worker->lists[WAIT_STRANGER].first;
    uint64_t most = 0;
    for (unsigned i = 0; i < LOOK_COUNT && at != NULL; i++, at = at->next) {
        uint64_t weight = weigh(worker, at);
        if (found == NULL || weight > most) {
            found = at;
            most = weight;
        }
    }
    *is_silent = most > 0;
    return found;
}

/* From so many connections on a stranger ends for each that comes. */
static uint64_t crowd_count(const struct server *server)
{
    return server->connections_max - server->connections_max / POOL_STRANGERS_PART;
}

bool door_is_crowded(const struct server *server)
{
    /* Relaxed: a bound, see state.h. */
    return atomic_load_explicit(&server->connection_count, memory_order_relaxed)
           >= crowd_count(server);
}

enum place { PLACE_HERE, PLACE_ELSEWHERE, PLACE_NONE };

/* Relaxed, both: a bound, see state.h. */
static uint64_t count_place(struct worker *worker)
{
    return atomic_fetch_add_explicit(&worker->server->connection_count, 1, memory_order_relaxed);
}

static void give_up_place(struct worker *worker)
{
    (void)atomic_fetch_sub_explicit(&worker->server->connection_count, 1, memory_order_relaxed);
}

/* Counts a new connection and finds a place for it. Strangers may have every connection that is free, but nobody
 * finds the server full of them: when the last 16th of the connections is reached, one of them ends for each that
 * comes. If this worker has no silent stranger, the new connection goes to a worker that may have one.
 * It is counted before a stranger ends, so that no other connection gets the place; and never twice: the other worker
 * counts it, and the next one that comes would find the server full by one. */
static enum place find_place(struct worker *worker, const struct arrival *arrival)
{
    struct server *server = worker->server;
    uint64_t count = count_place(worker);
    if (count >= crowd_count(server) && !worker->is_draining) {
        bool is_silent;
        struct connection *stranger = find_stranger(worker, &is_silent);
        if (stranger == NULL || !is_silent) {
            give_up_place(worker);
            if (arrivals_pass_on(worker, arrival)) {
                return PLACE_ELSEWHERE;
            }
            count = count_place(worker);
        }
        if (stranger != NULL) {
            connection_give_way(worker, stranger);
            return PLACE_HERE;
        }
    }
    return count < server->connections_max ? PLACE_HERE : PLACE_NONE;
}

/* ---- letting in ---- */

/* Whether the connection, which has a place, may have it. */
static bool enter(struct worker *worker, struct connection *connection,
                  const struct socket_address *from, enum reject_reason *reason)
{
    struct server *server = worker->server;
    if (server->addresses != NULL && address_bytes(from, connection->address)
        && !(connection->has_address = address_table_enter(server->addresses, connection->address))
        && server->options.connections_per_address_max > 0) {
        *reason = REJECT_PER_ADDRESS;
    } else if (!poller_add_connection(&worker->poller, connection->fd, &connection->source)) {
        *reason = REJECT_MEMORY;
    } else {
        return true;
    }
    if (connection->has_address) {
        address_table_leave(server->addresses, connection->address);
    }
    return false;
}

static void introduce(struct worker *worker, struct connection *connection,
                      const struct listener *listener, const struct socket_address *from)
{
    struct peer peer = {0};
    /* Relaxed: only unique. */
    peer.id = 1 + atomic_fetch_add_explicit(&worker->server->next_id, 1, memory_order_relaxed);
    peer.has_address = address_bytes(from, peer.address);
    char name[ADDRESS_TEXT_BYTES_MAX];
    address_print(from, name, sizeof name);
    (void)snprintf(peer.name, sizeof peer.name, "%.*s", (int)sizeof peer.name - 1, name);
    (void)snprintf(peer.local_name, sizeof peer.local_name, "%.*s", (int)sizeof peer.local_name - 1,
                   listener->name);
    connection->engine->open(connection->session, &peer);
}

/* The connection of a socket that has a place; NULL if it may not have it. */
static struct connection *open_connection(struct worker *worker, const struct arrival *arrival,
                                          enum reject_reason *reason)
{
    const struct engine_ops *engine = arrival->listener->engine;
    struct connection *connection = calloc(1, sizeof *connection + engine->session_bytes);
    *reason = REJECT_MEMORY;
    if (connection == NULL) {
        return NULL;
    }
    connection->source.kind = SOURCE_CONNECTION;
    connection->fd = arrival->fd;
    connection->engine = engine;
    if (!enter(worker, connection, &arrival->from, reason)) {
        free(connection);
        return NULL;
    }
    return connection;
}

void door_admit(struct worker *worker, const struct arrival *arrival)
{
    const struct engine_ops *engine = arrival->listener->engine;
    enum reject_reason reason = REJECT_CONNECTIONS;
    enum place place = find_place(worker, arrival);
    struct connection *connection =
        place == PLACE_HERE ? open_connection(worker, arrival, &reason) : NULL;
    if (place == PLACE_ELSEWHERE) {
        return;
    }
    if (connection == NULL) {
        give_up_place(worker);
        door_reject(worker, engine, arrival->fd, reason);
        return;
    }
    introduce(worker, connection, arrival->listener, &arrival->from);
    connection_begin(worker, connection);
    counter_add(&worker->stats.accepted[engine->protocol], 1);
}
