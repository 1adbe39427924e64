/* SPDX-License-Identifier: MIT
 *
 * Timers: which of many entries is due next. A hierarchical timing wheel (G. Varghese, T. Lauck,
 * "Hashed and Hierarchical Timing Wheels", 1987) of intrusive lists, exact to the nanosecond.
 *
 *     wheel_init(&wheel, now_ns);
 *     wheel_add(&wheel, &waiter->timer, due_ns);
 *     ...
 *     while ((entry = wheel_take_due(&wheel, now_ns)) != NULL) { ... }
 *     sleep until wheel_next_ns(&wheel);
 *
 * Adding and removing cost the same however many entries there are; taking does so on average. The
 * wheel never allocates: an entry is part of what it times, its memory is the caller's, and stays
 * where it is while it is held.
 * Threads: single owner. */
#ifndef WEIR_SERVER_WHEEL_H
#define WEIR_SERVER_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zeroes is an entry that is in no wheel.
 *   due_ns  when it is due: as wheel_add() was told; 0 .. UINT64_MAX - 1 */
struct wheel_entry {
    struct wheel_entry *next, *previous;
    uint64_t due_ns;
};

/* The digits of a due instant in base 64, one level each: 10 of 6 bits and one of 4 make 64 bits. */
#define WHEEL_DIGIT_BITS 6
#define WHEEL_SLOTS      (1 << WHEEL_DIGIT_BITS)
#define WHEEL_LEVELS     11

/* The fields are for wheel.c.
 *   now_ns    the wheel's own instant, at most the latest reading: no entry is due before it, but those
 *             that were late when they were added
 *   levels    bit L: some list of level L is not empty
 *   occupied  [L], bit S: the list at level L, slot S is not empty
 *   lists     [L][S]; in an empty one both are NULL. The last entry's `next` is the entry itself, and so
 *             is the first one's `previous` */
struct wheel {
    uint64_t now_ns;
    uint64_t levels;
    uint64_t occupied[WHEEL_LEVELS];
    struct wheel_list {
        struct wheel_entry *first, *last;
    } lists[WHEEL_LEVELS][WHEEL_SLOTS];
};

/* Makes an empty wheel. `now_ns` is a reading of the clock by which entries will be due. */
void wheel_init(struct wheel *wheel, uint64_t now_ns);

/* Adds an entry that no wheel holds. Among equal dues, first added is first taken.
 * One that is due before the latest reading at which wheel_take_due() had nothing left is late: it counts
 * as due at that reading. So late ones leave before all that are due later, in the order in which they
 * were added. */
void wheel_add(struct wheel *wheel, struct wheel_entry *entry, uint64_t due_ns);

/* Removes an entry that this wheel holds. */
void wheel_remove(struct wheel *wheel, struct wheel_entry *entry);

/* Whether some wheel holds this entry. */
static inline bool wheel_holds(const struct wheel_entry *entry)
{
    return entry->next != NULL;
}

/* Removes and returns the earliest entry that is due at `now_ns` or before; NULL if there is none.
 * At a reading older than the latest one nothing leaves. */
struct wheel_entry *wheel_take_due(struct wheel *wheel, uint64_t now_ns);

/* When to ask again: the due instant of the earliest entry; UINT64_MAX if there is none. Where
 * knowing it would mean to look at more than a few entries, an earlier instant: asked at that one, the
 * wheel knows better, and after at most WHEEL_LEVELS of them exactly. */
uint64_t wheel_next_ns(const struct wheel *wheel);

/* The invariant, by walking over everything: for tests. */
bool wheel_valid(const struct wheel *wheel);

#endif
