"""weir serve as an operator meets it: starting, refusing to start, listening, draining, ending."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
from terminal import Terminal
from weirserver import DEADLINE_S, RespClient, RespError, WeirServer, wait_until, weir_binary


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as reply:
        return reply.read().decode()


def refused_start(*arguments, environment=None):
    """Runs `weir serve` that must not start; returns (exit code, what it said)."""
    run = subprocess.run(
        [weir_binary(), "serve", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**os.environ, **(environment or {})},
    )
    return run.returncode, run.stderr


def ping(address):
    """One PING as a person types it."""
    with RespClient(address) as client:
        client.socket.sendall(b"PING\r\n")
        return client.read_reply()


@pytest.fixture
def password_file(tmp_path):
    path = tmp_path / "password"
    path.write_text("open-sesame\nsecond line\n")
    path.chmod(0o600)
    return path


# ---- starting ----


def test_it_serves_resp_and_http_and_ends_with_0():
    with WeirServer() as server:
        assert ping(("127.0.0.1", server.resp_port)) == "PONG"
        assert get(server.http_url + "/healthz")
        assert server.stop() == 0
    assert "forgotten at exit" in server.log
    assert "stopped" in server.log


def test_it_says_the_line_to_paste_into_another_terminal():
    with WeirServer() as server:
        line = f"{weir_binary()} take alice 10/s --server 127.0.0.1:{server.resp_port}"
        assert f'try="{line}"' in server.wait_for_log(" ready ")


def test_help_teaches():
    run = subprocess.run([weir_binary(), "serve", "--help"], capture_output=True, text=True)
    assert run.returncode == 0
    assert "--password-file" in run.stdout and "Examples:" in run.stdout


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["--frobnicate"], "unknown option '--frobnicate'"),
        (["--memory", "much"], "--memory 'much'"),
        (["--memory", "1"], "from 64K to 16T"),
        (["--resp", "off", "--http", "off"], "nothing to serve"),
    ],
)
def test_a_bad_option_is_2_and_named(arguments, named):
    code, said = refused_start(*arguments)
    assert code == 2
    assert named in said


@pytest.mark.parametrize("threads", [1, 2])
def test_a_busy_port_is_3_and_says_what_to_change(threads):
    with WeirServer("--threads", threads) as server:
        address = f"127.0.0.1:{server.http_port}"
        code, said = refused_start("--threads", "2", "--resp", "off", "--http", address)
        assert code == 3
        assert address in said and "--http" in said and "WEIR_HTTP" in said


def test_the_environment_names_addresses():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = refused_start(environment={"WEIR_RESP": busy, "WEIR_HTTP": "off"})
    assert code == 3
    assert busy in said


def test_it_restarts_on_the_same_port_after_traffic():
    with WeirServer("--resp", "off") as first:
        port = first.http_port
        idle = socket.create_connection(("127.0.0.1", port))
        get(first.http_url + "/healthz")
        first.stop()
        with WeirServer("--resp", "off", "--http", f"127.0.0.1:{port}") as second:
            assert get(second.http_url + "/healthz")
        idle.close()


def test_without_a_port_the_line_to_paste_has_the_unix_socket(tmp_path):
    path = tmp_path / "weir.sock"
    with WeirServer("--resp", f"unix:{path}") as server:
        assert f'take alice 10/s --server unix:{path}"' in server.wait_for_log(" ready ")


def test_it_listens_at_ipv6_where_there_is_any():
    arguments = ["--http", "[::1]:0", "--resp", "off"]
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        code, said = refused_start(*arguments)
        assert code == 3 and "[::1]" in said
        return
    with WeirServer(*arguments) as server:
        assert server.addresses["http"] == [f"[::1]:{server.http_port}"]
        assert get(f"http://[::1]:{server.http_port}/healthz")


def test_a_person_at_a_terminal_gets_a_banner():
    terminal = Terminal("serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0")
    terminal.read_until(b"Ctrl-C")
    terminal.process.send_signal(signal.SIGINT)
    said = terminal.read_all()
    assert terminal.process.returncode == 0
    assert "RESP" in said and "take alice 10/s --server 127.0.0.1:" in said
    assert "forgotten at exit" in said


def test_more_connections_than_files_are_fewer_and_said():
    with WeirServer("--max-connections", 16_000_000) as server:
        assert "ulimit" in server.wait_for_log("max_connections wanted=")
        assert server.metric("weir_connections_max") < 16_000_000


# ---- passwords ----


@pytest.mark.parametrize("address", ["0.0.0.0:0", ":0", "[::]:0"])
def test_beyond_this_machine_it_wants_a_password(address):
    code, said = refused_start("--http", address, "--resp", "off")
    assert code == 2
    assert "--password-file" in said


def test_with_a_password_it_listens_beyond_this_machine(password_file):
    with WeirServer("--http", "0.0.0.0:0", "--password-file", password_file) as server:
        assert get(server.http_url + "/healthz")


def test_the_password_is_said_nowhere(password_file):
    with WeirServer("--password-file", password_file, "--log-level", "debug") as server:
        said = get(server.http_url + "/metrics", Authorization="Bearer open-sesame")
        server.stop()
    assert "weir_build_info" in said
    assert "open-sesame" not in said + server.log


def test_a_password_that_all_can_read_is_warned_about(password_file):
    password_file.chmod(0o644)
    with WeirServer("--password-file", password_file) as server:
        assert "chmod" in server.wait_for_log("password_file")


@pytest.mark.parametrize("content", [None, b"", b"\n", b"x" * 1025])
def test_a_password_file_without_a_password_is_3(tmp_path, content):
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    code, said = refused_start("--resp", "127.0.0.1:0", "--password-file", str(path))
    assert code == 3
    assert str(path) in said


# ---- unix sockets ----


def test_a_unix_socket_is_for_its_owner_and_goes_with_the_server(tmp_path):
    path = tmp_path / "weir.sock"
    with WeirServer("--resp", f"unix:{path}", "--http", "off", "--threads", 2):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for _ in range(8):
            assert ping(str(path)) == "PONG"
    assert not path.exists()


def test_the_mode_of_a_unix_socket_is_a_choice(tmp_path):
    path = tmp_path / "weir.sock"
    with WeirServer("--resp", f"unix:{path}", "--unix-mode", "0666"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_a_socket_that_a_crash_left_is_replaced(tmp_path):
    path = tmp_path / "weir.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with WeirServer("--resp", f"unix:{path}"):
        assert ping(str(path)) == "PONG"


def test_a_socket_in_use_and_a_file_stay_as_they_are(tmp_path):
    path = tmp_path / "weir.sock"
    with WeirServer("--resp", f"unix:{path}"):
        code, said = refused_start("--resp", f"unix:{path}", "--http", "off")
        assert code == 3 and "in use" in said
        assert ping(str(path)) == "PONG"
    path.write_text("precious")
    code, said = refused_start("--resp", f"unix:{path}", "--http", "off")
    assert code == 3 and "no socket" in said
    assert path.read_text() == "precious"


# ---- the service manager ----


def notify_socket(path):
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(path)
    receiver.settimeout(DEADLINE_S)
    return receiver


@pytest.mark.parametrize("abstract", [False, True])
def test_it_tells_the_service_manager_when_it_is_ready_and_when_it_stops(tmp_path, abstract):
    path = f"\0weir-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with notify_socket(path) as receiver:
        named = path.replace("\0", "@")
        with WeirServer(environment={"NOTIFY_SOCKET": named}) as server:
            assert receiver.recv(4096).startswith(b"READY=1")
            server.signal(signal.SIGTERM)
            assert receiver.recv(4096) == b"STOPPING=1"
            assert server.wait() == 0


def activated(sockets, names):
    """A server that finds these sockets from fd 3 on, as a service manager hands them over."""
    script = (
        "import os, sys\n"
        f"for at, fd in enumerate({[one.fileno() for one in sockets]}):\n"
        "    os.dup2(fd, 100 + at)\n"
        f"for at in range({len(sockets)}):\n"
        "    os.dup2(100 + at, 3 + at)\n"
        f"os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='{len(sockets)}',"
        f" LISTEN_FDNAMES='{names}')\n"
        "os.execv(sys.argv[1], [sys.argv[1], 'serve'])\n"
    )
    server = WeirServer(pass_fds=[one.fileno() for one in sockets])
    server.command_line = lambda: [sys.executable, "-c", script, weir_binary()]
    return server


def test_it_takes_sockets_over():
    """The default addresses are not opened then, and the sockets go on listening afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as http, socket.create_server(
        ("127.0.0.1", 0)
    ) as resp:
        with activated([http, resp], "http:resp") as server:
            assert server.http_port == http.getsockname()[1]
            assert ping(resp.getsockname()) == "PONG"
            assert get(server.http_url + "/healthz")
            server.stop()
        # Whoever comes now waits for the next server.
        socket.create_connection(http.getsockname()).close()


