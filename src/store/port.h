/* SPDX-License-Identifier: MIT
 *
 * A port: how one thread asks a store that answers later. It gathers batches, sends them at the end of the thread's
 * turn, keeps their deadlines, and knows when not to ask.
 *
 *     port = port_open(store, ops, loop, NULL);
 *     ...
 *     struct asking asking = {.requests = requests, .count = 2, .now_ns = STORE_NOW,
 *                             .asker = connection, .done = on_answers};
 *     connection->batch = port_decide(port, &asking);
 *     if (connection->batch == NULL) { ... answer by on_error, now ... }
 *     ...
 *     port_flush(port);                             // at the end of each turn of the loop
 *
 *     static void on_answers(struct batch *batch)   // later, from the loop
 *     {
 *         if (batch->fate == FATE_DECIDED) { batch_answer(batch, requests, decisions); ... }
 *         else { ... answer by on_error ... }
 *         port_forget(batch);
 *     }
 *
 * What becomes of a batch:
 *
 *     the store answers                          decided
 *     its deadline passes before it was sent     not asked
 *     its deadline passes afterwards             unknown. An answer that comes then is counted as late
 *     the connection is lost                     unknown if a byte of it was sent; otherwise asked again
 *     the link says that it was not asked        asked again, once, if its deadline has not passed
 *
 * A batch counts as unanswered only after the link has read what has come: so a thread that was stopped for 50 ms finds
 * the answers that lie in its sockets. And if it was stopped before it could send, it sends what it has gathered: the
 * deadline counts from then on. A busy host makes answers late, not wrong.
 *
 * The breaker. It opens when there is no connection, or after `failures_max` failures in a row. Then port_decide()
 * returns NULL at once, what has gathered is not asked, and the connection is closed. About every `probe_every_ns` the
 * port connects anew, or asks a probe if it is connected. The first probe that is answered within `deadline_ns` closes
 * the breaker. So nobody waits for a store that is gone or slow; and when the breaker closes nothing has piled up.
 *   - A batch that ends without an answer is a failure, unless another one was answered, or failed, after this one was
 *     sent. So a round trip that takes too long is one failure, however many batches are in it, or are sent meanwhile.
 *   - A store that falls silent is given up after `failures_max` deadlines, 60 ms, and the pauses between them in which
 *     nobody asks. One that is silent for 40 ms, a deadline less, and then answers in time, is not.
 *   - A connection that was up for `probe_every_ns` and is lost is opened anew at once, and batches gather meanwhile.
 *     The breaker opens only if that fails.
 *   - The reason for which it opens may be no more than a first symptom: that nothing came. The attempts that follow
 *     learn what the store itself says, "no such schema". Two in a row have to say it: a server that is being started
 *     says many things.
 *   - An attempt to connect, or a probe, has PORT_PATIENCE probe_every_ns. So a port is back within
 *     (PORT_PATIENCE + 2) * probe_every_ns after the store is, and two round trips.
 *
 * Bounds: batches that are gathered or that the link has, by number and by bytes. A batch whose answer never comes
 * counts until the link is closed: by the breaker, or after `linger_ns`.
 *
 * Threads: single owner, all of these; no locks. */
#ifndef WEIR_STORE_PORT_H
#define WEIR_STORE_PORT_H

#include "store/batch.h"
#include "store/remote.h"

#define PORT_DEADLINE_NS    UINT64_C(20000000)
#define PORT_LINGER_NS      UINT64_C(1000000000)
#define PORT_PROBE_EVERY_NS UINT64_C(100000000)

enum {
    PORT_BATCHES_MAX = 16384,
    PORT_BYTES_MAX = 16 << 20,
    PORT_FAILURES_MAX = 3,
    PORT_PATIENCE = 4,
};

/*   PORT_WENT_DOWN   the breaker has opened
 *   PORT_STAYS_DOWN  and stays open: two attempts in a row have failed for this reason, which the owner may not have been
 *                    told. Once, until an attempt fails for another reason, or the breaker closes
 *   PORT_CAME_BACK   it has closed */
