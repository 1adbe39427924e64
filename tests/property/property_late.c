/* SPDX-License-Identifier: MIT
 *
 * Two clients of two servers send the same random requests in the same pieces. One server's store decides at once;
 * the other's answers later, some batches or all, and meanwhile its worker serves somebody else out of the same
 * memory. After every piece both must have
 *
 *   answered           the same bytes, and closed the connection or not
 *   counted            the same requests, decisions, errors and wrong passwords, and logged the same
 *   remembered         the same of the client, and kept the same input of an incomplete request
 *   decided            every question once: so their buckets answer alike from then on
 *
 * seeds.h says how to repeat one walk, and how to walk for longer. A walk that fails is shortened, request by
 * request, and what is left of it is printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/http1_world.h"
#include "../support/resp_world.h"
#include "protocol/http1/http1_batch.h"
#include "protocol/resp/resp_session.h"
#include "seeds.h"

enum { WALKS = 3000, PARTS_MAX = 120, PIECES_MAX = 64 };

/* What a client sends. A part is one request, or many in a row. */
struct script {
    bool is_http, has_password;
    struct buffer parts[PARTS_MAX];
    bool is_out[PARTS_MAX];
    size_t count;
    size_t piece_bytes[PIECES_MAX]; // how the bytes arrive, over and over
    size_t piece_count;
    unsigned percent; // of the batches that are PENDING
    uint64_t look_ns;
    uint64_t seed, random;
};

static uint64_t below(struct script *script, uint64_t limit)
{
    script->random ^= script->random << 13; // xorshift64, G. Marsaglia, 2003
    script->random ^= script->random >> 7;
    script->random ^= script->random << 17;
    return (script->random >> 16) % limit;
}

static const char *pick(struct script *script, const char *const *texts, size_t count)
{
    return texts[below(script, count)];
}
#define PICK(script, texts) pick(script, texts, sizeof(texts) / sizeof(texts)[0])

/* ---- RESP ---- */

static const char *const KEYS[] = {"a", "b", "c", "d"};
static const char *const LIMITS[] = {"3/s",       "5/min",           "10/s",         "window 3/s",
                                     "queue 4/s", "window 100000/h", "3/s, 100/min", "1/fortnight"};

/* Words as an array, or as a line. */
static void put_command(struct script *script, struct buffer *to, const char *text)
{
    size_t count = 1;
    if (below(script, 4) == 0) {
        buffer_printf(to, "%s\r\n", text);
        return;
    }
    for (const char *at = text; *at != '\0'; at++) {
        count += *at == ' ';
    }
    buffer_printf(to, "*%zu\r\n", count);
    for (const char *at = text;;) {
        size_t length = strcspn(at, " ");
        buffer_printf(to, "$%zu\r\n%.*s\r\n", length, (int)length, at);
        if (at[length] == '\0') {
            break;
        }
        at += length + 1;
    }
}

/* A limit with a space in it is an argument all the same. */
static void put_take(struct script *script, struct buffer *to, const char *command,
                     const char *more)
{
    const char *key = PICK(script, KEYS);
    const char *limit = PICK(script, LIMITS);
    buffer_printf(to, "*%d\r\n$%zu\r\n%s\r\n$1\r\n%s\r\n$%zu\r\n%s\r\n%s", 3 + 2 * (*more != '\0'),
                  strlen(command), command, key, strlen(limit), limit, more);
}

static void put_question(struct script *script, struct buffer *to)
{
    static const char *const COMMANDS[] = {"WEIR.TAKE",  "WEIR.TAKE",   "WEIR.CANTAKE",
                                           "WEIR.FILL",  "WEIR.SHOW",   "WEIR.REFUND",
                                           "WEIR.RESET", "WEIR.UNBLOCK"};
    static const char *const OTHERS[] = {"CL.THROTTLE a 2 3 1",
                                         "cl.throttle d 2 3 1 2",
                                         "CL.PROBE a 2 3 1",
                                         "GCRA b 2 3 1",
                                         "CL.THROTTLE a x 3 1",
                                         "WEIR.TAKEALL 2 a 3/s b 5/min",
                                         "WEIR.TAKEALL 2 a 3/s a 3/s",
                                         "WEIR.BLOCK a 3/s 500",
                                         "WEIR.TAKE c 3/s SHADOW",
                                         "WEIR.TAKE a 3/s COST x",
                                         "WEIR.TAKE"};
    static const char *const MORE[] = {"", "", "", "$4\r\nCOST\r\n$1\r\n2\r\n",
                                       "$4\r\nWAIT\r\n$3\r\n900\r\n"};
    if (below(script, 3) == 0) {
        put_command(script, to, PICK(script, OTHERS));
    } else {
        put_take(script, to, PICK(script, COMMANDS), PICK(script, MORE));
    }
}

