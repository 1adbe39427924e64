"""What weir answers to the common commands is, byte for byte, what redis-server 7 answers: clients look
at these texts. Where weir differs on purpose, a table says so and how; a difference that is in no
table, and one that has gone, both fail."""

import shutil
import socket
import subprocess

import pytest
from weirserver import RespClient, WeirServer, wait_until

PASSWORD = "correct horse"
SENTINEL = b"$8\r\nsentinel\r\n"

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="redis-server is not installed"
)


def encode(*words):
    return RespClient.encode(*words)


def commands(text):
    """Each line of the text is a command of words, sent as an array."""
    return b"".join(encode(*line.split()) for line in text.strip().splitlines())


class Peer:
    """A server that is asked with raw bytes."""

    def __init__(self, connect):
        self.connect = connect

    def ask(self, request, password=None):
        """All bytes of the answer, on a connection of its own; b"<closed>" where that ended."""
        with self.connect() as connection:
            connection.settimeout(20)
            if password is not None:
                request += encode("AUTH", password)
            connection.sendall(request + encode("ECHO", "sentinel"))
            answer = b""
            while not answer.endswith(SENTINEL):
                try:
                    part = connection.recv(65536)
                except ConnectionResetError:
                    part = b""
                if not part:
                    return answer + b"<closed>"
                answer += part
            return answer[: -len(SENTINEL)]


def start_redis(folder, *options):
    path = folder / "redis.sock"
    process = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly",
         "no", "--dir", str(folder), *options],
        stdout=subprocess.DEVNULL,
    )

    def connect():
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        return connection

    def is_ready():
        try:
            connect().close()
        except OSError:
            return False
        return True

    try:
        wait_until(is_ready, "redis-server")
    except TimeoutError:
        process.kill()
        raise
    return process, Peer(connect)


def weir_peer(server):
    return Peer(lambda: socket.create_connection(("127.0.0.1", server.resp_port)))


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    """(redis, weir), without a password."""
    process, redis = start_redis(tmp_path_factory.mktemp("redis"))
    with WeirServer() as server:
        yield redis, weir_peer(server)
    process.terminate()
    process.wait(20)


@pytest.fixture(scope="module")
def locked_peers(tmp_path_factory):
    """(redis, weir), with the same password."""
    folder = tmp_path_factory.mktemp("locked")
    password_file = folder / "password"
    password_file.write_text(PASSWORD + "\n")
    password_file.chmod(0o600)
    process, redis = start_redis(folder, "--requirepass", PASSWORD)
    with WeirServer("--password-file", str(password_file)) as server:
        yield redis, weir_peer(server)
    process.terminate()
    process.wait(20)


SAME = """
PING
ping
PiNg
PING hello
PING a b
ECHO hello
ECHO
ECHO a b
SELECT 0
SELECT 15
SELECT 16
SELECT -1
SELECT x
SELECT
NOPE
nope a
NOPE a b c
GETT k
HELLO 4
HELLO 1
HELLO x
HELLO 3 NOPE
HELLO 3 AUTH
HELLO 3 AUTH default
HELLO 3 SETNAME
HELLO 2 AUTH nobody x
AUTH x
AUTH
AUTH a b c
AUTH nobody x
AUTH default x
CLIENT
CLIENT NOPE
CLIENT GETNAME
CLIENT GETNAME x
CLIENT SETNAME me
CLIENT SETNAME
CLIENT ID x
CLIENT NO-EVICT on
CLIENT REPLY on
CLIENT TRACKING off
CONFIG
CONFIG NOPE
CONFIG GET
CONFIG GET save
CONFIG GET appendonly
CONFIG GET SAVE
CONFIG GET no-such-thing
COMMAND NOPE
COMMAND GETKEYS
COMMAND GETKEYS GET k
COMMAND GETKEYS DEL a b c
COMMAND GETKEYS PING
COMMAND GETKEYS NOPE k
COMMAND INFO no-such-command
GET k
GET
TYPE k
TYPE
TTL k
PTTL k
TTL
EXISTS k
EXISTS a b c
EXISTS
DEL k
DEL
UNLINK a b
SCAN 0
SCAN x
SCAN
KEYS *
KEYS
DBSIZE
DBSIZE x
TIME x
QUIT
RESET
RESET x
CLUSTER INFO
CLUSTER SLOTS
CLUSTER NODES
LATENCY LATEST
LATENCY HISTORY x
LATENCY RESET
LATENCY NOPE
SLOWLOG GET
SLOWLOG LEN
SLOWLOG RESET
SLOWLOG NOPE
MEMORY USAGE k
MEMORY NOPE
ACL WHOAMI
ACL NOPE
EXEC
EXEC x
DISCARD
DISCARD x
MULTI x
WATCH k
WATCH a b
WATCH
UNWATCH
UNWATCH x
COMMAND GETKEYS WATCH a b
"""