def test_what_does_not_listen_is_not_taken_over():
    with socket.socket() as silent, pytest.raises(RuntimeError, match="exited 3(.|\n)*fd 3"):
        activated([silent], "resp").start()


def test_sockets_of_another_process_are_left_alone():
    with WeirServer(environment={"LISTEN_PID": "1", "LISTEN_FDS": "2"}) as server:
        assert get(server.http_url + "/healthz")


def test_a_reload_changes_nothing_and_says_so():
    with WeirServer() as server:
        server.signal(signal.SIGHUP)
        server.wait_for_log("reload")
        assert get(server.http_url + "/healthz")


# ---- the end ----


def test_idle_connections_do_not_hold_up_the_end():
    with WeirServer("--drain-timeout", "1h") as server:
        idle = [socket.create_connection(("127.0.0.1", server.http_port)) for _ in range(50)]
        idle += [socket.create_connection(("127.0.0.1", server.resp_port)) for _ in range(50)]
        ping(("127.0.0.1", server.resp_port))
        assert server.stop() == 0
        for one in idle:
            one.settimeout(DEADLINE_S)
            assert one.recv(1) == b""
            one.close()


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_everything_sent_before_the_end_is_answered(tmp_path, family):
    """Requests that lie in the socket when SIGTERM comes are answered, then the stream ends."""
    count = 5000
    address = "127.0.0.1:0" if family == "tcp" else f"unix:{tmp_path}/weir.sock"
    with WeirServer("--threads", 2, "--resp", address) as server:
        clients = [server.client() for _ in range(8)]
        for client in clients:
            client.socket.sendall(b"PING\r\n" * count)
        server.signal(signal.SIGTERM)
        for client in clients:
            assert client.reader.read() == b"+PONG\r\n" * count
            client.close()
        assert server.wait() == 0


