/* SPDX-License-Identifier: MIT
 *
 * Places, as text: servers 1 to 3, one bucket, and its store. A line says what happens:
 *
 *     F       the bucket is filled
 *     1A      A asks to wait at server 1 for 1 unit; 1A3 for 3 units
 *     -A      A leaves
 *     =2.5    time goes on to second 2.5, and each server looks when something is due
 *     >2.5    the same, but the servers stood still meanwhile
 *     ( )     what is asked between them is decided in that order, and answered at ). With < for ) the answers are heard in
 *             the opposite order, with x they are lost
 *     R       the bucket is reset
 *     K1      server 1 is killed
 *     [ ]     what is given back between them is decided at ]
 *     P2      who comes from now on waits for 2 s at most; 100 s at first
 *     X       the next answer to what is given back is lost
 *
 * and what came of it:
 *
 *     A1.5    A went at second 1.5
 *     A!      A went without waiting
 *     A?      A was refused
 *     A-      A was let in, and had left
 *     A*      A found a place of its server's
 *     A~      A lost its place
 *     5>4     the moment was 5, and is 4 now; 5|4: it was to be 4, but others were there
 *
 * and in the end the bucket's moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/time_units.h"
#include "store/places.h"
#include "weir/limit.h"

enum { SERVERS = 3, LETTERS = 26, TEXT_MAX = 1024, PENDING_MAX = 32 };

/* Seconds of the scripts begin here. */
#define BEGIN_NS (1000 * NS_PER_S)

/* What is on its way to the store. */
struct pending {
    int server;
    struct place *asked;
    struct places_event gift;
    uint64_t cost_micro;
    char letter;
};

struct world {
    struct weir_limit limit;
    struct span moment;
    uint64_t now_ns;
    uint64_t patience_ns;
    void *memory[SERVERS];
    struct places *places[SERVERS]; // NULL: killed
    struct places_waiter waiters[LETTERS];
    int server_of[LETTERS];
    struct pending asked[PENDING_MAX], gifts[PENDING_MAX];
    size_t asked_count, gift_count;
    bool holds_answers, holds_gifts, loses_gift;
    char text[TEXT_MAX];
    size_t len;
};

static struct places_config config = {.place_count_max = 16, .line_count_max = 2};

__attribute__((format(printf, 2, 3))) static void print(struct world *world, const char *format,
                                                        ...)
{
    va_list values;
    va_start(values, format);
    world->len +=
        (size_t)vsnprintf(world->text + world->len, TEXT_MAX - world->len, format, values);
    va_end(values);
    assert_true(world->len < TEXT_MAX);
}

static double seconds(struct span moment)
{
    double ns = (double)moment.ns - (double)BEGIN_NS;
    return ns / 1e9;
}

static void begin(struct world *world, const char *limit)
{
    struct weir_error error;
    *world = (struct world){.now_ns = BEGIN_NS, .patience_ns = 100 * NS_PER_S};
    assert_int_equal(weir_limit_from_text(&world->limit, limit, &error), WEIR_OK);
    for (int i = 0; i < SERVERS; i++) {
        world->memory[i] = malloc(places_bytes(&config));
        assert_non_null(world->memory[i]);
        world->places[i] = places_init(world->memory[i], &config);
    }
}

static bool is_valid(const struct world *world)
{
    for (int i = 0; i < SERVERS; i++) {
        if (world->places[i] != NULL && !places_valid(world->places[i])) {
            return false;
        }
    }
    return true;
}

/* ---- the store ---- */

static struct span decide(struct world *world, uint64_t cost_micro, bool *is_allowed)
{
    const struct weir_limit *limit = &world->limit;
    struct charge charge = charge_of(limit, cost_micro);
    struct span beyond = places_beyond(limit, &charge, world->patience_ns);
    struct span after =
        span_add(bucket_start(world->moment, world->now_ns), charge.span, limit->denominator);
    struct span latest = span_add((struct span){world->now_ns, 0}, beyond, limit->denominator);
    *is_allowed = !span_less(latest, after);
    if (*is_allowed) {
        world->moment = after;
    }
    return world->moment;
}

