/* SPDX-License-Identifier: MIT */
#include "server/asking.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/time_units.h"
#include "core/undecided.h"
#include "limiter/limiter_state.h"
#include "platform/siphash.h"
#include "server/connection.h"
#include "server/editions.h"
#include "server/startup.h"
#include "server/worker.h"

/* What a connection has asked; in the memory of its batch.
 *   connection   NULL: it has ended, and the batch is on the worker's list of those that are answered
 *   edition      under which it asked: the worker's own, unless it was kept
 *   is_answered  the answers are there, and it is on that list no longer: an event of the connection, which may come
 *                before its turn, does not use it
 *   used_count   answers that the engine has had; used_details: of them, those with a detail
 *   digests      of the questions, in order */
struct inquiry {
    struct batch *batch;
    struct connection *connection;
    struct edition *edition;
    struct inquiry *next_answered;
    uint32_t used_count, used_details;
    bool is_answered;
    bool has_kept_edition;
    uint64_t digests[];
};

bool asking_is_out(const struct connection *connection)
{
    return connection->inquiry != NULL && !connection->inquiry->is_answered;
}

/* ---- questions ---- */

/* Tells questions apart: another key, limit, cost or operation is another number, but for one case in 2^64. The hash
 * keys of limits are random, so none is another one with the numbers of a question in it. */
static uint64_t digest_of(const struct weir_request *request)
{
    const struct weir_rule *rule = request->rule;
    uint64_t spread_ns = request->block_ns * UINT64_C(0x9e3779b97f4a7c15); // odd, so none is lost
    uint64_t what = (uint64_t)request->operation << 1 | (uint64_t)request->and_next;
    uint64_t key[2] = {rule->hash_key[0] ^ request->cost_micro,
                       rule->hash_key[1] ^ spread_ns ^ what};
    return siphash13(key, request->key, request->key_len);
}

/* The answers of those that were not asked, or of which nobody knows. */
static void answer_by_policy(struct worker *worker, const struct weir_request *requests,
                             struct weir_decision *decisions, size_t count, enum asking_failure why)
{
    counter_add(&worker->desk.shown.failures[why], count);
    worker->service.undecided = "the store does not answer";
    answer_undecided(requests, decisions, count, (uint64_t)worker->service.wall_s * NS_PER_S);
}

static void on_answers(struct batch *batch)
{
    struct worker *worker = batch->asker;
    struct asking_desk *desk = &worker->desk;
    struct inquiry *inquiry = batch->own;
    inquiry->next_answered = NULL;
    *(desk->answered_last != NULL ? &desk->answered_last->next_answered : &desk->answered_first) =
        inquiry;
    desk->answered_last = inquiry;
}

static enum progress ask(struct worker *worker, const struct weir_request *requests,
                         struct weir_decision *decisions, size_t count)
{
    struct connection *connection = worker->running;
    bool is_test = worker->server->options.test_clock;
    struct asking asking = {.requests = requests,
                            .count = count,
                            .now_ns = is_test ? worker->service.now_ns : STORE_NOW,
                            .own_bytes = sizeof(struct inquiry) + count * sizeof(uint64_t),
                            .asker = worker,
                            .done = on_answers};
    assert(connection->inquiry == NULL);
    struct batch *batch = port_decide(worker->desk.port, &asking);
    if (batch == NULL) {
        answer_by_policy(worker, requests, decisions, count, ASKING_DOWN);
        return DECIDED;
    }
    struct inquiry *inquiry = batch->own;
    *inquiry =
        (struct inquiry){.batch = batch, .connection = connection, .edition = worker->edition};
    for (size_t i = 0; i < count; i++) {
        inquiry->digests[i] = digest_of(&requests[i]);
    }
    connection->inquiry = inquiry;
    return PENDING;
}

/* ---- answers ---- */

/* Whether these are the next questions that were asked. */
static bool are_asked(const struct inquiry *inquiry, const struct weir_request *requests,
                      size_t count)
{
    bool are_asked = count <= inquiry->batch->count - inquiry->used_count;
    for (size_t i = 0; are_asked && i < count; i++) {
        are_asked = inquiry->digests[inquiry->used_count + i] == digest_of(&requests[i]);
    }
    return are_asked;
}

