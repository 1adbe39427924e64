"""The web application of examples/web-app: ten calls per ten seconds and client address."""

import http.client
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis
from weirserver import WeirServer

APP = Path(__file__).resolve().parents[2] / "examples/web-app/app.py"
NS_PER_S = 1_000_000_000

sys.path.insert(0, str(APP.parent))
import app as web_app  # noqa: E402


@pytest.fixture
def server():
    with WeirServer("--test-clock") as started:
        yield started


@pytest.fixture
def clock(server):
    with redis.Redis(port=server.resp_port) as connection:
        yield lambda ns: connection.execute_command("WEIR.CLOCK", "SET", ns)


@pytest.fixture
def get(server):
    program = subprocess.Popen(
        [sys.executable, str(APP), "--port", "0", "--weir", f"127.0.0.1:{server.resp_port}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    port = int(program.stdout.readline().rstrip("/\n").rpartition(":")[2])

    def get_page():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/")
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.getheaders()), body

    yield get_page
    program.terminate()
    program.wait()
    program.stdout.close()


def test_ten_pass_and_the_eleventh_learns_the_time_of_the_next_drip(get, clock):
    for _ in range(10):
        status, _, body = get()
        assert (status, body) == (200, "Hello world")
    clock(220_000_000)
    status, headers, body = get()
    assert (status, body) == (429, "Rate limited")
    assert headers["Content-Type"] == "text/plain"
    assert headers["X-Rate-Limited-For"] == "0.78"
    assert headers["Retry-After"] == "1"
    clock(NS_PER_S - 1)
    assert get()[0] == 429
    clock(NS_PER_S)
    assert get()[0] == 200
    assert get()[1]["X-Rate-Limited-For"] == "1"


def count_commands(server):
    with redis.Redis(port=server.resp_port) as connection:
        return connection.info("stats")["total_commands_processed"]


def test_one_round_trip_per_request_and_none_to_set_a_limiter_up(server):
    price_of_looking = -count_commands(server) + count_commands(server)

    def count_of(action):
        before = count_commands(server)
        action()
        return count_commands(server) - before - price_of_looking

    limiters = []

    def set_up():
        for _ in range(100):
            weir = web_app.Weir("127.0.0.1", server.resp_port)
            limiters.append(web_app.RateLimit(web_app.hello, weir))

    assert count_of(set_up) == 0

    def serve(times):
        for i in range(times):
            limiters[0]({"REMOTE_ADDR": f"2001:db8::{i % 7}"}, lambda status, headers: None)

    assert count_of(lambda: serve(1)) == 1
    assert count_of(lambda: serve(20)) == 20


def test_addresses_do_not_share_a_bucket(server):
    limited = web_app.RateLimit(web_app.hello, web_app.Weir("127.0.0.1", server.resp_port))
    said = []

    def ask(address):
        limited({"REMOTE_ADDR": address}, lambda status, headers: said.append(status[:3]))

    for _ in range(11):
        ask("2001:db8::1")
    ask("2001:db8::2")
    assert said == ["200"] * 10 + ["429", "200"]


def test_comes_back_after_weir_was_restarted(server):
    weir = web_app.Weir("127.0.0.1", server.resp_port)
    assert weir.take("alice", "1/s") == (0, -1)
    assert weir.take("alice", "1/s") == (1, NS_PER_S)
    server.restart()
    assert weir.take("alice", "1/s") == (0, -1)


ALLOWED = b"*6\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1000000000\r\n:0\r\n"


@pytest.fixture
def script():
    """A stand-in for weir: plays one list of answers per connection, then closes that connection.
    None: no answer, and the connection stays open until the test is over."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    questions = []

    def play(connections):
        for answers in connections:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # the test is over
            with connection:
                for answer in answers:
                    question = connection.recv(4096)
                    questions.append(question)
                    if answer is None:
                        over.wait(60)
                        return
                    connection.sendall(answer)

    threads = []

    def start(*connections):
        threads.append(threading.Thread(target=play, args=(connections,), daemon=True))
        threads[0].start()
        return web_app.Weir(*listener.getsockname(), timeout_s=0.2), questions

    yield start
    over.set()
    listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept
    threads[0].join(60)
    listener.close()


def test_asks_again_where_the_connection_ended_before_the_answer(script):
    weir, questions = script([ALLOWED, b""], [ALLOWED])
    assert weir.take("alice", "1/s") == (0, -1)
    assert weir.take("alice", "1/s") == (0, -1)
    assert len(questions) == 3


def test_never_asks_a_slow_weir_twice(script):
    weir, questions = script([ALLOWED, None], [ALLOWED])
    assert weir.take("alice", "1/s") == (0, -1)
    with pytest.raises(TimeoutError):
        weir.take("alice", "1/s")
    assert len(questions) == 2  # it may have charged the second
    assert weir.stream is None  # a late answer is nobody's


@pytest.mark.parametrize("answer", [b"*", b"*6\r\n:0\r\n", b"-ERR no\r\n"])
def test_does_not_ask_again_once_an_answer_has_begun(script, answer):
    weir, questions = script([ALLOWED, answer], [ALLOWED])
    assert weir.take("alice", "1/s") == (0, -1)
    with pytest.raises(OSError):
        weir.take("alice", "1/s")
    assert len(questions) == 2


def test_does_not_ask_again_on_a_new_connection(script):
    weir, questions = script([b""], [ALLOWED])
    with pytest.raises(ConnectionError):
        weir.take("alice", "1/s")
    assert len(questions) == 1


def test_lets_everybody_in_where_weir_is_not_there(server, capsys):
    limited = web_app.RateLimit(web_app.hello, web_app.Weir("127.0.0.1", server.resp_port))
    server.stop()
    said = []
    environ = {"REMOTE_ADDR": "127.0.0.1", "wsgi.errors": sys.stderr}
    assert limited(environ, lambda status, headers: said.append(status)) == [b"Hello world"]
    assert said == ["200 OK"]
    assert "weir cannot be asked" in capsys.readouterr().err