static void give_back(struct world *world, const struct pending *pending)
{
    const struct places_event *gift = &pending->gift;
    bool is_same = world->moment.ns == gift->to.ns && world->moment.rest == gift->to.rest;
    bool is_done = is_same && world->now_ns <= gift->until_ns;
    print(world, "%g%c%g ", seconds(gift->to), is_done ? '>' : '|', seconds(gift->from));
    if (is_done) {
        world->moment = gift->from;
    }
    struct places *places = world->places[pending->server];
    if (places != NULL) {
        places_given_back(places, gift->line,
                          world->loses_gift ? PLACES_SWAP_UNKNOWN
                          : is_done         ? PLACES_SWAPPED
                                            : PLACES_NOT_SWAPPED,
                          world->now_ns);
    }
    world->loses_gift = false;
}

/* ---- the servers ---- */

static char letter_of(const struct world *world, const struct places_waiter *waiter)
{
    return (char)('A' + (waiter - world->waiters));
}

static void run(struct world *world, int server)
{
    struct places_event event;
    while (world->places[server] != NULL
           && (event = places_next(world->places[server], world->now_ns)).kind != PLACES_NOTHING) {
        struct pending gift = {.server = server, .gift = event};
        switch (event.kind) {
        case PLACES_NOTHING: break;
        case PLACES_GO:
            print(world, "%c%g ", letter_of(world, event.waiter),
                  seconds((struct span){world->now_ns, 0}));
            break;
        case PLACES_AGAIN: print(world, "%c~ ", letter_of(world, event.waiter)); break;
        case PLACES_GIVE_BACK:
            if (world->holds_gifts) {
                world->gifts[world->gift_count++] = gift;
            } else {
                give_back(world, &gift);
            }
            break;
        }
        assert_true(is_valid(world));
    }
}

static void run_all(struct world *world)
{
    for (int i = 0; i < SERVERS; i++) {
        run(world, i);
    }
}

static uint64_t next_of_all(const struct world *world)
{
    uint64_t next_ns = PLACES_NEVER;
    for (int i = 0; i < SERVERS; i++) {
        uint64_t its_ns =
            world->places[i] != NULL ? places_next_ns(world->places[i]) : PLACES_NEVER;
        next_ns = its_ns < next_ns ? its_ns : next_ns;
    }
    return next_ns;
}

static void advance(struct world *world, uint64_t then_ns)
{
    for (uint64_t next_ns; (next_ns = next_of_all(world)) <= then_ns;) {
        world->now_ns = next_ns > world->now_ns ? next_ns : world->now_ns;
        run_all(world);
    }
    world->now_ns = then_ns;
}

struct answer {
    bool is_allowed;
    struct span moment;
};

static void hear(struct world *world, const struct pending *pending, struct answer answer)
{
    struct places *places = world->places[pending->server];
    if (places == NULL) {
        return;
    }
    if (!answer.is_allowed) {
        places_refused(places, pending->asked, answer.moment, world->now_ns);
        print(world, "%c? ", pending->letter);
        return;
    }
    switch (places_granted(places, pending->asked, answer.moment, world->now_ns, world->now_ns)) {
    case PLACES_GOES: print(world, "%c! ", pending->letter); break;
    case PLACES_IN_LINE: break;
    case PLACES_FOR_NONE: print(world, "%c- ", pending->letter); break;
    }
}

static void answer_all(struct world *world, char how)
{
    struct answer answers[PENDING_MAX];
    size_t count = world->asked_count;
    for (size_t i = 0; i < count; i++) {
        answers[i].moment = decide(world, world->asked[i].cost_micro, &answers[i].is_allowed);
    }
    world->asked_count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = how == '<' ? count - 1 - i : i;
        hear(world, &world->asked[at], how == 'x' ? (struct answer){false, {0, 0}} : answers[at]);
        run_all(world);
    }
}

static void join(struct world *world, int server, char letter, uint64_t cost_micro)
{
    struct places_waiter *waiter = &world->waiters[letter - 'A'];
    struct charge charge = charge_of(&world->limit, cost_micro);
    struct places_question question = {.limit = &world->limit,
                                       .span = charge.span,
                                       .latest_ns = world->now_ns + world->patience_ns};
    world->server_of[letter - 'A'] = server;
    switch (places_join(world->places[server], waiter, &question, world->now_ns)) {
    case PLACES_STANDS: print(world, "%c* ", letter); break;
    case PLACES_FULL: print(world, "%c# ", letter); break;
    case PLACES_ASK:
        world->asked[world->asked_count++] = (struct pending){
            .server = server, .asked = waiter->asked, .cost_micro = cost_micro, .letter = letter};
        if (!world->holds_answers) {
            answer_all(world, ')');
        }
        break;
    }
}

