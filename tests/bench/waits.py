# SPDX-License-Identifier: MIT
"""Waiting in line: when takes that wait are answered, and what it costs to keep them."""

import contextlib
import pathlib
import resource
import selectors
import tempfile
import time

import servers
from machine import Missing, progress

INTERVAL_S = 0.2  # 5 per second
ARRIVALS, SPACING_S = 20, 0.025


class Client:
    """One request on a connection of its own, and when its answer came."""

    def __init__(self, server, request, due_s):
        self.connection = server.connect()
        self.request, self.due_s, self.answered_s, self.reply = request, due_s, None, b""

    def is_admitted(self):
        return self.reply.startswith((b"HTTP/1.1 20", b"*6\r\n:0\r\n"))


def send_all(clients):
    """Sends each request at its time, and notes when each answer comes."""
    selector = selectors.DefaultSelector()
    start_s = time.monotonic() + 0.05
    waiting = sorted(clients, key=lambda client: client.due_s)
    open_count = 0
    while waiting or open_count:
        until_s = waiting[0].due_s - (time.monotonic() - start_s) if waiting else None
        if until_s is not None and until_s <= 0:
            client = waiting.pop(0)
            client.connection.sendall(client.request.encode())
            selector.register(client.connection, selectors.EVENT_READ, client)
            open_count += 1
            continue
        for key, _ in selector.select(until_s):
            key.data.answered_s = time.monotonic() - start_s
            key.data.reply = key.fileobj.recv(65536)
            selector.unregister(key.fileobj)
            open_count -= 1
    for client in clients:
        client.connection.close()


def gaps_of(clients):
    """The largest error of the gaps between those that were let through, in ms; and how many."""
    times = sorted(client.answered_s for client in clients if client.is_admitted())
    gaps = [after - before for before, after in zip(times, times[1:])]
    return max(abs(gap - INTERVAL_S) for gap in gaps) * 1000, len(times)


def worked_example(report):
    """28: 5 per second, 10 places, 20 arrivals every 25 ms, on both servers at once."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = {"HTTP": (stack.enter_context(servers.weir(folder, over_http=True)),
                         lambda key: servers.http(
                             f"/v1/check?key={key}&limit=queue%205/s%20capacity=10&wait_ms=60000")),
                "RESP": (stack.enter_context(servers.weir(folder)),
                         lambda key: servers.resp("WEIR.TAKE", key, "queue 5/s capacity=10",
                                                  "WAIT", "60000"))}
        everybody = dict(ours)
        try:
            nginx = stack.enter_context(servers.nginx(
                folder, "limit_req zone=keys {burst}; try_files /nothing @done;",
                burst="burst=10", rate="5r/s"))
            everybody["nginx"] = (nginx, lambda key: servers.http(f"/?key={key}"))
        except Missing as why:
            report.missing(28, "nginx", why)
        samples = []
        for number in range(report.rounds):
            progress(f"worked example, round {number + 1} of {report.rounds}")
            shift_s = SPACING_S / len(everybody)
            clients = {name: [Client(server, ask(f"k{number}"), i * SPACING_S + place * shift_s)
                              for i in range(ARRIVALS)]
                       for place, (name, (server, ask)) in enumerate(everybody.items())}
            send_all([client for mine in clients.values() for client in mine])
            errors = {name: gaps_of(mine) for name, mine in clients.items()}
            samples.append({name: error for name, (error, _) in errors.items()})
            counts = {name: count for name, (_, count) in errors.items()}
        for name in ours:
            report.pair(28, f"queue 5/s, {name}: worst gap error of {counts[name]} let through", "ms",
                        samples, name, "nginx", "nginx limit_req", 0.5, 0.2)


def waiters_bytes(report):
    """30: what one who waits costs beside his connection: everybody at a bucket of his own, the
    dearest case, or all at one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(hard - 500, 2000 if report.rounds < 5 else 18000)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, key, limit in (("a line each", "k{}", "1/d waiting=1000000"),
                                 ("one line", "k", "queue 1/s capacity=1000000")):
            server = stack.enter_context(servers.weir(folder, memory="64M"))
            progress(f"{count} connections wait: {name}")
            connections = [server.connect() for _ in range(count)]
            for i, connection in enumerate(connections):  # the table and its lines are touched
                connection.sendall(servers.resp(
                    "WEIR.TAKE", key.format(i), "1/d").encode())
                connection.recv(200)
            before = server.resident_kib()
            for i, connection in enumerate(connections):
                connection.sendall(servers.resp(
                    "WEIR.TAKE", key.format(i), limit, "WAIT", "86400000").encode())
            with server.connect() as asking:  # answered when all of those are read: one worker
                asking.sendall(servers.PING.encode())
                asking.recv(100)
            report.add(30, f"{count} who wait, {name}: each", (server.resident_kib() - before)
                       * 1024 / count, "B", "512 bytes", 512.0, 1.0)
            for connection in connections:
                connection.close()
            server.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
