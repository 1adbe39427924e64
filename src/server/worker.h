/* SPDX-License-Identifier: MIT
 *
 * A worker: one thread, one poller, its connections. It shares with the others only what state.h
 * names.
 *
 * A turn: wait for events; read the clock once; handle each ready connection (connection.h); then
 * those of the turn before that had more to do ("again"), for about a millisecond; then those whose time is up. A
 * connection gets one read, one write and about a millisecond of decisions per turn, so nobody waits for
 * somebody else's pipeline. */
#ifndef WEIR_SERVER_WORKER_H
#define WEIR_SERVER_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/engine.h"
#include "server/asking.h"
#include "server/editions.h"
#include "server/poller.h"
#include "server/pool.h"
#include "server/state.h"
#include "server/waiting.h"
#include "sync/histogram.h"

enum {
    READ_BYTES = 64 * 1024, // of one connection in one turn
    AGAIN_NS = 1000 * 1000, // for the connections of the again-list in one turn
    GATHER_BYTES = 4 * 1024 // an incomplete request up to this size is read on in `input`
};

/* Why connections end. X(name, label of the metric). */
#define CLOSE_REASON_MAP(X)                                                                        \
    X(CLOSE_CLIENT, "client")                 /* the other end closed */                           \
    X(CLOSE_PROTOCOL, "protocol")             /* QUIT, Connection: close, a protocol error */      \
    X(CLOSE_AUTH_FAILURES, "auth_failures")   /* a wrong password, or too many of them */          \
    X(CLOSE_ERROR, "error")                   /* the connection failed */                          \
    X(CLOSE_HEADER_TIMEOUT, "header_timeout") /* a request stayed incomplete */                    \
    X(CLOSE_AUTH_TIMEOUT, "auth_timeout")     /* the password did not come */                      \
    X(CLOSE_MULTI_TIMEOUT, "multi_timeout")   /* MULTI, and no EXEC */                             \
    X(CLOSE_IDLE_TIMEOUT, "idle_timeout")     /* no request came */                                \
    X(CLOSE_WRITE_TIMEOUT, "write_timeout")   /* the answers were not taken */                     \
    X(CLOSE_OUTPUT_MAX, "output_max")         /* too much waits to be sent */                      \
    X(CLOSE_INPUT_MAX, "input_max")           /* too large a request */                            \
    X(CLOSE_BUFFERS_MAX, "buffers_max")       /* too much waits, all connections together */       \
    X(CLOSE_STRANGERS_MAX, "strangers_max")   /* the same, of one without the password */          \
    X(CLOSE_DRAIN, "drain")                   /* the server ends */                                \
    X(CLOSE_DRAIN_TIMEOUT, "drain_timeout")   /* the server ends, and answers were not taken */

enum close_reason {
#define CLOSE_REASON_ENTRY(name, label) name,
    CLOSE_REASON_MAP(CLOSE_REASON_ENTRY)
#undef CLOSE_REASON_ENTRY
        CLOSE_REASON_COUNT
};

/* Why connections are turned away at the door. */
#define REJECT_REASON_MAP(X)                                                                       \
    X(REJECT_CONNECTIONS, "connections")                                                           \
    X(REJECT_PER_ADDRESS, "per_address")                                                           \
    X(REJECT_FILES, "files")                                                                       \
    X(REJECT_MEMORY, "memory")

enum reject_reason {
#define REJECT_REASON_ENTRY(name, label) name,
    REJECT_REASON_MAP(REJECT_REASON_ENTRY)
#undef REJECT_REASON_ENTRY
        REJECT_REASON_COUNT
};

/* What a worker counts beside its engines' `struct counters`; counter_add() by that worker only. */
struct worker_stats {
    uint64_t accepted[PROTOCOL_COUNT];
    uint64_t ended[PROTOCOL_COUNT];
    uint64_t closed[CLOSE_REASON_COUNT];
    uint64_t rejected[REJECT_REASON_COUNT];
    uint64_t accept_errors;
    uint64_t received_bytes, sent_bytes;
    uint64_t turns;
};

