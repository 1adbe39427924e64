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
 * more digit at least, and are spread over the levels below: the cascade. But a short list is searched
 * for its earliest entry instead, and stays where it is: in a busy wheel an entry moves twice in its
 * life, wherever it began, and in no wheel more than WHEEL_LEVELS times. (Seen so, the wheel is a radix
 * heap: R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, 1990.)
 *
 * Entries of equal due lie in the same slot at all times, whenever they were added, and the cascade
 * keeps the order of its list. That makes the whole wheel FIFO among equals.
 *
 * The price: a cascade is as long as its list. Of 100,000 entries that are due evenly over ten seconds,
 * the longest has about 10,000, once in a second. */
#include "server/wheel.h"

#include <assert.h>
#include <string.h>

/* Lists of at most so many entries are searched for the earliest. */
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

static struct wheel_list *list_at(struct wheel *wheel, struct place place)
{
    return &wheel->lists[place.level][place.slot];
}

/* At the end of its list. */
static void append(struct wheel *wheel, struct wheel_entry *entry)
{
    struct place place = place_of(wheel, entry->due_ns);
    struct wheel_list *list = list_at(wheel, place);
    entry->next = entry->previous = entry;
    if (list->last == NULL) {
        list->first = entry;
        wheel->occupied[place.level] |= UINT64_C(1) << place.slot;
        wheel->levels |= UINT64_C(1) << place.level;
    } else {
        entry->previous = list->last;
        list->last->next = entry;
    }
    list->last = entry;
}

static void clear_slot(struct wheel *wheel, struct place place)
{
    *list_at(wheel, place) = (struct wheel_list){NULL, NULL};
    wheel->occupied[place.level] &= ~(UINT64_C(1) << place.slot);
    if (wheel->occupied[place.level] == 0) {
        wheel->levels &= ~(UINT64_C(1) << place.level);
    }
}

static void unlink_at(struct wheel *wheel, struct place place, struct wheel_entry *entry)
{
    struct wheel_list *list = list_at(wheel, place);
    struct wheel_entry *next = entry->next, *previous = entry->previous;
    if (list->first == list->last) {
        assert(list->first == entry);
        clear_slot(wheel, place);
    } else if (previous == entry) {
        list->first = next->previous = next;
    } else if (next == entry) {
        list->last = previous->next = previous;
    } else {
        next->previous = previous;
        previous->next = next;
    }
    entry->next = entry->previous = NULL;
}

/* The earliest entry of a short list, among equals the first; NULL if the list is long. */
static struct wheel_entry *search(const struct wheel_list *list)
{
    struct wheel_entry *entry = list->first, *earliest = entry;
    for (int i = 1; entry != list->last; i++) {
        if (i == SEARCH_MAX) {
            return NULL;
        }
        entry = entry->next;
        earliest = entry->due_ns < earliest->due_ns ? entry : earliest;
    }
    return earliest;
}

/* Returns the one behind it. */
static struct wheel_entry *move_one(struct wheel *wheel, struct wheel_entry *entry)
{
    struct wheel_entry *next = entry->next;
    append(wheel, entry);
    return next;
}

/* The wheel's instant moves to `now_ns`, into this slot, the earliest one; and its entries, in their order,
 * to the lists where they belong from there. Those are empty: there was nothing below this level.
 * Each entry of a long list is a miss of the cache, and only then says where the next one is. So a scout comes from
 * the other end and sends for what lies there: until they meet, two are on their way at once. */
static void cascade(struct wheel *wheel, struct place place, uint64_t now_ns)
{
    struct wheel_list list = *list_at(wheel, place);
    struct wheel_entry *entry = list.first;
    const struct wheel_entry *scout = list.last;
    clear_slot(wheel, place);
    wheel->now_ns = now_ns;
    while (scout != entry && scout != entry->next) {
        scout = scout->previous;
        __builtin_prefetch(scout);
        entry = move_one(wheel, entry);
    }
    while (entry != list.last) {
        entry = move_one(wheel, entry);
    }
    append(wheel, entry);
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

/* From a slot that has begun: its earliest entry, if that is due. Otherwise NULL, and the wheel has come
 * closer to it. */
static struct wheel_entry *take_from(struct wheel *wheel, struct place place, uint64_t start_ns,
                                     uint64_t now_ns)
{
    const struct wheel_list *list = list_at(wheel, place);
    struct wheel_entry *earliest = place.level == 0 ? list->first : search(list);
    if (place.level == 0) {
        wheel->now_ns = start_ns;
    } else if (earliest == NULL || earliest->due_ns > now_ns) {
        cascade(wheel, place, earliest == NULL ? start_ns : now_ns);
        return NULL;
    }
    unlink_at(wheel, place, earliest);
    return earliest;
}

struct wheel_entry *wheel_take_due(struct wheel *wheel, uint64_t now_ns)
{
    while (wheel->levels != 0) {
        struct place place = earliest_place(wheel);
        uint64_t start_ns = place_start_ns(wheel, place);
        if (start_ns > now_ns) {
            break;
        }
        struct wheel_entry *entry = take_from(wheel, place, start_ns, now_ns);
        if (entry != NULL) {
            return entry;
        }
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
    if (place.level == 0) {
        return place_start_ns(wheel, place);
    }
    const struct wheel_entry *earliest = search(&wheel->lists[place.level][place.slot]);
    return earliest != NULL ? earliest->due_ns : place_start_ns(wheel, place);
}

static bool list_valid(const struct wheel *wheel, struct place place)
{
    const struct wheel_list *list = &wheel->lists[place.level][place.slot];
    const struct wheel_entry *previous = list->first;
    for (const struct wheel_entry *entry = list->first;; entry = entry->next) {
        struct place right = place_of(wheel, entry->due_ns);
        if (right.level != place.level || right.slot != place.slot || entry->previous != previous) {
            return false;
        }
        if (entry->next == entry) {
            return entry == list->last;
        }
        previous = entry;
    }
}

bool wheel_valid(const struct wheel *wheel)
{
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        if ((wheel->levels >> level & 1) != (wheel->occupied[level] != 0)) {
            return false;
        }
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++) {
            bool occupied = wheel->lists[level][slot].first != NULL;
            if ((wheel->occupied[level] >> slot & 1) != occupied
                || (occupied && !list_valid(wheel, (struct place){level, slot}))) {
                return false;
            }
        }
    }
    return true;
}
