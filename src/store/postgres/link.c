/* SPDX-License-Identifier: MIT */
#include "store/postgres/link.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "platform/random.h"
#include "store/postgres/attempt.h"
#include "store/postgres/flight.h"
#include "store/postgres/pruning.h"
#include "store/postgres/talk.h"

#define RETRY_NS UINT64_C(250000000)
#define PRUNE_LATE_NS                                                                              \
    UINT64_C(2000000000) // a statement that has no answer by then: its connection is lost
#define PRUNE_OVERDUE_NS UINT64_C(1000000000) // it goes before takes that wait, if they never stop

enum { SEAT_COUNT = 2, FLIGHT_WEIGHT_MAX = 1024, RETRY_WEIGHT_MAX = 128 };

/*   SEAT_EMPTY       nobody has needed it yet
 *   SEAT_PAUSING     the timer begins an attempt
 *   SEAT_CONNECTING  an attempt is under way
 *   SEAT_IDLE        connected
 *   SEAT_BUSY        connected, with a flight */
enum seat_state { SEAT_EMPTY, SEAT_PAUSING, SEAT_CONNECTING, SEAT_IDLE, SEAT_BUSY };

/*   watch     of the attempt's fd, or the connection's
 *   since_ns  when it was connected */
struct seat {
    struct link *link;
    enum seat_state state;
    struct attempt *attempt;
    PGconn *connection;
    struct flight *flight;
    struct loop_watch watch;
    struct loop_timer timer;
    uint64_t since_ns;
};

/*   waiting   batches that are not in a flight
 *   is_up     port_link_up() was called; is_down: port_link_down() was
 *   pruner      the seat that has pruning's statement; NULL: none is out
 *   prune_is_due, prune_due_ns  one is to be sent, and since when
 *   prune_timer  for the next statement, or for the one that is out */
struct link {
    struct postgres_store *store;
    const struct libpq *pq;
    struct port *port;
    struct loop *loop;
    struct batch_list waiting;
    bool is_up, is_down;
    struct seat seats[SEAT_COUNT];
    struct pruning pruning;
    struct seat *pruner;
    bool prune_is_due;
    uint64_t prune_due_ns;
    struct loop_timer prune_timer;
};

static bool is_connected(const struct seat *seat)
{
    return seat->state == SEAT_IDLE || seat->state == SEAT_BUSY;
}

/* ---- pruning's statement ---- */

static void pause_pruning(struct link *link)
{
    uint64_t random = 0;
    (void)random_fill(&random, sizeof random); // 0 would do
    uint64_t now_ns = loop_now_ns(link->loop);
    link->pruner = NULL;
    loop_set_timer(link->loop, &link->prune_timer,
                   now_ns + pruning_pause_ns(&link->pruning, now_ns, random));
}

static void drop_pruning(struct seat *seat)
{
    struct link *link = seat->link;
    if (link->pruner == seat) {
        pruning_drop(&link->pruning);
        pause_pruning(link);
    }
}

/* ---- losing a connection ---- */

static void close_seat(struct seat *seat)
{
    struct link *link = seat->link;
    drop_pruning(seat);
    loop_unwatch(link->loop, &seat->watch);
    loop_clear_timer(link->loop, &seat->timer);
    if (seat->attempt != NULL) {
        attempt_abandon(seat->attempt);
    }
    if (seat->connection != NULL) {
        link->pq->finish(seat->connection);
    }
    seat->attempt = NULL;
    seat->connection = NULL;
    seat->state = SEAT_PAUSING;
}

/* What is known of a store that cannot be reached is why the last connection could not be made, or was lost. */
static void go_down_without_any(struct link *link, const char *why)
{
    bool is_any = false;
    for (size_t i = 0; i < SEAT_COUNT; i++) {
        is_any = is_any || is_connected(&link->seats[i]);
    }
    if (!is_any && !link->is_down) {
        link->is_down = true;
        for (size_t i = 0; i < SEAT_COUNT; i++) {
            close_seat(&link->seats[i]); // an attempt that is under way comes too late
        }
        port_link_down(link->port, why);
    }
}

/* The flight is unknown. `after_ns` later another attempt is made, if the link is not down. */
static void lose(struct seat *seat, uint64_t after_ns, const char *why)
{
    struct link *link = seat->link;
    struct flight *flight = seat->flight;
    close_seat(seat);
    seat->flight = NULL;
    if (flight != NULL) {
        flight_end(flight, FATE_UNKNOWN);
    }
    go_down_without_any(link, why);
    if (!link->is_down) {
        loop_set_timer(link->loop, &seat->timer, loop_now_ns(link->loop) + after_ns);
    }
}

