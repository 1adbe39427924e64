/* SPDX-License-Identifier: MIT */
#include "store/table/window_log.h"

#include "sync/atomic.h"

enum { END_SHIFT = 32 };

_Static_assert(CHUNK_EVENT_BYTES < 1 << (BUCKET_REST_BITS - END_SHIFT), "an end has eight bits");
_Static_assert(CHUNK_EVENT_BYTES + WINDOW_READ_BYTES <= CHUNK_BYTES, "events are read at once");

/* ---- chunks ---- */

/* A chunk of this key's, or NULL. */
static struct chunk *chunk_of(const struct window_log *log, uint32_t id)
{
    struct chunk *chunk = event_pool_chunk(log->pool, id);
    return chunk != NULL && load_acquire(&chunk->owner) == log->tag ? chunk : NULL;
}

/* Whether `a` comes before `b`: counts of a log that has no more than 2^31 in it. */
static bool is_less(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* What was let through up to the end of this chunk; NULL is the one behind the newest. */
static uint32_t before_of(const struct window_log *log, const struct chunk *next)
{
    return next != NULL ? next->before : log->total;
}

/* The chunk behind this one, if it is a later one and not beyond the newest. */
static const struct chunk *chunk_behind(const struct window_log *log, const struct chunk *chunk)
{
    const struct chunk *next = chunk != log->newest ? chunk_of(log, chunk->next) : NULL;
    bool follows = next != NULL && is_less(chunk->before, next->before)
                   && !is_less(log->newest->before, next->before);
    return follows ? next : NULL;
}

static struct window_cursor start_of(const struct chunk *chunk)
{
    return (struct window_cursor){
        .chunk = chunk, .before = chunk->before, .at_ns = chunk->first_ns};
}

/* Reads the event at the cursor, whether there is one or not. Inlined: most of a take's time goes by here. */
static inline __attribute__((always_inline)) uint64_t step(struct window_cursor *cursor)
{
    uint64_t gap_ns;
    uint64_t cost;
    cursor->at += window_read(&cursor->chunk->events[cursor->at], &gap_ns, &cost);
    cursor->at_ns += gap_ns;
    cursor->before += (uint32_t)cost;
    return cost;
}

/* ---- reading ---- */

bool window_log_open(struct window_log *log, struct event_pool *pool, uint64_t tag,
                     struct weir_bucket state)
{
    uint64_t rest = state.word & BUCKET_REST_MASK;
    *log = (struct window_log){.pool = pool, .tag = tag, .state = state};
    log->since_ns = state.empty_at_ns;
    if ((state.word & BUCKET_LOG) == 0) {
        return true;
    }
    log->newest_id = (uint32_t)rest;
    log->end = (uint32_t)(rest >> END_SHIFT);
    struct chunk *newest = chunk_of(log, log->newest_id);
    if (newest == NULL || log->end == 0 || log->end > CHUNK_EVENT_BYTES) {
        return false;
    }
    struct window_cursor cursor = start_of(newest);
    while (cursor.at < log->end) {
        (void)step(&cursor);
    }
    log->newest = newest;
    log->since_ns = cursor.at_ns;
    log->total = cursor.before;
    return cursor.at == log->end;
}

bool window_log_next(const struct window_log *log, struct window_cursor *cursor,
                     struct window_event *event)
{
    const struct chunk *next = chunk_behind(log, cursor->chunk);
    if (cursor->before == before_of(log, next)) {
        if (next == NULL) {
            return false;
        }
        *cursor = start_of(next);
        next = chunk_behind(log, next);
    }
    if (cursor->at >= CHUNK_EVENT_BYTES) {
        return false;
    }
    event->cost = step(cursor);
    event->at_ns = cursor->at_ns;
    return !is_less(before_of(log, next), cursor->before);
}

struct window_cursor window_log_start(const struct window_log *log)
{
    const struct chunk *oldest = chunk_of(log, log->newest->oldest);
    return start_of(oldest != NULL ? oldest : log->newest);
}

/* The first chunk with an event that has not left, or one before it. */
static const struct chunk *first_chunk(const struct window_log *log, const struct weir_limit *limit,
                                       uint64_t now_ns)
{
    const struct chunk *chunk = chunk_of(log, log->newest->oldest);
    if (chunk == NULL || is_less(log->newest->before, chunk->before)) {
        return NULL;
    }
    const struct chunk *next = chunk_behind(log, chunk);
    while (next != NULL
           && window_leaves_at(limit, next->first_ns, log->state.empty_at_ns) <= now_ns) {
        chunk = next;
        next = chunk_behind(log, chunk);
    }
    return chunk;
}

/* Goes to the first event of a chunk that has not left, or to the chunk's end, where its costs have come to
 * `end`. Those that have left were let through `left_ns` or earlier, by a signed number: time may be less than a
 * period old. False if the chunk is damaged. */
static bool skip_left(const struct chunk *chunk, uint32_t end, int64_t left_ns,
                      struct window_cursor *first)
{
    struct window_cursor cursor = start_of(chunk);
    do {
        *first = cursor;
        if (cursor.before == end) {
            return true;
        }
        if (cursor.at >= CHUNK_EVENT_BYTES) {
            return false;
        }
        (void)step(&cursor);
        if (is_less(end, cursor.before)) {
            return false;
        }
    } while ((int64_t)cursor.at_ns <= left_ns);
    return true;
}

bool window_log_look(const struct window_log *log, const struct weir_limit *limit, uint64_t now_ns,
                     struct window_view *view)
{
    now_ns = now_ns > log->since_ns ? now_ns : log->since_ns;
    *view = (struct window_view){.now_ns = now_ns};
    if (log->newest == NULL || log->state.empty_at_ns <= now_ns) {
        return true;
    }
    const struct chunk *chunk = first_chunk(log, limit, now_ns);
    if (chunk == NULL) {
        return false;
    }
    const struct chunk *next = chunk_behind(log, chunk);
    uint32_t end = before_of(log, next);
    if (!skip_left(chunk, end, (int64_t)(now_ns - limit->full_ns), &view->first)) {
        return false;
    }
    if (view->first.before == end) {
        if (next == NULL) {
            return true; // all have left
        }
        view->first = start_of(next);
    }
    view->level = log->total - view->first.before; // modulo 2^32
    view->empty_at_ns = window_leaves_at(limit, log->since_ns, log->state.empty_at_ns);
    return true;
}

void window_log_leave(const struct window_log *log, const struct weir_limit *limit, uint64_t units,
                      struct window_view *view)
{
    struct window_cursor *cursor = &view->first;
    struct window_event event;
    uint32_t until = cursor->before + (uint32_t)units;
    const struct chunk *next;
    bool is_whole = true;
    while ((next = chunk_behind(log, cursor->chunk)) != NULL && is_less(next->before, until)) {
        *cursor = start_of(next); // whatever is in the chunk before it has to leave
    }
    while (is_whole && is_less(cursor->before, until)) {
        is_whole = window_log_next(log, cursor, &event);
    }
    view->level = is_whole ? log->total - cursor->before : 0;
    view->now_ns = is_whole ? window_leaves_at(limit, cursor->at_ns, log->state.empty_at_ns)
                            : view->empty_at_ns;
}

uint64_t window_log_fits_at(const struct window_log *log, const struct weir_limit *limit,
                            const struct window_view *view, uint64_t cost)
{
    struct window_view then = *view;
    window_log_leave(log, limit, view->level - window_room(limit, 0) + cost, &then);
    return then.now_ns;
}

struct outcome window_log_take(const struct window_log *log, const struct weir_limit *limit,
                               const struct window_view *view, const struct charge *charge,
                               uint64_t *fits_at_ns)
{
    uint64_t cost = charge->cost_micro / WEIR_UNIT;
    enum weir_verdict verdict = window_verdict(limit, charge, view->level);
    if (verdict == WEIR_LIMITED) {
        *fits_at_ns = window_log_fits_at(log, limit, view, cost);
    } else if (verdict == WEIR_ALLOWED && cost > 0) {
        return window_outcome(verdict, view->now_ns + limit->full_ns, view->level + cost);
    }
    return window_outcome(verdict, view->empty_at_ns, view->level);
}

bool window_log_is_worn_out(const struct window_log *log, const struct weir_limit *limit,
                            const struct window_view *view)
{
    return log->newest != NULL && view->level == 0 && log->since_ns + limit->full_ns > view->now_ns;
}

/* ---- writing ---- */

static struct weir_bucket state_of(struct weir_bucket state, uint64_t empty_at_ns, uint32_t id,
                                   uint32_t end)
{
    uint64_t kept = state.word & ~BUCKET_REST_MASK;
    return (struct weir_bucket){empty_at_ns, kept | BUCKET_LOG | (uint64_t)end << END_SHIFT | id};
}

struct weir_bucket window_state_empty(struct weir_bucket state, uint64_t since_ns)
{
    return (struct weir_bucket){since_ns, state.word & ~(BUCKET_REST_MASK | BUCKET_LOG)};
}

/* A chunk for one more event. What has left by now gives its own when the pool has none: that is before
 * the event is there, which shows only if its writer dies right then, and to a clock that lags. */
static uint32_t take_chunk(struct window_log *log, const struct weir_limit *limit, uint64_t now_ns)
{
    uint32_t id = event_pool_take(log->pool, log->tag);
    if (id == 0 && log->newest != NULL) {
        window_log_drop(log, limit, now_ns);
        id = event_pool_take(log->pool, log->tag);
    }
    return id;
}

bool window_log_add(struct window_log *log, const struct weir_limit *limit,
                    const struct window_view *view, uint64_t cost, struct weir_bucket *next,
                    uint32_t *taken_id)
{
    uint8_t code[WINDOW_EVENT_BYTES_MAX];
    uint64_t empty_at_ns = view->now_ns + limit->full_ns;
    uint64_t gap_ns = view->now_ns - log->since_ns;
    *taken_id = 0;
    if (log->newest != NULL && gap_ns < WINDOW_GAP_NS_MAX) {
        unsigned bytes = window_write(code, gap_ns, cost);
        if (log->end + bytes <= CHUNK_EVENT_BYTES) {
            memcpy(&log->newest->events[log->end], code, bytes);
            *next = state_of(log->state, empty_at_ns, log->newest_id, log->end + bytes);
            return true;
        }
    }
    uint32_t id = take_chunk(log, limit, view->now_ns);
    struct chunk *chunk = event_pool_chunk(log->pool, id);
    if (chunk == NULL) {
        return false;
    }
    unsigned bytes = window_write(code, 0, cost);
    memcpy(chunk->events, code, bytes);
    chunk->first_ns = view->now_ns;
    chunk->before = log->total;
    chunk->next = 0;
    chunk->oldest = log->newest != NULL ? log->newest->oldest : id;
    if (log->newest != NULL) {
        log->newest->next = id; // nobody follows it from the newest
    }
    *next = state_of(log->state, empty_at_ns, id, bytes);
    *taken_id = id;
    return true;
}

void window_log_added(struct window_log *log, const struct window_view *view, uint64_t cost,
                      struct weir_bucket next)
{
    log->state = next;
    log->newest_id = (uint32_t)(next.word & BUCKET_REST_MASK);
    log->end = (uint32_t)((next.word & BUCKET_REST_MASK) >> END_SHIFT);
    log->newest = event_pool_chunk(log->pool, log->newest_id);
    log->since_ns = view->now_ns;
    log->total += (uint32_t)cost;
}

void window_log_drop(const struct window_log *log, const struct weir_limit *limit, uint64_t now_ns)
{
    uint32_t id = log->newest->oldest;
    const struct chunk *chunk = chunk_of(log, id);
    while (chunk != NULL && chunk != log->newest) {
        const struct chunk *next = chunk_behind(log, chunk);
        if (next == NULL
            || window_leaves_at(limit, next->first_ns, log->state.empty_at_ns) > now_ns) {
            return;
        }
        log->newest->oldest = chunk->next; // the log begins there, whoever dies now
        event_pool_give(log->pool, id);
        id = log->newest->oldest;
        chunk = next;
    }
}

void window_log_free(const struct window_log *log)
{
    uint32_t id = log->newest->oldest;
    const struct chunk *chunk = chunk_of(log, id);
    while (chunk != NULL && chunk != log->newest) {
        const struct chunk *next = chunk_behind(log, chunk);
        uint32_t next_id = chunk->next;
        event_pool_give(log->pool, id);
        id = next_id;
        chunk = next;
    }
    event_pool_give(log->pool, log->newest_id);
}

void window_log_mark(const struct window_log *log, uint32_t turn)
{
    struct chunk *chunk = chunk_of(log, log->newest->oldest);
    while (chunk != NULL && chunk != log->newest) {
        chunk->swept = turn;
        chunk = chunk_behind(log, chunk) != NULL ? chunk_of(log, chunk->next) : NULL;
    }
    log->newest->swept = turn;
}
