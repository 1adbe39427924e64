/* SPDX-License-Identifier: MIT
 *
 * The shaper: a line (shaper_line.h) that threads share, and what happens to who does not fit.
 *
 * pthread_cancel() ends the wait of a blocked thread while it sleeps, and nothing else: not what the
 * program's own functions do, which are called between two changes of the shaper. */
#include "weir/shaper.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "limiter/shaper_line.h"
#include "sync/cancel.h"
#include "sync/mutex.h"

/* A thread that waits to get in; on its stack. */
struct blocked {
    struct blocked *next;
    struct weir_shaper *shaper;
    void *item;
    uint64_t cost_micro;
    uint64_t now_ns; // when it came
    struct weir_submitted submitted;
    bool is_answered;
    pthread_cond_t answered;
};

/* All but `config` is guarded by the lock. */
struct weir_shaper {
    struct weir_shaper_config config;
    struct mutex mutex;
    struct shaper_line line;
    struct blocked *first_blocked, *last_blocked;
    bool is_shut_down;
    uint64_t sleeping_count;        // blocked threads that have not left yet
    pthread_cond_t all_left;        // none of them is here any more
    struct weir_shaper_stats stats; // but what the line counts itself
};

/* ---- who is blocked ---- */

static struct weir_submitted not_submitted(const struct weir_shaper *shaper)
{
    struct weir_submitted submitted = {.ticket = 0, .egress_ns = UINT64_MAX};
    bucket_answer_failed(&submitted.decision, &shaper->line.limit);
    return submitted;
}

static void answer_first_blocked(struct weir_shaper *shaper, const struct weir_submitted *submitted)
{
    struct blocked *blocked = shaper->first_blocked;
    shaper->first_blocked = blocked->next;
    if (blocked->next == NULL) {
        shaper->last_blocked = NULL;
    }
    blocked->submitted = *submitted;
    blocked->is_answered = true;
    shaper->stats.blocked_count--;
    (void)pthread_cond_signal(&blocked->answered);
}

/* Not before it came: another thread's clock may be behind. */
static void let_in(struct weir_shaper *shaper, uint64_t now_ns)
{
    struct blocked *blocked;
    while ((blocked = shaper->first_blocked) != NULL) {
        uint64_t then_ns = now_ns > blocked->now_ns ? now_ns : blocked->now_ns;
        struct weir_submitted submitted;
        if (!shaper_line_enter(&shaper->line, blocked->item, blocked->cost_micro, then_ns,
                               &submitted)) {
            return;
        }
        answer_first_blocked(shaper, &submitted);
    }
}

static void join_blocked(struct weir_shaper *shaper, struct blocked *blocked)
{
    *(shaper->last_blocked == NULL ? &shaper->first_blocked : &shaper->last_blocked->next) =
        blocked;
    shaper->last_blocked = blocked;
    shaper->stats.blocked_count++;
    shaper->sleeping_count++;
}

/* Before it is answered. */
static void leave_blocked(struct weir_shaper *shaper, const struct blocked *leaving)
{
    struct blocked *before = NULL, *blocked = shaper->first_blocked;
    while (blocked != leaving) {
        before = blocked;
        blocked = blocked->next;
    }
    *(before == NULL ? &shaper->first_blocked : &before->next) = leaving->next;
    if (leaving->next == NULL) {
        shaper->last_blocked = before;
    }
    shaper->stats.blocked_count--;
}

static uint64_t next_ns(const struct weir_shaper *shaper)
{
    const struct blocked *blocked = shaper->first_blocked;
    uint64_t due_ns = shaper_line_next_ns(&shaper->line);
    if (blocked == NULL) {
        return due_ns;
    }
    uint64_t fits_ns = shaper_line_fits_ns(&shaper->line, blocked->cost_micro, blocked->now_ns);
    return due_ns < fits_ns ? due_ns : fits_ns;
}

/* ---- who is dropped ---- */

/* How many are dropped under one lock, to be handed over without it. */
enum { DROPPED_MAX = 16 };

struct dropped {
    uint32_t count;
    struct {
        void *item;
        uint64_t ticket;
    } places[DROPPED_MAX];
};