/* One that was good for a while is made anew at once. */
static void lose_connection(struct seat *seat, const char *why)
{
    uint64_t age_ns = loop_now_ns(seat->link->loop) - seat->since_ns;
    lose(seat, age_ns >= RETRY_NS ? 0 : RETRY_NS, why);
}

static void lose_with_message(struct seat *seat)
{
    char why[WEIR_ERROR_TEXT_MAX];
    talk_copy_message(why, sizeof why, seat->link->pq->errorMessage(seat->connection));
    lose_connection(seat, why[0] != '\0' ? why : "the connection was closed");
}

/* ---- writing and reading ---- */

/* Sends what libpq holds. While something is left it has to read, too: the server may wait for us to take its answers
 * before it reads on. False: the connection is lost. */
static bool flush(struct seat *seat)
{
    struct link *link = seat->link;
    int left = link->pq->flush(seat->connection);
    unsigned events = left == 0 ? LOOP_READ : LOOP_READ | LOOP_WRITE;
    if (left >= 0 && seat->watch.events != events) {
        left = loop_watch(link->loop, &seat->watch, seat->watch.fd, events) ? 0 : -1;
    }
    return left >= 0;
}

/* Hands over the next statements of a flight. False: the connection is lost, and the seat has been told. */
static bool send(struct seat *seat)
{
    struct link *link = seat->link;
    bool is_sent = flight_send(seat->flight, link->pq, seat->connection, link->store->url.prepares);
    if (!is_sent) {
        lose_with_message(seat);
    }
    return is_sent;
}

/* Reads and reports. False: the connection is lost, and the seat has been told. */
static bool hear(struct seat *seat)
{
    struct link *link = seat->link;
    struct weir_error why = {.message = ""};
    bool is_read = link->pq->consumeInput(seat->connection) == 1;
    enum flight_state state = FLIGHT_OUT;
    if (seat->flight != NULL) { // what came before the end counts
        state = flight_hear(seat->flight, link->pq, seat->connection, &why);
    } else if (link->pruner == seat) {
        state = pruning_hear(&link->pruning, seat->connection, &why);
    } else if (is_read) {
        (void)link->pq->isBusy(seat->connection); // looks at what comes unasked
    }
    if (state == FLIGHT_OVER) {
        flight_forget(seat->flight);
        seat->flight = NULL;
        seat->state = SEAT_IDLE;
        if (link->pruner == seat) {
            pause_pruning(link);
        }
    }
    if (state == FLIGHT_READY) {
        return send(seat);
    }
    if (state == FLIGHT_BROKEN) {
        lose_connection(seat, why.message[0] != '\0' ? why.message : "the connection was closed");
        return false;
    }
    if (!is_read) {
        lose_with_message(seat);
    }
    return is_read;
}

/* ---- flights ---- */

static void give_up(struct link *link, struct batch *batch)
{
    batch_list_remove(&link->waiting, batch);
    port_answered(batch, FATE_NOT_ASKED);
}

static bool goes_with(const struct batch *first, const struct batch *batch, uint64_t weight)
{
    return weight <= (first->is_retry ? RETRY_WEIGHT_MAX : FLIGHT_WEIGHT_MAX)
           && first->is_retry == batch->is_retry && first->now_ns == batch->now_ns;
}

/* Two flights that swap would come between each other's read and write. */
static bool is_swapping(const struct link *link)
{
    bool is_any = false;
    for (size_t i = 0; i < SEAT_COUNT; i++) {
        const struct flight *flight = link->seats[i].flight;
        is_any = is_any || (flight != NULL && flight_swaps(flight));
    }
    return is_any;
}

/* Batches for one flight: those whose asker still waits. The port takes back by itself what is past its deadline. */
static struct batch_list choose(struct link *link)
{
    struct batch_list chosen = {.order = BATCH_BY_PLACE};
    uint64_t now_ns = loop_now_ns(link->loop);
    uint64_t weight = 0;
    bool waits = is_swapping(link);
    struct batch *next;
    for (struct batch *batch = link->waiting.first; batch != NULL; batch = next) {
        next = batch_list_next(&link->waiting, batch);
        if (batch->is_forgotten) {
            give_up(link, batch);
            continue;
        }
        if (waits && ask_of(batch)->is_swap) {
            continue;
        }
        weight += ask_of(batch)->weight;
        if (chosen.first != NULL && !goes_with(chosen.first, batch, weight)) {
            break;
        }
        if (now_ns < batch->deadline_ns) {
            batch_list_remove(&link->waiting, batch);
            batch_list_add(&chosen, batch);
        }
    }
    return chosen;
}

