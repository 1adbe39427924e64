/* SPDX-License-Identifier: MIT
 *
 * The life of one connection between a socket and an engine. README.md has the states in a table.
 *
 * A connection that waits for its next request owns this struct with the engine's session, and no
 * buffer: it reads into the worker's, and answers from the worker's. What does not fit there has its
 * own: the beginning of an incomplete request, and answers that the socket did not take. */
#ifndef WEIR_SERVER_CONNECTION_H
#define WEIR_SERVER_CONNECTION_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/engine.h"
#include "server/worker.h"

struct connection {
    struct source source; // SOURCE_CONNECTION
    int fd;               // -1: closed, and freed once it leaves the again-list
    const struct engine_ops *engine;
    struct connection *next, *previous; // in worker->lists[wait]
    struct connection *again_next;
    uint64_t since_ns;  // since when it waits for that
    uint64_t active_ns; // when bytes arrived last

    char *input; // the beginning of a request, or requests that are not answered yet
    size_t input_len, input_capacity;
    char *output; // what the socket did not take, from output_at on
    size_t output_at, output_len;
    size_t held_bytes; // of the session, as counted
    size_t kept_bytes; // of input, output and session together, see pool.h
    struct connection *kept_next, *kept_previous; // in worker->pool, if that is anything
    uint32_t transaction;    // which one is open, as the engine numbers them; 0: none
    struct waiting *waiting; // its place in line; NULL: none
    struct inquiry *inquiry; // what it has asked of a store that answers later; NULL: nothing

    uint8_t wait;   // enum wait
    uint8_t share;  // enum pool_share: under which it is counted
    uint8_t reason; // enum close_reason, once is_ending
    bool is_ending; // send what is there, then close
    bool is_unread; // `input` may hold complete requests: feed before reading
    bool is_behind; // it has asked, and the socket may hold bytes of which no other event will tell
    bool is_hangup; // the other end will send no more: there is no second edge for that
    bool is_again;  // on the again-list
    bool is_refused;  // a password was wrong, or missing, in this turn
    bool has_waited;  // what is in `input` came while it stood in line
    bool has_address; // counted in server->addresses
    uint8_t address[16];

    alignas(16) char session[];
};

/* It has been let in, and its session is open: from now on it waits for its first bytes. */
void connection_begin(struct worker *worker, struct connection *connection);

/* One turn: send what waits, read once, answer, write once. May free the connection. */
void connection_run(struct worker *worker, struct connection *connection, bool is_hangup);

/* Another worker has too little room for what its connections keep, and this one has those that keep most: cuts
 * them off. */
void connection_make_room(struct worker *worker);

/* Ends one for the sake of others. An event of it may lie ahead in this turn, so it is freed behind that, as one of
 * the again-list. */
void connection_give_way(struct worker *worker, struct connection *connection);

/* The take for which it waited is decided: answers, and goes on with what it asked behind that. May free
 * the connection. */
void connection_resume(struct worker *worker, struct connection *connection,
                       struct edition *edition, const struct weir_decision *decisions);

/* The turn of those that had more to do, at least one of them, until `until_ns`. */
void connection_run_again(struct worker *worker, uint64_t until_ns);

/* Closes those whose time is up, and says how long from now the next one has: UINT64_MAX if there
 * is none. */
uint64_t connection_expire(struct worker *worker);

/* The server ends: answers what has been read of every connection, and closes them. */
void connection_drain_all(struct worker *worker);

/* Closes whatever is left. */
void connection_close_all(struct worker *worker);

bool connection_any(const struct worker *worker);

/* Whose it is, for the log: "127.0.0.1:4711", "unix"; "unknown" once the other end is gone. */
void connection_print_client(const struct connection *connection,
                             char name[ADDRESS_TEXT_BYTES_MAX]);

#endif
