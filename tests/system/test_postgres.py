"""Buckets in PostgreSQL: weir over a real server (tests/support/postgres.py)."""

import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from weirserver import DEADLINE_S, RespError, WeirServer, clean_environment, wait_until, weir_binary

if "not in PostgreSQL" in subprocess.run([weir_binary(), "--version"], capture_output=True, text=True).stdout:
    pytest.skip("built without libpq", allow_module_level=True)

from postgres import PostgresServer, programs  # noqa: E402

if programs() is None:
    pytest.skip("postgresql is not installed", allow_module_level=True)

pytestmark = pytest.mark.database

EMPTY = "00000000-0000-0000-0000-000000000000"


def weir(*arguments, **environment):
    """A command, as a user calls it."""
    return subprocess.run([weir_binary(), *arguments], capture_output=True, text=True, timeout=DEADLINE_S,
                          env=clean_environment(**environment))


def make_ready(url):
    done = weir("store", "init", url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "it is ready\n", "")


class Store:
    """A database of its own, with the schema of weir."""

    def __init__(self, server):
        self.server = server
        self.name = server.new_database()
        self.url = server.url(self.name)
        self.patient = f"{self.url}&deadline=1000ms"  # for what is not about time: a busy machine needs more than 20 ms
        make_ready(self.url)

    def connect(self, **options):
        return self.server.connect(self.name, **options)

    def serve(self, *arguments, more="", **options):
        return WeirServer("--store", self.url + more, "--threads", "2", *arguments, **options)

    def serve_patiently(self, *arguments, more=""):
        return WeirServer("--store", self.patient + more, "--threads", "2", *arguments)


@pytest.fixture
def store(postgres):
    return Store(postgres)


@pytest.fixture
def own_store():
    """In a server that the test may stop and kill."""
    with PostgresServer() as server:
        yield Store(server)


def take(client, key="alice", limit="10/h", *more):
    return client.command("WEIR.TAKE", key, limit, *more)[0]


def allowed(client, key, limit, count):
    """How many of so many takes are let in."""
    return [take(client, key, limit) for _ in range(count)].count(0)


def undecided(server):
    """How many questions on_error has answered: on a busy machine 20 ms may pass."""
    return server.metric("weir_undecided_total")


def take_by_command(key, limit, **environment):
    return weir("take", key, limit, **environment).stdout


def in_threads(count, run):
    """Runs run(i) in threads, and raises what one of them raises."""
    failures = []

    def guarded(i):
        try:
            run(i)
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


# ---- every way in ----


def test_resp_http_and_the_command_line_take_from_one_bucket(store):
    with store.serve_patiently() as server:
        assert server.command("WEIR.TAKE", "alice", "5/h")[:3] == [0, 5, 4]
        reply = server.post("take", key="alice", limit="5/h").json
        assert (reply["verdict"], reply["remaining"]) == ("allowed", 3)
        assert take_by_command("alice", "5/h", WEIR_STORE=store.patient).startswith("allowed: 2 of 5 remain")
        other = store.patient.replace("postgres:", "postgresql:")
        assert take_by_command("alice", "5/h", WEIR_STORE=other).startswith("allowed: 1 of 5 remain")
        assert server.command("WEIR.CANTAKE", "alice", "5/h")[:3] == [0, 5, 0]
        assert [take(server, "alice", "5/h") for _ in range(3)] == [0, 1, 1]


def test_two_servers_share_their_buckets(store):
    with store.serve_patiently() as one, store.serve_patiently() as other:
        assert [take(server, "alice", "3/h") for server in (one, other, one, other)] == [0, 0, 0, 1]
        assert other.command("WEIR.TAKEALL", 2, "alice", "3/h", "all", "9/h")[0] == 1
        assert one.command("WEIR.TAKEALL", 2, "bob", "3/h", "all", "9/h")[:3] == [0, 3, 2]


