/* SPDX-License-Identifier: MIT
 *
 * Who is let in: how many connections there are, how many of one address, and which stranger ends when the last of
 * them are asked for. What is turned away hears why, in the words of its protocol. */
#ifndef WEIR_SERVER_DOOR_H
#define WEIR_SERVER_DOOR_H

#include <stdbool.h>

#include "server/listener.h"
#include "server/worker.h"

/* A new connection of this worker, or of another one that has a stranger to end for it. Takes the fd over; if it
 * has to turn it away, it says so to the client in its protocol's words. */
void door_admit(struct worker *worker, const struct arrival *arrival);

/* True while a stranger has to end for each connection that comes. */
bool door_is_crowded(const struct server *server);

/* Turns a socket away without a connection. */
void door_reject(struct worker *worker, const struct engine_ops *engine, int fd,
                 enum reject_reason reason);

#endif
