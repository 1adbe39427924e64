/* SPDX-License-Identifier: MIT
 *
 * A line as one would draw it on paper: a list of people who stand before a bucket, each with its own times as
 * exact rationals, walked from one event to the next. Everybody is told once. */
#ifndef WEIR_TESTS_LINE_ON_PAPER_H
#define WEIR_TESTS_LINE_ON_PAPER_H

#include <string.h>

#include "bucket_on_paper.h"
#include "weir/decision.h"

enum { PAPER_PLACES_MAX = 64 };

/* One who stands there. Moments and spans in D-ths of a nanosecond; spans of what is no meter in millionths.
 *   begin  of a queue: where its own time begins. It ends a span later */
struct place {
    int number; // of the person
    int128 begin, span;
    uint64_t deadline_ns;
};

struct line_on_paper {
    struct bucket_on_paper bucket;
    bool is_queue, is_first_now;
    int count;
    uint64_t gone_ns; // of a queue: when the last one went whom others stood behind
    struct place places[PAPER_PLACES_MAX];
    bool has_expired; // somebody has, lately
};

/* What the paper says of a person.
 *   is_enough  the retry is enough, and need not be minimal */
struct told {
    bool is_told;
    enum weir_verdict verdict;
    uint64_t at_ns;
    uint64_t retry_ns;
    bool is_enough;
};

/* In all that follows `all` is what each has been told, or NULL in a walk that only looks ahead. */

static inline int128 egress_of(const struct line_on_paper *line, const struct place *place)
{
    return line->is_first_now ? place->begin : place->begin + place->span;
}

static inline int128 egress_ns(const struct line_on_paper *line, const struct place *place)
{
    return ceil_ns(&line->bucket, egress_of(line, place));
}

static inline void strike(struct line_on_paper *line, int i)
{
    line->count--;
    memmove(&line->places[i], &line->places[i + 1],
            (size_t)(line->count - i) * sizeof line->places[0]);
}

static inline void tell(struct told *all, int number, enum weir_verdict verdict, uint64_t at_ns)
{
    if (all != NULL) {
        assert_false(all[number].is_told);
        all[number] = (struct told){.is_told = true, .verdict = verdict, .at_ns = at_ns};
    }
}

static inline void expire_place(struct line_on_paper *line, int i, uint64_t now_ns,
                                struct told *all);

/* Serves all whose time has come. */
static inline void settle(struct line_on_paper *line, uint64_t now_ns, struct told *all)
{
    while (line->count > 0) {
        struct place *first = &line->places[0];
        int128 now = parts_of(&line->bucket, now_ns);
        if (!line->is_queue && paper_fits(&line->bucket, first->span, now_ns)) {
            paper_charge(&line->bucket, first->span, now_ns);
        } else if (!line->is_queue && now_ns >= first->deadline_ns) {
            expire_place(line, 0, now_ns, all);
            continue;
        } else if (!line->is_queue || egress_of(line, first) > now) {
            return;
        } else if (now_ns - (uint64_t)egress_ns(line, first) > WEIR_JITTER_NS) {
            int128 late = now - egress_of(line, first);
            line->bucket.moment += late;
            for (int i = 0; i < line->count; i++) {
                line->places[i].begin += late;
            }
        }
        if (line->is_queue) {
            line->gone_ns = (uint64_t)egress_ns(line, first);
        }
        tell(all, first->number, WEIR_ALLOWED, now_ns);
        strike(line, 0);
    }
}

/* Takes somebody out; those behind move up. */
static inline void take_out(struct line_on_paper *line, int i, uint64_t now_ns)
{
    int128 span = line->places[i].span;
    int128 now = parts_of(&line->bucket, now_ns);
    strike(line, i);
    if (!line->is_queue) {
        return;
    }
    for (int j = i; j < line->count; j++) {
        line->places[j].begin -= span;
    }
    int128 later = 0;
    if (i == 0 && line->count > 0) { // the next one goes now at the earliest
        later = later_of(0, now - egress_of(line, &line->places[0]));
    }
    for (int j = 0; j < line->count; j++) {
        line->places[j].begin += later;
    }
    line->bucket.moment = later_of(line->bucket.moment - span + later, now);
}