PROGRAM = r"""
#include <stdio.h>
#include <weir/postgres.h>
#include <weir/weir.h>

int main(int argc, char **argv)
{
    static const struct weir_store_driver *const DRIVERS[] = {&weir_postgres_driver, NULL};
    struct weir_limiter_config config = {.store = argv[argc - 1], .drivers = DRIVERS};
    struct weir_limiter *limiter;
    struct weir_rule rule;
    struct weir_error error;
    if (weir_limiter_open(&limiter, &config, &error) != WEIR_OK
        || weir_rule_from_text(&rule, limiter, "3/h", &error) != WEIR_OK) {
        printf("%s\n", error.message);
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        struct weir_decision decision = weir_limiter_take(limiter, &rule, "alice", 5, WEIR_UNIT);
        printf("%s %llu\n", weir_verdict_word(decision.verdict), (unsigned long long)decision.remaining);
    }
    weir_limiter_close(limiter);
    return 0;
}
"""


@pytest.mark.once
def test_a_program_with_the_library_takes_from_it_too(store, tmp_path):
    build = Path(weir_binary()).parent
    if not (build / "cmake_install.cmake").exists():
        pytest.skip("no build tree")
    subprocess.run(["cmake", "--install", build, "--prefix", tmp_path / "there"], check=True, capture_output=True)
    folder = next((tmp_path / "there").rglob("weir-postgres.pc")).parent
    said = subprocess.run(["pkg-config", "--cflags", "--libs", "weir-postgres"], capture_output=True, text=True,
                          check=True, env={**os.environ, "PKG_CONFIG_PATH": str(folder)})
    (tmp_path / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", tmp_path / "program.c", "-o", tmp_path / "program",
                    *said.stdout.split(), f"-Wl,-rpath,{folder.parent}"], check=True)
    assert weir("take", "alice", "3/h", "--store", store.url).returncode == 0
    done = subprocess.run([tmp_path / "program", store.url], capture_output=True, text=True)
    assert done.stdout == "allowed 1\nallowed 0\nlimited 0\n"
    done = subprocess.run([tmp_path / "program", store.url.replace("weir@", "nobody@")], capture_output=True, text=True)
    assert done.returncode == 1 and 'role "nobody" does not exist' in done.stdout


LIMITS = ("10/s", "7/3s capacity=4", "3/min", "1000000/s capacity=5", "queue 5/s capacity=3", "queue 10/s first=now",
          "1/7ns capacity=9", "999999937/h capacity=17", "5/365d")
SWAPPED = ("fixed 3/min", "fixed 5/s", "sliding 10/s", "sliding 7/3s", "stepped 4/10s", "stepped 3/s capacity=9",
           "3/s block=2s", "queue 2/s capacity=2 block=1500ms", "fixed 2/s block=500ms", "sliding 3/s block=1s")


def plain_commands(chance, count):
    """Takes, can_takes and runs of a few keys under a few limits, and steps of the clock: what SQL decides."""
    keys = ("alice", "bob", "carol")
    for _ in range(count):
        key, limit = chance.choice(keys), chance.choice(LIMITS)
        cost = chance.choice(("0", "0.000001", "0.3", "1", "1", "2.5", "4", "100"))
        kind = chance.randrange(10)
        if kind < 2:
            yield ("WEIR.CLOCK", "ADVANCE", chance.choice((0, 1, 7, 10**6, 10**8, 10**9, 10**12)))
        elif kind < 7:
            yield (chance.choice(("WEIR.TAKE", "WEIR.TAKE", "WEIR.CANTAKE")), key, limit, "COST", cost)
        else:
            pairs = chance.sample([(k, l) for k in keys for l in LIMITS], chance.randint(2, 4))
            yield ("WEIR.TAKEALL", len(pairs), *[word for pair in pairs for word in pair], "COST", cost)


