"""One line of several servers that share a file: in order, and whatever happens to one of them."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from waiters import DAY_MS, WaitingServer
from weirserver import DEADLINE_S, wait_until

MS = 1_000_000


@pytest.fixture
def store(tmp_path):
    return f"file:{tmp_path}/store"


def start(store, **options):
    return WaitingServer("--store", store, clock=(), **options)


def took_s(since):
    return time.monotonic() - since


def test_two_servers_have_one_line(store):
    limit = "20/s capacity=1"
    with start(store) as one, start(store) as other:
        assert one.take("k", limit).verdict == 0
        begin = time.monotonic()
        waiters = [(one, other)[i % 2].join("k", limit, protocol=("resp", "http")[i // 2 % 2])
                   for i in range(12)]
        for waiter in waiters:
            assert other.take("k", limit).verdict == 1  # overtakes nobody
            assert waiter.answer(DEADLINE_S).verdict == 0
            assert all(after.answer() is None for after in waiters[waiters.index(waiter) + 2:])
        assert 0.5 < took_s(begin) < 2
        wait_until(lambda: other.take("k", limit).verdict == 0, "an empty line")


def test_a_file_that_is_older_than_the_machine_s_clock(store):
    """What is due is due by the file's clock, and the timers are the kernel's."""
    limit = "10/s capacity=1"
    with start(store):
        pass
    path = Path(store.removeprefix("file:"))
    moved = bytearray(path.read_bytes())
    path.unlink()
    path.write_bytes(moved)  # another inode: time goes on from the pair, with an offset
    path.chmod(0o600)
    with start(store) as server:
        assert server.take("k", limit).verdict == 0
        begin = time.monotonic()
        assert server.join("k", limit).answer(DEADLINE_S).verdict == 0
        assert 0.05 < took_s(begin) < 1


def test_a_server_that_dies_holds_nobody_up(store):
    """All of its places are gone, in many lines at once."""
    keys = [f"k{i}" for i in range(50)]
    limit = "1/s capacity=10"
    with start(store) as one, start(store) as other:
        for key in keys:
            assert one.take(key, limit, cost=9).verdict == 0
            one.join(key, limit, cost=10)  # nine seconds away
        behind = [other.join(key, limit) for key in keys]
        one.signal(signal.SIGKILL)
        begin = time.monotonic()
        for waiter in behind:
            assert waiter.answer(DEADLINE_S).verdict == 0  # there was room for these
        assert took_s(begin) < 0.1 + 0.5  # and to read the answers
        one.wait()


def test_a_server_that_ends_gives_its_places_back(store):
    limit = "1/100s capacity=10"
    with start(store) as other:
        with start(store) as one:
            assert one.take("k", limit, cost=9).verdict == 0
            first = one.join("k", limit, cost=10)
            behind = other.join("k", limit)
            one.signal(signal.SIGTERM)
            assert first.answer(DEADLINE_S).verdict == 4
            assert behind.answer(DEADLINE_S).verdict == 0
        assert other.take("k", limit).verdict == 1
        assert other.ask("WEIR.SHOW", "k", limit)[6].startswith("9")


def test_a_server_that_is_stopped_goes_to_the_back(store):
    limit = "10/s capacity=1"
    with start(store) as one, start(store) as other:
        assert one.take("k", limit).verdict == 0
        first, behind = one.join("k", limit), other.join("k", limit)
        os.kill(one.pid, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            assert behind.answer(DEADLINE_S).verdict == 0
            assert took_s(begin) < 0.1 + 0.1 + 0.3  # its turn, the grace, and a slow machine
            last = other.join("k", limit)
        finally:
            os.kill(one.pid, signal.SIGCONT)
        assert last.answer(DEADLINE_S).verdict == 0
        assert first.answer(DEADLINE_S).verdict == 0


def switches(pid):
    """How often the threads of a process have gone to sleep."""
    return sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(), re.M)[1])
               for status in Path(f"/proc/{pid}/task").glob("*/status"))


@pytest.mark.once
def test_only_a_server_behind_another_one_looks_from_time_to_time(store):
    """The first of two servers sleeps for two seconds; the other one looks every 50 ms whether the first is alive."""
    limit = "1/h"
    with start(store) as one, start(store) as other:
        assert one.take("k", limit).verdict == 0
        waiters = [server.join("k", limit, wait_ms=DAY_MS) for server in (one, one, other, other)]
        before = switches(one.pid), switches(other.pid)
        begin = time.monotonic()
        assert waiters[3].answer(within_s=2) is None
        after = switches(one.pid), switches(other.pid)
        assert after[0] - before[0] < 10
        assert after[1] - before[1] < 10 + 2 * took_s(begin) / 0.05  # and each look may wait for the lock


def test_healthz_says_whose_lines_they_are(store):
    with start(store) as server:
        probe = server.connect("http")
        probe.socket.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert probe.read_body() == (200, b"ok\nlines: of all who share this store\n")
        probe.close()


# ---- several limits ----

BOTH = "5/s capacity=1, 1/200ms capacity=2"


def test_two_servers_have_one_order_in_all_lines(store):
    """Takes under one limit, under the other and under both; nobody passes whom he meets in a line."""
    limits = BOTH.split(", ")
    asked = [BOTH, limits[0], BOTH, limits[1], limits[0], BOTH, limits[1]]
    with start(store) as one, start(store) as other:
        assert one.take("k", BOTH).verdict == 0
        assert one.take("k", limits[1]).verdict == 0
        waiters = [(one, other)[i % 2].join("k", limit, protocol=("resp", "http")[i // 2 % 2])
                   for i, limit in enumerate(asked)]
        answered = set()
        while len(answered) < len(asked):
            for i, waiter in enumerate(waiters):
                if i not in answered and waiter.is_readable(within_s=0.01):
                    met = [j for j in range(i) if BOTH in (asked[i], asked[j]) or asked[i] == asked[j]]
                    assert all(j in answered or waiters[j].is_readable(within_s=0.1) for j in met)
                    assert waiter.answer().verdict == 0
                    answered.add(i)
        wait_until(lambda: other.take("k", BOTH).verdict == 0, "empty lines")


def test_a_server_that_dies_is_out_of_all_its_lines(store):
    limits = ["1/s capacity=10", "1/2s capacity=10", "1/3s capacity=10"]
    with start(store) as one, start(store) as other:
        for limit in limits:
            assert one.take("k", limit, cost=9).verdict == 0
        one.join("k", ", ".join(limits), cost=10)
        behind = [other.join("k", limit) for limit in [*limits, ", ".join(limits[:2])]]
        assert [waiter.answer() for waiter in behind] == [None] * 4
        one.signal(signal.SIGKILL)
        begin = time.monotonic()
        assert [waiter.answer(DEADLINE_S).verdict for waiter in behind[:3]] == [0, 0, 0]
        assert took_s(begin) < 0.1 + 0.5
        assert behind[3].answer(DEADLINE_S).verdict == 0  # a second later: another one was let in
        one.wait()


def test_a_server_that_is_stopped_is_out_of_all_its_lines(store):
    limits = ["10/s capacity=1", "12/s capacity=1"]
    with start(store) as one, start(store) as other:
        assert one.take("k", ", ".join(limits)).verdict == 0
        first = one.join("k", ", ".join(limits))
        behind = [other.join("k", limit) for limit in limits]
        os.kill(one.pid, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            assert [waiter.answer(DEADLINE_S).verdict for waiter in behind] == [0, 0]
            assert took_s(begin) < 0.1 + 0.1 + 0.3
        finally:
            os.kill(one.pid, signal.SIGCONT)
        assert first.answer(DEADLINE_S).verdict == 0


def test_a_deadline_under_several_limits(store):
    """Who would be late is refused at once; who becomes late by somebody else's doing, at the deadline."""
    with start(store) as one, start(store) as other:
        assert one.take("k", "1/s, 1/h").verdict == 0
        assert other.join("k", "1/s, 1/h", wait_ms=60_000).answer(DEADLINE_S).verdict == 1
        begin = time.monotonic()
        waiter = other.join("k", "1/s, 9/h", wait_ms=1500)
        answer = None
        while answer is None:
            one.ask("WEIR.FILL", "k", "1/s")
            answer = waiter.answer(within_s=0.1)
        assert answer.verdict == 1
        assert 1.4 < took_s(begin) < 1.5 + 0.5
        assert one.ask("WEIR.SHOW", "k", "9/h")[6] == "0"