/* But nobody for an item that would not fit even then. */
static void enter_dropping(struct weir_shaper *shaper, void *item, uint64_t cost_micro,
                           uint64_t now_ns, struct dropped *dropped,
                           struct weir_submitted *submitted)
{
    if (!shaper_line_would_fit_alone(&shaper->line, cost_micro, now_ns)) {
        return;
    }
    struct place *first;
    while (submitted->decision.verdict == WEIR_LIMITED && dropped->count < DROPPED_MAX
           && (first = shaper_line_first(&shaper->line)) != NULL) {
        dropped->places[dropped->count].ticket = first->ticket;
        dropped->places[dropped->count++].item = shaper_line_take_out(&shaper->line, first);
        shaper->stats.dropped_count++;
        (void)shaper_line_enter(&shaper->line, item, cost_micro, now_ns, submitted);
    }
}

/* Without the lock. All of them: they have left the line. */
static void hand_over(const struct weir_shaper *shaper, const struct dropped *dropped)
{
    int before = cancel_forbid();
    for (uint32_t i = 0; i < dropped->count && shaper->config.dropped != NULL; i++) {
        shaper->config.dropped(shaper->config.context, dropped->places[i].item,
                               dropped->places[i].ticket);
    }
    cancel_allow(before);
}

/* ---- opening and closing ---- */

static void lock(struct weir_shaper *shaper)
{
    mutex_lock(&shaper->mutex);
    assert(shaper_line_valid(&shaper->line));
}

/* Wakes up who sleeps until next_ns(), if it has become earlier than it was: `before_ns`. */
static void unlock_and_tell(struct weir_shaper *shaper, uint64_t before_ns)
{
    bool is_sooner = next_ns(shaper) < before_ns;
    assert(shaper_line_valid(&shaper->line));
    mutex_unlock(&shaper->mutex);
    if (is_sooner && shaper->config.sooner != NULL) {
        int before = cancel_forbid(); // the change that it tells of has to be answered
        shaper->config.sooner(shaper->config.context);
        cancel_allow(before);
    }
}

/* As many whole units as the limit lets in, and may be due without having been popped; a part of one
 * counts as one, and one may have become due just now. */
static uint32_t usual_items_max(const struct weir_limit *limit)
{
    uint64_t units =
        limit->capacity + span_floor_units((struct span){WEIR_JITTER_NS, 0}, limit) + 3;
    return units < WEIR_SHAPER_ITEMS ? (uint32_t)units : WEIR_SHAPER_ITEMS;
}

static bool is_overflow(enum weir_overflow overflow)
{
    return overflow == WEIR_OVERFLOW_REFUSE || overflow == WEIR_OVERFLOW_DROP_OLDEST
           || overflow == WEIR_OVERFLOW_BLOCK;
}

enum weir_status weir_shaper_open(struct weir_shaper **shaper, const struct weir_limit *limit,
                                  const struct weir_shaper_config *config, struct weir_error *error)
{
    static const struct weir_shaper_config USUAL = {.overflow = WEIR_OVERFLOW_REFUSE};
    config = config != NULL ? config : &USUAL;
    *shaper = NULL;
    if (limit->kind != WEIR_KIND_QUEUE) {
        return fail(error, WEIR_E_RANGE, 0, "a shaper's limit must be of kind queue");
    }
    if (config->items_max > WEIR_SHAPER_ITEMS_MAX || !is_overflow(config->overflow)) {
        return fail(error, WEIR_E_RANGE, 0,
                    "items_max must be 0 to 16777216, and overflow one of its values");
    }
    uint32_t items_max = config->items_max != 0 ? config->items_max : usual_items_max(limit);
    struct weir_shaper *made = calloc(1, sizeof *made);
    if (made == NULL || !shaper_line_init(&made->line, limit, items_max)) {
        free(made);
        return fail(error, WEIR_E_NO_MEMORY, 0, "no memory for a line of %u items",
                    (unsigned)items_max);
    }
    made->config = *config;
    (void)pthread_cond_init(&made->all_left, NULL);
    *shaper = made;
    return WEIR_OK;
}

