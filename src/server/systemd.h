/* SPDX-License-Identifier: MIT
 *
 * The two things that a service manager and a server say to each other: "I am ready" (sd_notify(3))
 * and "here are your sockets" (sd_listen_fds(3)). Both protocols are a few lines of environment
 * variables and one datagram, so there is no library to link. */
#ifndef WEIR_SERVER_SYSTEMD_H
#define WEIR_SERVER_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>

/* Sends `state` ("READY=1\nSTATUS=...") to $NOTIFY_SOCKET. True if there is none or it was sent. */
bool systemd_notify(const char *state);

enum { SYSTEMD_FD_FIRST = 3, SYSTEMD_FD_COUNT_MAX = 16, SYSTEMD_NAMES_BYTES_MAX = 1024 };

/* What socket activation handed over: fds SYSTEMD_FD_FIRST .. + count - 1, each with a name
 * (FileDescriptorName=), "" if unknown. */
struct systemd_sockets {
    size_t count;
    const char *names[SYSTEMD_FD_COUNT_MAX];
    char text[SYSTEMD_NAMES_BYTES_MAX]; // where the names live
};

/* Reads $LISTEN_PID, $LISTEN_FDS and $LISTEN_FDNAMES, and unsets them. Startup only. */
void systemd_take_sockets(struct systemd_sockets *sockets);

#endif
