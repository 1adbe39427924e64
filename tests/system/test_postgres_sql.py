"""The statements of src/store/postgres/ on a real PostgreSQL: the same answers as exact fractions under every isolation
level, whatever others do at the same time; and what they lock, write and cost."""

import concurrent.futures
import itertools
import os
import random
import threading
import time
import uuid
from fractions import Fraction
from math import gcd
from pathlib import Path
from typing import NamedTuple

import pytest
from weirserver import wait_until

SOURCES = Path(__file__).resolve().parents[2] / "src/store/postgres"
ISOLATIONS = ("read committed", "repeatable read", "serializable")
SPAN_NS_MAX = 3_155_760_000_000_000_000  # WEIR_SPAN_NS_MAX: 100 years
DENOMINATOR_MAX = 2**40 - 1  # WEIR_DENOMINATOR_MAX
NOW_NS_MAX = 2**62  # WEIR_NOW_NS_MAX
DISPLACED_NS = 7 << 60  # SWAP_DISPLACED_NS
NOON = 1_790_000_000_000_000_000  # a reading in 2026
SECOND, MINUTE = 10**9, 60 * 10**9

pytestmark = pytest.mark.once


class Limit(NamedTuple):
    """A cost of m millionths moves the moment by m * scale D-ths of a nanosecond."""

    d: int
    scale: int
    capacity_micro: int

    def span(self, cost_micro):
        return divmod(cost_micro * self.scale, self.d)

    @property
    def full(self):
        return self.span(self.capacity_micro)


