"""Windows among several limits: the same decision on every surface, and in line."""

import json
import os
import subprocess

import pytest
from waiters import WaitingServer
from weirserver import DEADLINE_S, WeirServer, reads_configurations, weir_binary

MS = 1_000_000
S = 1_000_000_000
LIMITS = ["window 25/5s", "window 300/60s"]
BOTH = ", ".join(LIMITS)

protocols = pytest.mark.parametrize("protocol", ["resp", "http"])


@pytest.fixture(scope="module")
def server():
    with WeirServer("--test-clock", "--threads", "2") as running:
        yield running


@pytest.fixture
def waiting():
    with WaitingServer(threads=3) as started:
        yield started


@pytest.fixture
def key(request):
    return f"key:{request.node.name}"


class Resp:
    """Each surface says the verdict, the index of the limit that decided, retry_after and what remains."""

    def __init__(self, server):
        self.server = server

    def take(self, key, limits, cost=1):
        said = self.server.command("WEIR.TAKE", key, ", ".join(limits), "COST", cost)
        return said[0], said[6], said[3], [limit[1] for limit in said[7:]]


class TakeAll(Resp):
    def take(self, key, limits, cost=1):
        pairs = [word for limit in limits for word in (key, limit)]
        said = self.server.command("WEIR.TAKEALL", len(limits), *pairs, "COST", cost)
        return said[0], said[6], said[3], [limit[1] for limit in said[7:]]


class Http(Resp):
    def take(self, key, limits, cost=1):
        return self.read_reply(self.server.post("take", key=key, limit=limits, cost=cost))

    def read_reply(self, reply):
        assert reply.status == (200 if reply.json["verdict"] == "allowed" else 429)
        return self.read(reply.json)

    @staticmethod
    def read(said):
        verdict = ["allowed", "limited"].index(said["verdict"])
        remaining = [limit["remaining"] for limit in said["limits"]]
        return verdict, said["binding"], said["retry_after_ns"], remaining


class HttpAll(Http):
    def take(self, key, limits, cost=1):
        pairs = [{"key": key, "limit": limit} for limit in limits]
        return self.read_reply(self.server.post("take_all", limits=pairs, cost=cost))


class Cli(Http):
    def take(self, key, limits, cost=1):
        where = ["--server", f"127.0.0.1:{self.server.resp_port}"]
        done = subprocess.run(
            [weir_binary(), "take", key, *limits, "--cost", str(cost), "--json", *where],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )
        assert done.stderr == ""
        return self.read(json.loads(done.stdout))


@pytest.mark.parametrize("surface", [Resp, TakeAll, Http, HttpAll, Cli])
def test_the_quota_of_somebody_else(server, key, surface):
    """25 in any 5 s and 300 in any 60 s: the 26th is refused by the one; and once others have used up
    what the longer one has left, the 301st by the other."""
    asks = surface(server)
    for taken in range(5, 30, 5):
        assert asks.take(key, LIMITS, 5) == (0, -1, -1, [25 - taken, 300 - taken])
    assert asks.take(key, LIMITS) == (1, 0, 5 * S, [0, 275])
    server.command("WEIR.CLOCK", "ADVANCE", 5 * S - 1)
    assert asks.take(key, LIMITS) == (1, 0, 1, [0, 275])  # and nothing was charged
    server.command("WEIR.CLOCK", "ADVANCE", 1)
    assert server.command("WEIR.TAKE", key, LIMITS[1], "COST", 274)[0] == 0
    assert asks.take(key, LIMITS) == (0, -1, -1, [24, 0])
    assert asks.take(key, LIMITS) == (1, 1, 55 * S, [24, 0])
    server.command("WEIR.CLOCK", "ADVANCE", 55 * S)
    assert asks.take(key, LIMITS, 25) == (0, -1, -1, [0, 0])


def test_the_problem_names_the_limit_that_decided(server, key):
    limits = ["window 25/5s", "1/h capacity=100"]
    assert server.post("take", key=key, limit=limits, cost=25).status == 200
    reply = server.post("take", key=key, limit=limits)
    assert reply.status == 429
    assert reply.json["detail"] == "window 25/5s is limited to 25 per 5 s"
    assert server.post("can_take", key=key, limit=limits).status == 429
    assert server.command("WEIR.CANTAKE", key, ", ".join(limits))[6:8] == [0, [25, 0, 5 * S]]


@pytest.mark.parametrize("store", ["file", "default"])
def test_a_file_keeps_them_together(tmp_path, store):
    where = ["--store", f"file:{tmp_path}/weir"] if store == "file" else []
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    limits = ["window 25/5h", "window 30/60h"]

    def take(cost):
        done = subprocess.run(
            [weir_binary(), "take", "k", ", ".join(limits), "--cost", str(cost), "--json", *where],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False, env=environment,
        )
        said = json.loads(done.stdout)
        return done.returncode, said["binding"], [limit["remaining"] for limit in said["limits"]]

    assert take(24) == (0, -1, [1, 6])
    assert take(2) == (1, 0, [1, 6])
    assert take(1) == (0, -1, [0, 5])
    assert take(26)[0] == 4


