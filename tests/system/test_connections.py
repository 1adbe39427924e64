"""weir serve and clients that behave badly: the others are served, and memory stays bounded."""

import contextlib
import os
import random
import resource
import select
import socket
import threading
import time

import pytest
from test_server import buffers_bytes, get, never_reading_client, ping
from weirserver import DEADLINE_S, RespClient, WeirServer, encode_post, wait_until

HTTP_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(port):
    client = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def read_to_end(client):
    """Everything until the other end closes; a reset counts as that."""
    received = b""
    try:
        while data := client.recv(1 << 16):
            received += data
    except ConnectionResetError:
        pass
    return received


def closed_for(server, reason):
    return server.metric("weir_connections_closed_total", reason=reason)


# ---- how bytes arrive ----


def test_requests_a_byte_at_a_time_and_many_at_once():
    with WeirServer() as server, connect(server.resp_port) as client:
        for byte in b"PING\r\nPING\r\n":
            client.sendall(bytes([byte]))
        received = b""
        while len(received) < 14:
            received += client.recv(100)
        client.sendall(b"PING\r\n" * 3 + b"PI")
        while len(received) < 35:
            received += client.recv(100)
        client.sendall(b"NG\r\n")
        while len(received) < 42:
            received += client.recv(100)
        assert received == b"+PONG\r\n" * 6


def test_a_client_that_closes_its_side_gets_its_answers():
    with WeirServer() as server, connect(server.resp_port) as client:
        client.sendall(b"PING\r\n" * 1000)
        client.shutdown(socket.SHUT_WR)
        assert read_to_end(client) == b"+PONG\r\n" * 1000


def converse(port, seed, echoes):
    """Sends ECHOs in random pieces while reading in random pieces; returns whether all came back."""
    source = random.Random(seed)
    texts = [source.randbytes(source.choice([1, 40, 3000, 30_000])) for _ in range(echoes)]
    stream = b"".join(RespClient.encode("ECHO", text) for text in texts)
    client = socket.socket()
    client.settimeout(DEADLINE_S)
    # Small buffers: the server finds the socket full again and again.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, source.choice([2048, 16_384, 262_144]))
    client.connect(("127.0.0.1", port))
    pieces = random.Random(seed + 1)

    def send():
        at = 0
        while at < len(stream):
            end = at + pieces.choice([1, 7, 1000, 100_000])
            client.sendall(stream[at:end])
            at = end
        client.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    received = bytearray()
    while data := client.recv(source.choice([1, 100, 10_000, 1 << 20])):
        received += data
    sender.join(DEADLINE_S)
    client.close()
    return received == b"".join(b"$%d\r\n%s\r\n" % (len(text), text) for text in texts)


def test_many_conversations_in_pieces_lose_nothing():
    """Full sockets, cut requests, half-closed ends, all at once: every byte comes back in order."""
    with WeirServer("--threads", 2) as server:
        results = {}

        def run(seed):
            results[seed] = converse(server.resp_port, seed, 150)

        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(0, 48, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {seed: True for seed in range(0, 48, 2)}
        assert buffers_bytes(server) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_client_that_reads_only_when_all_is_jammed_gets_every_byte(seed):
    """Sends until nothing moves (both ways are full), reads a little, and so on to the end."""
    source = random.Random(seed)
    texts = [source.randbytes(source.choice([10, 5000, 60_000])) for _ in range(600)]
    stream = b"".join(RespClient.encode("ECHO", text) for text in texts)
    with WeirServer("--threads", 1) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.connect(("127.0.0.1", server.resp_port))
        client.setblocking(False)
        at, received, was_jammed = 0, bytearray(), False
        expected = b"".join(b"$%d\r\n%s\r\n" % (len(text), text) for text in texts)
        while len(received) < len(expected):
            while at < len(stream) and select.select([], [client], [], 0.02)[1]:
                at += client.send(stream[at : at + 200_000])
            was_jammed = was_jammed or buffers_bytes(server) > 0
            until = len(received) + source.choice([1, 100_000, 3_000_000])
            while len(received) < min(until, len(expected)):
                assert select.select([client], [], [], DEADLINE_S)[0], "the server forgot us"
                received += client.recv(until - len(received))
        assert was_jammed
        assert received == expected
        assert buffers_bytes(server) == 0


def test_a_hundred_thousand_commands_in_one_write():
    count = 100_000
    with WeirServer("--threads", 1) as server, connect(server.resp_port) as client:
        before = server.rss_bytes()
        sender = threading.Thread(target=client.sendall, args=(b"PING\r\n" * count,))
        sender.start()
        received = 0
        while received < 7 * count:
            received += len(client.recv(1 << 20))
        sender.join()
        assert received == 7 * count
        server.assert_grown_less(before, 8 << 20)


def test_small_requests_with_large_answers_do_not_pile_up():
    """The server pauses a pipeline whose answers are plenty, and goes on when they are sent."""
    count = 4000
    with WeirServer("--threads", 1) as server, connect(server.http_port) as client:
        before = server.rss_bytes()
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * count)
        client.shutdown(socket.SHUT_WR)
        seen, tail = 0, b""
        while data := client.recv(1 << 20):
            data = tail + data
            seen += data.count(b"HTTP/1.1 200 OK")
            tail = data[-14:]
        assert seen == count
        server.assert_grown_less(before, 12 << 20)


