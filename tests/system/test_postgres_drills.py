"""Bad days of a database: several clients take under one limit while it is killed, its network fails, others use it up.

What was allowed is replayed from the clients' own logs. A take was decided between the instant when its client sent it and
the one when the client had the answer; so of any window [a, b] the takes that were sent and answered in it are at most
capacity + rate * (b - a). No figure of weir's, or of the database, is believed for that.
"""

import bisect
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

from weirserver import WeirServer, wait_until, weir_binary

if "not in PostgreSQL" in subprocess.run([weir_binary(), "--version"], capture_output=True, text=True).stdout:
    pytest.skip("built without libpq", allow_module_level=True)

import psycopg2  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402
from ports import free_port  # noqa: E402
from postgres import PostgresServer, programs  # noqa: E402

if programs() is None:
    pytest.skip("postgresql is not installed", allow_module_level=True)

pytestmark = pytest.mark.database

RATE, CAPACITY = 200, 40
LIMIT = f"{RATE}/s capacity={CAPACITY}"
WORKERS = 2
CLIENTS = 4
CLOCK_NS = 1000  # the database's clock counts microseconds
ALLOWED, LIMITED, UNDECIDED = 0, 1, 4


def worst_window(allowed, rate=RATE):
    """allowed: (sent_ns, received_ns) of each. The largest of: takes within a window - rate * its length, and the window.

    The windows that count begin when one is sent, and end when one is answered."""
    worst = (Fraction(0), None)
    received = []  # of those that were sent at `begin` or later, in order
    for begin, end in sorted(allowed, reverse=True):
        bisect.insort(received, end)
        for i, until in enumerate(received):
            excess = i + 1 - Fraction(rate * (until - begin + CLOCK_NS), 10**9)
            worst = max(worst, (excess, (begin, until)), key=lambda found: found[0])
    return worst


class Asker(threading.Thread):
    """A client that asks one thing again and again, and writes down (sent_ns, received_ns, answer)."""

    def __init__(self, server, *command, pause_s=0.002):
        super().__init__(daemon=True)
        self.client = server.client()
        self.question = command
        self.pause_s = pause_s
        self.log = []
        self.failure = None
        self.stops = threading.Event()
        self.start()

    def run(self):
        try:
            with self.client:
                while not self.stops.wait(self.pause_s):  # not to keep the others from the processor
                    sent_ns = time.time_ns()
                    reply = self.client.command(*self.question)
                    self.log.append((sent_ns, time.time_ns(), reply[0]))
        except BaseException as failure:  # noqa: BLE001
            self.failure = failure

    def end(self):
        self.stops.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def waits_s(self):
        return [(received - sent) / 1e9 for sent, received, _ in self.log]


def count_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def count_threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


