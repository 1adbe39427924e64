"""Connections that stand in line: what they pipeline, how they end, what they may ask, and many."""

import collections
import json
import signal
import socket
import struct
import threading

import pytest
from test_server import buffers_bytes
from waiters import DAY_MS, WaitingServer
from weirserver import DEADLINE_S, RespClient, RespError, encode_post, wait_until

S = 1_000_000_000
LIMIT = "1/s"
WAIT = RespClient.encode("WEIR.TAKE", "a", LIMIT, "WAIT", DAY_MS)
SECOND_ALLOWED = b"*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n"  # also after a wait
PONG = b"+PONG\r\n"
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def server():
    with WaitingServer(threads=2) as started:
        started.take("a", LIMIT)  # so that the next one waits
        yield started


def post(wait_ms, key="a", limit=LIMIT, more=b""):
    """An HTTP request for a take."""
    return encode_post("take", {"key": key, "limit": limit, "wait_ms": wait_ms}, more)


def connect(server, protocol="resp"):
    """A bare connection, which one of the workers has taken in."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(DEADLINE_S)
    client.connect(server.paths[protocol])
    client.sendall(b"PING\r\n" if protocol == "resp" else HEALTHZ)
    assert client.recv(1000)
    return client


def read(client, length):
    """So many bytes, or what there is before the end."""
    received = bytearray()
    while len(received) < length and (data := client.recv(length - len(received))):
        received += data
    return bytes(received)


def has_nothing(server, client):
    """Whether it has not been sent a byte that it has not read."""
    server.settle()
    client.setblocking(False)
    try:
        client.recv(1, socket.MSG_PEEK)
        return False
    except BlockingIOError:
        return True
    finally:
        client.settimeout(DEADLINE_S)


# ---- what is pipelined ----


def test_nothing_behind_a_wait_is_run_before_its_answer(server):
    server.take("other", "1/d")
    reset = RespClient.encode("WEIR.RESET", "other", "1/d")  # 1: it was there
    with connect(server) as client:
        client.sendall(b"PING\r\n" + WAIT + reset + WAIT + reset + b"PING\r\n")
        assert read_rest(server, client) == PONG  # what came before is answered before
        server.advance(S - 1)
        assert has_nothing(server, client)
        assert server.take("other", "1/d").verdict == 1
        server.advance(1)
        assert read_rest(server, client) == SECOND_ALLOWED + b":1\r\n"
        server.advance(S - 1)
        assert has_nothing(server, client)
        assert server.take("other", "1/d").verdict == 0
        server.advance(1)
        assert read_rest(server, client) == SECOND_ALLOWED + b":1\r\n" + PONG


def read_rest(server, client):
    """Everything that it has been sent so far."""
    received = b""
    while not has_nothing(server, client):
        data = client.recv(1 << 16)
        if not data:
            break
        received += data
    return received


@pytest.mark.parametrize("first", range(1, len(WAIT), 5))
def test_a_wait_that_comes_in_pieces_with_more_behind(server, first):
    stream = b"PING\r\n" + WAIT + b"PING\r\n" + WAIT + b"PING\r\n"
    with connect(server) as client:
        for start in (0, first, first + len(WAIT)):
            end = {0: first, first: first + len(WAIT)}.get(start, len(stream))
            client.sendall(stream[start:end])
            server.settle()
        assert read_rest(server, client) == PONG
        server.advance(S)
        assert read_rest(server, client) == SECOND_ALLOWED + PONG
        server.advance(S)
        assert read_rest(server, client) == SECOND_ALLOWED + PONG


def test_more_behind_a_wait_than_buffers_hold_stays_with_the_client(server):
    texts = [b"%06d" % i + b"x" * 3000 for i in range(2000)]
    stream = WAIT + b"".join(RespClient.encode("ECHO", text) for text in texts)
    with connect(server) as client:
        sender = threading.Thread(target=client.sendall, args=(stream,))
        sender.start()
        wait_until(lambda: server.metric("weir_waiting") == 1, "it to stand in line")
        server.settle()
        assert sender.is_alive()
        assert buffers_bytes(server) <= 128 << 10  # one read
        server.advance(S)
        assert read(client, len(SECOND_ALLOWED)) == SECOND_ALLOWED
        for text in texts:
            assert read(client, len(text) + 9) == b"$%d\r\n%s\r\n" % (len(text), text)
        sender.join(DEADLINE_S)
        wait_until(lambda: buffers_bytes(server) == 0, "the last of its bytes to go")


def test_http_answers_in_order_too(server):
    chunked = b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = json.dumps({"key": "a", "limit": LIMIT, "wait_ms": DAY_MS}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    last = post(DAY_MS, more=b"Connection: close\r\n")
    with connect(server, "http") as client:
        client.sendall(HEALTHZ + post(DAY_MS) + HEALTHZ + chunked + chunks + last + HEALTHZ)
        verdicts = []
        for _ in range(4):
            said = read_rest(server, client)
            verdicts.append([b"allowed" in one for one in said.split(b"HTTP/1.1 200 OK")[1:]])
            server.advance(S)
        assert client.recv(1) == b""
        assert verdicts == [[False], [True, False], [True], [True]]


def test_a_proxy_may_ask_to_wait(server):
    with connect(server, "http") as client:
        client.sendall(
            b"GET /v1/check?key=a&limit=1/s&wait_ms=5000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        assert has_nothing(server, client)
        server.advance(S)
        assert read_rest(server, client).startswith(b"HTTP/1.1 2")


def test_a_person_may_type_it(server):
    with connect(server) as client:
        client.sendall(b"weir.take a 1/s wait 5000 cost 1\r\nping\r\n")
        assert has_nothing(server, client)
        server.advance(S)
        assert read_rest(server, client) == SECOND_ALLOWED + PONG


def test_a_wait_is_answered_with_names_in_resp3(server):
    with server.client() as client:
        client.command("HELLO", 3)
        client.send("WEIR.TAKE", "a", LIMIT, "wait", DAY_MS)
        server.settle()
        server.advance(S)
        assert client.read_reply()["verdict"] == 0


# ---- who does not read ----


ECHO = RespClient.encode("ECHO", "x" * 20_000)
LAST_ECHO = RespClient.encode("ECHO", "y" * 40_000)  # in more than one piece: WAIT comes with the last of them


def fill_socket(server, client):
    """Answers as long as a unix socket holds them: one more ECHO, and some of it stays with the server."""
    count = 0
    with connect(server) as probe:
        while buffers_bytes(server) == 0:
            probe.sendall(ECHO)
            server.settle()
            count += 1
    wait_until(lambda: buffers_bytes(server) == 0, "the probe to be gone")
    for _ in range(count - 1):
        client.sendall(ECHO)
        server.settle()
    return count - 1


def test_who_never_reads_holds_nobody_up():
    """Its answers are jammed, it stands in line all the same; then the write timeout ends it."""
    with WaitingServer("--write-timeout", "3s") as server:
        server.take("a", LIMIT)
        with connect(server) as client:
            fill_socket(server, client)
            client.sendall(LAST_ECHO + WAIT)
            wait_until(lambda: server.metric("weir_waiting") == 1, "its place")
            assert buffers_bytes(server) > 0
            behind = server.join("a", LIMIT)
            assert server.take("a", LIMIT).retry_after_ns == 3 * S
            wait_until(
                lambda: server.metric("weir_connections_closed_total", reason="write_timeout"),
                "the cut",
            )
            assert server.take("a", LIMIT).retry_after_ns == 2 * S  # the place is free again
            server.advance(S)
            assert behind.answer().verdict == 0


def test_an_answer_waits_for_its_reader_behind_what_it_was_sent_before(server):
    with connect(server) as client:
        count = fill_socket(server, client)
        client.sendall(LAST_ECHO + WAIT + b"PING\r\n")
        server.settle()
        assert server.metric("weir_waiting") == 1 and buffers_bytes(server) > 0
        server.advance(S)
        assert server.metric("weir_waiting") == 0
        received = read_rest(server, client)
        assert received.count(b"x") == count * 20_000 and received.count(b"y") == 40_000
        assert received.endswith(b"\r\n" + SECOND_ALLOWED + PONG)
    wait_until(lambda: buffers_bytes(server) == 0, "all to be given back")


# ---- how they end ----


@pytest.mark.parametrize("end", ["fin", "reset", "half"])
@pytest.mark.parametrize("protocol", ["resp", "http"])
@pytest.mark.parametrize("behind", [b"", b"x" * 10_000])
def test_the_end_of_a_connection_gives_the_place_back(server, end, protocol, behind):
    port = server.resp_port if protocol == "resp" else server.http_port
    first = server.join("a", LIMIT)
    client = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    client.sendall((WAIT if protocol == "resp" else post(DAY_MS)) + behind)
    wait_until(lambda: server.metric("weir_waiting") == 2, "it to stand in line")
    last = server.join("a", LIMIT)
    assert server.take("a", LIMIT).retry_after_ns == 4 * S
    if end == "half":
        client.shutdown(socket.SHUT_WR)
    elif end == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    else:
        client.close()
    wait_until(lambda: server.metric("weir_waiting") == 2, "it to leave")
    assert server.metric("weir_waits_total", end="left") == 1
    assert server.take("a", LIMIT).retry_after_ns == 3 * S
    server.advance(2 * S)
    assert first.answer().verdict == last.answer().verdict == 0
    client.close()


def test_timeouts_of_connections_are_not_for_those_who_wait():
    """Half a request behind a wait has not begun, either."""
    with WaitingServer("--idle-timeout", "300ms", "--header-timeout", "300ms") as server:
        with connect(server) as client, connect(server) as idle, connect(server) as half:
            half.sendall(b"PING\r\nPI")
            client.sendall(RespClient.encode("WEIR.FILL", "b", LIMIT))
            client.sendall(WAIT.replace(b"a\r\n", b"b\r\n", 1) + b"PING\r\nPI")
            assert read(half, 100) == PONG
            assert read(idle, 100) == b""
            server.probes = [server.connect() for _ in range(2)]
            server.advance(S)
            assert read(client, 4) == b"*8\r\n"
            assert read(client, 1 << 16).endswith(SECOND_ALLOWED + PONG)  # and is cut off then


@pytest.mark.parametrize("threads", [1, 3])
def test_the_end_of_the_server_answers_everybody(threads):
    with WaitingServer(threads=threads) as server:
        for key in ("a", "b"):
            server.take(key, LIMIT)
        waiting = [
            server.join(key, limit, protocol=protocol)
            for key, limit in (("a", LIMIT), ("b", LIMIT), ("c", "queue 1/s capacity=10"))
            for protocol in ("resp", "http", "resp")
        ]
        with connect(server) as more:
            more.sendall(WAIT + b"PING\r\n" + WAIT)
            server.settle()
            server.signal(signal.SIGTERM)
            verdicts = [waiter.answer(within_s=DEADLINE_S).verdict for waiter in waiting]
            assert verdicts == [4] * 9
            failed = b"*6\r\n:4\r\n:1\r\n:0\r\n:-1\r\n:-1\r\n:0\r\n"
            assert read(more, 1000) == failed + PONG + failed
        for one in waiting + server.probes:
            one.close()
        assert server.wait() == 0


# ---- what may be asked ----


@pytest.mark.parametrize(
    "words, error",
    [
        (["WAIT"], "syntax error"),
        (["WAIT", "1", "WAIT", "1"], "syntax error"),
        (["COST", "1", "WAIT"], "syntax error"),
        (["WAIT", ""], "invalid wait"),
        (["WAIT", "-1"], "invalid wait"),
        (["WAIT", "86400001"], "invalid wait"),
        (["WAIT", "9223372036854775808"], "invalid wait"),
        (["WAIT", "1" + "0" * 400], "invalid wait"),
        (["WAIT", "1.5"], "invalid wait"),
        (["WAIT", "5s"], "invalid wait"),
        (["WAIT", " 5"], "invalid wait"),
        (["WAIT", b"5\0"], "invalid wait"),
        (["WAIT", b"\xff"], "invalid wait"),
        (["WAIT", "1", "COST", "-1"], "invalid cost"),
    ],
)
def test_an_absurd_wait_is_an_error_and_charges_nothing(server, words, error):
    with pytest.raises(RespError, match=error):
        server.ask("WEIR.TAKE", "b", LIMIT, *words)
    assert server.take("b", LIMIT).verdict == 0
    assert server.metric("weir_waiting") == 0


@pytest.mark.parametrize("wait_ms", ["-1", "86400001", "1e3", "1.5", '"5"', "null", "true", "[]"])
def test_an_absurd_wait_over_http_is_400(server, wait_ms):
    body = b'{"key":"b","limit":"1/s","wait_ms":%s}' % wait_ms.encode()
    head = b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with connect(server, "http") as client:
        client.sendall(head + body)
        assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert server.take("b", LIMIT).verdict == 0


@pytest.mark.parametrize("command", ["CANTAKE", "FILL", "REFUND", "SHOW", "RESET"])
def test_wait_is_for_takes_only(server, command):
    with pytest.raises(RespError, match="syntax|wrong number"):
        server.ask(f"WEIR.{command}", "b", LIMIT, "WAIT", 1)


def test_a_wait_in_a_transaction_spoils_it(server):
    with server.client() as client:
        assert client.command("MULTI") == "OK"
        assert client.command("WEIR.TAKE", "b", LIMIT) == "QUEUED"
        with pytest.raises(RespError, match="WAIT"):
            client.command("WEIR.TAKE", "b", LIMIT, "WAIT", 5)
        with pytest.raises(RespError, match="EXECABORT"):
            client.command("EXEC")
    assert server.take("b", LIMIT).verdict == 0


def test_wait_0_is_a_take_that_does_not_wait(server):
    assert server.join("a", LIMIT, wait_ms=0).answer().verdict == 1
    assert server.join("a", LIMIT, wait_ms=0, protocol="http").answer().verdict == 1


# ---- many ----


def test_thousands_who_wait_and_vanish_leave_nothing():
    """Each in a line of its own or all in one; some by reset, some with their turn just coming."""
    with WaitingServer(threads=2) as server:
        server.take("one", "1000/s capacity=1")

        there = collections.deque()

        def come(number):
            client = socket.create_connection(("127.0.0.1", server.resp_port))
            key = "one" if number % 2 else f"own-{number % 50}"
            limit = "1000/s capacity=1" if number % 2 else "queue 1000/s capacity=500"
            client.sendall(RespClient.encode("WEIR.TAKE", key, limit, "WAIT", 60_000))
            if number % 3 == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.append(client)

        def come_and_vanish(count):
            for number in range(count):
                come(number)
                if number % 10 == 0:
                    server.ask("WEIR.CLOCK", "ADVANCE", 1_000_000)
                if len(there) > 200:
                    there.popleft().close()
            while there:
                there.pop().close()
            wait_until(all_gone, "all to be gone")

        def all_gone():
            return server.metric("weir_waiting") == 0 and server.metric("weir_lines") == 0

        come_and_vanish(500)
        before = server.rss_bytes()
        come_and_vanish(3000)
        server.assert_grown_less(before, 1 << 20)
        assert server.metric("weir_waits_total", end="left") > 1000
        server.advance(60 * S)
        for key in ["one", *(f"own-{number}" for number in range(50))]:
            limit = "1000/s capacity=1" if key == "one" else "queue 1000/s capacity=500"
            assert server.take(key, limit).verdict == 0
        assert buffers_bytes(server) == 0
