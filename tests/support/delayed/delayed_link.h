/* SPDX-License-Identifier: MIT
 *
 * A store for tests that answers later. It decides by a local store, and its link is a bad wire: random delays, answers
 * in parts and out of order, requests and answers that get lost, silence, refused connections.
 *
 *     struct delayed_store delayed;
 *     delayed_init(&delayed, table, seed);
 *     delayed.plan.there_ns = delayed.plan.back_ns = 3000000;
 *     port = port_open(&delayed.store, &delayed_ops, loop, NULL);
 *     ...
 *     delayed.plan.is_silent = true; // from now on
 *
 * It needs nothing of the loop but timers, and looks at the plan at each event. After the plan has changed delayed_look()
 * has the links notice at once.
 *
 * A batch on its way:
 *
 *     queued    in the link, because `written_max` others are out. It can be given back
 *     there     on its way to the store, where its questions are decided, in one part or several
 *     back      its answer is on the way
 *     lost      nobody will ever hear of it
 *
 * Threads: single owner, of all links. */
#ifndef WEIR_TESTS_DELAYED_LINK_H
#define WEIR_TESTS_DELAYED_LINK_H

#include "store/remote.h"

/* What the wire does. All zeroes: each batch is answered in the loop's next pass. Chances are in thousand.
 *   connect_ns       how long connecting takes
 *   way_ns           how long a way takes, at least
 *   there_ns, back_ns  and how much longer for a part on its way to the store, and for its answer: random, up to that
 *   parts            in how many parts a batch may be decided; a run stays in one
 *   written_max      how many batches are out at once; 0: all
 *   not_asked        the store refuses the batch as a whole
 *   held             likewise, and says that it has: somebody else holds a row
 *   refused_sending  it cannot be written: reported from within link_send()
 *   lost_there, unknown_there    it is lost before the charge; and the link notices
 *   lost_back, unknown_back      afterwards
 *   breaks           the connection is lost, at an event
 *   is_silent        nothing comes or goes, as if the store was stopped. It goes on where it was,
 *                    as if it had answered meanwhile
 *   refuses          connections; with fails_at_once from within link_open() */
struct delayed_plan {
    uint64_t connect_ns, way_ns, there_ns, back_ns;
    unsigned parts, written_max;
    unsigned not_asked, held, refused_sending;
    unsigned lost_there, unknown_there, lost_back, unknown_back;
    unsigned breaks;
    bool is_silent, refuses, fails_at_once;
};

/*   charged  called when questions first .. first + count of a batch have been decided; may be NULL
 *   links, probes, sent, taken_back  how many so far
 *   unheard  batches that were charged, at least in part, and whose answer never reached the port */
struct delayed_store {
    struct store store;
    struct store *inner;
    struct delayed_plan plan;
    uint64_t random;
    void (*charged)(void *context, const struct batch *batch, size_t first, size_t count);
    void *context;
    struct link *first_link;
    uint64_t links, probes, sent, taken_back, unheard;
};

extern const struct remote_ops delayed_ops;

/* `inner` stays the caller's. */
void delayed_init(struct delayed_store *delayed, struct store *inner, uint64_t seed);

/* Has each link look at the plan in the loop's next pass. */
void delayed_look(struct delayed_store *delayed);

/* Breaks all connections that are up, in the loop's next pass. */
void delayed_break(struct delayed_store *delayed);

#endif
