/* SPDX-License-Identifier: MIT
 *
 * Where connections arrive: a worker accepts them, gives some of them to other workers, and takes in what those have
 * given to it. Then they are at the door (door.h). All but what is said below is for the worker's own thread. */
#ifndef WEIR_SERVER_ARRIVALS_H
#define WEIR_SERVER_ARRIVALS_H

#include <stdbool.h>

#include "server/listener.h"
#include "server/worker.h"

/* Waits at all its listening sockets. False with errno. */
bool arrivals_watch(struct worker *worker);

/* Accepts what is there at one of them, so many at most. If the system has no room it pauses for a while, until
 * arrivals_resume() is called after `paused_until_ns`. */
void arrivals_accept(struct worker *worker, struct listener *listener, unsigned count_max);
void arrivals_resume(struct worker *worker);

/* Gives an arrival to another worker that has strangers, and has not been tried. False if there is none, or none of
 * them has room for it now. */
bool arrivals_pass_on(struct worker *worker, const struct arrival *arrival);

/* Takes in what others have given to this worker. */
void arrivals_take(struct worker *worker);

/* The worker is given nothing more from now on. False if it has been given a connection that it has not taken in yet:
 * what lies in there was sent before the end, and is answered. */
bool arrivals_leave(struct worker *worker);

#endif
