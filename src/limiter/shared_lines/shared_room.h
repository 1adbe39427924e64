/* SPDX-License-Identifier: MIT
 *
 * What the chapters on lines that processes share have in common; nobody else includes it.
 *
 *   shared_lines.c      standing in a line, leaving it, and meeting one: what lines.h offers
 *   shared_join.c       joining one
 *   shared_run.c        what stands in several lines for one take, and what it is asked and charged
 *   shared_together.c   when it is the turn of such a take, and how it ends
 *   shared_line.c       one line: who stands in it, whose turn it is, who is passed over
 *   shared_watch.c      whose death a process looks for
 *   shared_room.c       the memory they stand in: places, calls, who is alive
 *   shared_repair.c     what is left to do when somebody died in the middle of a change
 *   shared_attendant.c  the thread of each process that listens for calls and looks for deaths
 *   shared_move.c       all of it, to another room, when their file gets another size
 *
 * The room lies behind the buckets, in the same file or memory:
 *
 *     +-------+---------+-----------+-------+------+
 *     | start | tickets | standings | lines | bins |    places from 1 on; 0 is nobody
 *     +-------+---------+-----------+-------+------+
 *
 * A **ticket** is one waiter's place. A **standing** is a process that waits: it names the member of the file that
 * the process is, so that others can ask the kernel whether it is alive (platform/membership.h). All of the room is
 * under the one lock at its start.
 *
 * What counts is in the tickets: `state`, and what was written before it. Lists, sums and counts follow from
 * them, and the heir of a dead holder of the lock makes them anew (shared_repair.c). So a change is a few
 * single stores, in an order that costs at worst a charge of which nobody hears.
 *
 * Nobody takes another one's turn: a process serves its own tickets only. It calls those of others: puts
 * the ticket on the list of its standing, and wakes the attendant. */
#ifndef WEIR_LIMITER_SHARED_LINES_SHARED_ROOM_H
#define WEIR_LIMITER_SHARED_LINES_SHARED_ROOM_H

#include <assert.h>
#include <sys/types.h>

#include "limiter/lines/line.h"

enum {
    ROOM_PLACES_MAX = 16384,
};

/* How late a head may be before it is passed over; or an interval of its limit, if that is longer. */
#define TURN_GRACE_NS UINT64_C(100000000)

/* How long a process has to come to another room before its places there are given up. */
#define ARRIVAL_NS UINT64_C(1000000000)

enum ticket_state {
    TICKET_FREE = 0,
    TICKET_STANDS,
    TICKET_HELD, // for a take under several limits, which may have to stand in this line later
    TICKET_GONE, // on its way to be free: what it was charged is being given back
    TICKET_PASSED_OVER, // its turn came and went; it joins again, behind all, when its process goes on
};

/*   turn         its place in the order of arrival
 *   called_ns    as the first: since when its process knows
 *   next_member  the next one that waits for the same take under several limits, round in a circle; itself,
 *                where it is a take under one
 *   end          in a queue: the moment at which its own time ends, for it is charged. At a window,
 *                when its turn was last foreseen
 *   is_called    it is on the list of its standing, by next_called */
struct ticket {
    uint32_t state; // enum ticket_state; written last
    uint32_t standing;
    uint64_t id; // of the bucket
    uint64_t turn;
    uint64_t cost_micro;
    uint64_t deadline_ns;
    uint64_t called_ns;
    struct span span;
    struct span end;
    struct weir_rule rule; // the numbers of the whole line, and the policy words of this waiter
    uint32_t next_member;
    uint32_t line; // from here on what follows from the rest
    uint32_t next, previous;
    uint32_t next_called;
    bool is_called;
} __attribute__((aligned(64)));

/*   member       of the file: which process this is
 *   calls        changes with each call: what the attendant sleeps on
 *   is_expected  its process has not come to this room yet: `member` is not known
 *   token        of one that is used: none of the last 2^32 had it, in this room or those before it */