static void copy_answers(struct inquiry *inquiry, const struct weir_request *requests,
                         struct weir_decision *decisions, size_t count)
{
    memcpy(decisions, inquiry->batch->decisions + inquiry->used_count, count * sizeof *decisions);
    for (size_t i = 0; i < count; i++) {
        if (requests[i].detail != NULL) {
            *requests[i].detail = batch_details(inquiry->batch)[inquiry->used_details++];
        }
    }
}

/* Why there is an error among answers of a store that was there. */
static const char *explain_errors(const struct worker *worker,
                                  const struct weir_decision *decisions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (decisions[i].verdict == WEIR_FAILED) {
            return worker->server->limiter->store->ops->remote->cannot;
        }
    }
    return NULL;
}

/* The engine asks the same again. If it ever asks anything else, that is our mistake: on_error answers, and nobody gets
 * an answer that is somebody else's. (That engines do not is shown by tests/property/property_late.c.) */
static void hand_out(struct worker *worker, const struct weir_request *requests,
                     struct weir_decision *decisions, size_t count)
{
    struct inquiry *inquiry = worker->running->inquiry;
    bool is_right = are_asked(inquiry, requests, count);
    if (is_right && inquiry->batch->fate == FATE_DECIDED) {
        copy_answers(inquiry, requests, decisions, count);
        worker->service.undecided = explain_errors(worker, decisions, count);
    } else {
        answer_by_policy(worker, requests, decisions, count,
                         inquiry->batch->fate == FATE_NOT_ASKED ? ASKING_NOT_ASKED
                                                                : ASKING_UNKNOWN);
    }
    count = count < worker->service.answers_left ? count : worker->service.answers_left;
    inquiry->used_count += (uint32_t)count;
    worker->service.answers_left -= count;
}

enum progress asking_decide(struct worker *worker, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count)
{
    if (worker->service.answers_left == 0) {
        return ask(worker, requests, decisions, count);
    }
    hand_out(worker, requests, decisions, count);
    return DECIDED;
}

/* ---- the connection ---- */

static void release(struct worker *worker, struct inquiry *inquiry)
{
    if (inquiry->has_kept_edition) {
        editions_drop(worker, inquiry->edition);
    }
    port_forget(inquiry->batch);
}

void asking_lend(struct worker *worker, struct connection *connection)
{
    const struct inquiry *inquiry = connection->inquiry;
    assert(inquiry->is_answered);
    worker->service.answers_left = inquiry->batch->count - inquiry->used_count;
    editions_lend(worker, inquiry->edition);
}

void asking_take_back(struct worker *worker, struct connection *connection, bool is_over)
{
    is_over = is_over || worker->service.answers_left == 0;
    worker->service.answers_left = 0;
    editions_lend(worker, worker->edition);
    if (is_over) {
        release(worker, connection->inquiry);
        connection->inquiry = NULL;
    }
}

/* One that is on the list of the answered is released there. */
void asking_forget(struct worker *worker, struct connection *connection)
{
    struct inquiry *inquiry = connection->inquiry;
    connection->inquiry = NULL;
    inquiry->connection = NULL;
    bool is_listed = inquiry->next_answered != NULL || worker->desk.answered_last == inquiry;
    if (!is_listed) {
        release(worker, inquiry);
    }
}

static void keep_edition(struct worker *worker, enum wait wait)
{
    for (struct connection *one = worker->lists[wait].first; one != NULL; one = one->next) {
        struct inquiry *inquiry = one->inquiry;
        if (inquiry != NULL && !inquiry->has_kept_edition) {
            inquiry->has_kept_edition = true;
            (void)editions_hold(worker);
        }
    }
}

void asking_keep_edition(struct worker *worker)
{
    keep_edition(worker, WAIT_STORE);
    keep_edition(worker, WAIT_WRITE); // its client does not take the answers before that
}

/* ---- the turn ---- */

static struct inquiry *take_answered(struct asking_desk *desk)
{
    struct inquiry *inquiry = desk->answered_first;
    if (inquiry != NULL) {
        inquiry->is_answered = true;
        desk->answered_first = inquiry->next_answered;
        inquiry->next_answered = NULL;
        if (desk->answered_first == NULL) {
            desk->answered_last = NULL;
        }
    }
    return inquiry;
}

/* Running a connection may end others. After about a millisecond the rest waits for the next turn: answers come in a
 * crowd, and others have their turn, too. */
