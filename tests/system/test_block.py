"""Keys that are locked out, over both protocols, from a shell and in line: by hand, and by a limit."""

import json
import re
import subprocess
import urllib.parse

import pytest
from waiters import WaitingServer
from weirserver import DEADLINE_S, RespError, WeirServer, clean_environment, wait_until, weir_binary

MS = 1_000_000
S = 1_000_000_000
protocols = pytest.mark.parametrize("protocol", ["resp", "http"])


@pytest.fixture(scope="module")
def server():
    with WeirServer("--test-clock", "--threads", "2") as running:
        yield running


@pytest.fixture
def key(request):
    return f"key:{request.node.name}"


def take(server, protocol, key, limit, cost=1):
    """(verdict, remaining, retry_after_ns) of a take."""
    if protocol == "resp":
        verdict, _, remaining, retry_ns, _, _ = server.command("WEIR.TAKE", key, limit, "COST", cost)
        return ["allowed", "limited", "never", "blocked", "error"][verdict], remaining, retry_ns
    answer = server.post("take", key=key, limit=limit, cost=cost).json
    return answer["verdict"], answer["remaining"], answer["retry_after_ns"]


def advance(server, ns):
    server.command("WEIR.CLOCK", "ADVANCE", ns)


@protocols
def test_a_refusal_locks_its_key_out_until_the_nanosecond(server, key, protocol):
    limit = "2/s block=30s"
    assert take(server, protocol, key, limit, 2)[0] == "allowed"
    assert take(server, protocol, key, limit) == ("limited", 0, 30 * S)  # before, it would be in vain
    assert take(server, protocol, key, limit) == ("blocked", 0, 30 * S)
    advance(server, 30 * S - 1)
    assert take(server, protocol, key, limit) == ("blocked", 2, 1)
    assert take(server, protocol, key, limit, 0) == ("allowed", 2, -1)
    assert take(server, protocol, key, limit, 3) == ("never", 2, -1)
    advance(server, 1)
    assert take(server, protocol, key, limit) == ("allowed", 1, -1)


@protocols
def test_until_the_bucket_was_empty(server, key, protocol):
    limit = "3/s capacity=2 block=empty"
    assert take(server, protocol, key, limit, 2)[0] == "allowed"
    assert take(server, protocol, key, limit)[0] == "limited"
    assert take(server, protocol, key, limit) == ("blocked", 0, 666_666_667)
    advance(server, 666_666_667)
    assert take(server, protocol, key, limit, 2)[0] == "allowed"


@protocols
def test_a_window_locks_its_key_out_and_keeps_its_log(server, key, protocol):
    limit = "window 3/min block=30s"
    assert take(server, protocol, key, limit, 2)[0] == "allowed"
    advance(server, 20 * S)
    assert take(server, protocol, key, limit, 1)[0] == "allowed"
    assert take(server, protocol, key, limit) == ("limited", 0, 40 * S)
    assert take(server, protocol, key, limit) == ("blocked", 0, 30 * S)
    advance(server, 30 * S)
    assert take(server, protocol, key, limit) == ("limited", 0, 30 * S)  # and locks it out again
    advance(server, 30 * S - 1)
    assert take(server, protocol, key, limit) == ("blocked", 2, 1)
    advance(server, 1)
    assert take(server, protocol, key, limit) == ("allowed", 2, -1)


def test_a_fill_that_fills_up_locks_out(server, key):
    limit = "2/s block=1min"
    assert server.command("WEIR.FILL", key, limit) == [0, 2, 1, -1, 500 * MS, 0, "0", 0]
    assert server.command("WEIR.FILL", key, limit, "COST", "2.5") == [0, 2, 0, -1, S, 0, "1.5", 1]
    assert server.command("WEIR.FILL", key, limit) == [3, 2, 0, 60 * S, S, 0, "1", 1]
    advance(server, S)
    reply = server.post("fill", key=key, limit=limit, cost=2)
    answer = reply.json
    assert (reply.status, reply.headers["Retry-After"], answer["verdict"]) == (429, "59", "blocked")
    assert (answer["remaining"], answer["retry_after_ns"]) == (2, 59 * S)
    assert (answer["spill"], answer["full"]) == ("2", False)


