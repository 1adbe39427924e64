/* SPDX-License-Identifier: MIT */
#include "cli/local.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/store_end.h"

int local_open(struct local *local, const struct question *question)
{
    if (local->limiter != NULL) {
        return CLI_DONE;
    }
    int code = store_option_open(&local->store, question->command, &local->limiter);
    code =
        code == CLI_DONE ? store_option_compile(&local->requests, local->limiter, question) : code;
    if (code == CLI_DONE) {
        local->fd = eventfd(0, EFD_CLOEXEC);
    }
    if (code == CLI_DONE && local->fd < 0) {
        complain(question->command, "eventfd: %s", strerror(errno));
        return CLI_FAILED;
    }
    return code;
}

static void *stand_in_line(void *context)
{
    struct local *local = context;
    uint64_t one = 1;
    weir_limiter_acquire_all(local->limiter, local->requests.requests, local->decisions,
                             local->requests.count, local->wait_ns);
    (void)!write(local->fd, &one, sizeof one); // a counter that is 0 takes it
    return NULL;
}

/* Asks something else of the same buckets, at once. */
static void ask_now(struct local *local, const struct question *question,
                    enum weir_operation operation, struct answer *answer)
{
    struct store_requests made = local->requests;
    for (size_t i = 0; i < made.count; i++) {
        made.requests[i].operation = operation;
    }
    store_option_decide(local->limiter, &made, question, answer);
}

static void look_ahead(struct local *local, struct question *question)
{
    struct answer can_take;
    struct answer show;
    bool has_place = question_has_one_line(question);
    ask_now(local, question, WEIR_CAN_TAKE, &can_take);
    if (has_place) {
        ask_now(local, question, WEIR_SHOW, &show);
    }
    question_expect(question, &can_take, has_place ? &show : NULL);
}

int local_send(struct local *local, struct question *question)
{
    for (size_t i = 0; i < local->requests.count; i++) {
        local->requests.requests[i].cost_micro = question->cost_micro;
    }
    local->wait_ns = question->wait_ms * NS_PER_MS;
    store_end_watch(STUCK_S + question->wait_ms / 1000);
    if (question->looks_ahead) {
        look_ahead(local, question);
        question->looks_ahead = false;
    }
    int error = pthread_create(&local->thread, NULL, stand_in_line, local);
    if (error != 0) {
        complain(question->command, "no thread to wait in: %s", strerror(error));
        return CLI_FAILED;
    }
    local->is_asking = true;
    return CLI_DONE;
}

void local_receive(struct local *local, const struct question *question, struct answer *answer)
{
    uint64_t counter;
    (void)pthread_join(local->thread, NULL);
    (void)!read(local->fd, &counter, sizeof counter);
    local->is_asking = false;
    store_end_unwatch();
    question_begin_answer(question, answer);
    answer->is_local = true;
    answer->cannot = store_option_cannot(local->limiter);
    memcpy(answer->each, local->decisions, sizeof answer->each);
    answer->decision = weir_decision_of_all(answer->each, local->requests.count, &answer->binding);
}

void local_close(struct local *local)
{
    if (local->limiter == NULL || local->is_asking) {
        return;
    }
    if (local->fd > 0) {
        (void)close(local->fd);
    }
    store_end_watch(STUCK_S);
    weir_limiter_close(local->limiter);
    store_end_unwatch();
    local->limiter = NULL;
}
