/* SPDX-License-Identifier: MIT
 *
 * What the chapters on lines share; nobody else includes it.
 *
 *   lines.c          joining, leaving, and meeting a line: what lines.h offers
 *   line.c           one line: who stands in it, and in which bin it is found
 *   line_bucket.c    the line of a bucket, and of all kinds but a queue: nobody is charged before his turn
 *   line_queue.c     a queue's: everybody is charged at once, and goes at his egress
 *   line_together.c  standing in several lines for one take */
#ifndef WEIR_LIMITER_LINES_LINE_H
#define WEIR_LIMITER_LINES_LINE_H

#include "core/kinds.h"
#include "limiter/lines/lines.h"
#include "sync/mutex.h"

struct line_kind;
struct shared_lines;

/* All who wait for one bucket. Where nobody is charged before his turn:
 *   ahead        what they all add to the moment
 *   whole_count  how many of them ask for all of the bucket
 *   tight_count  and how many for so much that it is empty, within a nanosecond, when they fit
 * In a queue, where all are charged:
 *   start        the moment at which the first one's own time begins
 *   tail         and the moment at which the last one's ends
 *   gone_ns      when the one went who was the first before; 0: nobody has gone yet */
struct line {
    struct line *next_in_bin;
    uint64_t id;
    const struct line_kind *kind;
    struct weir_rule rule;
    struct waiter *first, *last;
    size_t count;
    union {
        struct {
            struct span ahead;
            size_t whole_count, tight_count;
        };
        struct {
            struct span start, tail;
            uint64_t gone_ns;
        };
    };
};

/* Who waits, and alone, needs no more memory than this; a server has its own part beside it. */
_Static_assert(sizeof(struct waiter) + sizeof(struct line) <= 336, "a place in line is small");

/* All lines of a limiter. */
struct lines {
    struct line_keeper keeper; // first: the store hands it back
    struct mutex mutex;        // of everything below, and of every waiter
    struct store *store;
    struct line **bins; // by id
    size_t bin_count;
    struct line *spares; // so that nobody allocates who does not wait in the end
    struct line *served; // whoever is looking at it closes it
    uint64_t served_at_ns;
    uint64_t turns; // who has come so far
    uint64_t waiting_max;
    struct lines_stats stats;
    struct shared_lines *shared; // NULL: the lines are all here
};

/* What joining is about. */
struct joining {
    struct waiter *waiter;
    const struct weir_request *request;
    uint64_t id;
    struct charge charge;
    uint32_t waiting; // how many may wait, as this request has it
    uint64_t wait_ns, now_ns;
    struct weir_decision *decision;
};

/* Why somebody cannot join: how long it takes to his turn, and after which time there is a place in which
 * he could wait for it; 0: now. */
struct shortage {
    uint64_t needed_ns, place_ns;
};

/* What is different by kind of limit. `line` may be NULL in join(): nobody waits yet. */
struct line_kind {
    bool (*join)(struct lines *lines, struct line *line, const struct joining *joining);
    /* Serves all whose time has come, then says when to look again. The line may be empty afterwards. */
    void (*serve)(struct lines *lines, struct line *line, uint64_t now_ns);
    /* Takes one out; those behind move up. The line may be empty afterwards. */
    void (*give_back)(struct lines *lines, struct waiter *waiter, uint64_t now_ns);
    /* After which time a take that does not wait would pass, behind all who are there; and where the
     * bucket stands. */
    uint64_t (*pass_after)(struct lines *lines, const struct line *line,
                           const struct charge *charge, struct outcome *outcome, uint64_t now_ns);
    /* What is between him and his turn, where the bucket stands so and refuses him. */
    struct shortage (*shortage)(struct lines *lines, const struct line *line,
                                const struct joining *joining, struct outcome outcome);
    /* Gives back up to so much of what is charged and is nobody's place, the latest first; those behind move
     * up. How much it was. NULL: nobody there is charged yet, so the store does it. */
    struct span (*give_back_beside)(struct lines *lines, struct line *line, struct span most,
                                    uint64_t now_ns);
};

extern const struct line_kind LINE_OF_BUCKET;
extern const struct line_kind LINE_OF_QUEUE;

static inline const struct weir_limit *limit_of(const struct line *line)
{
    return &line->rule.limit;
}