/* DEL of more keys than a batch holds, some of which cannot be keys. */
static void put_keys(struct script *script, struct buffer *to)
{
    static const char *const COMMANDS[] = {"DEL", "EXISTS", "UNLINK"};
    static const char *const BOUND[] = {"a", "b", "c", "d", "", "nobody"};
    const char *command = PICK(script, COMMANDS);
    size_t count = below(script, 4) == 0 ? 1 + below(script, 300) : 1 + below(script, 4);
    buffer_printf(to, "*%zu\r\n$%zu\r\n%s\r\n", 1 + count, strlen(command), command);
    for (size_t i = 0; i < count; i++) {
        const char *key = PICK(script, BOUND);
        buffer_printf(to, "$%zu\r\n%s\r\n", strlen(key), key);
    }
}

static void put_other(struct script *script, struct buffer *to)
{
    static const char *const COMMANDS[] = {"PING",
                                           "ECHO hello",
                                           "TTL a",
                                           "PTTL b",
                                           "GET a",
                                           "TYPE d",
                                           "INFO",
                                           "SUBSCRIBE news",
                                           "NOPE 1 2",
                                           "AUTH wrong",
                                           "AUTH secret",
                                           "HELLO 2",
                                           "HELLO 3",
                                           "HELLO 3 AUTH default secret",
                                           "CLIENT SETNAME me",
                                           "CLIENT INFO",
                                           "CLIENT NOPE",
                                           "WEIR.LIMITS a 3/s",
                                           "WEIR.CLOCK ADVANCE 300000000",
                                           "SCAN 0"};
    static const char *const RARE[] = {"RESET", "QUIT", "GET / HTTP/1.1", "EXEC now", "COMMAND"};
    static const char *const RAW[] = {"\r\n", "*0\r\n", "*-1\r\n", "ECHO \"a b\"\r\n",
                                      "*1\r\n$x\r\n"};
    uint64_t which = below(script, 40);
    if (which == 0) {
        put_command(script, to, PICK(script, RARE));
    } else if (which < 4) {
        buffer_append_text(to, RAW[below(script, which == 1 ? 5 : 4)]);
    } else {
        put_command(script, to, PICK(script, COMMANDS));
    }
}

static void put_resp(struct script *script, struct buffer *to)
{
    static const char *const TRANSACTION[] = {"MULTI", "MULTI", "EXEC", "EXEC", "EXEC", "DISCARD"};
    switch (below(script, 10)) {
    case 0: put_keys(script, to); break;
    case 1: put_command(script, to, PICK(script, TRANSACTION)); break;
    case 2:
    case 3:
    case 4: put_other(script, to); break;
    default: put_question(script, to); break;
    }
}

/* ---- HTTP ---- */

static const char *password_field(struct script *script)
{
    if (!script->has_password) {
        return "";
    }
    return below(script, 25) == 0 ? "Authorization: Bearer wrong\r\n"
                                  : "Authorization: Bearer secret\r\n";
}

static void put_get(struct script *script, struct buffer *to)
{
    static const char *const TARGETS[] = {"/v1/check?key=a&limit=3/s",
                                          "/v1/check?key=b&limit=5/min",
                                          "/v1/check?key=a&limit=window+3/s",
                                          "/v1/check?key=c&limit=window+100000/h",
                                          "/v1/check?key=a&limit=3/s,100/min&cost=2",
                                          "/v1/check?key=%61&limit=3/s&wait_ms=900",
                                          "/v1/check?key=a&limit=1/fortnight",
                                          "/v1/check?key=a",
                                          "/",
                                          "/healthz",
                                          "/metrics",
                                          "/nowhere",
                                          "/v1/take"};
    static const char *const METHODS[] = {"GET", "GET", "GET", "GET", "HEAD", "OPTIONS", "BREW"};
    static const char *const VERSIONS[] = {"1.1", "1.1", "1.1", "1.1", "1.1", "1.0"};
    bool is_last = below(script, 40) == 0;
    buffer_printf(to, "%s %s HTTP/%s\r\nHost: localhost\r\n%s%s\r\n", PICK(script, METHODS),
                  PICK(script, TARGETS), PICK(script, VERSIONS), password_field(script),
                  is_last ? "Connection: close\r\n" : "Connection: keep-alive\r\n");
}

