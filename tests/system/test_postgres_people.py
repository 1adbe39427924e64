"""Takes in SQL, by applications that have no server of weir: src/store/postgres/people.sql, weir store limit, and the
page about them."""

import concurrent.futures
import json
import os
import random
import re
import subprocess
from datetime import timedelta
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import NamedTuple

import pytest

from weirserver import DEADLINE_S, WeirServer, clean_environment, wait_until, weir_binary

if "not in PostgreSQL" in subprocess.run([weir_binary(), "--version"], capture_output=True, text=True).stdout:
    pytest.skip("built without libpq", allow_module_level=True)

from postgres import programs  # noqa: E402

if programs() is None:
    pytest.skip("postgresql is not installed", allow_module_level=True)

import psycopg2  # noqa: E402

pytestmark = [pytest.mark.database, pytest.mark.once]

ROOT = Path(__file__).resolve().parents[2]
DISPLACED_NS = 7 << 60  # SWAP_DISPLACED_NS
NOON = 1_790_000_000_000_000_000  # a reading in 2026
SECOND = 10**9
UNIT_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": SECOND, "min": 60 * SECOND, "h": 3600 * SECOND,
           "d": 86_400 * SECOND, "w": 604_800 * SECOND}
ISOLATIONS = ("read committed", "repeatable read", "serializable")


def weir(*arguments):
    return subprocess.run([weir_binary(), *arguments], capture_output=True, text=True, timeout=DEADLINE_S,
                          env=clean_environment())


