/* SPDX-License-Identifier: MIT
 *
 * What a decision costs PostgreSQL: a program that keeps connections busy with one kind of statement, over so many
 * rows. At each line, "SECONDS", it prints decisions per second.
 *
 *     bench_postgres CONNINFO WHAT CONNECTIONS KEYS
 *
 *     WHAT         a statement                                                    decisions in it
 *     update       the bare UPDATE of a row by its key                            1
 *     select       SELECT 1                                                       1
 *     article      an upsert as an article has it: a level in a double, and an index on the expiry       1
 *     take         weir's, of one bucket                                          1
 *     many         weir's, of 64 buckets                                          64
 *     fold         weir's, of 64 equal takes of one bucket                        64
 *     refused      as take, of a bucket that is full                              1
 *     many_refused  as many                                                       64
 *
 * Each connection has one statement out, as a client that waits for its answer. */
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "store/postgres/sql.h"
#include "store/postgres/statement.h"
#include "store/store.h"

enum { CONNECTIONS_MAX = 64, MANY = 64 };

enum what { UPDATE, SELECT, ARTICLE, TAKE, MANY_TAKES, FOLD, REFUSED, MANY_REFUSED, WHAT_COUNT };

/*   statement  of weir's; STATEMENT_COUNT: `text` is
 *   rows       that one statement decides; folded: how often each */
static const struct kind {
    const char *name, *text;
    enum statement_kind statement;
    unsigned rows, folded;
} KINDS[WHAT_COUNT] = {
    [UPDATE] = {"update", "UPDATE bench.bare SET n = n + 1 WHERE name = $1 RETURNING n",
                STATEMENT_COUNT, 1, 1},
    [SELECT] = {"select", "SELECT 1 WHERE $1 IS NOT NULL", STATEMENT_COUNT, 1, 1},
    [ARTICLE] =
        {"article",
         "INSERT INTO bench.leaky AS b (name, level, touched_at, delete_after)"
         " VALUES ($1, 1, clock_timestamp(), clock_timestamp() + interval '2 hours')"
         " ON CONFLICT (name) DO UPDATE SET"
         " level = least(1000000, greatest(0, b.level"
         " - extract(epoch FROM clock_timestamp() - b.touched_at)::double precision * 10) + 1),"
         " touched_at = excluded.touched_at, delete_after = excluded.delete_after"
         " RETURNING level, level >= 1000000",
         STATEMENT_COUNT, 1, 1},
    [TAKE] = {"take", NULL, TAKE_ONE, 1, 1},
    [MANY_TAKES] = {"many", NULL, TAKE_MANY, MANY, 1},
    [FOLD] = {"fold", NULL, TAKE_MANY, 1, MANY},
    [REFUSED] = {"refused", NULL, TAKE_ONE, 1, 1},
    [MANY_REFUSED] = {"many_refused", NULL, TAKE_MANY, MANY, 1},
};

static const struct kind *kind;
static enum what what;
static uint64_t key_count, random_state = 88172645463325252;
static PGconn *connections[CONNECTIONS_MAX];
static size_t connection_count;
static const struct libpq *pq;

static void fail_with(const char *text)
{
    (void)fprintf(stderr, "bench_postgres: %s\n", text);
    exit(1);
}

/* ---- questions ---- */

static void name_key(uint8_t name[BUCKET_NAME_BYTES], uint64_t index)
{
    uint64_t high = (index + 1) * UINT64_C(0x9e3779b97f4a7c15); // spread, as hashes are
    memcpy(name, &high, sizeof high);
    memcpy(name + sizeof high, &index, sizeof index);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, BUCKET_NAME_BYTES);
}

/* Each name once, in order. `full` is one take where they are to be refused, and room for all otherwise. */
static size_t draw(struct plan_question questions[MANY])
{
    bool is_refused = what == REFUSED || what == MANY_REFUSED;
    uint64_t span_ns = is_refused ? UINT64_C(1000000000000000000) : 1000;
    for (size_t i = 0; i < kind->rows; i++) {
        questions[i] = (struct plan_question){
            .span = {span_ns, 0}, .full = {UINT64_C(1000000000000000000), 0}, .denominator = 1};
        name_key(questions[i].name, random_below(&random_state, key_count));
    }
    qsort(questions, kind->rows, sizeof *questions, compare);
    size_t count = 0;
    for (size_t i = 0; i < kind->rows; i++) {
        if (count == 0 || compare(&questions[i], &questions[count - 1]) != 0) {
            questions[count++] = questions[i];
        }
    }
    return count;
}

static void ask_weir(PGconn *connection)
{
    static uint32_t indices[MANY];
    static char memory[1 << 16];
    struct plan_question questions[MANY];
    struct plan_entry entries[MANY];
    size_t count = draw(questions);
    for (uint32_t i = 0; i < count; i++) {
        indices[i] = i;
        entries[i] = (struct plan_entry){&indices[i], kind->folded};
    }
    struct step step = {kind->statement, false, entries, (uint32_t)count};
    if (statement_bytes(count) > sizeof memory
        || !statement_send(pq, connection, &step, questions, STORE_NOW, true, memory)) {
        fail_with(pq->errorMessage(connection));
    }
}