enum port_event { PORT_WENT_DOWN, PORT_STAYS_DOWN, PORT_CAME_BACK };

/* All zeroes is a good configuration: a zero stands for what is in brackets.
 *   deadline_ns      how long a batch may take, from port_decide(), or from port_flush() if this thread came to that
 *                    later than the deadline [the store's, or else PORT_DEADLINE_NS]
 *   batch_count_max  how many batches at once [PORT_BATCHES_MAX]
 *   bytes_max        and of how many bytes; at least as large as one batch can be [PORT_BYTES_MAX]
 *   failures_max     failures in a row that open the breaker [PORT_FAILURES_MAX]
 *   probe_every_ns   on average: it is 1/2 to 3/2 of that, so that many ports do not ask at one instant
 *                    [PORT_PROBE_EVERY_NS, or twice the store's deadline if that is longer]
 *   linger_ns        how long after its deadline the answer of a batch may come before the connection counts as
 *                    broken [PORT_LINGER_NS]
 *   seed             of those instants [one from the system]
 *   told             called from the loop at such an event, with the reason; may be NULL. It calls no function of the
 *                    port */
struct port_config {
    uint64_t deadline_ns;
    size_t batch_count_max;
    size_t bytes_max;
    unsigned failures_max;
    uint64_t probe_every_ns;
    uint64_t linger_ns;
    uint64_t seed;
    void (*told)(void *context, enum port_event event, const char *why);
    void *context;
};

/* Counts of batches. asked = decided + not_asked + unknown + forgotten + those that are out.
 *   asked           for which port_decide() returned a batch
 *   forgotten       whose asker went before the answer
 *   late            answers that nobody waited for any longer: the deadline had passed, or the asker had gone
 *   retried         surely not asked, and asked again
 *   refused_room    for which there was no room
 *   refused_down    for which port_decide() returned NULL because the breaker was open
 *   opened          how often the breaker opened
 *   pending, pending_bytes  gathered or with the link, late ones included
 *   is_down         the breaker is open */
struct port_stats {
    uint64_t asked, decided, not_asked, unknown, forgotten;
    uint64_t late, retried, refused_room, refused_down, opened;
    uint64_t pending, pending_bytes;
    bool is_down;
};

/* What is asked together. Only read, and only during port_decide().
 *   count      1 or more
 *   now_ns     STORE_NOW, or the reading of a test's clock
 *   own_bytes  how much memory the asker wants in the batch
 *   done       called once, when the fate of the batch is known, unless the asker has forgotten it. It may call
 *              port_decide() and port_forget() */
struct asking {
    const struct weir_request *requests;
    size_t count;
    uint64_t now_ns;
    size_t own_bytes;
    void *asker;
    void (*done)(struct batch *batch);
};

/* Opens a port, and begins to connect in the loop's next pass: so it does not matter whether the store is there.
 * `config` may be NULL. NULL, if there is no memory or no seed. The store and the loop stay until port_close(). */
struct port *port_open(struct store *store, const struct remote_ops *ops, struct loop *loop,
                       const struct port_config *config);

/* Asks at the end of the turn. The batch is the asker's until port_forget(); done() never runs from within this call.
 * NULL: surely not asked, because the breaker is open, or there is no room. */
struct batch *port_decide(struct port *port, const struct asking *asking);

/* Sends what has gathered, as one list. At the end of each turn in which the loop called anybody, or somebody asked:
 * a batch may gather that was not asked at first. done() never runs from within this call. */
void port_flush(struct port *port);

/* The asker is through with a batch: with its answers, in done() or later; or it does not wait for them any longer,
 * and done() will not run. What was sent may be charged all the same. Also after port_close(). */
void port_forget(struct batch *batch);

void port_stats(const struct port *port, struct port_stats *stats);

/* Ends all batches, each by done() with FATE_NOT_ASKED or FATE_UNKNOWN, and closes the link. Not from within a callback
 * of the port or its link. NULL is fine. */
void port_close(struct port *port);

#endif
