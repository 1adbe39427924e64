/* SPDX-License-Identifier: MIT
 *
 * Several limits in one take: each of their buckets is charged, or none. To everybody else that happens at
 * one instant, although nobody else's take locks anything. docs/design/several-limits.md says what else was
 * considered.
 *
 *  A mark      BUCKET_MARKED in a state: it stands still. Set, and taken away, by compare-and-swap, and
 *              only by who holds the lock of the stripe. Whoever else comes upon it waits for that lock,
 *              and looks again (table_find_unmarked); a reading is not answered from it either.
 *  The last    one of the buckets needs neither mark nor lock, unless somebody else has marked it or it
 *              has no slot yet. While the others stand still, the swap that charges it decides for all.
 *
 *  To take     lock the stripes of all but the last, in the order of their addresses; mark; if every limit
 *              allows, swap the last; then write the others, each in the swap that takes its mark away;
 *              unlock. If some limit refuses, the last is read while the others stand still, the marks are
 *              taken away, and that is the answer.
 *  To refuse   mostly needs none of this: all are read, and all but the last read again. If none has changed
 *              then they all stood so when the last was read. A state that is equal is unchanged, unless
 *              it went up and came back: whoever takes it back writes that down in lowered_from_ns first.
 *  To wait     for a mark is to wait for a lock that its holder keeps for a few swaps. Who holds such locks
 *              waits for nobody but those who hold locks of higher addresses: not for a mark (it lets go and
 *              begins again with all locks), and not for the keeper of lines (the same).
 *
 *  Moved       buckets (moving.c) are found where they went, and it all begins again there. While a stripe is
 *              locked nothing moves out of it.
 *
 *  Windows     can be looked at only while their stripes are locked. So where there is one, all stripes are locked
 *              and all buckets marked, refused or not, and none of the shorter ways is gone. They have a
 *              chapter of their own (together_window.c).
 *
 *  Blocks      a bucket with the flag BUCKET_BLOCKED is judged by its entry too (block.c). Where both are
 *              unchanged, or the stripe is locked, they stood so together; the last is locked as well then.
 *              A flag without an entry that runs says that somebody is about to block, or that it is
 *              over: only the lock tells which, and the flag that is over goes with the mark.
 *              Whoever is refused as limited, and would be blocked for it, is held while that is done.
 *
 *  Killed      before the last was swapped: nothing is charged. Later: some are charged and some are not,
 *              and nobody has heard of it. The marks go with the lock: repair.c takes them away.
 *
 *  Linearizable: a take that is allowed takes effect when the last is swapped, or where all are marked, the
 *  first. Whoever changes one of the others before or after that instant does so before its mark or after it,
 *  and so does whoever reads it.
 *  Price of the races: a take that meets a mark makes a system call, perhaps; one whose last bucket is
 *  taken from by others swaps again, as every take does. */
#include <assert.h>

#include "core/decision.h"
#include "core/undecided.h"
#include "store/table/run.h"
#include "sync/atomic.h"

static const struct line_terms *terms_of(const struct run *run, const struct member *member)
{
    return &run->terms[member - run->members];
}

/* ---- one member ---- */

/* Whether nothing of it can change but by us, if it is marked. */
static bool is_locked(const struct run *run, const struct member *member)
{
    return (size_t)(member - run->members) < run->held_count;
}

/* Where it stands, whatever is decided. */
static struct span moment_of(const struct run *run, const struct member *member)
{
    return is_window(member) ? run_window_moment(run, member)
                             : bucket_moment(member->found.seen, limit_of(member));
}

/* Whether it has the flag, but no block runs. */
static bool has_idle_flag(const struct run *run, const struct member *member)
{
    return is_flagged(member) && member->ends_ns <= run->now_ns;
}

/* What its own limit says; and its block, if one runs. */
static void judge(struct run *run, struct member *member)
{
    const struct weir_limit *limit = limit_of(member);
    member->outcome = is_window(member)
                          ? run_judge_window(run, member)
                          : kind_take(member->found.seen, limit, &member->charge, run->now_ns);
    if (run->terms != NULL
        && outcome_is_too_late(member->request, &member->charge, member->outcome,
                               terms_of(run, member)->patience_ns, run->now_ns)) {
        member->outcome = (struct outcome){WEIR_LIMITED, moment_of(run, member)};
    }
    member->ends_ns = is_flagged(member) ? table_block_ends_ns(run->table, member->hash) : 0;
    if (member->ends_ns > run->now_ns && !member->charge.never && member->charge.cost_micro != 0) {
        member->outcome = (struct outcome){WEIR_BLOCKED, moment_of(run, member)};
    }
    if (member->is_full && limit->on_full != WEIR_ON_FULL_ALLOW
        && member->outcome.verdict == WEIR_ALLOWED) {
        member->outcome.verdict = WEIR_FAILED;
    }
}