def said(*arguments):
    done = weir(*arguments)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def refused(*arguments, code=2):
    done = weir(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done
    return done.stderr


class Answer(NamedTuple):
    verdict: str
    capacity: int
    remaining: int
    level: Fraction
    retry_after_ns: int
    reset_after_ns: int
    delay_ns: int


class Session:
    """A connection of an application's."""

    def __init__(self, connection):
        self.connection = connection
        self.execute, self.value = connection.execute, connection.value
        self.execute("SET statement_timeout = '20s'")  # a test that fails, rather than one that hangs

    def call(self, function, *arguments):
        """`call("take", "login", "alice")`"""
        places = ", ".join(["%s"] * len(arguments))
        [row] = self.execute(f"SELECT verdict, capacity, remaining, level, retry_after_ns, reset_after_ns, delay_ns"
                             f" FROM weir.{function}({places})", *arguments)
        return Answer(*row)._replace(level=Fraction(row[3]))

    def decide(self, limit, operation, key, cost, reading):
        """At a reading; `limit` is an expression."""
        return self.call_of(f"weir.decide({limit}, %s, %s, %s, %s)", operation, key, cost, reading)

    def call_of(self, expression, *arguments):
        [row] = self.execute(f"SELECT verdict, capacity, remaining, level, retry_after_ns, reset_after_ns, delay_ns"
                             f" FROM {expression}", *arguments)
        return Answer(*row)._replace(level=Fraction(row[3]))

    def fails(self, statement, *arguments):
        """The SQLSTATE, and the first line of the message."""
        with pytest.raises(psycopg2.Error) as caught:
            self.execute(statement, *arguments)
        return caught.value.pgcode, str(caught.value).splitlines()[0]


class Store:
    def __init__(self, server):
        self.name = server.new_database()
        self.url = server.url(self.name)
        self.server = server
        assert said("store", "init", self.url) == "it is ready\n"
        self.connections = []

    def session(self):
        self.connections.append(self.server.connect(self.name))
        return Session(self.connections[-1])

    def add(self, name, limit):
        return said("store", "limit", "add", name, limit, self.url)

    def wait_until_blocked(self, session):
        observer = self.session()
        wait_until(lambda: observer.value("SELECT cardinality(pg_blocking_pids(%s)) > 0", session.connection.pid),
                   "a statement that waits for a lock")

    def close(self):
        for connection in self.connections:
            connection.close()


@pytest.fixture(scope="module")
def shared(postgres):
    store = Store(postgres)
    yield store
    store.close()


@pytest.fixture
def store(shared):
    """Without buckets, and without limits."""
    with shared.server.connect(shared.name) as connection:
        connection.execute("DELETE FROM weir.bucket; DELETE FROM weir.limits")
    yield shared
    while shared.connections:
        shared.connections.pop().close()


@pytest.fixture
def background():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        yield pool.submit


# Exact


class Limit(NamedTuple):
    text: str
    is_queue: bool
    rate: Fraction  # units a nanosecond
    capacity: Fraction
    goes_first: bool = False

    @property
    def full(self):
        return (self.capacity + self.goes_first) / self.rate


def limit(text):
    """By a grammar of its own."""
    words = text.split()
    is_queue = words[0] == "queue"
    count, _, period = next(word for word in words if "/" in word).partition("/")
    digits, unit = re.fullmatch(r"(\d*)([a-z]+)", period).groups()
    count = Fraction(count)
    options = dict(word.split("=") for word in words if "=" in word)
    capacity = Fraction(options.get("capacity", max(count, 1)))
    return Limit(text, is_queue, count / (int(digits or 1) * UNIT_NS[unit]), capacity, "first=now" in words)


class Model:
    """Buckets as fractions of a nanosecond, by the definition."""

    def __init__(self):
        self.moments = {}

    def decide(self, of, operation, key, cost, now):
        cost = Fraction(cost)
        span = cost / of.rate
        moment = self.moments.get(key, Fraction(0))
        after, verdict, retry, delay = moment, "allowed", -1, 0
        if operation == "refund":
            if cost and moment > now:
                after = max(moment - span, Fraction(now))
        elif operation != "show":
            if cost > of.capacity:
                verdict = "never"
            elif cost:
                after = max(moment, now) + span
                if after > now + of.full:
                    verdict, after = "limited", moment
                    retry = max(ceil(moment + span - of.full) - now, 0)
                elif of.is_queue:
                    delay = ceil(max(after - (span if of.goes_first else 0) - now, 0))
        if operation in ("take", "refund"):
            self.moments[key] = after
        level = max(after - now, Fraction(0))
        return Answer(verdict, floor(of.capacity),
                      min(floor(max(of.full - level, 0) * of.rate), floor(of.capacity)),
                      Fraction(ceil(level * of.rate * 10**6), 10**6), retry,
                      max(ceil(after) - now, 0), delay)


TEXTS = ["10/s", "1/7us", "3/s capacity=1", "1000/30d", "0.3/s capacity=2.5", "999983/1234567us", "queue 5/s capacity=10",
         "queue 7/3s", "1099511.627775/13ns capacity=3", "1/36525d", "1000000000000/ns", "0.000001/ns capacity=1"]


def random_cost(rng, of):
    whole = rng.choice([1, 1, 1, 2, 3, 0])
    return rng.choice([str(whole), "0.000001", "1.234567", str(floor(of.capacity)), str(floor(of.capacity) + 1)])


def walk(session, seed, steps, limits, expression):
    """Random questions about a few keys; each key has one limit."""
    rng, model, now = random.Random(seed), Model(), NOON
    keys = {f"key {i}": rng.choice(limits) for i in range(8)}
    verdicts = set()
    for _ in range(steps):
        key, of = rng.choice(list(keys.items()))
        unit = 1 / of.rate
        moment = model.moments.get(key, Fraction(now))
        now = max(0, now + rng.choice([0, 0, 1, -1, 1000, int(unit), int(of.full / 3), ceil(moment + unit - of.full) - now,
                                       ceil(moment) - now - rng.choice([0, 1])]))
        now = min(now, 2**62 - 1)
        operation = rng.choice(["take", "take", "take", "can_take", "refund", "show"])
        cost = "0" if operation == "show" else random_cost(rng, of)
        got = session.decide(expression(of), operation, key, cost, now)
        assert got == model.decide(of, operation, key, cost, now), (of.text, operation, key, cost, now)
        verdicts.add(got.verdict)
    assert verdicts == {"allowed", "limited", "never"}


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_fractions(store, isolation, seed):
    session = store.session()
    session.execute(f"SET default_transaction_isolation = '{isolation}'")
    walk(session, seed, 300, [limit(text) for text in TEXTS], lambda of: f"weir.limit_of_text('{of.text}')")


def test_answers_of_limits_with_names_are_those_of_fractions(store):
    texts = ["10/s", "0.3/s capacity=2.5", "queue 7/3s", "queue 5/s first=now", "queue 0.7/s capacity=3 first=now"]
    names = {text: f"limit{i}" for i, text in enumerate(texts)}
    for text, name in names.items():
        store.add(name, text)
    walk(store.session(), 1, 400, [limit(text) for text in texts], lambda of: f"weir.limit_named('{names[of.text]}')")


def test_sql_and_c_compile_the_same(store):
    session, rng = store.session(), random.Random(1)
    units = list(UNIT_NS)
    texts = TEXTS + ["  queue   010/01min  burst=2 ", "bucket 10/s", "10/s burst=3", "0.000001/w", "1/100w capacity=2"]
    texts += [f"{rng.choice(['', 'queue '])}{rng.randrange(1, 10**6) / 1000}/{rng.randrange(1, 999)}{rng.choice(units)}"
              f" capacity={rng.randrange(1, 50)}" for _ in range(12)]
    columns = "kind, goes_first, d, scale, full_ns, full_rest, capacity_micro"
    for text in texts:
        added = weir("store", "limit", "add", "same", text, store.url)
        if added.returncode == 0:
            [by_c] = session.execute(f"SELECT {columns} FROM weir.limits WHERE name = 'same'")
            assert session.execute(f"SELECT {columns} FROM weir.limit_of_text(%s)", text) == [by_c], text
        else:
            assert session.fails("SELECT weir.limit_of_text(%s)", text)[0] == "22023", text


def test_a_rest_of_other_numbers_counts_as_a_nanosecond(store):
    session = store.session()
    name = session.value("SELECT weir.bucket_name((weir.limit_of_text('3/s')).identity, 'alice')")
    session.execute("INSERT INTO weir.bucket VALUES (%s, %s, 6, 0)", name, NOON)  # of sevenths; 3/s has thirds
    assert session.decide("weir.limit_of_text('3/s')", "show", "alice", 0, NOON).reset_after_ns == 1
    session.decide("weir.limit_of_text('3/s')", "take", "alice", 1, NOON)
    assert session.execute("SELECT ns, rest FROM weir.bucket") == [(NOON + 333_333_334, 1)]


@pytest.mark.parametrize("setting", ["standard_conforming_strings = off", "intervalstyle = iso_8601", "search_path = ''",
                                     "bytea_output = escape", "extra_float_digits = -15", "enable_indexscan = off"])
def test_settings_of_the_session_change_nothing(store, setting):
    store.add("login", "10/d")
    session = store.session()
    session.execute(f"SET {setting}")
    assert session.call("take", "login", "alice", "0.5").remaining == 9
    assert session.call("take_text", "alice", "queue 0.5/d capacity=2.5").remaining == 1
    assert session.value("SELECT weir.bucket_name((weir.limit_of_text('10/s')).identity, 'alice')") \
        == "acfc4063-fe66-8572-8e5f-7de0937eea50"


@pytest.mark.parametrize("text, why", [
    ("", "SQL does not know the limit ''"),
    ("10", "does not know"),
    ("10/", "does not know"),
    ("10/fortnight", "does not know"),
    ("10 / s", "does not know"),
    ("10/s\n", "does not know"),
    ("-1/s", "does not know"),
    ("1e3/s", "does not know"),
    ("0.1234567/s", "does not know"),
    ("10/s capacity=", "does not know"),
    ("10/s capacity=2 capacity=2", "does not know"),
    ("10/s block=1s", "does not know"),
    ("10/s waiting=3", "does not know"),
    ("queue 10/s first=now", "does not know"),
    ("fixed 10/s", "does not know"),
    ("window 10/s", "does not know"),
    ("10/s,100/h", "does not know"),
    ("10/s" + " " * 300, "does not know"),
    ("0/s", "the count is zero"),
    ("1000000000000.1/s", "the count is above"),
    ("9" * 200 + "/s", "the count is above"),
    ("1/0s", "the period is zero"),
    ("1/36526d", "above 100 years"),
    ("1/" + "9" * 100 + "s", "above 100 years"),
    ("1/s capacity=0", "the capacity is zero"),
    ("1/s capacity=1000000000001", "the capacity is above"),
    ("1099511.627777/13ns", "cannot be represented exactly"),
    ("1/d capacity=36526", "more than 100 years to empty"),
])
def test_a_text_that_is_no_limit_of_sql_is_an_error(store, text, why):
    state, message = store.session().fails("SELECT * FROM weir.take_text('alice', %s)", text)
    assert state == "22023" and why in message, message
    c = weir("explain", text)  # what SQL finds wrong with the numbers, the core does
    assert "does not know" in why or c.returncode == 2


@pytest.mark.parametrize("arguments, state, message", [
    ("NULL, 'alice'", "22004", "the name of the limit is NULL"),
    ("'login', NULL", "22004", "the key is NULL"),
    ("'login', 'alice', NULL", "22004", "the cost is NULL"),
    ("'login', ''", "22023", "a key has 1 to 65535 bytes, not 0"),
    ("'login', repeat('é', 32768)", "22023", "a key has 1 to 65535 bytes, not 65536"),
    ("'login', 'alice', -1", "22023", "the cost must be 0 to 1000000000000"),
    ("'login', 'alice', 'NaN'", "22023", "the cost must be 0 to 1000000000000"),
    ("'login', 'alice', 'Infinity'", "22023", "the cost must be 0 to 1000000000000"),
    ("'login', 'alice', '-Infinity'", "22023", "the cost must be 0 to 1000000000000"),
    ("'login', 'alice', 1000000000001", "22023", "the cost must be 0 to 1000000000000"),
    ("'login', 'alice', 1e100", "22023", "the cost must be 0 to 1000000000000"),
    ("'login', 'alice', 0.0000001", "22023", "the cost has more than six places after the point"),
    ("'alice', 'login'", "42704", "there is no limit named 'alice'"),
])
def test_bad_arguments_are_errors_that_charge_nothing(store, arguments, state, message):
    store.add("login", "10/s")
    session = store.session()
    for function in ("take", "can_take", "refund"):
        assert session.fails(f"SELECT * FROM weir.{function}({arguments})") == (state, message)
    assert session.execute("SELECT * FROM weir.bucket") == []


def test_null_to_a_text_or_a_show_is_an_error(store):
    session = store.session()
    assert session.fails("SELECT * FROM weir.take_text('alice', NULL)") == ("22004", "the limit is NULL")
    assert session.fails("SELECT * FROM weir.take_text(NULL, '10/s')") == ("22004", "the key is NULL")
    assert session.fails("SELECT * FROM weir.show(NULL, 'alice')") == ("22004", "the name of the limit is NULL")


def test_the_longest_key_and_the_largest_cost_are_good(store):
    session = store.session()
    assert session.call("take_text", "k" * 65535, "10/s").verdict == "allowed"
    assert session.call("take_text", "alice", "10/s", 10**12).verdict == "never"
    assert session.call("take_text", "alice", "1/ns capacity=1000000000000", "1000000000000.0000000").remaining == 0


def test_times_are_intervals_too(store):
    store.add("slow", "queue 3/s capacity=1")
    session = store.session()
    columns = "retry_after, reset_after, delay, retry_after_ns"
    at = "FROM weir.decide(weir.limit_named('slow'), 'take', 'alice', 1, %s)"
    third = timedelta(microseconds=333_334)  # rounded up
    assert session.execute(f"SELECT {columns} {at}", NOON) == [(None, third, third, -1)]
    assert session.execute(f"SELECT {columns} {at}", NOON) == [(third, third, timedelta(0), 333_333_334)]


# The same bucket as a server's


def test_an_inline_limit_is_the_bucket_of_a_server(store):
    session = store.session()
    with WeirServer("--store", f"{store.url}&deadline=1000ms") as server, server.client() as client:
        for text in ("10/h", "queue 10/h capacity=4", "0.5/d capacity=7.25"):
            capacity = floor(limit(text).capacity)
            taken = client.command("WEIR.TAKE", "alïce", text)
            assert taken[:3] == [0, capacity, capacity - 1 if limit(text).capacity == capacity else 6]
            answer = session.call("take_text", "alïce", text, 2)
            assert (answer.verdict, answer.capacity) == ("allowed", capacity)
            shown = client.command("WEIR.SHOW", "alïce", text)
            assert shown[2] == answer.remaining
        # in other words
        assert session.call("take_text", "bob", "10/h capacity=20").remaining == 19
        assert client.command("WEIR.TAKE", "bob", "1/6min capacity=20")[2] == 18
        assert session.call("take_text", "bob", "240/d capacity=20").remaining == 17


def test_a_limit_with_a_name_is_the_bucket_of_a_server_with_that_name(store, tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text("limits:\n  login: 10/h\n  line: queue 10/h\n")
    store.add("login", "10/h")
    store.add("line", "queue 20/h capacity=15")  # other numbers, the same bucket
    session = store.session()
    with WeirServer("--store", f"{store.url}&deadline=1000ms", "--config", str(config)) as server, \
            server.client() as client:
        assert client.command("WEIR.TAKE", "alice", "login", "COST", "3")[2] == 7
        assert session.call("take", "login", "alice").remaining == 6
        assert session.call("can_take", "login", "alice", 7).verdict == "limited"
        assert session.call("refund", "login", "alice", 2).remaining == 8
        assert client.command("WEIR.SHOW", "alice", "login")[2] == 8
        client.command("WEIR.TAKE", "alice", "line", "COST", "5")  # half an hour; of 20/h that is 10
        assert session.call("show", "line", "alice").remaining == 5
        # a name is not its numbers
        assert session.call("take_text", "alice", "10/h").remaining == 9


def test_a_blocked_key_is_blocked_in_sql(store):
    session = store.session()
    with WeirServer("--store", f"{store.url}&deadline=1000ms") as server, server.client() as client:
        client.command("WEIR.TAKE", "alice", "10/h", "COST", "4")
        client.command("WEIR.BLOCK", "alice", "10/h", "3600000")
        answer = session.call("take_text", "alice", "10/h")
        assert (answer.verdict, answer.capacity, answer.remaining, answer.delay_ns) == ("blocked", 10, 6, 0)
        assert 3500 * SECOND < answer.retry_after_ns <= 3600 * SECOND
        by_text = "weir.decide(weir.limit_of_text('10/h'), %s, 'alice', %s, NULL)"
        assert session.call_of(by_text, "show", 0).verdict == "blocked"
        assert session.call_of(by_text, "can_take", 1).verdict == "blocked"
        assert session.call_of(by_text, "take", 0)[:3] == ("allowed", 10, 6)  # charges nothing: as a server
        assert session.call_of(by_text, "take", 11)[:3] == ("never", 10, 6)
        state, message = session.fails(f"SELECT {by_text}", "refund", 1)
        assert state == "55000" and re.match("this key is blocked until 20.*: only weir itself can give back to it", message)
        assert client.command("WEIR.REFUND", "alice", "10/h")[2] == 7
        client.command("WEIR.UNBLOCK", "alice", "10/h")
        assert session.call("take_text", "alice", "10/h")[:3] == ("allowed", 10, 6)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("operation, remaining", [("take", 5), ("refund", 7), ("can_take", 5), ("show", 6)])
def test_a_block_that_is_over_is_over_in_sql(store, isolation, operation, remaining):
    session = store.session()
    session.execute(f"SET default_transaction_isolation = '{isolation}'")
    name = session.value("SELECT weir.bucket_name((weir.limit_of_text('10/s')).identity, 'alice')")
    moment = NOON + 4 * SECOND // 10
    session.execute("INSERT INTO weir.bucket VALUES (%s, %s, 0, 0), (weir.block_name(%s), %s, %s, 0)", name, DISPLACED_NS,
                    name, NOON, moment)
    before = session.decide("weir.limit_of_text('10/s')", operation, "alice", 1, NOON - 1)  \
        if operation != "refund" else None
    assert before is None or (before.verdict, before.retry_after_ns) == ("blocked", 1)
    answer = session.decide("weir.limit_of_text('10/s')", operation, "alice", 1, NOON)
    assert (answer.verdict, answer.remaining) == ("allowed", remaining)
    after = {"take": moment + SECOND // 10, "refund": moment - SECOND // 10}.get(operation, DISPLACED_NS)
    assert session.value("SELECT ns FROM weir.bucket WHERE name = %s", name) == after
    if operation == "take":  # and a server goes on from there
        with WeirServer("--store", f"{store.url}&deadline=1000ms") as server, server.client() as client:
            shown = client.command("WEIR.SHOW", "alice", "10/s")
            assert shown[0] == 0 and abs(shown[4] - max(0, after - session.value("SELECT weir.now_ns(NULL)"))) < 30 * SECOND


# Several sessions


def test_what_many_sessions_take_at_once_is_the_capacity(store, background):
    store.add("login", "100/d")
    sessions = [store.session() for _ in range(6)]

    def take_all(session):
        return sum(session.call("take", "login", "alice").verdict == "allowed" for _ in range(40))

    taken = [background(take_all, session) for session in sessions]
    assert sum(each.result() for each in taken) == 100


def test_what_servers_and_sessions_take_at_once_is_the_capacity(store, background):
    sessions = [store.session() for _ in range(3)]

    def take_all(session):
        return sum(session.call("take_text", "alice", "150/d").verdict == "allowed" for _ in range(60))

    def ask_all(server):
        with server.client() as client:
            return sum(client.command("WEIR.TAKE", "alice", "150/d")[0] == 0 for _ in range(60))

    with WeirServer("--store", f"{store.url}&deadline=1000ms") as server:
        taken = [background(take_all, session) for session in sessions] + [background(ask_all, server) for _ in range(2)]
        assert sum(each.result() for each in taken) == 150


@pytest.mark.parametrize("ends, remaining", [("COMMIT", 8), ("ROLLBACK", 9)])
def test_a_row_is_locked_until_the_transaction_ends_and_a_rollback_gives_back(store, background, ends, remaining):
    store.add("login", "10/d")
    first, second = store.session(), store.session()
    first.execute("BEGIN")
    assert first.call("take", "login", "alice").remaining == 9
    waiting = background(second.call, "take", "login", "alice")
    store.wait_until_blocked(second)
    assert second.connection.raw and store.session().call("take", "login", "bob").remaining == 9  # others do not wait
    assert store.session().call("show", "login", "alice").remaining == 10  # nor does who only reads
    first.execute(ends)
    assert waiting.result().remaining == remaining


def test_a_transaction_that_was_refused_makes_nobody_wait(store):
    store.add("login", "2/d")
    first, second = store.session(), store.session()
    second.execute("SET lock_timeout = '1ms'")
    assert first.call("take", "login", "alice").remaining == 1
    first.execute("BEGIN")
    for operation, cost in [("take", 2), ("take", 3), ("take", 0), ("can_take", 1), ("refund", 0)]:
        first.call(operation, "login", "alice", cost)
    first.call("show", "login", "alice")
    first.call("refund", "login", "nobody")
    assert second.call("take", "login", "alice").verdict == "allowed"
    assert first.value("SELECT pg_current_xact_id_if_assigned() IS NULL")  # it wrote nothing
    first.execute("ROLLBACK")


def test_a_session_may_say_how_long_it_waits(store):
    store.add("login", "10/d")
    first, second = store.session(), store.session()
    first.execute("BEGIN")
    first.call("take", "login", "alice")
    second.execute("SET lock_timeout = '20ms'")
    assert second.fails("SELECT * FROM weir.take('login', 'alice')")[0] == "55P03"
    first.execute("COMMIT")
    assert second.call("take", "login", "alice").remaining == 8


def test_a_server_does_not_wait_for_a_transaction_longer_than_it_may(store):
    session = store.session()
    with WeirServer("--store", store.url) as server, server.client() as client:
        client.command("WEIR.TAKE", "alice", "10/d")
        session.execute("BEGIN")
        session.call("take_text", "alice", "10/d")
        held = client.command("WEIR.TAKE", "alice", "10/d on_error=allow")
        assert held[0] == 0 and held[2] == 9  # uncharged, with the figures of an empty bucket
        session.execute("ROLLBACK")


@pytest.mark.parametrize("isolation", ISOLATIONS[1:])
@pytest.mark.parametrize("operation", ["take", "refund"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_transaction_with_an_old_snapshot_fails_where_somebody_came_between(store, isolation, operation, is_new):
    store.add("login", "10/d")
    first, second = store.session(), store.session()
    if not is_new:
        second.call("take", "login", "alice")
    first.execute(f"BEGIN ISOLATION LEVEL {isolation}")
    before = first.call("show", "login", "alice").remaining
    second.call("take", "login", "alice", 5)
    assert first.call("show", "login", "alice").remaining == before  # of its snapshot
    assert first.fails(f"SELECT * FROM weir.{operation}('login', 'alice')")[0] == "40001"
    first.execute("ROLLBACK")
    assert first.call(operation, "login", "alice").remaining == before - 5 + (1 if operation == "refund" else -1)


def test_an_old_snapshot_does_not_overlook_that_a_refusal_is_over(store):
    """Refused by what it sees, it would be let in by what is there."""
    store.add("login", "10/d")
    first, second = store.session(), store.session()
    second.call("take", "login", "alice", 10)
    first.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    first.call("show", "login", "alice")
    second.call("refund", "login", "alice", 10)
    assert first.fails("SELECT * FROM weir.take('login', 'alice')")[0] == "40001"


@pytest.mark.parametrize("isolation", ISOLATIONS[1:])
def test_an_old_snapshot_does_not_overlook_that_a_row_was_pruned(store, isolation):
    first, second = store.session(), store.session()
    second.decide("weir.limit_of_text('10/s')", "take", "alice", 1, NOON - 90 * SECOND)
    first.execute(f"BEGIN ISOLATION LEVEL {isolation}")
    first.execute("SELECT * FROM weir.bucket")
    second.execute("DELETE FROM weir.bucket")
    at = (str(NOON),)
    assert first.fails("SELECT weir.decide(weir.limit_of_text('10/s'), 'take', 'alice', 1, %s)", *at)[0] == "40001"


@pytest.mark.parametrize("isolation", ISOLATIONS[1:])
def test_an_old_snapshot_does_not_overlook_that_a_block_goes_on(store, isolation):
    first, second = store.session(), store.session()
    name = second.value("SELECT weir.bucket_name((weir.limit_of_text('10/s')).identity, 'alice')")
    second.execute("INSERT INTO weir.bucket VALUES (%s, %s, 0, 0), (weir.block_name(%s), %s, 0, 0)", name, DISPLACED_NS,
                   name, NOON)
    first.execute(f"BEGIN ISOLATION LEVEL {isolation}")
    first.execute("SELECT * FROM weir.bucket")
    second.execute("UPDATE weir.bucket SET ns = %s WHERE name = weir.block_name(%s)", NOON + SECOND, name)
    take = "weir.decide(weir.limit_of_text('10/s'), 'take', 'alice', 1, %s)"
    assert first.fails(f"SELECT {take}", NOON)[0] == "40001"
    first.execute("ROLLBACK")
    assert first.call_of(take, NOON).verdict == "blocked"


def test_a_transaction_with_an_old_snapshot_may_take_several_times(store):
    store.add("login", "10/d")
    session = store.session()
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert [session.call("take", "login", "alice").remaining for _ in range(11)] == [*range(9, -1, -1), 0]
    session.execute("COMMIT")
    assert session.call("show", "login", "alice").remaining == 0


# weir store limit


def test_limits_are_added_changed_listed_and_removed(store):
    assert store.add("login", "10/s") == "login is 10/s\n"
    assert store.add("exports", "queue 5/min first=now on_error=allow") == "exports is queue 5/min first=now on_error=allow\n"
    assert said("store", "limit", "list", store.url) == ("exports is queue 5/min first=now on_error=allow\n"
                                                          "login is 10/s\n")
    session = store.session()
    session.call("take", "login", "alice", 10)
    assert store.add("login", "600/min capacity=20") == "login is 10/s capacity=20\n"  # canonical; the bucket stays
    assert session.call("show", "login", "alice").capacity == 20
    lines = said("store", "limit", "list", "--json", "--store", store.url).splitlines()
    assert [json.loads(line)["limit"] for line in lines][1] == "10/s capacity=20"
    assert said("store", "limit", "remove", "login", store.url) == "removed login\n"
    assert refused("store", "limit", "remove", "login", store.url, code=3) == "weir store: there is no limit named 'login'\n"
    assert session.fails("SELECT weir.take('login', 'alice')")[0] == "42704"
    added = said("store", "limit", "--json", "add", "login", "bucket", "10/s", "capacity=3", store.url)
    assert json.loads(added) == {"name": "login", "limit": "10/s capacity=3"}


@pytest.mark.parametrize("words, sentence", [
    (["add", "login", "fixed 10/min"], "SQL decides limits of the kinds bucket and queue"),
    (["add", "login", "stepped 10/min"], "SQL decides limits of the kinds bucket and queue"),
    (["add", "login", "sliding 10/min"], "SQL decides limits of the kinds bucket and queue"),
    (["add", "login", "window 10/min"], "SQL decides limits of the kinds bucket and queue"),
    (["add", "login", "10/s block=1h"], "SQL blocks nobody"),
    (["add", "login", "10/s block=empty"], "SQL blocks nobody"),
    (["add", "login", "10/fortnight"], "unknown unit 'fortnight'"),
    (["add", "login", "10/s", "capacity=" + "9" * 300], "longer than 256 bytes"),
    (["add", "login"], "add which limit?"),
    (["add", "Login", "10/s"], "'Login' is no name"),
    (["add", "queue", "10/s"], "'queue' is a kind of limit"),
    (["add", "throttle", "10/s"], "means something else to weir"),
    (["add", "x" * 64, "10/s"], "a name has at most 63 bytes"),
    (["remove"], "remove which one?"),
    (["remove", "a", "b"], "remove which one?"),
    (["list", "login"], "limit list has no words"),
    (["change", "login"], "say what to do: limit add"),
    ([], "say what to do: limit add"),
])
def test_what_is_no_limit_of_sql_is_refused(store, words, sentence):
    assert sentence in refused("store", "limit", *words, store.url)
    assert store.session().execute("SELECT * FROM weir.limits") == []


def test_limits_are_kept_in_databases_only(tmp_path):
    said("take", "alice", "10/s", "--store", f"file:{tmp_path}/f")
    assert "is for a database" in refused("store", "limit", "list", f"file:{tmp_path}/f")


def test_limits_need_the_schema_and_a_role_that_may(postgres, store):
    empty = postgres.url(postgres.new_database())
    assert "this makes it: weir store init" in refused("store", "limit", "list", empty, code=3)
    session = store.session()
    session.execute("DROP ROLE IF EXISTS guest_of_limits; CREATE ROLE guest_of_limits LOGIN; GRANT USAGE ON SCHEMA weir TO guest_of_limits")
    guest = store.url.replace("weir@", "guest_of_limits@")
    for words in (["list"], ["add", "login", "10/s"], ["remove", "login"]):
        assert "the owner of the schema of weir" in refused("store", "limit", *words, guest, code=3)
    session.execute("DROP OWNED BY guest_of_limits; DROP ROLE guest_of_limits")


# The page


def read_sessions(path):
    for block in re.findall(r"^```console\n(.*?)^```", path.read_text(), re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def test_the_page_says_what_happens(postgres, tmp_path):
    (tmp_path / "weir").symlink_to(weir_binary())
    database = postgres.new_database()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PG")},
        "PATH": f"{tmp_path}:{programs()}:{os.environ['PATH']}", "PGHOST": str(postgres.folder), "PGUSER": "weir",
        "TERM": "dumb", "PSQLRC": "/dev/null",
    }
    sessions = list(read_sessions(ROOT / "docs/postgres-sql.md"))
    assert len(sessions) >= 10
    for command, output in sessions:
        command = command.replace("postgres://owner@db.example/limits", f"'{postgres.url(database)}'")
        command = command.replace(" limits -", f" {database} -")
        command = command.replace("dbname=limits", f"dbname={database} host={postgres.folder} user=weir")
        ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False)
        assert ran.stdout == output, command
    with postgres.connect(database) as connection:
        connection.execute("DROP OWNED BY app; DROP ROLE app")