static void ask_another(PGconn *connection)
{
    uint8_t name[BUCKET_NAME_BYTES];
    const char *value = (const char *)name;
    int length = sizeof name, format = 1;
    name_key(name, random_below(&random_state, key_count));
    if (pq->sendQueryPrepared(connection, "bench", 1, &value, &length, &format, 1) != 1
        || pq->pipelineSync(connection) != 1) {
        fail_with(pq->errorMessage(connection));
    }
}

static void ask(PGconn *connection)
{
    if (kind->statement == STATEMENT_COUNT) {
        ask_another(connection);
    } else {
        ask_weir(connection);
    }
    (void)pq->flush(connection);
}

/* ---- answers ---- */

/* How many decisions came; asks again for each statement that is through. */
static uint64_t hear(PGconn *connection, bool asks_again, size_t *out_count)
{
    uint64_t decided = 0;
    if (pq->consumeInput(connection) != 1) {
        fail_with(pq->errorMessage(connection));
    }
    unsigned end_count = 0;
    while (!pq->isBusy(connection) && end_count < 2) {
        PGresult *result = pq->getResult(connection);
        end_count = result == NULL ? end_count + 1 : 0;
        if (result == NULL) {
            continue;
        }
        ExecStatusType status = pq->resultStatus(result);
        if (status == PGRES_TUPLES_OK) {
            decided += (uint64_t)pq->ntuples(result) * kind->folded;
        } else if (status != PGRES_PIPELINE_SYNC) {
            fail_with(pq->errorMessage(connection));
        } else if (asks_again) {
            ask(connection);
        } else {
            --*out_count;
        }
        pq->clear(result);
    }
    return decided;
}

static double run_for(double seconds)
{
    struct pollfd fds[CONNECTIONS_MAX];
    uint64_t start_ns = monotonic_ns(), end_ns = start_ns, decided = 0;
    size_t out_count = connection_count;
    for (size_t i = 0; i < connection_count; i++) {
        fds[i] = (struct pollfd){.fd = pq->socket(connections[i]), .events = POLLIN};
        ask(connections[i]);
    }
    while (out_count > 0) {
        if (poll(fds, connection_count, 10000) <= 0) {
            fail_with("no answer in 10 s");
        }
        end_ns = monotonic_ns();
        bool asks_again = (double)(end_ns - start_ns) < seconds * 1e9;
        for (size_t i = 0; i < connection_count; i++) {
            if (fds[i].revents != 0) {
                decided += hear(connections[i], asks_again, &out_count);
            }
        }
    }
    return (double)decided / (double)(end_ns - start_ns) * 1e9;
}

/* ---- connections ---- */

/* Waits for what was sent. */
static void finish(PGconn *connection, int is_sent)
{
    PGresult *result = is_sent == 1 ? pq->getResult(connection) : NULL;
    ExecStatusType status = pq->resultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fail_with(pq->errorMessage(connection));
    }
    pq->clear(result);
    while ((result = pq->getResult(connection)) != NULL) {
        pq->clear(result);
    }
}

static void prepare(PGconn *connection)
{
    static const Oid uuid = 2950;
    if (kind->statement == STATEMENT_COUNT) {
        finish(connection, pq->sendPrepare(connection, "bench", kind->text, 1, &uuid));
    } else {
        const struct statement *statement = &STATEMENTS[kind->statement];
        finish(connection, pq->sendPrepare(connection, statement->name, statement->text,
                                           statement->parameter_count, statement->types));
    }
}

static void open_connection(const char *conninfo)
{
    const char *const keywords[] = {"dbname", NULL}, *const values[] = {conninfo, NULL};
    PGconn *connection = pq->connectdbParams(keywords, values, 1);
    if (pq->status(connection) != CONNECTION_OK) {
        fail_with(pq->errorMessage(connection));
    }
    finish(connection, pq->sendQuery(connection, SQL_SESSION));
    prepare(connection);
    if (pq->setnonblocking(connection, 1) != 0 || pq->enterPipelineMode(connection) != 1) {
        fail_with(pq->errorMessage(connection));
    }
    connections[connection_count++] = connection;
}

int main(int argc, char **argv)
{
    struct weir_error error;
    pq = libpq_load(&error);
    size_t count = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
    key_count = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
    while (argc == 5 && what < WHAT_COUNT && strcmp(KINDS[what].name, argv[2]) != 0) {
        what++;
    }
    if (pq == NULL || count == 0 || count > CONNECTIONS_MAX || key_count == 0
        || what == WHAT_COUNT) {
        fail_with("usage: bench_postgres CONNINFO WHAT CONNECTIONS KEYS");
    }
    kind = &KINDS[what];
    for (size_t i = 0; i < count; i++) {
        open_connection(argv[1]);
    }
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        print_figure("rate", run_for(strtod(line, NULL)));
        print_figure("end", 0);
    }
    for (size_t i = 0; i < count; i++) {
        pq->finish(connections[i]);
    }
    return 0;
}
