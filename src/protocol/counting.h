/* SPDX-License-Identifier: MIT
 *
 * Counting decisions by limit, what shadow mode makes of them, and the one answer to several. */
#ifndef WEIR_PROTOCOL_COUNTING_H
#define WEIR_PROTOCOL_COUNTING_H

#include "protocol/engine.h"

/* Counts a decision; `named` is NULL under a limit that was written out. */
static inline void count_decision(struct service *service, enum protocol protocol,
                                  const struct named_limit *named, enum weir_verdict verdict)
{
    uint64_t *counter = named != NULL
                            ? &service->name_counts[named->index]->decisions[protocol][verdict]
                            : &service->counters->decisions[protocol][verdict];
    counter_add(counter, 1);
}

/* Lets a take pass that a limit in shadow mode would have refused, and counts that. */
static inline void pass_in_shadow(struct service *service, const struct named_limit *named,
                                  enum weir_operation operation, struct weir_decision *decision)
{
    if (named == NULL || !named->is_shadow
        || (operation != WEIR_TAKE && operation != WEIR_CAN_TAKE)) {
        return;
    }
    if (decision->verdict != WEIR_ALLOWED) {
        counter_add(&service->name_counts[named->index]->shadow_refusals[decision->verdict], 1);
    }
    named_limit_pass(decision);
}

/* weir_decision_of_all() without those limits that are in shadow mode, unless all are; `binding` is an
 * index among all of them. Their decisions have passed before. */
static inline struct weir_decision decision_beside_shadows(const struct named_limit *const *named,
                                                           const struct weir_decision *decisions,
                                                           size_t count, int *binding)
{
    struct weir_decision seen[WEIR_TOGETHER_MAX];
    int places[WEIR_TOGETHER_MAX];
    size_t seen_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (named[i] == NULL || !named[i]->is_shadow) {
            seen[seen_count] = decisions[i];
            places[seen_count++] = (int)i;
        }
    }
    if (seen_count == 0 || seen_count == count) {
        return weir_decision_of_all(decisions, count, binding);
    }
    struct weir_decision whole = weir_decision_of_all(seen, seen_count, binding);
    *binding = *binding >= 0 ? places[*binding] : -1;
    return whole;
}

/* Counts a take under several limits: with each that has a name, by what that one says; and once for
 * those that were written out, by what all say. Shadows pass. Returns what all say. */
static inline struct weir_decision count_together(struct service *service, enum protocol protocol,
                                                  enum weir_operation operation,
                                                  const struct named_limit *const *named,
                                                  struct weir_decision *decisions, size_t count,
                                                  int *binding)
{
    bool is_written = false;
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
