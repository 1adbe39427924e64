/* SPDX-License-Identifier: MIT
 *
 * One connection to a server: questions out, answers in, each before a deadline. */
#ifndef WEIR_CLI_CLIENT_H
#define WEIR_CLI_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "cli/reply.h"
#include "protocol/buffer.h"
#include "server/address.h"

enum client_status {
    CLIENT_OK,
    CLIENT_NO_SERVER, // nobody listens there
    CLIENT_TIMEOUT,
    CLIENT_BROKEN // it closed, or does not speak RESP
};

enum { CLIENT_PROBLEM_MAX = 200, CLIENT_INPUT_BYTES_MAX = 2 * REPLY_BULK_BYTES_MAX };

struct client {
    int fd;
    uint64_t deadline_ns; // CLOCK_MONOTONIC
    void (*on_tick)(void *context);
    void *tick_context;
    uint64_t tick_ns; // when next; UINT64_MAX: nobody wants to know
    struct buffer input;
    size_t used;                      // bytes of it that the last reply lies in
    char problem[CLIENT_PROBLEM_MAX]; // a sentence, where a call does not return CLIENT_OK
};

uint64_t monotonic_now_ns(void);

/* Connects. `resolved` are tried in turn. client_close() is due in any case. */
enum client_status client_open(struct client *client, const struct socket_address *resolved,
                               size_t count, uint64_t timeout_ns);
void client_close(struct client *client);

/* The same without a connection: `fd` is what there will be something to read from, and is closed. */
void client_open_fd(struct client *client, int fd);

/* From now on everything has to be over in so long. */
void client_set_timeout(struct client *client, uint64_t timeout_ns);

/* Has on_tick() called after a moment, and then once a second, while the server keeps it waiting. */
void client_tick(struct client *client, void (*on_tick)(void *context), void *context);

/* Has a server that vanished without a word noticed in two minutes, not at the deadline. */
void client_keep_alive(struct client *client);

/* Sends all of it. */
enum client_status client_send(struct client *client, struct bytes request);

/* Waits until there is something to receive. */
enum client_status client_expect(struct client *client);

/* Waits for one reply; its texts are good until the next call. */
enum client_status client_receive(struct client *client, struct reply *reply);

#endif
