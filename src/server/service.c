/* SPDX-License-Identifier: MIT */
#include "server/service.h"

#include "limiter/limiter_state.h"
#include "server/connection.h"
#include "server/worker.h"
#include "weir/clock.h"

static struct worker *worker_of(struct service *service)
{
    return (struct worker *)(void *)service; // its first member
}

static void write_metrics(struct service *service, struct buffer *output)
{
    metrics_write(worker_of(service)->server, output);
}

static void write_info(struct service *service, struct buffer *output, const char *section)
{
    info_write(worker_of(service)->server, output, section);
}

static const char *sickness(struct service *service)
{
    const struct server *server = worker_of(service)->server;
    if (server_is_draining(server)) {
        return "draining\n";
    }
    return watch_is_gone(server) ? "store gone: its file was deleted or replaced; put it back, or "
                                   "send SIGHUP to this server\n"
                                 : NULL;
}

static const char *worry(struct service *service)
{
    return asking_is_down(worker_of(service)->server)
               ? "store: does not answer; on_error of each limit does\n"
               : NULL;
}

static uint64_t worked_ns(struct service *service)
{
    return weir_clock_now_ns() - worker_of(service)->fed_ns;
}

static void note_bad_request(struct service *service, enum protocol protocol, const char *reason,
                             const char *why)
{
    struct worker *worker = worker_of(service);
    struct server *server = worker->server;
    uint64_t skipped = 0;
    if (!log_gate_pass(&server->bad_request_gate, worker->now_ns, &skipped)) {
        return;
    }
    char client[ADDRESS_TEXT_BYTES_MAX];
    connection_print_client(worker->running, client);
    LOG(&server->log, LOG_WARN, "bad_request",
        log_text("protocol", protocol == PROTOCOL_HTTP ? "http" : "resp"),
        log_text("client", client), log_text("reason", reason), log_text("why", why),
        log_number("skipped", skipped));
}

static enum progress decide(struct service *service, const struct weir_request *requests,
                            struct weir_decision *decisions, size_t count)
{
    return asking_decide(worker_of(service), requests, decisions, count);
}

static bool wait_in_line(struct service *service, const struct weir_request *requests, size_t count,
                         uint64_t wait_ns, struct weir_decision *decisions)
{
    struct worker *worker = worker_of(service);
    return waiting_begin(worker, worker->running, requests, count, wait_ns, decisions);
}

static bool set_clock(struct service *service, uint64_t now_ns)
{
    struct worker *worker = worker_of(service);
    bool moved = waiting_set_clock(worker, now_ns);
    worker_renew_clock(worker);
    return moved;
}

static bool advance_clock(struct service *service, uint64_t by_ns)
{
    struct worker *worker = worker_of(service);
    bool moved = waiting_advance_clock(worker, by_ns);
    worker_renew_clock(worker);
    return moved;
}

const struct service_ops SERVICE_OPS = {.write_metrics = write_metrics,
                                        .write_info = write_info,
                                        .sickness = sickness,
                                        .worry = worry,
                                        .worked_ns = worked_ns,
                                        .note_bad_request = note_bad_request,
                                        .decide = decide,
                                        .wait = wait_in_line};

const struct service_ops SERVICE_OPS_TEST_CLOCK = {.write_metrics = write_metrics,
                                                   .write_info = write_info,
                                                   .sickness = sickness,
                                                   .worry = worry,
                                                   .worked_ns = worked_ns,
                                                   .note_bad_request = note_bad_request,
                                                   .decide = decide,
                                                   .wait = wait_in_line,
                                                   .test_clock_set = set_clock,
                                                   .test_clock_advance = advance_clock};
