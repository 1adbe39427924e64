# SPDX-License-Identifier: MIT
"""A running server answers as the vectors say, over RESP and over HTTP, on a clock that the test moves.

Keys are made unique by case, and each case starts where the clock stands: only differences of time
matter. Where the date matters too, a case has a server of its own. Left out are cases at older readings and
of named limits (README.md says why)."""

import glob
import json
import os
import socket
from fractions import Fraction

import model
import pytest
import vectors
from weirserver import RespError, WeirServer

NOW_MAX = 2**62
PATHS = sorted(glob.glob(os.path.join(vectors.FOLDER, "*.vec")))
COMMANDS = {"take": "WEIR.TAKE", "can_take": "WEIR.CANTAKE", "fill": "WEIR.FILL",
            "refund": "WEIR.REFUND", "show": "WEIR.SHOW", "reset": "WEIR.RESET"}


class Clock:
    """A server whose clock goes on from case to case; a new one, with new buckets, where time runs
    out. Its buckets are in memory, or in a file in `folder`."""

    def __init__(self, folder=None):
        self.server = None
        self.folder = folder
        self.count = 0
        self.base_ns = 0
        self.now_ns = 0

    def begin(self, case):
        self.base_ns = self.now_ns
        is_late = case.is_dated and self.now_ns > 0  # its days begin with the clock
        if self.server is None or is_late or self.base_ns + case.last_ns > NOW_MAX:
            self.end()
            self.count += 1
            store = f"file:{self.folder}/{self.count}" if self.folder else "memory:"
            self.server = WeirServer("--test-clock", "--store", store).start()
            self.base_ns = self.now_ns = 0
            return True
        return False

    def set(self, at_ns):
        now_ns = self.base_ns + at_ns
        if now_ns != self.now_ns:
            assert self.server.command("WEIR.CLOCK", "SET", now_ns) in ("OK", now_ns)
            self.now_ns = now_ns

    def end(self):
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

    def throttle(self, key, numbers):
        return self.client.command("CL.THROTTLE", key, *numbers)

    def close(self):
        self.client.close()


class Http:
    """Asks in HTTP: many requests in one write."""

    STATUS = {"allowed": 200, "limited": 429, "never": 422}

    def __init__(self, server):
        self.resp = Resp(server)
        self.socket = socket.create_connection(("127.0.0.1", server.http_port), timeout=20)
        self.reader = self.socket.makefile("rb")

    def ask(self, operation, questions):
        requests = []
        for key, limit, cost in questions:
            body = {"key": key, "limit": limit}
            if operation not in ("show", "reset") and cost != "1":
                body["cost"] = cost
            text = json.dumps(body).encode()
            requests.append(b"POST /v1/%s HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n%s"
                            % (operation.encode(), len(text), text))
        answers = []
        for start in range(0, len(requests), 50):  # few enough for the buffers of the sockets
            self.socket.sendall(b"".join(requests[start : start + 50]))
            answers += [self.read(operation) for _ in requests[start : start + 50]]
        return answers

    def read(self, operation):
        status = int(self.reader.readline().split()[1])
        length = 0
        while (line := self.reader.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = json.loads(self.reader.read(length))
        if status == 400:
            return None, body["detail"]
        if operation == "reset":
            assert status == 200
            return {"live": body["existed"]}, None
        names = ("verdict", "capacity", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns")
        answer = told(*(body[name] for name in names))
        assert status == self.STATUS[answer["verdict"]]
        retry_ns = body["retry_after_ns"]
        assert body["retry_after_ms"] == (-1 if retry_ns == -1 else -(-retry_ns // 10**6))
        answer.update({name: Fraction(body[name]) for name in vectors.AMOUNTS if name in body})
        return answer | {name: body[name] for name in ("full",) if name in body}, None

    def throttle(self, key, numbers):
        return self.resp.throttle(key, numbers)

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


def run_step(clock, client, step, case):
    key = f"{case.where} {getattr(step, 'key', step.text)}"
    if not isinstance(step, vectors.LimitText):
        clock.set(step.at)
    if isinstance(step, vectors.LimitText):
        run_limit_text(client, step, key)
    elif isinstance(step, vectors.Throttle):
        step.check({"reply": client.throttle(key, step.numbers)})
    elif isinstance(step, vectors.Repeat):
        run_repeat(clock, client, step, key)
    else:
        (answer, error), = client.ask(step.operation, [(key, step.limit_text, step.cost)])
        if step.is_uncounted:
            assert "whole units" in error, step.where
            return
        assert error is None, f"{step.where}: {error}"
        step.check(answer)


@pytest.mark.parametrize("protocol", [Resp, Http], ids=["resp", "http"])
@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.parametrize("path", PATHS, ids=os.path.basename)
def test_server(path, store, protocol, tmp_path):
    cases = [case for case in vectors.read(path) if not (case.is_late or case.is_named)]
    if not cases:
        assert os.path.basename(path) in ("late_readings.vec", "changed_numbers.vec")
        return
    clock, client = Clock(tmp_path if store == "file" else None), None
    try:
        for case in cases:
            if clock.begin(case):
                if client is not None:
                    client.close()
                client = protocol(clock.server)
            for step in case.steps:
                run_step(clock, client, step, case)
    finally:
        if client is not None:
            client.close()
        clock.end()