def all_commands(chance, count, blocks=True):
    """And all that is decided by swap: other kinds, each operation, and blocks."""
    plain = plain_commands(chance, count)
    keys = ("alice", "bob")
    swapped = [limit for limit in SWAPPED if blocks or "block=" not in limit]
    for _ in range(count):
        key, limit = chance.choice(keys), chance.choice([*LIMITS[:3], *LIMITS[4:6], *swapped])
        cost = chance.choice(("0", "0.3", "1", "1", "1", "2.5", "4", "100"))
        kind = chance.randrange(20)
        if kind < 2:
            yield ("WEIR.CLOCK", "ADVANCE", chance.choice((0, 1, 10**6, 3 * 10**8, 10**9, 10**9, 2 * 10**9)))
        elif kind < 4:
            yield next(plain)
        elif kind < 10:
            yield (chance.choice(("WEIR.TAKE", "WEIR.TAKE", "WEIR.CANTAKE")), key, limit, "COST", cost)
        elif kind < 14:
            yield (chance.choice(("WEIR.FILL", "WEIR.REFUND")), key, limit, "COST", cost)
        elif kind < 16:
            yield (chance.choice(("WEIR.SHOW", "WEIR.SHOW", "WEIR.RESET")), key, limit)
        elif kind < 17 and blocks:
            yield ("WEIR.BLOCK", key, limit, chance.choice((1, 100, 2000)))
        elif kind < 18 and blocks:
            yield ("WEIR.UNBLOCK", key, limit)
        else:
            pairs = chance.sample([(k, l) for k in keys for l in [*LIMITS[:3], *swapped]], chance.randint(2, 4))
            yield ("WEIR.TAKEALL", len(pairs), *[word for pair in pairs for word in pair], "COST", cost)


def commands_without_blocks(chance, count):
    return all_commands(chance, count, blocks=False)


def converse(server, commands, pipelined):
    replies = []
    with server.client() as client:
        for at in range(0, len(commands), pipelined):
            replies += client.pipeline(commands[at : at + pipelined])
    return [str(reply) for reply in replies]


@pytest.mark.parametrize("some_commands, pipelined, more", [
    (plain_commands, 1, ""), (plain_commands, 40, ""), (plain_commands, 4, "&prepare=off"),
    # a take that meets a block follows its pipeline: so these are asked one by one
    (all_commands, 1, ""), (all_commands, 1, "&prepare=off"),
    (commands_without_blocks, 40, ""), (commands_without_blocks, 4, "&prepare=off")])
def test_answers_are_those_of_a_file_to_the_nanosecond(store, tmp_path, some_commands, pipelined, more):
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    start_ns = chance.choice((0, 1_790_000_000_000_000_000, 2**62 - 10**13))
    commands = [("WEIR.CLOCK", "SET", start_ns), *some_commands(chance, 600)]
    with store.serve_patiently("--test-clock", more=more) as server:
        ours = converse(server, commands, pipelined)
        assert undecided(server) == 0
    with WeirServer("--test-clock", "--store", f"file:{tmp_path}/b") as server:
        theirs = converse(server, commands, pipelined)
    for command, our, their in zip(commands, ours, theirs):
        assert our == their, (seed, command)


def test_what_cannot_be_decided_is_an_error_that_says_so(store):
    cannot = "a store in PostgreSQL keeps no log of events, which a window needs; sliding does without"
    with store.serve_patiently() as server:
        assert server.command("WEIR.TAKE", "alice", "window 3/min")[0] == 4
        reply = server.post("take", key="alice", limit="window 3/min")
        assert reply.status == 503 and cannot in reply.json["detail"]
        assert server.command("WEIR.TAKEALL", 2, "alice", "3/min", "bob", "window 3/min")[0] == 4
        with pytest.raises(RespError, match=cannot):
            server.command("WEIR.RESET", "alice", "window 3/min")
        assert take(server, "alice", "3/min", "WAIT", "1000") == 4  # nobody can wait
        assert server.command("WEIR.CANTAKE", "alice", "3/min")[:3] == [0, 3, 2]  # not charged
    done = weir("reset", "alice", "window 3/min", "--store", store.url)
    assert done.returncode == 3 and "cannot decide this yet" in done.stdout + done.stderr


# ---- what C decides, and the store writes if nobody came between ----


