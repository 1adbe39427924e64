/* SPDX-License-Identifier: MIT */
#include "cli/pipe/share.h"

#include <poll.h>

#include "core/arith.h"

/* A line that is full is asked again after its retry_after, and never sooner than this. */
#define ASK_AGAIN_NS_MIN (10 * NS_PER_MS)

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How many items of this cost, one at least, go into one grant: as many as the rate lets pass in
 * SHARE_SPAN_NS, and at most half of what the line holds, so that two users find room in it. */
static uint64_t batch_of(const struct weir_limit_config *config, uint64_t cost_micro)
{
    uint128 span = (uint128)config->count_micro * SHARE_SPAN_NS / config->period_ns / cost_micro;
    uint64_t half = config->capacity_micro / 2 / cost_micro;
    uint64_t batch = span < half ? (uint64_t)span : half;
    return batch > 0 ? batch : 1;
}

int share_open(struct share *share, struct pipe *pipe, size_t source_size)
{
    struct question *question = &pipe->question;
    uint64_t batch = batch_of(&pipe->question.config, pipe->item_cost_micro);
    *share = (struct share){
        .question = question,
        .client = {.fd = -1},
        .item_cost_micro = pipe->item_cost_micro,
        .batch_max = (size_t)smaller(batch, source_size / 4),
    };
    return question_open(question, &share->client);
}

void share_close(struct share *share)
{
    client_close(&share->client);
}

/* A server says nothing unasked: whatever is there to receive now is the end of the connection. An idle
 * one may have been cut off, or the server started anew; what was granted stays granted. */
static int renew_connection(struct share *share)
{
    struct pollfd polled = {.fd = share->client.fd, .events = POLLIN};
    if (poll(&polled, 1, 0) <= 0) {
        return CLI_DONE;
    }
    client_close(&share->client);
    return question_open(share->question, &share->client);
}

/* What the next grant is asked for: items that are all here, behind what was granted before. Sets
 * their cost. */
static size_t choose_batch(const struct share *share, struct source *source, uint64_t *cost_micro)
{
    size_t end = share->granted_bytes;
    uint64_t items = 0;
    while (items < share->batch_max) {
        size_t next = source_item_end(source, end);
        if (next == 0) {
            break;
        }
        if (source->by_bytes) {
            size_t left = share->batch_max - (size_t)items;
            next = next - end > left ? end + left : next;
            items += next - end;
        } else {
            items++;
        }
        end = next;
    }
    *cost_micro = items * share->item_cost_micro;
    return end - share->granted_bytes;
}

int share_ask(struct share *share, struct source *source, uint64_t now_ns)
{
    if (share->asked_bytes > 0 && now_ns < share->ask_again_ns) {
        return CLI_DONE; // it stands in line already, or will ask later
    }
    if (share->asked_bytes == 0) {
        share->asked_bytes = choose_batch(share, source, &share->question->cost_micro);
        if (share->asked_bytes == 0) {
            return CLI_DONE;
        }
    }
    share->ask_again_ns = UINT64_MAX;
    int code = renew_connection(share);
    return code == CLI_DONE ? question_send(share->question, &share->client) : code;
}

int share_receive(struct share *share, uint64_t now_ns)
{
    struct answer answer;
    char never[NEVER_TEXT_MAX];
    char place[PLACE_TEXT_MAX];
    int code = question_receive(share->question, &share->client, &answer);
    if (code != CLI_DONE) {
        return code;
    }
    int64_t retry_ns = answer.decision.retry_after_ns;
    switch (answer.decision.verdict) {
    case WEIR_ALLOWED:
        share->granted_bytes += share->asked_bytes;
        share->asked_bytes = 0;
        return CLI_DONE;
    case WEIR_LIMITED:
    case WEIR_BLOCKED:
        share->ask_again_ns =
            now_ns + (retry_ns > (int64_t)ASK_AGAIN_NS_MIN ? (uint64_t)retry_ns : ASK_AGAIN_NS_MIN);
        return CLI_DONE;
    case WEIR_NEVER:
        complain(share->question->command, "its turn never comes: %s",
                 answer_never_text(&answer, never));
        return CLI_FAILED;
    case WEIR_FAILED: break;
    }
    complain(share->question->command, "%s %s", question_place(share->question, place),
             answer_failure_text(&answer, true));
    return CLI_FAILED;
}