/* Looks where it is; a missing one counts as empty since the latest reuse. */
static void find(struct run *run, struct member *member)
{
    member->is_found = table_find(run->table, member->hash, member->home, &member->found);
    if (!member->is_found) {
        const struct stripe *stripe = table_stripe_of(run->table, member->hash);
        member->found.seen = (struct weir_bucket){table_latest_reuse(stripe), 0};
    }
    member->has_moved = member->is_found ? (member->found.seen.word & BUCKET_MOVED) != 0
                                         : (member->found.seen.empty_at_ns & STRIPE_MOVED) != 0;
}

/* Looks where it is and how it stands, which of a window can only be said under its stripe's lock. */
static void look_at(struct run *run, struct member *member)
{
    bool reads_log = is_window(member) && is_locked(run, member);
    do {
        find(run, member);
    } while (reads_log && !member->has_moved && !run_read_log(run, member));
    if (!member->has_moved && (reads_log || !is_window(member))) {
        judge(run, member);
    }
}

/* True if somebody stands in line for it of whom the keeper has not been asked yet. */
static bool meets_line(const struct run *run, const struct member *member)
{
    return member->is_found && (member->found.seen.word & BUCKET_LINE) != 0 && !member->waits
           && run->terms == NULL && run->table->root->store.keeper != NULL
           && table_heeds_line(member->request, &member->charge);
}

static bool all_agree(const struct run *run)
{
    bool agree = true;
    for (size_t i = 0; i < run->count; i++) {
        agree = agree && agrees(&run->members[i]);
    }
    return agree;
}

/* The state of a member that is charged. */
static struct weir_bucket charged(const struct run *run, const struct member *member)
{
    struct weir_bucket next = is_window(member)
                                  ? run->windows[member - run->members].next
                                  : bucket_with_moment(member->found.seen, member->outcome.moment);
    return run->terms != NULL ? bucket_with_line(next, terms_of(run, member)->stays_if_allowed)
                              : next;
}

/* Whether the decision, as it looks now, changes a bucket. */
static bool has_to_charge(const struct run *run)
{
    bool charges = false;
    for (size_t i = 0; i < run->count; i++) {
        charges = charges || is_charged(&run->members[i]);
    }
    return charges && all_agree(run);
}

static enum weir_verdict verdict_of(const struct member *member)
{
    return member->waits ? member->decision->verdict : member->outcome.verdict;
}

/* Whether the run is refused, and for no other reason than that limits are reached. */
static bool is_limited(const struct run *run)
{
    struct run_word word = {.is_limited = false};
    for (size_t i = 0; i < run->count; i++) {
        run_word_hear(&word, run->members[i].request, verdict_of(&run->members[i]));
    }
    return run_word_locks_out(word);
}

/* Whether it is refused, and its limit locks out who is. Of who waits the keeper decides. */
static bool locks_out(const struct run *run, const struct member *member)
{
    return limit_of(member)->block_ns != 0 && member->is_found && !member->waits
           && run->terms == NULL && member->outcome.verdict == WEIR_LIMITED
           && !member->request->shadow && member->request->operation == WEIR_TAKE
           && is_limited(run);
}

static bool has_to_lock_out(const struct run *run)
{
    bool locks = false;
    for (size_t i = 0; i < run->count; i++) {
        locks = locks || locks_out(run, &run->members[i]);
    }
    return locks;
}

/* ---- without a lock ---- */

/* True if this bucket has stood as it was seen ever since. */
static bool is_unchanged(const struct run *run, const struct member *member)
{
    const struct weir_bucket seen = member->found.seen;
    if (member->is_found) {
        struct weir_bucket now = load_bucket(member->found.state);
        bool is_same_block =
            !is_flagged(member) || table_block_ends_ns(run->table, member->hash) == member->ends_ns;
        return is_same_block && now.empty_at_ns == seen.empty_at_ns && now.word == seen.word
               && load_acquire(&member->found.line->lowered_from_ns) < seen.empty_at_ns;
    }
    struct found found;
    return !table_find(run->table, member->hash, member->home, &found)
           && table_latest_reuse(table_stripe_of(run->table, member->hash)) == seen.empty_at_ns;
}