def test_a_block_that_one_server_begins_holds_at_all(store):
    with store.serve_patiently() as one, store.serve_patiently() as other:
        assert take(other, "mallory", "9/h") == 0
        assert one.command("WEIR.BLOCK", "mallory", "9/h", 60_000) == 1
        blocked = other.command("WEIR.TAKE", "mallory", "9/h")
        assert blocked[0] == 3 and 55 * 10**9 < blocked[3] <= 60 * 10**9
        assert other.command("WEIR.CANTAKE", "mallory", "9/h")[0] == 3
        assert other.command("WEIR.TAKEALL", 2, "all", "9/h", "mallory", "9/h")[0] == 3
        assert one.command("WEIR.CANTAKE", "all", "9/h")[2] == 8  # 9 before it: nothing was charged
        assert other.command("WEIR.UNBLOCK", "mallory", "9/h") == 1
        assert one.command("WEIR.TAKE", "mallory", "9/h")[:3] == [0, 9, 7]


def test_refusals_under_block_lock_out_everywhere(store):
    limit = "2/h block=60s"
    with store.serve_patiently() as one, store.serve_patiently() as other:
        assert [take(server, "mallory", limit) for server in (one, other, one, other)] == [0, 0, 1, 3]
        assert one.post("show", key="mallory", limit=limit).json["verdict"] == "blocked"


@pytest.mark.parametrize("limit", ["100000/365d", "fixed 100000/365d", "stepped 100000/365d", "sliding 100000/365d"])
def test_what_several_servers_fill_at_once_adds_up(store, limit):
    """Each fill is read, decided and written. Where others came between it is decided again, and none is lost."""
    with store.serve_patiently() as one, store.serve_patiently() as other:
        counts = [0] * 8

        def run(i):
            with (one, other)[i % 2].client() as client:
                for _ in range(10):
                    replies = client.pipeline([("WEIR.FILL", "hot", limit), ("WEIR.FILL", "hot", limit, "COST", 2)] * 4)
                    counts[i] += sum((1, 2)[place % 2] for place, reply in enumerate(replies) if reply[0] == 0)

        in_threads(8, run)
        left = one.post("show", key="hot", limit=limit).json["remaining"]
    assert sum(counts) == 100000 - left > 480  # of 960: what others came between eight times is not charged


# ---- load ----


def test_a_hot_key_is_folded_and_lets_in_exactly_its_capacity(store):
    with store.serve() as server:
        counts = [0] * 16

        def run(i):
            with server.client() as client:
                for _ in range(20):
                    replies = client.pipeline([("WEIR.TAKE", "hot", "1000/365d")] * 16)
                    counts[i] += sum(reply[0] == 0 for reply in replies)

        in_threads(16, run)
        assert 1000 - undecided(server) <= sum(counts) <= 1000
    with store.connect() as connection:  # the sessions have ended, and their counts are there
        changed = wait_until(lambda: connection.value(
            "SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = 'bucket'"), "statistics")
    assert changed < 500  # 1000 were let in


@pytest.mark.once
def test_unequal_takes_of_one_client_are_few_statements(store, tmp_path):
    """Otherwise each would be one, and everybody would wait for that client."""
    commands = [("WEIR.CLOCK", "SET", 0)]
    commands += [("WEIR.TAKE", "hot", "1000/h", "COST", 1 + i % 3) for i in range(600)]
    with store.serve_patiently("--test-clock", "--threads", "1") as server:
        ours = converse(server, commands, len(commands))
    with store.connect() as connection:  # the sessions have ended, and their counts are there
        changed = wait_until(lambda: connection.value(
            "SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = 'bucket'"), "statistics")
    assert changed < 60
    with WeirServer("--test-clock", "--store", f"file:{tmp_path}/b") as server:
        assert ours == converse(server, commands, len(commands))


