"""Redis clients as people use them: each connects as it does by default, pipelines, comes back
after the server was restarted, fails AUTH, and gets exact decisions on the test clock."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from weirserver import WeirServer

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(__file__).parent / "clients"
DEADLINE_S = 20
NS_PER_S = 1_000_000_000

NAMES = "verdict", "capacity", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns"


class ClientError(Exception):
    """What a client says when it is refused or not answered."""


class ProgramClient:
    """A client in another language: a program that reads and writes a line of JSON per request."""

    def __init__(self, *command):
        environment = {**os.environ, "NODE_PATH": str(ROOT / "build/node/node_modules")}
        self.program = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def _ask(self, **request):
        self.program.stdin.write(json.dumps(request) + "\n")
        self.program.stdin.flush()
        answer = json.loads(self.program.stdout.readline())
        if answer.get("error"):
            raise ClientError(answer["error"])
        return answer["value"]

    def connect(self, port, password=None):
        self._ask(do="connect", port=port, **({"password": password} if password else {}))

    def command(self, *words):
        return self._ask(do="command", arguments=words)

    def pipeline(self, commands):
        return self._ask(do="pipeline", commands=commands)

    def transaction(self, commands):
        return self._ask(do="transaction", commands=commands)

    def close(self):
        self.program.stdin.close()
        self.program.stdout.close()
        try:
            self.program.wait(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.program.kill()
            self.program.wait()


class RedisPy:
    client = None

    def connect(self, port, password=None):
        again = Retry(NoBackoff(), 3)  # as by default, without waiting
        self.client = redis.Redis(port=port, password=password, decode_responses=True, retry=again)
        self.command("PING")

    def command(self, *words):
        try:
            return self.client.execute_command(*words)
        except redis.RedisError as error:
            raise ClientError(str(error)) from error

    def pipeline(self, commands):
        return self._execute(self.client.pipeline(transaction=False), commands)

    def transaction(self, commands):
        return self._execute(self.client.pipeline(), commands)  # transaction=True by default

    def _execute(self, pipe, commands):
        for words in commands:
            pipe.execute_command(*words)
        try:
            return pipe.execute()
        except redis.RedisError as error:
            raise ClientError(str(error)) from error

    def close(self):
        if self.client is not None:
            self.client.close()


def node(library):
    return ProgramClient("node", str(CLIENTS / "node/client.js"), library)


def go_redis():
    return ProgramClient(str(ROOT / "build/go/client"))


# The last column: whether the client speaks RESP3 by default (node-redis 5 does where it is asked).
LIBRARIES = {
    "redis-py": (RedisPy, True),
    "node-redis": (lambda: node("redis"), False),
    "node-redis-resp3": (lambda: node("redis-resp3"), True),
    "ioredis": (lambda: node("ioredis"), False),
    "go-redis": (go_redis, True),
}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param


@pytest.fixture
def client(library, request):
    """It goes before its server, which would wait a second for it."""
    if "server" in request.fixturenames:
        request.getfixturevalue("server")
    opened = LIBRARIES[library][0]()
    yield opened
    opened.close()


@pytest.fixture
def server():
    with WeirServer("--test-clock") as started:
        yield started


def decision(reply):
    """An array (RESP2) or a map (RESP3) as a tuple in the order of NAMES."""
    return tuple(reply[name] for name in NAMES) if isinstance(reply, dict) else tuple(reply)


def ask_until_answered(ask):
    """A client that is connecting again may fail a few times first."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return ask()
        except ClientError:
            if time.monotonic() > deadline:
                raise


def test_connects_as_it_does_by_default(library, client, server):
    client.connect(server.resp_port)
    assert client.command("ECHO", "hello") == "hello"
    reply = client.command("WEIR.TAKE", "alice", "10/s")
    assert isinstance(reply, dict) == LIBRARIES[library][1]
    assert decision(reply) == (0, 10, 9, -1, 100_000_000, 0)


def test_gets_exact_decisions(client, server):
    client.connect(server.resp_port)
    take = ["WEIR.TAKE", "alice", "5/10s", "COST", "2.5"]
    assert decision(client.command(*take)) == (0, 5, 2, -1, 5 * NS_PER_S, 0)
    assert decision(client.command(*take)) == (0, 5, 0, -1, 10 * NS_PER_S, 0)
    assert decision(client.command(*take)) == (1, 5, 0, 5 * NS_PER_S, 10 * NS_PER_S, 0)
    client.command("WEIR.CLOCK", "SET", str(5 * NS_PER_S - 1))
    assert decision(client.command(*take)) == (1, 5, 2, 1, 5 * NS_PER_S + 1, 0)
    client.command("WEIR.CLOCK", "ADVANCE", "1")
    assert decision(client.command(*take)) == (0, 5, 0, -1, 10 * NS_PER_S, 0)
    never = client.command("WEIR.TAKE", "alice", "5/10s", "COST", "6")
    assert decision(never) == (2, 5, 0, -1, 10 * NS_PER_S, 0)