/* True if all stood as they were seen when the last one was read. */
static bool is_snapshot(const struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        const struct member *member = &run->members[i];
        bool is_last = i + 1 == run->count;
        if (meets_mark(member) || has_idle_flag(run, member)
            || ((!is_last || is_flagged(member)) && !is_unchanged(run, member))) {
            return false;
        }
    }
    return true;
}

/* Goes on in the table to which this one's buckets have moved. False: it cannot be opened. */
static bool follow(struct run *run, uint64_t hash)
{
    run->table = table_follow(run->table, hash);
    for (size_t i = 0; i < run->count && run->table != NULL; i++) {
        run->members[i].home = table_home_of(run->table, run->members[i].hash);
    }
    return run->table != NULL;
}

/* Looks at all, in order. Whoever waits in line for one of them goes first: the keeper is asked, which
 * may take long, so it is done before anything is held. False: the buckets are out of reach. */
static bool look_at_all(struct run *run)
{
    for (size_t i = 0; i < run->count;) {
        struct member *member = &run->members[i];
        look_at(run, member);
        if (member->has_moved) {
            if (!follow(run, member->hash)) {
                return false;
            }
            i = 0;
        } else if (meets_line(run, member)) {
            struct line_keeper *keeper = run->table->root->store.keeper;
            member->waits =
                keeper->meet(keeper, member->request, member->hash, run->now_ns, member->decision);
        } else {
            i++;
        }
    }
    return true;
}

/* ---- with locks ---- */

static void lock(struct run *run, size_t held_count)
{
    run->held_count = held_count;
    run->stripes.count = 0;
    for (size_t i = 0; i < held_count; i++) {
        stripes_add(&run->stripes, table_stripe_of(run->table, run->members[i].hash));
    }
    stripes_lock(run->table, &run->stripes);
}

/* Makes it stand still: marks it, or finds that it has no slot, and nobody else can give it one. */
static void hold(struct run *run, struct member *member)
{
    if (!member->is_found || meets_mark(member) || is_flagged(member) || is_window(member)) {
        look_at(run, member); // now under the lock
    }
    while (member->is_found && !member->has_moved && !meets_line(run, member)) {
        struct weir_bucket marked = member->found.seen;
        assert((marked.word & BUCKET_MARKED) == 0);
        marked.word |= BUCKET_MARKED;
        if (cas_bucket(member->found.state, member->found.seen, marked)) {
            member->is_marked = true;
            return;
        }
        look_at(run, member);
    }
}

/* Writes the state that takes the mark away. Whoever else comes here waits. */
static void write_over_mark(const struct member *member, struct weir_bucket next)
{
    struct found marked = member->found;
    marked.seen.word |= BUCKET_MARKED;
    if (next.empty_at_ns >= marked.seen.empty_at_ns) {
        store_bucket(marked.state, marked.seen, next);
    } else { // a window whose time is less than a period old
        bool done = table_commit(&marked, next);
        assert(done);
        (void)done;
    }
}

/* Lets it go on, from where it stood or with the charge, or locked out. */
static void release(struct run *run, struct member *member, bool is_charging, bool locks)
{
    if (member->is_marked) {
        bool charges = is_charging && is_charged(member);
        struct weir_bucket next = charges ? charged(run, member) : member->found.seen;
        bool blocks = locks && locks_out(run, member)
                      && table_make_block(run->table, member->hash, table_on_full(member->request),
                                          run->now_ns);
        if (has_idle_flag(run, member)) {
            table_end_block(run->table, member->hash, run->now_ns);
            next.word &= ~BUCKET_BLOCKED;
        }
        next.word |= blocks ? BUCKET_BLOCKED : 0;
        write_over_mark(member, next);
        if (charges && is_window(member)) {
            run_drop_events(run, member);
        }
        if (blocks) {
            uint64_t ends_ns =
                kind_block_ends_ns(limit_of(member), member->outcome.moment, run->now_ns);
            member->ends_ns = table_raise_block(run->table, member->hash, ends_ns);
        }
        member->is_marked = false;
    }
}

/* Makes the slots that are missing of members that would be charged: marked from the beginning. Where
 * there is no room, on_full answers. */
