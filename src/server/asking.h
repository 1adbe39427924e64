/* SPDX-License-Identifier: MIT
 *
 * Connections whose questions a store answers later (docs/design/stores.md). Each worker has a port of its own to
 * such a store, and lends it the loop that its sockets are in.
 *
 *     an engine asks            asking_decide()   -> port_decide(): PENDING, and the engine returns ENGINE_ASKING
 *     the worker's turn ends    asking_send()     -> port_flush(): what all of its connections ask goes out together
 *     the answer comes          on_answers()      -> the worker's list of those that are answered
 *     in the same turn          asking_bring()    -> connection_run(): the engine is fed the same input again,
 *                                                    and asking_decide() hands out the answers: DECIDED
 *
 * A connection reads nothing while it asks: what its client sends meanwhile stays in the kernel. If the client goes,
 * its answer is dropped; the charge stays. */
#ifndef WEIR_SERVER_ASKING_H
#define WEIR_SERVER_ASKING_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/engine.h"
#include "server/worker_loop.h"
#include "store/port.h"

struct connection;
struct edition;
struct server;
struct worker;

enum { ASKING_READ_BYTES = 8 * 1024 }; // of one connection at once: it keeps them while it asks

/* Why on_error answers: the store surely has not decided; nobody knows whether it has; it was not asked. */
enum asking_failure { ASKING_NOT_ASKED, ASKING_UNKNOWN, ASKING_DOWN, ASKING_FAILURE_COUNT };

/* What others may see of it: some of a port's counters (store/port.h), and the questions that were answered by
 * on_error. Words of 64 bits only; written by the worker, relaxed. */
struct asking_stats {
    uint64_t asked, decided, late, retried, opened;
    uint64_t pending, pending_bytes;
    uint64_t failures[ASKING_FAILURE_COUNT];
};

struct inquiry;

/* A worker's share; single owner, but for `shown`.
 *   port      NULL: the store decides at once
 *   answered  inquiries whose connections have to be fed again */
struct asking_desk {
    struct worker_loop loop;
    struct port *port;
    struct inquiry *answered_first, *answered_last;
    struct asking_stats shown;
};

/* Opens the worker's port, if the store answers later. False with errno. Startup only. */
bool asking_open(struct worker *worker);

/* Its connections have ended. */
void asking_close(struct worker *worker);

/* As service_ops.decide(), for the connection that the worker is running. */
enum progress asking_decide(struct worker *worker, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count);

/* Whether the connection has asked, and its answers are not there. */
bool asking_is_out(const struct connection *connection);

/* The connection's engine is about to be fed, or has been: lends it the answers that are there, and the edition under
 * which it asked; and takes both back, and the batch if all of its answers are used, or `is_over`. */
void asking_lend(struct worker *worker, struct connection *connection);
void asking_take_back(struct worker *worker, struct connection *connection, bool is_over);

/* The connection ends. */
void asking_forget(struct worker *worker, struct connection *connection);

/* The worker is about to turn to another edition: those who have asked keep this one. */
void asking_keep_edition(struct worker *worker);

/* Towards the end of a turn: brings answers to their connections, which may go on to stand in line, or end a wait. And
 * at its end: sends what was asked. Nothing happens without a port. */
void asking_bring(struct worker *worker);
void asking_send(struct worker *worker);

/* How long until the port wants the worker's attention; 0: at once; UINT64_MAX: not by itself. */
uint64_t asking_next_ns(const struct worker *worker);

/* Whether a worker has lost the store, and not found it again. Thread-safe. */
bool asking_is_down(const struct server *server);

#endif
