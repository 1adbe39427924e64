# SPDX-License-Identifier: MIT
"""hypothesis compares the library with the reference model: short traces that it can shrink, and
long ones, millions of operations in total, that are repeated by their seed.

    WEIR_OPERATIONS=N   operations per long test, instead of 100,000
    SOAK_MINUTES=N      `make soak`: long tests for so long"""

import os
import random
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))

import libweir  # noqa: E402
import model  # noqa: E402

NOW_MAX = 2**62
OPERATIONS = int(os.environ.get("WEIR_OPERATIONS", "100000"))
TRACE = 1500  # operations of a long trace
pytestmark = pytest.mark.once


def examples(count):
    """Settings for so many examples, however slow the machine."""
    return settings(max_examples=count, deadline=None, print_blob=True,
                    suppress_health_check=list(HealthCheck))


def tell(answer):
    """The model's answer as libweir.tell() says it."""
    return (answer.verdict, answer.capacity, answer.remaining, answer.retry_after,
            answer.reset_after, answer.delay)


def beyond(operation, answer, in_table):
    """What an operation says beyond the decision."""
    if operation == "fill":
        return (answer.spill, answer.full)
    if operation == "show":
        return (answer.level, answer.live) if in_table else (answer.level,)
    return (answer.live,) if operation == "reset" and in_table else ()


def ask_model(bucket, operation, limit, cost_micro, now):
    if operation in ("show", "reset"):
        return getattr(bucket, operation)(limit, now)
    return getattr(bucket, operation)(limit, Fraction(cost_micro, model.MICRO), now)


METERS = (("bucket", "interval"), ("queue", "interval"), ("queue", "now"))
# A window needs the log of a store: it is tried in tables.
KINDS = (*METERS, *((kind, "interval") for kind in model.AS_WRITTEN if kind != "window"))
IN_TABLES = (*KINDS, ("window", "interval"))
COUNTERS = ("fixed", "sliding", "window")


def make_limit(count_micro, period_ns, capacity_micro, kind, first="interval", months=0):
    count = Fraction(count_micro, model.MICRO)
    capacity = count if kind in COUNTERS else Fraction(capacity_micro, model.MICRO)
    period_ns = months * model.MONTH_NS or period_ns
    return model.Limit(count / period_ns, capacity, kind=kind, first=first,
                       **({"count": count, "period_ns": period_ns, "months": months}
                          if kind in model.AS_WRITTEN else {}))


# Limits and costs of every magnitude, with the ends of the ranges and round numbers among them.

def magnitudes(most):
    some = {1, 2, most - 1, most, *(n * 10**k for k in range(19) for n in (1, 3, 7))}
    return st.one_of(st.sampled_from(sorted(n for n in some if 1 <= n <= most)), st.integers(1, min(most, 1000)),
                     st.integers(1, most))


def is_limit(limit):
    try:
        limit.check()
    except model.Refused:
        return False
    return True


@st.composite
def counters(draw, kind):
    """Fixed limits in millionths and in whole units, by the calendar and by the clock; sliding ones and windows."""
    whole = draw(magnitudes(model.COUNTS_MAX.get(kind, model.UNITS_MAX))) * model.MICRO
    parts = draw(magnitudes(model.NUMERATOR_MAX))
    months = draw(st.sampled_from([0, 0, 1, 3, 7, 12, 600])) if kind == "fixed" else 0
    count_micro = whole if kind != "fixed" or draw(st.booleans()) else parts
    return make_limit(count_micro, draw(magnitudes(model.WINDOW_MAX_NS)), 0, kind, months=months)


@st.composite
def limits(draw):
    """Rates up to the finest, capacities up to a hundred years: always representable."""
    count_micro = draw(magnitudes(model.NUMERATOR_MAX))
    period_ns = draw(magnitudes(model.SPAN_MAX_NS))
    kind, first = draw(st.sampled_from(KINDS))
    if kind in COUNTERS:
        return draw(counters(kind))
    drained = model.SPAN_MAX_NS // period_ns * count_micro if kind == "stepped" else (
        model.SPAN_MAX_NS * count_micro // period_ns)
    most = min(model.UNITS_MAX * model.MICRO, drained)
    if first == "now":
        assume(most > model.MICRO)
        most -= model.MICRO
    return make_limit(count_micro, period_ns, draw(magnitudes(most)), kind, first)