def ping_and_end(path):
    """So many connections at one socket for all workers that they are still being dealt out when SIGTERM comes."""
    with WeirServer("--threads", 16, "--resp", f"unix:{path}") as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(100)]
        for client in clients:
            client.settimeout(DEADLINE_S)
            client.connect(str(path))
            client.sendall(b"PING\r\n")
        server.signal(signal.SIGTERM)
        for client in clients:
            assert client.recv(100) == b"+PONG\r\n"
            client.close()
        assert server.wait() == 0


@pytest.mark.once
def test_who_is_given_to_a_worker_that_leaves_is_answered(tmp_path):
    for i in range(100):  # seldom: some worker has left, and is given one more
        ping_and_end(tmp_path / f"{i}.sock")


def test_a_client_that_goes_on_sending_gets_whole_answers_and_an_end():
    with WeirServer("--threads", 2) as server:
        client = socket.create_connection(("127.0.0.1", server.resp_port))
        client.settimeout(DEADLINE_S)
        received, told = b"", False
        try:
            while True:
                client.sendall(b"PING\r\n" * 100)
                data = client.recv(1 << 16)
                received += data
                if not data:
                    break
                if len(received) > 100_000 and not told:
                    server.signal(signal.SIGTERM)
                    told = True
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert received.count(b"+PONG\r\n") * 7 == len(received)
        assert server.wait() == 0


