# SPDX-License-Identifier: MIT
"""Reads conformance vectors (see README.md for their language) and compares answers with them."""

import glob
import os
import re
from dataclasses import dataclass, field
from fractions import Fraction

import model
import world as worlds

FOLDER = os.path.dirname(os.path.abspath(__file__))
OPERATIONS = ("take", "can_take", "fill", "refund", "show", "reset")
VERDICTS = ("allowed", "limited", "never", "blocked")
DURATIONS = ("retry_after", "reset_after", "delay")
AMOUNTS = ("level", "spill")
COUNTS = ("capacity", "remaining")
FLAGS = ("full", "live", "was_blocked")


class BadVector(Exception):
    """The file itself is wrong."""


def parse_duration(text):
    """Whole nanoseconds of `1.5s`, `100ms`, `0`, or a bare number of nanoseconds; None for `none`."""
    if text == "none":
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([a-z]*)", text)
    if not match or match.group(2) not in (*model.UNIT_NS, ""):
        raise BadVector(f"'{text}' is no time")
    ns = Fraction(match.group(1)) * model.UNIT_NS[match.group(2) or "ns"]
    if ns.denominator != 1:
        raise BadVector(f"'{text}' is no whole number of nanoseconds")
    return int(ns)


def parse_value(name, text):
    if name in DURATIONS:
        return parse_duration(text)
    if name in AMOUNTS:
        return Fraction(text)
    if name in COUNTS:
        return int(text)
    if name in FLAGS and text in ("yes", "no"):
        return text == "yes"
    raise BadVector(f"'{name}={text}' is no expectation")


def differences(expected, got):
    """What of `expected` (a dict) the answer does not say: (name, expected, got)."""
    return [(name, value, got[name]) for name, value in expected.items() if got[name] != value]


@dataclass
class Step:
    """One line that asks for something. `run(world)` asks a model and returns a dict of answers."""

    where: str
    text: str
    expected: dict

    def check(self, got):
        for name, value, seen in differences(self.expected, got):
            raise AssertionError(f"{self.where}: {self.text}\n  expected {name}={value}, got {seen}")


@dataclass
class Decide(Step):
    at: int
    operation: str
    limit: model.Limit
    limit_text: str
    name: str | None  # of a limit that keeps its buckets when its numbers change
    key: str
    cost: str

    @property
    def is_uncounted(self):
        """True if the limit cannot count such a cost: a server says so instead of deciding."""
        cost, grain = model.parse_cost(self.cost), self.limit.grain
        return grain is not None and cost % grain != 0

    @property
    def identity(self):
        return self.name if self.name is not None else self.limit.identity

    def run(self, world):
        cost = model.parse_cost(self.cost)
        return vars(world.decide(self.operation, self.limit, self.identity, self.key, cost, self.at))


@dataclass
class Block(Decide):
    """Locks a key out for so long, in nanoseconds, or lets it in."""

    lasts: int

    def run(self, world):
        if self.operation == "unblock":
            return {"was_blocked": world.unblock(self.limit, self.identity, self.key, self.at)}
        return vars(world.block(self.limit, self.identity, self.key, self.lasts, self.at))


@dataclass
class Together(Step):
    """A take under several limits. `expected` is about all of them, `expected_each` about one after the other, if
    at all; a protocol says of each limit less than of all."""

    at: int
    operation: str
    members: list
    limit_texts: list
    names: list  # KEY@LIMIT
    cost: str
    expected_each: list

    def run(self, world):
        operation = self.operation.removesuffix("_all")
        whole, binding, each = world.decide_all(operation, self.members, model.parse_cost(self.cost), self.at)
        return self.told(vars(whole), binding, [vars(answer) for answer in each])

    def told(self, whole, binding, each):
        """An answer in the words of check()."""
        return whole | {"binding": None if binding is None else self.names[binding], "each": each}

    def check(self, got):
        super().check(got)
        for name, expected, answer in zip(self.names, self.expected_each, got["each"]):
            told = {field: value for field, value in expected.items() if field in answer}
            for field, value, seen in differences(told, answer):
                raise AssertionError(f"{self.where}: {self.text}\n  of {name} expected {field}={value}, got {seen}")


@dataclass
class Repeat(Decide):
    """The same take at regular instants; the answers are counted."""

    every: int
    times: int
    each: int

    def instants(self):
        return [self.at + i * self.every for i in range(self.times) for _ in range(self.each)]

    def run(self, world):
        counts = dict.fromkeys(VERDICTS, 0)
        cost = model.parse_cost(self.cost)
        for now in self.instants():
            answer = world.decide(self.operation, self.limit, self.identity, self.key, cost, now)
            counts[answer.verdict] += 1
        return counts