static void leave(struct world *world, char letter)
{
    int server = world->server_of[letter - 'A'];
    struct places_waiter *waiter = &world->waiters[letter - 'A'];
    assert_true(places_leave(world->places[server], waiter, world->now_ns));
    assert_false(places_leave(world->places[server], waiter, world->now_ns));
}

static void give_all(struct world *world)
{
    world->holds_gifts = false;
    for (size_t i = 0; i < world->gift_count; i++) {
        give_back(world, &world->gifts[i]);
    }
    world->gift_count = 0;
}

static uint64_t instant_of(const char *text)
{
    return BEGIN_NS + (uint64_t)(strtod(text, NULL) * 1000 + 0.5) * NS_PER_MS;
}

static void act(struct world *world, const char *word)
{
    switch (word[0]) {
    case 'F': world->moment = bucket_latest(&world->limit, world->now_ns); break;
    case 'R': world->moment = (struct span){world->now_ns, 0}; break;
    case 'K': world->places[word[1] - '1'] = NULL; break;
    case 'X': world->loses_gift = true; break;
    case 'P': world->patience_ns = strtoull(word + 1, NULL, 10) * NS_PER_S; break;
    case '-': leave(world, word[1]); break;
    case '=': advance(world, instant_of(word + 1)); break;
    case '>': world->now_ns = instant_of(word + 1); break;
    case '(': world->holds_answers = true; break;
    case '[': world->holds_gifts = true; break;
    case ']': give_all(world); break;
    case ')':
    case '<':
    case 'x':
        world->holds_answers = false;
        answer_all(world, word[0]);
        break;
    default: {
        double cost = word[2] != '\0' ? strtod(word + 2, NULL) : 1;
        join(world, word[0] - '1', word[1], (uint64_t)(cost * (double)WEIR_UNIT + 0.5));
    }
    }
    assert_true(is_valid(world));
    run_all(world);
    assert_true(is_valid(world));
}

/* Afterwards time goes on until all is over, and no server keeps anything. */
static void end(struct world *world)
{
    for (int i = 0; i < SERVERS; i++) {
        if (world->places[i] != NULL) {
            struct places_stats stats = places_stats(world->places[i]);
            assert_int_equal(stats.place_count, 0);
            assert_int_equal(stats.line_count, 0);
            assert_int_equal(stats.waiting_count, 0);
        }
        free(world->memory[i]);
    }
}

static void play(struct world *world, const char *script)
{
    char words[TEXT_MAX];
    (void)snprintf(words, sizeof words, "%s", script);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        act(world, word);
    }
    print(world, "%g", seconds(world->moment));
    if (next_of_all(world) != PLACES_NEVER) {
        size_t len = world->len;
        print(world, " ... ");
        advance(world, BEGIN_NS + 1000 * NS_PER_S);
        world->len = strlen(world->text) > len + 5 ? world->len - 1 : len;
        world->text[world->len] = '\0';
    }
}

static void expect(const char *limit, const char *script, const char *outcome)
{
    struct world world;
    begin(&world, limit);
    play(&world, script);
    end(&world);
    if (strcmp(world.text, outcome) != 0) {
        fail_msg("%s: %s\n  was    %s\n  should %s", limit, script, world.text, outcome);
    }
}

static void waiters_go_as_the_store_said(void **state)
{
    (void)state;
    expect("1/s", "1A", "A! 1");
    expect("1/s", "F 1A 2B 1C =9", "A1 B2 C3 4");
    expect("1/s capacity=3", "F 1A3 2B 1C2 =9", "A3 B4 C6 9");
    expect("queue 1/s capacity=5", "1A 2B 1C", "3 ... A1 B2 C3");
    expect("queue 1/s capacity=5 first=now", "1A 2B 1C", "A! 3 ... B1 C2");
    expect("1/s", "F 1A 2B K1 2C", "4 ... B2 C3");
}

static void who_leaves_lets_others_move_up(void **state)
{
    (void)state;
    expect("1/s", "F 1A 2B 1C 2D -A", "4|3 5 ... C1 B2 D4");
    expect("1/s", "F 1A 2B 1C 2D -A -D", "4|3 5>4 4 ... C1 B2");
    expect("1/s", "F 1A 2B 1C 2D -A 1E", "4|3 E* 5 ... C1 B2 E3 D4");
    expect("1/s", "F 1A 1B 1C -B", "4>3 3 ... A1 C2");
    expect("1/s", "F 1A 1B 1C -C -B -A", "4>3 3>2 2>1 1");
    expect("1/s", "F 1A 2B -A -B", "2|1 3>2 2");
    expect("1/s", "F 1A 2B -B -A", "3>2 2>1 1");
}

