# SPDX-License-Identifier: MIT
"""What fixed and sliding limits promise: their bounds in every window, both ends included; a retry that is
minimal and sufficient; a can_take that answers as take; refunds that undo; and small cases, all of them."""

import itertools
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))

import libweir  # noqa: E402
import model  # noqa: E402
from promises import Histories, assert_bound, assert_word_is_kept, most_under_sliding  # noqa: E402

pytestmark = pytest.mark.once
UNIT = model.MICRO


def examples(count):
    return settings(max_examples=count, deadline=None, print_blob=True,
                    suppress_health_check=list(HealthCheck))


def limit_of(kind, count, period_ns):
    return model.Limit(Fraction(count, period_ns), Fraction(count), kind=kind, count=Fraction(count),
                       period_ns=period_ns)


LIMITS = st.builds(limit_of, st.sampled_from(["fixed", "sliding"]), st.integers(1, 12), st.integers(1, 20))
STEPS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), min_size=1, max_size=40)


def most_in(limit, window_ns):
    """Units that any window of so many nanoseconds admits."""
    if limit.kind == "sliding":
        return most_under_sliding(limit, window_ns)
    return int(limit.count) * (-(-window_ns // limit.period_ns) + 1)


def charges_of(limit, steps):
    """(instant, units) of what was charged by takes and fills, in turn."""
    bucket, compiled, now = libweir.CoreBucket(), libweir.compile_limit(limit), 0
    for i, (gap, units) in enumerate(steps):
        now += gap
        if i % 3 == 2:
            _, (spill, _) = bucket.decide("fill", compiled, units * UNIT, now)
            yield now, units - int(spill)
        else:
            answer, _ = bucket.decide("take", compiled, units * UNIT, now)
            yield now, units if answer[0] == "allowed" else 0


@examples(1000)
@given(LIMITS, STEPS)
def test_the_bound_holds_in_every_window(limit, steps):
    assert_bound(list(charges_of(limit, steps)), lambda window_ns: most_in(limit, window_ns))


def passed(limit, steps):
    bucket, compiled = libweir.CoreBucket(), libweir.compile_limit(limit)
    return sum(units for now, units in steps
               if bucket.decide("take", compiled, units * UNIT, now)[0][0] == "allowed")


def test_the_bounds_are_reached_or_nearly():
    assert passed(limit_of("fixed", 5, 10), [(9, 5), (10, 5), (20, 5)]) == 15 == most_in(
        limit_of("fixed", 5, 10), 20 - 9)
    sliding = limit_of("sliding", 100, 1000)
    steps = [(999, 1)] * 99 + [(now, 1) for now in range(1000, 2000)]
    assert passed(sliding, [(0, 1), *steps]) - 1 == 198 == most_in(sliding, 1000)


@pytest.mark.parametrize("period_ns", [1, 2, 3, 7, 13])
@pytest.mark.parametrize("count", range(1, 8))
def test_of_all_histories_none_passes_the_bound_of_sliding_and_some_reach_it(count, period_ns):
    limit = limit_of("sliding", count, period_ns)
    for window_ns, units in enumerate(Histories(limit).most_in(4 * period_ns)):
        bound = most_under_sliding(limit, window_ns)
        assert units <= bound
        # Whole nanoseconds are too few for as many as can pass, where a period has hardly more of them.
        assert units == bound or window_ns % period_ns != 0 or period_ns < count


@examples(1000)
@given(LIMITS, STEPS, st.integers(1, 12), st.integers(-25, 0))
def test_answers_keep_their_word(limit, steps, units, late):
    bucket, compiled, now = libweir.CoreBucket(), libweir.compile_limit(limit), 100
    for gap, some in steps:
        now += gap
        bucket.decide("take", compiled, some * UNIT, now)
    now += late  # an old reading, too
    foretold, _ = assert_word_is_kept(bucket, compiled, units * UNIT, now)
    level = bucket.decide("show", compiled, 0, now)[1]
    assert bucket.decide("take", compiled, units * UNIT, now)[0] == foretold
    if foretold[0] == "allowed":
        bucket.decide("refund", compiled, units * UNIT, now)
        assert bucket.decide("show", compiled, 0, now)[1] == level


@pytest.mark.parametrize("kind", ["fixed", "sliding"])
@pytest.mark.parametrize("count, period_ns", [(1, 1), (2, 3)])
def test_all_small_cases(kind, count, period_ns):
    """A take, and every sequence of three steps behind it, back in time too, beside the model."""
    limit = limit_of(kind, count, period_ns)
    compiled = libweir.compile_limit(limit)
    steps = [(operation, units, gap)
             for operation, units in (("take", 1), ("take", 2), ("fill", 2), ("refund", 1), ("reset", 0))
             for gap in (-1, 0, 1, period_ns, period_ns + 1)]
    for trace in itertools.product(steps, repeat=3):
        slow, fast, now = model.bucket_of(limit), libweir.CoreBucket(), 2
        for operation, units, gap in (("take", 1, 0), *trace):
            now = max(0, now + gap)
            cost = () if operation == "reset" else (Fraction(units),)
            expected = getattr(slow, operation)(limit, *cost, now)
            got, _ = fast.decide(operation, compiled, units * UNIT, now)
            assert got == (expected.verdict, expected.capacity, expected.remaining, expected.retry_after,
                           expected.reset_after, 0), (trace, now)


def of_any_numbers(kind):
    counts = st.integers(1, model.SLIDING_COUNT_MAX if kind == "sliding" else 10**6)
    return st.builds(limit_of, st.just(kind), counts, st.integers(1, model.WINDOW_MAX_NS))


@examples(300)
@given(st.sampled_from(["fixed", "sliding"]).flatmap(lambda kind: st.lists(
    st.tuples(of_any_numbers(kind), st.sampled_from(libweir.OPERATIONS), st.integers(0, 10**6),
              st.integers(0, model.WINDOW_MAX_NS // 8)), min_size=2, max_size=12)))
def test_numbers_change_and_nothing_overflows(steps):
    """Of a named limit: the model keeps the same, and what is foretold holds under the new numbers."""
    slow, fast, now = model.bucket_of(steps[0][0]), libweir.CoreBucket(), 10**18
    for limit, operation, units, gap in steps:
        now = min(now + gap, 2**62)
        compiled = libweir.compile_limit(limit)
        cost = () if operation in ("show", "reset") else (Fraction(units),)
        expected = getattr(slow, operation)(limit, *cost, now)
        got, _ = fast.decide(operation, compiled, units * UNIT, now)
        assert got == (expected.verdict, expected.capacity, expected.remaining, expected.retry_after,
                       expected.reset_after, 0)
        assert libweir.LIBRARY.weir_bucket_valid(libweir.byref(fast.state))
