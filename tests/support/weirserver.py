"""A weir server for a test, and clients of both protocols that need nothing installed.

    with WeirServer("--test-clock") as server:
        assert server.command("WEIR.TAKE", "alice", "10/s")[0] == 0
        assert server.post("take", key="alice", limit="10/s").json["remaining"] == 8
        assert server.metric("weir_decisions_total", limit="inline", verdict="allowed") == 2

The server listens on free ports of loopback, and ends with the block. Which binary: $WEIR_BINARY, or
build/$WEIR_PRESET/weir, or build/dev/weir.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 20  # for anything that should happen at once; sanitizers are slow


HOME = tempfile.TemporaryDirectory(prefix="weir-home-")  # of those that have no other: gone when the tests end


def clean_environment(**more):
    """Nothing of weir's, nor of colours, comes from the user that runs the tests; nor does the home."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("WEIR_", "XDG_")) and name not in ("NO_COLOR", "HOME")}
    return {**clean, "HOME": HOME.name, **more}


def weir_binary():
    """The `weir` under test."""
    preset = os.environ.get("WEIR_PRESET", "dev")
    return os.environ.get("WEIR_BINARY") or str(ROOT / "build" / preset / "weir")


def reads_configurations():
    """Whether libyaml is built in."""
    said = subprocess.run([weir_binary(), "--version"], capture_output=True, text=True, check=True)
    return "libyaml 0" in said.stdout


def wait_until(condition, what="the condition", deadline_s=DEADLINE_S):
    """Polls until condition() is true, and returns what it returned."""
    until = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise TimeoutError(f"waited {deadline_s} s for {what}")
        time.sleep(0.005)  # a poll, not a guess: the deadline decides


class RespError(Exception):
    """An error reply: "ERR unknown command ..."."""


class RespClient:
    """Speaks RESP2, and RESP3 after HELLO 3, over TCP or a unix socket."""

    def __init__(self, address, timeout_s=DEADLINE_S):
        """address: (host, port), or the path of a unix socket."""
        if isinstance(address, tuple):
            self.socket = socket.create_connection(address, timeout=timeout_s)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout_s)
            self.socket.connect(address)
        self.reader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    @staticmethod
    def encode(*arguments):
        """One command as bytes."""
        parts = [b"*%d\r\n" % len(arguments)]
        for argument in arguments:
            if not isinstance(argument, bytes):
                argument = str(argument).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(argument), argument))
        return b"".join(parts)

    def send(self, *arguments):
        self.socket.sendall(self.encode(*arguments))

    def command(self, *arguments):
        """Sends one command and returns its reply; raises RespError for an error."""
        self.send(*arguments)
        return self.read_reply()

    def pipeline(self, commands):
        """Sends many commands in one write; returns the replies, errors as RespError values."""
        self.socket.sendall(b"".join(self.encode(*command) for command in commands))
        return [self.read_reply(raising=False) for _ in commands]

    def read_line(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"the server closed the connection after {line!r}")
        return line[:-2]

    def read_text(self, length):
        data = self.reader.read(length + 2)
        if len(data) != length + 2:
            raise ConnectionError("the server closed the connection within a reply")
        return data[:-2].decode("utf-8", "surrogateescape")

    def read_reply(self, raising=True):
        line = self.read_line()
        kind, rest = line[:1], line[1:].decode("utf-8", "surrogateescape")
        if kind == b"+":
            return rest
        if kind in b"-!":
            error = RespError(rest if kind == b"-" else self.read_text(int(rest)))
            if raising:
                raise error
            return error
        if kind in b":(":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self.read_text(int(rest))
        if kind == b"=":
            return self.read_text(int(rest))[4:]
        if kind in b"*~>":
            return None if rest == "-1" else [self.read_reply(raising) for _ in range(int(rest))]
        if kind == b"%":
            pairs = ((self.read_reply(raising), self.read_reply(raising)) for _ in range(int(rest)))
            return dict(pairs)
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == "t"
        if kind == b",":
            return float(rest)
        raise ValueError(f"not a RESP reply: {line!r}")


def encode_post(operation, question, more=b""):
    """POST /v1/... as bytes, for a connection of one's own; `more` are lines of its head."""
    body = json.dumps(question).encode()
    head = b"POST /v1/%s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n"
    return head % (operation.encode(), more, len(body)) + body


