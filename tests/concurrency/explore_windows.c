/* SPDX-License-Identifier: MIT
 *
 * There are no windows in the explorer's world: what is asked about one is asked under the stripe's lock, and
 * their events lie elsewhere. */
#include <assert.h>
#include <stdlib.h>

#include "store/table/run.h"

uint64_t event_pool_used_count(const struct event_pool *pool)
{
    (void)pool;
    return 0;
}

uint64_t event_pool_full_count(const struct event_pool *pool)
{
    (void)pool;
    return 0;
}

void table_free_events(struct table *of, uint64_t tag, struct weir_bucket state)
{
    (void)of, (void)tag, (void)state;
    assert((state.word & BUCKET_LOG) == 0);
}

void table_decide_window(struct table *of, const struct weir_request *request, uint64_t hash,
                         uint64_t now_ns, struct weir_decision *decision)
{
    (void)of, (void)request, (void)hash, (void)now_ns, (void)decision;
    abort();
}

struct span table_window_moment(struct table *of, const struct weir_request *request, uint64_t hash,
                                uint64_t now_ns)
{
    (void)of, (void)request, (void)hash, (void)now_ns;
    abort();
}

void table_visit_drain(struct store *store, const struct weir_limit *limit, uint64_t id,
                       struct drain_visitor *visitor, uint64_t now_ns)
{
    (void)store, (void)limit, (void)id, (void)visitor, (void)now_ns;
    abort();
}

struct outcome table_decide_window_in_line(struct table *of, const struct weir_request *request,
                                           uint64_t hash, const struct line_terms *terms,
                                           uint64_t now_ns)
{
    (void)of, (void)request, (void)hash, (void)terms, (void)now_ns;
    abort();
}

void event_pool_count_full(struct event_pool *pool)
{
    (void)pool;
    abort();
}

bool run_read_log(struct run *run, const struct member *member)
{
    (void)run, (void)member;
    abort();
}

struct outcome run_judge_window(struct run *run, const struct member *member)
{
    (void)run, (void)member;
    abort();
}

struct span run_window_moment(const struct run *run, const struct member *member)
{
    (void)run, (void)member;
    abort();
}

bool run_write_event(struct run *run, struct member *member)
{
    (void)run, (void)member;
    abort();
}

void run_give_back(struct run *run)
{
    (void)run;
    abort();
}

void run_drop_events(struct run *run, const struct member *member)
{
    (void)run, (void)member;
    abort();
}

bool run_find_chunks(struct run *run)
{
    (void)run;
    abort();
}
