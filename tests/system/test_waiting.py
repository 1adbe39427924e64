"""Waiting in line over the wire: who is answered when, to the nanosecond of the test clock."""

import itertools
import select
import signal
import time

import pytest
from waiters import DAY_MS, StampedWaiter, WaitingServer
from weirserver import DEADLINE_S, WeirServer, wait_until

MS = 1_000_000
S = 1_000_000_000

protocols = pytest.mark.parametrize("protocol", ["resp", "http"])
# Each lets one go per second, and after one take somebody waits.
LIMITS = {
    "bucket": "1/s",
    "queue": "queue 1/s capacity=100",
    "now": "queue 1/s capacity=100 first=now",
    "stepped": "stepped 1/s",
    "window": "window 1/s",
}
limits = pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS.keys())


@pytest.fixture(params=["memory:", "memory:?shared=yes"], ids=["private", "shared"])
def server(request):
    with WaitingServer("--store", request.param, threads=3) as started:
        yield started


def answers(waiters):
    """Those that are answered now, as {number: answer}."""
    found = {number: waiter.answer() for number, waiter in waiters.items()}
    return {number: answer for number, answer in found.items() if answer is not None}


# ---- a burst becomes an even stream ----

WORKED_EXAMPLE = {
    # 20 arrivals, one each 25 ms: who is let in, and when they go, in milliseconds
    "interval": ([*range(1, 12), 17], range(200, 2401, 200)),
    "now": ([*range(1, 13), 17], range(0, 2401, 200)),
}


