/* SPDX-License-Identifier: MIT
 *
 * The bytes of one connection on their way in and out. They are read into the worker's buffer, and
 * answered from the worker's; what does not fit there is the connection's own, and counted.
 * Nothing here closes a connection: who asked does, if he hears that it failed. */
#ifndef WEIR_SERVER_STREAM_H
#define WEIR_SERVER_STREAM_H

#include "server/connection.h"

/* Nothing: the socket has no bytes, or no room for all. End: the client will send no more. */
enum stream_result { STREAM_DONE, STREAM_NOTHING, STREAM_END, STREAM_FAILED };

/* Reads once, behind what is already there of an incomplete request: a small beginning is copied
 * to the worker's buffer, so that many small requests are read at once; a large one is read on in
 * its own, so that it is not copied with every packet. */
enum stream_result stream_receive(struct worker *worker, struct connection *connection,
                                  struct bytes *input, bool *is_more);

/* Keeps the input that the engine is not done with. False: there is no memory. */
bool stream_keep_input(struct worker *worker, struct connection *connection, struct bytes rest);

/* Sends the answers of this batch with one write, and keeps what the socket does not take. */
bool stream_send(struct worker *worker, struct connection *connection);

/* Empties the worker's buffer for the next batch. */
void stream_reset_output(struct worker *worker);

/* Sends what the socket did not take before. Nothing: some of it is still there. */
enum stream_result stream_send_waiting(struct worker *worker, struct connection *connection);

/* Counts what the session holds now: nothing once it is closed. */
void stream_count_held(struct worker *worker, struct connection *connection, bool is_closed);

void stream_release_input(struct worker *worker, struct connection *connection);
void stream_release_output(struct worker *worker, struct connection *connection);

#endif
