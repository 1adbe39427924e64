/* SPDX-License-Identifier: MIT
 *
 * A pipe's share of a rate that it has together with others: the line of one key at a server. The
 * pipe asks there for what it has already read, a little at a time, and what was granted may leave.
 *
 * A grant buys the time that follows it: so many units leave over the units / rate that come next,
 * which pacer.h spreads evenly, and meanwhile the next are already asked for. All users together
 * then never send more than the line let go. A grant covers SHARE_SPAN_NS of the rate, or one item:
 * alone in its line, a pipe is below the rate by one round trip per grant, and never above it. */
#ifndef WEIR_CLI_PIPE_SHARE_H
#define WEIR_CLI_PIPE_SHARE_H

#include "cli/pipe/pipe.h"
#include "cli/pipe/source.h"

#define SHARE_SPAN_NS (50 * NS_PER_MS)

/* Bytes count from the front of the source. */
struct share {
    struct question *question;
    struct client client;
    uint64_t item_cost_micro;
    size_t batch_max;      // items, or bytes, of one grant
    size_t granted_bytes;  // may leave
    size_t asked_bytes;    // stand in line behind those
    uint64_t ask_again_ns; // when the line was full; UINT64_MAX while an answer is due
};

/* Connects. CLI_DONE, or complains. share_close() is due in any case. */
int share_open(struct share *share, struct pipe *pipe, size_t source_size);
void share_close(struct share *share);

/* Asks for what is behind the granted, if there is any and nothing is asked for; and again for what
 * found the line full, once it is time. CLI_DONE, or complains. */
int share_ask(struct share *share, struct source *source, uint64_t now_ns);

/* Receives the answer, which is there. CLI_DONE, or complains. */
int share_receive(struct share *share, uint64_t now_ns);

#endif