static void give_up_all(struct batch_list *batches)
{
    for (struct batch *batch; (batch = batch_list_take(batches)) != NULL;) {
        ask_of(batch)->is_written = false;
        port_answered(batch, FATE_NOT_ASKED);
    }
}

static void depart(struct seat *seat, struct flight *flight)
{
    seat->flight = flight;
    seat->state = SEAT_BUSY;
    if (send(seat) && !flush(seat)) {
        lose_with_message(seat);
    }
}

static void start_flight(struct seat *seat)
{
    struct batch_list chosen = choose(seat->link);
    struct flight *flight = chosen.first != NULL ? flight_make(&chosen) : NULL;
    if (flight != NULL) {
        depart(seat, flight);
    } else {
        give_up_all(&chosen);
    }
}

/* Now it is needed. */
static void connect_soon(struct seat *seat)
{
    seat->state = SEAT_PAUSING;
    loop_set_timer(seat->link->loop, &seat->timer, 0);
}

static void start_pruning(struct seat *seat)
{
    struct link *link = seat->link;
    uint64_t now_ns = loop_now_ns(link->loop);
    link->prune_is_due = false;
    link->pruner = seat;
    seat->state = SEAT_BUSY;
    loop_set_timer(link->loop, &link->prune_timer, now_ns + PRUNE_LATE_NS);
    if (!pruning_send(&link->pruning, link->pq, seat->connection, now_ns) || !flush(seat)) {
        lose_with_message(seat);
    }
}

/* Over one seat while the other is there for takes: an idle one, and only if both are connected. */
static void prune_if_due(struct link *link)
{
    struct seat *idle = NULL;
    bool are_all_there = true;
    for (size_t i = 0; i < SEAT_COUNT && link->prune_is_due && !link->is_down; i++) {
        struct seat *seat = &link->seats[i];
        if (seat->state == SEAT_EMPTY) {
            connect_soon(seat);
        }
        idle = seat->state == SEAT_IDLE ? seat : idle;
        are_all_there = are_all_there && is_connected(seat);
    }
    if (idle != NULL && are_all_there) {
        start_pruning(idle);
    }
}

static bool is_prune_overdue(const struct link *link)
{
    return link->prune_is_due && loop_now_ns(link->loop) - link->prune_due_ns >= PRUNE_OVERDUE_NS;
}

static void start_flights(struct link *link)
{
    if (is_prune_overdue(link)) {
        prune_if_due(link);
    }
    for (size_t i = 0; i < SEAT_COUNT && link->waiting.first != NULL && !link->is_down; i++) {
        struct seat *seat = &link->seats[i];
        if (seat->state == SEAT_IDLE) {
            start_flight(seat);
        } else if (seat->state == SEAT_EMPTY) {
            connect_soon(seat);
        }
    }
    if (link->waiting.first == NULL) {
        prune_if_due(link);
    }
}

static void on_socket(void *owner, unsigned events)
{
    struct seat *seat = owner;
    (void)events;
    if (hear(seat) && !flush(seat)) {
        lose_with_message(seat);
    }
    start_flights(seat->link);
}

/* ---- connecting ---- */

static void take_session(struct seat *seat, PGconn *connection)
{
    struct link *link = seat->link;
    seat->connection = connection;
    seat->state = SEAT_IDLE;
    seat->since_ns = loop_now_ns(link->loop);
    seat->watch = (struct loop_watch){.ready = on_socket, .owner = seat};
    if (!loop_watch(link->loop, &seat->watch, link->pq->socket(connection), LOOP_READ)) {
        lose(seat, RETRY_NS, "no memory to watch a connection");
    } else if (!link->is_up) {
        link->is_up = true;
        port_link_up(link->port);
    }
}

static void on_attempt(void *owner, unsigned events)
{
    struct seat *seat = owner;
    struct link *link = seat->link;
    struct weir_error why = {.message = ""};
    (void)events;
    loop_unwatch(link->loop, &seat->watch);
    PGconn *connection = attempt_finish(seat->attempt, &why);
    seat->attempt = NULL;
    if (connection == NULL) {
        lose(seat, RETRY_NS, why.message);
        return;
    }
    take_session(seat, connection);
    start_flights(link);
}

