/* SPDX-License-Identifier: MIT
 *
 * One line: the bin in which it is found by its bucket's id, and the list of those who stand in it. */
#include "limiter/lines/line.h"

#include <assert.h>
#include <stdlib.h>

/* ---- finding a line ---- */

static struct line **bin_of(const struct lines *lines, uint64_t id)
{
    return &lines->bins[(id >> 32) & (lines->bin_count - 1)]; // bits of a keyed hash
}

struct line *line_find(const struct lines *lines, uint64_t id)
{
    struct line *line = *bin_of(lines, id);
    while (line != NULL && line->id != id) {
        line = line->next_in_bin;
    }
    return line;
}

static void put_in_bin(struct lines *lines, struct line *line)
{
    struct line **bin = bin_of(lines, line->id);
    line->next_in_bin = *bin;
    *bin = line;
}

/* Doubles the bins. Without memory the chains just become longer. */
static void grow_bins(struct lines *lines)
{
    struct line **old = lines->bins;
    size_t old_count = lines->bin_count;
    struct line **bins = calloc(2 * old_count, sizeof(struct line *));
    if (bins == NULL) {
        return;
    }
    lines->bins = bins;
    lines->bin_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        while (old[i] != NULL) {
            struct line *line = old[i];
            old[i] = line->next_in_bin;
            put_in_bin(lines, line);
        }
    }
    free(old);
}

/* Sees to it that so many lines can be opened. */
bool line_has_spares(struct lines *lines, size_t count)
{
    struct line **at = &lines->spares;
    for (; count > 0; count--, at = &(*at)->next_in_bin) {
        if (*at == NULL) {
            *at = calloc(1, sizeof **at);
        }
        if (*at == NULL) {
            return false;
        }
    }
    return true;
}

struct line *line_open(struct lines *lines, const struct weir_rule *rule, uint64_t id)
{
    struct line *line = lines->spares;
    assert(line != NULL);
    lines->spares = line->next_in_bin;
    *line = (struct line){.id = id, .kind = line_kind_of(&rule->limit), .rule = *rule};
    put_in_bin(lines, line);
    if (++lines->stats.line_count > lines->bin_count) {
        grow_bins(lines);
    }
    return line;
}

void line_close(struct lines *lines, struct line *line)
{
    assert(line->first == NULL && line->count == 0);
    struct line **at = bin_of(lines, line->id);
    while (*at != line) {
        at = &(*at)->next_in_bin;
    }
    *at = line->next_in_bin;
    lines->stats.line_count--;
    if (lines->spares == NULL) {
        lines->spares = line;
        line->next_in_bin = NULL;
    } else {
        free(line);
    }
}

/* ---- standing in it ---- */

/* How much is still in the bucket, as time, when such a cost fits into it. */
static struct span rest_beside(const struct line *line, struct span span)
{
    return span_sub_or_zero(limit_full(limit_of(line)), span, limit_of(line)->denominator);
}

static bool is_whole(const struct line *line, struct span span)
{
    struct span rest = rest_beside(line, span);
    return (rest.ns | rest.rest) == 0;
}

/* Where moments are whole nanoseconds, nobody is late by a part of one. */
static bool is_tight(const struct line *line, struct span span)
{
    return limit_of(line)->denominator > 1 && rest_beside(line, span).ns == 0;
}

/* Links him in behind all who came before him: that is at the end, but for who waits under several limits
 * and was refused by this one only when it was his turn at the others. */
static void link_in(struct line *line, struct waiter *waiter)
{
    waiter->previous = line->last;
    while (waiter->previous != NULL && waiter->previous->turn > waiter->turn) {
        waiter->previous = waiter->previous->previous;
    }
    waiter->next = waiter->previous != NULL ? waiter->previous->next : line->first;
    *(waiter->previous != NULL ? &waiter->previous->next : &line->first) = waiter;
    *(waiter->next != NULL ? &waiter->next->previous : &line->last) = waiter;
}

/* Counts what he adds in a line where nobody is charged yet. */
static void add_ahead(struct line *line, struct span span)
{
    if (limit_of(line)->kind != WEIR_KIND_QUEUE) {
        line->whole_count += is_whole(line, span);
        line->tight_count += is_tight(line, span);
        line->ahead = span_add(line->ahead, span, limit_of(line)->denominator);
    }
}

static void take_from_ahead(struct line *line, struct span span)
{
    if (limit_of(line)->kind != WEIR_KIND_QUEUE) {
        line->whole_count -= is_whole(line, span);
        line->tight_count -= is_tight(line, span);
        line->ahead = span_sub(line->ahead, span, limit_of(line)->denominator);
    }
}

void line_append(struct lines *lines, struct line *line, struct waiter *waiter)
{
    waiter->line = line;
    link_in(line, waiter);
    line->count++;
    add_ahead(line, waiter->span);
    lines->stats.waiting_count += waiter->together == NULL || together_enters(waiter->together);
}

void line_unlink(struct lines *lines, struct waiter *waiter)
{
    struct line *line = waiter->line;
    *(waiter->previous != NULL ? &waiter->previous->next : &line->first) = waiter->next;
    *(waiter->next != NULL ? &waiter->next->previous : &line->last) = waiter->previous;
    line->count--;
    take_from_ahead(line, waiter->span);
    lines->stats.waiting_count -= waiter->together == NULL || together_leaves(waiter->together);
    waiter->line = NULL;
}

struct outcome line_decide(struct lines *lines, const struct line *line,
                           enum weir_operation operation, uint64_t cost_micro,
                           struct line_terms terms, uint64_t now_ns)
{
    struct weir_request request = {
        .rule = &line->rule, .cost_micro = cost_micro, .operation = operation};
    return lines->store->ops->lines->decide_in_line(lines->store, &request, line->id, &terms,
                                                    now_ns);
}

/* Where the bucket stands; it stays marked while somebody waits. */
struct outcome line_look(struct lines *lines, const struct line *line, uint64_t now_ns)
{
    bool stays = line->first != NULL;
    return line_decide(lines, line, WEIR_SHOW, 0, (struct line_terms){0, stays, stays}, now_ns);
}

void line_answer_given_back(struct weir_decision *decision, const struct weir_request *request,
                            const struct weir_limit *limit, struct span given,
                            struct outcome outcome, uint64_t now_ns)
{
    kind_answer(decision, limit, outcome, now_ns);
    if (request->detail != NULL) {
        *request->detail = (struct weir_detail){.existed = (given.ns | given.rest) != 0};
    }
}

void line_refuse(struct weir_decision *decision, const struct weir_limit *limit,
                 struct outcome outcome, uint64_t retry_after_ns, uint64_t now_ns)
{
    outcome.verdict = WEIR_LIMITED;
    kind_answer(decision, limit, outcome, now_ns);
    decision->retry_after_ns = (int64_t)(retry_after_ns > 0 ? retry_after_ns : 1);
}
