"""weir serve with a password, and clients that do not know it: those that do are served all the same."""

import re
import socket
import threading
import time

import pytest
from test_connections import HTTP_REQUEST, closed_for, connect, read_to_end
from test_server import buffers_bytes
from weirserver import DEADLINE_S, RespClient, RespError, WeirServer, wait_until

PASSWORD = "open sesame, said Ali"
BEARER = f"Bearer {PASSWORD}"
HALF_BODY = b"POST /v1/take HTTP/1.1\r\nHost: weir\r\nContent-Length: 60000\r\n\r\n" + b" " * 50_000
KNOWN_HALF_BODY = HALF_BODY.replace(b"Host", b"Authorization: %s\r\nHost" % BEARER.encode(), 1)


class LockedServer(WeirServer):
    """A server with a password, which its own requests bring."""

    def __init__(self, folder, *arguments):
        file = folder / "password"
        file.write_text(PASSWORD + "\n")
        file.chmod(0o600)
        super().__init__("--password-file", file, *arguments)

    def get(self, target, **headers):
        return super().get(target, **{"Authorization": BEARER, **headers})

    def friend(self):
        """A new RESP connection that has said the password."""
        client = self.client()
        assert client.command("AUTH", PASSWORD) == "OK"
        return client


# ---- what they may send ----


def test_a_body_without_the_password_is_not_kept(tmp_path):
    with LockedServer(tmp_path, "--threads", 1) as server:
        strangers = [connect(server.http_port) for _ in range(20)]
        for stranger in strangers:
            stranger.sendall(HALF_BODY)
        for stranger in strangers:
            answer = read_to_end(stranger)
            assert answer.startswith(b"HTTP/1.1 401 ") or answer == b""  # lost to a reset
        assert buffers_bytes(server) == 0
        wait_until(lambda: closed_for(server, "auth_failures") == 20, "the end of all")
        assert server.metric("weir_auth_failures_total", protocol="http") == 20


def test_a_connection_that_knows_the_password_goes_on(tmp_path):
    request = HTTP_REQUEST.replace(b"/healthz", b"/metrics")
    known = request.replace(b"Host", b"Authorization: %s\r\nHost" % BEARER.encode())
    with LockedServer(tmp_path) as server, connect(server.http_port) as client:
        for _ in range(3):
            client.sendall(known)
            answer = client.recv(1 << 20)
            assert answer.startswith(b"HTTP/1.1 200 ") and b"Connection: close" not in answer
            while not answer.endswith(b"\n") or b"process_start_time_seconds" not in answer:
                answer += client.recv(1 << 20)
        client.sendall(request)
        assert read_to_end(client).startswith(b"HTTP/1.1 401 ")


def test_what_is_behind_auth_in_one_packet_has_ordinary_bounds(tmp_path):
    text = "x" * 60_000
    with LockedServer(tmp_path, "--threads", 1) as server, server.client() as client:
        answers = client.pipeline([("AUTH", PASSWORD), ("ECHO", text), ("ECHO", text), ("PING",)])
        assert answers == ["OK", text, text, "PONG"]


def test_eight_wrong_passwords_end_the_connection_and_are_logged(tmp_path):
    with LockedServer(tmp_path, "--threads", 1) as server:
        for _ in range(20):
            with server.client() as client:
                for _ in range(8):
                    with pytest.raises(RespError, match="WRONGPASS"):
                        client.command("AUTH", "open barley")
                assert client.socket.recv(100) == b""
        wait_until(lambda: closed_for(server, "auth_failures") == 20, "the end of all")
        assert server.metric("weir_auth_failures_total", protocol="resp") == 160
        line = server.wait_for_log("auth_failed")
        assert re.search(r" warn auth_failed protocol=resp client=127\.0\.0\.1:\d+ count=1 skipped=0$", line)
        assert len([line for line in server.lines if "auth_failed" in line]) < 160
        assert "barley" not in server.log and "sesame" not in server.log


