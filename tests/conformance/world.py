# SPDX-License-Identifier: MIT
"""All keys under all limits: what model.py says of one bucket, for many; keys that are locked out; and
several limits in one take, all or nothing.

A block is the instant until which a key is locked out of one limit. It lies beside the bucket and never
changes it. A run is a list of members, each a key under a limit: asked one by one, then charged if all of
them agree.

    python3 tests/conformance/world.py FILE.vec     prints every step with its whole answer
"""

import copy
import math
import sys
from dataclasses import dataclass, replace
from fractions import Fraction

from model import Answer, Limit, bucket_of

WORTH = ("allowed", "limited", "blocked", "never")  # whose word counts most comes last


@dataclass(frozen=True)
class Member:
    """A key under a limit. `in_shadow`: its refusal refuses nothing, and then it is not charged."""

    limit: Limit
    identity: object
    key: str
    in_shadow: bool = False


def seconds(ns):
    """CL.THROTTLE's whole seconds, rounded up; -1 for none."""
    return -1 if ns is None else math.ceil(Fraction(ns, 10**9))


def of_all(answers):
    """The one answer to several, and which of them it is about, from 0; None where all allow."""
    def weighs(answer):
        tie = -answer.remaining if answer.verdict == "allowed" else answer.retry_after or 0
        return WORTH.index(answer.verdict), tie

    decides = max(answers, key=weighs)  # the first of those that weigh the same
    if decides.verdict == "allowed":
        return replace(decides, delay=max(answer.delay for answer in answers)), None
    longest = max((answer.retry_after or 0 for answer in answers), default=None)
    told = None if decides.retry_after is None else longest
    return replace(decides, retry_after=told), answers.index(decides)