static inline const struct line_kind *line_kind_of(const struct weir_limit *limit)
{
    return limit->kind == WEIR_KIND_QUEUE ? &LINE_OF_QUEUE : &LINE_OF_BUCKET;
}

/* A limit that is asked about in a line that others may have opened: in the line's numbers, for everything in it
 * is counted in these. Policy words are no part of a bucket, and stay those that were asked with. */
static inline struct weir_rule rule_in_line(const struct weir_rule *asked,
                                            const struct weir_rule *line)
{
    struct weir_rule rule = *line;
    rule.limit.waiting = asked->limit.waiting;
    rule.limit.on_full = asked->limit.on_full;
    rule.limit.on_error = asked->limit.on_error;
    rule.limit.block_ns = asked->limit.block_ns;
    return rule;
}

static inline uint64_t ns_until(uint64_t then_ns, uint64_t now_ns)
{
    return then_ns > now_ns ? then_ns - now_ns : 0;
}

/* How much a refund or a reset would give back, if so much is there. */
static inline struct span span_to_give_back(const struct weir_limit *limit,
                                            const struct weir_request *request)
{
    struct span all = {UINT64_MAX, 0};
    uint128 parts = (uint128)request->cost_micro * limit->scale;
    bool is_all = request->operation == WEIR_RESET || parts / limit->denominator >= all.ns;
    return is_all ? all : span_of_cost(limit, request->cost_micro);
}

/* Takes up to *most from a span, and that from *most. What is left of the span. */
static inline struct span span_give_back(struct span span, struct span *most, uint64_t denominator)
{
    struct span given = span_less(*most, span) ? *most : span;
    *most = span_sub(*most, given, denominator);
    return span_sub(span, given, denominator);
}

/* The earliest reading at which `after`, the moment that a take would lead to, is within the capacity. */
static inline uint64_t fits_at(const struct weir_limit *limit, struct span after)
{
    return span_ceil_ns(span_sub_or_zero(after, limit_full(limit), limit->denominator));
}

/* ---- line.c ---- */

/* The line of the bucket with this id, or NULL. */
struct line *line_find(const struct lines *lines, uint64_t id);

/* Whether there is memory for so many lines more; if so, line_open() has it. */
bool line_has_spares(struct lines *lines, size_t count);
struct line *line_open(struct lines *lines, const struct weir_rule *rule, uint64_t id);

/* The line is empty. */
void line_close(struct lines *lines, struct line *line);

/* One more, behind all who came before him; one less, wherever he stands. */
void line_append(struct lines *lines, struct line *line, struct waiter *waiter);
void line_unlink(struct lines *lines, struct waiter *waiter);

/* Asks the store about the line's bucket, as the terms say. */
struct outcome line_decide(struct lines *lines, const struct line *line,
                           enum weir_operation operation, uint64_t cost_micro,
                           struct line_terms terms, uint64_t now_ns);

/* Where the bucket stands; it stays marked while somebody waits. */
struct outcome line_look(struct lines *lines, const struct line *line, uint64_t now_ns);

/* Writes what a refund or a reset says that gave back so much; the bucket was looked at afterwards. */
void line_answer_given_back(struct weir_decision *decision, const struct weir_request *request,
                            const struct weir_limit *limit, struct span given,
                            struct outcome outcome, uint64_t now_ns);

/* Writes a refusal. */
void line_refuse(struct weir_decision *decision, const struct weir_limit *limit,
                 struct outcome outcome, uint64_t retry_after_ns, uint64_t now_ns);

/* ---- line_window.c ---- */

/* One who stands in the line of a window.
 *   served_at_ns  for when his turn is foreseen to be
 *   next          who stands behind him; 0: nobody */
struct window_place {
    uint64_t cost_micro;
    uint64_t *served_at_ns;
    uintptr_t next;
};

/* Such a line, wherever it is kept, from its first one on; 0: nobody stands there. */
struct window_line {
    struct window_place (*read)(const struct window_line *line, uintptr_t at);
    const void *lines;
    uintptr_t first;
};

/* When a charge fits into the window with this id behind all who stand in line, each of whom goes as soon
 * as he fits. */
uint64_t window_fits_behind_at(struct store *store, const struct weir_limit *limit, uint64_t id,
                               const struct window_line *line, const struct charge *charge,
                               uint64_t now_ns);