static void make_slots(struct run *run)
{
    for (size_t i = 0; i < run->held_count; i++) {
        struct member *member = &run->members[i];
        if (member->is_found || !is_charged(member)) {
            continue;
        }
        member->is_full =
            !table_insert_locked(run->table, member->hash, member->home, BUCKET_MARKED,
                                 table_on_full(member->request), run->now_ns);
        if (!member->is_full) {
            look_at(run, member);
            assert(meets_mark(member));
            member->found.seen.word &= ~BUCKET_MARKED;
            member->is_marked = true;
            continue;
        }
        judge(run, member);
        if (!agrees(member)) {
            return;
        }
    }
}

/* Writes the events of the windows that are charged. Where there is no room, on_full answers, if none can be
 * made; otherwise false. */
static bool write_events(struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        struct member *member = &run->members[i];
        if (!is_window(member) || !is_charged(member) || run_write_event(run, member)) {
            continue;
        }
        if (!run->is_short) {
            run_give_back(run);
            return false;
        }
        event_pool_count_full(&run->table->events);
        member->is_full = true;
        judge(run, member);
        if (!agrees(member)) {
            run_give_back(run);
            return true;
        }
    }
    return true;
}

enum result {
    DECIDED,
    NEEDS_ALL,  // locks: the last cannot be decided upon without
    NEEDS_ROOM, // for the events of windows
    MEETS_LINE, // of somebody who has to be asked first
    HAS_MOVED,  // to another table
};

/* All that is held stands still. Decides with the last bucket as it is, and charges it. */
static enum result decide_last(struct run *run)
{
    struct member *last = &run->members[run->count - 1];
    for (bool is_fresh = false;; is_fresh = true) {
        if (is_fresh) {
            look_at(run, last);
        }
        if (last->has_moved) {
            return HAS_MOVED;
        }
        if (meets_mark(last) || is_flagged(last) || locks_out(run, last)) {
            return NEEDS_ALL;
        }
        if (meets_line(run, last)) {
            return MEETS_LINE;
        }
        if (has_to_charge(run)) {
            if (is_charged(last) && !last->is_found) {
                return NEEDS_ALL;
            }
            make_slots(run);
        }
        bool charges = has_to_charge(run) && is_charged(last);
        if (charges ? cas_bucket(last->found.state, last->found.seen, charged(run, last))
                    : is_fresh) {
            return DECIDED;
        }
    }
}

static enum result decide_held(struct run *run)
{
    for (size_t i = 0; i < run->held_count; i++) {
        struct member *member = &run->members[i];
        if (!member->waits) {
            hold(run, member);
        } else if (is_window(member)) {
            look_at(run, member);
        }
        if (member->has_moved) {
            return HAS_MOVED;
        }
        if (meets_line(run, member)) {
            return MEETS_LINE;
        }
    }
    if (run->held_count < run->count) {
        return decide_last(run);
    }
    if (has_to_charge(run)) {
        make_slots(run);
    }
    return !has_to_charge(run) || write_events(run) ? DECIDED : NEEDS_ROOM;
}

static enum result decide_locked(struct run *run, size_t held_count)
{
    lock(run, held_count);
    enum result result = decide_held(run);
    bool is_charging = result == DECIDED && has_to_charge(run);
    bool locks = result == DECIDED && has_to_lock_out(run);
    for (size_t i = 0; i < held_count; i++) {
        release(run, &run->members[i], is_charging, locks);
    }
    stripes_unlock(&run->stripes);
    run->held_count = 0;
    return result;
}

/* ---- the question and its answer ---- */

/* A run asks one thing, each bucket once, and under limits that are some. */
static bool is_sound(const struct weir_request *requests, const uint64_t *hashes, size_t count)
{
    enum weir_operation operation = requests[0].operation;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (hashes[i] == hashes[j]) {
                return false;
            }
        }
        if (requests[i].operation != operation || !limit_is_compiled(&requests[i].rule->limit)) {
            return false;
        }
    }
    return operation == WEIR_TAKE || operation == WEIR_CAN_TAKE;
}

static void answer(struct run *run)
{
    bool agree = all_agree(run);
    for (size_t i = 0; i < run->count; i++) {
        struct member *member = &run->members[i];
        const struct weir_limit *limit = limit_of(member);
        struct outcome outcome = member->outcome;
        struct span moment = moment_of(run, member);
        if (member->request->operation == WEIR_CAN_TAKE && member->request->detail != NULL) {
            *member->request->detail =
                (struct weir_detail){.existed = kind_empty_at_ns(limit, moment) > run->now_ns};
        }
        if (member->waits) {
            continue; // the keeper has answered
        }
        run_answer_take(member->decision, limit, &member->charge, outcome, moment, agree,
                        run->now_ns);
        if (outcome.verdict == WEIR_LIMITED && is_window(member)) {
            member->decision->retry_after_ns = (int64_t)(run->windows[i].fits_at_ns - run->now_ns);
        } else if (outcome.verdict == WEIR_BLOCKED) {
            member->decision->retry_after_ns = (int64_t)(member->ends_ns - run->now_ns);
        }
        decision_lock_out(member->decision, member->ends_ns, run->now_ns);
    }
}