def test_block_and_unblock_over_resp(server, key):
    assert server.command("WEIR.UNBLOCK", key, "5/s") == 0
    assert server.command("WEIR.BLOCK", key, "5/s", 1500) == 1
    assert server.command("WEIR.TAKE", key, "5/s") == [3, 5, 5, 1500 * MS, 0, 0]
    assert server.command("WEIR.CANTAKE", key, "5/s") == [3, 5, 5, 1500 * MS, 0, 0]
    assert server.command("WEIR.SHOW", key, "5/s") == [3, 5, 5, 1500 * MS, 0, 0, "0", 0]
    assert server.command("WEIR.BLOCK", key, "5/s", 10) == 1  # which is no less
    assert server.command("WEIR.TAKE", key, "5/s")[3] == 1500 * MS
    assert server.command("WEIR.BLOCK", key, "5/s", 2000) == 1
    assert server.command("WEIR.REFUND", key, "5/s")[0] == 0
    assert server.command("WEIR.RESET", key, "5/s") == 0
    assert server.command("WEIR.TAKE", key, "5/s")[3] == 2000 * MS
    assert server.command("WEIR.UNBLOCK", key, "5/s block=1h") == 1  # policy does not matter
    assert server.command("WEIR.UNBLOCK", key, "5/s") == 0
    assert server.command("WEIR.TAKE", key, "5/s")[:3] == [0, 5, 4]


@pytest.mark.parametrize("ms", ["0", "-1", "x", "1.5", "3155760000001", "99999999999999999999", ""])
def test_what_is_no_length_of_a_block_is_an_error(server, key, ms):
    with pytest.raises(RespError, match="1 to 3155760000000 whole milliseconds"):
        server.command("WEIR.BLOCK", key, "5/s", ms)
    assert server.command("WEIR.TAKE", key, "5/s")[0] == 0


def test_the_longest_block(server, key):
    assert server.command("WEIR.BLOCK", key, "5/s", 3155760000000) == 1
    assert server.command("WEIR.TAKE", key, "5/s")[3] == 3155760000000 * MS
    assert server.command("WEIR.UNBLOCK", key, "5/s") == 1


def test_resp3_names_the_fields(server, key):
    with server.client() as client:
        client.command("HELLO", "3")
        assert client.command("WEIR.BLOCK", key, "5/s", 7) == 1
        answer = client.command("WEIR.TAKE", key, "5/s")
        fields = dict(answer) if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2]))
        named = {name if isinstance(name, str) else name.decode(): value
                 for name, value in fields.items()}
        assert (named["verdict"], named["retry_after_ns"]) == (3, 7 * MS)
        assert client.command("WEIR.UNBLOCK", key, "5/s") == 1


def test_block_and_unblock_over_http(server, key):
    limit = "25/5s"
    reply = server.post("block", key=key, limit=limit, block_ms=2500)
    answer = reply.json
    assert (reply.status, answer["verdict"], answer["retry_after_ns"]) == (200, "blocked", 2500 * MS)
    assert "Retry-After" not in reply.headers and "RateLimit" not in reply.headers
    reply = server.post("take", key=key, limit=limit)
    assert reply.status == 429
    assert reply.headers["Retry-After"] == "3"
    assert reply.headers["RateLimit"] == '"25/5s";r=25;t=3'
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.json == {
        "type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
        "title": "Abnormal usage detected", "status": 429, "detail": "25/5s is blocked",
        "violated-policies": [limit], "verdict": "blocked", "capacity": 25, "remaining": 25,
        "retry_after_ns": 2500 * MS, "retry_after_ms": 2500, "reset_after_ns": 0, "delay_ns": 0,
    }
    reply = server.post("show", key=key, limit=limit)
    answer = reply.json
    assert (reply.status, answer["verdict"], answer["retry_after_ms"]) == (200, "blocked", 2500)
    assert "Retry-After" not in reply.headers
    reply = server.get(f"/v1/check?key={urllib.parse.quote(key)}&limit={limit}")
    assert (reply.status, reply.headers["Retry-After"]) == (429, "3")
    for was_blocked in (True, False):
        reply = server.post("unblock", key=key, limit=limit)
        assert (reply.status, reply.json) == (200, {"was_blocked": was_blocked})
    assert server.post("take", key=key, limit=limit).status == 200


BAD_BODIES = [
    ("block", {}, '"block_ms" is missing'),
    ("block", {"block_ms": 0}, "from 1 to 3155760000000"),
    ("block", {"block_ms": 3155760000001}, "from 1 to 3155760000000"),
    ("block", {"block_ms": 1.5}, "from 1 to 3155760000000"),
    ("block", {"block_ms": "1"}, "from 1 to 3155760000000"),
    ("block", {"block_ms": 1, "cost": 1}, '"cost" has no meaning here: block'),
    ("block", {"block_ms": 1, "wait_ms": 1}, '"wait_ms" has no meaning here'),
    ("unblock", {"cost": 1}, '"cost" has no meaning here: unblock'),
    ("unblock", {"block_ms": 1}, '"block_ms" has no meaning here'),
    ("take", {"block_ms": 1}, '"block_ms" has no meaning here'),
    ("block", {"block_ms": 1, "limit": "5/s block=0s"}, "the block is zero"),
    ("block", {"block_ms": 1, "limit": "5/s, 6/h"}, "only a take or a can_take"),
]


