"""A thousand clients in three languages in one line: first come, first served."""

import json
import queue
import sys
import threading
import time

import pytest
from test_clients import CLIENTS, ProgramClient, decision, go_redis, node
from weirserver import DEADLINE_S, WeirServer

S = 1_000_000_000
COUNT = 1000
LIMITS = {"bucket": "1/s waiting=2000", "queue": "queue 1/s capacity=2000"}


def python():
    return ProgramClient(sys.executable, str(CLIENTS / "python/waiters.py"))


class Crowd:
    """Many clients in one program; `answers` gets (id, verdict) as they come."""

    def __init__(self, client, answers):
        self.client, self.answers = client, answers
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.client.program.stdout:
            said = json.loads(line)
            value = said.get("value")
            self.answers.put((said["id"], value and decision(value)[0], said.get("error")))

    def wait(self, number, port, *words):
        request = {"do": "wait", "id": number, "port": port, "arguments": words}
        self.client.program.stdin.write(json.dumps(request) + "\n")
        self.client.program.stdin.flush()

    def close(self):
        self.client.program.kill()
        self.client.program.wait()
        self.thread.join(DEADLINE_S)
        self.client.program.stdin.close()
        self.client.program.stdout.close()


@pytest.fixture
def crowds():
    answers = queue.Queue()
    opened = [Crowd(open_(), answers) for open_ in (python, lambda: node("redis"), go_redis)]
    yield opened, answers
    for crowd in opened:
        crowd.close()


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS.keys())
def test_a_thousand_clients_in_three_languages_are_served_in_the_order_of_arrival(crowds, limit):
    """Each comes when the wait that a take is told shows that the one before stands in line."""
    programs, answers = crowds
    with WeirServer("--test-clock", "--threads", 3) as server:
        server.command("WEIR.TAKE", "a", limit)
        if limit == LIMITS["queue"]:
            server.command("WEIR.CLOCK", "ADVANCE", S)  # it is gone

        def told_ns():
            return server.command("WEIR.CANTAKE", "a", limit)[3]

        for number in range(COUNT):
            words = "WEIR.TAKE", "a", limit, "WAIT", "86400000"
            before_ns, until = told_ns(), time.monotonic() + DEADLINE_S
            programs[number % 3].wait(number, server.resp_port, *words)
            while told_ns() <= before_ns:  # asks again at once: a thousand of wait_until()'s are long
                assert time.monotonic() < until, f"client {number} does not come"
        for number in range(COUNT):
            assert answers.empty()
            server.command("WEIR.CLOCK", "ADVANCE", S)
            assert answers.get(timeout=DEADLINE_S) == (number, 0, None)
