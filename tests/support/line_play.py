"""The same steps for the server and for the reference line; every answer has to be the same.

    play = LinePlay(server, "queue", "1/s capacity=3", LineModel("queue", 1, 10**9, 3))
    play.join("a"); play.advance(10**9); play.leave("a"); play.take()
"""

import socket

from line_model import is_refused
from waiters import DAY_MS

MS = 1_000_000


def verdicts(answers):
    return {name: answer.verdict for name, answer in answers.items()}


class LinePlay:
    keys = 0

    def __init__(self, server, limit, model):
        """Begins now, with a bucket of its own."""
        LinePlay.keys += 1
        self.server, self.limit, self.model = server, limit, model
        self.key = f"play-{LinePlay.keys}"
        self.waiters = {}
        model.now_ns = server.now_ns()
        self.story = [limit]  # for whoever reads a failure

    def _check(self, told, expected, what):
        assert told == expected, f"{what}: {told} is not {expected}\n" + "\n".join(self.story)

    def _tell(self, *words):
        self.story.append(f"{self.model.now_ns}: " + " ".join(map(str, words)))

    def _check_refusal(self, told, expected, ask):
        """What is told who is refused is enough, and needed; apart from that the answers are equal."""
        if is_refused(told) and is_refused(expected):
            is_minimal = self.model.is_minimal(told.retry_after_ns, ask)
            self._check(is_minimal, True, f"{told} is minimal")
            told = told._replace(retry_after_ns=-1)
        self._check(told, expected, "answer")

    def _check_answers(self, events):
        """All who are answered now are those of the model, and in its words."""
        told = {name: waiter.answer() for name, waiter in self.waiters.items()}
        told = {name: answer for name, answer in told.items() if answer is not None}
        expected = {name: answer for _, name, answer in events}
        self._check(verdicts(told), verdicts(expected), "answered")
        refused_count = sum(map(is_refused, told.values()))
        for name, answer in told.items():
            self.server.leave(self.waiters.pop(name))
            if is_refused(answer):
                self._check(answer.retry_after_ns > 0, True, "retry_after")
                answer = answer._replace(retry_after_ns=-1)
            if refused_count < 2:  # of those who give up at one instant, any may be first
                self._check(answer, expected[name], f"answer to {name}")

    def join(self, name, cost=1, wait_ms=DAY_MS, protocol="resp"):
        self._tell("join", name, cost, wait_ms, protocol)
        self.waiters[name] = waiter = self.server.join(
            self.key, self.limit, wait_ms, cost, protocol
        )
        told = waiter.answer()
        expected = self.model.join(name, cost, wait_ms * MS)
        self._check_refusal(told, expected, lambda line: line.join(name, cost, wait_ms * MS))
        if expected is not None:
            self.server.leave(self.waiters.pop(name))

    def leave(self, name, half=False):
        """The client ends its connection, or only its own side of it."""
        self._tell("leave", name, half)
        waiter = self.waiters.pop(name, None)
        is_there = self.model.leave(name)
        assert is_there == (waiter is not None)
        if waiter is None:
            return
        if half:
            waiter.socket.shutdown(socket.SHUT_WR)
            self.server.settle()
            assert waiter.socket.recv(100) == b""  # no answer, and the end
        self.server.leave(waiter)
        self._check_answers(self.model.advance(self.model.now_ns))

    def take(self, cost=1):
        self._tell("take", cost)
        told = self.server.take(self.key, self.limit, cost)
        self._check_refusal(told, self.model.take(cost), lambda line: line.take(cost))

    def change(self, how, cost=1):
        """fill or refund"""
        self._tell(how, cost)
        self.server.ask(f"WEIR.{how}", self.key, self.limit, "COST", cost)
        getattr(self.model, how)(cost)
        self._settle()

    def reset(self):
        self._tell("reset")
        self.server.ask("WEIR.RESET", self.key, self.limit)
        self.model.reset()
        self._settle()

    def _settle(self):
        self.server.settle()
        self._check_answers(self.model.advance(self.model.now_ns))

    def advance(self, by_ns):
        self._tell("advance", by_ns)
        self.server.advance(by_ns)
        self._check_answers(self.model.advance(self.model.now_ns + by_ns))

    def jump(self, by_ns):
        self._tell("jump", by_ns)
        self.server.jump(by_ns)
        self._check_answers(self.model.jump(self.model.now_ns + by_ns))

    def end(self):
        """Everybody goes, and nothing is left but what was charged."""
        while self.model.line:
            self.advance(max(0, self.model.next_ns() - self.model.now_ns))
        assert self.waiters == {}
        self.take(0)
        self.advance(1000 * 1000 * MS)
        self.take()
