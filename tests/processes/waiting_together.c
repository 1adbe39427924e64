/* SPDX-License-Identifier: MIT
 *
 * Processes that wait under several limits at once, in several lines of one store: in order, and whatever
 * happens to those before them. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#include "people.h"

/* Takes under one limit, under the other, and under both, each behind those who came before in a line that
 * it stands in. */
static void together_in_order(void)
{
    static const enum people_limits ASKED[] = {BOTH, ONE, OTHER, BOTH, BOTH, ONE, BOTH};
    enum { COUNT = sizeof ASKED / sizeof ASKED[0] };
    people_begin_two("together in order", "10/s capacity=1", "12/s capacity=1");
    people_fill_both(1, 1);
    for (int i = 0; i < COUNT; i++) {
        (void)people_join_under(ASKED[i], NULL, 1, 30 * S);
    }
    for (int i = 0; i < COUNT; i++) {
        people_must_be_let(&people.people[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < i; j++) {
            bool meet = ASKED[i] == ASKED[j] || ASKED[i] == BOTH || ASKED[j] == BOTH;
            if (meet && people.people[j].place > people.people[i].place) {
                give_up("%s: the one at %d was overtaken by the one at %d", people.key, j, i);
            }
        }
    }
    people_must_be_gone();
}

/* It is gone from all of its lines. */
static void dead_together(void)
{
    people_begin_two("dead together", "10/s capacity=10", "20/s capacity=10");
    people_fill_both(9, 9);
    struct person *both = people_join_under(BOTH, NULL, 10, 30 * S);
    struct person *behind_one = people_join_under(ONE, NULL, 1, 30 * S);
    struct person *behind_other = people_join_under(OTHER, NULL, 1, 30 * S);
    struct person *behind_both = people_join_under(BOTH, NULL, 1, 30 * S);
    uint64_t since_ns = people_now();
    people_end(both);
    people_must_be_let(behind_one);
    people_must_be_let(behind_other);
    people_must_be_let(behind_both);
    people_must_be_about(behind_one, since_ns, 0, 100 + IN_TIME_MS);
    people_must_be_about(behind_other, since_ns, 0, 100 + IN_TIME_MS);
    people_must_be_about(behind_both, since_ns, 0, 100 + IN_TIME_MS);
    people_must_be_gone();
}

/* It keeps its place in neither of its lines, and goes when it goes on. */
static void stopped_together(void)
{
    people_begin_two("stopped together", "10/s capacity=1", "20/s capacity=1");
    people_fill_both(1, 1);
    struct person *both = people_join_under(BOTH, NULL, 1, 30 * S);
    people_stop(both);
    struct person *behind_one = people_join_under(ONE, NULL, 1, 30 * S);
    struct person *behind_other = people_join_under(OTHER, NULL, 1, 30 * S);
    uint64_t since_ns = people_now();
    people_must_be_let(behind_one);
    people_must_be_let(behind_other);
    people_must_be_about(behind_one, since_ns, 50, 200 + IN_TIME_MS);
    people_must_be_about(behind_other, since_ns, 50, 200 + IN_TIME_MS);
    (void)kill(both->pid, SIGCONT);
    people_must_be_let(both);
    people_must_be_gone();
}

/* Nobody looks after it in its second line; it is out of that one, too. */
static void stopped_where_nobody_looks(void)
{
    people_begin_two("stopped where nobody looks", "10/s capacity=1", "20/s capacity=1");
    people_fill_both(1, 1);
    struct person *both = people_join_under(BOTH, NULL, 1, 30 * S);
    people_stop(both);
    people_must_be_let(people_join_under(ONE, NULL, 1, 30 * S));
    if (people_room()->waiting_count != 0 || people_room()->line_count != 0) {
        give_up("%s: it still stands in %u lines", people.key, people_room()->line_count);
    }
    (void)kill(both->pid, SIGCONT);
    people_must_be_let(both);
    people_must_be_gone();
}

/* It is the first in one line, and could have gone long ago by both limits; but it is not its fault that somebody
 * who wants more stands before it in the other one. */
static void held_up(void)
{
    people_begin_two("held up", "20/s capacity=1", "10/s capacity=10");
    people_fill_both(1, 5);
    struct person *large = people_join_under(OTHER, NULL, 10, 30 * S);
    struct person *both = people_join_under(BOTH, NULL, 1, 30 * S);
    struct person *last = people_join_under(ONE, NULL, 1, 30 * S);
    while (!both->has_answer && !last->has_answer) {
        if (people_take(1).verdict != WEIR_LIMITED) { // and each of these looks whether it is late
            break;
        }
        (void)sched_yield();
    }
    people_must_be_let(large);
    people_must_be_let(both);
    people_must_be_let(last);
    if (last->place < both->place) {
        give_up("%s: it was passed over for others", people.key);
    }
    people_must_be_gone();
}

/* It is stopped while it waits for another one, who goes long before his time: from now on it is its turn, and
 * those who wait for it in another line learn that. */
static void turn_by_a_reset(void)
{
    people_begin_two("turn by a reset", "10/s capacity=1", "10/s capacity=1000");
    people_fill_both(1, 1000);
    uint64_t since_ns = people_now();
    struct person *large = people_join_under(OTHER, NULL, 900, 300 * S);
    struct person *both = people_join_under(BOTH, NULL, 1, 300 * S);
    people_stop(both);
    struct person *last = people_join_under(ONE, NULL, 1, 5 * S);
    people_reset_other();
    people_must_be_let(large);
    people_must_be_let(last);
    people_must_be_about(last, since_ns, 90, 1000 + IN_TIME_MS);
    (void)kill(both->pid, SIGCONT);
    people_must_be_let(both);
    people_must_be_gone();
}

/* The last one waits for a take that waits for another one, and both are stopped: neither is in the line of
 * whoever is late. */
static void stopped_in_a_row(void)
{
    people_begin_two("stopped in a row", "10/s capacity=1", "10/s capacity=1");
    people_fill_both(1, 1);
    struct person *first = people_join_under(OTHER, NULL, 1, 30 * S);
    struct person *both = people_join_under(BOTH, NULL, 1, 30 * S);
    struct person *last = people_join_under(ONE, NULL, 1, 30 * S);
    people_stop(first);
    people_stop(both);
    people_must_be_let(last);
    (void)kill(first->pid, SIGCONT);
    (void)kill(both->pid, SIGCONT);
    people_must_be_let(first);
    people_must_be_let(both);
    people_must_be_gone();
}

/* It is charged, and stands in its queue only: those behind move up. */
static void dead_together_in_queue(void)
{
    people_begin_two("dead together in queue", "queue 5/s capacity=20", "100/s capacity=50");
    uint64_t since_ns = people_now();
    struct person *first = people_join(1, 30 * S);
    struct person *both = people_join_under(BOTH, NULL, 1, 30 * S);
    struct person *last = people_join(1, 30 * S);
    people_end(both);
    people_must_be_let(first);
    people_must_be_let(last);
    people_must_be_about(last, since_ns, 390, 400 + IN_TIME_MS / 4);
    people_must_be_gone();
}

/* What its own limit says decides about who would be late, and what a place is. */
static void late_together(void)
{
    people_begin_two("late together", "10/s capacity=1", "1/s capacity=1");
    people_fill_both(1, 1);
    uint64_t since_ns = people_now();
    if (people_answer(people_join_under(BOTH, NULL, 1, 500 * MS)) != WEIR_LIMITED
        || people_now() - since_ns > 400 * MS) {
        give_up("%s: it stood in line in vain", people.key);
    }
    people_must_be_let(people_join_under(ONE, NULL, 1, 30 * S));
    since_ns = people_now();
    struct person *both = people_join_under(BOTH, NULL, 1, 30 * S);
    struct person *next = people_join_under(BOTH, NULL, 1, 30 * S);
    people_must_be_let(both);
    people_must_be_let(next);
    printf("    slept %ld and %ld times\n", both->switches, next->switches);
    if (both->switches > 16 || next->switches > 20 + people_looks(next, since_ns)) {
        give_up("%s: it looks again and again", people.key);
    }
    people_must_be_gone();
}

int main(void)
{
    people_init();
    people_open("memory:?shared=yes", 0);
    together_in_order();
    dead_together();
    stopped_together();
    stopped_where_nobody_looks();
    held_up();
    turn_by_a_reset();
    stopped_in_a_row();
    dead_together_in_queue();
    late_together();
    weir_limiter_close(people.limiter);
    return 0;
}
