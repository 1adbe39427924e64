"""A store that answers later, or not at all, behind the server: the table over a bad wire (tests/support/delayed)."""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support" / "delayed"))

from weirserver import RespClient, RespError, wait_until, weir_binary  # noqa: E402
from wire import Wire, delayed_binary  # noqa: E402

pytestmark = pytest.mark.skipif(not Path(delayed_binary()).exists(), reason="weir-delayed is not built")

MS = 1_000_000
OVERWRITES_WHAT_IS_FREED = {"MALLOC_PERTURB_": "90"}


@pytest.fixture
def wire():
    with Wire() as wire:
        yield wire


def take(server, key="alice", limit="10/h"):
    return server.command("WEIR.TAKE", key, limit)[0]


def test_answers_are_those_of_a_table_in_order_whatever_a_pipeline_holds(wire):
    """The same conversation with a store that decides at once, byte for byte."""
    commands = []
    for i in range(300):
        commands += [("WEIR.TAKE", f"k{i % 7}", "20/h"), ("PING", str(i)), ("WEIR.NOSUCH", str(i)),
                     ("WEIR.TAKEALL", 2, f"k{i % 5}", "9/h", "all", "100/h"), ("WEIR.FILL", f"k{i % 3}", "5/h", "COST", 2),
                     ("TTL", f"k{i % 4}"), ("CL.THROTTLE", f"k{i % 4}", 3, 10, 60), ("WEIR.SHOW", f"k{i % 7}", "20/h"),
                     ("WEIR.TAKE", "k", "nonsense")]
        if i % 50 == 0:
            commands += [("MULTI",), ("WEIR.TAKE", "k1", "20/h"), ("PING",), ("DEL", "k1", "k2"), ("EXEC",)]
    wire.set(there_ns=200_000, back_ns=200_000, parts=3)
    replies = []
    for server in (wire.server("--test-clock", "--threads", "1"),
                   wire.server("--test-clock", "--threads", "1", "--store", "memory:")):
        with server, server.client() as client:
            replies.append(client.pipeline(commands))
    assert [str(reply) for reply in replies[0]] == [str(reply) for reply in replies[1]]
    with contextlib.ExitStack() as stack:
        from weirserver import WeirServer
        server = stack.enter_context(WeirServer("--test-clock", "--threads", "1", binary=weir_binary()))
        client = stack.enter_context(server.client())
        at_once = client.pipeline(commands)
    assert [str(reply) for reply in replies[0]] == [str(reply) for reply in at_once]


def test_on_error_answers_while_the_store_is_silent_and_the_log_says_so_once(wire):
    with wire.server("--threads", "2") as server:
        assert take(server) == 0
        wire.set(is_silent=1)
        wait_until(lambda: take(server) == 4 and "store_down" in server.log, "an outage")
        assert take(server, limit="10/h on_error=allow") == 0
        assert server.get("/v1/check?key=a&limit=1/h").status == 503
        assert server.get("/v1/check?key=a&limit=1/h+on_error=allow").status == 200
        assert b"on_error" in server.get("/healthz").body
        assert server.get("/healthz").status == 200
        assert server.metric("weir_store_down") == 1
        for client in [server.client() for _ in range(8)]:  # of both workers
            with client:
                assert client.command("WEIR.TAKE", "bob", "10/h")[0] == 4
        wire.set()
        wait_until(lambda: "store_up" in server.log, "the end of the outage", deadline_s=10)
        assert take(server) == 0
        assert server.metric("weir_store_down") == 0
        assert server.metric("weir_undecided_total") > 0
        assert server.log.count(" store_down ") == 1
        assert server.log.count(" store_up ") == 1


def test_the_log_says_once_in_an_outage_what_the_store_itself_says(wire):
    """The first symptom is that nothing comes; then it refuses, for one reason and for another."""
    with wire.server("--threads", "4") as server:
        for outages in (1, 2):
            wait_until(lambda: take(server) != 4, "a take")
            wire.set(is_silent=1)
            with contextlib.ExitStack() as stack:
                for client in [stack.enter_context(server.client()) for _ in range(16)]:  # of most workers
                    wait_until(lambda: take(client) == 4, "silence")
                    assert [take(client) for _ in range(2)] == [4, 4]
            wait_until(lambda: server.log.count(" store_down ") == outages, "an outage")
            assert server.log.count(" store_why ") == outages - 1
            wire.set(refuses=1)
            wait_until(lambda: server.log.count(" store_why ") == outages, "the reason")
            wire.set(refuses=1, fails_at_once=1)
            until = time.monotonic() + 0.5
            while time.monotonic() < until:  # for a few attempts of each worker that is down
                take(server)
            wire.set()
            wait_until(lambda: server.log.count(" store_up ") == outages, "the end of the outage")
        assert server.log.count(" store_down ") == server.log.count(" store_why ") == 2
        for line in server.log.splitlines():
            if " store_why " in line:
                assert " error " in line and "connection refused" in line
            if " store_down " in line:
                assert "no answer within 20 ms" in line