def test_limits_are_compiled_or_refused_alike():
    @examples(1000)
    @given(magnitudes(model.UNITS_MAX * model.MICRO), magnitudes(model.SPAN_MAX_NS),
           magnitudes(model.UNITS_MAX * model.MICRO), st.sampled_from(IN_TABLES))
    def check(count_micro, period_ns, capacity_micro, words):
        limit = make_limit(count_micro, period_ns, capacity_micro, *words)
        try:
            libweir.compile_limit(limit)
            reason = None
        except model.Refused as refused:
            reason = refused.reason
        try:
            limit.check()
            assert reason is None
        except model.Refused as refused:
            assert reason == refused.reason

    check()


# Short traces, which hypothesis shrinks.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(libweir.OPERATIONS),
        st.one_of(st.sampled_from(["0", "unit", "capacity", "over", "half"]),
                  magnitudes(model.UNITS_MAX * model.MICRO)),
        st.one_of(st.sampled_from(["same", "reset", "before reset", "retry", "before retry"]),
                  magnitudes(model.SPAN_MAX_NS), st.integers(-10**12, -1)),
    ),
    min_size=1, max_size=30)


def cost_of(word, limit):
    capacity_micro = int(limit.capacity * model.MICRO)
    named = {"0": 0, "unit": model.MICRO, "capacity": capacity_micro, "half": capacity_micro // 2,
             "over": min(capacity_micro + 1, model.UNITS_MAX * model.MICRO)}
    return named.get(word, word)


def instant_of(word, bucket, limit, cost_micro, now):
    """The instant of a step: some time on, or where something is about to happen."""
    answer = bucket.can_take(limit, Fraction(cost_micro, model.MICRO), now)
    named = {"same": 0, "reset": answer.reset_after, "before reset": answer.reset_after - 1,
             "retry": answer.retry_after or 0, "before retry": (answer.retry_after or 1) - 1}
    return min(NOW_MAX, max(0, now + named.get(word, word)))


def check_trace(make, limit, steps, in_table=False):
    slow, fast = model.bucket_of(limit), make()
    compiled = libweir.compile_limit(limit)
    now = 10**12
    for operation, cost_word, instant_word in steps:
        cost_micro = cost_of(cost_word, limit)
        now = instant_of(instant_word, slow, limit, cost_micro, now)
        expected = ask_model(slow, operation, limit, cost_micro, now)
        got, more = fast.decide(operation, compiled, cost_micro, now)
        assert got == tell(expected), (operation, cost_micro, now)
        assert more == beyond(operation, expected, in_table)
        assert in_table or libweir.LIBRARY.weir_bucket_valid(libweir.byref(fast.state))


@examples(600)
@given(limits(), STEPS)
def test_short_traces_of_a_bucket(limit, steps):
    check_trace(libweir.CoreBucket, limit, steps)


@examples(300)
@given(limits(), STEPS)
def test_short_traces_of_a_shared_bucket(limit, steps):
    check_trace(libweir.SharedBucket, limit, steps)


@examples(300)
@given(counters("window"), STEPS)
def test_short_traces_of_a_window(limit, steps):
    keys = []
    try:
        check_trace(lambda: keys.append(libweir.LoneKey()) or keys[0], limit, steps, in_table=True)
    finally:
        keys[0].close()


# Long traces by a seed that hypothesis draws.

