"""Clients that stand in line on the test clock, and no guess when they have been answered.

    with WaitingServer(threads=2) as server:
        a = server.join("alice", "1/s")                   # ... WAIT, over a connection of its own
        b = server.join("alice", "1/s", protocol="http")
        assert a.answer().verdict == 0
        assert b.answer() is None                         # it waits, for certain
        server.advance(10**9)
        assert b.answer().verdict == 0

The connections are unix sockets, which the server deals out to its workers in turn: so it is known
that they are spread. And what a worker has sent there can be read at once: so after each worker has
answered PINGs in a few turns of its own, all has arrived that it had to say."""

import json
import select
import shutil
import socket
import struct
import tempfile
from pathlib import Path

from line_model import Answer
from weirserver import DEADLINE_S, RespClient, WeirServer, encode_post

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# The turn of a PING may be the one before the answer. A store that answers later takes one turn more, and so does
# another worker, which is told by an eventfd.
SETTLING_PINGS = 4
SO_TIMESTAMPNS = 35  # of Linux; the socket module does not have it
VERDICTS = ["allowed", "limited", "never", "blocked", "error"]


class RespWaiter:
    """A connection that asks WEIR.TAKE ... WAIT."""

    def __init__(self, path):
        self.client = RespClient(path)
        self.socket = self.client.socket

    def ping(self):
        assert self.client.command("PING") == "PONG"

    def ask(self, key, limit, wait_ms, cost=1):
        self.client.send("WEIR.TAKE", key, limit, "COST", cost, "WAIT", wait_ms)

    def is_readable(self, within_s=0):
        poll = select.poll()  # select() knows only descriptors below 1024
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(1000 * within_s))

    def answer(self, within_s=0):
        """The answer, or None if there is none yet."""
        return decision(self.client.read_reply()) if self.is_readable(within_s) else None

    def close(self):
        self.client.close()


class HttpWaiter(RespWaiter):
    """A connection that asks POST /v1/take with wait_ms."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(path)
        self.reader = self.socket.makefile("rb")

    def ping(self):
        self.socket.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.read_body()

    def ask(self, key, limit, wait_ms, cost=1):
        question = {"key": key, "limit": limit, "cost": cost, "wait_ms": wait_ms}
        self.socket.sendall(encode_post("take", question))

    def read_body(self):
        status = int(self.reader.readline().split()[1])
        length = 0
        while line := self.reader.readline().strip():
            name, value = line.lower().split(b":", 1)
            length = int(value) if name == b"content-length" else length
        return status, self.reader.read(length)

    def answer(self, within_s=0):
        if not self.is_readable(within_s):
            return None
        status, body = self.read_body()
        said = json.loads(body)
        verdict = VERDICTS.index(said["verdict"])
        answer = Answer(verdict, *(said[name] for name in Answer._fields[1:]))
        assert (status == 200) == (answer.verdict == 0)
        return answer

    def close(self):
        self.reader.close()
        self.socket.close()


# The kernel begins to note times a moment after the first socket wants them (net_enable_timestamp), and packets until
# then have none. So one socket wants them all the time.
_WANTS_STAMPS = socket.socket()
_WANTS_STAMPS.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


class StampedWaiter(RespWaiter):
    """Over TCP, and the kernel notes when the answer came: however late this process reads it."""

    def __init__(self, port):
        super().__init__(("127.0.0.1", port))
        self.ping()
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def stamped_answer(self):
        """(the instant in seconds of time.time(), the answer). Waits for it."""
        text, stamps, _, _ = self.socket.recvmsg(1000, 100)
        assert text, "the server closed the connection"
        assert stamps, f"the kernel noted no time for {text!r}"
        seconds, ns = struct.unpack("qq", stamps[0][2])
        numbers = [int(line[1:]) for line in text.split(b"\r\n") if line.startswith(b":")]
        return seconds + ns / 1e9, decision(numbers)


WAITERS = {"resp": RespWaiter, "http": HttpWaiter}


def decision(reply):
    """A reply of RESP2, without the capacity; under several limits, what all of them say."""
    return Answer(reply[0], *reply[2:6])


class WaitingServer(WeirServer):
    """`weir serve --test-clock` at unix sockets, and at TCP for those who ask. By the real clock
    with clock=()."""

    def __init__(self, *arguments, threads=2, clock=("--test-clock",), **options):
        self.folder = tempfile.mkdtemp(prefix="weir-")
        self.paths = {name: str(Path(self.folder) / name) for name in WAITERS}
        self.threads = threads
        self.probes, self.waiters = [], []
        for protocol, path in self.paths.items():
            arguments += f"--{protocol}", f"unix:{path}", f"--{protocol}", "127.0.0.1:0"
        super().__init__(*clock, "--threads", threads, *arguments, **options)

    def start(self):
        super().start()
        self.probes = [self.connect() for _ in range(self.threads)]  # one at each worker
        return self

    def stop(self):
        for waiter in self.probes + self.waiters:
            waiter.close()
        self.probes, self.waiters = [], []
        code = super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code

    def connect(self, protocol="resp"):
        """A new connection at the worker whose turn it is."""
        waiter = WAITERS[protocol](self.paths[protocol])
        waiter.ping()
        return waiter

    def ask(self, *command):
        """One command, at another connection than those that wait."""
        return self.probes[0].client.command(*command)

    def take(self, key, limit, cost=1):
        return decision(self.ask("WEIR.TAKE", key, limit, "COST", cost))

    def settle(self):
        """All that the workers have to say has been said."""
        for _ in range(SETTLING_PINGS):
            for probe in self.probes:
                probe.ping()

    def join(self, key, limit, wait_ms=DAY_MS, cost=1, protocol="resp"):
        waiter = self.connect(protocol)
        self.waiters.append(waiter)
        waiter.ask(key, limit, wait_ms, cost)
        self.settle()
        return waiter

    def now_ns(self):
        return self.ask("WEIR.CLOCK")

    def advance(self, by_ns):
        """Time passes, by way of every instant at which somebody's turn comes."""
        self.ask("WEIR.CLOCK", "ADVANCE", by_ns)
        self.settle()

    def jump(self, by_ns):
        """Time has passed, and nobody looked."""
        self.ask("WEIR.CLOCK", "SET", self.now_ns() + by_ns)
        self.settle()

    def leave(self, waiter):
        """The waiter's connection ends."""
        waiter.close()
        if waiter in self.waiters:
            self.waiters.remove(waiter)
        self.settle()