class Day:
    """A server of weir, and clients that take all the while; the rest is what has to be true in the evening."""

    def __init__(self, server, sessions, control):
        self.server, self.sessions, self.control = server, sessions, control
        self.askers, self.pings = [], []

    def __enter__(self):
        self.server.start()
        self.wait_for_takes()
        with contextlib.ExitStack() as all_seats:  # both connections of each worker
            for client in [all_seats.enter_context(self.server.client()) for _ in range(8)]:
                client.pipeline([("WEIR.TAKE", f"warm{i}", "9/s") for i in range(20)])
        self.askers = [Asker(self.server, "WEIR.TAKE", "hot", LIMIT) for _ in range(CLIENTS)]
        self.pings = [Asker(server, "PING", pause_s=0.005) for server in (self.server, self.control)]
        self.wait_for_decisions()
        wait_until(lambda: WORKERS <= self.sessions() <= 2 * WORKERS, "sessions")
        wait_until(lambda: count_threads(self.server.pid) == count_threads(self.control.pid), "the end of attempts")
        self.files_max = count_files(self.server.pid) + 2 * WORKERS  # a worker's other connection may be made later
        return self

    def __exit__(self, kind, *exception):
        try:
            for asker in self.askers + self.pings:
                asker.end()
            if kind is None:
                self.check()
        finally:
            code = self.server.stop()
        assert code == 0, self.server.log

    # ---- while it lasts ----

    def wait_for_takes(self):
        wait_until(lambda: self.server.command("WEIR.TAKE", "first", "9/s")[0] != UNDECIDED, "a take")

    def since(self, at_ns, *answers):
        return [entry for asker in self.askers for entry in list(asker.log)
                if entry[0] >= at_ns and entry[2] in answers]

    def wait_for_decisions(self):
        """Returns how many seconds it took until each client was decided again."""
        began_ns = time.time_ns()
        wait_until(lambda: all(asker.failure is not None or asker.log and asker.log[-1][0] >= began_ns
                               and asker.log[-1][2] in (ALLOWED, LIMITED) for asker in self.askers), "decisions")
        return (time.time_ns() - began_ns) / 1e9

    def lasts(self, seconds):
        """Waits until each client has been answered so much later: weir answers on the worst of days."""
        until_ns = time.time_ns() + int(seconds * 1e9)
        wait_until(lambda: all(asker.failure is not None or asker.log[-1][1] > until_ns for asker in self.askers), "answers")

    def count(self, event):
        return self.server.log.count(f" {event} ")

    def wait_for_outage(self):
        began_ns = time.time_ns()
        wait_until(lambda: self.since(began_ns, UNDECIDED), "an outage")

    def wait_for_log(self, text):
        return self.server.wait_for_log(f" {text} ")

    def wait_for_reason(self, text, *events):
        """In a line of one of these events."""
        wait_until(lambda: any(text in line and f" {event} " in line
                               for line in self.server.log.splitlines() for event in events), text)

    def must_be_soon(self, seconds):
        assert seconds < 5 + 10 * self.stall_s(), f"decided again after {seconds} s"

    def must_be_well(self, outages):
        """All that an outage took is given back. On a busy machine a database may be away more often; that one outage is
        said once is shown by test_store_later.py, whose wire is never busy."""
        wait_until(lambda: self.count("store_up") == self.count("store_down") >= outages, self.server.log)
        assert self.count("store_why") <= self.count("store_down"), self.server.log
        wait_until(lambda: count_threads(self.server.pid) <= count_threads(self.control.pid), "threads that connect to end")
        wait_until(lambda: self.sessions() <= 2 * WORKERS, "sessions to end")
        wait_until(lambda: count_files(self.server.pid) <= self.files_max, "files to be closed")

    # ---- in the evening ----

    def stall_s(self):
        """What the machine itself has kept a request waiting: of a server without a store."""
        return max(self.pings[1].waits_s())

    def check(self):
        log = [entry for asker in self.askers for entry in asker.log]
        allowed = [(sent, received) for sent, received, answer in log if answer == ALLOWED]
        excess, window = worst_window(allowed)
        assert excess <= CAPACITY, f"{float(excess)} at once in {window}, of {CAPACITY}"
        assert allowed and {answer for _, _, answer in log} <= {ALLOWED, LIMITED, UNDECIDED}
        slowest = max(wait for asker in self.askers + self.pings[:1] for wait in asker.waits_s())
        assert slowest < 1 + 4 * self.stall_s()  # 20 ms; whatever keeps a worker waits for 2 s and more
        print(f"{len(log)} takes, {len(allowed)} allowed, {float(excess):.1f} at once, slowest {slowest:.3f} s,"
              f" of the machine {self.stall_s():.3f} s")


class Place:
    """A database in a server that may be killed, behind a proxy."""

    def __init__(self, server, proxy, control):
        self.server, self.proxy, self.control = server, proxy, control
        self.name = server.new_database()
        self.url = f"postgres://weir@127.0.0.1:{proxy.port}/{self.name}"
        done = subprocess.run([weir_binary(), "store", "init", server.url(self.name)], capture_output=True, text=True)
        assert done.returncode == 0, done

    def connect(self):
        return self.server.connect(self.name)

    def sessions(self, connection):
        """How many of weir's there are."""
        return connection.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir' AND datname = %s",
                                self.name)

    def count_sessions(self):
        with self.connect() as connection:
            return self.sessions(connection)

    def end_sessions(self, connection):
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                           " WHERE application_name = 'weir' AND datname = %s", self.name)

    def day(self):
        return Day(WeirServer("--store", self.url, "--threads", WORKERS), self.count_sessions, self.control)


@pytest.fixture(scope="module")
def machine():
    """What all drills share: a server, a proxy, and a weir without a store, which shows how busy the machine is."""
    with PostgresServer() as server, FaultProxy(f"{server.folder}/.s.PGSQL.5432") as proxy, WeirServer("--threads", WORKERS) as control:
        yield server, proxy, control


@pytest.fixture
def place(machine):
    yield Place(*machine)
    machine[1].heal(end=True)


def test_the_replay_finds_one_too_many():
    at = 10**18
    within = [(at + i * 5_000_000, at + i * 5_000_000 + 100_000) for i in range(200)]  # 200/s
    together = [(at, at + 1000)] * CAPACITY
    assert worst_window(within)[0] <= 1 and worst_window(together)[0] <= CAPACITY
    assert worst_window(within[1:] + together)[0] <= CAPACITY
    assert worst_window([*within, *together, (at, at + 1000), (at, at + 1000)])[0] > CAPACITY


# ---- the server ----


def test_the_server_is_killed_and_comes_back(place):
    with place.day() as day:
        place.server.stop(signal.SIGKILL)
        day.wait_for_log("store_down")
        day.lasts(0.3)
        place.server.start()
        day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(1)