@dataclass
class Throttle(Step):
    """CL.THROTTLE; CL.PROBE, which charges nothing; GCRA, whose period may be a fraction."""

    at: int
    command: str
    key: str
    numbers: list

    def run(self, world):
        return {"reply": list(world.throttle(self.command, self.key, *self.numbers, self.at))}


@dataclass
class LimitText(Step):
    """A limit's text that is accepted (and means the same as its canonical text) or refused."""

    limit_text: str

    def run(self, world):
        try:
            limit = model.parse_limit(self.limit_text)
        except model.Refused as refused:
            return {"refused": refused.reason, "offset": refused.offset, "same_as": None}
        same = self.expected.get("same_as")
        is_same = same is not None and model.parse_limit(same) == limit
        return {"refused": None, "offset": None, "same_as": same if is_same else repr(limit)}


@dataclass
class Case:
    """Steps that start with empty buckets. `where` is FILE:LINE."""

    where: str
    title: str
    steps: list = field(default_factory=list)
    shadows: dict = field(default_factory=dict)  # NAME -> text, of limits in shadow mode

    @property
    def is_late(self):
        """True if some step's reading is older than one before it."""
        latest = 0
        for step in self.steps:
            if getattr(step, "at", latest) < latest:
                return True
            latest = max(getattr(step, "at", 0), latest)
            if isinstance(step, Repeat):
                latest = step.instants()[-1]
        return False

    @property
    def is_named(self):
        return any(getattr(step, "name", None) is not None for step in self.steps)

    @property
    def is_dated(self):
        """True if it matters what day it is."""
        limits = [step.limit for step in self.steps if isinstance(step, Decide)]
        limits += [member.limit for step in self.steps if isinstance(step, Together) for member in step.members]
        return any(limit.kind == "fixed" for limit in limits)

    @property
    def is_long(self):
        """True if it takes tens of thousands of questions."""
        return sum(step.times * step.each for step in self.steps if isinstance(step, Repeat)) > 10_000

    @property
    def has_windows(self):
        """True if some limit of it keeps a log of events."""
        texts = [text for step in self.steps
                 for text in (getattr(step, "limit_text", ""), *getattr(step, "limit_texts", ()))]
        return any("window" in text for text in (*texts, *self.shadows.values()))

    @property
    def last_ns(self):
        return max((step.instants()[-1] if isinstance(step, Repeat) else getattr(step, "at", 0))
                   for step in self.steps)


