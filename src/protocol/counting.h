/* SPDX-License-Identifier: MIT
 *
 * Counting decisions by limit, what shadow mode makes of them, and the one answer to several. */
#ifndef WEIR_PROTOCOL_COUNTING_H
#define WEIR_PROTOCOL_COUNTING_H

#include "core/decision.h"
#include "protocol/engine.h"

/* What limits in shadow mode would have answered to a take, had they been in force.
 *   verdict         WEIR_ALLOWED: none of them would have refused
 *   retry_after_ns  where some would have refused, when these would have let it pass; -1: no time helps
 *   binding         which limit would have decided; -1: none */
struct shadow_refusal {
    enum weir_verdict verdict;
    int64_t retry_after_ns;
    int binding;
};
#define NO_SHADOW_REFUSAL ((struct shadow_refusal){WEIR_ALLOWED, -1, -1})

/* Counts a decision; `named` is NULL under a limit that was written out. */
static inline void count_decision(struct service *service, enum protocol protocol,
                                  const struct named_limit *named, enum weir_verdict verdict)
{
    uint64_t *counter = named != NULL
                            ? &service->name_counts[named->index]->decisions[protocol][verdict]
                            : &service->counters->decisions[protocol][verdict];
    counter_add(counter, 1);
}

static inline bool is_in_shadow(const struct named_limit *named, enum weir_operation operation)
{
    return named != NULL && named->is_shadow
           && (operation == WEIR_TAKE || operation == WEIR_CAN_TAKE);
}

/* What limits in shadow mode say, before their decisions pass: the worst of them, as of several limits. */
static inline struct shadow_refusal refusal_in_shadow(const struct named_limit *const *named,
                                                      enum weir_operation operation,
                                                      const struct weir_decision *decisions,
                                                      size_t count)
{
    bool is_heard[WEIR_TOGETHER_MAX];
    bool is_any_heard = false;
    for (size_t i = 0; i < count; i++) {
        is_heard[i] = is_in_shadow(named[i], operation) && decisions[i].verdict != WEIR_ALLOWED;
        is_any_heard |= is_heard[i];
    }
    if (!is_any_heard) {
        return NO_SHADOW_REFUSAL;
    }
    struct shadow_refusal refusal;
    struct weir_decision whole = decision_of_heard(decisions, is_heard, count, &refusal.binding);
    refusal.verdict = whole.verdict;
    refusal.retry_after_ns = whole.retry_after_ns;
    return refusal;
}

/* Lets a take pass that a limit in shadow mode would have refused, and counts that. */
static inline void pass_in_shadow(struct service *service, const struct named_limit *named,
                                  enum weir_operation operation, struct weir_decision *decision)
{
    if (!is_in_shadow(named, operation)) {
        return;
    }
    if (decision->verdict != WEIR_ALLOWED) {
        counter_add(&service->name_counts[named->index]->shadow_refusals[decision->verdict], 1);
    }
    named_limit_pass(decision);
}

/* As weir_decision_of_run(), by names. The decisions of shadows have passed before. */
static inline struct weir_decision decision_beside_shadows(const struct named_limit *const *named,
                                                           const struct weir_decision *decisions,
                                                           size_t count, int *binding)
{
    bool is_heard[WEIR_TOGETHER_MAX];
    bool is_any_heard = false;
    for (size_t i = 0; i < count; i++) {
        is_heard[i] = named[i] == NULL || !named[i]->is_shadow;
        is_any_heard |= is_heard[i];
    }
    return is_any_heard ? decision_of_heard(decisions, is_heard, count, binding)
                        : weir_decision_of_all(decisions, count, binding);
}

/* Counts what a single limit says; a shadow passes. Returns what it would have said. */
static inline struct shadow_refusal count_alone(struct service *service, enum protocol protocol,
                                                enum weir_operation operation,
                                                const struct named_limit *named,
                                                struct weir_decision *decision)
{
    struct shadow_refusal shadow = refusal_in_shadow(&named, operation, decision, 1);
    pass_in_shadow(service, named, operation, decision);
    count_decision(service, protocol, named, decision->verdict);
    return shadow;
}

/* Counts a take under several limits: with each that has a name, by what that one says; and once for
 * those that were written out, by what all say. Shadows pass; *shadow is what they would have said. Returns what
 * all say. */
static inline struct weir_decision count_together(struct service *service, enum protocol protocol,
                                                  enum weir_operation operation,
                                                  const struct named_limit *const *named,
                                                  struct weir_decision *decisions, size_t count,
                                                  int *binding, struct shadow_refusal *shadow)
{
    bool is_written = false;
    *shadow = refusal_in_shadow(named, operation, decisions, count);
    for (size_t i = 0; i < count; i++) {
        pass_in_shadow(service, named[i], operation, &decisions[i]);
        if (named[i] != NULL) {
            count_decision(service, protocol, named[i], decisions[i].verdict);
        }
        is_written = is_written || named[i] == NULL;
    }
    struct weir_decision whole = decision_beside_shadows(named, decisions, count, binding);
    if (is_written) {
        count_decision(service, protocol, NULL, whole.verdict);
    }
    return whole;
}

#endif