def test_the_server_stands_still(place):
    """As a virtual machine that is moved: what it was asked before it decides afterwards, and nobody waits for that."""
    with place.day() as day:
        with place.server.stands_still():
            day.wait_for_log("store_down")
            day.lasts(0.5)
        day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(1)


def test_others_use_up_all_connections(place):
    """A weir that starts meanwhile starts all the same."""
    with place.day() as day, place.connect() as connection, contextlib.ExitStack() as others:
        place.proxy.cut()
        wait_until(lambda: place.sessions(connection) == 0, "the end of sessions")

        def are_used_up():
            with contextlib.suppress(psycopg2.OperationalError):
                others.enter_context(place.connect())
                return False
            return True

        wait_until(are_used_up, "the last connection")
        place.proxy.heal()
        day.wait_for_log("store_down")
        with WeirServer("--store", place.url, "--threads", "1") as late:
            wait_until(lambda: "too many clients" in late.log, "the reason")
            others.close()
            late.wait_for_log("store_up")
        day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(1)


def test_sessions_are_ended_again_and_again(place):
    with place.day() as day, place.connect() as connection:
        for _ in range(30):
            place.end_sessions(connection)
            assert place.sessions(connection) <= 3 * WORKERS  # two, and an attempt
            day.lasts(0.02)
        day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(day.count("store_down"))


def test_the_database_is_read_only_for_a_while(place):
    """As a standby is, until it is promoted."""
    with place.day() as day, place.connect() as connection:
        change = f"ALTER DATABASE {place.name} SET default_transaction_read_only = "
        connection.execute(change + "on")
        place.end_sessions(connection)
        day.wait_for_reason("read-only", "store_down", "store_why")
        day.lasts(0.2)
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(change + "off")
        day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(1)