class Reader:
    """Goes over the lines of one file."""

    def __init__(self):
        self.cases = []
        self.limits = {}  # NAME -> (Limit, text, name or None); in shadow the text is the name
        self.used = None

    def statement(self, where, line):
        words = line.split()
        if words[0] == "case":
            self.cases.append(Case(where, line[len("case") :].strip()))
            self.limits = {}
            return
        if not self.cases:
            raise BadVector("the first statement is a case")
        if words[0] in ("limit", "named", "shadow"):
            text = line.split(None, 2)[2]
            name = words[1] if words[0] == "named" else None
            limit = model.parse_limit(text)
            if words[0] == "shadow":
                self.cases[-1].shadows[words[1]] = text
                text = words[1]
            self.limits[words[1]] = (limit, text, name)
            self.used = words[1]
        elif words[0] == "use":
            self.used = words[1]
        else:
            self.cases[-1].steps.append(self.step(where, line))

    def step(self, where, line):
        question, arrow, answer = line.partition(" -> ")
        if not arrow:
            raise BadVector("no ' -> '")
        verb = question.split()[0]
        if verb in ("accept", "refuse"):
            return self.limit_text(where, line, verb, question[len(verb) :].strip().strip('"'), answer)
        words = question.split()
        answers = answer.split()
        if verb == "at" and words[2] in ("throttle", "probe", "gcra"):
            numbers = [int(words[4]), int(words[5]), Fraction(words[6]), *(int(word) for word in words[7:])]
            numbers += [1] * (4 - len(numbers))
            return Throttle(where, line, {"reply": [int(word) for word in answers]},
                            parse_duration(words[1]), words[2], words[3], numbers)
        if verb == "at" and words[2] in ("block", "unblock"):
            return self.block(where, line, words, answers)
        if verb == "at" and words[2] in ("take_all", "can_take_all"):
            return self.together(where, line, words, answer)
        if verb == "at":
            return Decide(where, line, self.answers(words[2], answers), parse_duration(words[1]),
                          *self.asked(words[2:]))
        if verb == "from":
            return self.repeat(where, line, words, answers)
        raise BadVector(f"'{verb}' is no statement")

    def block(self, where, line, words, answers):
        """at TIME block KEY DURATION, at TIME unblock KEY"""
        operation, key, *lasts = words[2:]
        lasts_ns = parse_duration(lasts[0]) if operation == "block" else 0
        if lasts_ns % 10**6 != 0:
            raise BadVector("over the wire a block lasts whole milliseconds")
        limit, text, name = self.limits[self.used]
        expected = self.answers(operation, answers)
        return Block(where, line, expected, parse_duration(words[1]), operation, limit, text, name, key, "1", lasts_ns)

    def together(self, where, line, words, answer):
        """at TIME take_all KEY@LIMIT ... [COST] -> OF ALL [; OF THE FIRST ; ...]"""
        names = [word for word in words[3:] if "@" in word]
        pairs = [name.split("@") for name in names]
        limits = [self.limits[limit] for _, limit in pairs]
        members = [worlds.Member(limit, name or limit.identity, key, limit_name in self.cases[-1].shadows)
                   for (key, limit_name), (limit, _, name) in zip(pairs, limits)]
        if len({(member.identity, member.key) for member in members}) < len(members):
            raise BadVector("a bucket twice")
        if words[2] == "can_take_all" and len({key for key, _ in pairs}) > 1:
            raise BadVector("over the wire only limits of one key are looked at together")
        of_all, *each = answer.split(";")
        binding = [word.partition("=")[2] for word in of_all.split() if word.startswith("binding=")]
        others = [word for word in of_all.split() if not word.startswith("binding=")]
        expected = self.answers("take", others)
        if binding and binding[0] not in ("none", *names) or len(each) not in (0, len(names)):
            raise BadVector("binding=KEY@LIMIT or none, and an answer of every limit or of none")
        if binding:
            expected["binding"] = None if binding[0] == "none" else binding[0]
        return Together(where, line, expected, parse_duration(words[1]), words[2], members,
                        [text for _, text, _ in limits], names, (words[3 + len(names) :] or ["1"])[0],
                        [self.answers("reset", words.split()) for words in each])

    def limit_text(self, where, line, verb, text, answer):
        if verb == "accept":
            return LimitText(where, line, {"refused": None, "same_as": answer}, text)
        reason, _, offset = answer.partition(" at ")
        return LimitText(where, line, {"refused": reason, "offset": int(offset)}, text)

    def asked(self, words):
        operation, key, *cost = words
        if operation not in OPERATIONS or len(cost) > 1:
            raise BadVector(f"'{' '.join(words)}' is no question")
        limit, text, name = self.limits[self.used]
        return operation, limit, text, name, key, cost[0] if cost else "1"

    @staticmethod
    def answers(operation, words):
        expected = {}
        for word in words:
            name, equals, value = word.partition("=")
            if equals:
                expected[name] = parse_value(name, value)
            elif word in VERDICTS:
                expected["verdict"] = word
            else:
                raise BadVector(f"'{word}' is no answer")
        if not expected or ("verdict" not in expected and operation not in ("reset", "unblock")):
            raise BadVector("nothing is expected")
        return expected

    def repeat(self, where, line, words, answers):
        """from START every STEP N times [M each] take KEY [COST] -> VERDICT=COUNT ..."""
        if words[2] != "every" or words[5] != "times":
            raise BadVector("from START every STEP N times [M each] ...")
        each, rest = (int(words[6]), words[8:]) if words[7] == "each" else (1, words[6:])
        expected = {verdict: int(count) for verdict, count in (w.split("=") for w in answers)}
        expected = dict.fromkeys(VERDICTS, 0) | expected
        return Repeat(where, line, expected, parse_duration(words[1]), *self.asked(rest),
                      parse_duration(words[3]), int(words[4]), each)


def read(path):
    """The cases of one file."""
    reader = Reader()
    with open(path, encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].strip()
            where = f"{os.path.relpath(path)}:{number}"
            if not line:
                continue
            try:
                reader.statement(where, line)
            except (BadVector, model.Refused, KeyError, ValueError, IndexError) as error:
                raise BadVector(f"{where}: {line}: {error!r}") from error
    return reader.cases


def all_cases():
    paths = sorted(glob.glob(os.path.join(FOLDER, "*.vec")))
    return [case for path in paths for case in read(path)]