void weir_shaper_shut_down(struct weir_shaper *shaper)
{
    lock(shaper);
    shaper->is_shut_down = true;
    struct weir_submitted none = not_submitted(shaper);
    while (shaper->first_blocked != NULL) {
        answer_first_blocked(shaper, &none);
    }
    mutex_unlock(&shaper->mutex);
}

void weir_shaper_close(struct weir_shaper *shaper)
{
    if (shaper == NULL) {
        return;
    }
    int before = cancel_forbid();
    weir_shaper_shut_down(shaper);
    mutex_lock(&shaper->mutex);
    while (shaper->sleeping_count != 0) {
        (void)pthread_cond_wait(&shaper->all_left, &shaper->mutex.mutex);
    }
    mutex_unlock(&shaper->mutex);
    for (const struct place *place = shaper_line_first(&shaper->line);
         place != NULL && shaper->config.dropped != NULL;
         place = shaper_line_after(&shaper->line, place)) {
        shaper->config.dropped(shaper->config.context, place->item, place->ticket);
    }
    (void)pthread_cond_destroy(&shaper->all_left);
    shaper_line_fini(&shaper->line);
    free(shaper);
    cancel_allow(before);
}

/* ---- the calls ---- */

static bool is_limited(const struct weir_submitted *submitted)
{
    return submitted->decision.verdict == WEIR_LIMITED;
}

/* Under the lock: at once, or as the config says. Who is blocked already goes first; but what never
 * fits need not wait to hear it. */
static struct weir_submitted submit_now(struct weir_shaper *shaper, void *item, uint64_t cost_micro,
                                        uint64_t now_ns, struct dropped *dropped)
{
    struct weir_submitted submitted = not_submitted(shaper);
    if (shaper->is_shut_down) {
        return submitted;
    }
    shaper_line_settle(&shaper->line, now_ns);
    let_in(shaper, now_ns);
    if (shaper->first_blocked != NULL && cost_micro <= shaper->line.limit.capacity_micro) {
        submitted.decision.verdict = WEIR_LIMITED;
        return submitted;
    }
    bool entered = shaper_line_enter(&shaper->line, item, cost_micro, now_ns, &submitted);
    if (!entered && shaper->config.overflow == WEIR_OVERFLOW_DROP_OLDEST) {
        enter_dropping(shaper, item, cost_micro, now_ns, dropped, &submitted);
    }
    return submitted;
}

/* Under the lock. close() frees the shaper after the last one. */
static void count_out(struct weir_shaper *shaper)
{
    if (--shaper->sleeping_count == 0) {
        (void)pthread_cond_signal(&shaper->all_left);
    }
}

/* The thread was cancelled, and its sleep ended with the lock held. An item that got in meanwhile stays in
 * line: the thread is then cancelled as if just after its call. Those behind may fit where this one did not,
 * and whoever pops has to hear when. */
static void leave_cancelled(void *argument)
{
    struct blocked *blocked = argument;
    struct weir_shaper *shaper = blocked->shaper;
    uint64_t before_ns = next_ns(shaper);
    if (!blocked->is_answered) {
        leave_blocked(shaper, blocked);
    }
    unlock_and_tell(shaper, before_ns);
    lock(shaper);
    count_out(shaper);
    mutex_unlock(&shaper->mutex);
    (void)pthread_cond_destroy(&blocked->answered);
}

/* Cancellation is as the caller had it while this sleeps, and forbidden otherwise. */
static void sleep_until_answered(struct weir_shaper *shaper, struct blocked *blocked,
                                 int cancel_state)
{
    mutex_lock(&shaper->mutex);
    while (!blocked->is_answered) {
        pthread_cleanup_push(leave_cancelled, blocked);
        cancel_allow(cancel_state);
        (void)pthread_cond_wait(&blocked->answered, &shaper->mutex.mutex);
        (void)cancel_forbid();
        pthread_cleanup_pop(0);
    }
    count_out(shaper);
    mutex_unlock(&shaper->mutex);
}

