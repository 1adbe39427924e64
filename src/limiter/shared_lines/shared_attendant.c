/* SPDX-License-Identifier: MIT
 *
 * The attendant: one thread of each process of which somebody waits. It sleeps until one of its tickets is called.
 * While tickets of another process stand directly before ours it also wakes every LOOK_NS, and asks the kernel
 * whether that process is alive. It begins with the first who waits, and ends with the limiter.
 *
 * It never takes a turn by the clock: whoever waits keeps his own time (waiter_ops.schedule). */
#include <assert.h>
#include <pthread.h>

#include "limiter/shared_lines/shared_room.h"
#include "platform/futex.h"
#include "platform/thread.h"

/* How often it looks, so that a death is noticed within a tenth of a second. Asking costs about a microsecond for each
 * process before ours, and nobody asks while none is. */
#define LOOK_NS UINT64_C(50000000)

static uint64_t attendant_now_ns(const struct shared_lines *shared)
{
    return shared->is_caller_clock ? STORE_NOW : lines_now_ns(shared->lines);
}

/* ---- standing ---- */

/* This thread stands for its process from now on. False if there is no place for it. */
static bool take_standing(struct shared_lines *shared)
{
    uint64_t now_ns = room_enter(shared, attendant_now_ns(shared));
    bool stands = room_stand(shared, now_ns);
    room_leave(shared, now_ns);
    return stands;
}

/* There may be none any longer, if its room has moved. */
static void give_up_standing(struct shared_lines *shared)
{
    uint64_t now_ns = room_enter(shared, attendant_now_ns(shared));
    uint32_t place = shared->standing;
    shared->has_new_watch = false;
    assert(shared->lines->stats.waiting_count == 0);
    shared->standing = 0;
    if (place != 0) {
        room_free_standing(shared, place);
    }
    room_leave(shared, now_ns);
}

/* ---- listening ---- */

static void bury_those_before(struct shared_lines *shared, uint64_t now_ns)
{
    for (uint32_t i = 0; i < shared->watch_count; i++) {
        uint32_t standing = shared->watches[i].standing;
        if (standing_at(shared, standing)->is_used && !room_is_alive(shared, standing)) {
            room_bury(shared, standing, now_ns);
        }
    }
}

/* What to sleep on: until `*word` is no longer `value`, or it is time to look. */
struct sleep {
    uint32_t *word;
    uint32_t value;
    uint64_t timeout_ns;
};

/* Looks after everything, and says what to sleep on afterwards. False: the process has no standing where its room
 * is now. */
static bool look_around(struct shared_lines *shared, struct sleep *sleep)
{
    uint64_t now_ns = room_enter(shared, attendant_now_ns(shared));
    bool stands = shared->standing != 0;
    if (stands) {
        struct standing *standing = standing_at(shared, shared->standing);
        bury_those_before(shared, now_ns);
        room_look_after_calls(shared, now_ns);
        shared->has_new_watch = false; // we are about to look after it
        sleep->word = &standing->calls;
        sleep->value = __atomic_load_n(&standing->calls, __ATOMIC_RELAXED); // under the lock
        sleep->timeout_ns = shared->watch_count != 0 ? LOOK_NS : FUTEX_FOR_EVER;
    }
    room_leave(shared, now_ns);
    return stands;
}

static void *attend(void *context)
{
    struct shared_lines *shared = context;
    struct attendant *attendant = &shared->attendant;
    lines_lock(shared->lines);
    attendant->is_running = take_standing(shared);
    bool stands = attendant->is_running;
    attendant->has_begun = true;
    (void)pthread_cond_broadcast(&attendant->changed);
    while (stands && shared->standing != 0 && !attendant->is_ending) {
        struct sleep sleep;
        if (look_around(shared, &sleep)) {
            lines_unlock(shared->lines);
            futex_wait(sleep.word, sleep.value, sleep.timeout_ns);
            lines_lock(shared->lines);
        }
    }
    if (stands) {
        give_up_standing(shared);
    }
    attendant->is_running = false;
    lines_unlock(shared->lines);
    return NULL;
}

/* ---- the beginning and the end ---- */

/* It has ended, and releases the lock of the lines soon. */
static void join_thread(struct shared_lines *shared)
{
    struct attendant *attendant = &shared->attendant;
    (void)pthread_join(attendant->thread, NULL);
    attendant->is_started = attendant->has_begun = false;
}

bool attendant_begin(struct shared_lines *shared)
{
    struct attendant *attendant = &shared->attendant;
    if (attendant->has_begun && !attendant->is_running) { // it had no standing any longer
        join_thread(shared);
    }
    if (!attendant->is_started) {
        attendant->is_started = thread_start(&attendant->thread, attend, shared);
    }
    while (attendant->is_started && !attendant->has_begun) {
        (void)pthread_cond_wait(&attendant->changed, lines_mutex(shared->lines));
    }
    if (attendant->is_started && !attendant->is_running) { // there was no place: next time, again
        join_thread(shared);
    }
    return attendant->is_running;
}

void attendant_call(struct shared_lines *shared)
{
    struct standing *standing = standing_at(shared, shared->standing);
    (void)__atomic_fetch_add(&standing->calls, 1, __ATOMIC_RELAXED);
    futex_wake(&standing->calls);
}

void attendant_end(struct shared_lines *shared)
{
    struct attendant *attendant = &shared->attendant;
    lines_lock(shared->lines);
    if (attendant->is_running) {
        attendant->is_ending = true;
        if (shared->standing != 0) { // otherwise it is about to end
            attendant_call(shared);
        }
    }
    lines_unlock(shared->lines);
    if (attendant->is_started) {
        (void)pthread_join(attendant->thread, NULL);
    }
}
