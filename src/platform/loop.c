/* SPDX-License-Identifier: MIT */
#include "platform/loop.h"

/* Puts a timer into a list at `place`: the pointer that is to point to it. */
static void insert_at(struct loop_timer **place, struct loop_timer *timer)
{
    timer->next = *place;
    timer->place = place;
    if (timer->next != NULL) {
        timer->next->place = &timer->next;
    }
    *place = timer;
}

void loop_timers_clear(struct loop_timer *timer)
{
    if (timer->place == NULL) {
        return;
    }
    *timer->place = timer->next;
    if (timer->next != NULL) {
        timer->next->place = timer->place;
    }
    timer->next = NULL;
    timer->place = NULL;
}

void loop_timers_set(struct loop_timers *timers, struct loop_timer *timer, uint64_t at_ns)
{
    loop_timers_clear(timer);
    struct loop_timer **place = &timers->first;
    while (*place != NULL && (*place)->at_ns <= at_ns) {
        place = &(*place)->next;
    }
    timer->at_ns = at_ns;
    insert_at(place, timer);
}

void loop_timers_run(struct loop_timers *timers, uint64_t now_ns)
{
    struct loop_timer *due = NULL; // a list of its own: what is set meanwhile is not in it
    struct loop_timer **end = &due;
    while (timers->first != NULL && timers->first->at_ns <= now_ns) {
        struct loop_timer *timer = timers->first;
        loop_timers_clear(timer);
        insert_at(end, timer);
        end = &timer->next;
    }
    while (due != NULL) { // a callback may clear any of them
        struct loop_timer *timer = due;
        loop_timers_clear(timer);
        timer->due(timer->owner);
    }
}
