# SPDX-License-Identifier: MIT
"""A queue in constant memory and the line that it stands for admit the same and let go at the same
instants: the counter of the library and of the model, the line whose front item drains, and for costs of
one the line of places. And what a queue promises of those instants."""

import sys
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))

import fifo  # noqa: E402
import libweir  # noqa: E402
import model  # noqa: E402

pytestmark = pytest.mark.once
MS = 10**6


def examples(count):
    return settings(max_examples=count, deadline=None, print_blob=True,
                    suppress_health_check=list(HealthCheck))


def run(limit, arrivals, line):
    """Asks the library, the model and the line; returns (arrival, cost, exact egress) of what passed."""
    bucket, slow, compiled = libweir.CoreBucket(), model.Bucket(), libweir.compile_limit(limit)
    passed = []
    for now, cost_micro in arrivals:
        cost = Fraction(cost_micro, model.MICRO)
        item = line.arrive(now, cost) if isinstance(line, fifo.Fluid) else line.arrive(now)
        answer = slow.take(limit, cost, now)
        got, _ = bucket.decide("take", compiled, cost_micro, now)
        assert (got[0] == "allowed") == (answer.verdict == "allowed") == (item is not None), now
        assert got[5] == answer.delay
        if item is not None:
            passed.append((now, cost, item, now + got[5]))
    if isinstance(line, fifo.Fluid):
        line.drain_until(10**30)
    else:
        line.let_go_until(10**30)
    for _, _, item, told in passed:
        assert told == ceil(item.egress)
    return [(now, cost, item.egress) for now, cost, item, _ in passed]


def check_promises(limit, passed):
    """One egress follows another by what the one before costs (first=now) or it itself does
    (first=interval), unless the line was empty; never two closer. At most C stand in line."""
    for (_, before_cost, before), (now, cost, egress) in zip(passed, passed[1:]):
        spacing = (before_cost if limit.first == "now" else cost) / limit.rate
        earliest = before + spacing if limit.first == "now" else max(before, now) + spacing
        assert egress == max(earliest, now)
    for now, _, _ in passed:
        # Partly drained is partly gone: so whole items count whole only where all cost one.
        standing = sum(1 for at, _, egress in passed if at <= now < egress)
        if all(cost == 1 for _, cost, _ in passed):
            assert standing <= limit.capacity


def limit_of(count, period_ms, capacity, first):
    return model.Limit(Fraction(count, period_ms * MS), Fraction(capacity), kind="queue", first=first)


FIRSTS = st.sampled_from(["interval", "now"])
GAPS = st.one_of(st.just(0), st.integers(1, 400 * MS), st.sampled_from([100 * MS, 200 * MS]))


@examples(400)
@given(st.integers(1, 30), st.integers(1, 2000), st.integers(1, 12), FIRSTS,
       st.lists(GAPS, min_size=1, max_size=60))
def test_places_and_counter_are_the_same_line(count, period_ms, capacity, first, gaps):
    limit = limit_of(count, period_ms, capacity, first)
    arrivals, now = [], 0
    for gap in gaps:
        now += gap
        arrivals.append((now, model.MICRO))
    passed = run(limit, arrivals, fifo.Places(1 / limit.rate, capacity, first))
    check_promises(limit, passed)
    assert passed == run(limit, arrivals, fifo.Fluid(limit.rate, limit.capacity, first))


@examples(400)
@given(st.integers(1, 30), st.integers(1, 2000),
       st.integers(1, 48).map(lambda quarters: Fraction(quarters, 4)), FIRSTS,
       st.lists(st.tuples(GAPS, st.integers(1, 4 * model.MICRO)), min_size=1, max_size=60))
def test_fractions_of_a_cost_stand_in_the_same_line(count, period_ms, capacity, first, steps):
    limit = limit_of(count, period_ms, capacity, first)
    arrivals, now = [], 0
    for gap, cost_micro in steps:
        now += gap
        arrivals.append((now, min(cost_micro, int(capacity * model.MICRO))))
    check_promises(limit, run(limit, arrivals, fifo.Fluid(limit.rate, limit.capacity, first)))


@pytest.mark.parametrize("first, admitted", [("interval", 12), ("now", 13)])
def test_the_worked_example(first, admitted):
    """5 per second, a line of 10, a request every 25 ms: the page claims 10 of 20."""
    limit = limit_of(5, 1000, 10, first)
    arrivals = [(i * 25 * MS, model.MICRO) for i in range(20)]
    passed = run(limit, arrivals, fifo.Places(200 * MS, 10, first))
    assert len(passed) == admitted
    start = 200 * MS if first == "interval" else 0
    assert [egress for _, _, egress in passed] == [start + i * 200 * MS for i in range(admitted)]


@examples(300)
@given(st.integers(1, 30), st.integers(1, 2000), st.integers(1, 12), FIRSTS,
       st.lists(st.tuples(GAPS, st.integers(1, 4 * model.MICRO)), min_size=1, max_size=30),
       st.integers(1, 4 * model.MICRO))
def test_a_retry_is_minimal_and_sufficient(count, period_ms, capacity, first, steps, asked_micro):
    limit = limit_of(count, period_ms, capacity, first)
    bucket, compiled, now = libweir.CoreBucket(), libweir.compile_limit(limit), 0
    for gap, cost_micro in steps:
        now += gap
        bucket.decide("take", compiled, cost_micro, now)
    (verdict, _, _, retry_after, _, _), _ = bucket.decide("can_take", compiled, asked_micro, now)
    if verdict == "limited":
        def then(wait):
            return bucket.decide("can_take", compiled, asked_micro, now + wait)[0]
        assert then(retry_after)[0] == "allowed"
        assert then(retry_after - 1)[0] == "limited"