def test_info_by_the_thousand_is_bounded():
    count = 5000
    with WeirServer("--threads", 1) as server, connect(server.resp_port) as client:
        before = server.rss_bytes()
        sender = threading.Thread(target=client.sendall, args=(b"INFO\r\n" * count,))
        sender.start()
        seen, tail = 0, b""
        while seen < count:
            data = tail + client.recv(1 << 20)
            seen += data.count(b"# Keyspace")
            tail = data[-9:]
        sender.join()
        server.assert_grown_less(before, 12 << 20)


def test_a_large_request_in_small_pieces():
    body = b'{"key":"a","limit":"10/s"' + b" " * 60_000 + b"}"
    with WeirServer() as server, connect(server.http_port) as client:
        head = b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        for start in range(0, len(body), 500):
            client.sendall(head + body[start : start + 500])
            head = b""
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        client.sendall(HTTP_REQUEST)
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_a_long_pipeline_does_not_hold_others_up():
    with WeirServer("--threads", 1) as server, connect(server.resp_port) as greedy:
        stop = threading.Event()

        def send():
            while not stop.is_set():
                greedy.sendall(b"PING\r\n" * 10_000)

        def receive():
            while greedy.recv(1 << 20):
                pass

        threads = [threading.Thread(target=send), threading.Thread(target=receive)]
        for thread in threads:
            thread.start()
        try:
            with RespClient(("127.0.0.1", server.resp_port)) as modest:
                for _ in range(50):
                    modest.socket.sendall(b"PING\r\n")
                    assert modest.read_reply() == "PONG"
        finally:
            stop.set()
            threads[0].join(DEADLINE_S)
            greedy.shutdown(socket.SHUT_WR)
            threads[1].join(DEADLINE_S)


FULL = "window 400000/d"  # a refusal of all of it: some 50 us


