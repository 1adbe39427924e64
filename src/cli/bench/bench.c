/* SPDX-License-Identifier: MIT
 *
 * `weir bench`: connects, starts the workers, shows how it goes, and says what came out.
 *
 * Open loop: at a given rate every request has its instant, and its latency counts from there, so
 * a server that stalls is charged for everyone who had to wait, not only for those it answered. */
#include "cli/bench/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/duration.h"
#include "cli/request.h"

enum { FD_COUNT_SPARE = 32 };

/* Everything that runs. */
struct run {
    struct bench *bench;
    struct load load;
    struct plan plan;
    struct worker workers[WORKER_COUNT_MAX];
    uint64_t worker_count; // initialised
    uint64_t started;      // threads
    int *fds;
    uint64_t fd_count;
};

/* The one plan that Ctrl-C stops. */
static struct plan *volatile interrupted_plan;

static void on_interrupt(int number)
{
    (void)number;
    /* Relaxed: nothing else hangs on it. */
    __atomic_store_n(&interrupted_plan->stop, true, __ATOMIC_RELAXED);
}

/* RESP says its password once per connection. */
static enum client_status log_in(struct client *client, const struct password *password)
{
    struct buffer request;
    struct reply reply;
    buffer_init(&request, PASSWORD_BYTES_MAX + 64);
    request_begin(&request, 2);
    request_word(&request, "AUTH", 4);
    request_word(&request, password->text, password->length);
    enum client_status status = client_send(client, (struct bytes){request.at, request.length});
    buffer_fini(&request);
    if (status == CLIENT_OK) {
        status = client_receive(client, &reply);
    }
    if (status == CLIENT_OK && reply.items[0].type != '+') {
        (void)snprintf(client->problem, sizeof client->problem, "it refuses the password");
        status = CLIENT_BROKEN;
    }
    return status;
}

static int connect_one(struct run *run)
{
    struct bench *bench = run->bench;
    struct client client;
    enum client_status status = client_open(&client, bench->server.resolved,
                                            bench->server.resolved_count, bench->timeout_ns);
    if (status == CLIENT_OK && bench->server.password.text != NULL
        && bench->load.protocol == LOAD_RESP) {
        status = log_in(&client, &bench->server.password);
    }
    if (status == CLIENT_OK) {
        run->fds[run->fd_count++] = client.fd;
        client.fd = -1; // the worker's now
        client_close(&client);
        return CLI_DONE;
    }
    if (status == CLIENT_NO_SERVER) {
        const char *option = bench->load.protocol == LOAD_RESP ? "--resp" : "--http";
        (void)complain_no_server(&bench->server, bench->command, option, client.problem);
    } else {
        complain(bench->command, "connection %" PRIu64 " of %" PRIu64 " to %s: %s",
                 run->fd_count + 1, bench->connections, bench->server.text, client.problem);
    }
    client_close(&client);
    return CLI_FAILED;
}

static int connect_all(struct run *run)
{
    struct rlimit files;
    uint64_t needed = run->bench->connections + FD_COUNT_SPARE;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < needed) {
        files.rlim_cur = files.rlim_max < needed ? files.rlim_max : needed;
        (void)setrlimit(RLIMIT_NOFILE, &files); // connect_one() says so if it was not enough
    }
    run->fds = calloc(run->bench->connections, sizeof *run->fds);
    if (run->fds == NULL) {
        complain(run->bench->command, "out of memory");
        return CLI_FAILED;
    }
    int code = CLI_DONE;
    for (uint64_t i = 0; i < run->bench->connections && code == CLI_DONE; i++) {
        code = connect_one(run);
    }
    return code;
}