struct standing {
    uint64_t member;
    uint32_t calls;
    uint32_t first_called;
    union {
        uint32_t next_free;
        uint32_t token;
    };
    bool is_used;
    bool is_expected;
} __attribute__((aligned(64)));

/* All who wait for one bucket. As struct line, but for what is in the tickets.
 *   called   who was told last that it is the first
 *   gone_ns  in a queue: when the one went who was the first before; 0: nobody has gone yet
 *   watcher  who looks whether the first one takes its turn: the next one of another process */
struct shared_line {
    uint64_t id;
    struct span ahead;
    uint32_t next_in_bin;
    uint32_t first, last, count;
    uint32_t whole_count, tight_count;
    uint32_t called, watcher;
    uint64_t gone_ns;
} __attribute__((aligned(64)));

/*   turns          who has come so far
 *   latest_now_ns  the latest reading that anybody came with: time, where it is the caller's
 *   tokens         that were given to standings so far
 *   is_left        nobody was taken along from here: where our processes go, they are not expected
 *   expected_until_ns  who is still expected then is given up */
struct room {
    struct waiting_room start;
    uint64_t turns;
    uint64_t latest_now_ns;
    uint32_t tokens;
    uint32_t is_left;
    uint64_t expected_until_ns;
    uint32_t free_ticket, free_standing, free_line; // lists, by next, next_free, next_in_bin
    uint32_t waiting_count, line_count;
};

enum { ROOM_START_BYTES = 128 };
_Static_assert(sizeof(struct room) <= ROOM_START_BYTES, "the start has its place");
_Static_assert(sizeof(struct ticket) == 256 && sizeof(struct standing) == 64
                   && sizeof(struct shared_line) == 64,
               "as the format of the file says");

/* A ticket of this process. */
struct own_ticket {
    struct waiter *waiter; // NULL: it is none
    uint32_t watched;      // the standing that it counts in `watches`, or 0
};

/* A foreign standing whose tickets stand directly before ours; its death is our business. */
struct watch {
    uint32_t standing;
    uint32_t count;
};

/* The thread; shared_attendant.c. */
struct attendant {
    pthread_t thread;
    pthread_cond_t changed;
    bool is_started, has_begun, is_running, is_ending;
};

/* How a process sees the room. Below the line it is under the lock of the lines, which each process has for
 * itself, and which whoever enters the room takes first.
 *   any  a rule that changes no state by reading it, whatever limit wrote it */
struct shared_lines {
    struct lines *lines;
    const struct waiting_area *area; // of the store: where the room is
    struct room *room;
    struct ticket *tickets;
    struct standing *standings;
    struct shared_line *shared_lines;
    uint32_t *bins;
    uint32_t place_count;
    uint32_t bin_count;
    struct weir_rule any;
    bool is_caller_clock;
    pid_t pid; // atomic: whose memory the following is; a fork's child begins anew
    /* ---- */
    struct own_ticket *own; // by ticket
    struct watch *watches;
    uint32_t watch_count;
    uint32_t standing;  // 0: nobody of this process has waited yet
    uint32_t token;     // of the standing; 0: it was not taken along to the room to which we go
    bool has_new_watch; // the attendant has to know
    struct attendant attendant;
};

static inline struct ticket *ticket_at(const struct shared_lines *shared, uint32_t place)
{
    assert(place > 0 && place <= shared->place_count);
    return &shared->tickets[place - 1];
}

static inline struct standing *standing_at(const struct shared_lines *shared, uint32_t place)
{
    assert(place > 0 && place <= shared->place_count);
    return &shared->standings[place - 1];
}

static inline struct shared_line *shared_line_at(const struct shared_lines *shared, uint32_t place)
{
    assert(place > 0 && place <= shared->place_count);
    return &shared->shared_lines[place - 1];
}

/* In whose name this process locks the room that it is in. */
static inline const struct membership *room_members(const struct shared_lines *shared)
{
    return shared->area->members;
}

static inline bool is_own(const struct shared_lines *shared, const struct ticket *ticket)
{
    return ticket->standing == shared->standing;
}