class HttpReply:
    """An answer: its status, its header fields by name in whatever case, and its body."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)


class WeirServer:
    """`weir serve` on free ports, from start() or the beginning of a with block to its end.

    arguments   further options; --resp or --http among them replace the free ports
    environment variables on top of this process's
    """

    def __init__(self, *arguments, environment=None, binary=None, **popen_options):
        self.arguments = [str(argument) for argument in arguments]
        self.environment = {**os.environ, **(environment or {})}
        self.binary = binary or weir_binary()
        self.popen_options = popen_options
        self.process = None
        self.addresses = {"resp": [], "http": []}
        self.lines = []
        self._reader = None
        self._client = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()

    def command_line(self):
        line = [self.binary, "serve"]
        for option in ("--resp", "--http"):
            if option not in self.arguments:
                line += [option, "127.0.0.1:0"]
        return line + self.arguments

    def spawn(self):
        """Starts the process and reads its log, without waiting for anything."""
        self.process = subprocess.Popen(
            self.command_line(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=self.environment,
            **self.popen_options,
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        return self

    def start(self):
        """Starts the process, and returns when it is ready."""
        self.spawn()
        wait_until(lambda: self._is_ready() or self.process.poll() is not None, "weir serve")
        if not self._is_ready():
            self._reader.join(DEADLINE_S)
            raise RuntimeError(f"weir serve exited {self.process.returncode}:\n{self.log}")
        return self

    def restart(self):
        """Stops it, and starts it again at the addresses that it had."""
        self.stop()
        for protocol, addresses in self.addresses.items():
            if f"--{protocol}" not in self.arguments and addresses:
                self.arguments += [f"--{protocol}", addresses[0]]
        self.addresses = {"resp": [], "http": []}
        self.lines = []
        return self.start()

    def _read_log(self):
        with self.process.stderr as stream:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                self._note_address(line)
                self.lines.append(line)

    def _note_address(self, line):
        if line.startswith("{"):
            event = json.loads(line)
            if event["event"] == "listening":
                self.addresses[event["protocol"]].append(event["address"])
            return
        match = re.search(r" listening protocol=(\w+) address=(\S+)", line)
        if match:
            self.addresses[match[1]].append(match[2].strip('"'))

    def _is_ready(self):
        return any(re.search(r'"event":"ready"| info ready ', line) for line in self.lines)

    @property
    def log(self):
        """Everything it has said on standard error so far."""
        return "\n".join(self.lines)

    def wait_for_log(self, text):
        """Waits until a line of the log contains the text, and returns the line."""
        return wait_until(
            lambda: next((line for line in list(self.lines) if text in line), None),
            f"{text!r} in the log:\n{self.log}",
        )

    @property
    def pid(self):
        return self.process.pid

    def _port(self, protocol):
        for address in self.addresses[protocol]:
            if not address.startswith("unix:"):
                return int(address.rsplit(":", 1)[1])
        raise LookupError(f"no TCP listener for {protocol}: {self.addresses}")

    @property
    def resp_port(self):
        return self._port("resp")

    @property
    def http_port(self):
        return self._port("http")

    @property
    def http_url(self):
        return f"http://127.0.0.1:{self.http_port}"

    def client(self, **options):
        """A new RESP connection."""
        first = self.addresses["resp"][0]
        if first.startswith("unix:"):
            return RespClient(first[len("unix:"):], **options)
        return RespClient(("127.0.0.1", self.resp_port), **options)

    def command(self, *arguments):
        """One command over a connection that is kept."""
        if self._client is None:
            self._client = self.client()
        return self._client.command(*arguments)

    def request(self, method, target, body=None, headers=None):
        """One HTTP request over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=DEADLINE_S)
        try:
            connection.request(method, target, body, headers or {})
            return HttpReply(connection.getresponse())
        finally:
            connection.close()

    def get(self, target, **headers):
        """X_Forwarded_For="..." is the field X-Forwarded-For."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("GET", target, headers=fields)

    def post(self, operation, **question):
        """POST /v1/..."""
        is_json = {"Content-Type": "application/json"}
        return self.request("POST", f"/v1/{operation}", json.dumps(question), is_json)

    def metric(self, name, **labels):
        """What /metrics says of it: the sum of all series that have these labels, or LookupError."""
        values = []
        for line in self.get("/metrics").body.decode().splitlines():
            series, _, value = line.rpartition(" ")
            found, _, rest = series.partition("{")
            if found == name and labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', rest)).items():
                values.append(float(value))
        if not values:
            raise LookupError(f"{name} {labels}")
        return sum(values)

    def rss_bytes(self):
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def assert_grown_less(self, before_bytes, than_bytes):
        """Its memory has grown by less. Sanitizers keep what was freed: not looked at there."""
        if os.environ.get("WEIR_PRESET") not in ("asan", "tsan"):
            grown = self.rss_bytes() - before_bytes
            assert grown < than_bytes, f"grown by {grown} bytes"

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout_s=DEADLINE_S):
        """Waits for the end and returns the exit code; the log is complete then."""
        code = self.process.wait(timeout_s)
        self._reader.join(DEADLINE_S)
        return code

    def stop(self):
        """SIGTERM, then the exit code. Kills what does not end, and fails for it."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()
            raise
