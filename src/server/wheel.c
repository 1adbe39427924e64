/* SPDX-License-Identifier: MIT
 *
 * Where an entry lies. Write its due instant and the wheel's own (`now_ns`) in base 64. They agree in
 * their leading digits; the first digit in which they differ is the entry's level, counted from the
 * least, and the value of that digit is its slot. So
 *
 *   - all entries of a slot of level 0 are due at one instant: their list is FIFO, nothing to compare;
 *   - an entry of a lower level is due before every entry of a higher one, and within a level the
 *     slots are in order: the earliest is in the lowest slot of the lowest level that is not empty,
 *     two bit scans away;
 *   - while the wheel's instant moves, but reaches no slot that is occupied, every entry stays right
 *     where it is.
 *
 * When it reaches an occupied slot of a higher level, the entries of that slot agree with it in one
 * more digit at least, and are spread over the levels below: the cascade. It begins at the earliest
 * of them instead of the slot's first nanosecond, so that they fall as deep as they can: on the
 * average of a busy wheel an entry moves two or three times in its life, and at most WHEEL_LEVELS
 * times. (Seen so, the wheel is a radix heap: R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, 1990.)
 *
 * Entries of equal due lie in the same slot at all times, whenever they were added, and the cascade
 * keeps the order of its list. That makes the whole wheel FIFO among equals.
 *
 * The price: a cascade is as long as its list. Of 100,000 entries that are due evenly over ten seconds,
 * the longest has about 10,000, once in a second. */
#include "server/wheel.h"

#include <assert.h>
#include <string.h>

/* Lists this long are searched for the earliest entry by wheel_next_ns(). */
#define SEARCH_MAX 8

_Static_assert(WHEEL_SLOTS == 64, "a bit of `occupied` for each slot");
_Static_assert(WHEEL_LEVELS *WHEEL_DIGIT_BITS >= 64, "every instant has its digits");

/* Which list. */
struct place {
    unsigned level, slot;
};

static unsigned lowest_bit(uint64_t bits)
{
    return (unsigned)__builtin_ctzll(bits);
}

/* Late ones count as due now. */
static struct place place_of(const struct wheel *wheel, uint64_t due_ns)
{
    uint64_t counts_ns = due_ns > wheel->now_ns ? due_ns : wheel->now_ns;
    uint64_t differs = counts_ns ^ wheel->now_ns;
    unsigned level =
        differs == 0 ? 0 : (63 - (unsigned)__builtin_clzll(differs)) / WHEEL_DIGIT_BITS;
    return (struct place){level, (counts_ns >> (level * WHEEL_DIGIT_BITS)) % WHEEL_SLOTS};
}

/* The earliest occupied slot of a wheel that is not empty. */
static struct place earliest_place(const struct wheel *wheel)
{
    unsigned level = lowest_bit(wheel->levels);
    return (struct place){level, lowest_bit(wheel->occupied[level])};
}

/* The first nanosecond of a slot: the wheel's digits above, then the slot's, then zeroes. */
static uint64_t place_start_ns(const struct wheel *wheel, struct place place)
{
    unsigned shift = place.level * WHEEL_DIGIT_BITS;
    uint64_t above = wheel->now_ns >> shift & ~(uint64_t)(WHEEL_SLOTS - 1);
    return (above | place.slot) << shift;
}

/* At the end of its list. */
static void append(struct wheel *wheel, struct wheel_entry *entry)
{
    struct place place = place_of(wheel, entry->due_ns);
    struct wheel_entry **first = &wheel->first[place.level][place.slot];
    if (*first == NULL) {
        *first = entry->next = entry->previous = entry;
        wheel->occupied[place.level] |= UINT64_C(1) << place.slot;
        wheel->levels |= UINT64_C(1) << place.level;
        return;
    }
    entry->next = *first;
    entry->previous = (*first)->previous;
    entry->next->previous = entry;
    entry->previous->next = entry;
}

static void clear_slot(struct wheel *wheel, struct place place)
{
    wheel->first[place.level][place.slot] = NULL;
    wheel->occupied[place.level] &= ~(UINT64_C(1) << place.slot);
    if (wheel->occupied[place.level] == 0) {
        wheel->levels &= ~(UINT64_C(1) << place.level);
    }
}