static inline const struct weir_limit *shared_limit(const struct shared_lines *shared,
                                                    const struct shared_line *line)
{
    return &ticket_at(shared, line->first)->rule.limit;
}

/* ---- shared_room.c ---- */

/* Finds its way in the room of this store. False if it is too small for anybody. */
bool room_lay(struct shared_lines *shared, const struct store *store);

/* Nothing but what follows from the tickets: no line, and every place free. */
void room_clear(struct shared_lines *shared);

/* Locks the room, wherever it is now, and makes it whole if it is not. Returns the time: for STORE_NOW the
 * latest reading that anybody came with. */
uint64_t room_enter(struct shared_lines *shared, uint64_t now_ns);

/* Looks at all tickets of this process that were called. */
void room_look_after_calls(struct shared_lines *shared, uint64_t now_ns);

/* Looks after the calls that have come about meanwhile, and unlocks. */
void room_leave(struct shared_lines *shared, uint64_t now_ns);

/* Free places: 0 if there is none. */
uint32_t room_take_ticket(struct shared_lines *shared);
uint32_t room_take_line(struct shared_lines *shared);
uint32_t room_take_standing(struct shared_lines *shared);
void room_free_ticket(struct shared_lines *shared, uint32_t place);
void room_free_line(struct shared_lines *shared, uint32_t place);
void room_free_standing(struct shared_lines *shared, uint32_t place);

/* The line of the bucket with this id, or 0. */
uint32_t room_find(const struct shared_lines *shared, uint64_t id);
void room_put_in_bin(struct shared_lines *shared, uint32_t line);

/* What counts about a ticket; all that it stands for was written before. */
void room_set_state(struct ticket *ticket, enum ticket_state state);

/* Has the process of this ticket look at it. */
void room_call(struct shared_lines *shared, uint32_t ticket);

/* For the attendant: this process stands at a free place from now on; false if there is none, not even of the
 * dead. Or at one that is its own already. */
bool room_stand(struct shared_lines *shared, uint64_t now_ns);
void room_hold(struct shared_lines *shared, uint32_t place);

/* Whether the process that stands there is alive. */
bool room_is_alive(struct shared_lines *shared, uint32_t standing);

/* Frees all tickets of a standing that is not, and the standing; or of all such. */
void room_bury(struct shared_lines *shared, uint32_t standing, uint64_t now_ns);
void room_bury_all(struct shared_lines *shared, uint64_t now_ns);

/* The invariant: every place is free or in use, and those that are free are in their lists. Under the lock of
 * the room, when nothing is under way. */
bool room_valid(const struct shared_lines *shared);

/* ---- shared_repair.c ---- */

/* The memory is new, or has outlived all who used it: nobody waits. */
void room_begin(struct shared_lines *shared);

/* Somebody died under the lock, or the memory is of another epoch. */
void room_repair(struct shared_lines *shared, uint64_t now_ns);

/* ---- shared_move.c ---- */

/* The lock of the room is held, but it is not the one any longer: goes to the one in which those wait now, and
 * locks that. False: it is out of reach, and then nobody of this process waits any longer, and the lock is that
 * of the old one again. *is_heir: somebody died with it. */
bool room_follow(struct shared_lines *shared, bool *is_heir);

/* In the new room, when it is whole: finds what this process left in the old one, whose tickets these are. */
void room_arrive(struct shared_lines *shared, const struct ticket *tickets, uint64_t now_ns);

/* ---- shared_line.c ---- */

/* One more at the end; one less, wherever he stands. His ticket stays. */
void shared_append(struct shared_lines *shared, uint32_t line, uint32_t ticket);
void shared_unlink(struct shared_lines *shared, uint32_t ticket);

/* Puts one where his turn says. */
void shared_insert(struct shared_lines *shared, uint32_t line, uint32_t ticket);

/* After any change: closes the line if it is empty; otherwise calls whoever is the first now, and whoever
 * has to look after him. */
void shared_settle(struct shared_lines *shared, uint32_t line, uint64_t now_ns);