TRANSACTIONS = [
    "MULTI; EXEC",
    "MULTI; DISCARD",
    "MULTI; PING; ECHO a; EXEC; PING",
    "MULTI; PING; DISCARD; EXEC",
    "MULTI; EXEC; EXEC",
    "MULTI; EXEC x; EXEC",
    "MULTI; PING; DISCARD x; EXEC",
    "MULTI x; PING",
    "MULTI; MULTI; PING; EXEC",
    "MULTI; MULTI x; PING; EXEC",
    "MULTI; WATCH k; PING; EXEC",
    "MULTI; WATCH; PING; EXEC",
    "WATCH k; MULTI; GET k; EXEC",
    "MULTI; UNWATCH; EXEC",
    "MULTI; NOPE a; PING; EXEC; EXEC",
    "MULTI; NOPE; DISCARD; EXEC",
    "MULTI; NOPE; MULTI; EXEC",
    "MULTI; GET; EXEC",
    "MULTI; PING a b; PING a; EXEC",
    "MULTI; SELECT 99; SELECT 1; EXEC",
    "MULTI; SCAN x; GET k; TTL k; EXEC",
    "MULTI; CLIENT SETNAME me; CLIENT GETNAME; EXEC; CLIENT GETNAME",
    "MULTI; CLIENT SETNAME me; DISCARD; CLIENT GETNAME",
    "MULTI; CLIENT; EXEC",
    "MULTI; CLIENT NOPE; EXEC",
    "MULTI; CLIENT GETNAME x; EXEC",
    "MULTI; CONFIG NOPE; EXEC",
    "MULTI; CONFIG GET save; EXEC",
    "MULTI; COMMAND NOPE; EXEC",
    "MULTI; COMMAND GETKEYS GET k; EXEC",
    "MULTI; SLOWLOG NOPE; EXEC",
    "MULTI; LATENCY NOPE; EXEC",
    "MULTI; MEMORY NOPE; EXEC",
    "MULTI; ACL NOPE; EXEC",
    "MULTI; CLUSTER INFO; EXEC",
    "MULTI; AUTH x; EXEC",
    "MULTI; AUTH default x; PING; EXEC",
    "MULTI; AUTH nobody x; PING; EXEC",
    "MULTI; HELLO 4; HELLO x; EXEC",
    "MULTI; PING; QUIT; PING",
    "MULTI; QUIT x; PING",
    "MULTI; PING; RESET; EXEC",
    "MULTI; RESET x; EXEC",
]

SAME_BYTES = {
    "a pipeline": commands("PING\nECHO a\nNOPE\nPING b"),
    "a name and its reset": commands("CLIENT SETNAME me\nCLIENT GETNAME\nRESET\nCLIENT GETNAME"),
    "a name with a space": encode("CLIENT", "SETNAME", "a b"),
    "a name that is taken back": commands("CLIENT SETNAME me") + encode("CLIENT", "SETNAME", ""),
    "an empty name in GETNAME": encode("CLIENT", "SETNAME", "") + commands("CLIENT GETNAME"),
    "an empty message": encode("PING", ""),
    "an empty command": encode(""),
    "an unknown command with a line break": encode("a\r\nb", "c\nd"),
    "an unknown command, long": encode("x" * 300, "y" * 300, "z"),
    "an unknown command with many arguments": encode("NOPE", *["0123456789"] * 30),
    "an unknown subcommand, long": encode("CLIENT", "x" * 300),
    "quit, then more": commands("QUIT\nPING"),
    "an inline command": b"PING\r\n",
    "an inline command that ends with LF": b"PING\n",
    "inline arguments": b"  ECHO   hello  \r\n",
    "inline double quotes": b'ECHO "a b\\x41\\n\\t\\"\\\\"\r\n',
    "inline single quotes": b"ECHO 'a b\\n\\'c'\r\n",
    "inline, quotes within a word": b'ECHO a"b c"\r\n',
    "inline, empty quotes": b'ECHO ""\r\n',
    "inline, nothing": b"\r\n",
    "inline, spaces": b"   \r\n",
    "inline, unbalanced": b'ECHO "a\r\n',
    "inline, quotes that go on": b'ECHO "a"b\r\n',
    "an empty array": b"*0\r\n",
    "a null array": b"*-1\r\n",
    "a negative array": b"*-5\r\n",
    "a count with letters": b"*x\r\n",
    "a count without digits": b"*\r\n",
    "a count with a plus": b"*+1\r\n$4\r\nPING\r\n",
    "a count with a zero": b"*01\r\n$4\r\nPING\r\n",
    "a count with a space": b"* 1\r\n$4\r\nPING\r\n",
    "a count that is huge": b"*2147483648\r\n",
    "no bulk string": b"*1\r\n:4\r\n",
    "no bulk string, a letter": b"*1\r\nPING\r\n",
    "a length with letters": b"*1\r\n$x\r\n",
    "a length below zero": b"*1\r\n$-1\r\n",
    "a length with a zero": b"*1\r\n$04\r\nPING\r\n",
    "a length that is huge": b"*1\r\n$4294967296\r\n",
    "a good command, then a bad one": commands("PING") + b"*1\r\n$x\r\n",
    **{"a transaction: " + line: commands(line.replace("; ", "\n")) for line in TRANSACTIONS},
    "an inline transaction": b"MULTI\r\nECHO 'a b'\nPING\r\nEXEC\r\n",
    "a transaction, then a bad command": commands("MULTI\nPING") + b"*1\r\n$x\r\n",
    "a browser's POST": b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a browser's GET": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a browser's POST as an array": commands("POST / HTTP/1.1"),
}

