/* SPDX-License-Identifier: MIT
 *
 * A question that is answered here, in a store, and may have to wait: a thread stands in line for it, in the
 * lines that all have together who share the store. So whoever asks can do something else meanwhile, as with
 * a server's connection: there is something to read once the answer is there. */
#ifndef WEIR_CLI_LOCAL_H
#define WEIR_CLI_LOCAL_H

#include <pthread.h>

#include "cli/store_option.h"

/*   limiter  NULL: it is not open yet
 *   fd       readable, as an eventfd is, when the answer is there */
struct local {
    struct store_option store;
    struct weir_limiter *limiter;
    struct store_requests requests;
    uint64_t wait_ns;
    struct weir_decision decisions[LIMIT_LIST_COUNT_MAX];
    pthread_t thread;
    bool is_asking;
    int fd;
};

/* Opens the store, and compiles the question's limits. CLI_DONE, or complains. More than once does no
 * harm. local_close() is due in any case; a `local` that is all zeroes but its store may be closed. */
int local_open(struct local *local, const struct question *question);

/* Asks, and returns at once; looks ahead before it, where the question does. CLI_DONE, or complains. */
int local_send(struct local *local, struct question *question);

/* The answer, which is there or is waited for. */
void local_receive(struct local *local, const struct question *question, struct answer *answer);

/* Who still stands in line loses his place when the process ends. */
void local_close(struct local *local);

#endif