def limit(count, period_ns, capacity):
    """`limit(10, SECOND, 10)` is 10/s capacity=10."""
    parts = gcd(count * 10**6, period_ns)
    return Limit(count * 10**6 // parts, period_ns // parts, capacity * 10**6)


class Take(NamedTuple):
    """n takes of one bucket, as the statements are told of them."""

    name: uuid.UUID
    d: int
    span: tuple
    full: tuple
    n: int = 1

    def fraction(self, pair):
        return Fraction(pair[0]) + Fraction(pair[1], self.d)

    @property
    def slack(self):
        """full - span: how far beyond the reading the moment may be before the take."""
        borrow = int(self.full[1] < self.span[1])
        return (self.full[0] - self.span[0] - borrow, self.full[1] - self.span[1] + borrow * self.d)

    @property
    def n_empty(self):
        """How many of them fit an empty bucket."""
        return min(self.n, self.fraction(self.full) // self.fraction(self.span))


def take(name, of, cost_micro=10**6, n=1):
    return Take(name, of.d, of.span(cost_micro), of.full, n)


def names(count, seed=0):
    """In their order."""
    rng = random.Random(f"names {seed}")
    return sorted(uuid.UUID(int=rng.getrandbits(128)) for _ in range(count))


def array(values):
    return "{%s}" % ",".join(map(str, values))


class Session:
    """A connection of weir's: its settings, and its statements prepared."""

    TYPES = {
        "take_one": "uuid, bigint, bigint, bigint, bigint, bigint, bigint",
        "take_many": "uuid[], bigint[], bigint[], bigint[], bigint[], bigint[], integer[], integer[], bigint",
        "read_many": "uuid[], bigint",
        "swap": "uuid[], bigint[], bigint[], bigint[], bigint[], bigint[], integer[], bigint",
    }

    def __init__(self, connection, isolation):
        self.connection = connection
        self.execute, self.value = connection.execute, connection.value
        self.execute((SOURCES / "session.sql").read_text())
        self.execute(f"SET default_transaction_isolation = '{isolation}'")
        self.execute("SET statement_timeout = '20s'")  # a test that fails, rather than one that hangs
        for name, types in self.TYPES.items():
            self.execute(f"PREPARE {name} ({types}) AS {(SOURCES / f'{name}.sql').read_text()}")

    def take_one(self, take, reading=None):
        """(ns, rest, took, at)"""
        return tuple(self.value("EXECUTE take_one (%s, %s, %s, %s, %s, %s, %s)", str(take.name), take.d, *take.span,
                                *take.slack, reading))

    @staticmethod
    def arrays(takes):
        """names, D, and the four numbers of spans and slacks."""
        return (array(take.name for take in takes), array(take.d for take in takes),
                array(take.span[0] for take in takes), array(take.span[1] for take in takes),
                array(take.slack[0] for take in takes), array(take.slack[1] for take in takes))

    def take_many(self, takes, reading=None):
        """A row (ns, rest, took, at) for each take, in their order."""
        rows = self.execute("EXECUTE take_many (%s, %s, %s, %s, %s, %s, %s, %s, %s)", *self.arrays(takes),
                            array(take.n for take in takes), array(take.n_empty for take in takes), reading)
        return self.by_index(rows, len(takes))

    def take_run(self, takes, reading=None):
        """A row (ns, rest, fits, at) for each take, in their order."""
        return self.execute("SELECT * FROM weir.take_run(%s, %s, %s, %s, %s, %s, %s)", *self.arrays(takes), reading)

    def read_many(self, names, reading=None):
        """A row (ns, rest, at) for each name, in their order."""
        return self.by_index(self.execute("EXECUTE read_many (%s, %s)", array(names), reading), len(names))

    def swap(self, *rows, not_after=2**62, reading=None):
        """{group: whether it was written}. A row is (group, name, seen, next)."""
        groups, names, seen, then = zip(*rows)
        numbers = [array(pair[i] for pair in pairs) for pairs in (seen, then) for i in (0, 1)]
        return dict(self.execute("EXECUTE swap (%s, %s, %s, %s, %s, %s, %s, %s)", array(names), *numbers,
                                 array([not_after] * len(rows)), array(groups), reading))

    @staticmethod
    def by_index(rows, count):
        assert sorted(row[0] for row in rows) == list(range(1, count + 1))
        return [row[1:] for row in sorted(rows)]

    def buckets(self):
        """{name: (ns, rest)} of all."""
        rows = self.execute("SELECT name, ns, rest FROM weir.bucket")
        return {uuid.UUID(name): (ns, rest) for name, ns, rest in rows}


class Store:
    """A database with weir in it."""

    def __init__(self, server, database):
        self.server = server
        self.database = database
        self.connections = []
        self.observer = self.connect()

    def connect(self):
        self.connections.append(self.server.connect(self.database))
        return self.connections[-1]

    def session(self, isolation="read committed"):
        return Session(self.connect(), isolation)

    def wait_until_blocked(self, *sessions):
        """Until each of them waits for a lock of somebody else."""
        for session in sessions:
            wait_until(
                lambda: self.observer.value("SELECT cardinality(pg_blocking_pids(%s)) > 0", session.connection.pid),
                "a statement that waits for a lock",
            )

    def now_ns(self):
        return self.observer.value("SELECT weir.now_ns(NULL)")

    def close(self):
        for connection in self.connections:
            connection.close()


@pytest.fixture
def background():
    """background(f, ...) runs f in a thread of its own, and returns its future. Stores end before the threads do."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        yield pool.submit


def new_database(server):
    database = server.new_database()
    with server.connect(database) as connection:
        connection.execute((SOURCES / "schema.sql").read_text())
    return database


@pytest.fixture(scope="module")
def database(postgres):
    return new_database(postgres)


@pytest.fixture
def store(postgres, database, background):
    """Without buckets."""
    store = Store(postgres, database)
    store.observer.execute("TRUNCATE weir.bucket")
    store.observer.execute("UPDATE weir.upkeep SET next_page = 0")
    yield store
    store.close()


@pytest.fixture
def new_store(postgres, background):
    """Without figures, too."""
    store = Store(postgres, new_database(postgres))
    yield store
    store.close()


def is_serialization_failure(error):
    return getattr(error, "pgcode", None) == "40001"


# Exact


class Model:
    """Buckets as fractions. A take is decided one at a time, by the definition."""

    def __init__(self):
        self.pairs = {}  # as stored: (ns, rest), of whatever D that was

    def moment(self, take):
        ns, rest = self.pairs.get(take.name, (0, 0))
        return ns + min(Fraction(rest, take.d), Fraction(1))  # a rest that is no D-th: a nanosecond

    def store(self, take, moment):
        ns = moment // 1
        self.pairs[take.name] = (ns, int((moment - ns) * take.d))

    def take(self, take, reading):
        """What take_one and take_many return."""
        span, latest = take.fraction(take.span), reading + take.fraction(take.full)
        moment, took = self.moment(take), 0
        while took < take.n and max(moment, reading) + span <= latest:
            moment, took = max(moment, reading) + span, took + 1
        if took:
            self.store(take, moment)
        return (*self.pairs[take.name], took, reading)

    def take_run(self, takes, reading):
        """What take_run returns."""
        after = [max(self.moment(take), reading) + take.fraction(take.span) for take in takes]
        fits = [moment <= reading + take.fraction(take.full) for take, moment in zip(takes, after)]
        if all(fits):
            for take, moment in zip(takes, after):
                self.store(take, moment)
        return [(*self.pairs.get(take.name, (0, 0)), fit, reading) for take, fit in zip(takes, fits)]

    def read(self, name, reading):
        return (*self.pairs.get(name, (0, 0)), reading)


def random_limit(rng):
    while True:
        count = rng.choice([1, 3, 10, 999_983, DENOMINATOR_MAX, rng.randrange(1, 10**6), rng.randrange(1, 2**40)])
        count *= rng.choice([1, 10**6])
        period = rng.choice([1, 7, 10**3, SECOND, MINUTE, 86_400 * SECOND, rng.randrange(1, 10**15), SPAN_NS_MAX])
        parts = gcd(count, period)
        capacity = rng.choice([1, 2, 3, 10, 1000, 10**9]) * 10**6 + rng.choice([0, 0, 333_333])
        found = Limit(count // parts, period // parts, capacity)
        if found.d <= DENOMINATOR_MAX and 0 < found.full[0] <= SPAN_NS_MAX:
            return found


class Walk:
    """Random statements on a few buckets, each compared with the model."""

    def __init__(self, session, seed):
        self.session = session
        self.rng = random.Random(seed)
        self.model = Model()
        self.names = names(12, seed)
        self.limits = [random_limit(self.rng) for _ in range(6)]
        self.limit_of = {name: self.rng.choice(self.limits) for name in self.names}
        self.reading = self.rng.choice([0, 10**9, NOON, NOON, NOON, NOW_NS_MAX - 10**18])

    def move_clock(self):
        """Mostly forwards. Sometimes back, as after a failover; rarely very far."""
        rng, some = self.rng, self.limit_of[self.rng.choice(self.names)]
        step = rng.choice([0, 0, 1, 1, 1000, -1, -10**6, SECOND, some.span(10**6)[0], some.full[0] // 3, some.full[0]])
        if self.model.pairs and rng.random() < 0.3:  # to where one has just drained, or just fits
            name, (ns, _) = rng.choice(list(self.model.pairs.items()))
            of = self.limit_of[name]
            step = ns + rng.choice([0, of.span(10**6)[0] - of.full[0]]) + rng.choice([-1, 0, 1]) - self.reading
        elif rng.random() < 0.01:
            step = rng.choice([-NOW_NS_MAX, NOW_NS_MAX, -86_400 * SECOND])
        self.reading = min(max(self.reading + step, 0), NOW_NS_MAX - 1)

    def random_take(self, name, n_max):
        """n_max: of a run there is one take of each bucket."""
        rng, of = self.rng, self.limit_of[name]
        cost = min(of.capacity_micro, rng.choice([1, 10**6, 10**6, 2 * 10**6, 1_234_567]))
        patience = rng.choice([0, 0, 0, 1, SECOND, 10**17])
        n = min(1000 if rng.random() < 0.02 else rng.choice([1, 1, 2, 3, 20]), n_max)
        return Take(name, of.d, of.span(cost), (of.full[0] + patience, of.full[1]), n)

    def step(self):
        rng, reading = self.rng, self.reading
        chosen = sorted(rng.sample(self.names, rng.choice([1, 1, 2, 5, 12])))
        statement = rng.choice(["take", "take", "take", "run", "read"])
        if statement == "read":
            got = self.session.read_many(chosen, reading)
            want = [self.model.read(name, reading) for name in chosen]
        elif statement == "run":
            takes = [self.random_take(name, n_max=1) for name in chosen]
            got = self.session.take_run(takes, reading)
            want = self.model.take_run(takes, reading)
        else:
            takes = [self.random_take(name, n_max=1000) for name in chosen]
            if len(takes) == 1 and takes[0].n == 1:
                got = [self.session.take_one(takes[0], reading)]
            else:
                got = self.session.take_many(takes, reading)
            want = [self.model.take(take, reading) for take in takes]
        assert got == want, (statement, chosen, reading)

    def go(self, steps):
        for _ in range(steps):
            self.move_clock()
            if self.rng.random() < 0.05:  # the numbers of a limit change, and its buckets stay
                self.limit_of[self.rng.choice(self.names)] = self.rng.choice(self.limits)
            self.step()
        assert self.session.buckets() == self.model.pairs


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_answers_are_those_of_fractions(store, isolation, seed):
    Walk(store.session(isolation), seed).go(150)


def put(session, name, ns, rest=0):
    session.execute("INSERT INTO weir.bucket VALUES (%s, %s, %s, 0)", str(name), ns, rest)


def test_a_rest_that_is_no_dth_counts_as_a_nanosecond(store):
    session, [name, other] = store.session(), names(2)
    thirds, sevenths = Take(name, 3, (2, 1), (3, 1)), Take(name, 7, (0, 3), (100, 0))
    put(session, name, NOON, 6)  # 6/7 ns behind noon
    assert session.take_one(thirds, NOON) == (NOON + 3, 1, 1, NOON)  # 1 + 7/3
    assert session.take_one(thirds, NOON) == (NOON + 3, 1, 0, NOON)
    assert session.take_one(sevenths, NOON) == (NOON + 3, 4, 1, NOON)  # 1/7 is below 1/3; and 3/7
    put(session, other, NOON, 5)
    assert session.take_many([Take(other, 1, (2, 0), (10, 0), 6)], NOON) == [(NOON + 9, 0, 4, NOON)]


def test_a_third_of_a_nanosecond_counts(store):
    session, [full, empty] = store.session(), names(2)
    put(session, full, NOON, 1)
    put(session, empty, NOON)
    takes = [Take(name, 3, (5, 1), (5, 1)) for name in (full, empty)]
    assert session.take_run(takes, NOON) == [(NOON, 1, False, NOON), (NOON, 0, True, NOON)]
    assert session.take_many(takes, NOON) == [(NOON, 1, 0, NOON), (NOON + 5, 1, 1, NOON)]
    assert session.take_one(takes[0], NOON) == (NOON, 1, 0, NOON)
    assert session.take_one(takes[0], NOON + 1) == (NOON + 6, 1, 1, NOON + 1)


def test_the_numbers_of_any_limit_fit(store):
    """A hundred years, at the last reading that there is; and a unit of a trillionth of a nanosecond."""
    session, [slow, fast] = store.session(), names(2)
    last = NOW_NS_MAX - 1
    century = Take(slow, 1, (SPAN_NS_MAX, 0), (SPAN_NS_MAX, 0))
    assert session.take_one(century, last) == (last + SPAN_NS_MAX, 0, 1, last)
    assert session.take_one(century, 0) == (last + SPAN_NS_MAX, 0, 0, 0)
    assert session.take_run([century], 0) == [(last + SPAN_NS_MAX, 0, False, 0)]
    trillionth = Take(fast, DENOMINATOR_MAX, (0, 1), (SPAN_NS_MAX, DENOMINATOR_MAX - 1), 2**22 - 1)
    assert session.take_many([trillionth], 0) == [(0, 2**22 - 1, 2**22 - 1, 0)]
    assert session.take_many([trillionth], 0) == [(0, 2**23 - 2, 2**22 - 1, 0)]


def test_the_clock_has_whole_microseconds(store):
    """What it computes from an instant is what numeric arithmetic makes of it."""
    body = store.observer.value("SELECT prosrc FROM pg_proc WHERE oid = 'weir.now_ns'::regproc")
    assert "clock_timestamp()" in body
    instants = """SELECT t FROM (SELECT timestamptz 'epoch' + random() * (timestamptz '2106-01-01' - 'epoch') AS t
                                 FROM generate_series(1, 20000)) AS random"""
    computed = body.replace("reading", "NULL::bigint").replace("clock_timestamp()", "t")
    wrong = store.observer.execute(
        f"SELECT t FROM ({instants}) AS instants WHERE ({computed}) <> extract(epoch FROM t) * 1000000000")
    assert wrong == []
    exact = "extract(epoch FROM clock_timestamp()) * 1000000000"
    [(before, now, after)] = store.observer.execute(f"SELECT {exact}, weir.now_ns(NULL), {exact}")
    assert before <= now <= after


# Beside others


def ask(session, statement, takes, reading=None):
    """The same of all three statements: rows (ns, rest, took, at); of a run all have the same `took`."""
    if statement == "take_one":
        [only] = takes
        return [session.take_one(only, reading)]
    if statement == "take_many":
        return session.take_many(takes, reading)
    rows = session.take_run(takes, reading)
    took = int(all(fits for _, _, fits, _ in rows))
    return [(ns, rest, took, at) for ns, rest, _, at in rows]


STATEMENTS = ("take_one", "take_many", "take_run")
TENTHS = limit(10, SECOND, 3)  # 100 ms a unit, and three of them
UNIT = 100_000_000


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_take_that_had_to_wait_is_decided_on_what_is_there_then(store, background, statement, isolation, is_new):
    first, second, [name] = store.session(), store.session(isolation), names(1)
    if not is_new:
        put(first, name, 0)
    for earlier in (1, 3):  # a place is left; none is
        reading = NOON + earlier * MINUTE
        first.execute("BEGIN")
        first.take_many([take(name, TENTHS, n=earlier)], reading)
        future = background(ask, second, statement, [take(name, TENTHS)], reading)
        store.wait_until_blocked(second)
        first.execute("COMMIT")
        let_in = int(earlier < 3)
        if isolation == "read committed":
            assert future.result() == [(reading + (earlier + let_in) * UNIT, 0, let_in, reading)]
        else:
            assert is_serialization_failure(future.exception(20))
            assert store.session().buckets() == {name: (reading + earlier * UNIT, 0)}
            let_in = 0
        assert store.session().buckets() == {name: (reading + (earlier + let_in) * UNIT, 0)}


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_was_rolled_back_was_not_charged(store, background, statement, isolation):
    first, second, [name] = store.session(), store.session(isolation), names(1)
    first.execute("BEGIN")
    first.take_many([take(name, TENTHS, n=3)], NOON)
    future = background(ask, second, statement, [take(name, TENTHS)], NOON)
    store.wait_until_blocked(second)
    first.execute("ROLLBACK")
    assert future.result() == [(NOON + UNIT, 0, 1, NOON)]


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("rest", [0, DENOMINATOR_MAX - 1])
def test_a_blocked_bucket_refuses_and_its_row_stays(store, background, statement, rest):
    """Its row is displaced (src/store/swap.h). Also where the block begins while the take waits for the lock."""
    first, second, [name] = store.session(), store.session(), names(1)
    blocked = (DISPLACED_NS + rest, 0)
    put(first, name, NOON)
    first.execute("BEGIN")
    first.execute("UPDATE weir.bucket SET ns = %s, rest = %s WHERE name = %s", *blocked, str(name))
    future = background(ask, second, statement, [take(name, TENTHS)], NOON)
    store.wait_until_blocked(second)
    first.execute("COMMIT")
    assert future.result() == [(*blocked, 0, NOON)]
    for reading in (0, 1, NOON, NOW_NS_MAX - 1):
        for full in ((1, 0), (SPAN_NS_MAX, 0), (SPAN_NS_MAX - 1, DENOMINATOR_MAX - 1)):
            for span in (full, (0, 1)):
                asked = Take(name, DENOMINATOR_MAX, span, full)
                assert ask(second, statement, [asked], reading) == [(*blocked, 0, reading)]
    assert second.read_many([name], NOON) == [(*blocked, NOON)]
    assert store.session().buckets() == {name: blocked}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_clock_is_read_behind_the_lock(store, background, statement):
    first, second, [name] = store.session(), store.session(), names(1)
    of = limit(1000, SECOND, 1)
    first.execute("BEGIN")
    [(full_until, _, took, _)] = first.take_many([take(name, of)])
    assert took == 1
    future = background(ask, second, statement, [take(name, of)])
    store.wait_until_blocked(second)
    behind = wait_until(lambda: max(store.now_ns() - full_until, 0), "the bucket to drain") + full_until
    first.execute("COMMIT")
    [(ns, _, took, at)] = future.result()
    assert took == 1 and at >= behind and ns >= behind + SECOND // 1000


@pytest.mark.parametrize("there", ["all", "none", "but the last"])
@pytest.mark.parametrize("statement", ["take_many", "take_run"])
def test_rows_are_locked_in_the_order_of_names(store, background, statement, there):
    """Also those that have to be made. `middle` is held; so `low` is locked by now, and `high` is not."""
    low, middle, high = names(3)
    holder, asker, other = store.session(), store.session(), store.session()
    for name in {"all": (low, middle, high), "none": (), "but the last": (low, middle)}[there]:
        put(holder, name, 0)
    holder.execute("BEGIN")
    holder.take_one(take(middle, TENTHS), NOON)
    future = background(ask, asker, statement, [take(name, TENTHS) for name in (high, low, middle)], NOON)
    store.wait_until_blocked(asker)
    assert other.take_one(take(high, TENTHS), NOON)[2] == 1
    blocked = background(other.take_one, take(low, TENTHS), NOON)
    store.wait_until_blocked(other)
    holder.execute("COMMIT")
    assert [took for _, _, took, _ in future.result()] == [1, 1, 1]
    assert blocked.result()[2] == 1
    assert store.session().buckets() == {name: (NOON + 2 * UNIT, 0) for name in (low, middle, high)}


@pytest.mark.parametrize("column, value", [("ns", NOON + 1), ("rest", 1)])
def test_a_take_charges_no_row_that_has_changed_since_it_was_seen(store, background, column, value):
    """Neither half of the moment that it has seen may be another one behind the lock."""
    first, second, [name] = store.session(), store.session(), names(1)
    put(first, name, NOON)
    first.execute("BEGIN")
    first.execute(f"UPDATE weir.bucket SET {column} = {value}")
    future = background(second.take_one, Take(name, 3, (2, 1), (9, 0)), NOON)
    store.wait_until_blocked(second)
    first.execute("COMMIT")
    assert future.result() == ((NOON + 3, 1, 1, NOON) if column == "ns" else (NOON + 2, 2, 1, NOON))


def test_pages_are_not_cleared_for_each_update(new_store):
    """Fifteen updates of a full page of charged rows leave their dead versions there, without `room` one or two."""
    new_store.observer.execute("CREATE EXTENSION pageinspect")
    session = new_store.session()
    session.execute("INSERT INTO weir.bucket SELECT n, 0, 0, 0 FROM unnest(%s::uuid[]) AS n", array(names(200)))
    page = [uuid.UUID(name) for [name] in session.execute("SELECT name FROM weir.bucket WHERE ctid < '(1,0)'")]
    for name in page + page:
        session.take_one(take(name, TENTHS), NOON)

    def versions():
        return session.value("SELECT count(*) FROM heap_page_items(get_raw_page('weir.bucket', 0)) WHERE lp_flags = 1")

    seen = []
    for name in page:
        session.take_one(take(name, TENTHS), NOON)
        seen.append(versions() - len(page))
    assert session.value("SELECT count(room) FROM weir.bucket WHERE ctid < '(1,0)'") == 0
    assert max(seen) >= 10, seen


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_bucket_that_is_pruned_meanwhile_is_charged(store, background, statement, isolation):
    pruner, asker, [name] = store.session(), store.session(isolation), names(1)
    put(pruner, name, 0)
    pruner.execute("BEGIN")
    assert pruner.value("SELECT weir.prune(1)") == 1
    future = background(ask, asker, statement, [take(name, TENTHS)], NOON)
    store.wait_until_blocked(asker)
    pruner.execute("COMMIT")
    if statement == "take_one" and isolation != "read committed":  # its UPDATE meets the row that its snapshot sees
        assert is_serialization_failure(future.exception(20))
        assert store.session().buckets() == {}
        future = background(ask, asker, statement, [take(name, TENTHS)], NOON)
    assert future.result() == [(NOON + UNIT, 0, 1, NOON)]
    assert store.session().buckets() == {name: (NOON + UNIT, 0)}


def test_a_bucket_that_was_pruned_behind_an_old_snapshot_is_charged(store):
    """That transaction sees two rows of this name: the one that is gone, and its own."""
    pruner, asker, [name] = store.session(), store.session("repeatable read"), names(1)
    put(pruner, name, 0, 5)
    asker.execute("BEGIN")
    asker.buckets()
    assert pruner.value("SELECT weir.prune(1)") == 1
    sevenths = Take(name, 7, (1, 1), (9, 0))
    assert asker.take_run([sevenths], NOON) == [(NOON + 1, 1, True, NOON)]
    assert asker.take_run([sevenths], NOON) == [(NOON + 2, 2, True, NOON)]
    asker.execute("COMMIT")


def retried(ask, tries=1000):
    """Until it is no serialization failure, which charges nothing."""
    for _ in range(tries):
        try:
            return ask()
        except Exception as error:
            if not is_serialization_failure(error):
                raise
    raise TimeoutError(f"{tries} times a serialization failure")


def at_once(background, sessions, work):
    """work(session, its number) in a thread for each of them, all at once; what they return."""
    barrier = threading.Barrier(len(sessions))

    def run(session, number):
        barrier.wait()
        return work(session, number)

    futures = [background(run, session, number) for number, session in enumerate(sessions)]
    return [future.result() for future in futures]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_first_takes_at_once_are_one_after_the_other(store, background, isolation):
    """Six connections ask for the same new buckets, again and again. Each bucket lets in its ten, and knows of all."""
    sessions = [store.session(isolation) for _ in range(6)]
    of, per_round = limit(10, SECOND, 10), 12
    for turn in range(4):
        new = names(per_round, turn)

        def work(session, number):
            rng, took = random.Random(f"{turn} {number}"), dict.fromkeys(new, 0)
            for _ in range(3):
                takes = [take(name, of, n=rng.choice([1, 1, 2])) for name in rng.sample(new, 5)]
                rows = retried(lambda: session.take_many(takes, NOON))
                for asked, (_, _, count, _) in zip(takes, rows):
                    took[asked.name] += count
                one = take(rng.choice(new), of)
                took[one.name] += retried(lambda: session.take_one(one, NOON))[2]
            return took

        took = at_once(background, sessions, work)
        sums = {name: sum(each[name] for each in took) for name in new}
        assert max(sums.values()) == 10
        buckets = sessions[0].buckets()
        assert {name: buckets[name] for name in new if sums[name]} == {
            name: (NOON + count * UNIT, 0) for name, count in sums.items() if count}


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_runs_at_once_are_all_or_nothing(store, background, isolation):
    """Runs over three of six buckets, of which each overlaps with others, beside single takes and batches."""
    sessions = [store.session(isolation) for _ in range(5)]
    shared, of = names(6), limit(10, SECOND, 20)
    assert runs_at_once(background, sessions, shared, of, 25) > 0


def runs_at_once(background, sessions, shared, of, times, seed=0):
    """How many runs were refused. Checks that the buckets have been charged what was let in, and no more."""

    def work(session, number):
        rng, took, refused = random.Random(f"{seed} {number}"), dict.fromkeys(shared, 0), 0
        for _ in range(times):
            statement = rng.choice(["take_run", "take_run", "take_many", "take_one"])
            asked = [take(name, of) for name in rng.sample(shared, 1 if statement == "take_one" else 3)]
            rows = retried(lambda: ask(session, statement, asked, NOON))
            refused += statement == "take_run" and rows[0][2] == 0
            for one, (_, _, count, _) in zip(asked, rows):
                took[one.name] += count
        return took, refused

    out = at_once(background, sessions, work)
    sums = {name: sum(took[name] for took, _ in out) for name in shared}
    assert sessions[0].buckets() == {name: (NOON + count * UNIT, 0) for name, count in sums.items() if count or name}
    assert all(count <= of.capacity_micro // 10**6 for count in sums.values())
    return sum(refused for _, refused in out)


# What it costs


@pytest.mark.parametrize("statement", [*STATEMENTS, "read_many"])
def test_a_refusal_locks_and_writes_nothing(store, statement):
    """It does not even wait for the lock of somebody else; and nothing is charged where only one of a run is full."""
    full, empty = names(2)
    holder, asker = store.session(), store.session()
    asker.take_many([take(full, TENTHS, n=3)], NOON)

    def refused():
        if statement == "read_many":
            assert asker.read_many([full, empty], NOON) == [(NOON + 3 * UNIT, 0, NOON), (0, 0, NOON)]
        else:
            asked = [take(full, TENTHS), take(empty, TENTHS)] if statement == "take_run" else [take(full, TENTHS)]
            assert ask(asker, statement, asked, NOON)[0] == (NOON + 3 * UNIT, 0, 0, NOON)

    refused()  # once before: a first read may note on the page that the row's transaction is over
    holder.execute("BEGIN")
    holder.execute("SELECT FROM weir.bucket FOR UPDATE")
    asker.execute("BEGIN")
    before = asker.value("SELECT pg_current_wal_insert_lsn()")
    refused()
    assert asker.value("SELECT pg_current_wal_insert_lsn()") == before
    assert asker.value("SELECT pg_current_xact_id_if_assigned()") is None
    assert asker.execute("""SELECT locktype FROM pg_locks
                            WHERE pid = pg_backend_pid() AND locktype IN ('tuple', 'transactionid')""") == []
    asker.execute("COMMIT")
    holder.execute("ROLLBACK")
    assert asker.buckets() == {full: (NOON + 3 * UNIT, 0)}


def test_updates_touch_no_index(new_store):
    """"Heap-only": of 12,800 at least 99 of 100."""
    many, of = names(128), limit(10**6, SECOND, 10**6)
    with new_store.server.connect(new_store.database) as connection:
        session = Session(connection, "read committed")
        for _ in range(101):
            session.take_many([take(name, of) for name in many])

    def updates():
        return new_store.observer.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'bucket' AND n_tup_upd >= 12800")

    [(all_updates, heap_only)] = wait_until(updates, "the figures of the connection that has ended")
    assert heap_only >= 0.99 * all_updates


def test_rows_are_found_by_the_index_however_small_the_table_was(new_store):
    """The statements are planned for an empty table, and for one of a single page; then it grows."""
    asked = [take(name, TENTHS) for name in names(3)]
    grown = 20_000

    def all_statements(session):
        session.take_one(asked[0])
        session.take_many(asked)
        session.take_run(asked)
        session.read_many([one.name for one in asked])

    with new_store.server.connect(new_store.database) as connection:
        session = Session(connection, "read committed")
        all_statements(session)
        session.execute("ANALYZE weir.bucket")
        all_statements(session)
        session.execute("INSERT INTO weir.bucket SELECT gen_random_uuid(), 0, 0, 0 FROM generate_series(1, %s)", grown)
        all_statements(session)

    def rows_read():
        return new_store.observer.execute("""
            SELECT seq_tup_read + t.idx_tup_fetch + idx_tup_read
            FROM pg_stat_user_tables AS t JOIN pg_stat_user_indexes AS i USING (relid)
            WHERE t.relname = 'bucket' AND n_tup_ins >= %s""", grown)

    [(rows,)] = wait_until(rows_read, "the figures of the connection that has ended")
    assert rows < grown


def test_the_arithmetic_is_called_by_nobody(store):
    """The planner has copied the bodies of its functions into the statements. One is called: charge()."""
    session = store.session()
    functions = [name for [name] in session.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'weir'::regnamespace")]
    assert {"now_ns", "fits", "charge"} < set(functions)
    for call in (f"take_one ('{names(1)[0]}', 3, 1, 1, 9, 0, NULL)",
                 "take_many ('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', NULL)", "read_many ('{}', NULL)"):
        plan = "\n".join(line for [line] in session.execute(f"EXPLAIN (VERBOSE) EXECUTE {call}"))
        assert "Index Scan using bucket_pkey" in plan
        called = [name for name in functions if f"{name}(" in plan]
        assert called == (["charge"] if "take_one" in call else []), plan


def test_a_statement_is_planned_once(store):
    session = store.session()
    for _ in range(6):  # PostgreSQL plans five times before it considers to keep a plan
        session.take_one(take(names(1)[0], TENTHS), NOON)
        session.take_many([take(name, TENTHS) for name in names(3)], NOON)
        session.read_many(names(3), NOON)
        session.swap((1, names(1)[0], (0, 0), (0, 0)))
    assert session.execute("SELECT name, generic_plans, custom_plans FROM pg_prepared_statements ORDER BY name") == [
        ("read_many", 6, 0), ("swap", 6, 0), ("take_many", 6, 0), ("take_one", 6, 0)]


# Upkeep


def test_prune_deletes_what_has_been_empty_for_a_minute(store):
    """Page by page; and from the first page again."""
    rng, session, reading = random.Random(7), store.session(), NOON
    many = names(1000)
    at = {name: reading + rng.choice([-60 * SECOND - 1, -60 * SECOND, -rng.randrange(10**15), 0, rng.randrange(10**18)])
          for name in many}
    session.execute("INSERT INTO weir.bucket SELECT *, 0, 0 FROM unnest(%s::uuid[], %s::bigint[])",
                    array(at), array(at.values()))
    pages = session.value("SELECT pg_relation_size('weir.bucket') / current_setting('block_size')::integer")
    assert pages > 6
    dead = {name for name, ns in at.items() if ns < reading - 60 * SECOND}
    pruned = []
    while len(pruned) < (pages + 2) // 3:
        pruned.append(session.value("SELECT weir.prune(3, %s)", reading))
    assert session.value("SELECT next_page FROM weir.upkeep") == 0
    assert sum(pruned) == len(dead) and min(pruned) > 0
    assert session.buckets() == {name: (ns, 0) for name, ns in at.items() if name not in dead}
    assert session.value("SELECT weir.prune(3, %s)", reading) == 0
    assert session.value("SELECT next_page FROM weir.upkeep") == 3


def test_prune_waits_for_nobody(store):
    holder, pruner, [charged, idle] = store.session(), store.session(), names(2)
    put(pruner, charged, 0)
    put(pruner, idle, 0)
    holder.execute("BEGIN")
    holder.take_one(take(charged, TENTHS), NOON)
    assert pruner.value("SELECT weir.prune(1, %s)", NOON) == 1
    holder.execute("COMMIT")
    assert pruner.value("SELECT weir.prune(1, %s)", NOON) == 0
    assert pruner.buckets() == {charged: (NOON + UNIT, 0)}
    holder.execute("BEGIN")
    holder.value("SELECT weir.prune(1, %s)", NOON)
    assert pruner.value("SELECT weir.prune(1, %s)", NOON + 2 * MINUTE) == 0
    holder.execute("COMMIT")
    assert pruner.value("SELECT weir.prune(1, %s)", NOON + 2 * MINUTE) == 1


def test_prune_never_deletes_a_bucket_that_is_not_empty(store, background):
    """Buckets that are empty are charged while they are pruned, by all statements."""
    sessions, many, done = [store.session() for _ in range(4)], names(40), threading.Event()

    def prune(session):
        pruned = 0
        while not done.is_set():
            pruned += session.value("SELECT weir.prune(1000)")
        return pruned

    def work(session, number):
        mine = many[number::3]  # of these nobody else knows
        for statement in itertools.islice(itertools.cycle(STATEMENTS), 90):
            asked = [take(name, TENTHS) for name in (mine if statement != "take_one" else mine[:1])]
            rows = ask(session, statement, asked)
            assert session.read_many([one.name for one in asked], 0) == [(ns, rest, 0) for ns, rest, _, _ in rows]
            session.execute("UPDATE weir.bucket SET ns = 0 WHERE name = ANY (%s::uuid[])", array(mine))

    pruning = background(prune, sessions[3])
    try:
        at_once(background, sessions[:3], work)
    finally:
        done.set()
    assert pruning.result() > 0


def block_name(name):
    return uuid.UUID(int=name.int ^ 1)


def test_prune_deletes_blocks_that_are_over_and_then_the_buckets_that_they_displaced(store):
    """A block is over and its bucket empty when both numbers of its row are behind."""
    session, [over, full, blocked, alone] = store.session(), names(4)
    old = NOON - MINUTE - 1
    for name, ends_ns, moment_ns in ((over, old, old), (full, old, NOON), (blocked, NOON, old)):
        put(session, name, DISPLACED_NS + 7)
        put(session, block_name(name), ends_ns, moment_ns)
    put(session, alone, DISPLACED_NS)
    assert session.value("SELECT weir.prune(1, %s)", NOON) == 3  # alone, and what goes with its block
    assert session.buckets() == {full: (DISPLACED_NS + 7, 0), block_name(full): (old, NOON),
                                 blocked: (DISPLACED_NS + 7, 0), block_name(blocked): (NOON, old)}


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_prune_leaves_a_bucket_whose_block_begins_meanwhile(store, background, isolation):
    pruner, asker, [name] = store.session(isolation), store.session(), names(1)
    put(asker, name, DISPLACED_NS)
    if isolation != "read committed":
        pruner.execute("BEGIN")
        pruner.execute("SELECT * FROM weir.bucket")  # a snapshot from before
    swapped = asker.swap((1, name, (DISPLACED_NS, 0), (DISPLACED_NS, 0)), (1, block_name(name), (0, 0), (NOON, 0)))
    assert swapped == {1: 1}
    assert pruner.value("SELECT weir.prune(1, %s)", NOON) == 0
    if isolation != "read committed":
        pruner.execute("COMMIT")
    assert asker.buckets() == {name: (DISPLACED_NS, 0), block_name(name): (NOON, 0)}


def test_of_several_pruners_one_goes_on(store):
    """The one that finds the page where it saw it last."""
    one, other = store.session(), store.session()
    for name in names(500):
        put(one, name, 0)
    prune = "SELECT pruned, page FROM weir.prune_from(%s, 1)"
    assert one.execute(prune, -1) == [(None, 0)]  # a first look
    [[pruned, page]] = one.execute(prune, 0)
    assert pruned > 0 and page == 1
    assert other.execute(prune, 0) == [(None, 1)]
    assert one.execute(prune, 1)[0][1] == 2
    assert other.execute(prune, 1) == [(None, 2)]
    assert other.execute(prune, 2)[0][1] == 3  # the first one has not come again
    assert one.execute(prune, 2) == [(None, 3)]
    one.execute("BEGIN")
    one.execute(prune, 3)
    assert one.value("SHOW synchronous_commit") == "off"
    assert other.execute(prune, 3) == [(0, 3)]  # it does not wait
    one.execute("COMMIT")
    assert one.value("SHOW synchronous_commit") == "on"


# Swap


def test_a_swap_writes_each_group_as_a_whole_or_not_at_all(store):
    session, [a, b, c, d, e] = store.session(), names(5)
    for name, ns in ((a, 1), (b, 2), (c, 3), (d, 4)):
        put(session, name, ns, 9)
    swapped = session.swap((2, d, (4, 9), (44, 0)), (1, a, (1, 9), (11, 0)), (1, b, (2, 9), (2, 9)),
                           (2, c, (3, 8), (33, 0)), (3, e, (0, 0), (55, 1)))
    assert swapped == {1: 1, 2: 0, 3: 1}
    assert session.buckets() == {a: (11, 0), b: (2, 9), c: (3, 9), d: (4, 9), e: (55, 1)}


def test_a_swap_that_comes_too_late_writes_nothing(store):
    session, [name] = store.session(), names(1)
    assert session.swap((1, name, (0, 0), (5, 0)), not_after=NOON - 1, reading=NOON) == {1: 0}
    assert session.swap((1, name, (0, 0), (5, 0)), not_after=NOON, reading=NOON) == {1: 1}
    now_ns = session.value("SELECT weir.now_ns(NULL)")
    assert session.swap((1, name, (5, 0), (6, 0)), not_after=now_ns - 1) == {1: 0}
    assert session.swap((1, name, (5, 0), (6, 0)), not_after=now_ns + MINUTE) == {1: 1}


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_swap_that_had_to_wait_sees_what_came_between(store, background, isolation, is_new):
    holder, asker, [name] = store.session(), store.session(isolation), names(1)
    if not is_new:
        put(holder, name, 0)
    holder.execute("BEGIN")
    holder.take_one(take(name, TENTHS), NOON)
    swapping = background(retried, lambda: asker.swap((1, name, (0, 0), (5, 0))))
    store.wait_until_blocked(asker)
    holder.execute("COMMIT")
    assert swapping.result() == {1: 0}
    assert asker.buckets() == {name: (NOON + UNIT, 0)}


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_swaps_at_once_lose_nothing_and_have_no_deadlock(store, background, isolation):
    """Two rows that are counted up together, their names in any order."""
    sessions, many = [store.session(isolation) for _ in range(4)], names(3)

    def work(session, number):
        rng, written = random.Random(number), {name: 0 for name in many}
        for _ in range(60):
            pair = rng.sample(many, 2)
            seen = retried(lambda: session.read_many(pair))
            rows = [(1, name, row[:2], (row[0] + 1, row[1])) for name, row in zip(pair, seen)]
            if retried(lambda: session.swap(*rows)) == {1: 1}:
                for name in pair:
                    written[name] += 1
        return written

    written = at_once(background, sessions, work)
    for name, (ns, rest) in sessions[0].buckets().items():
        assert (ns, rest) == (sum(mine[name] for mine in written), 0) and ns > 0


# The schema


def test_the_schema_is_applied_again_and_by_several_at_once(postgres, background):
    schema, database = (SOURCES / "schema.sql").read_text(), postgres.new_database()
    connections = [postgres.connect(database) for _ in range(4)]
    at_once(background, connections, lambda connection, _: connection.execute(schema))
    session = Session(connections[0], "read committed")
    session.take_one(take(names(1)[0], TENTHS), NOON)
    session.execute(schema)
    assert session.take_one(take(names(1)[0], TENTHS), NOON) == (NOON + 2 * UNIT, 0, 1, NOON)
    assert session.execute("SELECT version FROM weir.upkeep") == [(1,)]
    for connection in connections:
        connection.close()


def test_a_newer_schema_is_left_alone(new_store):
    new_store.observer.execute("UPDATE weir.upkeep SET version = 2")
    new_store.observer.execute("DROP FUNCTION weir.prune")
    with pytest.raises(Exception, match="the schema weir has version 2, and this weir knows version 1"):
        new_store.observer.execute((SOURCES / "schema.sql").read_text())
    new_store.observer.execute("ROLLBACK")
    assert new_store.observer.value("SELECT to_regproc('weir.prune')") is None


# Long runs


def soak_until():
    return time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", "1")) / 2


@pytest.mark.soak
def test_answers_are_those_of_fractions_for_long(store):
    until, seed = soak_until(), time.time_ns()
    sessions = [store.session(isolation) for isolation in ISOLATIONS]
    while time.monotonic() < until:
        for session in sessions:
            seed += 1
            print("seed", seed)
            session.execute("TRUNCATE weir.bucket")
            Walk(session, seed).go(500)


@pytest.mark.soak
def test_a_hundred_thousand_runs_have_no_deadlock(store, background):
    until, sessions, runs = soak_until(), [store.session() for _ in range(8)], 0
    while runs < 100_000 or time.monotonic() < until:
        store.observer.execute("TRUNCATE weir.bucket")
        runs_at_once(background, sessions, names(8), limit(10, SECOND, 5000), 1000, seed=runs)
        runs += 8 * 1000