# ---- how much they may keep ----


def half_head(size):
    """A request whose head is not complete, of this size."""
    return b"GET / HTTP/1.1\r\nHost: weir\r\nX: " + b"x" * (size - 33)


@pytest.mark.parametrize("threads", [1, 2])
def test_friends_are_served_while_strangers_press(tmp_path, threads):
    """They may keep 64 KiB together here: far less than all, so requests in two packets find room."""
    with LockedServer(tmp_path, "--threads", threads, "--buffers-max", "1M") as server:
        friends = [server.friend() for _ in range(10)]
        strangers = []
        for _ in range(300):
            strangers.append(connect(server.http_port))
            strangers[-1].sendall(half_head(7000))
        wait_until(lambda: closed_for(server, "strangers_max") >= 250, "the cuts")
        wait_until(lambda: server.metric("weir_strangers_bytes") <= 64 << 10, "the share")
        take = RespClient.encode("WEIR.TAKE", "legit", "1000/s")
        for _ in range(20):
            friends.append(server.friend())
        for friend in friends:
            friend.socket.sendall(take[:20])
        wait_until(lambda: buffers_bytes(server) > server.metric("weir_strangers_bytes"), "halves")
        for friend in friends:
            friend.socket.sendall(take[20:])
            assert friend.read_reply()[0] == 0
        assert closed_for(server, "buffers_max") == 0
        for one in strangers + friends:
            one.close()
        wait_until(lambda: buffers_bytes(server) == 0, "the buffers to be given back")
        assert server.metric("weir_strangers_bytes") == 0


def test_of_strangers_the_one_that_keeps_most_is_cut_off(tmp_path):
    with LockedServer(tmp_path, "--threads", 1, "--buffers-max", "64K") as server:
        with connect(server.http_port) as greedy, connect(server.resp_port) as modest:
            greedy.sendall(half_head(7000) + b"\r\nY: " + b"y" * 7000)
            wait_until(lambda: server.metric("weir_strangers_bytes") > 14_000, "the greedy one")
            others = [connect(server.resp_port) for _ in range(20)]
            for one in [modest, *others]:
                one.sendall(b"*2\r\n$4\r\nAUTH\r\n$1000\r\n" + b"x" * 900)
            wait_until(lambda: closed_for(server, "strangers_max") == 0
                       and server.metric("weir_strangers_bytes") > 30_000, "all of it")
            more = [connect(server.http_port) for _ in range(4)]
            for one in more:
                one.sendall(half_head(7000))
            assert read_to_end(greedy) == b""
            for one in [modest, *others]:
                one.sendall(b"x" * 100 + b"\r\n")
                assert one.recv(100).startswith(b"-WRONGPASS")
                one.close()
            for one in more:
                one.close()


def test_what_a_friend_keeps_is_no_longer_a_strangers(tmp_path):
    with LockedServer(tmp_path, "--threads", 1) as server, server.client() as client:
        client.socket.sendall(b"*2\r\n$4\r\nAUTH\r\n")
        wait_until(lambda: server.metric("weir_strangers_bytes") > 0, "half of AUTH")
        client.socket.sendall(b"$%d\r\n%s\r\n*1\r\n$4\r\nPI" % (len(PASSWORD), PASSWORD.encode()))
        assert client.read_reply() == "OK"
        wait_until(lambda: buffers_bytes(server) > 0, "half of PING")
        assert server.metric("weir_strangers_bytes") == 0
        client.socket.sendall(b"NG\r\n")
        assert client.read_reply() == "PONG"


# ---- how many connections they may have ----