/* What a connection waits for. Each has a list in the order of beginning, and a time. */
enum wait {
    WAIT_RESP_IDLE, // the next request
    WAIT_HTTP_IDLE,
    WAIT_STRANGER, // the password
    WAIT_EXEC,     // the rest of a transaction
    WAIT_REQUEST,  // the rest of a request
    WAIT_WRITE,    // room in the socket
    WAIT_LINE,     // its turn: a take that waits
    WAIT_STORE,    // a store's answer
    WAIT_LINGER,   // the other end to close
    WAIT_COUNT
};

struct connection;

struct connection_list {
    struct connection *first, *last;
};

/* A socket that was accepted, and is no connection yet. Where a stranger has to end for it, it goes round the
 * workers, to each at most once. */
struct arrival {
    struct listener *listener;
    int fd;
    size_t untried_count; // of the workers behind the one that has it, round the ring
    struct socket_address from;
};

enum {
    HANDOVER_COUNT_MAX = 64, // arrivals that wait for a worker; beyond that the acceptor keeps them
    PASSED_COUNT_MAX = 8     // .. of those that no free place is counted for; they hold fds
};

struct worker {
    struct service service; // first: what engines get leads back here
    struct server *server;
    struct edition *edition; // that its engines are lent
    uint64_t edition_number;
    size_t index;
    pthread_t thread;
    struct poller poller;
    struct source wake_source;
    int wake_fd;  // an eventfd: the main thread wants something
    int spare_fd; // given up to turn a connection away when there are no more fds

    uint64_t now_ns;          // of this wake-up, for timeouts; engines see service.now_ns
    uint64_t fed_ns;          // when the engine was fed that runs now
    uint64_t wall_until_ns;   // when service.wall_s has to be renewed
    uint64_t paused_until_ns; // when to accept again; 0: accepting
    uint64_t timeouts_ns[WAIT_COUNT];
    bool is_draining;
    unsigned renew_countdown;
    size_t read_bytes; // of one connection in one turn, READ_BYTES at most

    char *input;          // ENGINE_INPUT_BYTES_MAX is never needed here: GATHER + READ
    struct buffer output; // the answers of the batch at hand
    struct connection_list lists[WAIT_COUNT];
    uint64_t stranger_count; // in lists[WAIT_STRANGER]; counter_add(), others read it
    struct connection *again_first, *again_last;
    struct connection *running; // whose engine runs
    struct agenda agenda;       // of its connections that stand in line
    struct asking_desk desk;    // of those that wait for a store's answer
    struct pool pool;           // of its connections that keep something

    pthread_mutex_t handover_mutex; // of the three below: others append, this worker takes
    struct arrival *handovers;
    size_t handover_count;
    bool has_left; // and takes no more

    struct counters counters;
    struct worker_stats stats;
    struct histogram *turns;      // how long a turn took; 1 in TURN_SAMPLE_COUNT
    struct histogram *clock_ages; // how old the clock's reading was when it was renewed
};

/* Sets up one worker; its thread does not run yet. False with errno. Startup only. */
bool worker_open(struct worker *worker, struct server *server, size_t index);

/* Starts its thread. False with errno. */
bool worker_start(struct worker *worker);

/* Makes it look at what the main thread wants. Async-signal-safe, thread-safe. */
void worker_wake(struct worker *worker);

/* Releases everything; its thread has ended or never ran. */
void worker_close(struct worker *worker);

/* Turns to the configuration that is in use now. Before an engine is fed, never while it is. */
static inline void worker_follow(struct worker *worker)
{
    /* Pairs with the release in editions.c: what was answered under a new edition came after it. */
    uint64_t number = atomic_load_explicit(&worker->server->edition_number, memory_order_acquire);
    if (number != worker->edition_number) {
        asking_keep_edition(worker);
        editions_follow(worker);
    }
}

/* Reads the clocks for a turn; and anew within a long one, where it notes how old the last reading has become. */
void worker_read_clock(struct worker *worker);
void worker_renew_clock(struct worker *worker);

#endif