def test_a_reset_that_did_not_happen_is_an_error(wire):
    with wire.server("--threads", "1") as server:
        assert take(server) == 0
        wire.set(is_silent=1)
        wait_until(lambda: take(server) == 4, "an outage")
        for command in (("WEIR.RESET", "alice", "10/h"), ("WEIR.UNBLOCK", "alice", "10/h"),
                        ("WEIR.BLOCK", "alice", "10/h", 1000), ("TTL", "alice"), ("DEL", "alice"), ("GET", "alice")):
            with pytest.raises(RespError, match="store"):
                server.command(*command)
        assert server.post("reset", key="alice", limit="10/h").status == 503


def test_connections_that_do_not_ask_are_served_while_the_store_is_slow(wire):
    with wire.server("--threads", "1") as server, server.client() as asking, server.client() as other:
        wire.set(way_ns=5 * MS)
        assert take(server) == 0  # the wire is slow from here on
        asking.send("WEIR.TAKE", "alice", "10/h")
        assert other.pipeline([("PING",)] * 100) == ["PONG"] * 100
        assert server.get("/healthz").status == 200
        assert asking.read_reply()[0] == 0


def test_a_client_that_closes_its_side_gets_its_answer(wire):
    wire.set(way_ns=5 * MS)
    with wire.server("--threads", "1") as server, server.client() as client:
        client.socket.sendall(RespClient.encode("WEIR.TAKE", "alice", "10/h"))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.read_reply()[0] == 0
        assert client.reader.read() == b""