@pytest.mark.parametrize("threads", [1, 2])
def test_a_server_full_of_strangers_lets_friends_in(tmp_path, threads):
    with LockedServer(tmp_path, "--threads", threads, "--max-connections", 64) as server:
        first = server.friend()
        strangers = [connect(server.resp_port) for _ in range(64)]
        friends = [server.friend() for _ in range(20)]
        assert server.get("/metrics").status == 200
        for friend in [first, *friends]:
            assert friend.command("PING") == "PONG"
            friend.close()
        assert closed_for(server, "strangers_max") > 0
        assert server.metric("weir_connections_rejected_total", reason="connections") == 0
        assert "reason=strangers_max" in server.wait_for_log("cut_off")
        for stranger in strangers:
            stranger.close()


@pytest.mark.parametrize("first", ["friends", "strangers"])
@pytest.mark.parametrize("threads", [2, 3])
def test_a_worker_without_strangers_asks_the_others_for_one(tmp_path, first, threads):
    """Connections of a unix socket are dealt out in turn: all strangers come to one worker, which is the first or the
    second. Whichever accepts what comes then, friends get in until the server is full of them."""
    path = tmp_path / "socket"
    with LockedServer(tmp_path, "--threads", threads, "--max-connections", 24, "--resp", f"unix:{path}") as server:

        def come():
            one = socket.socket(socket.AF_UNIX)
            one.settimeout(DEADLINE_S)
            one.connect(str(path))
            return one

        def say_password(one):
            one.sendall(RespClient.encode("AUTH", PASSWORD))
            return one.recv(100)

        friends, strangers = [], []
        for i in range(18):
            one = come()
            if (i % threads == 0) == (first == "strangers"):
                strangers.append(one)
            else:
                friends.append(one)
                assert say_password(one) == b"+OK\r\n"
        while len(friends) < 24:
            friends.append(come())
            assert say_password(friends[-1]) == b"+OK\r\n"
        with come() as one_more:
            assert one_more.recv(100) == b"-ERR max number of clients reached\r\n"
        for friend in friends:
            friend.sendall(b"PING\r\n")
            assert friend.recv(100) == b"+PONG\r\n"
        for one in strangers + friends:
            one.close()


def test_friends_get_in_while_strangers_come_again_and_again(tmp_path):
    with LockedServer(tmp_path, "--threads", 2, "--max-connections", 512) as server:
        stop = threading.Event()

        def press():
            held = []
            while not stop.is_set():
                held.append(connect(server.resp_port))
                if len(held) > 400:
                    held.pop(0).close()

        pressing = [threading.Thread(target=press) for _ in range(2)]
        for thread in pressing:
            thread.start()
        try:
            wait_until(lambda: closed_for(server, "strangers_max") > 0, "the press")
            for _ in range(100):
                with server.friend() as friend:
                    assert friend.command("PING") == "PONG"
        finally:
            stop.set()
            for thread in pressing:
                thread.join(DEADLINE_S)


def test_a_slow_client_outlasts_a_crowd_from_another_address(tmp_path):
    with LockedServer(tmp_path, "--threads", 1, "--max-connections", 32) as server:
        with socket.socket() as slow:
            slow.settimeout(DEADLINE_S)
            slow.bind(("127.0.0.9", 0))
            slow.connect(("127.0.0.1", server.resp_port))
            crowd = [connect(server.resp_port) for _ in range(100)]
            wait_until(lambda: closed_for(server, "strangers_max") >= 60, "the cuts")
            slow.sendall(RespClient.encode("AUTH", PASSWORD))
            assert slow.recv(100) == b"+OK\r\n"
            for one in crowd:
                one.close()


def test_friends_give_way_to_nobody(tmp_path):
    """A server that is full of friends turns away, as before."""
    with LockedServer(tmp_path, "--threads", 1, "--max-connections", 16) as server:
        friends = [server.friend() for _ in range(16)]
        with connect(server.resp_port) as one_more:
            assert read_to_end(one_more) == b"-ERR max number of clients reached\r\n"
        for friend in friends:
            assert friend.command("PING") == "PONG"
            friend.close()


# ---- how long they may stay ----


