/* SPDX-License-Identifier: MIT
 *
 * A take under several limits that waits where processes share the store: what its two chapters have in
 * common; nobody else includes it.
 *
 *   shared_run.c       its tickets, and what is asked and charged for it
 *   shared_together.c  when, and how it ends */
#ifndef WEIR_LIMITER_SHARED_LINES_SHARED_RUN_H
#define WEIR_LIMITER_SHARED_LINES_SHARED_RUN_H

#include "limiter/lines/line_member.h"
#include "limiter/shared_lines/shared_room.h"

/* One limit of it. */
struct shared_member {
    struct line_member asked;
    uint32_t ticket; // 0: it has none, for nobody can wait there, or it never has to
};

/*   turn        its place in the order of arrival
 *   due_ns      when all limits in whose lines it stands let it in; UINT64_MAX: it is not the first in all
 *   is_charged  it waits for its queues only */
struct shared_run {
    struct waiter *owner;
    uint64_t turn;
    uint64_t deadline_ns;
    uint64_t due_ns;
    size_t count;
    bool is_charged;
    struct weir_decision decisions[WEIR_TOGETHER_MAX];
    struct shared_member members[];
};

static inline bool member_stands(const struct shared_lines *shared,
                                 const struct shared_member *member)
{
    return member->ticket != 0 && ticket_at(shared, member->ticket)->line != 0;
}

static inline bool member_was_passed_over(const struct shared_lines *shared,
                                          const struct shared_member *member)
{
    return member->ticket != 0 && ticket_at(shared, member->ticket)->state == TICKET_PASSED_OVER;
}

/* ---- shared_run.c ---- */

/* One ticket for each limit that may have to make it wait. False if there are not so many. */
bool run_take_tickets(struct shared_lines *shared, struct shared_run *run);
void run_free_tickets(struct shared_lines *shared, struct shared_run *run);

/* Whether it could wait for this limit. It counts once, wherever it stands. */
bool run_has_place(const struct shared_lines *shared, const struct shared_run *run,
                   const struct shared_member *member);

/* One of its places in line; 0: it stands nowhere. */
uint32_t run_some_place(const struct shared_lines *shared, const struct shared_run *run);

bool run_is_first_everywhere(const struct shared_lines *shared, const struct shared_run *run);

const struct joining *run_joining_of(struct member_joining *room,
                                     const struct shared_member *member,
                                     const struct shared_run *run, uint64_t now_ns);

/* Asks about one of the limits. Its bucket stays marked if others wait for it. */
struct outcome run_ask_one(struct shared_lines *shared, const struct shared_member *member,
                           enum weir_operation operation, uint64_t now_ns);

/* Asks all limits at once. True if it was allowed, and for a take is charged. */
bool run_ask_all(struct shared_lines *shared, const struct shared_run *run,
                 enum weir_operation operation, struct outcome *outcomes, uint64_t now_ns);

/* Takes, unless somebody waits for one of its limits whom it would overtake. True if it is charged; if
 * not, what every limit says. */
bool run_take(struct shared_lines *shared, struct shared_run *run, struct outcome *outcomes,
              uint64_t now_ns);

/* Neither yes nor not yet: no wait helps. */
bool run_is_decided(const struct shared_run *run, const struct outcome *outcomes);

/* A queue is full, or would let it go too late: it refuses at once, for it is its own line. */
bool run_is_refused_by_queue(const struct shared_run *run, const struct outcome *outcomes);

/* Stands wherever it is refused, and looks when to look. False if one of these lets it in meanwhile. */
bool run_stand_where_refused(struct shared_lines *shared, struct shared_run *run,
                             const struct outcome *outcomes, uint64_t now_ns);

/* It is charged everywhere. True if a queue has not let it go yet. */
bool run_go(struct shared_lines *shared, struct shared_run *run, const struct outcome *outcomes,
            uint64_t now_ns);

/* Gives its places back; and what it was charged where it stands no more. */
void run_withdraw(struct shared_lines *shared, struct shared_run *run, uint64_t now_ns);

#endif