@pytest.mark.skipif(not reads_configurations(), reason="built without libyaml")
def test_a_chain_has_windows(tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text("""
limits:
  burst: window 2/5s
  quota: {limit: window 3/60s, overrides: {acme: window 300/60s}}
  tried: {limit: window 1/60s, shadow: true}
chains:
  call: [{limit: burst, key: "{user}"}, {limit: quota, key: "{tenant}"}, {limit: tried, key: all}]
""")
    with WeirServer("--test-clock", "--config", str(config)) as server:

        def call(user, tenant):
            said = server.command("WEIR.TAKE", "-", "call", "VAR", "user", user, "VAR", "tenant", tenant)
            return said[0], said[6], [limit[1] for limit in said[7:9]]

        assert call("ann", "small") == (0, -1, [1, 2])
        assert call("ann", "small") == (0, -1, [0, 1])  # "tried" would have refused it
        assert call("ann", "acme") == (1, 0, [0, 300])
        assert call("bob", "small") == (0, -1, [1, 0])
        assert call("bob", "small") == (1, 1, [1, 0])
        server.command("WEIR.CLOCK", "ADVANCE", 5 * S)
        assert call("ann", "acme") == (0, -1, [1, 299])


# ---- in line ----


@protocols
def test_it_goes_when_both_windows_let_it(waiting, protocol):
    waiting.take("k", "window 2/10s")
    waiting.advance(4 * S)
    waiting.take("k", "window 2/10s")
    waiting.take("k", "window 1/3s")
    both = waiting.join("k", "window 2/10s, window 1/3s", protocol=protocol)
    waiting.advance(3 * S)  # the shorter one would let it in
    assert both.answer() is None
    assert waiting.take("k", "window 1/3s").verdict == 1  # nobody overtakes it there
    waiting.advance(3 * S - 1)
    assert both.answer() is None
    waiting.advance(1)
    assert both.answer().verdict == 0
    assert waiting.ask("WEIR.SHOW", "k", "window 2/10s")[2] == 0
    assert waiting.ask("WEIR.SHOW", "k", "window 1/3s")[2] == 0


@protocols
def test_who_would_be_late_is_refused_at_once(waiting, protocol):
    waiting.take("k", "window 1/10s")
    answer = waiting.join(
        "k", "window 1/10s, 5/s", wait_ms=4000, protocol=protocol).answer()
    assert (answer.verdict, answer.retry_after_ns) == (1, 6 * S)
    assert waiting.take("k", "5/s", cost=5).verdict == 0  # nothing was charged


def test_a_window_and_a_bucket_in_the_order_of_arrival(waiting):
    window, bucket = "window 2/10s", "1/2s"
    waiting.take("k", window, cost=2)
    waiting.take("k", bucket)
    waiters = [waiting.join("k", limit) for limit in
               (f"{window}, {bucket}", bucket, window, f"{bucket}, {window}")]
    went = {}
    for second in range(1, 31):
        waiting.advance(S)
        for number, waiter in enumerate(waiters):
            if number not in went and (answer := waiter.answer()) is not None:
                assert answer.verdict == 0
                went[number] = second
    # At 10 both let the first in, and the window one more; the bucket one every 2 s.
    assert went == {0: 10, 1: 12, 2: 10, 3: 20}


def test_who_leaves_a_queue_has_passed_the_window(waiting):
    limits = "window 5/min, 9/min, queue 1/s capacity=5"
    first = waiting.join("k", limits)
    assert waiting.ask("WEIR.SHOW", "k", "window 5/min")[2] == 4
    waiting.leave(first)
    assert waiting.ask("WEIR.SHOW", "k", "9/min")[2] == 9
    assert waiting.ask("WEIR.SHOW", "k", "window 5/min")[2] == 4  # a window takes nothing back


def test_a_line_on_paper(waiting):
    """Costs of all sizes under two windows: each goes at the first instant at which both have room."""
    limits = {"window 5/10s": (5, 10), "window 8/25s": (8, 25)}
    costs = [3, 2, 1, 4, 5, 2, 2, 1, 3, 5, 1, 4]
    waiters = [waiting.join("k", ", ".join(limits), cost=cost) for cost in costs]
    passed, now = [], 0
    for cost in costs:
        while any(sum(paid for at, paid in passed if at + period > now) + cost > count
                  for count, period in limits.values()):
            now += 1
        passed.append((now, cost))
    went = [(0, cost) for waiter, cost in zip(waiters, costs) if waiter.answer() is not None]
    for second in range(1, now + 1):
        waiting.advance(S)
        for number in range(len(went), len(costs)):
            if waiters[number].answer() is None:
                break
            went.append((second, costs[number]))
    assert went == passed
