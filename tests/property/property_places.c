/* SPDX-License-Identifier: MIT
 *
 * What places.h promises, of all short walks and of random ones: three servers wait for one bucket of a store. Clients come, with costs and
 * patience of several sizes, and leave again; others take without waiting. Servers are killed, and begin anew. In half of
 * the walks
 * messages take their time and pass each other, some are lost, servers stand still, and their clocks have other rates
 * and other origins than the store's. In the end all that went is replayed:
 *
 *   the limit holds          by the definition of a bucket, and of a queue: beyond it is no more than the store drains in
 *                            the time that somebody was late, which is never more than WEIR_JITTER_NS and what a server
 *                            cannot know of the store's clock
 *   nobody goes early        not before a full bucket before the end of its piece
 *   no piece is used twice   nor given back and used
 *   nobody overtakes         while nobody leaves, and no server dies, among all servers; else among those of a server
 *   the store keeps its word  if nobody is late each goes at the instant that the store has named, or earlier; while nobody
 *                            leaves, just then
 *   nothing leaks            when all is over no server keeps anything
 *
 * seeds.h says how to repeat one walk, and how to go on for longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/time_units.h"
#include "seeds.h"
#include "store/heard_clock.h"
#include "store/places.h"
#include "weir/limit.h"

__extension__ typedef __int128 int128;

enum {
    WALKS = 50000,
    STEPS = 120,
    SERVERS = 3,
    CLIENTS = STEPS,
    MESSAGES = 2 * STEPS,
    GONE = 2 * STEPS,
    ACTS = 7,
    SHORT_MAX = 6,
};

enum client_state { ABSENT, WAITS, WENT, REFUSED, LEFT, LOST };

/* One that waits.
 *   number       in the order in which the store let them in, or they found a free place
 *   promised_ns  when it goes at the latest */
struct client {
    struct places_waiter waiter; // first: it leads back here
    enum client_state state;
    int server, life;
    uint64_t cost_micro, deadline_ns, promised_ns;
    int number;
};

enum message_state { NO_MESSAGE, TO_STORE, TO_SERVER };

/* An ask, with a client; or a gift. It may be lost on either way. */
struct message {
    enum message_state state;
    int server, life;
    struct client *client;
    struct place *asked;
    struct places_event gift;
    uint64_t cost_micro, patience_ns, at_ns, sent_own_ns, reading_ns;
    struct span moment;
    bool is_allowed, is_lost;
};

/* What went: a piece of the bucket's time, and when. */
struct went {
    int128 from, to;
    uint64_t at_ns;
    int server, number;
};

/*   rate  how many millionths its clock is faster than the store's
 *   life  how many times it has been killed
 *   stalled_until_ns  it stands still until then */
struct server {
    struct places *places;
    struct heard_clock clock;
    uint64_t origin_ns, stalled_until_ns;
    int rate, life;
};

struct walk {
    uint64_t seed, random;
    struct weir_limit limit;
    struct span moment;
    uint64_t now_ns;
    struct server servers[SERVERS];
    struct client clients[CLIENTS];
    int client_count, number;
    struct message messages[MESSAGES];
    struct went went[GONE];
    int went_count;
    bool is_punctual, is_crowded, has_left, has_stalled;
    int128 latest; // in D-ths of a nanosecond: by how much somebody was late
};

static struct walk *current;
static uint64_t waited, given, kept, moved, again, killed;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("WEIR_SEED=%llu: not so: %s", (unsigned long long)current->seed, #condition); \
        }                                                                                          \
    } while (0)

