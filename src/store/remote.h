/* SPDX-License-Identifier: MIT
 *
 * What a store that answers later brings: struct remote_ops. Its link, one for each port, is the connections of one
 * thread to the store: it sends batches, and reports each with its fate, in any order.
 *
 * What a link has to do:
 *   - It reports each batch that it was given once, by port_answered(), or gives it back in link_take_back(). A batch
 *     whose answer is lost while the connection goes on is never reported: the port gives the link up after a while.
 *   - It says FATE_NOT_ASKED only if surely nothing of the batch was charged, or will be: not a byte of it was
 *     written, or the store has refused it as a whole. It sends nothing twice by itself unless that is so. The port
 *     asks such a batch again, once.
 *   - It does not begin to send a batch whose deadline has passed, and need not begin one that is forgotten. The port
 *     takes back the former at once; the latter is FATE_NOT_ASKED.
 *   - It fills the decisions, and the details, before it reports FATE_DECIDED; the batch's memory until then.
 *   - A connection that is lost is the link's to restore while others go on. If none does it says so by
 *     port_link_down().
 *
 * What a link may assume:
 *   - The port calls it from the loop's callbacks, or when its owner calls port_flush() or port_close(): one call at a
 *     time, and never from within a report.
 *   - It may report from within link_open(), link_send(), link_hear() and link_probe(): the port acts later. Not from
 *     link_take_back() and link_close().
 *   - port_answered() may run done(), which may gather other batches, and may set is_forgotten of others that the link
 *     has. The reported batch may be freed by then: the link does not look at it again.
 *   - Between link_open() and port_link_up() the port calls only link_close(). After port_link_down() it calls only
 *     link_take_back() and link_close().
 *
 * Threads: single owner, the port's. */
#ifndef WEIR_STORE_REMOTE_H
#define WEIR_STORE_REMOTE_H

#include "platform/loop.h"
#include "store/batch.h"
#include "store/exported.h"
#include "store/store.h"

struct link;

/*   is_of_all_hosts  hosts share the store: buckets have names that all compute alike (bucket_name.h)
 *   cannot           why some questions are answered by an error though the store is there; NULL: all it can decide */
struct remote_ops {
    bool is_of_all_hosts;
    const char *cannot;

    /* How much memory copy() needs for these questions. */
    size_t (*ask_bytes)(const struct store *store, const struct weir_request *requests,
                        size_t count);

    /* Keeps in batch->ask what it needs of the questions: they, their keys and rules are gone when it returns. Where a
     * request wants a detail it goes to the next one of batch_details(). All of batch but the answers is set. */
    void (*copy)(const struct store *store, struct batch *batch,
                 const struct weir_request *requests);

    /* Begins to connect. port_link_up() or port_link_down() says how that went; if neither comes the port closes the
     * link after a while. NULL, with the reason in `error`, if it failed at once. */
    struct link *(*link_open)(struct store *store, struct port *port, struct loop *loop,
                              struct weir_error *error);

    /* Takes over all batches of the list (BATCH_BY_PLACE), and leaves it empty. What cannot be written now waits in
     * the link, which may join it with what comes later. */
    void (*link_send)(struct link *link, struct batch_list *asked);

    /* True if nothing of the batch was written: it is the port's again. False: it may be asked, and the link goes on
     * waiting for its answer. Takes the same time however many batches there are. */
    bool (*link_take_back)(struct link *link, struct batch *batch);

    /* Reads all that has come, without waiting, and reports it. The port calls it before it gives up batches at
     * their deadlines: this thread may have been stopped while their answers came. */
    void (*link_hear)(struct link *link);

    /* Asks the store anything that shows that it decides: port_probe_answered() says that it did. Only when the link
     * has no batch. */
    void (*link_probe)(struct link *link);

    /* Closes the connections, and forgets the batches that it has. */
    void (*link_close)(struct link *link);
};

/* ---- what the link tells the port ---- */

/* It is connected. */
void port_link_up(struct port *port);

/* It cannot connect, or is connected no more, and sends nothing from now on. `why` is read during the call: a sentence
 * for the operator's log, in which the store's own words are best ("this database has no schema of weir"). It has no
 * password in it, and nothing that differs from one attempt to the next, as a number of a process would: what two
 * attempts in a row say is why the store stays away (PORT_STAYS_DOWN). */
void port_link_down(struct port *port, const char *why);

/* What has become of a batch that the link had. It may be one whose deadline has passed long ago. */
void port_answered(struct batch *batch, enum fate fate);

void port_probe_answered(struct port *port);

/* The store is there, though it has not decided: somebody else held a row, for example. Said before the batches are
 * reported that were not asked because of it: these are no failures of the store. */
void port_store_spoke(struct port *port);

#endif
