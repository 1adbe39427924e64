"""A place in line is never lost and never given twice: the server beside the reference line."""

import itertools
import os
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from line_model import LineModel
from line_play import LinePlay
from waiters import WaitingServer
from weirserver import DEADLINE_S, wait_until

MS = 1_000_000
S = 1_000_000_000

KINDS = {
    "bucket": lambda: ("1/s capacity=2", LineModel("bucket", 1, S, 2)),
    "queue": lambda: ("queue 1/s capacity=4", LineModel("queue", 1, S, 4)),
    "first-now": lambda: (
        "queue 1/s capacity=4 first=now",
        LineModel("queue", 1, S, 4, first_now=True),
    ),
}

# Five clients: a large cost in the middle, one that cannot wait long, one who does not wait at all.
SCHEDULE = [
    ("join", "a", 1),
    ("join", "b", 1),
    ("join", "c", 2),
    ("advance", S // 2),
    ("join", "d", 1, 6000),
    ("take",),
    ("advance", S // 2),
    ("join", "e", 1),
    ("advance", S),
    ("take",),
    ("advance", S + 1),
    ("advance", S - 1),
]
CLIENTS = "abcde"


def perform(play, step):
    getattr(play, step[0])(*step[1:])


@pytest.fixture(scope="module")
def server():
    with WaitingServer(threads=3) as started:
        yield started


@pytest.mark.parametrize("kind", KINDS)
def test_who_leaves_at_any_moment_gives_exactly_his_place_back(server, kind):
    """One run for each client and each moment of a schedule at which it ends its connection."""
    for moment, client in itertools.product(range(1, len(SCHEDULE)), CLIENTS):
        limit, model = KINDS[kind]()
        play = LinePlay(server, limit, model)
        for step in SCHEDULE[:moment]:
            perform(play, step)
        if client not in play.waiters:
            play.end()
            continue
        play.leave(client, half=moment % 2 == 0)
        for step in SCHEDULE[moment:]:
            perform(play, step)
        play.end()


# ---- anything at all ----

RATES = [("1/s", 1, S), ("7/s", 7, S), ("3/10ms", 3, 10 * MS), ("1000/s", 1000, S)]


def draw_line(source):
    """A limit, as text and as a model."""
    text, count, period_ns = source.choice(RATES)
    kind, capacity = source.choice(["bucket", "queue"]), source.randrange(1, 9)
    waiting = source.choice([None, None, 0, 1, 5])
    first_now = kind == "queue" and source.random() < 0.5
    words = [kind, text, f"capacity={capacity}"]
    words += [f"waiting={waiting}"] if waiting is not None else []
    words += ["first=now"] if first_now else []
    return " ".join(words), LineModel(kind, count, period_ns, capacity, first_now, waiting)


def draw_span_ns(source, play):
    """A time that matters: up to the next event or a nanosecond beside it, or any."""
    unit_ns = int(play.model.unit_ns)
    if play.model.line and source.random() < 0.6:
        until_ns = max(0, play.model.next_ns() - play.model.now_ns)
        return max(0, until_ns + source.choice([-1, 0, 0, 1, unit_ns]))
    return source.choice([0, 1, source.randrange(unit_ns), source.randrange(4 * unit_ns)])


def wander(server, seed, steps):
    """Random arrivals, cancels, deadlines, stalls, of one bucket."""
    source = random.Random(seed)
    play = LinePlay(server, *draw_line(source))
    play.story.append(f"seed {seed}")
    unit_ms = int(play.model.unit_ns) // MS
    names = itertools.count()
    for _ in range(steps):
        what = source.choices(
            ["join", "leave", "take", "fill", "refund", "reset", "advance", "jump"],
            [8, 3, 2, 2, 1, 1, 8, 1],
        )[0]
        cost = source.choice([1, 1, 1, 2, 3, 0, play.model.capacity, play.model.capacity + 1])
        if what == "join":
            wait_ms = 1 + source.choice([unit_ms, 5 * unit_ms, 50 * unit_ms + 50]) * source.random()
            play.join(next(names), cost, int(wait_ms), source.choice(["resp", "http"]))
        elif what == "leave" and play.waiters:
            play.leave(source.choice([*play.waiters]), half=source.random() < 0.3)
        elif what == "take":
            play.take(cost)
        elif what in ("fill", "refund"):
            play.change(what, cost)
        elif what == "reset":
            play.reset()
        elif what in ("advance", "jump"):
            getattr(play, what)(draw_span_ns(source, play))
    play.end()


def test_random_lines_are_those_of_the_reference(server):
    for seed in range(100):
        wander(server, seed, 40)


# ---- all at once ----

RATE = 300  # per second
CROWDED = {"bucket": f"{RATE}/s capacity=5", "queue": f"queue {RATE}/s capacity=40"}


def come_and_go(server, limit, source, until):
    """One client after another, by the real clock: how much was let in, and who was not answered."""
    allowed = 0
    while time.monotonic() < until:
        waiter = server.connect(source.choice(["resp", "http"]))
        cost = source.choice([1, 1, 2, 5])
        waiter.ask("crowd", limit, source.choice([0, 1, 20, 60_000]), cost)
        if source.random() < 0.4:
            answer = waiter.answer(within_s=source.choice([0, 0.001, 0.02]))
        else:
            answer = waiter.answer(within_s=DEADLINE_S)
            assert answer is not None
        allowed += cost if answer is not None and answer.verdict == 0 else 0
        if source.random() < 0.2:
            waiter.socket.shutdown(socket.SHUT_WR)
        waiter.close()
    return allowed


@pytest.mark.parametrize("kind", CROWDED)
def test_many_who_come_and_go_at_once(kind):
    """Everybody who stays is answered, no more than the rate passes, and nothing is left of them."""
    limit = CROWDED[kind]
    with WaitingServer(threads=4, clock=()) as server, ThreadPoolExecutor(12) as pool:
        began = time.monotonic()
        sources = [random.Random(seed) for seed in range(12)]
        crowd = [pool.submit(come_and_go, server, limit, one, began + 1.5) for one in sources]
        allowed = sum(one.result() for one in crowd)
        assert 0 < allowed <= 40 + RATE * (time.monotonic() - began)
        wait_until(lambda: server.metric("weir_waiting") == 0, "all to be gone")
        assert server.metric("weir_lines") == 0
        wait_until(lambda: server.take("crowd", limit).verdict == 0, "the bucket to drain")


@pytest.mark.soak
def test_soak():
    """The same, longer lives; SOAK_MINUTES, which `make soak` sets, says for how long."""
    until = time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", 1))
    seeds = itertools.count(random.SystemRandom().randrange(10**9))
    while time.monotonic() < until:
        with WaitingServer(threads=3) as server:
            for seed in itertools.islice(seeds, 50):
                wander(server, seed, 400)