@pytest.mark.parametrize("path, body, why", BAD_BODIES)
def test_a_bad_body_is_an_error_and_blocks_nobody(server, key, path, body, why):
    reply = server.post(path, **{"key": key, "limit": "5/s", **body})
    assert reply.status == 400 and why in reply.json["detail"]
    assert take(server, "resp", key, "5/s")[0] == "allowed"


def test_several_limits_of_which_one_blocks(server, key):
    limits = "100/s, 2/s block=10s"
    assert server.command("WEIR.TAKE", key, limits, "COST", 2)[0] == 0
    assert server.command("WEIR.TAKE", key, limits)[0] == 1
    answer = server.command("WEIR.TAKE", key, limits)
    assert (answer[0], answer[3], answer[6]) == (3, 10 * S, 1)
    reply = server.post("take", key=key, limit=limits)
    assert (reply.status, reply.json["detail"]) == (429, "2/s block=10s is blocked")
    assert reply.json["violated-policies"] == ["2/s block=10s"]
    advance(server, 10 * S)
    assert server.command("WEIR.TAKE", key, limits)[0] == 0


def test_blocked_takes_are_counted(server, key):
    def blocked():
        return server.metric("weir_decisions_total", limit="inline", protocol="resp",
                             verdict="blocked")

    before = blocked()
    server.command("WEIR.BLOCK", key, "5/s", 10)
    for _ in range(3):
        server.command("WEIR.TAKE", key, "5/s")
    server.command("WEIR.UNBLOCK", key, "5/s")
    assert blocked() == before + 3


def test_a_full_table_says_that_it_cannot_block():
    with WeirServer("--test-clock", "--memory", "64K", "--threads", "1") as server:
        with server.client() as client:
            errors = 0
            for i in range(3000):
                try:
                    client.command("WEIR.BLOCK", f"k{i}", "1/h", 60000)
                except RespError as error:
                    assert "the table is full of live buckets" in str(error)
                    errors += 1
            assert 1000 < errors < 3000
        reply = server.post("block", key="one more", limit="1/h", block_ms=1)
        assert (reply.status, reply.json["verdict"]) == (503, "error")


# ---- in line ----


@protocols
def test_who_waits_is_told_of_a_block_at_once(protocol):
    with WaitingServer() as server:
        server.take("k", "1/s")
        waiters = [server.join("k", "1/s", protocol=protocol) for _ in range(3)]
        assert not any(waiter.is_readable() for waiter in waiters)
        assert server.ask("WEIR.BLOCK", "k", "1/s", 9000) == 1
        for waiter in waiters:
            wait_until(waiter.is_readable, "the answer")
            answer = waiter.answer()
            assert (answer.verdict, answer.retry_after_ns) == (3, 9 * S)
        late = server.join("k", "1/s", protocol=protocol)
        wait_until(late.is_readable, "the answer")
        assert late.answer().verdict == 3


def test_whoever_does_not_wait_and_is_refused_locks_out_those_who_do():
    with WaitingServer() as server:
        server.take("k", "1/s block=5s")
        waiter = server.join("k", "1/s block=5s")
        assert server.take("k", "1/s block=5s").verdict == 1
        wait_until(waiter.is_readable, "the answer")
        assert waiter.answer().verdict == 3


def test_who_stands_in_a_queue_has_been_let_in():
    with WaitingServer() as server:
        waiter = server.join("k", "queue 1/s capacity=5")
        assert server.ask("WEIR.BLOCK", "k", "queue 1/s capacity=5", 60_000) == 1
        assert server.take("k", "queue 1/s capacity=5").verdict == 3
        server.advance(S)
        wait_until(waiter.is_readable, "the answer")
        assert waiter.answer().verdict == 0


# ---- from a shell ----


def weir(*arguments, store):
    return subprocess.run([weir_binary(), *map(str, arguments)], capture_output=True, text=True,
                          timeout=3 * DEADLINE_S, env=clean_environment(**store))


@pytest.fixture(params=["server", "file"])
def shell(request, server, tmp_path):
    store = ({"WEIR_SERVER": f"127.0.0.1:{server.resp_port}"} if request.param == "server"
             else {"WEIR_STORE": f"file:{tmp_path}/buckets.weir"})
    return lambda *arguments: weir(*arguments, store=store)


def test_block_and_unblock_from_a_shell(shell, key):
    def run(*arguments):
        done = shell(*arguments)
        assert done.stderr == ""
        return done.returncode, done.stdout

    assert run("block", key, "5/min", "1h") == (0, "blocked\n")
    code, said = run("take", key, "5/min")
    assert code == 1 and said == "blocked: for 1 h more (5 of 5 remain, empty)\n"
    assert run("show", key, "5/min") == (0, said)
    assert run("can-take", key, "5/min")[0] == 1
    assert run("fill", key, "5/min")[0] == 1
    assert run("take", key, "5/min", "--cost", "6")[0] == 4
    assert run("unblock", key, "5/min") == (0, "unblocked\n")
    assert run("unblock", key, "5/min") == (0, "unblocked: it was not blocked\n")
    assert run("take", key, "5/min")[0] == 0
    assert run("block", key, "5/min", "capacity=9", "1500ms", "--json") == (0, '{"blocked":true}\n')
    assert json.loads(run("take", key, "5/min", "capacity=9", "--json")[1])["verdict"] == "blocked"
    assert run("unblock", key, "5/min capacity=9", "--json") == (0, '{"was_blocked":true}\n')