def fill_window(server):
    with connect(server.resp_port) as client:
        some = 20_000
        pipeline = RespClient.encode("WEIR.TAKE", "k", FULL) * some
        for _ in range(400_000 // some):
            client.sendall(pipeline)
            count = 0
            while count < some:
                count += client.recv(1 << 20).count(b"*")


def expensive_pipeline(greedy):
    """What to send, and what ends its answer."""
    take = RespClient.encode("WEIR.TAKE", "k", FULL, "COST", 400_000)
    return take * 500 + b"ECHO end\r\n", b"$3\r\nend\r\n"


def expensive_transaction(greedy):
    take = RespClient.encode("WEIR.TAKE", "k", FULL, "COST", 400_000)
    greedy.sendall(b"MULTI\r\n" + take * 1000 + b"ECHO end\r\n")
    received = b""
    while received.count(b"+QUEUED") < 1001:
        received += greedy.recv(1 << 16)
    return b"EXEC\r\n", b"$3\r\nend\r\n"


def expensive_requests(greedy):
    take = encode_post("take", {"key": "k", "limit": FULL, "cost": 400_000})
    return take * 300 + b"GET /end HTTP/1.1\r\nHost: localhost\r\n\r\n", b"/end"


@pytest.mark.alone
@pytest.mark.parametrize("expensive", [expensive_pipeline, expensive_transaction, expensive_requests])
def test_expensive_requests_do_not_hold_others_up(expensive):
    """Others are answered before one connection has all of its answers, though these came in one read."""
    is_http = expensive is expensive_requests
    with WeirServer("--threads", 1) as server:
        fill_window(server)
        with (
            connect(server.http_port if is_http else server.resp_port) as greedy,
            connect(server.resp_port) as resp,
            connect(server.http_port) as http,
        ):
            for _ in range(20):  # a client that is not run for long may find that it is all over
                work, end = expensive(greedy)
                greedy.sendall(work)
                http.sendall(HTTP_REQUEST)
                resp.sendall(b"PING\r\n")
                assert resp.recv(100) == b"+PONG\r\n"
                assert http.recv(1000).startswith(b"HTTP/1.1 200 ")
                received = b""
                with contextlib.suppress(BlockingIOError):
                    received = greedy.recv(1 << 22, socket.MSG_DONTWAIT)
                was_first = end not in received
                while end not in received:
                    data = greedy.recv(1 << 22)
                    assert data, "the connection ended"
                    received += data
                if was_first:
                    return
            pytest.fail("others had to wait for all of it, each time")


# ---- slow and silent ones ----


@pytest.mark.parametrize("drip", [False, True])
@pytest.mark.parametrize("protocol", ["resp", "http"])
def test_half_a_request_is_cut_off_after_the_header_timeout(protocol, drip):
    with WeirServer("--header-timeout", "300ms") as server:
        port = server.resp_port if protocol == "resp" else server.http_port
        with connect(port) as client:
            client.sendall(b"PI" if protocol == "resp" else HTTP_REQUEST[:20])
            if drip:  # progress does not help: the request is late as a whole

                def feed():
                    try:
                        for byte in b"N" * 10_000:
                            client.sendall(bytes([byte]))
                            threading.Event().wait(0.01)
                    except OSError:
                        pass

                threading.Thread(target=feed, daemon=True).start()
            said = read_to_end(client)
            if protocol == "resp" or drip:  # who still sends may lose what was said to a reset
                assert not said.startswith((b"+", b"HTTP/1.1 200"))
            else:
                assert said.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        wait_until(lambda: closed_for(server, "header_timeout") == 1, "the cut")  # an end is told before it is one
        assert "reason=header_timeout" in server.wait_for_log("cut_off")


def test_a_client_that_does_not_read_is_cut_off():
    with WeirServer("--write-timeout", "200ms", "--threads", 1) as server:
        client = never_reading_client(server)
        wait_until(lambda: closed_for(server, "write_timeout") == 1, "the cut")
        assert buffers_bytes(server) == 0
        client.close()


def test_idle_connections_end_if_wanted():
    with WeirServer("--idle-timeout", "200ms") as server:
        with connect(server.resp_port) as resp, connect(server.http_port) as http:
            assert read_to_end(resp) == b""
            assert read_to_end(http) == b""
        assert closed_for(server, "idle_timeout") == 2


def test_a_busy_connection_outlives_the_idle_timeout():
    with WeirServer("--idle-timeout", "1s") as server:
        with RespClient(("127.0.0.1", server.resp_port)) as client:
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                client.socket.sendall(b"PING\r\n")
                assert client.read_reply() == "PONG"
                threading.Event().wait(0.02)
        assert closed_for(server, "idle_timeout") == 0


def test_too_much_that_waits_is_cut_off():
    """One answer is written as a whole, however slow the server is: the longest that may wait, and a byte more."""
    longest = "x" * ((64 << 10) - len("$65526\r\n\r\n"))
    with WeirServer("--output-max", "64K", "--threads", 1) as server:
        with server.client() as client:
            assert client.command("ECHO", longest) == longest
            client.socket.sendall(RespClient.encode("ECHO", longest + "x"))
            assert client.socket.recv(100) == b""
        assert closed_for(server, "output_max") == 1


def test_all_that_waits_together_is_bounded():
    half = b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n" + b" " * 59_000
    with WeirServer("--buffers-max", "128K", "--threads", 1) as server:
        clients = [connect(server.http_port) for _ in range(5)]
        for client in clients:
            client.sendall(half)
        wait_until(lambda: closed_for(server, "buffers_max") >= 1, "the cut")
        assert buffers_bytes(server) <= 128 << 10
        assert ping(("127.0.0.1", server.resp_port)) == "PONG"
        for client in clients:
            client.close()
        wait_until(lambda: buffers_bytes(server) == 0, "the buffers to be given back")


def test_memory_goes_back_to_the_system_after_a_flood():
    half = b"POST /v1/take HTTP/1.1\r\nHost: weir\r\nContent-Length: 60000\r\n\r\n" + b" " * 59_000
    with WeirServer("--memory", "1M", "--threads", 2, "--buffers-max", "128M") as server:
        assert ping(("127.0.0.1", server.resp_port)) == "PONG"
        buffers_bytes(server)
        before = server.rss_bytes()
        clients = [connect(server.http_port) for _ in range(900)]
        for client in clients:
            client.sendall(half)
        wait_until(lambda: buffers_bytes(server) >= 900 * 59_000, "the flood")
        for client in clients:
            client.close()
        wait_until(lambda: buffers_bytes(server) == 0, "the ebb")
        if os.environ.get("WEIR_PRESET") not in ("asan", "tsan"):  # they keep what was freed
            wait_until(lambda: server.rss_bytes() - before < 12 << 20, "the memory", 5)


# ---- many ----


def test_what_is_queued_behind_multi_is_bounded_and_released():
    with WeirServer("--threads", 1, "--buffers-max", 300_000) as server:
        with server.client() as first, server.client() as second, server.client() as third:
            for client in first, second:
                assert client.command("MULTI") == "OK"
                assert [client.command("ECHO", "x" * 60_000) for _ in range(2)] == ["QUEUED"] * 2
            assert 240_000 < buffers_bytes(server) < 300_000
            assert third.command("MULTI") == "OK"
            assert third.command("ECHO", "x" * 60_000) == "QUEUED"
            assert first.socket.recv(100) == b""  # it keeps most, and has done so longest
            assert closed_for(server, "buffers_max") == 1
            assert len(second.command("EXEC")) == 2
            assert len(third.command("EXEC")) == 1
        wait_until(lambda: buffers_bytes(server) == 0, "all to be released")


def test_who_keeps_most_is_cut_off_though_another_worker_has_it(tmp_path):
    """Connections to a unix socket are dealt out in turn: those that keep much are all of one worker."""
    arguments = ["--threads", 2, "--buffers-max", 300_000, "--resp", f"unix:{tmp_path}/weir.sock"]
    with WeirServer(*arguments) as server:
        clients = [server.client() for _ in range(8)]
        for client in clients:
            assert client.command("PING") == "PONG"  # it has its worker
        heavy, light = clients[0:3:2], clients[1::2]
        for client in heavy:
            assert client.command("MULTI") == "OK"
            assert [client.command("ECHO", "x" * 60_000) for _ in range(2)] == ["QUEUED"] * 2
        echo = RespClient.encode("ECHO", "x" * 6000)
        for client in light:
            client.socket.sendall(echo[:-10])
        assert heavy[0].socket.recv(100) == b""
        for client in light:
            client.socket.sendall(echo[-10:])
            assert client.read_reply() == "x" * 6000
        assert len(heavy[1].command("EXEC")) == 2
        assert closed_for(server, "buffers_max") == 1
        for client in clients:
            client.close()


def test_a_transaction_with_large_answers_goes_on_as_they_are_sent():
    with WeirServer("--threads", 1) as server, connect(server.resp_port) as client:
        client.sendall(b"MULTI\r\n" + b"COMMAND\r\n" * 1000 + b"EXEC\r\nQUIT\r\n")
        answers = read_to_end(client)
        assert answers.startswith(b"+OK\r\n" + b"+QUEUED\r\n" * 1000 + b"*1000\r\n*")
        assert answers.count(b"$7\r\ncommand\r\n") == 1000
        assert answers.endswith(b"+OK\r\n")
        assert server.command("PING") == "PONG"


def watched_by_each_poller(server):
    """How many fds each epoll of the server has."""
    counts = []
    for fd in os.listdir(f"/proc/{server.pid}/fd"):
        try:
            if "eventpoll" in os.readlink(f"/proc/{server.pid}/fd/{fd}"):
                with open(f"/proc/{server.pid}/fdinfo/{fd}") as about:
                    counts.append(about.read().count("tfd:"))
        except FileNotFoundError:
            pass  # closed meanwhile
    return counts


def test_connections_of_a_unix_socket_are_dealt_out_to_all_workers(tmp_path):
    with WeirServer("--threads", 4, "--resp", f"unix:{tmp_path}/weir.sock") as server:
        before = max(watched_by_each_poller(server))
        clients = []
        for _ in range(40):
            clients.append(server.client())
            clients[-1].socket.sendall(b"PING\r\n")
            assert clients[-1].read_reply() == "PONG"
        assert watched_by_each_poller(server) == [before + 10] * 4
        for client in clients:
            client.close()


@pytest.mark.parametrize("protocol", ["resp", "http"])
def test_one_connection_too_many_is_told_so(protocol):
    with WeirServer("--max-connections", 4) as server:
        port = server.resp_port if protocol == "resp" else server.http_port
        held = [connect(port) for _ in range(4)]
        # Accepted, not only queued: each has been answered.
        for one in held:
            one.sendall(b"PING\r\n" if protocol == "resp" else HTTP_REQUEST)
            assert one.recv(1000)
        with connect(port) as fifth:
            said = read_to_end(fifth)
        if protocol == "resp":
            assert said == b"-ERR max number of clients reached\r\n"
        else:
            assert said.startswith(b"HTTP/1.1 503 ")
        server.wait_for_log("turned_away")
        held.pop().close()

        def is_served():
            with connect(port) as again:
                again.sendall(b"PING\r\n" if protocol == "resp" else HTTP_REQUEST)
                return again.recv(100).startswith((b"+PONG", b"HTTP/1.1 200"))

        wait_until(is_served, "the room that became free")
        for one in held:
            one.close()


def test_one_address_can_be_kept_from_taking_all_connections():
    with WeirServer("--max-connections-per-address", 2) as server:
        held = [connect(server.resp_port) for _ in range(2)]
        for one in held:
            one.sendall(b"PING\r\n")
            assert one.recv(100) == b"+PONG\r\n"
        with connect(server.resp_port) as third:
            assert read_to_end(third).startswith(b"-ERR max number of clients")
        with socket.socket() as other:
            other.settimeout(DEADLINE_S)
            other.bind(("127.0.0.9", 0))
            other.connect(("127.0.0.1", server.resp_port))
            other.sendall(b"PING\r\n")
            assert other.recv(100) == b"+PONG\r\n"
        for one in held:
            one.close()


def test_without_files_it_turns_away_and_recovers():
    with WeirServer("--threads", 1) as server:
        assert ping(("127.0.0.1", server.resp_port)) == "PONG"
        used = len(os.listdir(f"/proc/{server.pid}/fd"))
        limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used + 2, limits[1]))
        held = [connect(server.resp_port) for _ in range(6)]
        answers = []
        for one in held:
            one.sendall(b"PING\r\n")
            answers.append(one.recv(100))
            if answers[-1] != b"+PONG\r\n":
                break
        assert answers[-1] == b"-ERR max number of clients reached\r\n"
        for one in held:
            one.close()
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
        assert ping(("127.0.0.1", server.resp_port)) == "PONG"
        assert server.metric("weir_connections_rejected_total", reason="files") >= 1