def test_runs_of_many_connections_are_all_or_nothing(store):
    """Each run takes one of a key and one of the common limit, in either order: so the sums agree."""
    with store.serve() as server:
        counts = [0] * 8

        def run(i):
            pairs = ["mine%d" % (i % 4), "300/365d", "all", "100/365d"]
            pairs = pairs if i % 2 else pairs[2:] + pairs[:2]
            with server.client() as client:
                for _ in range(10):
                    replies = client.pipeline([("WEIR.TAKEALL", 2, *pairs)] * 4)
                    counts[i] += sum(reply[0] == 0 for reply in replies)

        in_threads(8, run)
        lost = undecided(server) / 2
    with store.connect() as connection:
        levels = connection.execute("SELECT (ns - weir.now_ns(NULL))::float / (365 * 86400e9) FROM weir.bucket")
    *mine, everybody = sorted(level for level, in levels)
    assert everybody <= 1 + 1e-6 and sum(mine) * 3 == pytest.approx(everybody, abs=1e-3)  # 300 of one are 100 of the other
    assert 100 - lost <= sum(counts) <= 100


def test_a_role_whose_default_is_another_level_of_isolation_changes_nothing(store):
    with store.connect() as connection:
        for level in ("repeatable read", "serializable"):
            connection.execute(f"ALTER DATABASE {store.name} SET default_transaction_isolation = '{level}'")
            for more in ("", "&prepare=off"):
                key = level.replace(" ", "") + more
                with store.serve(more=more) as server:
                    counts = [0] * 6

                    def run(i, key=key, server=server, counts=counts):
                        with server.client() as client:
                            counts[i] = allowed(client, key, "30/365d on_error=refuse", 10)

                    in_threads(6, run)
                    assert 30 - undecided(server) <= sum(counts) <= 30


# ---- what goes wrong ----


def test_nothing_beyond_the_limit_when_the_database_is_killed_and_comes_back(own_store):
    with own_store.serve() as server:
        let_in = allowed(server, "alice", "100/365d", 60)
        own_store.server.stop(signal.SIGKILL)
        server.wait_for_log("store_down")
        assert take(server, "alice", "100/365d") == 4
        assert take(server, "alice", "100/365d on_error=allow") == 0  # by itself, and not charged
        assert server.get("/healthz").status == 200
        own_store.server.start()
        server.wait_for_log("store_up")
        let_in += allowed(server, "alice", "100/365d", 60)
        assert 100 - undecided(server) <= let_in <= 100
        assert server.log.count(" store_down ") >= 1


def test_a_connection_that_is_lost_is_made_anew_while_the_other_goes_on(store):
    with store.serve("--threads", "1") as server, store.connect() as connection:
        stop = threading.Event()
        verdicts = set()

        def ask(i):
            with server.client() as client:
                while not stop.is_set():
                    verdicts.update(reply[0] for reply in client.pipeline([("WEIR.TAKE", f"k{i}", "1000000/s")] * 50))

        def sessions():
            return {pid for pid, in connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'weir' AND datname = %s", store.name)}

        asking = threading.Thread(target=lambda: in_threads(8, ask))
        asking.start()
        try:
            for _ in range(5):
                wait_until(lambda: len(sessions()) == 2, "two sessions")
                [gone] = list(sessions())[:1]
                connection.execute("SELECT pg_terminate_backend(%s)", gone)
                wait_until(lambda gone=gone: gone not in sessions(), "the end of a session")
        finally:
            stop.set()
            asking.join()
        assert verdicts <= {0, 4}
        wait_until(lambda: take(server, "later", "1000000/s") == 0, "takes")


@pytest.mark.once  # a sanitizer makes the database late, which shares the machine
def test_a_row_that_somebody_else_holds_keeps_its_own_takes_waiting_and_no_others(store):
    with store.serve("--threads", "1") as server, store.connect() as stranger:
        wait_until(lambda: take(server, "held", "10/h") == 0, "a take")
        stranger.execute("BEGIN")
        stranger.execute("SELECT 1 FROM weir.bucket FOR UPDATE")
        stop = threading.Event()
        free = itertools.count()

        def hammer(i):
            with server.client() as client:
                while not stop.is_set():
                    assert take(client, "held", "10/h") == 4
                    assert take(client, "held", "10/h on_error=allow") == 0

        def most_are_decided():
            """Of a hundred others. On a busy machine not each time: the database has 20 ms."""
            return [take(server, f"free{next(free)}", "10/h") for _ in range(100)].count(0) > 50

        hammering = threading.Thread(target=lambda: in_threads(3, hammer))
        hammering.start()
        try:
            wait_until(most_are_decided, "most of the others")
        finally:
            stop.set()
            hammering.join()
        stranger.execute("COMMIT")
        wait_until(lambda: take(server, "held", "10/h") == 0, "the row")


def test_a_longer_deadline_waits_for_what_takes_longer(store):
    with store.serve(more="&deadline=1000ms") as server, store.connect() as stranger:
        assert take(server, "held", "10/h") == 0
        stranger.execute("BEGIN")
        stranger.execute("SELECT 1 FROM weir.bucket FOR UPDATE")
        answers = []
        asking = threading.Thread(target=lambda: answers.append(server.command("WEIR.TAKE", "held", "10/h")[:3]))
        asking.start()
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() > begun + 0.05, "more than the usual 20 ms")
        stranger.execute("COMMIT")
        asking.join()
    assert answers == [[0, 10, 8]]


