/* SPDX-License-Identifier: MIT
 *
 * A place where clients arrive. A TCP address has one socket per worker (SO_REUSEPORT: the kernel
 * spreads connections over them, and no two workers meet at one queue); a unix socket, and one that
 * a service manager handed over, is one socket that all workers wait at. */
#ifndef WEIR_SERVER_LISTENER_H
#define WEIR_SERVER_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "protocol/engine.h"
#include "server/address.h"
#include "server/options.h"
#include "server/poller.h"

struct listener {
    struct source source; // SOURCE_LISTENER
    const struct engine_ops *engine;
    bool is_shared;  // one socket, fds[0], for all workers
    bool is_adopted; // the service manager's: it goes on listening when we end
    size_t fd_count;
    int fds[THREAD_COUNT_MAX];
    struct socket_address address;
    char name[ADDRESS_TEXT_BYTES_MAX];
    bool made_path; // of a unix socket: ours to remove at the end
    dev_t device;
    ino_t inode;
};

enum listener_result {
    LISTENER_OPEN,
    LISTENER_BUSY,  // somebody listens there already
    LISTENER_FAILED // errno says why
};

/* Opens `fd_count` sockets at a TCP address. Startup only; on failure nothing stays open. */
enum listener_result listener_open_tcp(struct listener *listener,
                                       const struct socket_address *address, size_t fd_count);

/* Opens a unix socket with these permissions; a socket file that nobody answers is replaced. */
enum listener_result listener_open_unix(struct listener *listener, const char *path, unsigned mode);

/* Takes over a socket that is open already. LISTENER_FAILED if it does not listen. */
enum listener_result listener_adopt(struct listener *listener, int fd);

/* The socket at which this worker waits. */
static inline int listener_fd(const struct listener *listener, size_t worker_index)
{
    return listener->fds[listener->is_shared ? 0 : worker_index];
}

/* Turns away whoever comes from now on, unless the socket is adopted: then they wait for the next
 * server. Thread-safe. */
void listener_stop(const struct listener *listener, size_t worker_index);

/* Closes the sockets that are still open and removes the unix socket's file if it is ours. */
void listener_close(struct listener *listener);

#endif
