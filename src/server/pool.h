/* SPDX-License-Identifier: MIT
 *
 * What connections keep (the beginnings of requests, commands behind MULTI, answers that are not taken), how
 * much of it there may be, and which connection ends when there is too much: one that keeps most, not the one
 * that happens to grow next.
 *
 *     --buffers-max 256M     pressure begins at 240M; then one that keeps most of all is cut off
 *     strangers: a 16th      from 16M on, the stranger that keeps most is
 *
 * Connections stand in lists by the power of two of what they keep, so one of the greatest is at hand, to a
 * factor of two; among equals it is the one that has been there longest. Each worker has lists of its own and
 * shows the others which are not empty. If another worker has a greater one, that worker is asked to cut it off,
 * and nobody waits for it: the last 16th is for what comes meanwhile.
 *
 * The allocator keeps what a flood leaves behind. When one is over the main thread gives that back to the system. */
#ifndef WEIR_SERVER_POOL_H
#define WEIR_SERVER_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection;
struct server;
struct worker;

enum pool_share { POOL_FRIENDS, POOL_STRANGERS, POOL_SHARE_COUNT };

enum {
    POOL_SWOLLEN_PART = 8,         // of --buffers-max: above it was a flood, which is over below ..
    POOL_EBBED_PART = 32,          // .. this
    POOL_CLASS_COUNT = 64,         // class c: 2^c bytes and more, less than 2^(c+1)
    POOL_STRANGERS_PART = 16,      // strangers have this part of --buffers-max ..
    POOL_STRANGERS_MIN = 64 * 1024 // .. and at least so much, unless that is more than all
};

struct pool_list {
    struct connection *first, *last;
};

/* The connections of one worker that keep something. All zeroes is nobody. */
struct pool {
    struct pool_list lists[POOL_SHARE_COUNT][POOL_CLASS_COUNT];
    _Atomic uint64_t classes[POOL_SHARE_COUNT]; // bit c: list c is not empty; others read it
    _Atomic bool is_asked; // another worker wants this one to cut off its greatest
};

/* How much strangers may keep, all together. */
uint64_t pool_strangers_max(const struct server *server);

/* A part of what the connection keeps had `before` bytes and has `after` now. Its worker only. */
void pool_count(struct worker *worker, struct connection *connection, size_t before, size_t after);

/* The connection is a stranger's from now on, or is none any more. Its worker only. */
void pool_set_share(struct worker *worker, struct connection *connection, enum pool_share share);

/* True while all together keep more than 15/16 of --buffers-max, or strangers more than their share. */
bool pool_is_pressed(const struct server *server);

/* A connection of this worker that has to end for what others keep; NULL if there is none: nothing presses, or
 * another worker was asked. */
struct connection *pool_choose(struct worker *worker);

/* True once for any number of requests by other workers. */
bool pool_was_asked(struct worker *worker);

#endif