static struct weir_submitted submit_blocking(struct weir_shaper *shaper, void *item,
                                             uint64_t cost_micro, uint64_t now_ns)
{
    struct dropped none = {.count = 0};
    struct blocked blocked = {
        .shaper = shaper, .item = item, .cost_micro = cost_micro, .now_ns = now_ns};
    int cancel_state = cancel_forbid(); // `blocked` leaves the list before this thread does
    lock(shaper);
    uint64_t before_ns = next_ns(shaper);
    blocked.submitted = submit_now(shaper, item, cost_micro, now_ns, &none);
    bool must_wait = is_limited(&blocked.submitted);
    if (must_wait) {
        (void)pthread_cond_init(&blocked.answered, NULL);
        join_blocked(shaper, &blocked);
    }
    unlock_and_tell(shaper, before_ns);
    if (must_wait) {
        sleep_until_answered(shaper, &blocked, cancel_state);
        (void)pthread_cond_destroy(&blocked.answered);
    }
    cancel_allow(cancel_state);
    return blocked.submitted;
}

struct weir_submitted weir_shaper_submit(struct weir_shaper *shaper, void *item,
                                         uint64_t cost_micro, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    if (shaper->config.overflow == WEIR_OVERFLOW_BLOCK) {
        return submit_blocking(shaper, item, cost_micro, now_ns);
    }
    struct dropped dropped;
    struct weir_submitted submitted;
    do {
        dropped.count = 0;
        lock(shaper);
        uint64_t before_ns = next_ns(shaper);
        submitted = submit_now(shaper, item, cost_micro, now_ns, &dropped);
        unlock_and_tell(shaper, before_ns);
        hand_over(shaper, &dropped);
    } while (is_limited(&submitted) && dropped.count == DROPPED_MAX);
    return submitted;
}

uint64_t weir_shaper_next_ns(struct weir_shaper *shaper)
{
    lock(shaper);
    uint64_t next = next_ns(shaper);
    mutex_unlock(&shaper->mutex);
    return next;
}

bool weir_shaper_pop(struct weir_shaper *shaper, uint64_t now_ns, struct weir_released *released)
{
    now_ns = clamp_now(now_ns);
    lock(shaper);
    shaper_line_settle(&shaper->line, now_ns);
    bool is_due = shaper_line_pop(&shaper->line, now_ns, released);
    shaper->stats.released_count += is_due;
    let_in(shaper, now_ns);
    assert(shaper_line_valid(&shaper->line));
    mutex_unlock(&shaper->mutex);
    return is_due;
}

bool weir_shaper_cancel(struct weir_shaper *shaper, uint64_t ticket, uint64_t now_ns, void **item)
{
    now_ns = clamp_now(now_ns);
    lock(shaper);
    uint64_t before_ns = next_ns(shaper);
    shaper_line_settle(&shaper->line, now_ns);
    struct place *place = shaper_line_find(&shaper->line, ticket);
    if (place != NULL) {
        void *old = shaper_line_take_out(&shaper->line, place);
        if (item != NULL) {
            *item = old;
        }
        shaper->stats.cancelled_count++;
        let_in(shaper, now_ns);
    }
    unlock_and_tell(shaper, before_ns);
    return place != NULL;
}

bool weir_shaper_replace(struct weir_shaper *shaper, uint64_t ticket, void *item, void **old)
{
    lock(shaper);
    struct place *place = shaper_line_find(&shaper->line, ticket);
    if (place != NULL) {
        if (old != NULL) {
            *old = place->item;
        }
        place->item = item;
    }
    mutex_unlock(&shaper->mutex);
    return place != NULL;
}

bool weir_shaper_swap(struct weir_shaper *shaper, uint64_t ticket, uint64_t other)
{
    lock(shaper);
    struct place *one = shaper_line_find(&shaper->line, ticket);
    struct place *two = shaper_line_find(&shaper->line, other);
    bool both = one != NULL && two != NULL;
    if (both) {
        void *item = one->item;
        one->item = two->item;
        two->item = item;
    }
    mutex_unlock(&shaper->mutex);
    return both;
}

void weir_shaper_read_stats(struct weir_shaper *shaper, struct weir_shaper_stats *stats)
{
    lock(shaper);
    *stats = shaper->stats;
    stats->item_count = shaper->line.item_count;
    stats->late_count = shaper->line.late_count;
    mutex_unlock(&shaper->mutex);
}