# Where weir says something else, and why.
DIFFERENT = {
    "CLIENT SETINFO LIB-NAME x": (
        b"-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n", b"+OK\r\n",
        "Redis knows it since 7.2, and newer clients send it",
    ),
    "CONFIG SET save x": (
        b"-ERR CONFIG SET failed (possibly related to argument 'save')"
        b" - Invalid save parameters\r\n",
        b"-ERR CONFIG SET failed - 'save' is set when weir serve is started\r\n",
        "the options of `weir serve` are the configuration",
    ),
    "SET k v": (
        b"+OK\r\n", b"-ERR unknown command 'SET', with args beginning with: 'k' 'v' \r\n",
        "weir stores no keys",
    ),
    "CLIENT TRACKING on": (
        b"+OK\r\n",
        b"-ERR weir stores no keys to track: only CLIENT TRACKING OFF is supported\r\n",
        "there is nothing to track",
    ),
}
DIFFERENT_BYTES = {
    "a thousand and twenty-five arguments": (
        b"*1025\r\n", b"-ERR Protocol error: invalid multibulk length\r\n<closed>",
        "Redis allows a million",
    ),
    "a bulk string of more than 64 KiB": (
        b"*2\r\n$4\r\nECHO\r\n$65537\r\n", b"-ERR Protocol error: invalid bulk length\r\n<closed>",
        "Redis allows 512 MiB",
    ),
    "a bulk string that goes on": (
        b"*1\r\n$4\r\nPINGxxPING\r\n",
        b"-ERR Protocol error: expected CRLF after the bulk string\r\n<closed>",
        "Redis skips two bytes unseen",
    ),
    "a count that ends with LF": (
        b"*1\n$4\nPING\n", b"-ERR Protocol error: invalid multibulk length\r\n<closed>",
        "Redis waits for a CR",
    ),
    "an inline command of more than 64 KiB": (
        b"x" * 70000, b"-ERR Protocol error: too big inline request\r\n<closed>",
        "Redis says so too, but only if no line ends in what it has read",
    ),
}

LOCKED = {
    "PING": commands("PING"),
    "ECHO a": commands("ECHO a"),
    "GET k": commands("GET k"),
    "an unknown command": commands("NOPE a"),
    "a wrong number of arguments": commands("GET"),
    "HELLO": commands("HELLO"),
    "HELLO 3": commands("HELLO 3"),
    "HELLO 4": commands("HELLO 4"),
    "HELLO 3 AUTH default wrong": commands("HELLO 3 AUTH default wrong"),
    "HELLO 3 AUTH nobody": encode("HELLO", "3", "AUTH", "nobody", PASSWORD),
    "AUTH wrong": commands("AUTH wrong"),
    "AUTH nobody": encode("AUTH", "nobody", PASSWORD),
    "AUTH default": encode("AUTH", "default", PASSWORD),
    "AUTH, then PING": encode("AUTH", PASSWORD) + commands("PING"),
    "AUTH, then a wrong one": encode("AUTH", PASSWORD) + commands("AUTH wrong\nPING"),
    "AUTH, RESET, then PING": encode("AUTH", PASSWORD) + commands("RESET\nPING"),
    "AUTH with an empty password": encode("AUTH", ""),
    "MULTI": commands("MULTI"),
    "WATCH k": commands("WATCH k"),
    "AUTH wrong in a transaction": encode("AUTH", PASSWORD)
    + commands("MULTI\nAUTH wrong\nPING\nEXEC\nPING"),
    "RESET in a transaction": encode("AUTH", PASSWORD) + commands("MULTI\nPING\nRESET\nPING"),
    "QUIT": commands("QUIT"),
    "RESET": commands("RESET"),
    "eleven arguments": b"*11\r\n",
    "a bulk string of more than 16 KiB": b"*2\r\n$4\r\nAUTH\r\n$16385\r\n",
    "CLIENT SETNAME": commands("CLIENT SETNAME me"),
}


