# SPDX-License-Identifier: MIT
"""How long one connection can hold up the others of its worker: it asks without end for what takes weir longest,
and another one's PING is timed from sending to answer. The figure is the worst of a round."""

import contextlib
import pathlib
import resource
import tempfile
import time

import servers
from machine import progress

FILL = 20000  # takes of one pipeline


def count_replies(connection, count):
    while count > 0:
        count -= connection.recv(1 << 20).count(b"*")


def fill_window(server, limit, events):
    """Events of cost 1, as near to one another as they come."""
    request = servers.resp("WEIR.TAKE", "k", limit).encode() * FILL
    with server.connect() as connection:
        for _ in range(events // FILL):
            connection.sendall(request)
            count_replies(connection, FILL)


class Greedy:
    """A connection that always has more to ask than has been answered."""

    def __init__(self, server, request):
        self.connection = server.connect()
        self.connection.setblocking(False)
        self.requests, self.at = request.encode() * 1000, 0

    def ask(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                self.at += self.connection.send(memoryview(self.requests)[self.at:])
                self.at %= len(self.requests)
        with contextlib.suppress(BlockingIOError):
            while self.connection.recv(1 << 20):
                pass


def worst_ping_ms(server, request, seconds):
    worst_s = 0.0
    greedy = Greedy(server, request)
    with greedy.connection, server.connect() as modest:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            greedy.ask()
            sent_s = time.monotonic()
            modest.sendall(servers.PING.encode())
            modest.recv(100)
            worst_s = max(worst_s, time.monotonic() - sent_s)
    return worst_s * 1000


def measure(report, name, server, request, bar=None, aim=None):
    samples = []
    for number in range(report.rounds):
        progress(f"{name}, round {number + 1} of {report.rounds}")
        samples.append({"ours": worst_ping_ms(server, request, report.seconds), "share": 1.0})
    report.pair(39, f"PING beside {name}: worst", "ms", samples, "ours", "share",
                "its share of a turn", bar, aim)


def beside_windows(report, folder):
    events = 100000 if report.rounds < 5 else 1000000
    limits = [f"window {events}/{3600 + i}s" for i in range(16)]
    with servers.weir(folder) as server:
        for limit in limits:
            progress(f"{events} events under {limit}")
            fill_window(server, limit, events)
        cost = ("COST", str(events))
        size = "1 M" if events == 1000000 else str(events)
        measure(report, f"takes of a window of {size}", server,
                servers.resp("WEIR.TAKE", "k", limits[0], *cost), 10.0, 2.0)
        measure(report, f"takes of 16 windows of {size}", server,
                servers.resp("WEIR.TAKE", "k", ", ".join(limits), *cost))


def beside_a_line(report, folder):
    """Of a kind whose line is walked through by every take that meets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(hard - 500, 1000 if report.rounds < 5 else 8000)
    limit = "stepped 1/10s waiting=100000"
    with servers.weir(folder) as server, contextlib.ExitStack() as stack:
        progress(f"{count} connections wait")
        for _ in range(count):
            connection = stack.enter_context(server.connect())
            connection.sendall(servers.resp("WEIR.TAKE", "k", limit, "WAIT", "86400000").encode())
        measure(report, f"takes that meet a line of {count}", server,
                servers.resp("WEIR.TAKE", "k", limit), 10.0, 2.0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def rows(report):
    """39: the worst stall that one connection can cause others."""
    with tempfile.TemporaryDirectory() as folder:
        beside_windows(report, pathlib.Path(folder))
        beside_a_line(report, pathlib.Path(folder))
