/* SPDX-License-Identifier: MIT
 *
 * The main thread: sets everything up, starts the workers, and then waits for signals. */
#include "server/server.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "core/time_units.h"
#include "server/editions.h"
#include "server/process.h"
#include "server/startup.h"
#include "server/store_end.h"
#include "server/stores.h"
#include "server/systemd.h"
#include "server/worker.h"
#include "weir/clock.h"
#include "weir/version.h"

enum {
    FDS_KEPT = 32, // of the limit on open files, for everything but connections
    ADDRESS_COUNT_MAX =
        1 << 20 // whose connections are counted; that limit may be a thousand million
};

/* ---- signals ---- */

/* Blocks them in this thread and in those it starts; they arrive at the returned fd. */
static int open_signals(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    if (pthread_sigmask(SIG_BLOCK, &signals, NULL) != 0) {
        return -1;
    }
    return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* The signal that has arrived, or 0. */
static int read_signal(int fd)
{
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

/* Waits until a worker has ended, a flood of buffers is over, it is time to look after the store, or a signal has
 * arrived, which it returns; 0 otherwise. */
static int wait_for_something(struct server *server, int signal_fd, size_t *ended_count)
{
    struct pollfd fds[] = {{.fd = signal_fd, .events = POLLIN},
                           {.fd = server->ended_fd, .events = POLLIN},
                           {.fd = server->ebb_fd, .events = POLLIN}};
    (void)poll(fds, 3, watch_wait_ms(server));
    uint64_t ignored;
    if (read(server->ebb_fd, &ignored, sizeof ignored) == (ssize_t)sizeof ignored) {
        process_trim_memory();
    }
    uint64_t ended = 0;
    if (read(server->ended_fd, &ended, sizeof ended) == (ssize_t)sizeof ended) {
        *ended_count += (size_t)ended;
    }
    return read_signal(signal_fd);
}

static void begin_draining(struct server *server, int signal_number)
{
    LOG(&server->log, LOG_INFO, "draining", log_text("signal", strsignal(signal_number)),
        log_number("timeout_ms", server->options.drain_timeout_ns / 1000000));
    (void)systemd_notify("STOPPING=1");
    server->drain_until_ns = weir_clock_now_ns() + server->options.drain_timeout_ns;
    /* Releases drain_until_ns to the acquire in server_is_draining(). */
    atomic_store_explicit(&server->is_draining, true, memory_order_release);
    for (size_t i = 0; i < server->worker_count; i++) {
        worker_wake(server->workers[i]);
    }
}

/* Returns when all workers have ended. */
static void run_until_drained(struct server *server, int signal_fd)
{
    bool is_draining = false;
    size_t ended_count = 0;
    while (ended_count < server->worker_count) {
        int signal_number = wait_for_something(server, signal_fd, &ended_count);
        if (signal_number == SIGHUP) {
            watch_follow(server);
            editions_reload(server); // last: its line in the log says that all is done
        } else if (signal_number != 0 && is_draining) {
            LOG(&server->log, LOG_WARN, "killed", log_text("signal", strsignal(signal_number)));
            _exit(EXIT_FAILED);
        } else if (signal_number != 0) {
            begin_draining(server, signal_number);
            is_draining = true;
        }
        watch_look(server);
    }
}

static void close_listeners(struct server *server)
{
    for (size_t i = 0; i < server->listener_count; i++) {
        listener_close(&server->listeners[i]);
    }
}

/* ---- workers ---- */

static bool open_workers(struct server *server)
{
    server->workers = calloc(server->worker_count, sizeof(struct worker *));
    for (size_t i = 0; server->workers != NULL && i < server->worker_count; i++) {
        /* Lines of its own: what one worker writes all the time, no other has near. */
        size_t size = (sizeof(struct worker) + 127) / 128 * 128;
        server->workers[i] = aligned_alloc(128, size);
        if (server->workers[i] == NULL || !worker_open(server->workers[i], server, i)) {
            return false;
        }
    }
    return server->workers != NULL;
}

/* A worker that cannot start ends the process, and with it those that run already. */
static void start_workers(struct server *server)
{
    for (size_t i = 0; i < server->worker_count; i++) {
        if (!worker_start(server->workers[i])) {
            (void)fprintf(stderr, "weir serve: cannot start thread %zu: %s\n", i + 1,
                          strerror(errno));
            close_listeners(server);
            _exit(EXIT_FAILED);
        }
    }
}

static void close_workers(struct server *server)
{
    for (size_t i = 0; i < server->worker_count; i++) {
        (void)pthread_join(server->workers[i]->thread, NULL);
    }
    for (size_t i = 0; i < server->worker_count; i++) {
        worker_close(server->workers[i]);
        free(server->workers[i]);
    }
    free(server->workers);
}

/* ---- setting up ---- */

static void choose_connections_max(struct server *server, uint64_t fd_limit)
{
    /* A worker has a poller, an eventfd and a spare; a socket per address; and sockets that are passed on. */
    uint64_t kept =
        FDS_KEPT + server->worker_count * (3 + server->listener_count + PASSED_COUNT_MAX);
    uint64_t possible = fd_limit > kept ? fd_limit - kept : 1;
    uint64_t wanted = server->options.connections_max;
    server->connections_max = wanted > 0 && wanted < possible ? wanted : possible;
    if (wanted > possible) {
        LOG(&server->log, LOG_WARN, "max_connections", log_number("wanted", wanted),
            log_number("possible", possible),
            log_text("why", "the limit on open files: ulimit -n"));
    }
}

/* Programs that read the log get a line of it. */
static void complain_about_store(struct server *server, const char *why)
{
    char url[STORE_SHOWN_MAX];
    startup_show_store(server, url);
    if (server->log.json) {
        LOG(&server->log, LOG_ERROR, "store_failed", log_text("url", url), log_text("why", why));
    } else {
        (void)fprintf(stderr, "weir serve: --store %s: %s\n", url, why);
    }
}

static bool open_limiter(struct server *server)
{
    const struct options *options = &server->options;
    struct weir_limiter_config config = {.memory_bytes = options->memory_bytes,
                                         .waiting_max = options->waiting_max,
                                         .store = options->store,
                                         .caller_clock = options->test_clock,
                                         .drivers = STORE_DRIVERS};
    struct weir_error error;
    const struct weir_store_driver *driver =
        options->store != NULL ? store_driver_find(options->store, STORE_DRIVERS, &error) : NULL;
    server->is_stored = driver != NULL && !driver->is_forgotten;
    if (server->is_stored) {
        store_end_begin(options->store, &server->log);
        store_end_watch_opening();
    }
    enum weir_status status = weir_limiter_open(&server->limiter, &config, &error);
    store_end_unwatch();
    if (status != WEIR_OK) {
        complain_about_store(server, error.message);
    }
    return status == WEIR_OK;
}

static bool open_address_table(struct server *server)
{
    uint64_t max = server->options.connections_per_address_max;
    if (max == 0 && server->options.service.password == NULL) {
        return true;
    }
    uint64_t count = server->connections_max;
    count = count < ADDRESS_COUNT_MAX ? count : ADDRESS_COUNT_MAX;
    server->addresses = address_table_open((size_t)count, max > 0 ? max : UINT64_MAX);
    return server->addresses != NULL;
}

static void note_start(struct server *server)
{
    (void)pthread_mutex_init(&server->outage.mutex, NULL);
    server->started_ns = weir_clock_now_ns();
    server->started_wall_s = time(NULL);
    server->log = (struct log){
        .fd = STDERR_FILENO, .level = server->options.log_level, .json = server->options.log_json};
    server->worker_count = (size_t)server->options.thread_count;
    if (server->worker_count == 0) {
        size_t processors = process_processor_count();
        server->worker_count = processors < THREAD_COUNT_MAX ? processors : THREAD_COUNT_MAX;
    }
}

static int serve(struct server *server)
{
    note_start(server);
    uint64_t fd_limit = process_raise_fd_limit();
    int signal_fd = open_signals();
    server->ended_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    server->ebb_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int result = startup_open_listeners(server);
    if (result != EXIT_DONE) {
        return result;
    }
    choose_connections_max(server, fd_limit);
    if (!open_limiter(server) || !editions_open(server)) {
        return EXIT_FAILED;
    }
    if (signal_fd < 0 || server->ended_fd < 0 || server->ebb_fd < 0 || !open_address_table(server)
        || !open_workers(server)) {
        (void)fprintf(stderr, "weir serve: cannot start: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    watch_open(server);
    start_workers(server);
    startup_announce(server);
    if (!systemd_notify("READY=1\nSTATUS=weir " WEIR_VERSION " is serving")) {
        LOG(&server->log, LOG_WARN, "notify_failed", log_text("why", strerror(errno)));
    }
    run_until_drained(server, signal_fd);
    close_workers(server);
    LOG(&server->log, LOG_INFO, "stopped",
        log_number("uptime_s", (weir_clock_now_ns() - server->started_ns) / NS_PER_S));
    (void)close(signal_fd);
    (void)close(server->ended_fd);
    (void)close(server->ebb_fd);
    return EXIT_DONE;
}

static void print_help(void)
{
    for (const char *const *part = OPTIONS_HELP_TEXT; *part != NULL; part++) {
        (void)fputs(*part, stdout);
    }
}

int server_main(int argc, char **argv)
{
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL || !process_hold_standard_fds()) {
        (void)fprintf(stderr, "weir serve: no memory, or no /dev/null\n");
        free(server);
        return EXIT_FAILED;
    }
    char message[OPTIONS_MESSAGE_BYTES_MAX];
    int exit_code = EXIT_DONE;
    switch (options_parse(&server->options, argc, argv, message)) {
    case OPTIONS_HELP: print_help(); break;
    case OPTIONS_BAD:
        (void)fprintf(stderr, "weir serve: %s\nTry 'weir serve --help'.\n", message);
        exit_code = EXIT_USAGE;
        break;
    case OPTIONS_RUN:
        exit_code = serve(server);
        close_listeners(server);
        editions_close(server);
        weir_limiter_close(server->limiter);
        address_table_close(server->addresses);
        password_fini(&server->password);
        break;
    }
    free(server);
    return exit_code;
}