def never_reading_client(server):
    """Asks for far more than sockets hold, and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.http_port))
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    client.setblocking(False)
    try:
        for _ in range(20):
            client.sendall(request * 100)
    except BlockingIOError:
        pass
    wait_until(lambda: buffers_bytes(server) > 0, "answers that wait")
    return client


def buffers_bytes(server):
    return server.metric("weir_buffers_bytes")


def test_the_end_waits_for_a_client_only_so_long():
    with WeirServer("--drain-timeout", "100ms", "--threads", 1) as server:
        client = never_reading_client(server)
        assert server.stop() == 0
        client.close()


def read_slowly_but_all(client):
    client.setblocking(True)
    client.settimeout(DEADLINE_S)
    received = bytearray()
    while data := client.recv(100_000):
        received += data
    return received


def test_a_client_that_is_slow_gets_what_it_is_owed_before_the_end():
    with WeirServer("--drain-timeout", "1h", "--threads", 1) as server:
        client = never_reading_client(server)
        server.signal(signal.SIGTERM)
        server.wait_for_log("draining")
        received = read_slowly_but_all(client)
        client.close()
        assert server.wait() == 0
    assert received.startswith(b"HTTP/1.1 200") and received.endswith(b"\n")
    assert received.count(b"HTTP/1.1 200") == received.count(b"\nprocess_start_time_seconds ")


def test_the_last_answer_of_a_full_connection_arrives():
    """The engine wants to close while earlier answers still wait for room in the socket."""
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
    stream = (request + b"\r\n") * 3000 + request + b"Connection: close\r\n\r\n"
    with WeirServer("--threads", 1) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.http_port))
        sender = threading.Thread(target=client.sendall, args=(stream,))
        sender.start()
        wait_until(lambda: buffers_bytes(server) > 0, "answers that wait")
        received = read_slowly_but_all(client)
        sender.join()
    assert received.count(b"\nprocess_start_time_seconds ") == 3001


def test_a_second_signal_ends_at_once():
    with WeirServer("--drain-timeout", "1h", "--write-timeout", "1h", "--threads", 1) as server:
        client = never_reading_client(server)
        server.signal(signal.SIGTERM)
        server.wait_for_log("draining")
        server.signal(signal.SIGINT)
        assert server.wait() == 3
        client.close()


# ---- what it says ----


def test_every_line_of_the_json_log_is_json(password_file):
    password_file.chmod(0o644)
    with WeirServer(
        "--log", "json", "--log-level", "debug", "--password-file", password_file
    ) as server:
        server.signal(signal.SIGHUP)
        server.wait_for_log("reload")
        server.stop()
    events = [json.loads(line) for line in server.lines]
    names = [event["event"] for event in events]
    assert names[-1] == "stopped" and {"listening", "store", "ready", "reload"} <= set(names)
    for event in events:
        assert event["level"] in ("debug", "info", "warn", "error")
        time.strptime(event["time"][:19], "%Y-%m-%dT%H:%M:%S")


def listens(path):
    """A socket is in its folder a moment before it listens."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def test_without_standard_error_the_log_goes_nowhere_else(tmp_path):
    path = tmp_path / "weir.sock"
    script = "import os, sys; os.closerange(0, 3); os.execv(sys.argv[1], sys.argv[1:])"
    server = subprocess.Popen(
        [sys.executable, "-c", script, weir_binary(), "serve", "--log-level", "debug"]
        + ["--resp", f"unix:{path}", "--http", "off"]
    )
    try:
        wait_until(lambda: listens(path), "the socket")
        with RespClient(str(path)) as client:
            client.socket.sendall(b"PING\r\n")
            assert client.read_reply() == "PONG"
            server.send_signal(signal.SIGHUP)  # says a line
            client.socket.sendall(b"PING\r\n")
            assert client.read_reply() == "PONG"
            assert os.readlink(f"/proc/{server.pid}/fd/2") == "/dev/null"
    finally:
        server.terminate()
        assert server.wait(DEADLINE_S) == 0


def test_quiet_says_nothing_when_all_is_well(tmp_path):
    path = tmp_path / "weir.sock"
    server = WeirServer("--quiet", "--resp", f"unix:{path}").spawn()
    try:
        wait_until(path.exists, "the socket")
    finally:
        assert server.stop() == 0
    assert server.log == ""