static void connect_seat(struct seat *seat)
{
    struct link *link = seat->link;
    struct weir_error why = {.message = ""};
    seat->state = SEAT_CONNECTING;
    seat->attempt = attempt_start(link->pq, &link->store->url, &why);
    seat->watch = (struct loop_watch){.ready = on_attempt, .owner = seat};
    if (seat->attempt == NULL
        || !loop_watch(link->loop, &seat->watch, attempt_fd(seat->attempt), LOOP_READ)) {
        lose(seat, RETRY_NS, seat->attempt == NULL ? why.message : "no memory to connect");
    }
}

static void on_timer(void *owner)
{
    connect_seat(owner);
}

/* ---- who prunes ---- */

static void on_prune_timer(void *owner)
{
    struct link *link = owner;
    if (link->pruner != NULL) {
        lose_connection(link->pruner, "pruning has no answer");
    } else if (!link->is_down) {
        link->prune_is_due = true;
        link->prune_due_ns = loop_now_ns(link->loop);
    }
    start_flights(link);
}

/* The first look is soon: it does not prune yet, but sees the page. */
static void begin_pruning(struct link *link)
{
    struct link *nobody = NULL;
    link->pruning = (struct pruning){.page = -1, .outcome = PRUNING_LOOKED};
    link->prune_timer = (struct loop_timer){.due = on_prune_timer, .owner = link};
    if (link->store->prunes
        && __atomic_compare_exchange_n(&link->store->pruner, &nobody, link, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED)) { // relaxed: nothing follows from it
        pause_pruning(link);
    }
}

static void end_pruning(struct link *link)
{
    struct link *ours = link;
    loop_clear_timer(link->loop, &link->prune_timer);
    (void)__atomic_compare_exchange_n(&link->store->pruner, &ours, NULL, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED);
}

/* ---- as remote_ops ---- */

static struct link *link_open(struct store *store, struct port *port, struct loop *loop,
                              struct weir_error *error)
{
    struct postgres_store *postgres = (struct postgres_store *)(void *)store;
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        (void)fail(error, WEIR_E_NO_MEMORY, 0, "no memory for a link");
        return NULL;
    }
    link->store = postgres;
    link->pq = postgres->pq;
    link->port = port;
    link->loop = loop;
    link->waiting.order = BATCH_BY_PLACE;
    for (size_t i = 0; i < SEAT_COUNT; i++) {
        link->seats[i].link = link;
        link->seats[i].timer = (struct loop_timer){.due = on_timer, .owner = &link->seats[i]};
    }
    begin_pruning(link);
    PGconn *spare = __atomic_exchange_n(&postgres->spare, NULL, __ATOMIC_ACQ_REL);
    if (spare != NULL) {
        take_session(&link->seats[0], spare);
    } else {
        connect_seat(&link->seats[0]);
    }
    return link;
}

static void link_send(struct link *link, struct batch_list *asked)
{
    for (struct batch *batch; (batch = batch_list_take(asked)) != NULL;) {
        struct ask *ask = ask_of(batch);
        ask->is_written = false;
        if (ask->asked_count == 0) {
            port_answered(batch, FATE_DECIDED);
        } else {
            batch_list_add(&link->waiting, batch);
        }
    }
    start_flights(link);
}

static bool link_take_back(struct link *link, struct batch *batch)
{
    bool is_ours = !ask_of(batch)->is_written;
    if (is_ours) {
        batch_list_remove(&link->waiting, batch);
    }
    return is_ours;
}

static void link_hear(struct link *link)
{
    for (size_t i = 0; i < SEAT_COUNT && !link->is_down; i++) {
        struct seat *seat = &link->seats[i];
        if (is_connected(seat) && hear(seat) && !flush(seat)) {
            lose_with_message(seat);
        }
    }
    start_flights(link);
}

static void link_probe(struct link *link)
{
    for (size_t i = 0; i < SEAT_COUNT; i++) {
        if (link->seats[i].state == SEAT_IDLE) {
            struct flight *probe = flight_make_probe(link->port);
            if (probe != NULL) {
                depart(&link->seats[i], probe);
            }
            return;
        }
    }
}

static void link_close(struct link *link)
{
    for (size_t i = 0; i < SEAT_COUNT; i++) {
        struct seat *seat = &link->seats[i];
        flight_forget(seat->flight);
        close_seat(seat);
    }
    end_pruning(link);
    free(link);
}

const struct remote_ops postgres_link_ops = {
    .is_of_all_hosts = true,
    .cannot = QUESTION_CANNOT,
    .ask_bytes = question_ask_bytes,
    .copy = question_copy,
    .link_open = link_open,
    .link_send = link_send,
    .link_take_back = link_take_back,
    .link_hear = link_hear,
    .link_probe = link_probe,
    .link_close = link_close,
};