/* The next instant at which something happens by itself. */
static inline uint64_t next_event(const struct line_on_paper *line)
{
    int128 next = INT64_MAX;
    for (int i = 0; i < line->count; i++) {
        next = line->places[i].deadline_ns < next ? (int128)line->places[i].deadline_ns : next;
    }
    if (line->count > 0) {
        const struct place *first = &line->places[0];
        int128 due_ns =
            line->is_queue ? egress_ns(line, first) : paper_due(&line->bucket, first->span);
        next = due_ns < next ? due_ns : next;
    }
    return (uint64_t)next;
}

/* Serves, and sends away whose deadline is here, in the order of the deadlines. */
static inline void look(struct line_on_paper *line, uint64_t now_ns, struct told *all)
{
    settle(line, now_ns, all);
    for (;;) {
        int first = -1;
        for (int i = 0; i < line->count; i++) {
            uint64_t deadline_ns = line->places[i].deadline_ns;
            bool is_due = deadline_ns <= now_ns;
            if (is_due && (first < 0 || deadline_ns < line->places[first].deadline_ns)) {
                first = i;
            }
        }
        if (first < 0) {
            return;
        }
        expire_place(line, first, now_ns, all);
        settle(line, now_ns, all);
    }
}

static inline void advance(struct line_on_paper *line, uint64_t now_ns, uint64_t then_ns,
                           struct told *all)
{
    uint64_t next_ns;
    while ((next_ns = next_event(line)) <= then_ns) {
        now_ns = next_ns > now_ns ? next_ns : now_ns;
        look(line, now_ns, all);
    }
}

/* After which time somebody who does not wait would pass: found by waiting for it. */
static inline uint64_t pass_after(const struct line_on_paper *line, int128 span, uint64_t now_ns,
                                  bool *is_enough)
{
    struct line_on_paper ahead = *line;
    uint64_t then_ns = now_ns;
    ahead.has_expired = false;
    settle(&ahead, now_ns, NULL);
    while (ahead.count > 0) {
        uint64_t next_ns = next_event(&ahead);
        then_ns = next_ns > then_ns ? next_ns : then_ns;
        look(&ahead, then_ns, NULL);
    }
    int128 fits_ns = paper_due(&ahead.bucket, span);
    then_ns = fits_ns > then_ns ? (uint64_t)fits_ns : then_ns;
    *is_enough = ahead.has_expired;
    return then_ns - now_ns;
}

static inline void expire_place(struct line_on_paper *line, int i, uint64_t now_ns,
                                struct told *all)
{
    struct place place = line->places[i];
    take_out(line, i, now_ns);
    line->has_expired = true;
    if (all != NULL) {
        bool is_enough;
        uint64_t retry_ns = pass_after(line, place.span, now_ns, &is_enough);
        tell(all, place.number, WEIR_LIMITED, now_ns);
        all[place.number].retry_ns = retry_ns > 0 ? retry_ns : 1;
        all[place.number].is_enough = is_enough;
    }
}

static inline bool take_on_paper(struct line_on_paper *line, int128 span, uint64_t now_ns,
                                 struct told *all)
{
    settle(line, now_ns, all);
    bool passes = line->count == 0 && paper_fits(&line->bucket, span, now_ns);
    if (passes) {
        paper_charge(&line->bucket, span, now_ns);
    }
    return passes;
}

enum joined { REFUSED, SERVED, STANDS, NEVER };

/* When a take fits into a bucket, behind all who wait for it: each at a reading, as soon as it fits. */
static inline int128 due_behind(const struct line_on_paper *line, int128 span)
{
    struct bucket_on_paper ahead = line->bucket;
    int128 at_ns = 0;
    for (int i = 0; i < line->count; i++) {
        at_ns = later_of(at_ns, paper_due(&ahead, line->places[i].span));
        paper_charge(&ahead, line->places[i].span, (uint64_t)at_ns);
    }
    return later_of(at_ns, paper_due(&ahead, span));
}

