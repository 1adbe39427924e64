/* SPDX-License-Identifier: MIT
 *
 * The mover, as small as can be: what it does with the two tables is what store/table/resize.c does with two
 * files. Its lock is a step like any other, and so is the word that makes the other table the one that
 * counts. Everybody begins each operation in the first table, as who slept meanwhile does. */
#include <stdlib.h>

#include "explore.h"
#include "store/table/home.h"
#include "store/table/moving.h"
#include "sync/atomic.h"

struct table later_table;

static struct later *later(void)
{
    return &world.shared.later;
}

struct table *table_follow(struct table *from, uint64_t hash)
{
    (void)hash; // there is one stripe
    if (from != &table) {
        abort(); // nothing moves on from there
    }
    mutex_lock(&later()->moving_mutex);
    bool has_moved = load_acquire(&later()->has_moved) != 0;
    if (!has_moved) {
        moving_take_back(from, &world.shared.stripes[0]);
    }
    mutex_unlock(&later()->moving_mutex);
    return has_moved ? &later_table : from;
}

bool table_is_inherited(const struct table *root)
{
    (void)root;
    return false;
}

/* Nor is there another process. */
bool table_join_again(struct table *root)
{
    (void)root;
    abort();
}

void table_leave(struct table *left)
{
    (void)left;
    abort();
}

/* Nobody here has lines that would have to go along. */
void table_census(const struct store *store, struct store_census *census, uint64_t now_ns)
{
    (void)store;
    (void)census;
    (void)now_ns;
}

void table_describe(const struct store *store, struct store_description *description,
                    uint64_t now_ns)
{
    (void)store, (void)description, (void)now_ns;
}

uint64_t table_reset_all(struct store *store, uint64_t now_ns)
{
    (void)store, (void)now_ns;
    return 0;
}

enum store_name table_look_at_name(struct store *store)
{
    (void)store;
    return STORE_NAMED;
}

enum weir_status table_regain_name(struct store *store, struct line_mover *lines, uint64_t now_ns,
                                   struct store_regained *regained, struct weir_error *error)
{
    (void)store, (void)lines, (void)now_ns, (void)regained, (void)error;
    abort();
}

bool table_waits_elsewhere(const struct store *store)
{
    (void)store;
    abort();
}

bool table_follow_waiting(struct store *store)
{
    (void)store;
    abort();
}

/* Whoever moved in vain has left something there; a new file would be empty. */
static void clear_later(void)
{
    for (int i = 0; i < LINES_MAX; i++) {
        struct table_line *line = &later()->lines[i];
        for (int slot = 0; slot < TABLE_LINE_SLOTS; slot++) {
            if (load_relaxed(&line->tags[slot]) != 0) {
                store_relaxed(&line->tags[slot], 0);
                store_relaxed(&line->states[slot].empty_at_ns, 0);
                store_relaxed(&line->states[slot].word, 0);
            }
        }
        if (load_relaxed(&line->displaced) != 0) {
            store_relaxed(&line->displaced, 0);
        }
    }
    if (load_relaxed(&later()->stripe.used_count) != 0) {
        store_relaxed(&later()->stripe.used_count, 0);
    }
}

/* The second who wants to finds that it is done. */
void move_do(const struct operation *operation, struct weir_decision *decision)
{
    struct moving moving = {.from = &table,
                            .into = &later_table,
                            .now_ns = operation->now_ns,
                            .since_ns = operation->now_ns};
    mutex_lock(&later()->moving_mutex);
    if (load_acquire(&later()->has_moved) == 0) {
        clear_later();
        if (!moving_carry(&moving, &world.shared.stripes[0])) {
            explore_violation("a bucket that found no room in a table as large");
        }
        if (operation->kind == MOVE_ALL) {
            moving_end(&moving);
            store_release(&later()->has_moved, 1);
        }
    }
    mutex_unlock(&later()->moving_mutex);
    *decision = (struct weir_decision){.verdict = WEIR_ALLOWED};
}

bool move_is_in(const struct script *some)
{
    for (int i = 0; i < some->thread_count * some->operation_count; i++) {
        if (some->operations[i / some->operation_count][i % some->operation_count].kind
            >= MOVE_ALL) {
            return true;
        }
    }
    return false;
}

bool move_is_done(void)
{
    return later()->has_moved != 0;
}

bool move_is_ours(int thread)
{
    return later()->moving_mutex.holder == (uint64_t)thread + 1 && !move_is_done();
}

bool move_has_free_locks(void)
{
    return later()->moving_mutex.holder == 0 && later()->stripe.lock.mutex.holder == 0;
}
