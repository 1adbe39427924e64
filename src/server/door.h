/* SPDX-License-Identifier: MIT
 *
 * Who is let in: how many connections there are, how many of one address, and which stranger ends when the last of
 * them are asked for. What is turned away hears why, in the words of its protocol. */
#ifndef WEIR_SERVER_DOOR_H
#define WEIR_SERVER_DOOR_H

#include "server/listener.h"
#include "server/worker.h"

/* A new connection of this worker. Takes the fd over; if it has to turn it away, it says so to the
 * client in its protocol's words. */
void door_admit(struct worker *worker, struct listener *listener, int fd,
                const struct socket_address *from);

/* Turns a socket away without a connection. */
void door_reject(struct worker *worker, const struct engine_ops *engine, int fd,
                 enum reject_reason reason);

#endif
