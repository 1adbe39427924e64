"""A line as slow and as obvious as can be: what the server has to answer to those who wait.

    line = LineModel("bucket", 1, 10**9, capacity=1)      # 1/s
    line.join("a", 1, wait_ns=0)                          # Answer(verdict=0, ...): at once
    line.join("b", 1, wait_ns=2 * 10**9)                  # None: it waits
    line.advance(10**9)                                   # [(10**9, "b", Answer(verdict=0, ...))]

One bucket, exact fractions, plain lists; nothing here knows the C code. How long who is refused has to
wait is not computed, but checked: is_minimal() asks a copy of the line again, then and a nanosecond
before.

For a bucket `moment` is when it will be empty, and nobody in line is charged yet. In a queue all
are: `start` is where the first one's own time begins, each has a `gap` before its own time (what
somebody filled in meanwhile), and `moment` is where all of it ends.
"""

import copy
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

JITTER_NS = 5_000_000
ALLOWED, LIMITED, NEVER = 0, 1, 2


class Answer(NamedTuple):
    """In the order of the wire, without the capacity."""

    verdict: int
    remaining: int
    retry_after_ns: int
    reset_after_ns: int
    delay_ns: int


def is_refused(answer):
    return answer is not None and answer.verdict == LIMITED


@dataclass
class Place:
    name: object
    span: Fraction
    deadline_ns: int
    gap: Fraction = field(default_factory=Fraction)


