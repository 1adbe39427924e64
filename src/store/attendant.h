/* SPDX-License-Identifier: MIT
 *
 * The thread of the library that asks a store which answers later, for all threads of the process. What they ask
 * while a batch is out goes out together. In a server the workers ask for themselves (store/port.h), and no
 * attendant ever starts.
 *
 *     struct attendant *attendant = attendant_open(store);
 *     attendant_decide(attendant, requests, decisions, count, STORE_NOW); // sleeps until it is decided
 *     attendant_close(attendant);
 *
 * Where the store does not decide, on_error of each limit answers: at once while it is down, otherwise after
 * PORT_DEADLINE_NS and a turn of the thread at the latest. The same in a child of fork(), where there is no thread, and
 * the connections are its parent's; and where no thread can be started.
 *
 *  Shared word   Written by                  Order     Pairs with
 *  asked         any thread, by a swap;      acq_rel   the exchange by the attendant, which then has the asks
 *                emptied by the attendant
 *  is_done       the attendant, once         release   the load of the one that sleeps on it: the decisions are there
 *
 * Threads: attendant_decide() and attendant_ask() are thread-safe, and take a lock only the first time. */
#ifndef WEIR_STORE_ATTENDANT_H
#define WEIR_STORE_ATTENDANT_H

#include "store/exported.h"
#include "store/store.h"

struct attendant;

/* What is asked, all zeroes but for this. The asker's memory, and all that it points to, until done() has begun.
 *   count   1 or more. What is too much for one batch goes in several, one after the other, each of whole runs; after
 *           one that is not decided on_error answers the rest
 *   done()  called once, in the attendant's thread, or from within attendant_ask(): the decisions are there. It must not
 *           block */
struct attendant_ask {
    struct attendant_ask *next;
    const struct weir_request *requests;
    struct weir_decision *decisions;
    size_t count, decided_count;
    uint64_t now_ns;
    void (*done)(struct attendant_ask *ask);
};

/* Of a store with remote_ops. Its thread starts with the first question, so a program may fork() before that. NULL if
 * there is no memory. */
struct attendant *attendant_open(struct store *store);

/* Ends its thread, and with it all that is asked. No other call may be running, done() among them. NULL is fine. */
void attendant_close(struct attendant *attendant);

/* Asks, and returns at once. */
void attendant_ask(struct attendant *attendant, struct attendant_ask *ask);

/* As store_ops.decide(): sleeps until it is decided. Not a point of cancellation. */
void attendant_decide(struct attendant *attendant, const struct weir_request *requests,
                      struct weir_decision *decisions, size_t count, uint64_t now_ns);

/* True in a child of fork(). */
bool attendant_is_inherited(const struct attendant *attendant);

/* decide() and take() for the store_ops of a store that answers later: by its attendant. */
void attendant_store_decide(struct store *store, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count, uint64_t now_ns);
struct weir_decision attendant_store_take(struct store *store, const struct weir_rule *rule,
                                          const void *key, size_t key_len, uint64_t cost_micro);

#endif
