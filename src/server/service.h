/* SPDX-License-Identifier: MIT
 *
 * What engines may ask of the server: protocol/engine.h's `struct service_ops`, filled in. */
#ifndef WEIR_SERVER_SERVICE_H
#define WEIR_SERVER_SERVICE_H

#include "protocol/engine.h"
#include "server/state.h"

extern const struct service_ops SERVICE_OPS;
extern const struct service_ops SERVICE_OPS_TEST_CLOCK; // with --test-clock

/* The body of /metrics. Thread-safe. */
void metrics_write(const struct server *server, struct buffer *output);

/* The text of INFO: all of it, or one section. Thread-safe. */
void info_write(const struct server *server, struct buffer *output, const char *section);

#endif