@pytest.mark.once
def test_a_row_that_somebody_else_holds_is_no_failure_of_the_database(store):
    with store.serve("--threads", "1") as server, store.connect() as stranger:
        wait_until(lambda: take(server, "held", "10/h") == 0, "a take")
        stranger.execute("BEGIN")
        stranger.execute("SELECT 1 FROM weir.bucket FOR UPDATE")

        def the_breaker_stays_closed():
            """On a busy machine not each time, as above."""
            outages = server.metric("weir_store_outages_total")
            is_up = server.metric("weir_store_down") == 0
            assert [take(server, "held", "10/h") for _ in range(10)] == [4] * 10
            return is_up and server.metric("weir_store_outages_total") == outages

        wait_until(the_breaker_stays_closed, "ten takes")


@pytest.mark.once
@pytest.mark.parametrize("more", ["", "&prepare=off"])
def test_a_row_that_somebody_else_holds_for_30_ms_again_and_again_takes_no_store_down(store, more):
    """Ten clients want it. With prepare=off no timeout ends their wait, and their deadlines pass together."""
    with store.serve("--threads", "1", more=more) as server, store.connect() as stranger:
        def take_hot(client=server):
            return take(client, "hot", "1000000/s")

        wait_until(lambda: take_hot() == 0, "a take")
        stop = threading.Event()

        def hammer(i):
            with server.client() as client:
                while not stop.is_set():
                    take_hot(client)

        def the_breaker_stays_closed():
            """On a busy machine not each time, as above."""
            outages = server.metric("weir_store_outages_total")
            unknown = undecided(server)
            for _ in range(10):
                stranger.execute("BEGIN; SELECT 1 FROM weir.bucket FOR UPDATE; SELECT pg_sleep(0.03); COMMIT")
                wait_until(lambda: take_hot() == 0, "the row")
            assert undecided(server) > unknown
            return server.metric("weir_store_outages_total") == outages

        hammering = threading.Thread(target=lambda: in_threads(10, hammer))
        hammering.start()
        try:
            wait_until(the_breaker_stays_closed, "ten locks")
        finally:
            stop.set()
            hammering.join()