@pytest.mark.parametrize("sent", [b"", b"*2\r\n$4\r\nAUTH\r\n", b"*1\r\n$4\r\nPING\r\n"])
def test_a_stranger_has_the_header_timeout_for_the_password(tmp_path, sent):
    with LockedServer(tmp_path, "--header-timeout", "300ms") as server:
        with server.friend() as friend, connect(server.resp_port) as stranger:
            stranger.sendall(sent)
            assert read_to_end(stranger) in (b"", b"-NOAUTH Authentication required.\r\n")
            assert closed_for(server, "auth_timeout") == 1
            assert friend.command("PING") == "PONG"  # connected before it, and idle since
        assert "reason=auth_timeout protocol=resp" in server.wait_for_log("cut_off")


def test_a_stranger_gains_no_time_by_talking(tmp_path):
    with LockedServer(tmp_path, "--header-timeout", "300ms") as server, server.client() as stranger:
        with pytest.raises(OSError):
            while True:
                with pytest.raises(RespError, match="NOAUTH"):
                    stranger.command("PING")
                threading.Event().wait(0.05)
        wait_until(lambda: closed_for(server, "auth_timeout") == 1, "the end")


def test_an_http_stranger_is_told_that_it_was_late_if_it_asked(tmp_path):
    with LockedServer(tmp_path, "--header-timeout", "300ms") as server:
        with connect(server.http_port) as silent, connect(server.http_port) as slow:
            slow.sendall(HTTP_REQUEST[:20])
            assert read_to_end(silent) == b""
            assert read_to_end(slow).startswith(b"HTTP/1.1 408 ")
        wait_until(lambda: closed_for(server, "auth_timeout") == 2, "the end of both")


def test_without_a_password_nobody_is_a_stranger():
    with WeirServer("--header-timeout", "100ms") as server:
        with connect(server.resp_port) as resp, connect(server.http_port) as http:
            with connect(server.resp_port) as slow:  # it came last, and its time is up
                slow.sendall(b"PI")
                assert read_to_end(slow) == b""
            resp.sendall(b"PING\r\n")
            assert resp.recv(100) == b"+PONG\r\n"
            http.sendall(HTTP_REQUEST)
            assert http.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_reset_makes_a_stranger_of_a_friend(tmp_path):
    with LockedServer(tmp_path, "--header-timeout", "200ms") as server, server.friend() as client:
        assert client.command("RESET") == "RESET"
        assert client.socket.recv(100) == b""
        wait_until(lambda: closed_for(server, "auth_timeout") == 1, "the end")


# ---- transactions ----


def test_a_transaction_without_exec_times_out():
    with WeirServer("--header-timeout", "50ms", "--threads", 1) as server:
        with server.client() as idle, server.client() as busy:
            assert idle.command("MULTI") == "OK"
            assert idle.command("ECHO", "x" * 60_000) == "QUEUED"
            assert busy.command("MULTI") == "OK"
            with pytest.raises(OSError):  # more commands gain no time
                while True:
                    assert busy.command("PING") == "QUEUED"
                    threading.Event().wait(0.02)
            assert idle.socket.recv(100) == b""
        wait_until(lambda: closed_for(server, "multi_timeout") == 2, "the end of both")
        assert buffers_bytes(server) == 0


def test_a_connection_that_is_never_out_of_a_transaction_goes_on():
    """As when many callers share a connection: each packet ends one transaction and begins the next."""
    with WeirServer("--header-timeout", "50ms", "--threads", 1) as server, server.client() as client:
        assert client.command("MULTI") == "OK"
        until = time.monotonic() + 1
        while time.monotonic() < until:
            answers = client.pipeline([("PING",), ("EXEC",), ("MULTI",)])
            assert answers == ["QUEUED", ["PONG"], "OK"]
            threading.Event().wait(0.02)
        assert closed_for(server, "multi_timeout") == 0