static uint64_t random_word(void)
{
    current->random ^= current->random << 13; // xorshift64, G. Marsaglia, 2003
    current->random ^= current->random >> 7;
    current->random ^= current->random << 17;
    return current->random * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t below(uint64_t limit)
{
    return (random_word() >> 20) % limit;
}

static bool chance(uint64_t one_in)
{
    return below(one_in) == 0;
}

static int128 parts_of(struct span moment)
{
    return (int128)moment.ns * current->limit.denominator + moment.rest;
}

static int128 parts_at(uint64_t now_ns)
{
    return (int128)now_ns * current->limit.denominator;
}

static int128 full(void)
{
    return parts_of(limit_full(&current->limit));
}

static bool is_queue(void)
{
    return current->limit.kind == WEIR_KIND_QUEUE;
}

static bool goes_first_now(void)
{
    return current->limit.first == WEIR_FIRST_NOW;
}

/* When the user of a piece may go, in D-ths of a nanosecond. */
static int128 instant_of(int128 from, int128 to)
{
    if (!is_queue()) {
        return to - full();
    }
    return goes_first_now() ? from : to;
}

/* ---- clocks ---- */

static uint64_t own_ns(const struct server *server, uint64_t now_ns)
{
    int64_t faster_ns = (int64_t)((int128)now_ns * server->rate / 1000000);
    return server->origin_ns + now_ns + (uint64_t)faster_ns;
}

/* The first instant at which a server's own clock shows this. */
static uint64_t store_time_ns(const struct server *server, uint64_t own)
{
    uint64_t low = 0;
    uint64_t high = own - server->origin_ns + own / 500;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (own_ns(server, middle) >= own) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* What it knows. In a walk that is punctual it sees the store's clock. */
static uint64_t known_ns(const struct server *server)
{
    if (current->is_punctual) {
        return current->now_ns;
    }
    uint64_t now_ns = heard_clock_now_ns(&server->clock, own_ns(server, current->now_ns));
    CHECK(now_ns <= current->now_ns);
    return now_ns;
}

static uint64_t next_of_server(const struct server *server)
{
    uint64_t next_ns = places_next_ns(server->places);
    if (next_ns == PLACES_NEVER || current->is_punctual) {
        return next_ns;
    }
    uint64_t own = heard_clock_when_ns(&server->clock, next_ns);
    uint64_t then_ns = store_time_ns(server, own);
    return then_ns > server->stalled_until_ns ? then_ns : server->stalled_until_ns;
}

/* ---- messages ---- */

static uint64_t some_delay_ns(void)
{
    if (current->is_punctual) {
        return 0;
    }
    return chance(30) ? below(40) * NS_PER_MS : below(NS_PER_MS);
}

static void send_message(struct message message)
{
    int i = 0;
    while (current->messages[i].state != NO_MESSAGE) {
        i++;
        CHECK(i < MESSAGES);
    }
    const struct server *server = &current->servers[message.server];
    message.state = TO_STORE;
    message.life = server->life;
    message.sent_own_ns = own_ns(server, current->now_ns);
    message.at_ns = current->now_ns + some_delay_ns();
    message.is_lost = !current->is_punctual && chance(20);
    current->messages[i] = message;
}

static void note_went(int128 from, int128 to, int server, int number)
{
    CHECK(current->went_count < GONE);
    current->went[current->went_count++] = (struct went){from, to, current->now_ns, server, number};
}

/* A take, which may wait. */
static bool decide(uint64_t cost_micro, uint64_t patience_ns)
{
    struct charge charge = charge_of(&current->limit, cost_micro);
    int128 beyond = parts_of(places_beyond(&current->limit, &charge, patience_ns));
    struct span after = span_add(bucket_start(current->moment, current->now_ns), charge.span,
                                 current->limit.denominator);
    bool is_allowed = parts_of(after) <= parts_at(current->now_ns) + beyond;
    if (is_allowed) {
        current->moment = after;
    }
    return is_allowed;
}

static void come_to_store(struct message *message)
{
    message->reading_ns = current->now_ns;
    if (message->client != NULL) {
        message->is_allowed = decide(message->cost_micro, message->patience_ns);
    } else {
        struct span to = message->gift.to;
        message->is_allowed = current->moment.ns == to.ns && current->moment.rest == to.rest
                              && current->now_ns <= message->gift.until_ns;
        if (message->is_allowed) {
            current->moment = message->gift.from;
            given++;
        }
    }
    message->moment = current->moment;
    message->state = TO_SERVER;
    message->at_ns += some_delay_ns();
    uint64_t stalled_ns = current->servers[message->server].stalled_until_ns;
    message->at_ns = message->at_ns > stalled_ns ? message->at_ns : stalled_ns;
    message->is_lost |= !current->is_punctual && chance(20);
}

static void hear_grant(struct server *server, struct client *client, const struct message *message)
{
    int128 to = parts_of(message->moment);
    int128 from = to - parts_of(charge_of(&current->limit, message->cost_micro).span);
    bool has_left = message->asked != client->waiter.asked;
    enum places_grant grant = places_granted(server->places, message->asked, message->moment,
                                             message->reading_ns, known_ns(server));
    client->number = current->number++;
    int128 waits = instant_of(from, to) - parts_at(message->reading_ns);
    CHECK(grant == (has_left ? PLACES_FOR_NONE : waits > 0 ? PLACES_IN_LINE : PLACES_GOES));
    int128 instant_ns =
        (instant_of(from, to) + current->limit.denominator - 1) / current->limit.denominator;
    client->promised_ns = (uint64_t)instant_ns;
    if (grant == PLACES_GOES) { // as a take that does not wait: when it was charged
        note_went(from, to, message->server, client->number);
        current->went[current->went_count - 1].at_ns = message->reading_ns;
        client->state = WENT;
    }
}

static void come_to_server(struct message *message)
{
    struct server *server = &current->servers[message->server];
    struct client *client = message->client;
    if (message->life != server->life) {
        return;
    }
    if (!message->is_lost) {
        uint64_t heard_ns = own_ns(server, current->now_ns);
        bool is_back =
            heard_clock_hear(&server->clock, message->sent_own_ns, message->reading_ns, heard_ns);
        CHECK(!is_back);
    }
    if (client == NULL) {
        places_given_back(server->places, message->gift.line,
                          message->is_lost      ? PLACES_SWAP_UNKNOWN
                          : message->is_allowed ? PLACES_SWAPPED
                                                : PLACES_NOT_SWAPPED,
                          known_ns(server));
        kept += !message->is_lost && !message->is_allowed;
    } else if (message->is_allowed && !message->is_lost) {
        hear_grant(server, client, message);
    } else {
        places_refused(server->places, message->asked,
                       message->is_lost ? (struct span){0, 0} : message->moment, known_ns(server));
        client->state = client->state == WAITS ? REFUSED : client->state;
    }
}

/* The earliest message, if there is one until then. */
static struct message *next_message(uint64_t then_ns)
{
    struct message *next = NULL;
    for (int i = 0; i < MESSAGES; i++) {
        struct message *message = &current->messages[i];
        if (message->state != NO_MESSAGE && message->at_ns <= then_ns
            && (next == NULL || message->at_ns < next->at_ns)) {
            next = message;
        }
    }
    return next;
}

static void carry(struct message *message)
{
    if (message->state == TO_STORE && !(message->is_lost && chance(2))) {
        come_to_store(message);
        return;
    }
    struct message heard = *message;
    message->state = NO_MESSAGE;
    come_to_server(&heard);
}

/* ---- servers ---- */

static void go(const struct server *server, struct client *client, const struct places_event *event)
{
    int128 from = parts_of(event->from);
    int128 to = parts_of(event->to);
    int128 now = parts_at(current->now_ns);
    int128 latest_start = is_queue() && !goes_first_now() ? to : from;
    int128 late = now - latest_start;
    int128 unknown = now - parts_at(known_ns(server));
    CHECK(client->state == WAITS && client->waiter.line == NULL);
    CHECK(instant_of(from, to) <= now);
    CHECK(late <= unknown + parts_at(WEIR_JITTER_NS + 1));
    current->latest = late > current->latest ? late : current->latest;
    if (!current->has_stalled && current->is_punctual) {
        CHECK(current->now_ns <= client->promised_ns);
        CHECK(current->has_left || current->now_ns == client->promised_ns);
        CHECK(late < parts_at(1));
        moved += current->now_ns < client->promised_ns;
    }
    note_went(from, to, client->server, client->number);
    client->state = WENT;
    waited++;
}

static void run_server(int at)
{
    struct server *server = &current->servers[at];
    struct places_event event;
    if (current->now_ns < server->stalled_until_ns) {
        return;
    }
    while ((event = places_next(server->places, known_ns(server))).kind != PLACES_NOTHING) {
        struct client *client = (struct client *)(void *)event.waiter;
        switch (event.kind) {
        case PLACES_NOTHING: break;
        case PLACES_GO: go(server, client, &event); break;
        case PLACES_AGAIN:
            CHECK(client->state == WAITS && !current->is_punctual);
            client->state = REFUSED;
            again++;
            break;
        case PLACES_GIVE_BACK:
            CHECK(parts_of(event.from) < parts_of(event.to));
            CHECK(event.until_ns >= known_ns(server));
            send_message((struct message){.server = at, .gift = event});
            break;
        }
    }
    CHECK(places_valid(server->places));
}

static void advance(uint64_t then_ns)
{
    for (;;) {
        uint64_t next_ns = then_ns;
        int next = -1;
        for (int i = 0; i < SERVERS; i++) {
            uint64_t its_ns = next_of_server(&current->servers[i]);
            if (its_ns < next_ns) {
                next_ns = its_ns;
                next = i;
            }
        }
        struct message *message = next_message(next_ns);
        if (message != NULL) {
            current->now_ns = message->at_ns > current->now_ns ? message->at_ns : current->now_ns;
            next = message->server;
            carry(message);
        } else {
            current->now_ns = next_ns > current->now_ns ? next_ns : current->now_ns;
        }
        if (next < 0) {
            return;
        }
        run_server(next);
    }
}

/* ---- what happens ---- */

static void begin_server(int at)
{
    static const struct places_config CONFIG = {.place_count_max = STEPS, .line_count_max = 1};
    struct server *server = &current->servers[at];
    void *memory = server->places != NULL ? (void *)server->places : malloc(places_bytes(&CONFIG));
    assert_non_null(memory);
    server->places = places_init(memory, &CONFIG);
    server->clock = (struct heard_clock){0, 0};
}

static uint64_t some_cost(void)
{
    uint64_t units =
        chance(2) ? 1 : 1 + below(current->limit.capacity < 4 ? current->limit.capacity : 4);
    return current->seed % 3 == 0 ? WEIR_UNIT
                                  : units * WEIR_UNIT - (chance(4) ? below(3) * 333333 : 0);
}

static uint64_t unit_ns(void)
{
    return current->limit.unit_ns + 1;
}

static void come(int at, uint64_t cost_micro, uint64_t patience_ns)
{
    struct client *client = &current->clients[current->client_count++];
    client->server = at;
    struct server *server = &current->servers[client->server];
    struct charge charge = charge_of(&current->limit, cost_micro);
    struct places_question question = {.limit = &current->limit, .span = charge.span};
    uint64_t own_deadline_ns = own_ns(server, current->now_ns) + patience_ns;
    if (current->now_ns < server->stalled_until_ns
        || span_less(places_beyond(&current->limit, &charge, patience_ns), charge.span)) {
        client->state = REFUSED;
        return;
    }
    question.latest_ns = current->is_punctual ? current->now_ns + patience_ns
                                              : heard_clock_now_ns(&server->clock, own_deadline_ns);
    client->state = WAITS;
    client->deadline_ns = client->promised_ns = current->now_ns + patience_ns;
    switch (places_join(server->places, &client->waiter, &question, known_ns(server))) {
    case PLACES_FULL: CHECK(false); break;
    case PLACES_STANDS: client->number = current->number++; break;
    case PLACES_ASK:
        send_message((struct message){.server = client->server,
                                      .client = client,
                                      .asked = client->waiter.asked,
                                      .cost_micro = cost_micro,
                                      .patience_ns = patience_ns});
        break;
    }
    run_server(client->server);
}

static void come_somehow(void)
{
    bool is_patient = current->is_crowded || !chance(3);
    uint64_t patience_ns =
        is_patient ? below(current->is_crowded ? 200 : 40) * unit_ns() : below(3 * unit_ns());
    come(current->is_crowded ? 0 : (int)below(SERVERS), some_cost(), patience_ns);
}

/* The first one that waits, from this one on. */
static void leave(int first)
{
    first = first > 0 ? first : 0;
    for (int i = 0; i < current->client_count; i++) {
        struct client *client = &current->clients[(first + i) % current->client_count];
        struct server *server = &current->servers[client->server];
        if (client->state == WAITS && current->now_ns >= server->stalled_until_ns) {
            CHECK(places_leave(server->places, &client->waiter, known_ns(server)));
            client->state = LEFT;
            current->has_left = true;
            run_server(client->server);
            return;
        }
    }
}

static void kill_server(void)
{
    int at = (int)below(SERVERS);
    for (int i = 0; i < current->client_count; i++) {
        if (current->clients[i].server == at && current->clients[i].state == WAITS) {
            current->clients[i].state = LOST;
        }
    }
    current->servers[at].life++;
    begin_server(at);
    killed++;
}

static void take(void)
{
    uint64_t cost_micro = some_cost();
    struct charge charge = charge_of(&current->limit, cost_micro);
    if (is_queue()) {
        return; // who does not wait for a queue goes by its own clock
    }
    if (decide(cost_micro, 0)) {
        int128 to = parts_of(current->moment);
        note_went(to - parts_of(charge.span), to, -1, -1);
    }
}

static void step(uint64_t leave_one_in, uint64_t kill_one_in)
{
    if (chance(kill_one_in)) {
        kill_server();
    } else if (chance(leave_one_in)) {
        leave(leave_one_in % 2 == 0 ? (int)below((uint64_t)current->client_count + 1)
                                    : current->client_count - (int)below(4));
    } else if (chance(5)) {
        take();
    } else if (!current->is_punctual && chance(20)) {
        struct server *server = &current->servers[below(SERVERS)];
        server->stalled_until_ns = current->now_ns + below(8) * unit_ns() / 2;
        current->has_stalled = true;
    } else if (chance(2) || (current->is_crowded ? !chance(8) : chance(3))) {
        come_somehow();
    } else {
        advance(current->now_ns + below(1 + below(6)) * unit_ns() / (1 + below(4)) + below(3));
    }
}

/* ---- afterwards ---- */

static int by_place(const void *a, const void *b)
{
    const struct went *one = a;
    const struct went *other = b;
    return one->from < other->from ? -1 : one->from > other->from;
}

static int by_time(const void *a, const void *b)
{
    const struct went *one = a;
    const struct went *other = b;
    if (one->at_ns != other->at_ns) {
        return one->at_ns < other->at_ns ? -1 : 1;
    }
    return by_place(a, b);
}

static void check_order(void)
{
    for (int i = 0; i < current->went_count; i++) {
        for (int j = 0; j < i; j++) {
            const struct went *former = &current->went[j];
            const struct went *later = &current->went[i];
            if (former->number < 0 || later->number < 0) {
                continue;
            }
            if (former->server == later->server || !current->has_left) {
                CHECK(former->number < later->number);
            }
        }
    }
}

/* Of a queue two go as far apart as the one of them takes that is behind the other; with first=now the one before. */
static void check_gap(const struct went *former, const struct went *next)
{
    bool is_in_order = former->from < next->from;
    const struct went *counts = is_in_order == goes_first_now() ? former : next;
    CHECK(former->at_ns <= next->at_ns);
    CHECK(counts->to - counts->from <= parts_at(next->at_ns - former->at_ns) + current->latest);
}

static void check_limit(void)
{
    int128 moment = 0;
    for (int i = 0; i < current->went_count; i++) {
        const struct went *went = &current->went[i];
        int128 now = parts_at(went->at_ns);
        if (!is_queue()) {
            moment = (moment > now ? moment : now) + went->to - went->from;
            CHECK(moment <= now + full() + current->latest);
        } else if (i > 0) {
            check_gap(went - 1, went);
        }
    }
}

static void check_all(void)
{
    for (int i = 0; i < current->client_count; i++) {
        CHECK(current->clients[i].state != WAITS);
    }
    for (int i = 0; i < SERVERS; i++) {
        struct places_stats stats = places_stats(current->servers[i].places);
        CHECK(stats.place_count == 0 && stats.waiting_count == 0 && stats.line_count == 0);
    }
    qsort(current->went, (size_t)current->went_count, sizeof current->went[0], by_place);
    for (int i = 1; i < current->went_count; i++) {
        CHECK(current->went[i - 1].to <= current->went[i].from);
    }
    qsort(current->went, (size_t)current->went_count, sizeof current->went[0], by_time);
    check_limit();
    if (current->is_punctual) {
        CHECK(current->latest < parts_at(1));
        check_order();
    }
}

static void draw_limit(void)
{
    static const char *const LIMITS[] = {
        "1/s",
        "10/s",
        "3/s capacity=2",
        "7/3s capacity=5",
        "1000/s capacity=4",
        "1/min capacity=3",
        "999983/s capacity=3",
        "queue 5/s capacity=20",
        "queue 7/3s capacity=20",
        "queue 3/s capacity=20 first=now",
    };
    struct weir_error error;
    const char *text = LIMITS[below(sizeof LIMITS / sizeof LIMITS[0])];
    assert_int_equal(weir_limit_from_text(&current->limit, text, &error), WEIR_OK);
}

static void begin_walk(uint64_t seed, bool is_punctual)
{
    static struct walk walk;
    struct places *places[SERVERS] = {walk.servers[0].places, walk.servers[1].places,
                                      walk.servers[2].places};
    memset(&walk, 0, sizeof walk);
    current = &walk;
    walk.seed = seed;
    walk.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    walk.now_ns = 1000 * NS_PER_S + below(1000);
    walk.is_punctual = is_punctual;
    for (int i = 0; i < SERVERS; i++) {
        struct server *server = &walk.servers[i];
        server->places = places[i];
        server->origin_ns = below(4000) * NS_PER_S;
        server->rate = is_punctual ? 0 : (int)below(1900) - 950;
        begin_server(i);
    }
}

static void end_walk(void)
{
    advance(current->now_ns + 1000 * 3600 * NS_PER_S);
    check_all();
}

static void walk_random(uint64_t seed)
{
    begin_walk(seed, seed % 2 == 0);
    draw_limit();
    current->is_crowded = chance(3);
    uint64_t leave_one_in = chance(3) ? UINT64_MAX : 2 + below(8);
    uint64_t kill_one_in = chance(2) ? UINT64_MAX : 40;
    for (int i = 0; i < STEPS; i++) {
        step(leave_one_in, kill_one_in);
    }
    end_walk();
}

static void free_servers(void)
{
    for (int i = 0; i < SERVERS; i++) {
        free(current->servers[i].places);
        current->servers[i].places = NULL;
    }
}

static void random_walks(void **state)
{
    (void)state;
    if (walk_seeds(WALKS, walk_random)) {
        assert_true(waited > 0 && given > 0 && kept > 0 && moved > 0 && again > 0 && killed > 0);
    }
    print_message("waited %llu, given back %llu, kept %llu, moved up %llu, to ask again %llu, "
                  "killed %llu\n",
                  (unsigned long long)waited, (unsigned long long)given, (unsigned long long)kept,
                  (unsigned long long)moved, (unsigned long long)again, (unsigned long long)killed);
    free_servers();
}

/* ---- all short walks ---- */

static void act(uint64_t what)
{
    switch (what) {
    case 0: come(0, WEIR_UNIT, 100 * NS_PER_S); break;
    case 1: come(0, 2 * WEIR_UNIT, 100 * NS_PER_S); break;
    case 2: come(1, WEIR_UNIT, 100 * NS_PER_S); break;
    case 3: leave(0); break;
    case 4: leave(current->client_count / 2); break;
    case 5: leave(current->client_count - 1); break;
    case 6: advance(current->now_ns + NS_PER_S); break;
    default: break;
    }
}

/* Of a bucket that is full, everything that may happen, one after the other. */
static void all_short_walks(void **state)
{
    (void)state;
    uint64_t acts = getenv("SOAK_MINUTES") != NULL ? SHORT_MAX + 1 : SHORT_MAX;
    uint64_t count = 1;
    struct weir_error error;
    for (uint64_t i = 0; i < acts; i++) {
        count *= ACTS;
    }
    for (uint64_t script = 0; script < count; script += EVERY) {
        begin_walk(script, true);
        assert_int_equal(weir_limit_from_text(&current->limit, "1/s capacity=2", &error), WEIR_OK);
        current->moment = bucket_latest(&current->limit, current->now_ns);
        for (uint64_t i = 0, rest = script; i < acts; i++, rest /= ACTS) {
            act(rest % ACTS);
        }
        end_walk();
    }
    print_message("%llu short walks\n", (unsigned long long)count);
    free_servers();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_short_walks),
        cmocka_unit_test(random_walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