@pytest.mark.once
def test_a_standby_is_promoted(machine):
    """The primary is lost for good. What it had answered the standby has, too: a commit waits for it."""
    replicates = ("wal_level=replica", "max_wal_senders=4")
    with PostgresServer(*replicates) as primary, contextlib.ExitStack() as stack:
        name = primary.new_database()
        subprocess.run([weir_binary(), "store", "init", primary.url(name)], check=True, capture_output=True)
        standby = stack.enter_context(primary.standby(*replicates))
        with primary.connect(name) as connection:
            wait_until(lambda: connection.value("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1,
                       "the standby")
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            wait_until(lambda: connection.value("SELECT sync_state FROM pg_stat_replication") == "sync", "both as one")
        decides = [primary]

        def sessions():
            with decides[-1].connect(name) as connection:
                return connection.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir'")

        url = f"postgres://weir@/{name}?host={primary.folder},{standby.folder}"
        with Day(WeirServer("--store", url, "--threads", WORKERS), sessions, machine[2]) as day:
            primary.stop(signal.SIGKILL)
            day.wait_for_log("store_down")
            day.lasts(0.2)
            with standby.connect("postgres") as connection:
                assert connection.value("SELECT pg_promote()")
            decides.append(standby)
            day.must_be_soon(day.wait_for_decisions())
            day.must_be_well(1)


@pytest.fixture
def small_disk():
    """40 MB, if they may be mounted."""
    disk = Path(tempfile.mkdtemp(prefix="weir-disk-", dir="/tmp"))  # the server runs as another user
    disk.chmod(0o755)
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", disk], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
        yield disk
        subprocess.run(["umount", disk], check=True)
    finally:
        disk.rmdir()


@pytest.mark.once
def test_a_full_disk_refuses_new_keys_and_decides_for_the_others(small_disk, machine):
    with PostgresServer() as server, FaultProxy(f"{server.folder}/.s.PGSQL.5432") as proxy:
        place = Place(server, proxy, machine[2])
        with place.connect() as connection, place.day() as day:
            def is_decided(i):
                return day.server.command("WEIR.TAKE", f"new{i}", "9/h")[0] == ALLOWED

            folder = small_disk / "buckets"
            folder.mkdir()
            os.chown(folder, server.user.pw_uid, server.user.pw_gid)
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
            connection.execute("ALTER TABLE weir.bucket SET TABLESPACE small")
            connection.execute("CREATE TABLE filler (bytes text) TABLESPACE small")
            connection.execute("ALTER TABLE filler ALTER COLUMN bytes SET STORAGE EXTERNAL")
            for size in (10**6, 10**5, 10**3):
                with contextlib.suppress(psycopg2.errors.DiskFull):
                    while True:
                        connection.execute("INSERT INTO filler VALUES (repeat('x', %s))", size)
            numbers = iter(range(10**6))
            wait_until(lambda: not is_decided(next(numbers)), "a page that cannot be made")
            day.wait_for_decisions()
            connection.execute("DROP TABLE filler")
            connection.execute("CHECKPOINT")  # gives the disk back
            wait_until(lambda: is_decided(next(numbers)), "a new key")
            day.must_be_soon(day.wait_for_decisions())
            day.must_be_well(day.count("store_down"))


def test_the_network_fails_and_when_it_heals_the_schema_is_gone(place):
    """What was noticed first is not why the store stays away."""
    with place.day() as day, place.connect() as connection:
        place.proxy.hold()
        wait_until(lambda: day.server.metric("weir_store_down") == 1, "an outage")
        connection.execute("ALTER SCHEMA weir RENAME TO away")
        place.proxy.heal()
        day.wait_for_reason("weir store init", "store_why")
        connection.execute("ALTER SCHEMA away RENAME TO weir")
        day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(1)


# ---- what others lock ----


@pytest.mark.once
def test_a_stranger_holds_the_hot_row_for_a_second(place):
    with place.day() as day, place.connect() as stranger:
        stranger.execute("BEGIN")
        stranger.execute("SELECT 1 FROM weir.bucket FOR UPDATE")
        began_ns = time.time_ns()
        day.lasts(1)
        stranger.execute("COMMIT")
        assert not [entry for entry in day.since(began_ns, ALLOWED) if entry[1] < began_ns + 10**9]
        day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(day.count("store_down"))


def test_a_schema_that_is_locked_does_not_use_up_the_connections(place):
    """An attempt that waits for the lock would be given up, and stay; and another one would follow."""
    with place.day() as day, place.connect() as stranger, place.connect() as connection:
        stranger.execute("BEGIN")
        stranger.execute("LOCK TABLE weir.upkeep")
        place.end_sessions(connection)
        day.wait_for_log("store_down")
        for _ in range(10):
            day.lasts(0.1)
            assert place.sessions(connection) <= 3 * WORKERS
        stranger.execute("COMMIT")
        day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(1)


# ---- the network ----


FAULTS = {
    "cut": lambda proxy: proxy.cut(),
    "reset": lambda proxy: proxy.reset(),
    "hold": lambda proxy: proxy.hold(),
    "forget_all": lambda proxy: proxy.forget("both"),
    "forget_there": lambda proxy: proxy.forget("there"),
    "forget_back": lambda proxy: proxy.forget("back"),
    "lose_end": lambda proxy: proxy.lose_end(),
    "delay": lambda proxy: proxy.delay(0.1),
    "drip": lambda proxy: proxy.drip(),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_network_fails_and_heals(place, fault):
    with place.day() as day:
        FAULTS[fault](place.proxy)
        day.wait_for_log("store_down")
        day.lasts(0.3)
        began_ns = time.time_ns()
        day.lasts(0.1)
        assert not day.since(began_ns, ALLOWED, LIMITED)
        place.proxy.heal(end=True)
        day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(1)


def test_one_connection_is_lost_and_the_others_decide(place):
    with place.day() as day:
        place.proxy.lose_one()
        day.lasts(1.5)
        day.must_be_soon(day.wait_for_decisions())
        place.proxy.heal(end=True)
        day.must_be_well(day.count("store_down"))


def test_a_host_is_lost_in_the_middle_of_each_handshake(place):
    """Whatever it was about to say: the thread that waits for it ends."""
    with place.day() as day:
        for pieces in (2, 3, 5):
            place.proxy.cut()
            place.proxy.lose_after(pieces)
            day.wait_for_outage()
            day.lasts(0.1)
            place.proxy.heal(end=True)
            day.must_be_soon(day.wait_for_decisions())
        day.must_be_well(day.count("store_down"))


def test_the_server_soon_sees_that_a_host_is_gone(monkeypatch):
    """It would hold the rows of a transaction whose end was lost. The kernel shows when it asks next."""
    port = free_port()
    monkeypatch.setenv("PGPORT", str(port))
    with PostgresServer("listen_addresses=127.0.0.1", f"port={port}") as server:
        name = server.new_database()
        url = f"postgres://weir@127.0.0.1:{port}/{name}"
        done = subprocess.run([weir_binary(), "store", "init", url], capture_output=True, text=True)
        assert done.returncode == 0, done
        with WeirServer("--store", url, "--threads", "1") as weir:
            wait_until(lambda: weir.command("WEIR.TAKE", "a", "9/s")[0] != UNDECIDED, "a take")

            def timers():
                lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
                return [line[5].split(":") for line in lines
                        if line[1].endswith(":%04X" % port) and line[3] == "01"]

            wait_until(lambda: timers() and all(kind == "02" and int(when, 16) <= 1000 for kind, when in timers()),
                       "keepalives within 10 s")