def test_the_configuration_may_change_while_an_answer_is_out(wire, tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text("limits:\n  login: 5/h\n")
    wire.set(way_ns=6 * MS)
    with (wire.server("--threads", "1", "--config", str(config), environment=OVERWRITES_WHAT_IS_FREED) as server,
          server.client() as client):
        for round in range(20):
            client.send("WEIR.TAKE", f"alice{round}", "login")
            config.write_text(f"limits:\n  login: {6 + round}/h\n")
            server.signal(signal.SIGHUP)
            assert client.read_reply()[0] == 0
        wait_until(lambda: client.command("WEIR.TAKE", "bob", "login")[1] == 25, "the last configuration")


def test_a_server_that_ends_answers_what_was_asked(wire):
    with wire.server("--threads", "2") as server:
        clients = [server.client() for _ in range(50)]
        wire.set(way_ns=8 * MS)
        assert take(server) == 0
        for client in clients:
            client.send("WEIR.TAKE", "alice", "1000/h")
        wait_until(lambda: server.metric("weir_store_pending_batches") > 0, "batches that are out")
        server.signal(signal.SIGTERM)
        assert {client.read_reply()[0] for client in clients} == {0}
        assert server.wait() == 0
        for client in clients:
            client.close()


def test_what_comes_while_a_connection_asks_is_read_afterwards(wire):
    with wire.server("--threads", "1") as server, server.client() as client, server.client() as other:
        wire.set(way_ns=6 * MS)
        for round in range(10):
            client.send("WEIR.TAKE", "alice", "100/h")
            other.command("PING")  # the server has read what was sent before
            client.send("PING", str(round))
            assert client.read_reply()[0] == 0
            assert client.read_reply() == str(round)


def test_clients_may_go_while_the_store_is_asked(wire):
    wire.set(way_ns=6 * MS)
    with wire.server("--threads", "1", environment=OVERWRITES_WHAT_IS_FREED) as server, server.client() as other:
        for round in range(3):
            clients = [server.client() for _ in range(50)]
            for client in clients:
                client.send("WEIR.TAKE", "alice", "100000/h")
            other.command("PING")  # the server has read what was sent before
            for i, client in enumerate(clients):
                if i % 2 == 0:  # with a reset
                    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
            wait_until(lambda: server.metric("weir_store_pending_batches") == 0, "the end of all batches")
            wait_until(lambda: server.metric("weir_connections", protocol="resp") == 1, "the end of all connections")
        wire.set()
        assert server.metric("weir_buffers_bytes") == 0
        assert take(server) == 0


def test_connections_that_ask_may_give_way_to_others(wire):
    """What they keep is bounded by --buffers-max. What those have asked that end, is answered to nobody; and an event of
    a connection whose answers have come waits until they are brought."""
    wire.set(way_ns=6 * MS)
    with wire.server("--threads", "1", "--buffers-max", "1M", environment=OVERWRITES_WHAT_IS_FREED) as server:

        def has_ended():
            assert server.process.poll() is None
            with contextlib.suppress(OSError):  # a connection that asks for the figures may have to give way, too
                return server.metric("weir_connections", protocol="resp") == 0

        for _ in range(10):
            clients = [server.client() for _ in range(400)]
            for client in clients:
                with contextlib.suppress(OSError):
                    client.socket.sendall(RespClient.encode("WEIR.TAKE", "alice", "100000/h") * 150)
            for client in clients:
                client.close()
            wait_until(has_ended, "the end of all connections")
        assert server.metric("weir_connections_closed_total", reason="buffers_max") > 0
        wait_until(lambda: server.metric("weir_store_pending_batches") == 0, "the end of all batches")
        assert server.metric("weir_buffers_bytes") == 0
        assert take(server) in (0, 4)


@contextlib.contextmanager
def open_files(count):
    """So many may be open in this process, and in those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_thousand_connections_may_be_pending(wire):
    count = 1000 if os.environ.get("WEIR_PRESET") in ("asan", "tsan") else 10_000
    with open_files(count + 200), wire.server("--threads", "2") as server:
        clients = [server.client() for _ in range(count)]
        before = server.rss_bytes()
        wire.set(is_silent=1)
        for client in clients:
            client.send("WEIR.TAKE", "alice", f"{count * 10}/h")
        verdicts = [client.read_reply()[0] for client in clients]
        assert set(verdicts) <= {0, 4} and verdicts.count(4) > count * 9 // 10
        server.assert_grown_less(before, 64 << 20)
        wire.set()
        wait_until(lambda: take(server, "bob") == 0, "the store again", deadline_s=10)
        for client in clients:
            client.close()


def test_what_arrives_while_a_crowd_is_answered_is_read(wire):
    """Answers for a thousand connections come at once, and are brought in several turns. What comes in between is an
    event of a connection whose answer is there and not brought yet."""
    count = 1000
    with wire.server("--threads", "1") as server:
        clients = [server.client() for _ in range(count)]
        wire.set(way_ns=4 * MS)
        assert take(server) == 0
        question = RespClient.encode("WEIR.TAKE", "alice", f"{count * 100}/h")
        for _ in range(5):
            for client in clients:
                client.socket.sendall(question)
            for client in clients:
                client.socket.sendall(question)
            for client in clients:
                assert client.read_reply()[0] in (0, 4)
                assert client.read_reply()[0] in (0, 4)
        for client in clients:
            client.close()


def test_nothing_is_charged_twice_whatever_is_lost(wire):
    """Charges that the table knows: at least those that were answered allowed, at most those that were asked."""
    with wire.server("--threads", "2") as server:
        wire.set(there_ns=MS, back_ns=MS, parts=2, not_asked=50, unknown_there=30, unknown_back=30, refused_sending=50)
        clients = [server.client() for _ in range(20)]
        allowed, asked = 0, 0
        for _ in range(40):
            for client in clients:
                client.send("WEIR.TAKE", "all", "100000/h")
            verdicts = [client.read_reply()[0] for client in clients]
            allowed += verdicts.count(0)
            asked += len(verdicts)
        wire.set()
        wait_until(lambda: take(server, "other") == 0, "the store again", deadline_s=10)
        level = 100000 - server.command("WEIR.SHOW", "all", "100000/h")[2]
        assert 0 < allowed <= level <= asked
        assert server.metric("weir_store_retried_total") > 0
        for client in clients:
            client.close()


def test_a_command_waits_for_the_store_and_says_when_it_does_not_answer(wire):
    store = f"file:{os.path.dirname(wire.file.name)}/weir-later-{os.getpid()}"
    run = lambda *words: subprocess.run([delayed_binary(), *words, "--store", store], capture_output=True, text=True,  # noqa: E731
                                        env=wire.environment, timeout=30)
    try:
        wire.set(way_ns=2 * MS)
        assert run("take", "alice", "1/h").returncode == 0
        assert run("take", "alice", "1/h").returncode == 1
        wire.set(refuses=1)
        assert run("take", "alice", "1/h on_error=allow").returncode == 0
        refused = run("take", "alice", "1/h")
        assert refused.returncode == 3, refused
    finally:
        os.unlink(store[len("file:"):])