/* Whether no place of the same take has anybody before it, in whatever line it stands. */
bool shared_is_first_everywhere(const struct shared_lines *shared, uint32_t ticket);

/* Takes one out, and gives back what he was charged; those behind move up. */
void shared_give_back(struct shared_lines *shared, uint32_t ticket, uint64_t now_ns);

/* In a queue: gives back up to so much of what is charged and is nobody's place, the latest first; those behind
 * move up. How much it was. */
struct span shared_give_back_beside(struct shared_lines *shared, uint32_t line, struct span most,
                                    uint64_t now_ns);

/* Makes sure that the first one is alive, and passes over one that does not take its turn. The line may be
 * gone afterwards. */
void shared_clear_head(struct shared_lines *shared, uint32_t line, uint64_t now_ns);

/* Serves those of our own that are the first, and whose time has come. The line may be gone. */
void shared_serve(struct shared_lines *shared, uint32_t line, uint64_t now_ns);

/* When one of ours who stands behind others looks whether the first one has taken its turn: UINT64_MAX if
 * somebody else does. */
uint64_t shared_look_at(struct shared_lines *shared, uint32_t ticket, uint64_t now_ns);

/* Where the bucket of a line stands. */
struct outcome shared_look(struct shared_lines *shared, uint32_t line, uint64_t now_ns);

/* When a charge fits behind all who are there, where the bucket stands at this moment. */
uint64_t shared_fits_behind_at(const struct shared_lines *shared, uint32_t line,
                               const struct charge *charge, struct span moment, uint64_t now_ns);

/* After which time a take that does not wait would pass, behind all who are there; and where the bucket
 * stands. */
uint64_t shared_pass_after(struct shared_lines *shared, uint32_t line, const struct charge *charge,
                           struct outcome *outcome, uint64_t now_ns);

/* When a charge fits that goes before everybody, into a bucket that stands at this moment. */
uint64_t shared_head_fits_at(struct shared_lines *shared, const struct weir_limit *limit,
                             uint64_t id, const struct charge *charge, struct span moment,
                             uint64_t now_ns);

/* In a queue: where the first one's egress is, and everybody's again where a death left them in between. */
uint64_t shared_egress_at(const struct shared_lines *shared, uint32_t ticket);
void shared_straighten(struct shared_lines *shared, uint32_t line, uint64_t now_ns);

/* Asks the store about the line's bucket, as the terms say. */
struct outcome shared_decide(struct shared_lines *shared, const struct shared_line *line,
                             enum weir_operation operation, uint64_t cost_micro,
                             struct line_terms terms, uint64_t now_ns);

/* Takes the mark from a bucket, whatever its limit. */
void shared_unmark(struct shared_lines *shared, uint64_t id, uint64_t now_ns);

/* ---- shared_watch.c ---- */

/* Sees to it that the attendant looks whether the process is alive that stands directly before this ticket of ours.
 * The dead before it are out of its way afterwards. */
void shared_renew_watch(struct shared_lines *shared, uint32_t ticket, uint64_t now_ns);
void shared_unwatch(struct shared_lines *shared, uint32_t ticket);

/* ---- shared_join.c ---- */

/* As lines_join() for one request, under the lock of the lines, which it may release meanwhile. */
bool shared_join(struct shared_lines *shared, const struct joining *joining);

/* Our process has gone on after this ticket was passed over: it comes again, behind all. */
void shared_join_again(struct shared_lines *shared, uint32_t ticket, uint64_t now_ns);

/* What is between somebody and his turn in this line (0: nobody stands there), where the bucket stands so and
 * refuses him; whether there is a place in which he could wait for it. */
struct shortage shared_shortage(struct shared_lines *shared, const struct joining *joining,
                                uint32_t line, struct outcome outcome, bool has_place);

/* ---- shared_together.c ---- */

/* As lines_join() for a run of 2 .. WEIR_TOGETHER_MAX, under the lock of the lines, which it may release
 * meanwhile. */
bool shared_run_join(struct shared_lines *shared, struct waiter *owner,
                     const struct weir_request *requests, size_t count, uint64_t wait_ns,
                     uint64_t now_ns, struct weir_decision *decisions);

