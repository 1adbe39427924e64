/* SPDX-License-Identifier: MIT
 *
 * What was decided, as people and as programs read it. */
#ifndef WEIR_CLI_ANSWER_H
#define WEIR_CLI_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/known_limits.h"
#include "cli/reply.h"
#include "limiter/limit_list.h"
#include "weir/limiter.h"

/* A question and its answer. Under several limits `decision` is that of all together. */
struct answer {
    enum weir_operation operation;
    bool is_local;      // decided here, in a store
    const char *cannot; // which questions that store answers by an error; NULL: none
    uint64_t cost_micro;
    uint64_t wait_ns;
    struct weir_limit_config config; // the limit that was asked about, the first of several
    bool is_together;                // it lists what each of its limits says
    bool is_named;                   // a name among them
    const struct known_limits
        *known;             // what names mean; NULL: nobody has said so, or there are none
    const char *limits;     // as they were written, or as they are called
    struct limit_list list; // where each stands in it
    struct weir_decision decision;
    struct weir_decision each[LIMIT_LIST_COUNT_MAX]; // capacity, remaining and reset_after_ns
    int binding;                                     // which of several decided; -1: none
    enum weir_verdict shadow; // what limits in shadow mode would have said; allowed: nothing else
    int64_t shadow_retry_after_ns;
    int shadow_binding;        // which of several would have decided; -1: none
    struct bytes amount;       // fill: the spill; show: the level; as the server wrote it
    struct weir_amount parsed; // the same
    char amount_text[WEIR_AMOUNT_TEXT_MAX]; // where `amount` lies if no server wrote it
    bool full;                              // fill
    bool existed;                           // reset
    uint64_t waiting;                       // show: how many wait in line
};

/* Whether a server is asked what limits in shadow mode would have said: only names can be in it, and only what takes
 * hears of it. */
static inline bool answer_hears_shadow(bool is_named, enum weir_operation operation)
{
    return is_named && (operation == WEIR_TAKE || operation == WEIR_CAN_TAKE);
}

/* Fills everything but the question from a reply. False if the reply does not fit it. */
bool answer_read(struct answer *answer, const struct reply *reply);

/* One line for people, and under several limits one for each; or one of JSON, the same as HTTP's
 * POST /v1/... answers. */
void answer_say(const struct answer *answer);
void answer_say_json(const struct answer *answer);

/* 0, 1, 3 or 4. */
int answer_exit_code(const struct answer *answer);

/* Of a can_take: how long the same take would wait in line if it joined now; 0: not at all, or it is not
 * known. Of a queue it is the time to its own egress. */
uint64_t answer_wait_ns(const struct answer *answer);

/* True if verdict never is about the wait: the cost fits, and not even an empty queue lets it go so
 * soon. */
bool answer_waited_too_short(const struct answer *answer);

/* What verdict never means: "a cost of 11 exceeds the capacity of 10". May be `text`, or a constant. */
enum { NEVER_TEXT_MAX = 2 * DURATION_TEXT_MAX + 80 };
const char *answer_never_text(const struct answer *answer, char text[NEVER_TEXT_MAX]);

/* Where the limit that decided has a name, what it promises: "login is limited to 5 per 1 min; ". Otherwise
 * "". May be `text`, or a constant. */
enum { NAMED_TEXT_MAX = 2 * WEIR_LIMIT_TEXT_MAX + 128 };
const char *answer_named_text(const struct answer *answer, char text[NAMED_TEXT_MAX]);

/* What verdict error means, after "the server". */
const char *answer_failure_text(const struct answer *answer, bool waited);

#endif
