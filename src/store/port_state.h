/* SPDX-License-Identifier: MIT
 *
 * What a port is made of: for port.c, which has the batches, and port_link.c, which has the link and the breaker. */
#ifndef WEIR_STORE_PORT_STATE_H
#define WEIR_STORE_PORT_STATE_H

#include "store/port.h"

/*   LINK_NONE     there is no link
 *   LINK_OPENING  there is one that has not said yet that it is up
 *   LINK_UP       it is
 *   LINK_LOST     it has said that it is down, and is still to be closed */
enum link_state { LINK_NONE, LINK_OPENING, LINK_UP, LINK_LOST };

/*   timer, wakes_at_ns  for take_turn(); UINT64_MAX if it is not set
 *   waiting         batches whose asker waits, or has gone before the deadline: in the order of their deadlines
 *   over            batches whose deadline has passed, and that the link still has: in that order, too
 *   gathered        BATCH_GATHERED
 *   heard           BATCH_HEARD
 *   is_in_link      a function of the link is running: what it reports is put into `heard`
 *   is_closing      port_close() is running
 *   since_ns        when the link began to open, came up, or was last asked a probe
 *   is_new          the link has come up, and was not asked a probe yet
 *   is_probed       a probe is out
 *   gives_up        the breaker has opened: the link that was up then is to be closed
 *   failure_count   in a row
 *   round           how many answers in time and failures there were so far. Only a batch of this round can fail
 *   tells_down      what `told` was last told
 *   try_at_ns       when the port, while it is down, tries again
 *   why             it is down: for what reason the breaker opened, or the last attempt failed
 *   tells_why       two attempts in a row have failed for this reason, and `told` is to be told so
 *   has_told_why    it has been, or is about to be */
struct port {
    struct store *store;
    const struct remote_ops *ops;
    struct loop *loop;
    struct port_config config;
    struct loop_timer timer;
    uint64_t wakes_at_ns;
    struct batch_list waiting, over, gathered, heard;
    struct link *link;
    enum link_state link_state;
    bool is_in_link, is_closing, is_new, is_probed, gives_up, tells_down, tells_why, has_told_why;
    unsigned failure_count;
    uint64_t since_ns;
    uint64_t round;
    uint64_t try_at_ns;
    uint64_t random;
    struct port_stats stats;
    struct weir_error why;
};

/* Sees to it that take_turn() runs at `at_ns`, or before. */
void port_wake(struct port *port, uint64_t at_ns);

/* Neither the port nor the link has this batch any longer, and it is in no list: from now on it is the asker's alone. */
void port_let_go(struct batch *batch);

/* Looks at the fate of each batch that was heard. Of one without an answer, `counts` says whether that is a failure of
 * the store. done() runs. */
void port_settle_heard(struct port *port, bool counts);

/* Ends the batches that have gathered: they are not asked. done() runs. */
void port_refuse_gathered(struct port *port);

/* Closes the link, and settles the batches that it had: those that it gives back are surely not asked. done() runs. */
void port_drop_link(struct port *port);

/* Opens the breaker, unless it is open. */
void port_go_down(struct port *port, const char *why);

/* The link's part of a turn. Returns when it wants the next one; UINT64_MAX if it does not. */
uint64_t port_tend_link(struct port *port, uint64_t now_ns);

#endif