static void put_post(struct script *script, struct buffer *to)
{
    static const char *const PATHS[] = {"take", "take",  "can_take", "fill", "refund",
                                        "show", "reset", "unblock",  "nope"};
    static const char *const BODIES[] = {"{\"key\":\"a\",\"limit\":\"3/s\"}",
                                         "{\"key\":\"b\",\"limit\":\"5/min\"}",
                                         "{\"key\":\"a\",\"limit\":\"queue 4/s\"}",
                                         "{\"key\":\"a\",\"limit\":\"3/s\",\"cost\":2}",
                                         "{\"key\":\"a\",\"limit\":\"3/s\",\"wait_ms\":900}",
                                         "{\"key\":\"c\",\"limit\":[\"3/s\",\"9/min\"]}",
                                         "{\"key\":\"a\"",
                                         "{\"key\":\"a\",\"limit\":\"3/s\",\"what\":1}"};
    const char *body = PICK(script, BODIES);
    const char *expect = below(script, 4) == 0 ? "Expect: 100-continue\r\n" : "";
    buffer_printf(to, "POST /v1/%s HTTP/1.1\r\nHost: localhost\r\n%s%s", PICK(script, PATHS),
                  password_field(script), expect);
    if (below(script, 3) != 0) {
        buffer_printf(to, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
        return;
    }
    size_t first = 1 + below(script, strlen(body) - 1);
    buffer_printf(to,
                  "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%.*s\r\n%zx;more\r\n%s\r\n0\r\n\r\n",
                  first, (int)first, body, strlen(body) - first, body + first);
}

static void put_http(struct script *script, struct buffer *to)
{
    static const char ALL[] = "{\"limits\":[{\"key\":\"a\",\"limit\":\"3/s\"},{\"key\":\"b\","
                              "\"limit\":\"9/min\"}]}";
    if (below(script, 2) == 0) {
        put_get(script, to);
    } else if (below(script, 8) == 0) {
        buffer_printf(to,
                      "POST /v1/take_all HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu"
                      "\r\n\r\n%s",
                      password_field(script), sizeof ALL - 1, ALL);
    } else if (below(script, 100) == 0) {
        buffer_append_text(to, "GET  /\r\n\r\n");
    } else {
        put_post(script, to);
    }
}

/* ---- A script ---- */

static void put_request(struct script *script, struct buffer *to)
{
    if (script->is_http) {
        put_http(script, to);
    } else {
        put_resp(script, to);
    }
}

/* Mostly requests of all kinds; now and then a thousand of one. */
static void write_part(struct script *script, struct buffer *part)
{
    struct buffer one;
    size_t repeats = below(script, 60) == 0   ? 1000
                     : below(script, 10) == 0 ? below(script, 100)
                                              : 1;
    buffer_init(part, (size_t)1 << 20);
    buffer_init(&one, (size_t)1 << 20);
    put_request(script, &one);
    while (repeats-- > 0 && part->length + one.length < (size_t)1 << 20) {
        buffer_append(part, one.at, one.length);
    }
    buffer_fini(&one);
}

static void write_script(struct script *script, uint64_t seed)
{
    static const unsigned PERCENTS[] = {100, 100, 50, 10};
    *script = (struct script){.seed = seed, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    (void)below(script, 2);
    script->is_http = below(script, 2) == 0;
    script->has_password = below(script, 3) == 0;
    script->percent = PERCENTS[below(script, 4)];
    script->look_ns = below(script, 3) == 0 ? PACE_FEED_NS / 2 : 0;
    script->count = 1 + below(script, PARTS_MAX);
    if (!script->is_http && script->has_password) {
        buffer_init(&script->parts[0], 64);
        buffer_append_text(&script->parts[0], "AUTH secret\r\n");
    }
    for (size_t i = script->parts[0].length > 0; i < script->count; i++) {
        write_part(script, &script->parts[i]);
    }
    script->piece_count = 1 + below(script, PIECES_MAX);
    uint64_t most = below(script, 2) == 0 ? 40 : 5000;
    for (size_t i = 0; i < script->piece_count; i++) {
        script->piece_bytes[i] = 1 + below(script, below(script, 4) == 0 ? 200000 : most);
    }
}

static void free_script(struct script *script)
{
    for (size_t i = 0; i < script->count; i++) {
        buffer_fini(&script->parts[i]);
    }
}

/* ---- Two servers ---- */

struct server {
    struct world world;
    struct buffer log;
    void *neighbour; // another connection of the same worker
};

static struct server *server_of(struct service *service)
{
    return (struct server *)(void *)world_of(service);
}

static void note_bad_request(struct service *service, enum protocol protocol, const char *reason,
                             const char *why)
{
    buffer_printf(&server_of(service)->log, "%d %s: %s\n", (int)protocol, reason, why);
}

/* Somebody else's requests, decided at once, out of the same working memory; nobody counts them. */
static void serve_neighbour(void *memory)
{
    static const char RESP[] = "WEIR.TAKE neighbour 7/s\r\nPING\r\nCL.THROTTLE neighbour 1 1 1\r\n"
                               "*3\r\n$9\r\nWEIR.TAKE\r\n$9\r\nneighbour\r\n$3\r\n9/s\r\nNOPE\r\n";
    static const char HTTP[] = "GET /v1/check?key=n%65ighbour&limit=7/s HTTP/1.1\r\nHost: localhost"
                               "\r\nAuthorization: Bearer secret\r\n\r\n";
    struct server *server = memory;
    struct world *world = &server->world;
    struct counters counters = world->counters;
    size_t log_length = server->log.length;
    struct buffer replies;
    size_t used;
    bool is_http = world->engine->protocol == PROTOCOL_HTTP;
    buffer_init(&replies, 1 << 20);
    world->service.asks_later = false;
    (void)world->engine->feed(server->neighbour, &world->service,
                              is_http ? (struct bytes){HTTP, sizeof HTTP - 1}
                                      : (struct bytes){RESP, sizeof RESP - 1},
                              &replies, &used);
    world->service.asks_later = true;
    buffer_fini(&replies);
    world->counters = counters;
    server->log.length = log_length;
}

static void open_server(struct server *server, const struct script *script, bool is_late)
{
    struct world *world = &server->world;
    assert_true(script->is_http ? http1_world_open(world, WEIR_MEMORY_BYTES_MIN)
                                : resp_world_open(world, WEIR_MEMORY_BYTES_MIN));
    if (script->has_password) {
        world->config.password = "secret";
        world->config.password_len = 6;
    }
    buffer_init(&server->log, (size_t)16 << 20);
    world->ops.note_bad_request = note_bad_request;
    world->look_ns = script->look_ns;
    server->neighbour = calloc(1, world->engine->session_bytes);
    assert_non_null(server->neighbour);
    world->engine->open(server->neighbour, &world->peer);
    if (is_late) {
        world_answer_later(world, script->percent, script->seed);
        world->late->meanwhile = serve_neighbour;
    }
}

static void close_server(struct server *server)
{
    server->world.engine->close(server->neighbour);
    free(server->neighbour);
    buffer_fini(&server->log);
    if (server->world.late != NULL) {
        server->world.late->is_wrong = false; // it was looked at
    }
    world_close(&server->world);
}

static bool is_same_buffer(const struct buffer *one, const struct buffer *other)
{
    return one->length == other->length
           && (one->length == 0 || memcmp(one->at, other->at, one->length) == 0);
}

static bool is_same_resp(const struct resp_session *one, const struct resp_session *other)
{
    return one->need == other->need && one->searched == other->searched
           && one->version == other->version && one->is_authenticated == other->is_authenticated
           && one->auth_failures == other->auth_failures
           && one->stranger_bytes == other->stranger_bytes && one->keys_done == other->keys_done
           && one->keys_found == other->keys_found
           && one->transaction_number == other->transaction_number
           && (one->transaction == NULL) == (other->transaction == NULL)
           && strcmp(one->name, other->name) == 0;
}

static bool is_same_http(const struct http1_session *one, const struct http1_session *other)
{
    return one->has_continued == other->has_continued && one->has_entered == other->has_entered
           && one->is_known == other->is_known && one->request.phase == other->request.phase
           && one->request.scanned == other->request.scanned
           && one->request.line_at == other->request.line_at
           && one->request.body_bytes == other->request.body_bytes;
}

/* What differs between the two; NULL: nothing. */
static const char *compare(const struct server *at_once, const struct server *late)
{
    const struct world *one = &at_once->world;
    const struct world *other = &late->world;
    bool is_http = one->engine->protocol == PROTOCOL_HTTP;
    bool is_same = is_http ? is_same_http(one->session, other->session)
                           : is_same_resp(one->session, other->session);
    return other->late->is_wrong                           ? "it asks otherwise"
           : !is_same_buffer(&one->output, &other->output) ? "the answers"
           : memcmp(&one->counters, &other->counters, sizeof one->counters) != 0 ? "the counters"
           : !is_same_buffer(&at_once->log, &late->log)                          ? "the log"
           : !is_same_buffer(&one->input, &other->input) ? "the input that is kept"
           : !is_same                                    ? "the session"
                                                         : NULL;
}

/* Sends the script to both. Returns what differs. */
static const char *play(const struct script *script)
{
    struct server servers[2];
    struct buffer whole;
    const char *difference = NULL;
    buffer_init(&whole, (size_t)256 << 20);
    for (size_t i = 0; i < script->count; i++) {
        if (!script->is_out[i]) {
            buffer_append(&whole, script->parts[i].at, script->parts[i].length);
        }
    }
    open_server(&servers[0], script, false);
    open_server(&servers[1], script, true);
    enum engine_state state = ENGINE_OPEN;
    size_t piece = 0;
    for (size_t at = 0; at < whole.length && state != ENGINE_CLOSE && difference == NULL;) {
        size_t length = script->piece_bytes[piece++ % script->piece_count];
        length = length < whole.length - at ? length : whole.length - at;
        state = world_feed(&servers[0].world, whole.at + at, length);
        enum engine_state late_state = world_feed(&servers[1].world, whole.at + at, length);
        difference = state != late_state ? "the state" : compare(&servers[0], &servers[1]);
        at += length;
        servers[0].world.service.now_ns += 10000000;
        servers[1].world.service.now_ns += 10000000;
        servers[0].world.output.length = 0;
        servers[1].world.output.length = 0;
    }
    close_server(&servers[0]);
    close_server(&servers[1]);
    buffer_fini(&whole);
    return difference;
}

/* ---- A walk ---- */

static void print_part(const struct buffer *part)
{
    size_t shown = part->length < 400 ? part->length : 400;
    printf("    \"");
    for (size_t i = 0; i < shown; i++) {
        char c = part->at[i];
        if (c == '\r' || c == '\n') {
            printf("\\%c", c == '\r' ? 'r' : 'n');
        } else {
            putchar(c);
        }
    }
    printf(shown < part->length ? "\" .. %zu bytes\n" : "\"\n", part->length);
}

/* Leaves out what can be left out. */
static void shrink(struct script *script)
{
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        for (size_t i = 0; i < script->count; i++) {
            if (script->is_out[i]) {
                continue;
            }
            script->is_out[i] = true;
            script->is_out[i] = play(script) != NULL;
            has_changed = has_changed || script->is_out[i];
        }
    }
}

static void walk(uint64_t seed)
{
    struct script script;
    write_script(&script, seed);
    if (play(&script) == NULL) {
        free_script(&script);
        return;
    }
    shrink(&script);
    printf("WEIR_SEED=%llu: %s differs after\n", (unsigned long long)seed, play(&script));
    for (size_t i = 0; i < script.count; i++) {
        if (!script.is_out[i]) {
            print_part(&script.parts[i]);
        }
    }
    free_script(&script);
    fail();
}

static void test_answers_the_same_later(void **state)
{
    (void)state;
    (void)walk_seeds(WALKS, walk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_the_same_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