def test_a_fill_that_locks_out_says_for_how_long(shell, key):
    def fill(limit, *words):
        return shell("fill", key, *limit.split(), *words).stdout

    assert fill("5/h block=2h", "--cost", "4") == "filled: 1 of 5 remain, empty in 48 min; 0 spilled\n"
    said = fill("5/h block=2h", "--cost", "3")
    assert re.fullmatch("filled: 0 of 5 .*; (about 1.99[0-9]*|2) spilled, the bucket is full; blocked for 2 h\n", said)
    assert fill("5/h block=2h").startswith("blocked: for 2 h more (")
    assert fill("5/w", "--cost", "5").endswith("the bucket is full\n")
    assert fill("9/d block=empty", "--cost", "9").endswith("the bucket is full; blocked for 1 d\n")
    assert shell("show", key, "9/d").stdout.startswith("blocked: for 1 d more")
    queue = "queue 6/h first=now block=empty"  # one more than there are places
    assert fill(queue, "--cost", "7").endswith("; blocked for 1 h 10 min\n")
    assert shell("show", key, queue).stdout.startswith("blocked: for 1 h 10 min more")
    for kind, lasts in (("sliding", "2 h"), ("stepped", "1 h"), ("window", "1 h")):
        limit = f"{kind} 6/h block=empty"
        assert fill(limit, "--cost", "6").endswith(f"the bucket is full; blocked for {lasts}\n"), kind
        assert fill(limit).startswith(f"blocked: for {lasts} more"), kind
    assert fill("stepped 6/h block=empty", "--cost", "0").endswith("the bucket is full\n")  # blocks nobody


@pytest.mark.parametrize("words, why", [
    (["a", "5/min"], "say which key, which limit and how long"),
    (["a", "5/min", "soon"], "expected"),
    (["a", "5/min", "0s"], "a whole number of milliseconds"),
    (["a", "5/min", "1us"], "a whole number of milliseconds"),
    (["a", "5/min", "5219w"], "above 100 years"),
    (["a", "5/min,", "3/h", "1s"], "one limit at a time"),
    (["a", "5/min block=0s", "1s"], "the block is zero"),
])
def test_a_wrong_command_line_blocks_nobody(shell, words, why):
    done = shell("block", *words)
    assert done.returncode == 2 and why in done.stderr


def test_a_block_outlives_the_process_that_began_it(tmp_path):
    store = {"WEIR_STORE": f"file:{tmp_path}/buckets.weir"}
    limit = "1/min block=1h"
    codes = [weir("take", "a", limit, store=store).returncode for _ in range(3)]
    assert codes == [0, 1, 1]
    assert weir("take", "a", limit, store=store).stdout.startswith("blocked: ")
    assert weir("store", "reset", store=store).returncode == 0
    assert weir("show", "a", limit, store=store).stdout.startswith("level ")


def test_a_blocked_window_moves_to_a_larger_file_as_it_is(tmp_path):
    where = ("--store", f"file:{tmp_path}/store")
    limit = "window 3/9000d block=300d"

    def shell(*words):
        done = subprocess.run([weir_binary(), *words, *where, "--json"], capture_output=True, text=True)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    assert shell("take", "k", limit, "--cost", "2")[0] == 0
    assert shell("take", "k", limit, "--cost", "2")[1]["verdict"] == "limited"
    assert shell("store", "resize", "64M")[0] == 0
    with WeirServer(*where) as server:
        verdict, _, remaining, retry_ns, _, _ = server.command("WEIR.TAKE", "k", limit)
        assert (verdict, remaining) == (3, 1) and 299 * 86400 * S < retry_ns <= 300 * 86400 * S
        assert shell("take", "k", limit)[1]["verdict"] == "blocked"
        assert shell("store", "resize", "32M")[0] == 0
        assert server.command("WEIR.UNBLOCK", "k", limit) == 1
        assert shell("show", "k", limit)[1]["level"] == "2"
        assert server.command("WEIR.BLOCK", "k", limit, 10**9) == 1
        assert shell("take", "k", limit)[1]["verdict"] == "blocked"
        assert shell("unblock", "k", limit)[0] == 0
        assert server.command("WEIR.TAKE", "k", limit)[:3] == [0, 3, 0]