static void costs_of_several_sizes(void **state)
{
    (void)state;
    expect("1/s capacity=3", "F 1A3 2B 1C2 1D -A", "10>7 7 ... C2 D3 B4");
    expect("1/s capacity=3", "F 1A 2B 1C2 1D -A", "8 ... B2 C4 D5");
    expect("1/s capacity=3", "F 1A2 1B 1C3 -A", "9>7 7 ... B1 C4");
    expect("1/s capacity=3", "F 1A 1B 2C 1D2 -A -B", "8>6 6 ... D2 C3");
    expect("1/s capacity=3", "F 1A3 -A 1B", "6>3 4 ... B1");
    expect("1/s capacity=3", "F 1A3 2Z -A 1B 1C 1D", "6|3 B* C* D* 7 ... B1 C2 D3 Z4");
}

static void who_is_late(void **state)
{
    (void)state;
    expect("1/s", "F 1A 2B 1C 2D >2.5 =9", "C~ D~ A3 B4 5");
    expect("1/s", "F 1A 2B 1C 2D >1.004 =9", "A1.004 B2 C3 D4 5");
    expect("1/s", "F 1A 2B 1C 2D >1.006 =9", "C~ B2 A3 D4 5");
    expect("1/s capacity=3", "F 1A 2B 1C 2D >3 =9", "A3 C3 B3 D4 7");
    expect("queue 1/s capacity=5", "1A 2B 1C 2D >2.5 =9", "C~ D~ A3 B4 4");
}

static void answers_in_another_order(void **state)
{
    (void)state;
    expect("1/s", "F ( 1A 2B 1C )", "4 ... A1 B2 C3");
    expect("1/s", "F ( 1A 2B 1C <", "4 ... A1 B2 C3");
    expect("1/s", "F ( 1A 2B 1C x", "A? B? C? 4");
    expect("1/s", "F ( 1A 1B -A )", "A- 3>2 2 ... B1");
    expect("1/s", "F ( 1A -A )", "A- 2>1 1");
    expect("1/s", "F 1A 2Z P0 ( 1B -A )", "B? 3 ... Z2");
    expect("1/s", "F 1A 2Z ( 1B -A 1C )", "5>4 4 ... B1 Z2 C3");
    expect("1/s", "F ( 1A ) ( 1B -A )", "3>2 2 ... B1");
}

static void what_is_given_back(void **state)
{
    (void)state;
    expect("1/s", "F 1A 1B [ -B 2C ] 1D", "3|2 D* 4 ... A1 D2 C3");
    expect("1/s", "F 1A 1B [ -B ] 1D", "3>2 3 ... A1 D2");
    expect("1/s", "F 1A 1B [ -B 1D ]", "3|2 4 ... A1 D2 4>3");
    expect("1/s", "F 1A 1B X -B 1D", "3>2 3 ... A1 D2");
    expect("1/s", "F 1A 1B [ -B =2.5 ]", "A1 3|2 3");
    expect("1/s", "F 1A 1B [ -B -A ]", "3>2 2>1 1");
    expect("1/s", "F 1A 1B R 2C -B", "C! 3|2 1 ... A1");
    expect("1/s", "F 1A 1B R 1C 1D 1E", "C! 3 ... A1 D1 B2 E2");
    expect("1/s", "F 1A 2B 1C -A 1D", "4>3 4 ... C1 B2 D3");
    expect("1/s", "F 1A 1B 2C -B R 2D -A", "3|2 D! 1 ... C3");
    expect("1/s", "F 1A 1B 1C 1D [ -D -B ]", "5>4 4>3 3 ... A1 C2");
}

static void who_is_not_patient(void **state)
{
    (void)state;
    expect("1/s", "P2 F 1A 2B 1C", "C? 3 ... A1 B2");
    expect("1/s", "P0 1A 1B", "A! B? 1");
    expect("1/s", "F 1A 2B 1C 2D -A P2 1E P3 1G", "4|3 E? G* 5 ... C1 B2 G3 D4");
    expect("1/s capacity=3", "P2 F 1A2 2B 1C3", "B? C? 5 ... A2");
    expect("1/s waiting=2", "F 1A 2B 1C", "C? 3 ... A1 B2");
    expect("queue 1/s capacity=5", "P2 1A 1B 1C", "C? 2 ... A1 B2");
    expect("queue 1/s capacity=2", "P9 1A 1B 1C", "C? 2 ... A1 B2");
    expect("queue 1/s capacity=2 first=now", "P1 1A 1B 1C", "A! C? 2 ... B1");
    expect("queue 1/s capacity=2 first=now", "P9 1A 1B 1C 1D", "A! D? 3 ... B1 C2");
}

