/* SPDX-License-Identifier: MIT
 *
 * Windows as members of a run (together.c). What such a member holds is not in its state but in a log, which
 * stands still only while its stripe is locked; so all stripes of the run are, and each of its members is
 * marked, as it is where the last one cannot go without a lock. A window's take then has three steps:
 *
 *     judge   read the log, and see whether the cost fits
 *     write   the event, behind the newest one, where nobody reads; perhaps in a new chunk
 *     swap    the state, in the swap that takes its mark away; from then on it counts
 *
 * All windows of the run have written before the first state of it is swapped, for that is the step at which
 * the pool may turn out to be exhausted. Then what was taken is given back, all locks and marks are
 * let go, and whoever can find a chunk begins again.
 *
 * Killed before the first swap: nothing has been charged, and what was written nobody sees. A chunk that was
 * taken names its key and is in no log, so the sweep gives it back (table_sweep_events()). */
#include <assert.h>

#include "store/table/run.h"

static struct run_window *window_of(struct run *run, const struct member *member)
{
    return &run->windows[member - run->members];
}

/* ---- judging ---- */

bool run_read_log(struct run *run, const struct member *member)
{
    struct run_window *window = window_of(run, member);
    struct weir_bucket state = member->found.seen;
    state.word &= ~BUCKET_MARKED; // which is ours
    window->taken_id = 0;
    if (window_log_open(&window->log, &run->table->events, member->hash, state)
        && window_log_look(&window->log, limit_of(member), run->now_ns, &window->view)) {
        return true;
    }
    (void)table_commit(&member->found, window_state_empty(member->found.seen, run->now_ns));
    return false;
}

struct outcome run_judge_window(struct run *run, const struct member *member)
{
    struct run_window *window = window_of(run, member);
    return window_log_take(&window->log, limit_of(member), &window->view, &member->charge,
                           &window->fits_at_ns);
}

struct span run_window_moment(const struct run *run, const struct member *member)
{
    const struct window_view *view = &run->windows[member - run->members].view;
    return (struct span){view->empty_at_ns, view->level};
}

/* ---- writing ---- */

/* A log whose events have left, but could count again, begins anew. */
static void begin_anew(struct run_window *window, struct member *member)
{
    struct found marked = member->found;
    marked.seen.word |= BUCKET_MARKED;
    struct weir_bucket empty = window_state_empty(marked.seen, window->view.now_ns);
    bool done = table_commit(&marked, empty);
    assert(done); // whoever else comes here waits
    (void)done;
    window_log_free(&window->log);
    empty.word &= ~BUCKET_MARKED;
    member->found.seen = empty;
    bool is_whole = window_log_open(&window->log, window->log.pool, member->hash, empty);
    assert(is_whole); // there is nothing in it
    (void)is_whole;
}

bool run_write_event(struct run *run, struct member *member)
{
    struct run_window *window = window_of(run, member);
    const struct weir_limit *limit = limit_of(member);
    assert(member->is_marked && member->outcome.verdict == WEIR_ALLOWED);
    if (window_log_is_worn_out(&window->log, limit, &window->view)) {
        begin_anew(window, member);
    }
    return window_log_add(&window->log, limit, &window->view, member->charge.cost_micro / WEIR_UNIT,
                          &window->next, &window->taken_id);
}

void run_give_back(struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        if (is_window(&run->members[i]) && run->windows[i].taken_id != 0) {
            event_pool_give(&run->table->events, run->windows[i].taken_id);
            run->windows[i].taken_id = 0;
        }
    }
}

void run_drop_events(struct run *run, const struct member *member)
{
    struct run_window *window = window_of(run, member);
    uint64_t cost = member->charge.cost_micro / WEIR_UNIT;
    window_log_added(&window->log, &window->view, cost, window->next);
    window_log_drop(&window->log, limit_of(member), window->view.now_ns);
}

/* ---- a pool that is exhausted ---- */

/* A sweep may have come by no chunks but those that are free already, and are too few. They are fewer than
 * the run has windows, and each sweep looks at others. */
bool run_find_chunks(struct run *run)
{
    struct table *table = run->table;
    uint64_t used_count = event_pool_used_count(&table->events);
    bool has_found = true;
    for (size_t i = 0; i < run->count && has_found; i++) {
        has_found = table_sweep_events(table, run->now_ns);
        if (event_pool_used_count(&table->events) < used_count) {
            return true;
        }
    }
    return false;
}
