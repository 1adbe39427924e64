/* SPDX-License-Identifier: MIT */
#include "limiter/lines/line_member.h"

struct line_member member_of(const struct lines *lines, const struct weir_request *request)
{
    return (struct line_member){
        .rule = *request->rule,
        .id = lines->store->ops->lines->id(lines->store, request),
        .cost_micro = request->cost_micro,
        .charge = charge_of(&request->rule->limit, request->cost_micro),
        .is_shadow = request->shadow,
    };
}

void member_take_numbers(struct line_member *member, const struct weir_rule *rule)
{
    member->rule = rule_in_line(&member->rule, rule);
    member->charge = charge_of(&rule->limit, member->cost_micro);
}

const struct joining *member_joining_of(struct member_joining *room,
                                        const struct line_member *member, struct waiter *waiter,
                                        uint64_t deadline_ns, uint64_t now_ns)
{
    room->request = (struct weir_request){.rule = &member->rule, .cost_micro = member->cost_micro};
    room->joining = (struct joining){
        .waiter = waiter,
        .request = &room->request,
        .id = member->id,
        .charge = member->charge,
        .waiting = member->rule.limit.waiting,
        .wait_ns = ns_until(deadline_ns, now_ns),
        .now_ns = now_ns,
        .decision = &room->decision,
    };
    return &room->joining;
}

bool member_is_in_vain(const struct line_member *member, uint64_t deadline_ns, uint64_t now_ns)
{
    struct member_joining room;
    return member_is_queue(member) && !member_is_idle(member)
           && line_is_in_vain(member_joining_of(&room, member, NULL, deadline_ns, now_ns));
}

struct outcome member_ask(const struct lines *lines, const struct line_member *member,
                          enum weir_operation operation, bool is_marked, uint64_t now_ns)
{
    struct line_terms terms = {0, is_marked, is_marked};
    struct weir_request request = {
        .rule = &member->rule, .cost_micro = member->cost_micro, .operation = operation};
    return lines->store->ops->lines->decide_in_line(lines->store, &request, member->id, &terms,
                                                    now_ns);
}
