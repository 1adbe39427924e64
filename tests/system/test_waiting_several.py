"""Waiting under several limits over the wire: who is answered when, to the nanosecond of the test clock."""

import signal

import pytest
from waiters import WaitingServer

MS = 1_000_000
S = 1_000_000_000

protocols = pytest.mark.parametrize("protocol", ["resp", "http"])


@pytest.fixture(params=["memory:", "memory:?shared=yes"], ids=["private", "shared"])
def server(request):
    with WaitingServer("--store", request.param, threads=3) as started:
        yield started


def level_ns(server, key, limit):
    """How long it takes until the bucket is empty."""
    return server.ask("WEIR.SHOW", key, limit)[4]


@protocols
def test_it_goes_when_all_limits_let_it(server, protocol):
    server.take("k", "1/s")
    server.take("k", "1/3s")
    both = server.join("k", "1/s, 1/3s", protocol=protocol)
    server.advance(3 * S - 1)
    assert both.answer() is None
    assert level_ns(server, "k", "1/s") == 0  # charged with the other, or not at all
    server.advance(1)
    assert both.answer().verdict == 0
    assert (level_ns(server, "k", "1/s"), level_ns(server, "k", "1/3s")) == (S, 3 * S)


@protocols
def test_a_limit_with_room_is_not_held_up(server, protocol):
    server.take("k", "1/10s")
    both = server.join("k", "5/s, 1/10s", protocol=protocol)
    assert server.take("k", "5/s").verdict == 0
    server.advance(10 * S)
    assert both.answer().verdict == 0


def test_lines_keep_the_order_of_arrival_across_protocols(server):
    server.take("k", "1/s")
    server.take("k", "1/2s")
    waiters = [
        server.join("k", limit, protocol=protocol)
        for limit, protocol in [("1/s, 1/2s", "resp"), ("1/s", "http"), ("1/2s, 1/s", "http"),
                                ("1/2s", "resp"), ("1/s, 1/2s", "resp")]
    ]
    # A lets one go per second, B one per two: the first at 2 (B), then A alone at 3, both at 4, B
    # alone at 6, both at 8.
    went = {}
    for second in range(1, 10):
        server.advance(S)
        for number, waiter in enumerate(waiters):
            if number not in went and (answer := waiter.answer()) is not None:
                assert answer.verdict == 0
                went[number] = second
    assert went == {0: 2, 1: 3, 2: 4, 3: 6, 4: 8}


def test_a_queue_behind_a_bucket_answers_at_egress(server):
    limits = "10/min, queue 1/s capacity=5"
    first, second = server.join("k", limits), server.join("k", limits, protocol="http")
    assert level_ns(server, "k", "10/min") == 12 * S
    server.advance(1 * S)
    assert first.answer().verdict == 0 and second.answer() is None
    server.leave(second)  # and gets back what the bucket was charged
    assert level_ns(server, "k", "10/min") == 5 * S
    assert level_ns(server, "k", "queue 1/s capacity=5") == 0


@protocols
def test_who_would_be_late_is_refused_at_once(server, protocol):
    server.take("k", "1/s")
    server.take("k", "1/10s")
    answer = server.join("k", "1/s, 1/10s", wait_ms=4000, protocol=protocol).answer()
    assert (answer.verdict, answer.retry_after_ns) == (1, 6 * S)
    assert server.take("k", "1/s").verdict == 1
    server.advance(S)
    assert server.take("k", "1/s").verdict == 0  # nobody stands there


def test_who_is_let_in_before_the_first_costs_nobody_its_deadline(server):
    server.take("k", "1/3s")
    both = server.join("k", "1/3s, 1/10s")  # the first limit refuses it until 3 s
    server.take("k", "1/10s")
    half = server.join("k", "1/10s", cost="0.5", wait_ms=8000)  # the first there, due at 5 s
    server.advance(8 * S - 1)
    assert half.answer() is None
    server.advance(1)
    assert half.answer().verdict == 1
    server.advance(2 * S)
    assert both.answer().verdict == 0


def test_take_all_waits_with_several_keys(server):
    server.take("everyone", "1/2s")
    waiter = server.connect()
    server.waiters.append(waiter)
    waiter.client.send("WEIR.TAKEALL", 2, "alice", "5/s", "everyone", "1/2s", "WAIT", 5000)
    server.settle()
    assert waiter.answer() is None
    server.advance(2 * S)
    assert waiter.client.read_reply() == [
        0, 1, 0, -1, 2 * S, 0, -1, [5, 4, 200 * MS], [1, 0, 2 * S]
    ]


def test_a_server_that_ends_answers_them(server):
    server.take("k", "1/s")
    waiters = [server.join("k", "1/s, 5/s", protocol=name) for name in ("resp", "http")]
    server.process.send_signal(signal.SIGTERM)
    assert [waiter.answer(within_s=10).verdict for waiter in waiters] == [4, 4]