static void queues_move_up(void **state)
{
    (void)state;
    expect("queue 1/s capacity=9", "1A 2B 1C 2D -A", "3|2 4 ... C1 B2 D4");
    expect("queue 1/s capacity=9", "1A 2B 1C 2D =0.5 -A", "3|2 4 ... C1 B2 D4");
    expect("queue 1/s capacity=9", "1A 2B 1C 2D =0.5 -C 1E -A", "3|2 E* 4 ... E1 B2 D4");
    expect("queue 1/s capacity=9 first=now", "1A 2B 1C 2D 1E -C", "A! 5>4 4 ... B1 E2 D3");
    expect("queue 1/s capacity=9", "1A3 2B 1C 1D2 =2.5 -A", "7>6 C2.5 6 ... B4 D6");
}

/* ---- lines of several buckets ---- */

static struct places_question question_of(const struct weir_limit *limit, char name)
{
    struct charge charge = charge_of(limit, WEIR_UNIT);
    struct places_question question = {
        .name = {(uint8_t)name}, .limit = limit, .span = charge.span, .latest_ns = UINT64_MAX};
    return question;
}

/* A waiter that the store lets in so many seconds after the scripts begin. */
static void stand(struct places *places, struct places_waiter *waiter,
                  const struct weir_limit *limit, char name, uint64_t second)
{
    struct places_question question = question_of(limit, name);
    struct span moment = {BEGIN_NS + second * NS_PER_S + limit->full_ns, 0};
    assert_int_equal(places_join(places, waiter, &question, BEGIN_NS), PLACES_ASK);
    assert_int_equal(places_granted(places, waiter->asked, moment, BEGIN_NS, BEGIN_NS),
                     PLACES_IN_LINE);
}

static struct places *places_of(void **memory)
{
    *memory = malloc(places_bytes(&config));
    assert_non_null(*memory);
    memset(*memory, 0xa5, places_bytes(&config));
    return places_init(*memory, &config);
}

static void compile(struct weir_limit *limit, const char *text)
{
    struct weir_error error;
    assert_int_equal(weir_limit_from_text(limit, text, &error), WEIR_OK);
}

static void the_earliest_of_all_lines_is_due_first(void **state)
{
    (void)state;
    enum { LINES = 7 };
    static const uint64_t SECONDS[LINES] = {5, 3, 7, 1, 6, 2, 4};
    struct places_waiter waiters[LINES] = {{.next = NULL}};
    struct weir_limit limit;
    void *memory;
    config.line_count_max = LINES;
    struct places *places = places_of(&memory);
    compile(&limit, "1/s");
    for (size_t i = 0; i < LINES; i++) {
        stand(places, &waiters[i], &limit, (char)('a' + i), SECONDS[i]);
        assert_true(places_valid(places));
    }
    assert_true(places_leave(places, &waiters[1], BEGIN_NS));
    assert_int_equal(places_next(places, BEGIN_NS).kind, PLACES_GIVE_BACK);
    for (uint64_t second = 1; second <= LINES; second++) {
        struct places_event event = places_next(places, BEGIN_NS + second * NS_PER_S);
        assert_true(places_valid(places));
        if (second != 3) {
            assert_int_equal(event.kind, PLACES_GO);
            assert_int_equal(SECONDS[event.waiter - waiters], second);
        } else {
            assert_int_equal(event.kind, PLACES_NOTHING);
        }
    }
    config.line_count_max = 2;
    free(memory);
}