class Dice:
    """Random numbers where it matters: all magnitudes, and the ends."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def magnitude(self, most):
        return max(1, min(most, self.random.getrandbits(self.random.randrange(1, 64))))

    def limit(self, kinds=KINDS):
        while True:
            kind, first = self.random.choice(kinds)
            count_micro = self.magnitude(model.NUMERATOR_MAX)
            if kind in model.COUNTS_MAX:
                count_micro = self.magnitude(model.COUNTS_MAX[kind]) * model.MICRO
            limit = make_limit(count_micro, self.magnitude(model.SPAN_MAX_NS),
                               self.magnitude(model.UNITS_MAX * model.MICRO), kind, first,
                               self.random.choice((0, 1, 12)) if kind == "fixed" else 0)
            if is_limit(limit):
                return limit

    def operation(self):
        return self.random.choices(libweir.OPERATIONS, (60, 8, 14, 8, 8, 2))[0]

    def cost_micro(self, limit):
        capacity_micro = int(limit.capacity * model.MICRO)
        sort = self.random.randrange(8)
        if sort == 0:
            return self.random.choice((0, model.MICRO, capacity_micro))
        if limit.grain and sort > 1:
            return self.random.randint(1, max(1, int(limit.capacity) >> self.random.randrange(6))) * model.MICRO
        if sort == 1:
            return self.magnitude(model.UNITS_MAX * model.MICRO)
        return self.random.randint(1, max(1, capacity_micro >> self.random.randrange(6)))

    def later(self, last, full_ns):
        """Some nanoseconds on, seldom back; `last` is the answer before."""
        sort = self.random.randrange(16)
        if sort < 4:
            return 0
        if sort < 8:
            return (last.retry_after or 0) - self.random.randrange(2)
        if sort == 8:
            return last.reset_after - self.random.randrange(2)
        if sort == 9:
            return -self.random.randrange(full_ns + 2)
        if sort < 15:
            return self.random.randrange(full_ns // 8 + 2)
        return self.random.randrange(2 * full_ns + 2)


def run_long(check, operations=OPERATIONS):
    """Calls check(seed), which does TRACE operations, with seeds from hypothesis until that many
    operations are done, or for as long as `make soak` says."""
    minutes = float(os.environ.get("SOAK_MINUTES", "0"))
    until = time.monotonic() + minutes * 60 / 4

    @examples(max(1, operations // TRACE))
    @given(st.integers(0, 2**64 - 1))
    def some(seed):
        check(seed)

    some()
    seeds = random.Random()
    while time.monotonic() < until:
        seed = seeds.getrandbits(64)
        try:
            check(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def check_long_trace(make, seed, may_change=False):
    dice = Dice(seed)
    kinds = METERS if may_change else KINDS  # those whose states are of one sort
    limit = dice.limit(kinds)
    compiled = libweir.compile_limit(limit)
    full_ns = int(limit.capacity / limit.rate)
    slow, fast = model.bucket_of(limit), make()
    now = dice.random.randrange(dice.random.choice((2**40, 2**60)))
    answer = slow.show(limit, now)
    for i in range(TRACE):
        if may_change and dice.random.randrange(16) == 0:
            limit = dice.limit(kinds)
            compiled = libweir.compile_limit(limit)
            full_ns = int(limit.capacity / limit.rate)
        now = min(NOW_MAX, max(0, now + dice.later(answer, full_ns)))
        operation, cost_micro = dice.operation(), dice.cost_micro(limit)
        answer = ask_model(slow, operation, limit, cost_micro, now)
        got, more = fast.decide(operation, compiled, cost_micro, now)
        assert got == tell(answer), (i, limit, operation, cost_micro, now)
        assert more == beyond(operation, answer, False), (i, limit, operation, cost_micro, now)


def test_long_traces_of_a_bucket():
    run_long(lambda seed: check_long_trace(libweir.CoreBucket, seed))


def test_long_traces_of_a_shared_bucket():
    run_long(lambda seed: check_long_trace(libweir.SharedBucket, seed))


def test_long_traces_under_changing_numbers():
    run_long(lambda seed: check_long_trace(libweir.CoreBucket, seed, may_change=True))


def check_table(seed):
    """Batches of questions about some keys under some limits, inline ones and one that is named, at
    readings that go back now and then. Once a slot was reused, an old reading sees a missing bucket as
    empty since then, and may be delayed where the model is not: such a trace ends there."""
    dice = Dice(seed)
    limiter = libweir.Limiter(16 << 20, seed)
    limits_ = [*(dice.limit(IN_TABLES) for _ in range(3)), dice.limit(METERS)]
    rules = [limiter.rule(libweir.compile_limit(limit)) for limit in limits_[:3]]
    name = b"named %d" % seed
    rules.append(limiter.rule(libweir.compile_limit(limits_[3]), name))
    buckets = {}
    now = dice.random.randrange(2**60)
    last, full_ns = model.bucket_of(limits_[0]).show(limits_[0], now), 10**9
    for _ in range(TRACE // 24):
        questions, expected = [], []
        if dice.random.randrange(8) == 0:  # the named limit's numbers change
            limits_[3] = dice.limit(METERS)
            rules[3] = limiter.rule(libweir.compile_limit(limits_[3]), name)
        now = min(NOW_MAX, max(0, now + dice.later(last, full_ns)))
        for _ in range(dice.random.randrange(1, 48)):
            which, key = dice.random.randrange(4), b"%d %d" % (seed, dice.random.randrange(3))
            limit, rule = limits_[which], rules[which]
            identity = limit.identity if which < 3 else (name, limit.kind)
            operation, cost_micro = dice.operation(), dice.cost_micro(limit)
            bucket = buckets.setdefault((identity, key), model.bucket_of(limit))
            last = ask_model(bucket, operation, limit, cost_micro, now)
            full_ns = int(limit.capacity / limit.rate)
            questions.append((operation, rule, key, cost_micro))
            expected.append((tell(last), beyond(operation, last, True)))
        answers = limiter.decide(questions, now)
        if limiter.reused_count() > 0:
            break
        for question, want, got in zip(questions, expected, answers):
            assert got == want, (question, now)
    limiter.close()


def test_long_traces_of_a_table():
    run_long(check_table)


def check_small_table(seed):
    """A table of 64 KiB and many more keys than it holds. It forgets what has drained and nothing
    else, so it answers as if it were endless, or `error` to a key that has no bucket."""
    dice = Dice(seed)
    limiter = libweir.Limiter(65536, seed)
    limits_ = [model.Limit(Fraction(2**bits, 10**12), Fraction(dice.random.randrange(1, 20)))
               for bits in (0, dice.random.randrange(20))]
    rules = [limiter.rule(libweir.compile_limit(limit)) for limit in limits_]
    buckets, now, errors = {}, 0, 0
    for _ in range(TRACE // 12):
        now += dice.random.choice((0, 1, 10**3, 10**6, 10**9, 10**10))
        questions = [
            (dice.operation(), dice.random.randrange(2), b"%d" % dice.random.randrange(5000),
             dice.random.randrange(12) * 500000)
            for _ in range(dice.random.randrange(1, 140))]
        answers = limiter.decide([(o, rules[w], k, c) for o, w, k, c in questions], now)
        for (operation, which, key, cost_micro), (got, more) in zip(questions, answers):
            limit = limits_[which]
            bucket = buckets.setdefault((which, key), model.bucket_of(limit))
            if got[0] == "error":
                errors += 1
                assert bucket.level_at(limit, now) == 0 and operation in ("take", "fill"), (key, now)
                continue
            expected = ask_model(bucket, operation, limit, cost_micro, now)
            assert (got, more) == (tell(expected), beyond(operation, expected, True)), (key, now)
    limiter.close()
    return errors


def test_a_small_table_forgets_nothing_live():
    errors = []
    run_long(lambda seed: errors.append(check_small_table(seed)), OPERATIONS // 10)
    assert sum(errors) > 0, "the table was never full"


# Texts.

@examples(1000)
@given(limits())
def test_the_canonical_text_means_the_same_limit(limit):
    config = libweir.config_of(limit)
    text = libweir.print_limit(config)
    assert model.parse_limit(text) == limit
    again = libweir.parse_limit(text)
    assert libweir.limit_of(again) == limit
    assert libweir.print_limit(again) == text


WORDS = ["bucket", "queue ", "stepped ", "fixed ", "sliding ", "window", "year", "601", "1048575", "10", "0", "0.5", "1.", "1.234567", "1.2345678", "1000000000000",
         "1000000000000.000001", "36525", "36526", "/", "s", "ms", "us", "ns", "min", "h", "d", "w",
         "month", " ", "  ", "capacity=", "burst=", "on_full=", "on_error=", "local", "first=", "now",
         "interval", "waiting=", "1000001", "1000", "allow", "refuse", "=", "-", "_", ".",
         "\t", "\x00", "\xff", "18446744073709551617", "1099511.627775", "1099511.627776"]


@examples(2000)
@given(st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
    st.tuples(st.sampled_from(["10/s", "bucket 1/5min", "0.5/7ns capacity=3", "queue 5/s first=now",
                               "fixed 5/", "fixed 0.5/month", "sliding 5/"]),
              st.lists(st.sampled_from(WORDS), max_size=6).map("".join)).map("".join),
    st.text(st.characters(max_codepoint=255), max_size=30)))
def test_texts_are_read_or_refused_alike(text):
    try:
        expected = model.parse_limit(text)
    except model.Refused as refused:
        expected = (refused.reason, refused.offset)
    try:
        got = libweir.limit_of(libweir.parse_limit(text))
    except model.Refused as refused:
        got = (refused.reason, refused.offset)
    assert got == expected


@examples(1000)
@given(st.one_of(
    st.lists(st.sampled_from([*WORDS, "1", "9", "000000", "999999999999"]), max_size=5).map("".join),
    st.text(st.characters(max_codepoint=255), max_size=12)))
def test_costs_are_read_or_refused_alike(text):
    try:
        expected = model.parse_cost(text)
    except model.Refused as refused:
        expected = (refused.reason, refused.offset)
    try:
        got = libweir.parse_cost(text)
    except model.Refused as refused:
        got = (refused.reason, refused.offset)
    assert got == expected


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["bucket", "shared bucket", "changing numbers", "table"])
def test_soak(kind):
    """The same long traces; SOAK_MINUTES, which `make soak` sets, says for how long."""
    if kind == "table":
        test_long_traces_of_a_table()
    else:
        make = libweir.SharedBucket if kind == "shared bucket" else libweir.CoreBucket
        run_long(lambda seed: check_long_trace(make, seed, kind == "changing numbers"))
