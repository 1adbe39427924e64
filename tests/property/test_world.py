# SPDX-License-Identifier: MIT
"""Many keys under limits of every kind: singly and together, in shadow mode, locked out and let in. A table answers as
the model of all keys does (tests/conformance/world.py), to the nanosecond."""

import ctypes
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))

import libweir  # noqa: E402
import model  # noqa: E402
import world as worlds  # noqa: E402

pytestmark = pytest.mark.once
KEYS = "ab"
OPERATIONS = (*libweir.OPERATIONS, "block", "unblock")


def limit_of(kind, count, period_ns, block):
    as_written = kind in model.AS_WRITTEN
    return model.Limit(Fraction(count, period_ns), Fraction(count), kind=kind, block=block,
                       count=Fraction(count) if as_written else None,
                       period_ns=period_ns if as_written else None)


LIMIT = st.builds(limit_of, st.sampled_from(model.KINDS), st.integers(1, 3), st.integers(2, 12),
                  st.sampled_from([None, "empty", 5, 17]))
LIMITS = st.lists(LIMIT, min_size=3, max_size=3, unique_by=lambda limit: limit.identity)
MEMBER = st.tuples(st.integers(0, 2), st.sampled_from(KEYS))
SINGLE = st.tuples(st.sampled_from(["take", "take", "can_take", "fill", "refund", "show", "reset", "block",
                                    "unblock"]), MEMBER, st.integers(0, 5))
TOGETHER = st.tuples(st.sampled_from(["take_all", "take_all", "can_take_all"]),
                     st.lists(MEMBER, min_size=2, max_size=4, unique=True), st.integers(0, 3),
                     st.sets(st.integers(1, 3)))  # which are in shadow, but for the first
STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, 7]), SINGLE | TOGETHER | TOGETHER), min_size=1,
                 max_size=40)


def tell(answer):
    """The model's answer as libweir.tell() says it."""
    return (answer.verdict, answer.capacity, answer.remaining, answer.retry_after,
            answer.reset_after, answer.delay)


class Table:
    """The library's limiter, and its rules for these limits."""

    def __init__(self, limits):
        self.limiter = libweir.Limiter(65536)
        self.compiled = [libweir.compile_limit(limit) for limit in limits]
        self.rules = [self.limiter.rule(compiled) for compiled in self.compiled]

    def ask(self, operation, members, cost, now, shadows=(), block_ns=0):
        """The answers to requests that are decided together, and what each says beside that."""
        count = len(members)
        details, decisions = (libweir.Detail * count)(), (libweir.Decision * count)()
        requests = (libweir.Request * count)(*(
            libweir.Request(ctypes.addressof(self.rules[number]), key.encode(), len(key),
                            cost * model.MICRO, OPERATIONS.index(operation), i + 1 < count,
                            i in shadows, ctypes.pointer(detail), block_ns)
            for i, ((number, key), detail) in enumerate(zip(members, details))))
        libweir.LIBRARY.weir_limiter_decide_at(self.limiter.handle, requests, decisions, count, now)
        return [libweir.tell(decision) for decision in decisions], details


def check_single(world, table, limits, step, now):
    operation, (number, key), cost = step
    limit = limits[number]
    if limit.kind == "window" and operation == "refund":
        return  # it takes nothing back
    name = (limit, limit.identity, key)
    if operation == "unblock":
        _, details = table.ask(operation, [(number, key)], 0, now)
        assert details[0].existed == world.unblock(*name, now)
        return
    if operation == "block":
        (got,), _ = table.ask(operation, [(number, key)], 0, now, block_ns=cost + 1)
        assert got == tell(world.block(*name, cost + 1, now))
        return
    (got,), details = table.ask(operation, [(number, key)], cost, now)
    expected = world.decide(operation, *name, Fraction(cost), now)
    assert got == tell(expected)
    if operation == "fill":
        assert (details[0].amount.value, details[0].full) == (expected.spill, expected.full)
    if operation == "show":
        assert details[0].amount.value == expected.level
    if operation in ("show", "reset"):
        assert details[0].existed == expected.live


def check_together(world, table, limits, step, now):
    operation, members, cost, shadows = step
    got, _ = table.ask(operation.removesuffix("_all"), members, cost, now, shadows)
    _, _, expected = world.decide_all(
        operation.removesuffix("_all"),
        [worlds.Member(limits[number], limits[number].identity, key, i in shadows)
         for i, (number, key) in enumerate(members)], Fraction(cost), now)
    assert got == [tell(answer) for answer in expected]


@settings(max_examples=250, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(LIMITS, STEPS)
def test_a_table_answers_as_the_model_of_all_keys(limits, steps):
    world, table, now = worlds.World(), Table(limits), 1000
    try:
        for gap, step in steps:
            now += gap
            check = check_together if step[0].endswith("_all") else check_single
            check(world, table, limits, step, now)
    finally:
        table.limiter.close()