/* One of its tickets is the first in a line that is not a queue's: false if it is not its turn, and the line
 * has to wait. */
bool shared_run_serve(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns);

/* A queue has let this ticket of it go; or its first one has to be looked at again then. */
void shared_run_note_egress(struct shared_lines *shared, uint32_t ticket, uint64_t now_ns);
void shared_run_schedule(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns);

/* Whether this is the first of its tickets. */
bool shared_run_begins_at(const struct waiter *owner, uint32_t ticket);

/* Its tickets were given away while its room was left: takes others, and it joins again as soon as it is looked
 * at. False if there are not so many. */
bool shared_run_return(struct shared_lines *shared, struct waiter *owner);

/* Answers that nothing can be decided, or as on_error says if the store is out of reach, and forgets its tickets. */
void shared_run_fail(struct shared_lines *shared, struct waiter *owner);

/* As shared_attend() and shared_leave(), for all of its tickets. */
void shared_run_attend(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns);
bool shared_run_leave(struct shared_lines *shared, struct waiter *owner, uint64_t now_ns);

/* ---- shared_lines.c ---- */

/* What lines.h offers, for lines that processes share. Calling is under the lock of the lines. */
bool shared_leave(struct shared_lines *shared, struct waiter *waiter, uint64_t now_ns);
void shared_call(struct shared_lines *shared, struct waiter *waiter, uint64_t now_ns);

/* Those lines in the waiting room of this store. NULL if there is no memory. */
struct shared_lines *shared_open(struct lines *lines, struct store *store, bool is_caller_clock);
void shared_close(struct shared_lines *shared);

/* Those who stand in the line of this bucket look anew. Under the lock of the lines. */
void shared_tell(struct shared_lines *shared, uint64_t id, uint64_t now_ns);

/* Whether no place is lost. Under the lock of the lines. */
bool shared_valid(struct shared_lines *shared);

/* Adds what the room says. */
void shared_read_stats(const struct shared_lines *shared, struct lines_stats *stats);

/* In the child of a fork nobody waits yet, and no attendant came along. Before the lock of the lines. */
void shared_begin_here(struct shared_lines *shared);

/* A ticket of ours was called, or its time has come. */
void shared_attend(struct shared_lines *shared, uint32_t ticket, uint64_t now_ns);

/* The line of this bucket, after all have gone whose time has come: ours, the dead, and who is stopped. */
uint32_t shared_find_ready(struct shared_lines *shared, uint64_t id, uint64_t now_ns);

/* Those who stand in the line of this bucket look anew. */
void shared_call_line(struct shared_lines *shared, uint64_t id, uint64_t now_ns);

/* Somebody was refused: his key is locked out, if the limit says so, and he is told to come back after that;
 * and those in its line are told. */
void shared_block_refused(struct shared_lines *shared, uint64_t id, const struct weir_rule *rule,
                          struct weir_decision *decision, uint64_t now_ns);

/* When a take passes behind all who are there, whether anybody is or not. */
uint64_t shared_pass_anyway_after(struct shared_lines *shared, uint64_t id,
                                  const struct weir_rule *rule, uint64_t cost_micro,
                                  struct outcome *outcome, uint64_t now_ns);

/* The deadline of a ticket of ours is here: it is answered. */
void shared_send_away(struct shared_lines *shared, uint32_t ticket, uint64_t now_ns);

/* It stands there no more, and this is why. */
void shared_answer(struct shared_lines *shared, uint32_t ticket,
                   const struct weir_decision *decision);

/* ---- shared_attendant.c ---- */

/* Sees to it that somebody stands for this process. False if there is no thread or no standing for it. Under
 * the lock of the lines, which it may release meanwhile. */
bool attendant_begin(struct shared_lines *shared);

/* No longer: nobody waits. */
void attendant_end(struct shared_lines *shared);

/* It has something else to listen to. Under the lock of the lines. */
void attendant_call(struct shared_lines *shared);

#endif
