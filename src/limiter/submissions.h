/* SPDX-License-Identifier: MIT
 *
 * What was submitted and is answered, until it is collected. */
#ifndef WEIR_LIMITER_SUBMISSIONS_H
#define WEIR_LIMITER_SUBMISSIONS_H

#include <pthread.h>
#include <sys/types.h>

#include "weir/limiter.h"

struct submitted;

/* All of it under the mutex, but for the first.
 *   owner   the process that it is ready for; a child of it begins anew
 *   fd      an eventfd, 1 while the list is not empty; -1: nobody has asked for it */
struct submissions {
    pid_t owner;
    pthread_mutex_t mutex;
    int fd;
    struct submitted *first, *last;
};

void submissions_open(struct submissions *submissions);

/* Nothing is asked any more; what was not collected is forgotten. */
void submissions_close(struct submissions *submissions);

#endif