def said(answer):
    """An answer as a message shows it."""
    return answer[:2000].decode("latin-1").replace("\r\n", "\\r\\n")


@pytest.mark.parametrize("line", SAME.strip().splitlines())
@pytest.mark.parametrize("version", [2, 3])
def test_commands_are_answered_as_redis_does(peers, line, version):
    redis, weir = peers
    request = commands(line)
    if version == 3:
        # The answer to HELLO itself names the server: what counts is what follows it.
        request = commands("HELLO 3") + commands("ECHO begin") + request
    answers = [
        peer.ask(request).split(b"$5\r\nbegin\r\n")[-1] for peer in (redis, weir)
    ]
    assert said(answers[1]) == said(answers[0])


@pytest.mark.parametrize("name", SAME_BYTES)
def test_bytes_are_answered_as_redis_does(peers, name):
    redis, weir = peers
    assert said(weir.ask(SAME_BYTES[name])) == said(redis.ask(SAME_BYTES[name]))


@pytest.mark.parametrize("line", DIFFERENT)
def test_differs_on_purpose(peers, line):
    redis, weir = peers
    redis_answer, weir_answer, _ = DIFFERENT[line]
    assert said(redis.ask(commands(line))) == said(redis_answer)
    assert said(weir.ask(commands(line))) == said(weir_answer)


@pytest.mark.parametrize("name", DIFFERENT_BYTES)
def test_is_stricter_on_purpose(peers, name):
    _, weir = peers
    request, weir_answer, _ = DIFFERENT_BYTES[name]
    assert said(weir.ask(request)) == said(weir_answer)


@pytest.mark.parametrize("name", LOCKED)
def test_a_password_is_wanted_as_redis_does(locked_peers, name):
    redis, weir = locked_peers
    assert said(weir.ask(LOCKED[name], PASSWORD)) == said(redis.ask(LOCKED[name], PASSWORD))


def test_a_stranger_learns_no_subcommands(locked_peers):
    """Redis says which there are not; weir wants the password first."""
    redis, weir = locked_peers
    request = commands("CLIENT NOPE")
    assert redis.ask(request, PASSWORD).startswith(b"-ERR unknown subcommand 'NOPE'.")
    assert weir.ask(request, PASSWORD).startswith(b"-NOAUTH Authentication required.\r\n")


def test_a_stranger_has_no_transaction_to_discard(locked_peers):
    """Redis says that it has been; weir, that the password comes first."""
    redis, weir = locked_peers
    refused = b"NOAUTH Authentication required.\r\n"
    request = commands("MULTI\nEXEC")
    discarded = b"-EXECABORT Transaction discarded because of: "
    assert redis.ask(request, PASSWORD).startswith(b"-" + refused + discarded + refused)
    assert weir.ask(request, PASSWORD).startswith(b"-" + refused + b"-" + refused)


def fields_of(peer, request):
    """A HELLO, as a dict of its flat RESP2 array or its map."""
    answer = peer.ask(request)
    lines = answer.split(b"\r\n")
    assert lines[0] in (b"*14", b"%7"), said(answer)
    values = [line for line in lines[1:] if line and line[:1] != b"$"]
    return lines[0], dict(zip(values[::2], values[1::2]))


@pytest.mark.parametrize("line", ["HELLO", "HELLO 2", "HELLO 3", "HELLO 3 SETNAME me"])
def test_hello_has_the_fields_of_redis(peers, line):
    redis, weir = (fields_of(peer, commands(line)) for peer in peers)
    assert weir[0] == redis[0]
    assert list(weir[1]) == list(redis[1])
    own = {b"server", b"version", b"id"}
    assert {k: v for k, v in weir[1].items() if k not in own} == {
        k: v for k, v in redis[1].items() if k not in own
    }
