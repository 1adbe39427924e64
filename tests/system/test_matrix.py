"""Every kind of limit, alone and beside a second one, without a block, with block= and blocked by hand, for who
takes and for who waits, on a server whose buckets are in memory and on one whose buckets are in a file, over both
protocols, and from a shell: one behaviour, which no combination changes. tests/unit/test_matrix.c asks the
library the same."""

import itertools
import subprocess

import pytest
from waiters import WaitingServer
from weirserver import DEADLINE_S, WeirServer, clean_environment, weir_binary

S = 10**9
BLOCK_MS = 7000
BLOCK_NS = BLOCK_MS * 10**6
ALLOWED, LIMITED, NEVER, BLOCKED = range(4)
SECOND = "100/s"

# What holds 2, and after which time one more fits when it was filled at the beginning of a window.
KINDS = {"2/2s": S, "queue 2/2s": S, "stepped 2/2s": 2 * S, "fixed 2/2s": 2 * S, "sliding 2/2s": 3 * S,
         "window 2/2s": 2 * S}
BLOCKS = ("none", "by limit", "by hand")
PROTOCOLS = ("resp", "http")


kinds = pytest.mark.parametrize("kind", KINDS)
cells = pytest.mark.parametrize("has_second, block", list(itertools.product((False, True), BLOCKS)))


@pytest.fixture(scope="module", params=["memory", "file"])
def server(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("matrix") / "buckets.weir"
    with WaitingServer("--store", "memory:" if request.param == "memory" else f"file:{path}") as running:
        yield running


class Cell:
    """One key under one limit, or under two; begins where a window of every length here does."""

    def __init__(self, server, key, kind, has_second, block):
        self.server, self.key, self.kind, self.block = server, key, kind, block
        self.limit = kind + (" block=7s" if block == "by limit" else "")
        self.asked = f"{self.limit}, {SECOND}" if has_second else self.limit
        server.jump(20 * S - server.now_ns() % (20 * S))
        self.began_ns = server.now_ns()

    def take(self, cost=1):
        answer = self.server.take(self.key, self.asked, cost)
        return answer.verdict, answer.retry_after_ns

    def join(self, protocol, wait_ms=20_000):
        return self.server.join(self.key, self.asked, wait_ms, protocol=protocol)

    def block_by_hand(self):
        assert self.server.ask("WEIR.BLOCK", self.key, self.limit, BLOCK_MS) == 1

    def go_to(self, ns):
        """So long after the beginning."""
        self.server.advance(self.began_ns + ns - self.server.now_ns())

    def expect_block(self):
        """From the beginning on, until its end."""
        assert self.take() == (BLOCKED, BLOCK_NS)
        assert self.take(0) == (ALLOWED, -1)
        assert self.take(3) == (NEVER, -1)
        self.go_to(BLOCK_NS - 1)
        assert self.take() == (BLOCKED, 1)
        self.go_to(BLOCK_NS)
        assert self.take() == (ALLOWED, -1)


@pytest.fixture
def cell(request, server, kind, has_second, block):
    return Cell(server, request.node.name, kind, has_second, block)


@kinds
@cells
def test_take(cell, kind, has_second, block):
    assert cell.take(2) == (ALLOWED, -1)
    if block == "by hand":
        cell.block_by_hand()
    else:
        assert cell.take() == (LIMITED, BLOCK_NS if block == "by limit" else KINDS[kind])
    if block != "none":
        cell.expect_block()
        return
    cell.go_to(KINDS[kind] - 1)
    assert cell.take() == (LIMITED, 1)
    cell.go_to(KINDS[kind])
    assert cell.take() == (ALLOWED, -1)


def verdict_of(waiter):
    """None while it waits."""
    answer = waiter.answer()
    return None if answer is None else answer.verdict


def run_in_queue(cell, protocol):
    """The line is the bucket: both have been let in, and go at their egress, whoever is blocked."""
    waiters = [cell.join(protocol), cell.join(protocol)]
    if cell.block == "by hand":
        cell.block_by_hand()
    else:
        assert verdict_of(cell.join(protocol)) == LIMITED
    if cell.block != "none":
        assert verdict_of(cell.join(protocol)) == BLOCKED
    for number, waiter in enumerate(waiters, 1):
        cell.go_to(number * S - 1)
        assert verdict_of(waiter) is None
        cell.go_to(number * S)
        assert verdict_of(waiter) == ALLOWED


def run_in_line(cell, protocol):
    assert cell.take(2) == (ALLOWED, -1)
    retry_ms = KINDS[cell.kind] // 10**6
    if cell.block == "by limit":
        assert verdict_of(cell.join(protocol, retry_ms - 1)) == LIMITED  # it would be in vain
        assert verdict_of(cell.join(protocol)) == BLOCKED
        return
    waiter = cell.join(protocol, retry_ms)
    assert cell.take()[0] == LIMITED  # nobody overtakes
    assert verdict_of(waiter) is None
    if cell.block == "by hand":
        cell.block_by_hand()
        cell.server.settle()
        assert verdict_of(waiter) == BLOCKED
        cell.expect_block()
        return
    cell.go_to(KINDS[cell.kind] - 1)
    assert verdict_of(waiter) is None
    cell.go_to(KINDS[cell.kind])
    assert verdict_of(waiter) == ALLOWED


@kinds
@cells
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_wait(server, cell, kind, has_second, protocol):
    (run_in_queue if kind.startswith("queue") else run_in_line)(cell, protocol)


@pytest.fixture(scope="module", params=["server", "file"])
def shell(request, tmp_path_factory):
    """Runs weir where the buckets are, and returns its code."""
    def run(*arguments):
        done = subprocess.run([weir_binary(), *map(str, arguments)], capture_output=True, text=True,
                              timeout=3 * DEADLINE_S, env=clean_environment(**place))
        return done.returncode

    if request.param == "file":
        place = {"WEIR_STORE": f"file:{tmp_path_factory.mktemp('matrix')}/buckets.weir"}
        yield run
        return
    with WeirServer() as running:
        place = {"WEIR_SERVER": f"127.0.0.1:{running.resp_port}"}
        yield run


@kinds
@cells
def test_from_a_shell(request, shell, kind, has_second, block):
    """By the real clock, so with a limit of years."""
    key = request.node.name
    limit = kind.replace("2s", "40d")
    asked = [limit + (" block=1h" if block == "by limit" else "")] + [SECOND] * has_second
    assert shell("take", key, *asked, "--cost", "2") == 0
    if block == "by hand":
        assert shell("block", key, limit, "1h") == 0
    assert shell("take", key, *asked) == 1
    never = 4 if kind.startswith("queue") else 1  # which takes longer even if it is empty
    assert shell("take", key, *asked, "--wait", "1ms") == never
    assert shell("take", key, *asked, "--cost", "0") == 0
    if block != "none":
        assert shell("show", key, limit) == 0
        assert shell("unblock", key, limit) == 0
        assert shell("reset", key, limit) == 0
        assert shell("take", key, *asked) == 0