static void unlink_at(struct wheel *wheel, struct place place, struct wheel_entry *entry)
{
    struct wheel_entry **first = &wheel->first[place.level][place.slot];
    if (entry->next == entry) {
        assert(*first == entry);
        clear_slot(wheel, place);
    } else {
        entry->next->previous = entry->previous;
        entry->previous->next = entry->next;
        if (*first == entry) {
            *first = entry->next;
        }
    }
    entry->next = entry->previous = NULL;
}

static uint64_t earliest_of(const struct wheel_entry *first)
{
    uint64_t earliest_ns = first->due_ns;
    for (const struct wheel_entry *entry = first->next; entry != first; entry = entry->next) {
        earliest_ns = entry->due_ns < earliest_ns ? entry->due_ns : earliest_ns;
    }
    return earliest_ns;
}

/* The wheel's instant moves into this slot, the earliest one: to its earliest entry, but not past
 * `now_ns`; and its entries, in their order, to the lists where they belong from there. Those lists
 * are empty: there was nothing below this level. */
static void cascade(struct wheel *wheel, struct place place, uint64_t now_ns)
{
    struct wheel_entry *first = wheel->first[place.level][place.slot];
    struct wheel_entry *last = first->previous;
    uint64_t earliest_ns = earliest_of(first);
    clear_slot(wheel, place);
    wheel->now_ns = earliest_ns < now_ns ? earliest_ns : now_ns;
    struct wheel_entry *next = first;
    struct wheel_entry *entry;
    do {
        entry = next;
        next = entry->next;
        append(wheel, entry);
    } while (entry != last);
}

void wheel_init(struct wheel *wheel, uint64_t now_ns)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->now_ns = now_ns;
}

void wheel_add(struct wheel *wheel, struct wheel_entry *entry, uint64_t due_ns)
{
    assert(!wheel_holds(entry));
    assert(due_ns != UINT64_MAX);
    entry->due_ns = due_ns;
    append(wheel, entry);
}

void wheel_remove(struct wheel *wheel, struct wheel_entry *entry)
{
    assert(wheel_holds(entry));
    unlink_at(wheel, place_of(wheel, entry->due_ns), entry);
}

struct wheel_entry *wheel_take_due(struct wheel *wheel, uint64_t now_ns)
{
    while (wheel->levels != 0) {
        struct place place = earliest_place(wheel);
        uint64_t start_ns = place_start_ns(wheel, place);
        if (start_ns > now_ns) {
            break;
        }
        if (place.level == 0) {
            struct wheel_entry *entry = wheel->first[0][place.slot];
            wheel->now_ns = start_ns;
            unlink_at(wheel, place, entry);
            return entry;
        }
        cascade(wheel, place, now_ns);
    }
    if (wheel->now_ns < now_ns) {
        wheel->now_ns = now_ns; // reaches no occupied slot: the earliest begins later
    }
    return NULL;
}

uint64_t wheel_next_ns(const struct wheel *wheel)
{
    if (wheel->levels == 0) {
        return UINT64_MAX;
    }
    struct place place = earliest_place(wheel);
    uint64_t start_ns = place_start_ns(wheel, place);
    if (place.level == 0) {
        return start_ns;
    }
    const struct wheel_entry *first = wheel->first[place.level][place.slot];
    const struct wheel_entry *entry = first;
    uint64_t earliest_ns = UINT64_MAX;
    for (int i = 0; i < SEARCH_MAX; i++) {
        earliest_ns = entry->due_ns < earliest_ns ? entry->due_ns : earliest_ns;
        entry = entry->next;
        if (entry == first) {
            return earliest_ns;
        }
    }
    return start_ns;
}

static bool list_valid(const struct wheel *wheel, struct place place)
{
    const struct wheel_entry *first = wheel->first[place.level][place.slot];
    const struct wheel_entry *entry = first;
    do {
        struct place right = place_of(wheel, entry->due_ns);
        if (right.level != place.level || right.slot != place.slot
            || entry->next->previous != entry) {
            return false;
        }
        entry = entry->next;
    } while (entry != first);
    return true;
}

bool wheel_valid(const struct wheel *wheel)
{
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        if ((wheel->levels >> level & 1) != (wheel->occupied[level] != 0)) {
            return false;
        }
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++) {
            bool occupied = wheel->first[level][slot] != NULL;
            if ((wheel->occupied[level] >> slot & 1) != occupied
                || (occupied && !list_valid(wheel, (struct place){level, slot}))) {
                return false;
            }
        }
    }
    return true;
}
