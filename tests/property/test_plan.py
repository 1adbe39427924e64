# SPDX-License-Identifier: MIT
"""What `weir explain 'at most N in any T'` proposes does guarantee that, in a store, whoever comes when; and
nearly as much does pass."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import libweir  # noqa: E402
import model  # noqa: E402
from weirserver import weir_binary  # noqa: E402

pytestmark = pytest.mark.once


def planned(count, period_ns):
    """(limit, whether the ends of T are a part of it) of all choices."""
    done = subprocess.run([weir_binary(), "explain", "--json", f"at most {count} in any {period_ns}ns"],
                          capture_output=True, text=True, check=True)
    return [(choice["limit"], choice["end_included"]) for choice in json.loads(done.stdout)["choices"]]


def admitted(text, steps):
    """(instant, units) of all that a new bucket lets through. None stands for just when it fits."""
    limiter = libweir.Limiter()
    compiled = ctypes.create_string_buffer(256)
    config = libweir.parse_limit(text)
    assert libweir.LIBRARY.weir_limit_init(compiled, ctypes.byref(config), None) == 0
    rule, now, charges = limiter.rule(compiled), 0, []
    for gap, units in steps:
        question = ("take", rule, b"key", units * model.MICRO)
        if gap is None:
            ((asked, _),) = limiter.decide([("can_take", *question[1:])], now)
            gap = asked[3] or 0
        now += gap
        ((answer, _),) = limiter.decide([question], now)
        if answer[0] == "allowed":
            charges.append((now, units))
    limiter.close()
    return charges


def most_in_any(charges, period_ns, end_included):
    """Windows that begin with an arrival are the worst."""
    return max((sum(units for at, units in charges
                    if start <= at and at - start < period_ns + end_included)
                for start, _ in charges), default=0)


@settings(max_examples=150, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 40), st.integers(2, 200), st.data())
def test_what_is_planned_keeps_its_word(count, period_ns, data):
    steps = data.draw(st.lists(
        st.tuples(st.one_of(st.none(), st.sampled_from([0, 1, period_ns - 1, period_ns]), st.integers(0, period_ns)),
                  st.integers(1, 4)), max_size=60))
    choices = planned(count, period_ns)
    assert choices[-1][0].startswith("window ") and len(choices) >= (2 if count > 1 else 1)
    for text, end_included in choices:
        charges = admitted(text, steps)
        assert most_in_any(charges, period_ns, end_included) <= count, (text, charges)


@pytest.mark.parametrize("count", [1, 2, 10, 300])
def test_no_more_is_given_up_than_is_said(count):
    """Whoever comes as often as he may gets all N: in a T and its end from a bucket, but for what he loses by
    coming at whole nanoseconds; from a window without the end, exactly."""
    period_ns = 60 * 10**9
    for text, end_included in planned(count, period_ns):
        charges = admitted(text, [(None, 1)] * (2 * count))
        assert count - end_included <= most_in_any(charges, period_ns, end_included) <= count, text
        rate = libweir.limit_of(libweir.parse_limit(text)).rate * period_ns
        assert (rate == count) == text.startswith("window"), text