class LineModel:
    def __init__(self, kind, count, period_ns, capacity, first_now=False, waiting=None, now_ns=0):
        self.kind, self.capacity, self.first_now = kind, capacity, first_now
        self.unit_ns = Fraction(period_ns, count)
        self.waiting = waiting if waiting is not None else 1000 if kind == "bucket" else math.inf
        self.now_ns = now_ns
        self.moment = Fraction(now_ns)
        self.line = []
        self.start = Fraction(0)

    # ---- what is where ----

    @property
    def latest(self):
        """The moment may be as far ahead as this."""
        return self.now_ns + (self.capacity + self.first_now) * self.unit_ns

    @property
    def begin(self):
        """Where the next one's own time would begin."""
        return max(self.moment, Fraction(self.now_ns))

    def egress(self, begin, span):
        return begin if self.first_now else begin + span

    def first_egress(self):
        first = self.line[0]
        return self.egress(self.start + first.gap, first.span)

    def tail(self):
        """Where the time of the last one ends, whatever was filled in behind it."""
        return self.start + sum(place.gap + place.span for place in self.line)

    def due_ns(self):
        """When the first one can be served."""
        if self.kind == "queue":
            return math.ceil(self.first_egress())
        return math.ceil(self.moment + self.line[0].span - self.capacity * self.unit_ns)

    def until(self, then_ns):
        return max(0, math.ceil(then_ns) - self.now_ns)

    def clone(self):
        other = copy.copy(self)
        other.line = [copy.copy(place) for place in self.line]
        return other

    def answer(self, verdict, delay_ns=0):
        level = max(Fraction(0), self.moment - self.now_ns)
        room = (self.latest - self.now_ns - level) / self.unit_ns
        remaining = max(0, min(self.capacity, math.floor(room)))
        return Answer(verdict, remaining, -1, math.ceil(level), delay_ns)

    # ---- asking ----

    def take(self, cost):
        """A take that does not wait, and overtakes nobody."""
        span = cost * self.unit_ns
        if cost > self.capacity or cost == 0:
            return self.answer(NEVER if cost else ALLOWED)
        if self.line or self.begin + span > self.latest:
            return self.answer(LIMITED)
        begin, self.moment = self.begin, self.begin + span
        delay_ns = self.until(self.egress(begin, span)) if self.kind == "queue" else 0
        return self.answer(ALLOWED, delay_ns)

    def fill(self, cost):
        if self.begin < self.latest:
            self.moment = min(self.begin + cost * self.unit_ns, self.latest)

    def refund(self, cost):
        self._give_back(cost * self.unit_ns)

    def reset(self):
        self._give_back(self.moment)

    def _give_back(self, span):
        if self.kind == "bucket" or not self.line:
            self.moment = max(self.moment - span, min(self.moment, Fraction(self.now_ns)))
            return
        # Places in a queue belong to those who stand there. What lies between them does not, the latest first.
        behind = min(span, self.moment - self.tail())
        self.moment -= behind
        span -= behind
        for place in reversed(self.line):
            if place is self.line[0]:
                self.start, place.gap = self.start + place.gap, Fraction(0)
                given = min(span, max(Fraction(0), self.start - self.now_ns))
                self.start -= given
            else:
                given = min(span, place.gap)
                place.gap -= given
            self.moment -= given
            span -= given

    def join(self, name, cost, wait_ns):
        """A take that waits: its answer, or None if it stands in line."""
        if cost > self.capacity or cost == 0:
            return self.answer(NEVER if cost else ALLOWED)
        place = Place(name, cost * self.unit_ns, self.now_ns + wait_ns)
        patience_ns = wait_ns if len(self.line) < self.waiting else 0
        join = self._join_queue if self.kind == "queue" else self._join_bucket
        return join(place, wait_ns, patience_ns)

    def _join_bucket(self, place, _, patience_ns):
        if not self.line and self.begin + place.span <= self.latest:
            self.moment = self.begin + place.span
            return self.answer(ALLOWED)
        if patience_ns == 0 or not self._is_served_in_time(place):
            return self.answer(LIMITED)
        self.line.append(place)
        return None

    def _is_served_in_time(self, place):
        """If from now on nothing else happens, and all who are there wait until they are served."""
        other = self.clone()
        for one in other.line:
            one.deadline_ns = math.inf
        other.line.append(copy.copy(place))
        events = other.advance(place.deadline_ns)
        return (place.name, ALLOWED) in [(name, answer.verdict) for _, name, answer in events]

    def _join_queue(self, place, wait_ns, patience_ns):
        begin = self.begin
        if self.egress(Fraction(0), place.span) > (wait_ns if self.waiting else 0):
            return self.answer(NEVER)  # it would be too late even where nobody stands
        needed_ns = self.until(self.egress(begin, place.span))
        if begin + place.span > self.latest or needed_ns > patience_ns:
            return self.answer(LIMITED)
        if needed_ns > 0:
            if not self.line:
                self.start = begin
            place.gap = begin - self.tail()
            self.line.append(place)
        self.moment = begin + place.span
        return None if needed_ns > 0 else self.answer(ALLOWED)

    def is_minimal(self, told_ns, ask):
        """Whether ask(line) is refused until told_ns from now, and then no longer."""
        before, then = self.clone(), self.clone()
        gone = before.advance(self.now_ns + told_ns - 1)
        then.advance(self.now_ns + told_ns)
        is_needed = is_refused(ask(before))
        if any(is_refused(answer) for _, _, answer in gone):
            is_needed = True  # who gives up in between makes room, and nobody could know
        return told_ns >= 1 and is_needed and not is_refused(ask(then))

    def leave(self, name):
        """Gives the place back. False if it stands in line no longer."""
        at = next((i for i, place in enumerate(self.line) if place.name == name), None)
        if at is None:
            return False
        self._remove(at)
        return True

    def _remove(self, at):
        place = self.line.pop(at)
        if self.kind == "bucket":
            return
        if at < len(self.line):
            self.line[at].gap += place.gap
        self.moment -= place.span
        if at == 0 and self.line:
            later = max(Fraction(0), self.now_ns - self.first_egress())
            self.start += later
            self.moment += later

    # ---- time ----

    def _serve(self):
        """All whose time has come, in order."""
        served = []
        while self.line:
            due_ns = self.due_ns()
            if due_ns <= self.now_ns:
                if self.kind == "bucket":
                    self.moment = self.begin + self.line[0].span
                elif self.now_ns - due_ns > JITTER_NS:
                    late = self.now_ns - self.first_egress()
                    self.start += late
                    self.moment += late
                place = self.line.pop(0)
                self.start += place.gap + place.span
                served.append((self.now_ns, place.name, self.answer(ALLOWED)))
            elif self.kind == "bucket" and self.line[0].deadline_ns <= self.now_ns:
                served.append(self._expire(0))
            else:
                break
        return served

    def _expire(self, at):
        name = self.line[at].name
        self._remove(at)
        return (self.now_ns, name, self.answer(LIMITED))

    def _settle(self):
        events = self._serve()
        at = 0
        while at < len(self.line):
            if self.line[at].deadline_ns <= self.now_ns:
                events.append(self._expire(at))
            else:
                at += 1
        return events + self._serve()

    def next_ns(self):
        instants = [place.deadline_ns for place in self.line]
        return min([*instants, max(self.due_ns(), self.now_ns)]) if self.line else math.inf

    def advance(self, to_ns):
        """Time passes; what happened: [(instant, name, answer)]."""
        events = []
        while (then_ns := self.next_ns()) <= to_ns:
            self.now_ns = then_ns
            events += self._settle()
        self.now_ns = to_ns
        return events

    def jump(self, to_ns):
        """Nobody looked until now: what was due in between is late."""
        self.now_ns = to_ns
        return self._settle()