static void start(struct run *run, struct table *table, const struct weir_request *requests,
                  const uint64_t *hashes, size_t count, uint64_t now_ns)
{
    assert(count > 1 && count <= WEIR_TOGETHER_MAX);
    run->table = table;
    run->terms = NULL;
    run->now_ns = now_ns;
    run->count = count;
    run->held_count = 0;
    run->is_short = false;
    for (size_t i = 0; i < count; i++) {
        struct member *member = &run->members[i]; // looking at it fills in the rest
        member->request = &requests[i];
        member->hash = hashes[i];
        member->home = table_home_of(table, hashes[i]);
        member->charge = table_charge(table, &requests[i], now_ns);
        member->is_marked = member->waits = member->is_full = false;
    }
}

static bool has_window(const struct run *run)
{
    bool has = false;
    for (size_t i = 0; i < run->count; i++) {
        has = has || is_window(&run->members[i]);
    }
    return has;
}

/* False: the buckets are out of reach. */
static bool decide(struct run *run)
{
    if (!look_at_all(run)) {
        return false;
    }
    bool needs_all = has_window(run) || has_to_lock_out(run);
    if (!needs_all && !has_to_charge(run) && is_snapshot(run)) {
        return true;
    }
    size_t held_count = needs_all ? run->count : run->count - 1;
    enum result result;
    while ((result = decide_locked(run, held_count)) != DECIDED) {
        held_count = result == NEEDS_ALL ? run->count : held_count;
        run->is_short = run->is_short || (result == NEEDS_ROOM && !run_find_chunks(run));
        if (result != NEEDS_ALL && !look_at_all(run)) {
            return false;
        }
    }
    return true;
}

void table_decide_together(struct table *table, const struct weir_request *requests,
                           const uint64_t *hashes, struct weir_decision *decisions, size_t count,
                           uint64_t now_ns)
{
    struct run run;
    if (!is_sound(requests, hashes, count)) {
        answer_nonsense(requests, decisions, count);
        return;
    }
    start(&run, table, requests, hashes, count, now_ns);
    for (size_t i = 0; i < count; i++) {
        run.members[i].decision = &decisions[i];
    }
    if (decide(&run)) {
        answer(&run);
    } else {
        table_answer_undecided(table, requests, decisions, count, now_ns);
    }
}

/* By on_error. True if all of it is allowed. */
static bool answer_undecided_in_line(const struct run *run, struct outcome *outcomes)
{
    bool agree = true;
    for (size_t i = 0; i < run->count; i++) {
        const struct member *member = &run->members[i];
        struct weir_detail unused;
        outcomes[i] = undecided_outcome(member->request, &member->charge, &unused, run->now_ns);
        agree = agree && (member->request->shadow || outcomes[i].verdict == WEIR_ALLOWED);
    }
    for (size_t i = 0; i < run->count && !agree; i++) {
        if (outcomes[i].verdict == WEIR_ALLOWED) {
            outcomes[i].moment = (struct span){run->now_ns, 0};
        }
    }
    return agree;
}

bool table_decide_together_in_line(struct store *store, const struct weir_request *requests,
                                   const uint64_t *ids, const struct line_terms *terms,
                                   struct outcome *outcomes, size_t count, uint64_t now_ns)
{
    struct run run;
    start(&run, table_current(store), requests, ids, count, now_ns);
    run.terms = terms;
    if (!decide(&run)) {
        return answer_undecided_in_line(&run, outcomes);
    }
    bool agree = all_agree(&run);
    bool charges = agree && requests[0].operation == WEIR_TAKE;
    for (size_t i = 0; i < count; i++) {
        const struct member *member = &run.members[i];
        outcomes[i] = member->outcome;
        if (member->is_full && !member->is_found) {
            outcomes[i].moment = (struct span){now_ns, 0};
        } else if (member->is_full || (!charges && member->outcome.verdict == WEIR_ALLOWED)) {
            outcomes[i].moment = moment_of(&run, member);
        }
    }
    return agree;
}