static void bring_answers(struct worker *worker)
{
    uint64_t until_ns = worker->now_ns + AGAIN_NS;
    struct inquiry *inquiry;
    while (worker->now_ns < until_ns && (inquiry = take_answered(&worker->desk)) != NULL) {
        if (inquiry->connection == NULL) {
            release(worker, inquiry);
            continue;
        }
        if (worker->renew_countdown-- == 0) {
            worker_renew_clock(worker);
        }
        connection_run(worker, inquiry->connection, false);
    }
}

static void show_stats(struct asking_desk *desk)
{
    struct port_stats stats;
    port_stats(desk->port, &stats);
    const uint64_t from[] = {stats.asked,  stats.decided, stats.late,         stats.retried,
                             stats.opened, stats.pending, stats.pending_bytes};
    _Static_assert(sizeof from == offsetof(struct asking_stats, failures), "a word for each");
    uint64_t *to = (uint64_t *)&desk->shown;
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED); // statistics, with one writer
    }
}

void asking_bring(struct worker *worker)
{
    struct asking_desk *desk = &worker->desk;
    if (desk->port != NULL) {
        worker_loop_finish(&desk->loop);
        bring_answers(worker);
    }
}

void asking_send(struct worker *worker)
{
    struct asking_desk *desk = &worker->desk;
    if (desk->port != NULL) {
        port_flush(desk->port);
        show_stats(desk);
    }
}

uint64_t asking_next_ns(const struct worker *worker)
{
    if (worker->desk.answered_first != NULL) {
        return 0;
    }
    uint64_t next_ns = loop_timers_next_ns(&worker->desk.loop.timers);
    return next_ns == UINT64_MAX      ? UINT64_MAX
           : next_ns > worker->now_ns ? next_ns - worker->now_ns
                                      : 0;
}

/* ---- the beginning and the end ---- */

/* One line when the first port loses the store, one if any learns another reason than that, and one when the last has
 * found the store again. Under the outage's mutex. */
static void note_event(struct server *server, enum port_event event, const char *why)
{
    struct outage *outage = &server->outage;
    char url[STORE_SHOWN_MAX];
    startup_show_store(server, url);
    /* Relaxed: a count; nothing else depends on it. */
    if (event == PORT_WENT_DOWN) {
        if (atomic_fetch_add_explicit(&outage->down_count, 1, memory_order_relaxed) == 0) {
            (void)snprintf(outage->why, sizeof outage->why, "%s", why);
            outage->is_explained = false;
            LOG(&server->log, LOG_ERROR, "store_down", log_text("url", url), log_text("why", why),
                log_text("until_then", "on_error of each limit answers"));
        }
    } else if (event == PORT_STAYS_DOWN) {
        if (!outage->is_explained && strcmp(outage->why, why) != 0) {
            outage->is_explained = true;
            LOG(&server->log, LOG_ERROR, "store_why", log_text("url", url), log_text("why", why));
        }
    } else if (atomic_fetch_sub_explicit(&outage->down_count, 1, memory_order_relaxed) == 1) {
        LOG(&server->log, LOG_INFO, "store_up", log_text("url", url));
    }
}

static void on_event(void *context, enum port_event event, const char *why)
{
    struct server *server = ((struct worker *)context)->server;
    (void)pthread_mutex_lock(&server->outage.mutex);
    note_event(server, event, why);
    (void)pthread_mutex_unlock(&server->outage.mutex);
}

bool asking_is_down(const struct server *server)
{
    return atomic_load_explicit(&server->outage.down_count, memory_order_relaxed) != 0;
}

bool asking_open(struct worker *worker)
{
    struct store *store = worker->server->limiter->store;
    struct asking_desk *desk = &worker->desk;
    if (store->ops->remote == NULL) {
        return true;
    }
    struct port_config config = {.told = on_event, .context = worker};
    worker_loop_open(&desk->loop, &worker->poller, &worker->now_ns);
    desk->port = port_open(store, store->ops->remote, &desk->loop.loop, &config);
    worker->service.asks_later = true;
    worker->read_bytes = ASKING_READ_BYTES;
    return desk->port != NULL;
}

void asking_close(struct worker *worker)
{
    for (struct inquiry *inquiry; (inquiry = take_answered(&worker->desk)) != NULL;) {
        release(worker, inquiry); // its connection ended when the worker did
    }
    port_close(worker->desk.port);
    worker_loop_close(&worker->desk.loop);
}