@pytest.mark.slow
def test_ten_thousand_idle_connections_cost_little():
    count = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 100:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with WeirServer("--threads", 2) as server:
            before = server.rss_bytes()
            clients = [connect(server.resp_port) for _ in range(count)]
            wait_until(
                lambda: server.metric("weir_connections", protocol="resp") == count, "all of them"
            )
            for client in clients[::100]:
                client.sendall(b"PING\r\n")
                assert client.recv(100) == b"+PONG\r\n"
            server.assert_grown_less(before, 700 * count)
            for client in clients:
                client.close()
            wait_until(lambda: server.metric("weir_connections", protocol="resp") == 0, "the end")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- anything ----


@pytest.mark.parametrize("protocol", ["resp", "http"])
def test_garbage_on_a_port_keeps_others_served(protocol):
    source = random.Random(7)
    starts = [b"", b"GET / HTTP/1.1\r\n", b"*3\r\n$", b"*-1\r\n", b"POST ", b"\0", b"*1\r\n$4\r\n"]
    with WeirServer("--header-timeout", "1s") as server:
        port = server.resp_port if protocol == "resp" else server.http_port
        before = server.rss_bytes()
        for turn in range(200):
            with connect(port) as client:
                garbage = source.choice(starts) + source.randbytes(source.randrange(2000))
                client.sendall(garbage)
                if turn % 3 == 0:
                    client.shutdown(socket.SHUT_WR)
                    read_to_end(client)
        assert ping(("127.0.0.1", server.resp_port)) == "PONG"
        assert get(server.http_url + "/healthz")
        server.assert_grown_less(before, 16 << 20)


def test_a_protocol_error_is_readable_even_if_more_was_sent():
    """The answer to a bad request is not lost to a reset when the client is still sending."""
    with WeirServer() as server, connect(server.http_port) as client:
        client.sendall(b"NONSENSE\r\n\r\n")
        try:
            for _ in range(50):
                client.sendall(b"x" * 10_000)
        except OSError:
            pass
        assert read_to_end(client).startswith(b"HTTP/1.1 400 ")