static int run_init(struct run *run, struct bench *bench)
{
    char problem[LOAD_PROBLEM_MAX];
    run->bench = bench;
    if (bench->load.protocol == LOAD_HTTP && bench->server.password.text != NULL) {
        bench->load.password =
            (struct bytes){bench->server.password.text, bench->server.password.length};
    }
    if (!load_init(&run->load, &bench->load, problem)) {
        return usage_error(bench->command, "%s", problem);
    }
    int code = connect_all(run);
    if (code != CLI_DONE) {
        return code;
    }
    run->plan = (struct plan){
        .load = &run->load,
        .rate = bench->rate_text != NULL ? &bench->rate : NULL,
        .request_count_max = bench->requests,
        .drain_ns = bench->timeout_ns,
        .pipeline = bench->pipeline,
        .worker_count = bench->threads,
        .seed = bench->seed,
        .done_fd = eventfd(0, EFD_CLOEXEC),
    };
    if (run->plan.done_fd < 0) {
        complain(bench->command, "%s", strerror(errno));
        return CLI_FAILED;
    }
    zipf_init(&run->plan.keys, bench->keys, bench->skew);
    for (uint64_t i = 0; i < bench->threads; i++) {
        uint64_t first = run->fd_count * i / bench->threads;
        uint64_t end = run->fd_count * (i + 1) / bench->threads;
        run->worker_count++;
        bool ready = worker_init(&run->workers[i], &run->plan, i, run->fds + first, end - first);
        for (uint64_t fd = first; fd < first + run->workers[i].connection_count; fd++) {
            run->fds[fd] = -1; // the worker closes it
        }
        if (!ready) {
            complain(bench->command, "out of memory");
            return CLI_FAILED;
        }
    }
    return CLI_DONE;
}

static void run_fini(struct run *run)
{
    for (uint64_t i = 0; i < run->worker_count; i++) {
        worker_fini(&run->workers[i]);
    }
    for (uint64_t i = 0; i < run->fd_count; i++) {
        if (run->fds[i] >= 0) {
            (void)close(run->fds[i]);
        }
    }
    free(run->fds);
    if (run->plan.done_fd > 0) { // 0: run_init() did not come so far
        (void)close(run->plan.done_fd);
    }
}