@pytest.mark.once
def test_a_server_that_is_silent_is_given_up_and_keeps_nobody(tmp_path):
    """It takes connections and says nothing: attempts are abandoned, and end by themselves."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / ".s.PGSQL.5432"))
        silent.listen(1000)
        url = f"postgres://weir@/limits?host={tmp_path}&connect_timeout=2"
        server = WeirServer("--store", url, "--threads", "1")
        with server:
            assert "it takes too long to connect" in server.wait_for_log("store_down")
            threads = set()

            def has_connected_often():
                threads.add(len(os.listdir(f"/proc/{server.pid}/task")))
                silent.setblocking(False)
                try:
                    has_connected_often.accepted.append(silent.accept()[0])
                except BlockingIOError:
                    pass
                return len(has_connected_often.accepted) > 10

            has_connected_often.accepted = []
            wait_until(has_connected_often, "attempts")
            assert take(server) == 4
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 5
        assert max(threads) < 14  # two of weir, and as many attempts as begin in two seconds
        for connection in has_connected_often.accepted:
            connection.close()


def test_a_database_that_stands_still_is_given_up_and_found_again(own_store):
    """As a host that is cut off: connections stay, and nothing comes."""
    with own_store.serve() as server:
        wait_until(lambda: take(server) == 0, "a take")
        with own_store.server.stands_still():
            wait_until(lambda: (take(server, "alice", "10/365d"), "store_down" in server.log)[1], "store_down")
            assert take(server) == 4
            assert take(server, "alice", "10/h on_error=allow") == 0
        server.wait_for_log("store_up")
        wait_until(lambda: take(server) == 0, "a take")
        assert allowed(server, "alice", "10/365d", 12) <= 10


def test_a_store_that_is_away_at_the_start_is_found_later(own_store):
    own_store.server.stop()
    with own_store.serve() as server:
        line = server.wait_for_log("store_down")
        assert "Connection refused" in line or "No such file" in line
        assert take(server) == 4
        own_store.server.start()
        server.wait_for_log("store_up")
        wait_until(lambda: take(server) == 0, "a take")


def test_a_schema_that_goes_while_it_is_in_use_is_named_in_the_log(store):
    with store.serve() as server:
        wait_until(lambda: take(server) == 0, "a take")
        with store.connect() as connection:
            connection.execute("DROP SCHEMA weir CASCADE")
        # by store_down, or by store_why: on a busy machine what is seen first is that nothing comes
        wait_until(lambda: (take(server), "weir store init" in server.log)[1], "the schema's name in the log")
        make_ready(store.url)
        server.wait_for_log("store_up")
        wait_until(lambda: take(server) == 0, "a take")


# ---- what does not start ----


def refusal(url, *arguments):
    """What `weir serve` says that does not start, without its name."""
    done = weir("serve", "--resp", "127.0.0.1:0", "--http", "off", "--store", url, *arguments)
    assert done.returncode == 3, done
    assert done.stderr.count("\n") == 1 and " ready " not in done.stderr
    return done.stderr


def test_a_store_that_refuses_ends_the_start_with_one_sentence(postgres, store):
    bare = postgres.url(postgres.new_database())
    assert f"this makes it: weir store init '{bare}'" in refusal(bare)
    assert 'database "nosuch" does not exist' in refusal(postgres.url("nosuch"))
    assert 'role "nobody" does not exist' in refusal(store.url.replace("weir@", "nobody@"))
    with store.connect() as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
        assert "this role may not use the schema of weir" in refusal(store.url.replace("weir@", "stranger@"))
        connection.execute("GRANT USAGE ON SCHEMA weir TO stranger; GRANT SELECT ON ALL TABLES IN SCHEMA weir TO stranger")
        assert "weir store init URL --role NAME" in refusal(store.url.replace("weir@", "stranger@"))
        connection.execute("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA weir TO stranger")
        done = weir("take", "a", "1/s", "--store", store.url.replace("weir@", "stranger@"))
        assert done.stderr == "", done
        connection.execute("UPDATE weir.upkeep SET version = 99")
        assert "version 99, and this weir knows 1: it needs a newer weir" in refusal(store.url)
        connection.execute("UPDATE weir.upkeep SET version = 0")
        assert "version 0, and this weir needs 1" in refusal(store.url)
        assert f"weir store migrate '{store.url}'" in refusal(store.url)


def test_a_password_is_taken_from_where_libpq_looks_for_it(own_store):
    server = own_store.server
    with own_store.connect() as connection:
        connection.execute("ALTER ROLE weir PASSWORD 'geheim'")
        hba = Path(connection.value("SHOW hba_file"))
        hba.write_text("local all all scram-sha-256\n")
        connection.execute("SELECT pg_reload_conf()")
    wait_until(lambda: weir("store", "init", own_store.url).returncode != 0, "the new pg_hba.conf")
    where = "; weir takes it from the URL, PGPASSWORD or ~/.pgpass\n"
    assert "no password supplied" + where in refusal(own_store.url)
    assert "no password supplied" + where in weir("store", "status", own_store.url).stderr
    wrong = own_store.url.replace("weir@", "weir:falsch@")
    said = refusal(wrong)
    assert f'password authentication failed for user "weir"{where}' in said and "falsch" not in said
    for command in (["status"], ["init"], ["migrate"], ["prune"], ["reset", "--yes"]):
        said = weir("store", *command, wrong).stderr
        assert said.endswith(where) and said.count("\n") == 1 and "falsch" not in said
    assert weir("take", "a", "5/h", "--store", own_store.url, PGPASSWORD="geheim").stderr == ""
    passfile = server.folder / "pass"
    passfile.write_text("*:*:*:weir:geheim\n")
    passfile.chmod(0o600)
    assert weir("take", "a", "5/h", "--store", own_store.url, PGPASSFILE=str(passfile)).stderr == ""
    right = own_store.url.replace("weir@", "weir:geheim@")
    assert weir("take", "a", "5/h", "--store", right).stderr == ""
    assert weir("take", "a", "5/h", "--store", own_store.url + "&password=geheim").stderr == ""
    hba.write_text("local all all trust\n")  # for the end of the test
    server.process.send_signal(signal.SIGHUP)


def test_a_password_is_never_shown(own_store):
    url = own_store.url.replace("weir@", "weir:geheim@") + "&password=geheim"
    with WeirServer("--store", url, "--threads", "1") as server:
        def looks():
            yield Path(f"/proc/{server.pid}/cmdline").read_bytes().decode()
            yield server.log
            for page in ("/healthz", "/metrics", "/"):
                yield server.get(page).body.decode()
            yield server.command("INFO")

        assert all("geheim" not in text for text in looks())
        assert "postgres://weir@" in Path(f"/proc/{server.pid}/cmdline").read_text()
        own_store.server.stop()
        take(server)
        server.wait_for_log("store_down")
        assert all("geheim" not in text for text in looks())
        assert "postgres://weir@" in server.wait_for_log("store_down")
    for wrong in ("postgres://weir:geh@eim@host/db", "postgres://weir:geh/eim@host/db", "postgres://weir:geheim?@host/db",
                  "postgres://weir:geheim%zz@host/db", "postgres://weir:geheim@host/db?nosuch=1",
                  "postgres://weir:geheim@host/db?prepare=maybe", "postgres://weir:geheim@host:geheim/db",
                  "postgresx://weir:geheim@host/db"):
        for command in (["take", "a", "1/s"], ["serve"], ["store", "status"]):
            done = weir(*command, "--store", wrong)
            assert done.returncode in (2, 3), (wrong, done)
            assert "geh" not in done.stderr + done.stdout and "eim" not in done.stderr + done.stdout, (wrong, done)
        done = weir("serve", WEIR_STORE=wrong)
        assert done.returncode in (2, 3) and "geh" not in done.stderr


def test_init_is_for_databases_and_can_be_done_again(store, tmp_path):
    with store.connect() as connection:
        connection.execute("INSERT INTO weir.bucket VALUES (%s, 1, 2, 3)", EMPTY)
        make_ready(store.url)  # and nothing is lost
        assert connection.execute("SELECT name, ns, rest, note FROM weir.bucket") == [(EMPTY, 1, 2, 3)]
    assert json.loads(weir("store", "init", "--json", "--store", store.url).stdout) == {"ready": True}
    assert weir("take", "a", "1/h", "--store", f"file:{tmp_path}/b").returncode == 0
    done = weir("store", "init", f"file:{tmp_path}/b")
    assert done.returncode == 2 and "init is for a database" in done.stderr
    for action in (["resize", "1M"], ["reset", "--force"]):
        done = weir("store", *action, "--store", store.url)
        assert done.returncode == 2 and "only a file has a size" in done.stderr


def test_servers_may_make_the_schema_at_once(postgres):
    url = postgres.url(postgres.new_database())
    in_threads(4, lambda i: make_ready(url))