@protocols
@pytest.mark.parametrize("first", WORKED_EXAMPLE)
def test_a_burst_becomes_an_even_stream(server, protocol, first):
    """A nanosecond before an instant of egress nobody is answered; at it, exactly one is."""
    admitted, egress_ms = WORKED_EXAMPLE[first]
    limit = f"queue 5/s capacity=10 first={first}"
    arrivals = {25 * i * MS: i + 1 for i in range(20)}
    instants = sorted({*arrivals, *(ms * MS for ms in egress_ms)})
    waiting, gone, refused = {}, [], []
    for instant in instants:
        if instant > 0:
            server.advance(instant - 1 - server.now_ns())
            assert answers(waiting) == {}
            server.advance(1)
        if instant in arrivals:
            number = arrivals[instant]
            waiting[number] = server.join("mail", limit, protocol=protocol)
        answered = answers(waiting)
        for number, answer in answered.items():
            del waiting[number]
            assert answer.delay_ns == 0
            (refused if answer.verdict == 1 else gone).append((number, instant // MS))
    assert gone == list(zip(admitted, egress_ms, strict=True))
    assert [number for number, _ in refused] == [i for i in range(1, 21) if i not in admitted]
    assert waiting == {}


def test_the_delay_that_is_told_is_the_instant_at_which_a_waiter_goes(server):
    """The counter form and the line agree, also where an interval is no whole nanoseconds."""
    limit = "queue 7/s capacity=20"
    told = [server.take("told", limit).delay_ns for _ in range(10)]
    waiting = {i: server.join("gone", limit) for i in range(10)}
    assert told == [-(-S * (i + 1) // 7) for i in range(10)]
    for i, delay_ns in enumerate(told):
        server.advance(delay_ns - 1 - server.now_ns())
        assert answers(waiting) == {}
        server.advance(1)
        assert list(answers(waiting)) == [i]
        del waiting[i]


# ---- the same by the real clock ----

LATE_S = 0.015  # a test that is later than this itself measures nothing


def arrive(server, key, limit, count, every_s):
    """Starts `count` waits, one each `every_s`: (when, the waiters, whether all were in time)."""
    waiters = [StampedWaiter(server.resp_port) for _ in range(count)]
    began, is_in_time = time.time(), True
    for i, waiter in enumerate(waiters):
        at = began + i * every_s
        select.select([], [], [], max(0, at - time.time()))  # the arrivals are the test's clock
        is_in_time = is_in_time and time.time() - at < LATE_S
        waiter.ask(key, limit, DAY_MS)
    return began, waiters, is_in_time


def read_all(waiters):
    """When each of them was let in, in order: [(instant, number)]. The numbers count from 1."""
    found = [(*waiter.stamped_answer(), i + 1) for i, waiter in enumerate(waiters)]
    for waiter in waiters:
        waiter.close()
    return sorted((instant, number) for instant, answer, number in found if answer.verdict == 0)


def gaps_of(gone):
    return [after - before for (before, _), (after, _) in itertools.pairwise(gone)]


@pytest.mark.slow
def test_a_burst_becomes_an_even_stream_by_the_real_clock():
    """Never early, and half of the gaps are within 5 ms."""
    with WeirServer("--threads", 2) as server:
        for key in range(5):
            # 25 ms, and a little: so that nobody arrives at the instant at which one fits again
            limit = "queue 5/s capacity=10"
            began, waiters, is_in_time = arrive(server, f"mail-{key}", limit, 20, 0.0252)
            gone = read_all(waiters)
            if is_in_time:
                break
    assert [number for _, number in gone] == [*range(1, 12), 17]
    assert all(at - began > 0.2 * (i + 1) for i, (at, _) in enumerate(gone))
    assert sorted(abs(gap - 0.2) for gap in gaps_of(gone))[5] < 0.005


@pytest.mark.slow
def test_a_process_that_was_stopped_does_not_catch_up():
    """For 3 s, in which 60 would have gone. The rate stays, and so does the length of the line."""
    limit = "queue 20/s capacity=30"
    with WeirServer("--threads", 2) as server:
        _, waiters, _ = arrive(server, "a", limit, 30, 0)
        late = [StampedWaiter(server.resp_port) for _ in range(40)]
        sockets = [waiter.socket for waiter in waiters]
        wait_until(lambda: len(select.select(sockets, [], [], 0)[0]) >= 3, "three to go")
        server.signal(signal.SIGSTOP)
        for waiter in late:  # they come while nobody looks
            waiter.ask("a", limit, DAY_MS)
        select.select([], [], [], 3)  # not for anything to happen: the stall is what is tested
        resumed = time.time()
        server.signal(signal.SIGCONT)
        gone, gone_late = read_all(waiters), read_all(late)
    before = [at for at, _ in gone if at < resumed]
    after = sorted(at for at, _ in gone + gone_late if at >= resumed)
    assert len(gone) == 30 and 3 <= len(before) < 30
    assert min(later - earlier for earlier, later in itertools.pairwise(after)) > 0.025
    assert len(gone_late) <= len(before) + 2  # places that were free, or became so meanwhile


# ---- the order ----


@limits
def test_first_come_first_served_across_connections_workers_and_protocols(server, limit):
    server.take("a", limit)
    waiting = {i: server.join("a", limit, protocol=("resp", "http")[i % 2]) for i in range(14)}
    server.advance(S if limit == LIMITS["queue"] else 0)  # who took before them goes
    for i in range(14):
        server.advance(S - 1)
        assert answers(waiting) == {}
        server.advance(1)
        answered = answers(waiting)
        assert [(number, answer.verdict) for number, answer in answered.items()] == [(i, 0)]
        del waiting[i]


@limits
def test_who_does_not_wait_overtakes_nobody(server, limit):
    """Refused, also where there is room for it; the wait that it is told is enough, and needed."""
    server.take("a", limit)
    waiting = [server.join("a", limit) for _ in range(3)]
    refused = server.take("a", limit)
    assert refused.verdict == 1
    assert decision_of(server, "WEIR.CANTAKE", limit).retry_after_ns == refused.retry_after_ns
    server.advance(refused.retry_after_ns - 1)
    assert server.take("a", limit).verdict == 1
    server.advance(1)
    assert [waiter.answer().verdict for waiter in waiting] == [0, 0, 0]
    assert server.take("a", limit).verdict == 0


def decision_of(server, command, limit):
    """What another command says of the same bucket."""
    reply = server.ask(command, "a", limit)
    return type(server.take("other", "1/s"))(reply[0], *reply[2:])


def test_a_large_cost_at_the_head_is_not_overtaken_by_small_ones(server):
    limit = "1/s capacity=5"
    server.take("a", limit, 3)
    waiting = {"large": server.join("a", limit, cost=4), "small": server.join("a", limit, cost=1)}
    assert server.take("a", limit, 1).verdict == 1  # two would fit
    server.advance(2 * S - 1)
    assert answers(waiting) == {}
    server.advance(1)
    assert list(answers(waiting)) == ["large"]
    del waiting["large"]
    server.advance(S)
    assert list(answers(waiting)) == ["small"]


def test_several_go_at_once_where_several_fit(server):
    limit = "10/s capacity=10"
    server.take("a", limit, 10)
    waiting = {i: server.join("a", limit, cost=cost) for i, cost in enumerate([5, 2, 2, 1, 1])}
    server.ask("WEIR.REFUND", "a", limit, "COST", 10)
    server.settle()
    assert sorted(answers(waiting)) == [0, 1, 2, 3]


def test_what_costs_nothing_or_never_fits_waits_for_nobody(server):
    limit = "1/s capacity=2"
    server.take("a", limit, 2)
    server.join("a", limit)
    assert server.join("a", limit, cost=0).answer().verdict == 0
    never = server.join("a", limit, cost="2.000001").answer()
    assert (never.verdict, never.retry_after_ns) == (2, -1)


def test_lines_of_different_buckets_do_not_hold_each_other_up(server):
    waiting = {}
    for key, seconds in (("slow", 100), ("quick", 1)):
        server.take(key, f"1/{seconds}s")
        waiting[key] = server.join(key, f"1/{seconds}s")
    server.advance(S)
    assert list(answers(waiting)) == ["quick"]


def test_a_change_of_a_window_says_what_it_did_although_somebody_waits(server):
    limit = "window 10/3s"
    server.take("a", limit, 7)
    waiter = server.join("a", limit, cost=10)
    server.ask("WEIR.SHOW", "a", limit)
    assert server.ask("WEIR.FILL", "a", limit, "COST", 5)[6:] == ["2", 1]
    assert server.ask("WEIR.RESET", "a", limit) == 1
    server.settle()
    assert waiter.answer().verdict == 0


def test_a_reset_of_a_queue_leaves_those_who_wait(server):
    limit = "queue 10/s"
    server.ask("WEIR.FILL", "a", limit, "COST", 3)
    waiter = server.join("a", limit)
    server.ask("WEIR.FILL", "a", limit, "COST", 3)
    assert server.ask("WEIR.REFUND", "a", limit, "COST", 4)[2] == 7  # the three behind, and one
    assert server.ask("WEIR.RESET", "a", limit) == 1
    assert server.ask("WEIR.RESET", "a", limit) == 0
    assert server.ask("WEIR.SHOW", "a", limit)[6] == "1"
    server.advance(100 * MS - 1)
    assert waiter.answer() is None
    server.advance(1)
    assert waiter.answer().verdict == 0


@limits
def test_show_says_how_many_wait(server, limit):
    server.take("a", limit)
    waiters = [server.join("a", limit, protocol=protocol) for protocol in ("resp", "http")]
    assert server.ask("WEIR.SHOW", "a", limit)[7] == 2
    assert server.post("show", key="a", limit=limit).json["waiting"] == 2
    server.leave(waiters.pop())
    assert server.ask("WEIR.SHOW", "a", limit)[7] == 1


# ---- from one worker to another ----


def test_who_changes_a_bucket_brings_the_answer_to_other_workers(server):
    """Nothing else happens at the worker whose connection is answered: it is woken for that."""
    for change in (["REFUND", "a", "1/h"], ["RESET", "a", "1/h"], ["CLOCK", "ADVANCE", 3600 * S]):
        server.ask("WEIR.RESET", "a", "1/h")
        server.take("a", "1/h")
        for waiter in [server.join("a", "1/h") for _ in range(4)]:
            server.ask(f"WEIR.{change[0]}", *change[1:])
            assert waiter.answer(within_s=DEADLINE_S).verdict == 0


def test_who_leaves_lets_those_behind_go_at_other_workers(server):
    limit = "1/h capacity=5"
    for key in range(6):
        server.take(key, limit, 3)
        large = server.join(key, limit, cost=4)
        small = [server.join(key, limit) for _ in range(2)]
        large.close()
        assert [waiter.answer(within_s=DEADLINE_S).verdict for waiter in small] == [0, 0]


def test_a_timer_is_set_by_whoever_makes_somebody_the_first():
    """By the real clock. The first one's worker is not that of the next one, nor of who leaves."""
    with WaitingServer(threads=3, clock=()) as server:
        for limit in ("50/s capacity=1", "queue 50/s capacity=20", "queue 50/s first=now"):
            server.take(limit, limit)
            waiters = [server.connect() for _ in range(9)]
            for waiter in waiters:
                waiter.ask(limit, limit, DAY_MS)
                server.settle()
            waiters.pop(4).close()
            waiters.pop(0).close()
            assert [waiter.answer(within_s=DEADLINE_S).verdict for waiter in waiters] == [0] * 7


# ---- deadlines and bounds ----


@limits
def test_a_wait_in_vain_is_refused_at_once_and_told_what_is_missing(server, limit):
    server.take("a", limit)
    server.join("a", limit)
    needed_ms = 3000 if limit == LIMITS["queue"] else 2000
    refused = server.join("a", limit, wait_ms=needed_ms - 1).answer()
    assert (refused.verdict, refused.retry_after_ns) == (1, MS)
    server.advance(MS - 1)
    assert server.join("a", limit, wait_ms=needed_ms - 1).answer().retry_after_ns == 1
    server.advance(1)
    in_time = server.join("a", limit, wait_ms=needed_ms - 1)
    assert in_time.answer() is None
    server.advance(needed_ms * MS - MS - 1)
    assert in_time.answer() is None
    server.advance(1)
    assert in_time.answer().verdict == 0  # at its deadline


def test_who_is_delayed_by_a_fill_is_refused_at_the_deadline(server):
    limit = "1/s capacity=2"
    server.take("a", limit, 2)
    waiter = server.join("a", limit, wait_ms=1500)
    behind = server.join("a", limit)
    server.advance(600 * MS)
    server.ask("WEIR.FILL", "a", limit, "COST", 2)  # full again: the first one fits at 1600 ms
    server.advance(900 * MS - 1)
    assert waiter.answer() is None
    server.advance(1)
    refused = waiter.answer()
    assert refused.verdict == 1 and refused.retry_after_ns > 0
    server.advance(100 * MS - 1)
    assert behind.answer() is None
    server.advance(1)
    assert behind.answer().verdict == 0  # it has moved up


@pytest.mark.parametrize("blocks", ["first", "refused"])
def test_who_is_refused_at_the_deadline_locks_out_as_his_own_limit_says(server, blocks):
    server.take("a", "1/s")
    limits = {who: "1/s block=1min" if who == blocks else "1/s" for who in ("first", "refused")}
    first = server.join("a", limits["first"])
    waiter = server.join("a", limits["refused"], wait_ms=2500)
    server.advance(1600 * MS)
    assert first.answer().verdict == 0
    server.ask("WEIR.FILL", "a", "1/s", "COST", 1)  # to the brim: the next one fits at 2600 ms
    server.advance(900 * MS)
    refused = waiter.answer()
    assert refused.verdict == 1
    assert refused.retry_after_ns == (60 * S if blocks == "refused" else 100 * MS)
    assert server.take("a", "1/s").verdict == (3 if blocks == "refused" else 1)


@pytest.mark.parametrize("options, limit", [((), "1/s waiting=2"), (("--max-waiting", 2), "1/s")])
def test_a_line_is_bounded(options, limit):
    with WaitingServer(*options) as server:
        server.take("a", limit)
        waiting = [server.join("a", limit) for _ in range(2)]
        refused = server.join("a", limit).answer()
        assert (refused.verdict, refused.retry_after_ns) == (1, S)  # when the first is gone
        server.advance(S - 1)
        assert server.join("a", limit).answer().verdict == 1
        server.advance(1)
        assert waiting[0].answer().verdict == 0
        assert server.join("a", limit).answer() is None
        assert server.join("a", limit).answer().verdict == 1


def test_nobody_waits_where_waiting_is_0(server):
    limit = "queue 1/s capacity=3 first=now waiting=0"
    assert server.join("a", limit).answer().verdict == 0
    refused = server.join("a", limit).answer()
    assert (refused.verdict, refused.retry_after_ns) == (1, S)
    assert server.take("a", limit).delay_ns == S  # who is told his delay waits elsewhere


# ---- late is not a burst ----


def test_a_late_line_goes_on_at_its_rate_and_catches_nothing_up(server):
    """After 3.5 intervals one goes, then one per interval; and never more than C stand in line."""
    limit = "queue 1/s capacity=5"
    waiting = {i: server.join("a", limit) for i in range(5)}
    assert server.join("a", limit).answer().verdict == 1
    server.jump(3 * S + S // 2)
    assert list(answers(waiting)) == [0]
    assert server.join("a", limit).answer() is None  # one place is free, and no more
    assert server.join("a", limit).answer().verdict == 1
    for i in range(1, 5):
        server.advance(S - 1)
        assert answers(waiting).keys() - range(i) == set()
        server.advance(1)
        assert i in answers(waiting)
