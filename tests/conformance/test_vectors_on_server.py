# SPDX-License-Identifier: MIT
"""A running server answers as the vectors say, over RESP and over HTTP, on a clock that the test moves.

Keys are made unique by case, and each case starts where the clock stands: only differences of time
matter. Where the date matters too, a case has a server of its own. Left out are cases at older readings and
of named limits (README.md says why)."""

import glob
import itertools
import json
import os
import socket
import subprocess
from fractions import Fraction

import model
import pytest
import vectors
from weirserver import RespError, WeirServer, encode_post, weir_binary

NOW_MAX = 2**62
PATHS = sorted(glob.glob(os.path.join(vectors.FOLDER, "*.vec")))
COMMANDS = {"take": "WEIR.TAKE", "can_take": "WEIR.CANTAKE", "fill": "WEIR.FILL",
            "refund": "WEIR.REFUND", "show": "WEIR.SHOW", "reset": "WEIR.RESET"}
TOLD = ("verdict", "capacity", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns")


class Clock:
    """A server whose clock goes on from case to case; a new one, with new buckets, where time runs
    out, and where a case has limits in shadow mode. `new_store` returns the URL of an empty store."""

    def __init__(self, folder, new_store):
        self.server = None
        self.folder = folder
        self.new_store = new_store
        self.shadows = {}
        self.count = 0
        self.base_ns = 0
        self.now_ns = 0
        self.client = None

    def begin(self, case, protocol):
        """Returns a client of the server that this case needs."""
        self.base_ns = self.now_ns
        is_late = case.is_dated and self.now_ns > 0  # its days begin with the clock
        if (self.server is None or is_late or case.shadows != self.shadows
                or self.base_ns + case.last_ns > NOW_MAX):
            self.end()
            self.count += 1
            self.shadows = case.shadows
            self.server = WeirServer("--test-clock", "--store", self.new_store(), *self.config()).start()
            self.base_ns = self.now_ns = 0
            self.client = protocol(self.server)
        return self.client

    def config(self):
        """What gives limits in shadow mode their names."""
        if not self.shadows:
            return []
        path = self.folder / f"{self.count}.yaml"
        path.write_text("limits:\n" + "".join(f"  {name}: {{limit: {text}, shadow: true}}\n"
                                               for name, text in self.shadows.items()))
        return ["--config", str(path)]

    def set(self, at_ns):
        now_ns = self.base_ns + at_ns
        if now_ns != self.now_ns:
            assert self.server.command("WEIR.CLOCK", "SET", now_ns) in ("OK", now_ns)
            self.now_ns = now_ns

    def end(self):
        """First the client: a server that ends gives one that is still there a second to go."""
        if self.client is not None:
            self.client.close()
            self.client = None
        if self.server is not None:
            self.server.stop()
            self.server = None


def told(verdict, capacity, remaining, retry_ns, reset_ns, delay_ns):
    """A decision in the words of the vectors."""
    return {"verdict": verdict, "capacity": capacity, "remaining": remaining,
            "retry_after": None if retry_ns == -1 else retry_ns, "reset_after": reset_ns,
            "delay": delay_ns, "live": reset_ns > 0}


class Resp:
    """Asks in RESP: many questions in one pipeline."""

    def __init__(self, server):
        self.client = server.client()

    def ask(self, operation, questions):
        """questions: (key, limit, cost). An error reply is (None, its text)."""
        commands = []
        for key, limit, cost in questions:
            cost = [] if operation in ("show", "reset") or cost == "1" else ["COST", cost]
            commands.append([COMMANDS[operation], key, limit, *cost])
        return [self.read(operation, reply) for reply in self.client.pipeline(commands)]

    def block(self, key, limit, lasts_ns):
        """The reply says nothing but that it is done."""
        assert self.client.command("WEIR.BLOCK", key, limit, lasts_ns // 10**6) == 1
        (answer, _), = self.ask("show", [(key, limit, "1")])
        return answer

    def unblock(self, key, limit):
        return {"was_blocked": self.client.command("WEIR.UNBLOCK", key, limit) == 1}

    def ask_all(self, operation, pairs, cost):
        """What all say, which decides, and what each says."""
        if operation == "take_all":
            command = ["WEIR.TAKEALL", len(pairs), *(word for pair in pairs for word in pair)]
        else:
            command = ["WEIR.CANTAKE", pairs[0][0], ", ".join(limit for _, limit in pairs)]
        reply, = self.client.pipeline([[*command, "COST", cost]])
        if isinstance(reply, RespError):
            return None, str(reply)
        each = [dict(zip(("capacity", "remaining", "reset_after"), one)) for one in reply[7:]]
        return (told(vectors.VERDICTS[reply[0]], *reply[1:6]), reply[6], each), None

    @staticmethod
    def read(operation, reply):
        if isinstance(reply, RespError):
            return None, str(reply)
        if operation == "reset":
            return {"live": reply == 1}, None
        answer = told(vectors.VERDICTS[reply[0]], *reply[1:6])
        if operation == "fill":
            answer.update(spill=Fraction(reply[6]), full=reply[7] == 1)
        if operation == "show":
            answer.update(level=Fraction(reply[6]))
        return answer, None

    def throttle(self, command, key, numbers):
        """In a command's own words: a period as a decimal, and TOKENS before GCRA's quantity."""
        burst, count, period, quantity = numbers
        if command == "gcra":
            return self.client.command("GCRA", key, burst, count, repr(float(period)), "TOKENS", quantity)
        return self.client.command(f"CL.{command.upper()}", key, burst, count, period, quantity)

    def close(self):
        self.client.close()


class Http:
    """Asks in HTTP: many requests in one write."""

    STATUS = {"allowed": 200, "limited": 429, "never": 422, "blocked": 429}

    def __init__(self, server):
        self.resp = Resp(server)
        self.socket = socket.create_connection(("127.0.0.1", server.http_port), timeout=20)
        self.reader = self.socket.makefile("rb")

    def ask(self, operation, questions):
        bodies = []
        for key, limit, cost in questions:
            body = {"key": key, "limit": limit}
            if operation not in ("show", "reset") and cost != "1":
                body["cost"] = cost
            bodies.append(body)
        answers = []
        for start in range(0, len(bodies), 50):  # few enough for the buffers of the sockets
            some = bodies[start : start + 50]
            self.socket.sendall(b"".join(encode_post(operation, body) for body in some))
            answers += [self.read(operation) for _ in some]
        return answers

    def post(self, path, body):
        self.socket.sendall(encode_post(path, body))
        return self.reply()

    def reply(self):
        """The status of a reply, and its body."""
        status = int(self.reader.readline().split()[1])
        length = 0
        while (line := self.reader.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, json.loads(self.reader.read(length))

    def block(self, key, limit, lasts_ns):
        status, body = self.post("block", {"key": key, "limit": limit, "block_ms": lasts_ns // 10**6})
        assert status == 200
        return told(*(body[name] for name in TOLD))

    def unblock(self, key, limit):
        status, body = self.post("unblock", {"key": key, "limit": limit})
        assert status == 200
        return body

    def ask_all(self, operation, pairs, cost):
        if operation == "take_all":
            path, question = "take_all", {"limits": [{"key": key, "limit": limit} for key, limit in pairs]}
        else:
            path, question = "can_take", {"key": pairs[0][0], "limit": [limit for _, limit in pairs]}
        status, body = self.post(path, question | {"cost": cost})
        if status == 400:
            return None, body["detail"]
        assert status == self.STATUS[body["verdict"]]
        each = [{name.removesuffix("_ns"): value for name, value in one.items()} for one in body["limits"]]
        return (told(*(body[name] for name in TOLD)), body["binding"], each), None

    def read(self, operation):
        status, body = self.reply()
        if status == 400:
            return None, body["detail"]
        if operation == "reset":
            assert status == 200
            return {"live": body["existed"]}, None
        answer = told(*(body[name] for name in TOLD))
        assert status == (200 if operation == "show" else self.STATUS[answer["verdict"]])
        retry_ns = body["retry_after_ns"]
        assert body["retry_after_ms"] == (-1 if retry_ns == -1 else -(-retry_ns // 10**6))
        answer.update({name: Fraction(body[name]) for name in vectors.AMOUNTS if name in body})
        return answer | {name: body[name] for name in ("full",) if name in body}, None

    def throttle(self, command, key, numbers):
        return self.resp.throttle(command, key, numbers)

    def close(self):
        self.resp.close()
        self.reader.close()
        self.socket.close()


def run_repeat(clock, client, step, key):
    counts = dict.fromkeys(vectors.VERDICTS, 0)
    for i in range(step.times):
        clock.set(step.at + i * step.every)
        for answer, error in client.ask(step.operation,
                                        [(key, step.limit_text, step.cost)] * step.each):
            assert error is None, f"{step.where}: {error}"
            counts[answer["verdict"]] += 1
    step.check(counts)


def run_limit_text(client, step, key):
    """Accepted: a charge under this text is seen under the other. Refused: the error says where."""
    if step.expected["refused"] is None:
        least = "1" if model.parse_limit(step.limit_text).grain else "0.000001"
        (_, error), = client.ask("fill", [(key, step.limit_text, least)])
        assert error is None, f"{step.where}: {error}"
        (seen, _), = client.ask("show", [(key, step.expected["same_as"], "1")])
        assert seen["level"] > 0, f"{step.where}: not the same bucket as {step.expected['same_as']}"
        return
    if "," in step.limit_text:
        return  # no limit, but to a server a list of them
    (_, error), = client.ask("take", [(key, step.limit_text, "1")])
    assert error is not None, f"{step.where}: not refused"
    if step.limit_text:  # an empty one is refused before it is read
        assert f"byte {step.expected['offset']}:" in error, f"{step.where}: {error}"


def run_together(client, step, prefix):
    """Several limits in one take."""
    keys = [f"{prefix} {member.key}" for member in step.members]
    answer, error = client.ask_all(step.operation, list(zip(keys, step.limit_texts)), step.cost)
    assert error is None, f"{step.where}: {error}"
    whole, binding, each = answer
    step.check(step.told(whole, None if binding == -1 else binding, each))


def run_step(clock, client, step, prefix):
    """`prefix` makes the keys its own."""
    key = f"{prefix} {getattr(step, 'key', step.text)}"
    if not isinstance(step, vectors.LimitText):
        clock.set(step.at)
    if isinstance(step, vectors.LimitText):
        run_limit_text(client, step, key)
    elif isinstance(step, vectors.Throttle):
        step.check({"reply": client.throttle(step.command, key, step.numbers)})
    elif isinstance(step, vectors.Repeat):
        run_repeat(clock, client, step, key)
    elif isinstance(step, vectors.Together):
        run_together(client, step, prefix)
    elif isinstance(step, vectors.Block) and step.operation == "block":
        step.check(client.block(key, step.limit_text, step.lasts))
    elif isinstance(step, vectors.Block):
        step.check(client.unblock(key, step.limit_text))
    else:
        (answer, error), = client.ask(step.operation, [(key, step.limit_text, step.cost)])
        if step.is_uncounted:
            assert "whole units" in error, step.where
            return
        assert error is None, f"{step.where}: {error}"
        step.check(answer)


def run_case(clock, case, protocol):
    client = clock.begin(case, protocol)
    for step in case.steps:
        run_step(clock, client, step, case.where)


def cases_of(path):
    return [case for case in vectors.read(path) if not (case.is_late or case.is_named)]


@pytest.mark.parametrize("store,protocol", [
    pytest.param("memory", Resp, id="memory-resp"),
    pytest.param("memory", Http, id="memory-http", marks=pytest.mark.once),
    pytest.param("file", Resp, id="file-resp", marks=pytest.mark.once),
    pytest.param("file", Http, id="file-http")])
@pytest.mark.parametrize("path", PATHS, ids=os.path.basename)
def test_server(path, store, protocol, tmp_path):
    cases = cases_of(path)
    if not cases:
        assert os.path.basename(path) in ("late_readings.vec", "changed_numbers.vec")
        return
    files = itertools.count()
    clock = Clock(tmp_path, lambda: f"file:{tmp_path}/{next(files)}" if store == "file" else "memory:")
    try:
        for case in cases:
            if not case.is_long or (store, protocol) == ("memory", Resp):
                run_case(clock, case, protocol)
    finally:
        clock.end()


@pytest.mark.database
@pytest.mark.once
@pytest.mark.parametrize("path", PATHS, ids=os.path.basename)
def test_server_over_postgres(path, tmp_path, postgres):
    """All that needs no log of events, and is done in seconds."""
    database = postgres.new_database()

    def new_store():
        with postgres.connect(database) as connection:
            connection.execute("DROP SCHEMA IF EXISTS weir CASCADE")
        subprocess.run([weir_binary(), "store", "init", postgres.url(database)], check=True, capture_output=True)
        return f"{postgres.url(database)}&deadline=1000ms"  # a busy machine has time for all of them

    clock = Clock(tmp_path, new_store)
    try:
        for case in cases_of(path):
            if not case.has_windows and not case.is_long:
                run_case(clock, case, Resp)
    finally:
        clock.end()