/* Relaxed: the worker may be counting meanwhile, and an instant's imprecision hurts nobody. */
static uint64_t seen(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void tally_add(struct tally *sum, const struct tally *tally)
{
    sum->sent += seen(&tally->sent);
    sum->lost += seen(&tally->lost);
    sum->pending += seen(&tally->pending);
    sum->unsent += seen(&tally->unsent);
    sum->broken += seen(&tally->broken);
    for (int i = 0; i < LOAD_VERDICT_COUNT; i++) {
        sum->verdicts[i] += seen(&tally->verdicts[i]);
    }
}

static void result_collect(struct bench_result *result, const struct run *run)
{
    *result = (struct bench_result){.took_ns = 0};
    for (uint64_t i = 0; i < run->worker_count; i++) {
        const struct worker *worker = &run->workers[i];
        tally_add(&result->tally, &worker->tally);
        histogram_merge(&result->latency, &worker->latency);
        histogram_merge(&result->late, &worker->late);
        if (result->error == NULL && worker->error[0] != '\0') {
            result->error = worker->error;
        }
    }
}

/* One line on the terminal, written over and over. */
static void show_progress(const struct run *run, uint64_t *answered_before)
{
    struct tally sum = {0};
    for (uint64_t i = 0; i < run->worker_count; i++) {
        tally_add(&sum, &run->workers[i].tally);
    }
    uint64_t answered = tally_answered(&sum);
    uint64_t elapsed_ns = monotonic_now_ns() - run->plan.start_ns;
    (void)fprintf(stderr,
                  "\r\033[K%3" PRIu64 " s  %" PRIu64 "/s  allowed %" PRIu64 "  limited %" PRIu64
                  "  failed %" PRIu64,
                  elapsed_ns / NS_PER_S, answered - *answered_before, sum.verdicts[LOAD_ALLOWED],
                  sum.verdicts[LOAD_LIMITED], sum.verdicts[LOAD_FAILED] + sum.lost);
    *answered_before = answered;
}

/* Waits for every worker; once a second it shows how far they are. */
static void join_all(struct run *run)
{
    bool shows = isatty(STDERR_FILENO) && !run->bench->json;
    uint64_t answered_before = 0;
    uint64_t tick_ns = run->plan.start_ns + NS_PER_S;
    uint64_t ended = 0;
    while (ended < run->started) {
        struct pollfd done = {.fd = run->plan.done_fd, .events = POLLIN};
        uint64_t now_ns = monotonic_now_ns();
        int left_ms = tick_ns > now_ns ? (int)((tick_ns - now_ns) / NS_PER_MS) + 1 : 0;
        eventfd_t count = 0;
        if (poll(&done, 1, left_ms) > 0 && eventfd_read(run->plan.done_fd, &count) == 0) {
            ended += count;
        }
        if (monotonic_now_ns() >= tick_ns) {
            tick_ns += NS_PER_S;
            if (shows) {
                show_progress(run, &answered_before);
            }
        }
    }
    for (uint64_t i = 0; i < run->started; i++) {
        (void)pthread_join(run->workers[i].thread, NULL);
    }
    if (shows) {
        (void)fputs("\r\033[K", stderr);
    }
}

static void run_start(struct run *run)
{
    struct sigaction interrupt = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    interrupted_plan = &run->plan;
    (void)sigaction(SIGINT, &interrupt, NULL); // the second one ends it at once
    (void)sigaction(SIGTERM, &interrupt, NULL);
    run->plan.start_ns = monotonic_now_ns() + NS_PER_MS; // so that the threads are there
    run->plan.end_ns = run->plan.start_ns + run->bench->duration_ns;
    for (; run->started < run->worker_count; run->started++) {
        struct worker *worker = &run->workers[run->started];
        if (pthread_create(&worker->thread, NULL, worker_run, worker) != 0) {
            worker->failed = true;
            break;
        }
    }
}

static int exit_code(const struct run *run, const struct bench_result *result)
{
    const struct tally *tally = &result->tally;
    for (uint64_t i = 0; i < run->worker_count; i++) {
        if (run->workers[i].failed) {
            complain(run->bench->command, "a thread could not run");
            return CLI_FAILED;
        }
    }
    bool trouble = tally->verdicts[LOAD_FAILED] + tally->lost + tally->pending + tally->broken > 0;
    return trouble ? CLI_FAILED : CLI_DONE;
}

static int measure(struct bench *bench)
{
    struct run *run = calloc(1, sizeof *run); // histograms make it too large for a stack
    struct bench_result *result = calloc(1, sizeof *result);
    int code = CLI_FAILED;
    if (run == NULL || result == NULL) {
        complain(bench->command, "out of memory");
    } else {
        code = run_init(run, bench);
        if (code == CLI_DONE) {
            run_start(run);
            join_all(run);
            result_collect(result, run);
            result->took_ns = monotonic_now_ns() - run->plan.start_ns;
            code = bench->json ? bench_say_json(bench, result) : (bench_say(bench, result), 0);
            code = code == CLI_DONE ? exit_code(run, result) : code;
        }
        run_fini(run);
    }
    free(run);
    free(result);
    return code;
}

static int run_bench(const struct command *command, int count, char **words)
{
    struct bench bench = {.command = command};
    int code = bench_read(&bench, count, words);
    if (code == CLI_DONE && bench.help) {
        command_help(command);
        return CLI_DONE;
    }
    if (code == CLI_DONE) {
        if (bench.load.protocol == LOAD_HTTP && bench.server.text == NULL) {
            bench.server.text = SERVER_HTTP_DEFAULT; // WEIR_SERVER is where RESP is
        }
        code = server_option_complete(&bench.server, command);
    }
    if (code == CLI_DONE) {
        code = measure(&bench);
    }
    server_option_fini(&bench.server);
    return code;
}

const struct command BENCH_COMMAND = {
    .name = "bench",
    .words = "[OPTION]...",
    .summary = "load a server, and see how long it takes to answer",
    .about = "Sends requests to a server at a constant rate, or as many as its connections carry,\n"
             "and says how long the answers took: from the instant at which each request was due,\n"
             "so that a server that stalls pays for all who had to wait. Ctrl-C ends it early and\n"
             "shows what there is.",
    .examples = "    weir bench --rate 20000/s\n"
                "    weir bench --saturate --pipeline 64 --duration 5s\n"
                "    weir bench --protocol http --command check --rate 5000/s --json\n"
                "    weir bench --keys 10000000 --skew 0.99 --limit '10/min capacity=3'\n",
    .options = BENCH_OPTIONS,
    .run = run_bench,
};