def test_metrics_pass_promtool():
    with WeirServer("--threads", 2) as server:
        ping(("127.0.0.1", server.resp_port))
        said = get(server.http_url + "/metrics")
    try:
        lint = subprocess.run(
            ["promtool", "check", "metrics"], input=said, capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("promtool is not installed")
    assert (lint.returncode, lint.stdout + lint.stderr) == (0, "")


def test_metrics_count_what_happened():
    with WeirServer("--threads", 2) as server:
        held = [socket.create_connection(("127.0.0.1", server.resp_port)) for _ in range(3)]
        wait_until(
            lambda: server.metric("weir_connections", protocol="resp") == 3, "three connections"
        )
        for one in held:
            one.close()
        wait_until(
            lambda: server.metric("weir_connections_closed_total", reason="client") >= 3, "closes"
        )
        assert server.metric("weir_connections_accepted_total", protocol="resp") == 3
        assert server.metric("weir_table_memory_bytes") <= 256 << 20
        assert server.metric("process_open_fds") > 5
        assert server.metric("weir_turn_duration_seconds_count") > 0


def test_info_is_what_redis_clients_expect(password_file):
    with WeirServer("--redis-version", "6.2.0", "--password-file", password_file) as server:
        server.command("AUTH", "open-sesame")
        everything = server.command("INFO")
        clients = server.command("INFO", "clients")
    assert "open-sesame" not in everything + server.log
    fields = dict(line.split(":", 1) for line in everything.split("\r\n") if ":" in line)
    assert everything.startswith("# Server\r\n")
    assert fields["redis_version"] == "6.2.0"
    assert fields["loading"] == "0" and fields["role"] == "master"
    assert int(fields["connected_clients"]) == 1 and int(fields["uptime_in_seconds"]) >= 0
    assert int(fields["used_memory"]) > 0 and "weir_version" in fields
    assert clients.startswith("# Clients\r\n") and "redis_version" not in clients


# ---- the test clock ----


def test_the_test_clock_stands_still_for_all_workers_until_it_is_moved():
    with WeirServer("--test-clock", "--threads", 4) as server:
        clients = [server.client() for _ in range(8)]
        assert [client.command("WEIR.CLOCK") for client in clients] == [0] * 8
        assert clients[0].command("WEIR.TAKE", "alice", "1/s")[0] == 0
        assert clients[1].command("WEIR.TAKE", "alice", "1/s")[3] == 1_000_000_000
        clients[2].command("WEIR.CLOCK", "ADVANCE", 999_999_999)
        assert [client.command("WEIR.TAKE", "alice", "1/s")[3] for client in clients] == [1] * 8
        clients[3].command("WEIR.CLOCK", "SET", 1_000_000_000)
        assert clients[4].command("WEIR.TAKE", "alice", "1/s")[0] == 0
        with pytest.raises(RespError):
            clients[5].command("WEIR.CLOCK", "SET", 999_999_999)
        assert clients[6].command("WEIR.CLOCK") == 1_000_000_000
        for client in clients:
            client.close()


def test_timeouts_of_connections_follow_the_real_clock():
    with WeirServer("--test-clock", "--header-timeout", "200ms") as server:
        with socket.create_connection(("127.0.0.1", server.resp_port)) as client:
            client.settimeout(DEADLINE_S)
            client.sendall(b"PI")
            assert client.recv(100) == b""


def test_without_the_option_there_is_no_such_command():
    with WeirServer() as server, pytest.raises(RespError, match="unknown command"):
        server.command("WEIR.CLOCK")


# ---- one store for all workers ----


def test_concurrent_pipelines_share_one_bucket_exactly():
    with WeirServer("--threads", 4, "--test-clock") as server:
        clients = [server.client() for _ in range(8)]
        for client in clients:
            client.socket.sendall(client.encode("WEIR.TAKE", "shared", "100/h") * 50)
        replies = [client.read_reply() for client in clients for _ in range(50)]
        for client in clients:
            client.close()
    assert sorted(reply[0] for reply in replies) == [0] * 100 + [1] * 300


def test_all_connections_share_the_buckets():
    with WeirServer("--threads", 4, "--test-clock") as server:
        verdicts = []
        for _ in range(24):  # each over a connection, and so perhaps a worker, of its own
            verdicts.append(server.post("take", key="shared", limit="8/h").status)
    assert verdicts == [200] * 8 + [429] * 16