def together(reply):
    """Six values, the binding limit, and three values of each limit."""
    if isinstance(reply, dict):
        limits = [tuple(limit[name] for name in ("capacity", "remaining", "reset_after_ns"))
                  for limit in reply["limits"]]
        return decision(reply), reply["binding"], limits
    return tuple(reply[:6]), reply[6], [tuple(limit) for limit in reply[7:]]


def test_takes_under_several_limits(library, client, server):
    client.connect(server.resp_port)
    take = ["WEIR.TAKEALL", "2", "user:a", "2/s", "all", "3/min", "COST", "2"]
    reply = client.command(*take)
    assert isinstance(reply, dict) == LIBRARIES[library][1]
    whole = (0, 2, 0, -1, NS_PER_S, 0)
    assert together(reply) == (whole, -1, [(2, 0, NS_PER_S), (3, 1, 40 * NS_PER_S)])
    take[2] = "user:b"
    whole = (1, 3, 1, 20 * NS_PER_S, 40 * NS_PER_S, 0)
    refused = (whole, 1, [(2, 2, 0), (3, 1, 40 * NS_PER_S)])
    assert together(client.command(*take)) == refused
    assert [together(reply) for reply in client.pipeline([take] * 3)] == [refused] * 3
    assert [together(reply) for reply in client.transaction([take] * 3)] == [refused] * 3
    reply = client.command("WEIR.TAKE", "user:b", "2/s, 3/min")
    assert together(reply)[1:] == (-1, [(2, 1, NS_PER_S // 2), (3, 2, 20 * NS_PER_S)])
    with pytest.raises(ClientError, match="the same bucket twice"):
        client.command("WEIR.TAKE", "user:b", "2/s, 120/min capacity=2")


def test_throttles(client, server):
    client.connect(server.resp_port)
    throttle = ["CL.THROTTLE", "alice", "4", "5", "10"]
    replies = [client.command(*throttle) for _ in range(6)]
    assert replies[0] == [0, 5, 4, -1, 2]
    assert replies[4] == [0, 5, 0, -1, 10]
    assert replies[5] == [1, 5, 0, 2, 10]
    client.command("WEIR.CLOCK", "SET", str(2 * NS_PER_S))
    assert client.command("CL.PROBE", *throttle[1:]) == [0, 5, 0, -1, 10]
    assert client.command(*throttle) == [0, 5, 0, -1, 10]
    assert client.command("CL.PROBE", *throttle[1:]) == [1, 5, 0, 2, 10]
    assert client.command("GCRA", "alice", "4", "5", "10.0") == [1, 5, 0, 2, 10]
    assert client.command("GCRA", "bob", "4", "5", "2.5", "TOKENS", "2") == [0, 5, 3, -1, 1]


@pytest.mark.parametrize("how", ["pipeline", "transaction"])
def test_pipelines_a_hundred(client, server, how):
    client.connect(server.resp_port)
    replies = getattr(client, how)([["WEIR.TAKE", "alice", "60/min"]] * 100)
    allowed = [(0, 60, 59 - i, -1, (i + 1) * NS_PER_S, 0) for i in range(60)]
    refused = [(1, 60, 0, NS_PER_S, 60 * NS_PER_S, 0)] * 40
    assert [decision(reply) for reply in replies] == allowed + refused


def test_a_spoilt_transaction_charges_nothing(client, server):
    client.connect(server.resp_port)
    with pytest.raises(ClientError):
        client.transaction([["WEIR.TAKE", "alice", "60/min"], ["NOPE"]])
    assert decision(client.command("WEIR.TAKE", "alice", "60/min")) == (0, 60, 59, -1, NS_PER_S, 0)


def test_redis_py_watches(server):
    """Its helper for optimistic transactions: WATCH, MULTI .. EXEC. Nothing is ever changed behind them."""
    client = redis.Redis(port=server.resp_port, decode_responses=True)
    take = "WEIR.TAKE", "alice", "10/s"
    first, show = client.transaction(
        lambda pipe: (pipe.multi(), pipe.execute_command(*take), pipe.exists("alice")), "alice"
    )
    assert decision(first) == (0, 10, 9, -1, 100_000_000, 0) and show == 0


def test_comes_back_after_a_restart(client, server):
    client.connect(server.resp_port)
    assert decision(client.command("WEIR.TAKE", "alice", "1/s"))[0] == 0
    assert decision(client.command("WEIR.TAKE", "alice", "1/s"))[0] == 1
    server.restart()
    reply = ask_until_answered(lambda: client.command("WEIR.TAKE", "alice", "1/s"))
    assert decision(reply) == (0, 1, 0, -1, NS_PER_S, 0)  # from memory: forgotten, so empty


def test_fails_auth(library, client, tmp_path):
    password_file = tmp_path / "password"
    password_file.write_text("correct horse\n")
    password_file.chmod(0o600)
    with WeirServer("--password-file", str(password_file)) as server:
        with pytest.raises(ClientError, match="WRONGPASS|invalid username-password"):
            client.connect(server.resp_port, "wrong")
        with pytest.raises(ClientError, match="NOAUTH|Authentication required|authenticated"):
            client.connect(server.resp_port)
            client.command("WEIR.TAKE", "alice", "10/s")
        client.connect(server.resp_port, "correct horse")
        assert decision(client.command("WEIR.TAKE", "alice", "10/s"))[0] == 0
        client.close()


# ---- redis-cli and redis-benchmark: the programs that come with Redis ----


def run_redis_cli(server, *words, **options):
    program = shutil.which("redis-cli")
    return subprocess.run(
        [program, "-p", str(server.resp_port), *words],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False, **options,
    )


def test_redis_cli_gets_exact_decisions(server):
    take = "WEIR.TAKE", "alice", "1/s"
    assert run_redis_cli(server, *take).stdout == "0\n1\n0\n-1\n1000000000\n0\n"
    assert run_redis_cli(server, *take).stdout == "1\n1\n0\n1000000000\n1000000000\n0\n"
    run_redis_cli(server, "WEIR.CLOCK", "SET", "999999999")
    assert run_redis_cli(server, *take).stdout == "1\n1\n0\n1\n1\n0\n"
    assert run_redis_cli(server, "CL.THROTTLE", "bob", "0", "1", "60").stdout == "0\n1\n0\n-1\n60\n"
    assert run_redis_cli(server, "CL.THROTTLE", "bob", "0", "1", "60").stdout == "1\n1\n0\n60\n60\n"


def test_redis_cli_speaks_resp3_when_asked(server):
    shown = run_redis_cli(server, "-3", "--no-raw", "WEIR.TAKE", "alice", "1/s").stdout
    assert shown.splitlines()[0] == "1# verdict => (integer) 0"
    assert shown.splitlines()[4] == "5# reset_after_ns => (integer) 1000000000"


def test_redis_cli_pipes_a_hundred(server):
    one = "*3\r\n$9\r\nWEIR.TAKE\r\n$5\r\nalice\r\n$6\r\n60/min\r\n"
    piped = run_redis_cli(server, "--pipe", input=one * 100)
    assert "errors: 0, replies: 100" in piped.stdout
    assert run_redis_cli(server, "WEIR.SHOW", "alice", "60/min").stdout.splitlines()[6] == "60"


def test_redis_cli_comes_back_after_a_restart(server):
    with subprocess.Popen(
        ["stdbuf", "-oL", shutil.which("redis-cli"), "-p", str(server.resp_port)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as program:
        program.stdin.write("PING\n")
        program.stdin.flush()
        assert program.stdout.readline() == "PONG\n"
        server.restart()
        # It says of the first that the server closed the connection, and connects again.
        said, _ = program.communicate("ECHO again\nECHO again\n", timeout=DEADLINE_S)
        assert said.endswith("again\n")


def test_redis_cli_fails_auth(tmp_path):
    password_file = tmp_path / "password"
    password_file.write_text("secret\n")
    password_file.chmod(0o600)
    with WeirServer("--password-file", str(password_file)) as server:
        refused = run_redis_cli(server, "PING")
        assert refused.stdout.strip() == "NOAUTH Authentication required."
        refused = run_redis_cli(server, "-a", "wrong", "PING")
        assert "WRONGPASS invalid username-password pair" in refused.stdout + refused.stderr
        assert run_redis_cli(server, "--no-auth-warning", "-a", "secret", "PING").stdout == "PONG\n"


def run_redis_benchmark(server, *words):
    return subprocess.run(
        [shutil.which("redis-benchmark"), "-p", str(server.resp_port), "-e", "--csv", *words],
        capture_output=True, text=True, timeout=DEADLINE_S * 3, check=False,
    )


@pytest.mark.parametrize("options", [["-P", "100"], ["-P", "100", "-3"], ["-k", "0"]],
                         ids=["pipeline", "resp3", "reconnecting"])
def test_redis_benchmark_counts_exactly(server, options):
    ran = run_redis_benchmark(server, *options, "-n", "1000", "-c", "10",
                              "WEIR.FILL", "alice", "5000/h")
    assert ran.returncode == 0 and '"WEIR.FILL alice 5000/h"' in ran.stdout, ran
    assert "ERR" not in ran.stdout + ran.stderr
    assert run_redis_cli(server, "WEIR.SHOW", "alice", "5000/h").stdout.splitlines()[6] == "1000"


def test_redis_benchmark_is_allowed_and_refused(server):
    run_redis_benchmark(server, "-P", "100", "-n", "1000", "-c", "10", "CL.THROTTLE", "alice", "9", "10", "60")
    assert run_redis_cli(server, "CL.THROTTLE", "alice", "9", "10", "60").stdout == "1\n10\n0\n6\n60\n"


def test_redis_benchmark_fails_auth(tmp_path):
    password_file = tmp_path / "password"
    password_file.write_text("secret\n")
    password_file.chmod(0o600)
    with WeirServer("--password-file", str(password_file)) as server:
        command = "-n", "10", "-c", "1", "PING"
        refused = run_redis_benchmark(server, "-a", "wrong", *command)
        assert "WRONGPASS" in refused.stdout + refused.stderr or refused.returncode != 0
        assert run_redis_benchmark(server, "-a", "secret", *command).returncode == 0
