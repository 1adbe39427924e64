/* SPDX-License-Identifier: MIT
 *
 * weir pipe, after its command line was read. */
#ifndef WEIR_CLI_PIPE_PIPE_H
#define WEIR_CLI_PIPE_PIPE_H

#include "cli/local.h"
#include "cli/pipe/pacer.h"

/*   question.key  NULL: a line of its own; otherwise the line of this key, at a server or in a store
 *   limit         question.config, of kind queue; its rate is the rate of the stream */
struct pipe {
    struct question question;
    struct local local;
    struct weir_limit limit;
    uint64_t item_cost_micro; // of a line, or a byte
    bool by_bytes;
    bool null_separated;
    bool quiet;
    bool progress;
    bool help;
};

/* Shapes standard input to standard output, to the end of it. Returns how to exit. */
int flow_run(struct pipe *pipe);

#endif
