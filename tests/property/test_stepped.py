# SPDX-License-Identifier: MIT
"""What a stepped limit promises: C + min(C, N) * ceil(T / P) in any window of T, its two ends included; a retry that
is minimal and sufficient; a can_take that answers as take; and refunds that undo."""

import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))

import libweir  # noqa: E402
import model  # noqa: E402
from promises import Histories, assert_bound, assert_word_is_kept, most_under_stepped  # noqa: E402

pytestmark = pytest.mark.once


def examples(count):
    return settings(max_examples=count, deadline=None, print_blob=True,
                    suppress_health_check=list(HealthCheck))


def limit_of(count_micro, period_ns, capacity_micro):
    count = Fraction(count_micro, model.MICRO)
    return model.Limit(count / period_ns, Fraction(capacity_micro, model.MICRO), kind="stepped",
                       count=count, period_ns=period_ns)


LIMITS = st.builds(limit_of, st.integers(1, 12), st.integers(1, 20), st.integers(1, 30))
STEPS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=40)


def taken(limit, steps):
    """(instant, millionths) of what was charged by takes and fills, in turn."""
    bucket, compiled, now = libweir.CoreBucket(), libweir.compile_limit(limit), 0
    for i, (gap, cost_micro) in enumerate(steps):
        now += gap
        if i % 3 == 2:
            _, (spill, _) = bucket.decide("fill", compiled, cost_micro, now)
            yield now, cost_micro - int(spill * model.MICRO)
        else:
            answer, _ = bucket.decide("take", compiled, cost_micro, now)
            yield now, cost_micro if answer[0] == "allowed" else 0


@examples(1500)
@given(LIMITS, STEPS)
def test_the_bound_holds_in_every_window(limit, steps):
    assert_bound(list(taken(limit, steps)),
                 lambda window_ns: most_under_stepped(limit, window_ns) * model.MICRO)


@pytest.mark.parametrize("period_ns", [1, 2, 5])
@pytest.mark.parametrize("count, capacity", [(5, 1), (5, 4), (5, 5), (5, 7), (3, 8), (1, 3)])
def test_of_all_histories_none_passes_the_bound_and_some_reach_it(count, capacity, period_ns):
    limit = limit_of(count * model.MICRO, period_ns, capacity * model.MICRO)
    for window_ns, units in enumerate(Histories(limit).most_in(4 * period_ns)):
        bound = most_under_stepped(limit, window_ns)
        assert units <= bound
        assert units == bound or window_ns % period_ns != 0


def test_the_bound_is_reached():
    limit = limit_of(3 * model.MICRO, 10, 5 * model.MICRO)
    bucket, compiled = libweir.CoreBucket(), libweir.compile_limit(limit)
    passed = 0
    assert bucket.decide("take", compiled, model.MICRO, 0)[0][0] == "allowed"  # anchors, and passes
    for now, cost in ((9, 4), (10, 3), (20, 3), (30, 3)):
        passed += cost * (bucket.decide("take", compiled, cost * model.MICRO, now)[0][0] == "allowed")
    assert passed == 4 + 3 * 3  # in the 21 from 9 to 30, beside the 1 before: C - 1 + N * ceil(21 / 10)


@examples(1500)
@given(LIMITS, STEPS, st.integers(1, 30))
def test_answers_keep_their_word(limit, steps, cost_micro):
    bucket, compiled, now = libweir.CoreBucket(), libweir.compile_limit(limit), 0
    for gap, step_micro in steps:
        now += gap
        bucket.decide("take", compiled, step_micro, now)
    before = bytes(bucket.state)
    foretold, reset_after = assert_word_is_kept(bucket, compiled, cost_micro, now)
    if foretold[0] == "allowed" and reset_after > 0:
        assert bucket.decide("take", compiled, cost_micro, now)[0] == foretold
        bucket.decide("refund", compiled, cost_micro, now)
        assert bytes(bucket.state) == before
