/* SPDX-License-Identifier: MIT
 *
 * A store that answers later, for tests of engines: it keeps a copy of what it is asked and says PENDING, at random;
 * later it has the table decide that. When the engine asks again, it sees that it asks the same. world.h asks it
 * instead of the table after world_answer_later(). */
#ifndef WEIR_TESTS_LATE_STORE_H
#define WEIR_TESTS_LATE_STORE_H

#include <stdlib.h>
#include <string.h>

#include "protocol/engine.h"

enum { LATE_COUNT_MAX = 128 }; // more than a batch of any engine

struct late_store {
    unsigned percent; // of the batches that are PENDING
    uint64_t random;
    bool is_wrong; // the engine did not ask again what it had asked
    size_t asked_count;
    size_t batch_count;                // that were PENDING
    size_t count, next;                // requests that are kept, and the next one to be asked again
    uint64_t now_ns;                   // the clock when they were asked
    void (*meanwhile)(void *for_whom); // called before they are answered; or NULL
    struct weir_request requests[LATE_COUNT_MAX];
    struct weir_rule rules[LATE_COUNT_MAX];
    struct weir_decision decisions[LATE_COUNT_MAX];
    struct weir_detail details[LATE_COUNT_MAX];
    char *keys[LATE_COUNT_MAX];
};

static inline uint64_t late_below(struct late_store *late, uint64_t limit)
{
    late->random ^= late->random << 13; // xorshift64, G. Marsaglia, 2003
    late->random ^= late->random >> 7;
    late->random ^= late->random << 17;
    return (late->random >> 16) % limit;
}

static inline void late_forget(struct late_store *late)
{
    for (size_t i = 0; i < late->count; i++) {
        free(late->keys[i]);
    }
    late->count = 0;
    late->next = 0;
}

static inline void late_keep(struct late_store *late, const struct weir_request *requests,
                             size_t count, uint64_t now_ns)
{
    late->is_wrong = late->is_wrong || count > LATE_COUNT_MAX || late->count > 0;
    late_forget(late);
    for (size_t i = 0; i < count && i < LATE_COUNT_MAX; i++) {
        late->rules[i] = *requests[i].rule;
        late->keys[i] = malloc(requests[i].key_len + 1);
        memcpy(late->keys[i], requests[i].key, requests[i].key_len);
        late->requests[i] = requests[i];
        late->requests[i].rule = &late->rules[i];
        late->requests[i].key = late->keys[i];
        late->requests[i].detail = requests[i].detail != NULL ? &late->details[i] : NULL;
        late->count++;
    }
    late->now_ns = now_ns;
    late->batch_count++;
}

static inline bool late_is_same(const struct weir_request *one, const struct weir_request *other)
{
    return one->key_len == other->key_len && memcmp(one->key, other->key, one->key_len) == 0
           && memcmp(one->rule->hash_key, other->rule->hash_key, sizeof one->rule->hash_key) == 0
           && one->rule->limit.capacity_micro == other->rule->limit.capacity_micro
           && one->cost_micro == other->cost_micro && one->operation == other->operation
           && one->and_next == other->and_next && one->shadow == other->shadow
           && one->block_ns == other->block_ns && (one->detail == NULL) == (other->detail == NULL);
}

static inline void late_hand_out(struct late_store *late, struct service *service,
                                 const struct weir_request *requests,
                                 struct weir_decision *decisions, size_t count)
{
    for (size_t i = 0; i < count; i++, late->next++) {
        if (late->next >= late->count || !late_is_same(&requests[i], &late->requests[late->next])) {
            late->is_wrong = true;
            service->answers_left = 0;
            return;
        }
        decisions[i] = late->decisions[late->next];
        if (requests[i].detail != NULL) {
            *requests[i].detail = late->details[late->next];
        }
    }
    service->answers_left -= count;
    if (service->answers_left == 0) {
        late_forget(late);
    }
}

static inline enum progress late_decide(struct late_store *late, struct service *service,
                                        const struct weir_request *requests,
                                        struct weir_decision *decisions, size_t count)
{
    late->asked_count += count;
    if (service->answers_left > 0) {
        late_hand_out(late, service, requests, decisions, count);
        return DECIDED;
    }
    if (late_below(late, 100) >= late->percent) {
        weir_limiter_decide_at(service->limiter, requests, decisions, count, service->now_ns);
        return DECIDED;
    }
    late_keep(late, requests, count, service->now_ns);
    return PENDING;
}

/* The answers come: feed() is to be called again. */
static inline void late_answer(struct late_store *late, struct service *service)
{
    late->is_wrong = late->is_wrong || late->count == 0;
    weir_limiter_decide_at(service->limiter, late->requests, late->decisions, late->count,
                           late->now_ns);
    service->answers_left = late->count;
    late->next = 0;
}

/* feed() is back, and has used all answers that there were. It may have asked for others. */
static inline void late_check(struct late_store *late, struct service *service, bool asks)
{
    late->is_wrong = late->is_wrong || service->answers_left > 0 || asks != (late->count > 0);
    service->answers_left = 0;
}

#endif
