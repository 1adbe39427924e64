/* SPDX-License-Identifier: MIT
 *
 * From options to open sockets; each thing that can go wrong says what to do about it. */
#ifndef WEIR_SERVER_STARTUP_H
#define WEIR_SERVER_STARTUP_H

#include "server/state.h"
#include "store/driver.h"

/* The exit codes of `weir serve`. */
enum { EXIT_DONE = 0, EXIT_USAGE = 2, EXIT_FAILED = 3 };

/* Reads the password and opens every socket: what the service manager hands over, then what was
 * asked for, or the default. Returns EXIT_DONE, EXIT_USAGE or EXIT_FAILED, and has then
 * said why on standard error. */
int startup_open_listeners(struct server *server);

/* Says where it listens, what it may use, and what it forgets: to the log, or with examples to
 * paste where standard error is a terminal. */
void startup_announce(struct server *server);

/* The URL of the store, without a password. */
void startup_show_store(const struct server *server, char shown[STORE_SHOWN_MAX]);

/* The first TCP address of this protocol as a client would write it ("127.0.0.1:6390"), or "". */
void startup_client_address(const struct server *server, enum protocol protocol, char *text,
                            size_t size);

#endif
