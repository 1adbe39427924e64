/* SPDX-License-Identifier: MIT
 *
 * A batch: questions that were asked together of a store that answers later, and their answers.
 *
 * It is one piece of memory, in this order:
 *
 *     struct batch                  120 bytes
 *     weir_decision decisions[]      48 bytes for each question
 *     weir_detail details[]          56 bytes for each question that wants one
 *     what the store keeps          remote_ops.ask_bytes()
 *     what the asker keeps          asking.own_bytes
 *
 * So a take over Redis or PostgreSQL costs about 400 bytes while its answer is out.
 *
 * Two hold it: the asker, from port_decide() until port_forget(); and the port with its link, until they are through
 * with it. Who lets go last frees it. */
#ifndef WEIR_STORE_BATCH_H
#define WEIR_STORE_BATCH_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limiter.h"

/* What has become of a batch. Two of a kind are not: of a batch that was not asked surely nothing is charged. Of an
 * unknown one everything may be charged, a part, or nothing. */
enum fate { FATE_DECIDED, FATE_NOT_ASKED, FATE_UNKNOWN };

/*   BATCH_GATHERED  waits in the port for the end of the turn, or for a connection
 *   BATCH_SENT      the link has it
 *   BATCH_HEARD     the link is through with it; the port has still to look at its fate
 *   BATCH_OUT       only the asker has it */
enum batch_state { BATCH_GATHERED, BATCH_SENT, BATCH_HEARD, BATCH_OUT };

/* A batch is in one list of each kind at most: the port orders all of its batches by their deadlines; and the one
 * that is to act on it next has it in a list of its own, the link while the batch is BATCH_SENT. */
enum batch_order { BATCH_BY_DEADLINE, BATCH_BY_PLACE, BATCH_ORDERS };

struct batch_neighbours {
    struct batch *next, *previous;
};

struct port;

/*   asker, done   of asking
 *   own           what the asker keeps in it, own_bytes of asking
 *   deadline_ns   of the loop's clock. A link does not begin to send a batch at its deadline or later
 *   now_ns        STORE_NOW, or the reading of a test's clock at which to decide
 *   ask           what remote_ops.copy() has kept of the questions
 *   is_forgotten  the asker has gone. A link that has sent nothing of it need not
 *   fate          for done()
 * The rest is the port's.
 *   round         the port's when the batch was gathered, or sent
 *   is_over       its deadline has passed, and done() has run unless it was forgotten; the link still has it
 *   is_retry      it was surely not asked once, and is asked again */
struct batch {
    struct batch_neighbours neighbours[BATCH_ORDERS];
    struct port *port;
    void *asker;
    void (*done)(struct batch *batch);
    void *own;
    void *ask;
    uint64_t deadline_ns;
    uint64_t now_ns;
    uint64_t round;
    size_t bytes;
    uint32_t count;
    enum fate fate;
    enum batch_state state;
    bool is_forgotten, is_over, is_retry;
    struct weir_decision decisions[];
};

_Static_assert(sizeof(struct batch) == 120 && sizeof(struct weir_decision) == 48
                   && sizeof(struct weir_detail) == 56,
               "what the head of this file says");

/* The details of those requests that wanted one, in their order. All zeroes at first: not every operation fills one. */
static inline struct weir_detail *batch_details(struct batch *batch)
{
    return (struct weir_detail *)(batch->decisions + batch->count);
}

/* Copies the answers of a batch that was decided to where the requests that were asked, or their equals, want them. */
static inline void batch_answer(struct batch *batch, const struct weir_request *requests,
                                struct weir_decision *decisions)
{
    const struct weir_detail *detail = batch_details(batch);
    assert(batch->fate == FATE_DECIDED);
    for (size_t i = 0; i < batch->count; i++) {
        decisions[i] = batch->decisions[i];
        if (requests[i].detail != NULL) {
            *requests[i].detail = *detail++;
        }
    }
}

/* ---- lists ---- */

struct batch_list {
    struct batch *first, *last;
    enum batch_order order;
};

/* Behind `before`; NULL: as the first one. */
static inline void batch_list_add_behind(struct batch_list *list, struct batch *before,
                                         struct batch *batch)
{
    enum batch_order order = list->order;
    struct batch **next = before != NULL ? &before->neighbours[order].next : &list->first;
    batch->neighbours[order] = (struct batch_neighbours){.next = *next, .previous = before};
    if (*next != NULL) {
        (*next)->neighbours[order].previous = batch;
    } else {
        list->last = batch;
    }
    *next = batch;
}

static inline void batch_list_add(struct batch_list *list, struct batch *batch)
{
    batch_list_add_behind(list, list->last, batch);
}

static inline void batch_list_remove(struct batch_list *list, struct batch *batch)
{
    enum batch_order order = list->order;
    struct batch_neighbours around = batch->neighbours[order];
    if (around.previous != NULL) {
        around.previous->neighbours[order].next = around.next;
    } else {
        list->first = around.next;
    }
    if (around.next != NULL) {
        around.next->neighbours[order].previous = around.previous;
    } else {
        list->last = around.previous;
    }
}

static inline struct batch *batch_list_next(const struct batch_list *list,
                                            const struct batch *batch)
{
    return batch->neighbours[list->order].next;
}

/* The first one, which is taken out; NULL if there is none. */
static inline struct batch *batch_list_take(struct batch_list *list)
{
    struct batch *batch = list->first;
    if (batch != NULL) {
        batch_list_remove(list, batch);
    }
    return batch;
}

#endif
