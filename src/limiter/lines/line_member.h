/* SPDX-License-Identifier: MIT
 *
 * One of several limits for one take, as it is seen by those who have takes wait: line_together.c within a
 * process, shared_run.c and shared_together.c among processes. */
#ifndef WEIR_LIMITER_LINES_LINE_MEMBER_H
#define WEIR_LIMITER_LINES_LINE_MEMBER_H

#include "limiter/lines/line.h"

/*   is_shadow  its refusal refuses nothing
 *   verdict    what it said when all were charged: allowed, unless it is a shadow */
struct line_member {
    struct weir_rule rule;
    uint64_t id;
    uint64_t cost_micro;
    struct charge charge;
    bool is_shadow;
    enum weir_verdict verdict;
};

/* What joining is about, for one limit. */
struct member_joining {
    struct weir_request request;
    struct weir_decision decision; // nobody reads it
    struct joining joining;
};

static inline bool member_is_queue(const struct line_member *member)
{
    return member->rule.limit.kind == WEIR_KIND_QUEUE;
}

static inline bool member_charges_nothing(const struct line_member *member)
{
    return member->charge.never || member->charge.cost_micro == 0;
}

/* It charges nothing, or refuses nothing: it waits for nobody. */
static inline bool member_is_idle(const struct line_member *member)
{
    return member_charges_nothing(member) || member->is_shadow;
}

/* Whether this limit keeps it from going. */
static inline bool member_refuses(const struct line_member *member, struct outcome outcome)
{
    return outcome.verdict == WEIR_LIMITED && !member->is_shadow;
}

/* The same, of a limit that does so at once: it is a queue that is full, or would let it go too late. */
static inline bool member_refuses_at_once(const struct line_member *member, struct outcome outcome)
{
    return member_refuses(member, outcome) && member_is_queue(member);
}

/* Neither yes nor not yet: no wait helps. */
static inline bool member_decides(const struct line_member *member, struct outcome outcome)
{
    return outcome.verdict != WEIR_LIMITED && outcome.verdict != WEIR_ALLOWED && !member->is_shadow;
}

/* What a limit that did not refuse is asked when others did: a shadow may have refused too. */
static inline enum weir_operation member_asked_at_the_end(const struct line_member *member)
{
    return member->is_shadow ? WEIR_CAN_TAKE : WEIR_SHOW;
}

struct line_member member_of(const struct lines *lines, const struct weir_request *request);

/* Gives it the numbers of the line that is there: everything in it is counted in these. Its policy words stay. */
void member_take_numbers(struct line_member *member, const struct weir_rule *rule);

/* For a waiter who stands in line until the deadline. */
const struct joining *member_joining_of(struct member_joining *room,
                                        const struct line_member *member, struct waiter *waiter,
                                        uint64_t deadline_ns, uint64_t now_ns);

/* A queue that even empty would let it go too late: no wait helps. */
bool member_is_in_vain(const struct line_member *member, uint64_t deadline_ns, uint64_t now_ns);

/* Asks about this one of the limits. `is_marked`: others wait for it, and its bucket stays marked. */
struct outcome member_ask(const struct lines *lines, const struct line_member *member,
                          enum weir_operation operation, bool is_marked, uint64_t now_ns);

#endif