static inline enum joined join_bucket(struct line_on_paper *line, struct place place,
                                      bool has_place, uint64_t now_ns)
{
    if (line->count == 0 && paper_fits(&line->bucket, place.span, now_ns)) {
        paper_charge(&line->bucket, place.span, now_ns);
        return SERVED;
    }
    if (!has_place || due_behind(line, place.span) > (int128)place.deadline_ns) {
        return REFUSED;
    }
    line->places[line->count++] = place;
    return STANDS;
}

static inline enum joined join_queue(struct line_on_paper *line, struct place place, bool has_place,
                                     uint64_t now_ns)
{
    struct bucket_on_paper *bucket = &line->bucket;
    int128 now = parts_of(bucket, now_ns);
    int128 own = line->is_first_now ? 0 : place.span;
    place.begin = later_of(bucket->moment, now);
    if (now + own > parts_of(bucket, place.deadline_ns)) {
        return NEVER; // not even with nobody there
    }
    int128 due_ns = egress_ns(line, &place);
    int128 latest_ns = has_place ? (int128)place.deadline_ns : (int128)now_ns;
    if (place.begin + place.span > now + bucket->full || due_ns > latest_ns) {
        return REFUSED;
    }
    bucket->moment = place.begin + place.span;
    if (due_ns <= (int128)now_ns) {
        return SERVED;
    }
    line->gone_ns = line->count > 0 ? line->gone_ns : 0;
    line->places[line->count++] = place;
    return STANDS;
}

static inline enum joined join_on_paper(struct line_on_paper *line, struct place place, int waiting,
                                        uint64_t now_ns, struct told *all)
{
    settle(line, now_ns, all);
    bool has_place = line->count < waiting;
    return (line->is_queue ? join_queue : join_bucket)(line, place, has_place, now_ns);
}

static inline void fill_on_paper(struct line_on_paper *line, int128 span, uint64_t now_ns,
                                 struct told *all)
{
    settle(line, now_ns, all);
    paper_fill(&line->bucket, span, now_ns);
    settle(line, now_ns, all);
}

/* The places in a queue are nobody else's to give back. What is between them is, the latest first, and then
 * those behind move up. */
static inline void give_back_beside(struct line_on_paper *line, int128 most, uint64_t now_ns)
{
    uint64_t earliest_ns = now_ns > line->gone_ns ? now_ns : line->gone_ns;
    for (int i = line->count; i >= 0; i--) {
        int128 begin = i < line->count ? line->places[i].begin : line->bucket.moment;
        int128 before = i > 0 ? line->places[i - 1].begin + line->places[i - 1].span
                              : parts_of(&line->bucket, earliest_ns);
        int128 given = later_of(0, begin - before);
        given = given < most ? given : most;
        for (int j = i; j < line->count; j++) {
            line->places[j].begin -= given;
        }
        line->bucket.moment -= given;
        most -= given;
    }
}

static inline void refund_on_paper(struct line_on_paper *line, int128 span, uint64_t now_ns,
                                   struct told *all)
{
    settle(line, now_ns, all);
    if (!line->is_queue || line->count == 0) {
        paper_refund(&line->bucket, span, now_ns);
    } else {
        give_back_beside(line, span, now_ns);
    }
    settle(line, now_ns, all);
}

static inline void reset_on_paper(struct line_on_paper *line, uint64_t now_ns, struct told *all)
{
    settle(line, now_ns, all);
    if (!line->is_queue || line->count == 0) {
        paper_reset(&line->bucket, now_ns);
    } else {
        give_back_beside(line, line->bucket.moment, now_ns);
    }
    settle(line, now_ns, all);
}

static inline void leave_on_paper(struct line_on_paper *line, int number, uint64_t now_ns,
                                  struct told *all)
{
    if (line->count > 0 && line->places[0].number != number) {
        settle(line, now_ns, all); // whoever is due goes first
    }
    for (int i = 0; i < line->count; i++) {
        if (line->places[i].number == number) {
            take_out(line, i, now_ns);
            settle(line, now_ns, all);
            return;
        }
    }
}

#endif