static void other_numbers_make_another_line(void **state)
{
    (void)state;
    struct places_waiter waiters[4] = {{.next = NULL}};
    struct weir_limit before, after;
    void *memory;
    struct places *places = places_of(&memory);
    compile(&before, "1/s capacity=1");
    compile(&after, "1/s capacity=2");
    stand(places, &waiters[0], &before, 'a', 1);
    stand(places, &waiters[1], &after, 'a', 2);
    assert_int_equal(places_stats(places).line_count, 2);
    assert_true(places_leave(places, &waiters[0], BEGIN_NS));
    struct places_question question = question_of(&before, 'b');
    assert_int_equal(places_join(places, &waiters[2], &question, BEGIN_NS), PLACES_FULL);
    question = question_of(&after, 'a');
    assert_int_equal(places_join(places, &waiters[2], &question, BEGIN_NS), PLACES_ASK);
    question = question_of(&before, 'a');
    assert_int_equal(places_join(places, &waiters[3], &question, BEGIN_NS), PLACES_STANDS);
    free(memory);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    struct places_waiter waiters[17] = {{.next = NULL}};
    struct weir_limit limit;
    void *memory;
    struct places *places = places_of(&memory);
    compile(&limit, "1/s");
    struct places_question question = question_of(&limit, 'a');
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(places_join(places, &waiters[i], &question, BEGIN_NS), PLACES_ASK);
    }
    assert_int_equal(places_join(places, &waiters[16], &question, BEGIN_NS), PLACES_FULL);
    for (size_t i = 0; i < 16; i++) {
        places_refused(places, waiters[i].asked, (struct span){0, 0}, BEGIN_NS);
    }
    assert_int_equal(places_stats(places).place_count, 0);
    assert_int_equal(places_stats(places).line_count, 0);
    assert_true(places_valid(places));
    free(memory);
}

/* ---- what the store is asked ---- */

static void check_beyond(const char *text, uint64_t patience_s, uint64_t should_ms)
{
    struct weir_limit limit;
    compile(&limit, text);
    struct charge charge = charge_of(&limit, WEIR_UNIT);
    struct span beyond = places_beyond(&limit, &charge, patience_s * NS_PER_S);
    assert_int_equal(beyond.ns, should_ms * NS_PER_MS);
    assert_int_equal(beyond.rest, 0);
}

static void how_far_a_take_may_lead(void **state)
{
    (void)state;
    check_beyond("10/s", 0, 1000);
    check_beyond("10/s", 3, 4000);
    check_beyond("10/s waiting=5", 3, 1500);
    check_beyond("10/s waiting=0", 3, 1000);
    check_beyond("queue 10/s", 0, 0);
    check_beyond("queue 10/s", 3, 1000);
    check_beyond("queue 10/s capacity=50", 3, 3000);
    check_beyond("queue 10/s first=now", 0, 100);
    check_beyond("queue 10/s first=now", 3, 1100);
    check_beyond("queue 10/s waiting=2 first=now", 3, 300);
}

static void far_ends_stay_in_range(void **state)
{
    (void)state;
    struct weir_limit limit;
    compile(&limit, "1/1000000s capacity=3000");
    struct charge charge = charge_of(&limit, WEIR_UNIT);
    struct span beyond = places_beyond(&limit, &charge, UINT64_MAX);
    assert_true(beyond.ns == limit.full_ns + PLACES_PATIENCE_NS_MAX);
    assert_true(beyond.ns < UINT64_C(1) << 62); // take_one.sql
}

static void check_refund(const char *text, uint64_t moment_ms, bool is_forbidden, uint64_t again_ms)
{
    struct weir_limit limit;
    uint64_t again_ns;
    compile(&limit, text);
    struct span moment = {BEGIN_NS + moment_ms * NS_PER_MS, 0};
    assert_int_equal(places_forbid_refund(&limit, moment, BEGIN_NS, &again_ns), is_forbidden);
    if (is_forbidden) {
        assert_int_equal(again_ns, BEGIN_NS + again_ms * NS_PER_MS);
    }
}

static void no_refund_while_somebody_waits(void **state)
{
    (void)state;
    check_refund("10/s", 1000, false, 0);
    check_refund("10/s", 1100, true, 100);
    check_refund("queue 10/s", 0, false, 0);
    check_refund("queue 10/s", 100, true, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiters_go_as_the_store_said),
        cmocka_unit_test(who_leaves_lets_others_move_up),
        cmocka_unit_test(costs_of_several_sizes),
        cmocka_unit_test(who_is_late),
        cmocka_unit_test(answers_in_another_order),
        cmocka_unit_test(what_is_given_back),
        cmocka_unit_test(who_is_not_patient),
        cmocka_unit_test(queues_move_up),
        cmocka_unit_test(the_earliest_of_all_lines_is_due_first),
        cmocka_unit_test(other_numbers_make_another_line),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(how_far_a_take_may_lead),
        cmocka_unit_test(far_ends_stay_in_range),
        cmocka_unit_test(no_refund_while_somebody_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