class World:
    """All buckets and blocks, by identity and key."""

    def __init__(self):
        self.buckets = {}
        self.blocks = {}  # until when

    def bucket(self, limit, identity, key):
        return self.buckets.setdefault((limit.kind, identity, key), bucket_of(limit))

    # ---- who is locked out ----

    def blocked_until(self, limit, identity, key, now):
        """None if it is not, at this reading. Whoever finds a block over ends it for all."""
        name = (limit.kind, identity, key)
        if self.blocks.get(name, 0) <= now:
            self.blocks.pop(name, None)
        return self.blocks.get(name)

    def raise_block(self, limit, identity, key, until):
        name = (limit.kind, identity, key)
        self.blocks[name] = max(until, self.blocks.get(name, 0))
        return self.blocks[name]

    def lock_out(self, limit, identity, key, answer, now):
        """What a refusal, or a full bucket, leads to: until then, as `answer` left it. Whoever was refused comes
        back in vain before it is over."""
        if limit.block is None:
            return answer
        lasts = answer.reset_after if limit.block == "empty" else limit.block
        left = self.raise_block(limit, identity, key, now + lasts) - now
        if answer.verdict == "limited":
            answer = replace(answer, retry_after=max(answer.retry_after, left))
        return answer

    def as_it_is(self, limit, identity, key, now):
        """How a bucket stands, in the words of an answer."""
        return replace(self.bucket(limit, identity, key).show(limit, now), live=False)

    def blocked(self, limit, identity, key, now, until, **more):
        answer = self.as_it_is(limit, identity, key, now)
        return replace(answer, verdict="blocked", retry_after=until - now, **more)

    def block(self, limit, identity, key, lasts, now):
        until = self.raise_block(limit, identity, key, now + lasts)
        return self.blocked(limit, identity, key, now, until)

    def unblock(self, limit, identity, key, now):
        """Whether it was blocked."""
        was_blocked = self.blocked_until(limit, identity, key, now) is not None
        self.blocks.pop((limit.kind, identity, key), None)
        return was_blocked

    # ---- one limit ----

    def decide(self, operation, limit, identity, key, cost, now):
        bucket = self.bucket(limit, identity, key)
        if operation in ("show", "reset"):
            answer = getattr(bucket, operation)(limit, now)
            until = self.blocked_until(limit, identity, key, now) if operation == "show" else None
            return answer if until is None else replace(answer, verdict="blocked",
                                                        retry_after=until - now)
        if cost > 0 and operation != "refund":
            until = self.heeded_block(operation, limit, identity, key, cost, now)
            if until is not None:
                answer = self.blocked(limit, identity, key, now, until)
                if operation == "fill":  # of which nothing fits, and which looks
                    full = self.preview("fill", limit, identity, key, Fraction(0), now).full
                    answer = replace(answer, spill=cost, full=full)
                return answer
        answer = getattr(bucket, operation)(limit, cost, now)
        if (operation, answer.verdict) == ("take", "limited") or (
                operation == "fill" and answer.verdict == "allowed" and answer.full and cost > 0):
            answer = self.lock_out(limit, identity, key, answer, now)
        return answer

    def heeded_block(self, operation, limit, identity, key, cost, now):
        """Until when it is blocked, for what is not for never anyway."""
        until = self.blocked_until(limit, identity, key, now)
        if until is None or self.preview(operation, limit, identity, key, cost, now).verdict == "never":
            return None
        return until

    def preview(self, operation, limit, identity, key, cost, now):
        """What the bucket would answer, block or not."""
        return getattr(copy.deepcopy(self.bucket(limit, identity, key)), operation)(limit, cost, now)

    # ---- several limits ----

    def decide_all(self, operation, members, cost, now):
        """The answer to all, which member it is about, and what each says."""
        answers = [self.ask(member, cost, now) for member in members]
        heard = [answer for member, answer in zip(members, answers) if not member.in_shadow]
        agreed = all(answer.verdict == "allowed" for answer in heard)
        for i, member in enumerate(members):
            name = (member.limit, member.identity, member.key)
            if answers[i].verdict == "allowed" and agreed:
                answers[i] = getattr(self.bucket(*name), operation)(member.limit, cost, now)
            elif answers[i].verdict == "allowed":
                answers[i] = self.as_it_is(*name, now)
        if operation == "take" and not agreed and {a.verdict for a in heard} <= {"allowed", "limited"}:
            for i, member in enumerate(members):
                if answers[i].verdict == "limited" and not member.in_shadow:
                    answers[i] = self.lock_out(member.limit, member.identity, member.key, answers[i], now)
        heard = [i for i, member in enumerate(members) if not member.in_shadow]
        whole, binding = of_all([answers[i] for i in heard])
        return whole, None if binding is None else heard[binding], answers

    def ask(self, member, cost, now):
        """What its own limit says, and its block; nothing is charged."""
        name = (member.limit, member.identity, member.key)
        until = self.heeded_block("take", *name, cost, now) if cost > 0 else None
        return (self.preview("take", *name, cost, now) if until is None
                else self.blocked(*name, now, until))

    # ---- another command ----

    def throttle(self, command, key, max_burst, count, period, quantity, now):
        """CL.THROTTLE and GCRA: limited, limit, remaining, retry_after, reset_after. The key alone is the
        identity; a negative quantity gives back. A probe answers the same, and charges nothing."""
        limit = Limit(Fraction(count) / (period * 10**9), Fraction(max_burst + 1)).check()
        bucket = self.bucket(limit, "throttle", key)
        if command == "probe":
            answer = self.preview("take", limit, "throttle", key, Fraction(quantity), now)
        elif quantity < 0:
            answer = bucket.refund(limit, Fraction(-quantity), now)
        else:
            answer = bucket.take(limit, Fraction(quantity), now)
        limited = 0 if answer.verdict == "allowed" else 1
        return (limited, answer.capacity, answer.remaining, seconds(answer.retry_after),
                seconds(answer.reset_after))


def main():
    import vectors

    for path in sys.argv[1:]:
        for case in vectors.read(path):
            print(f"case {case.title}")
            world = World()
            for step in case.steps:
                print(f"  {step.text}\n      = {step.run(world)}")


if __name__ == "__main__":
    main()