/* The same for those of this process, from `first` on. */
uint64_t line_window_fits_at(struct lines *lines, const struct weir_limit *limit, uint64_t id,
                             struct waiter *first, const struct charge *charge, uint64_t now_ns);

/* When one fits that goes before everybody, into a bucket that stands at this moment. */
static inline uint64_t line_head_fits_at(struct lines *lines, const struct weir_limit *limit,
                                         uint64_t id, const struct charge *charge,
                                         struct span moment, uint64_t now_ns)
{
    return kind_has_log(limit) ? line_window_fits_at(lines, limit, id, NULL, charge, now_ns)
                               : kind_fits_at(limit, moment, charge, now_ns);
}

/* ---- lines.c, for the kinds ---- */

/* His deadline is here: he is answered. To come again would be to come behind those who stay. */
void line_send_away(struct lines *lines, struct waiter *waiter, uint64_t now_ns);

/* His key is locked out, or a window has no room for his event: he is answered. */
void line_turn_out(struct lines *lines, struct waiter *waiter, struct outcome outcome,
                   uint64_t now_ns);

/* Somebody was refused: his key is locked out, if the limit says so, and he is told to come back after that.
 * Those in its line are not told yet. */
void line_block_refused(struct lines *lines, const struct weir_rule *rule, uint64_t id,
                        struct weir_decision *decision, uint64_t now_ns);

/* Writes an answer; a blocked key is told until when. */
void line_answer(const struct lines *lines, struct weir_decision *decision,
                 const struct weir_limit *limit, uint64_t id, struct outcome outcome,
                 uint64_t now_ns);

/* The same where the store may have had no room: then as the limit's on_full says; or was out of reach: then as its
 * on_error says. */
void line_answer_or_fail(const struct lines *lines, struct weir_decision *decision,
                         const struct weir_limit *limit, uint64_t id, struct outcome outcome,
                         uint64_t now_ns);

/* How joining ends. Refused: this wait is not enough, or there is no place. Waiting: true, and the head is
 * called at `due_ns`. Or as the outcome says. */
bool line_turn_away(struct lines *lines, const struct joining *joining, struct outcome outcome,
                    struct shortage shortage);
bool line_stand(struct lines *lines, struct line *line, const struct joining *joining,
                uint64_t due_ns);
bool line_say(struct lines *lines, const struct joining *joining, struct outcome outcome);

/* Whether there is a place, and memory for it; and if not, after which time there is one, where the first
 * one goes at `first_ns` and he himself could after `needed_ns`. */
bool line_has_place(struct lines *lines, const struct line *line, const struct joining *joining);
uint64_t line_place_after(const struct line *line, const struct joining *joining, uint64_t first_ns,
                          uint64_t needed_ns);

/* Decides the take that somebody joins with; or takes the mark from its bucket. */
struct outcome line_take(struct lines *lines, const struct joining *joining,
                         struct line_terms terms);
void line_unmark(struct lines *lines, const struct joining *joining);

/* Serves a line: all whose time has come. Closes it if it is empty afterwards. */
void line_serve(struct lines *lines, struct line *line, uint64_t now_ns);

/* ---- line_queue.c ---- */

/* True if not even an empty queue would let it go in time: no later try can end otherwise. */
bool line_is_in_vain(const struct joining *joining);

/* He was charged, and goes only at his egress: he stands in the line until then. `line` may be NULL. */
bool line_stand_in_queue(struct lines *lines, struct line *line, const struct joining *joining,
                         struct outcome outcome);

/* ---- line_together.c ---- */

/* As lines_join() for a run of 2 .. WEIR_TOGETHER_MAX, under the lock. */
bool together_join(struct lines *lines, struct waiter *owner, const struct weir_request *requests,
                   size_t count, uint64_t wait_ns, uint64_t now_ns,
                   struct weir_decision *decisions);

/* One of its members is the first in a line: false if it is not its turn, and the line has to wait. */
bool together_serve(struct lines *lines, struct together *together, uint64_t now_ns);

/* The time that it wanted to be called at has come. */
void together_call(struct lines *lines, struct together *together, uint64_t now_ns);

/* Gives its places back. False if it was answered before. */
bool together_leave(struct lines *lines, struct waiter *owner, uint64_t now_ns);

/* Counts its places: whether this is the first of them, or was the last. */
bool together_enters(struct together *together);
bool together_leaves(struct together *together);

#endif
