#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make bench: weir's figures as ratios, each beside a peer or a limit of the machine that is
measured in turn with it, in the same run. Prints one line per ratio, asserts nothing.

    bench.py [--rows 1,2,10] [--quick] [--out build/bench]

README.md beside it says how it measures, and what the traps are."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import databases
import servers
import stalls
import streams
import waits
from machine import (DELAYED, PEERS, PROGRAMS, ROOT, WEIR, Missing, Program, Quiet, describe, progress, tool)
from servers import Load

GOVERNOR = PEERS / "governor" / "release" / "governor-bench"
XTIME = PEERS / "xtime" / "xtime-bench"


WARM = set()  # (name, address) of what has had its keys already


class Report:
    """The lines: {row, name, figure, unit, peer, peer_figure, ratio, bar, aim, verdict}."""

    def __init__(self, rounds, seconds, keys, rows):
        self.rounds, self.seconds, self.keys = rounds, seconds, keys
        self.rows = rows  # only these are kept: one program may measure more
        self.lines = []

    def add(self, row, name, figure, unit, peer, peer_figure, bar=None, aim=None, ratio=None,
            at_least=False):
        if row not in self.rows:
            return
        if ratio is None:
            ratio = figure / peer_figure
        verdict = ""
        if bar is not None:
            holds = ratio >= bar if at_least else ratio <= bar
            reached = aim is not None and (ratio >= aim if at_least else ratio <= aim)
            verdict = "ok, aim reached" if holds and reached else "ok" if holds else "MISSED"
        self.lines.append({"row": row, "name": name, "figure": figure, "unit": unit, "peer": peer,
                           "peer_figure": peer_figure, "ratio": ratio, "bar": bar, "aim": aim,
                           "at_least": at_least, "verdict": verdict})
        print(text_of(self.lines[-1]), flush=True)

    def missing(self, row, name, why):
        if row not in self.rows:
            return
        self.lines.append({"row": row, "name": name, "peer": str(why), "verdict": "no peer"})
        print(text_of(self.lines[-1]), flush=True)

    def pair(self, row, name, unit, samples, ours, theirs, peer, bar=None, aim=None, **more):
        """The median of the rounds' own ratios: only what ran side by side is compared."""
        pairs = [(each[ours], each[theirs]) for each in samples if ours in each and theirs in each]
        if not pairs:
            self.missing(row, f"{name} / {peer}", "not measured")
            return
        ratios = sorted(mine / other for mine, other in pairs)
        self.add(row, name, statistics.median(mine for mine, _ in pairs), unit, peer,
                 statistics.median(other for _, other in pairs), bar, aim, statistics.median(ratios), **more)
        if row in self.rows:
            self.lines[-1]["spread"] = (ratios[-1] - ratios[0]) / statistics.median(ratios)


def short(ratio):
    return f"{ratio:.2f}" if ratio >= 0.2 else f"1/{1 / ratio:.1f}"


def text_of(line):
    if line["verdict"] == "no peer":
        return f"{line['row']:>3}  {line['name']:<44} no peer: {line['peer']}"
    sign = ">=" if line["at_least"] else "<="
    ratio = f"{line['ratio']:.4f}" if line["row"] == 19 else short(line["ratio"])
    text = (f"{line['row']:>3}  {line['name']:<44} {line['figure']:>9.2f} {line['unit']:<9}"
            f" {line['peer']:<28} {line['peer_figure']:>9.2f}  x{ratio:<7}")
    if line["bar"] is not None:
        aim = f" (aim {short(line['aim'])})" if line["aim"] is not None else ""
        text += f" bar {sign} {short(line['bar'])}{aim}  {line['verdict']}"
    return text.rstrip()


def in_turns(rounds, programs):
    """Asks every program for a round, in turn; one merged sample per round."""
    samples = []
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        sample = {}
        for program in programs:
            sample.update(program.round())
        samples.append(sample)
    return samples


def open_programs(stack, report, row, wanted):
    """Those of `wanted` (name, command...) that exist; a line for each that does not."""
    programs = []
    for name, *command in wanted:
        try:
            programs.append(stack.enter_context(Program(*command)))
        except Missing as why:
            report.missing(row, name, why)
    return programs


def rows_one_bucket(report):
    """1-3: one bucket in the process."""
    with contextlib.ExitStack() as stack:
        programs = open_programs(stack, report, 1, [
            ("weir", PROGRAMS / "bench_one_bucket"), ("governor (cargo)", GOVERNOR, "direct"),
            ("x/time/rate (go)", XTIME)])
        samples = in_turns(max(report.rounds, 5), programs)
    name = "decision with its own clock"
    report.pair(1, name, "ns", samples, "take_clock", "raw_clock", "clock + load + CAS16", 1.4, 1.1)
    if GOVERNOR.exists():
        report.pair(1, name, "ns", samples, "take_clock", "governor_direct", "governor check()",
                    1.5, 1.1)
    if XTIME.exists():
        report.pair(1, name, "ns", samples, "take_clock", "xtime_direct", "x/time/rate Allow()")
    report.pair(2, "time passed in, accepted", "ns", samples, "take_allowed", "raw",
                "load + CAS16", 1.5, 1.15)
    report.pair(2, "time passed in, denied", "ns", samples, "take_denied", "raw", "load + CAS16",
                0.8, 0.35)
    report.pair(3, "one hot key, 2 threads, accepted", "ns", samples, "hot_allowed", "hot_mutex",
                "mutex + double + clock", 0.8, 0.5)
    # The mutex is at its best, 28 ns, where one core keeps its line: a clock and a load by two threads are 0.18 of it.
    report.pair(3, "one hot key, 2 threads, denied", "ns", samples, "hot_denied",
                "hot_mutex_denied", "mutex + double + clock", 0.3, 0.1)


def rows_many_keys(report):
    """4-9 and 37: ten million keys in the process."""
    progress(f"filling the tables with {report.keys} keys")
    with contextlib.ExitStack() as stack:
        programs = open_programs(stack, report, 7, [
            ("weir", PROGRAMS / "bench_many_keys", "weir", report.keys),
            ("governor keyed (cargo)", GOVERNOR, "keyed", report.keys),
            ("uthash + mutex", PROGRAMS / "bench_many_keys", "uthash", report.keys)])
        samples = in_turns(max(report.rounds, 5), programs)
    size = f"{report.keys / 1e6:g} M keys"
    report.pair(4, f"keyed, one call, {size}", "ns", samples, "single", "load", "a dependent load",
                1.0, 0.6)
    name = f"keyed batch of 32, {size}"
    report.pair(5, name, "ns", samples, "batch", "cas", "prefetched CAS16", 2.0, 1.45)
    report.pair(6, name, "ns", samples, "batch", "naive", "weir one by one, own clock", 1 / 4, 1 / 8)
    report.pair(7, name, "ns", samples, "batch", "map", "uthash + mutex + double", 1 / 20, 1 / 40)
    if GOVERNOR.exists():
        report.pair(7, name, "ns", samples, "batch", "governor_keyed", "governor keyed",
                    1 / 18, 1 / 35)
    report.pair(8, "batches, 2 threads, decisions per time", "x", [
        {"speed": each["one_thread"] / each["two_threads"], "one": 1.0} for each in samples],
        "speed", "one", "1 thread", 1.6, 1.9, at_least=True)
    # Two decisions, four locked operations one after another, and the stripe's line: 2.45 where a miss overlaps best.
    report.pair(37, f"take under two limits, batched, {size}", "ns", samples, "under_two", "batch",
                "under one", 2.75, 2.2)
    report.pair(37, f"take under four limits, batched, {size}", "ns", samples, "under_four", "batch",
                "under one")
    samples = samples[-1:]
    name = f"bytes per key at load {samples[0]['table_load']:.2f}"
    if samples[0]["full_count"]:
        name += f", {samples[0]['full_count']:.0f} refused for lack of room"
    if GOVERNOR.exists():
        report.pair(9, name, "B", samples, "bytes_per_key", "governor_bytes_per_key",
                    "governor keyed", 0.6)
    report.pair(9, name, "B", samples, "bytes_per_key", "map_bytes_per_key", "uthash")
    return samples[0]["bytes_per_key"]


def rows_stores(report):
    """34, 35: the same table in a file; on a disk the kernel also writes it back meanwhile."""
    progress(f"filling tables in memory and in files with {report.keys} keys")
    disk = ROOT / "build" / "bench"
    disk.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        programs = open_programs(stack, report, 20, [
            (kind, PROGRAMS / "bench_many_keys", kind, report.keys, *folder)
            for kind, *folder in (("file", "/dev/shm"), ("small",), ("huge",), ("disk", disk))])
        samples = in_turns(max(report.rounds, 5), programs)
    size = f"{report.keys / 1e6:g} M keys"
    for name, how in (("one call", "single"), ("batch of 32", "batch")):
        for peer, pages, bar in (("small", "4 KiB", 1.1), ("huge", "2 MiB", 1.5)):
            report.pair(34, f"in a file, {name}, {size}", "ns", samples, f"file_{how}",
                        f"{peer}_{how}", f"in memory, pages of {pages}", bar)
        report.pair(34, f"on a disk, {name}, {size}", "ns", samples, f"disk_{how}", f"small_{how}",
                    "in memory, pages of 4 KiB")
    report.pair(35, "opening a file of 1 GiB", "us", samples, "file_open_large", "file_open_little",
                "opening one of 1 MiB", 2.0)


def row_kinds(report):
    """36: each kind of limit beside the bucket; in the cache, where nothing hides what it costs, and not."""
    keys = report.keys // 5
    with contextlib.ExitStack() as stack:
        for some, size in ((1000, "1000 keys"), (keys, f"{keys / 1e6:g} M keys")):
            kinds = ("bucket", "queue", "stepped", "fixed", "sliding")
            programs = open_programs(stack, report, 36, [  # so slow and so roomy that every take passes
                ("kinds", PROGRAMS / "bench_kinds", some, "1000000/3650d", *kinds)])
            samples = in_turns(max(report.rounds, 5), programs)
            for kind in kinds[1:]:
                for name, how in (("one call", "single"), ("batch of 32", "batch")):
                    # A call that waits for a whole miss, beside a bucket's that overlaps with the next.
                    is_whole_miss = some == keys and how == "single" and kind != "queue"
                    report.pair(36, f"{kind}, {name}, {size}", "ns", samples, f"{kind}_{how}",
                                f"bucket_{how}", "bucket", 1.8 if is_whole_miss else 1.5)


def row_article(report):
    """38: bucket, fixed window and exact window, as an article compares them: calls over a hundred names, of which
    few pass; and over as many keys as in 36, all of which pass. What the log of a window takes of memory."""
    for keys, rate, name in ((100, "10/10s", "100 keys, nearly all refused"),
                             (1000, "1000000/100ms", "1000 keys, all pass")):
        with contextlib.ExitStack() as stack:
            programs = open_programs(stack, report, 38, [
                ("kinds", PROGRAMS / "bench_kinds", keys, rate, "bucket", "fixed", "window")])
            samples = in_turns(max(report.rounds, 5), programs)
        for kind, bar in (("fixed", 1.5), ("window", None)):
            report.pair(38, f"{kind}, one call, {name}", "ns", samples, f"{kind}_single", "bucket_single",
                        "bucket", bar)
    for apart in ("second", "day"):
        report.pair(38, f"window, an event, 1 {apart} apart", "B", samples, f"event_{apart}", "event_most",
                    "8 bytes", 1.0)


def row_choices(report):
    """40: what weir chose among the ways that this processor has, beside the plain one. Above 1 another choice is
    due for such a processor."""
    with contextlib.ExitStack() as stack:
        programs = open_programs(stack, report, 40, [("choices", PROGRAMS / "bench_choices")])
        samples = in_turns(max(report.rounds, 5), programs)
    for name, ours, plain, peer in (("hash of one key", "hash", "hash_plain", "without vectors"),
                                    ("hash, of eight keys", "hashes", "hashes_plain", "without vectors"),
                                    ("load + CAS16", "load", "load_by_cas", "load by CAS16")):
        report.pair(40, name, "ns", samples, ours, plain, peer, 1.1, 1.0)


def redis_bytes_per_key(folder):
    count = 500000
    with servers.redis(folder) as server:
        def used():
            info = servers.reply_of(server, servers.resp("INFO", "memory")).decode()
            return int(info.split("used_memory:")[1].split()[0])
        before = used()
        load = Load(server, folder, servers.evalsha(f"client::{servers.KEY}"), 8, 16, count)
        after = 0
        try:
            load.sweep()
            after = used()
        finally:
            load.close()
        return (after - before) / count


def nginx_bytes_per_key(folder):
    """A zone of 1 MiB: how many of the keys, newest first, does it still limit?"""
    with servers.nginx(folder, "limit_req zone=keys; try_files /nothing @done;", zone="1m",
                       name="nginxzone", rate="1r/m") as server:
        def ask(connection, index):
            request = servers.KEYED_PATH.replace("user:", "client::").replace(
                servers.KEY, f"{index:08}")
            connection.sendall(request.encode())
            return connection.recv(4096)
        with server.connect() as connection:
            count = 12000
            for index in range(count):
                ask(connection, index)
            held = 0
            for index in reversed(range(count)):
                if b" 503 " not in ask(connection, index).split(b"\r\n")[0]:
                    break
                held += 1
    return 2**20 / held


def row_bytes(report, bytes_per_key):
    with tempfile.TemporaryDirectory() as text:
        for peer, measure in (("Redis GCRA string + PX", redis_bytes_per_key),
                              ("nginx limit_req zone", nginx_bytes_per_key)):
            progress(f"bytes per key: {peer}")
            try:
                report.add(9, "bytes per key", bytes_per_key, "B", peer,
                           measure(pathlib.Path(text)), 0.34)
            except Missing as why:
                report.missing(9, peer, why)


def start_all(stack, report, row, starters):
    started = {}
    for name, start in starters:
        try:
            started[name] = stack.enter_context(start())
        except Missing as why:
            report.missing(row, name, why)
    return started


def warm_up(name, server, folder, request):
    """Every key once: no page of a table is touched, and no key made, under the measurement."""
    if (name, server.address) in WARM:
        return
    WARM.add((name, server.address))
    progress(f"sending 100000 keys once: {name}")
    load = Load(server, folder, request, 16, 64)
    try:
        load.sweep()
    finally:
        load.close()


def measure_loads(report, wanted, pipeline, folder, connections=50):
    """Interleaved: each round asks every server once. `wanted`: name -> (server, request)."""
    samples = []
    with contextlib.ExitStack() as stack:
        loads = {}
        for name, (server, request) in wanted.items():
            loads[name] = Load(server, folder, request, connections, pipeline)
            stack.callback(loads[name].close)
            warm_up(name, server, folder, request)
        for number in range(report.rounds):
            progress(f"pipeline {pipeline}, round {number + 1} of {report.rounds}")
            samples.append({name: load.run(report.seconds)["us"] for name, load in loads.items()})
    return samples


def rows_resp(report, rows):
    """10-12: the RESP server, one worker, 50 connections, 100 k keys."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weir = stack.enter_context(servers.weir(folder))
        reply = servers.reply_of(weir, servers.THROTTLE)
        started = start_all(stack, report, 10, [
            ("floor", lambda: servers.floor(folder, "resp", servers.THROTTLE, reply)),
            ("redis", lambda: servers.redis(folder)),
            ("throttlecrab", lambda: servers.throttlecrab(folder))])
        wanted = {"weir": (weir, servers.THROTTLE), "floor": (started["floor"], servers.THROTTLE)}
        wanted["weir_take"] = (weir, servers.resp(
            "WEIR.TAKE", f"user:{servers.KEY}", "1000/d capacity=1000000"))
        if "redis" in started:
            wanted["lua"] = (started["redis"], servers.EVALSHA)
            wanted["ping"] = (started["redis"], servers.PING)
            wanted["get"] = (started["redis"], servers.GET)
        if "throttlecrab" in started:
            wanted["crab"] = (started["throttlecrab"], servers.THROTTLECRAB)
        bars = {
            10: (1, {"floor": (1.3, 1.15), "ping": (1.05, 0.95), "lua": (0.65, 0.42),
                     "crab": (0.9, 0.8)}),
            11: (16, {"floor": (1.7, 1.3), "get": (0.5, 0.34), "lua": (1 / 9, 1 / 18)}),
            12: (64, {"floor": (2.5, 1.8), "ping": (0.8, 0.5), "lua": (1 / 22, 1 / 45),
                      "crab": (1 / 14, 1 / 20)}),
        }
        names = {"floor": "parse nothing", "ping": "redis PING", "get": "redis GET",
                 "lua": "redis, GCRA in Lua", "crab": "throttlecrab"}
        for row in sorted(set(rows) & set(bars)):
            pipeline, limits = bars[row]
            samples = measure_loads(report, wanted, pipeline, folder)
            for peer, (bar, aim) in limits.items():
                if peer in wanted:
                    report.pair(row, f"CL.THROTTLE, P={pipeline}", "us", samples, "weir", peer,
                                names[peer], bar, aim)
            report.pair(row, f"WEIR.TAKE, P={pipeline}", "us", samples, "weir_take", "floor",
                        names["floor"])


def row_later(report):
    """41: what a store that answers later costs this side of the wire: the table behind one that delays nothing, beside
    the table. The microseconds between the two, a decision. One at a time, a decision pays for a whole batch, and for
    the turn in which its answer comes."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        table = stack.enter_context(servers.weir(folder))
        later = stack.enter_context(servers.weir(folder, program=DELAYED))
        for pipeline, bar, aim in ((64, 0.3, 0.1), (16, 0.3, 0.15), (1, None, None)):
            samples = measure_loads(report, {"table": (table, servers.THROTTLE), "later": (later, servers.THROTTLE)},
                                    pipeline, folder)
            report.pair(41, f"CL.THROTTLE, P={pipeline}, later: more than at once", "us",
                        [{"more": each["later"] - each["table"], "us": 1.0} for each in samples], "more", "us",
                        "1 us", bar, aim)


def row_wide(report):
    """13: ten million keys against a hundred thousand, over the wire."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weir = stack.enter_context(servers.weir(folder))
        loads = {}
        for name, keys in (("few", 100000), ("many", report.keys)):
            loads[name] = Load(weir, folder, servers.THROTTLE, 50, 64, keys)
            stack.callback(loads[name].close)
            progress(f"sending {keys} keys once")
            loads[name].sweep()
        samples = [{name: load.run(report.seconds)["us"] for name, load in loads.items()}
                   for _ in range(report.rounds)]
        report.pair(13, f"CL.THROTTLE, P=64, {report.keys / 1e6:g} M keys", "us", samples, "many",
                    "few", "the same, 100 k keys", 1.7, 1.4)


def row_unix(report):
    """14: a unix socket against TCP."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        local = stack.enter_context(servers.weir(folder, unix=True))
        tcp = stack.enter_context(servers.weir(folder))
        reply = servers.reply_of(tcp, servers.THROTTLE)
        floor = stack.enter_context(
            servers.floor(folder, "unix", servers.THROTTLE, reply, unix=True))
        samples = measure_loads(report, {
            "unix": (local, servers.THROTTLE), "tcp": (tcp, servers.THROTTLE),
            "floor": (floor, servers.THROTTLE)}, 1, folder)
        report.pair(14, "CL.THROTTLE, P=1, unix socket", "us", samples, "unix", "tcp",
                    "the same over TCP", 0.75, 0.6)
        report.pair(14, "CL.THROTTLE, P=1, unix socket", "us", samples, "unix", "floor",
                    "parse nothing, unix socket")


def rows_http(report, rows):
    """16, 17: the HTTP server, one worker."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weir = stack.enter_context(servers.weir(folder, over_http=True))
        reply = servers.reply_of(weir, servers.WEIR_CHECK)
        started = start_all(stack, report, 16, [
            ("floor", lambda: servers.floor(folder, "http", servers.WEIR_CHECK, reply)),
            ("limited", lambda: servers.nginx_limited(folder)),
            ("204", lambda: servers.nginx_204(folder)),
            ("haproxy", lambda: servers.haproxy(folder)),
            ("crab", lambda: servers.throttlecrab(folder, over_http=True))])
        requests = {"floor": servers.WEIR_CHECK, "crab": servers.CRAB_POST}
        wanted = {"weir": (weir, servers.WEIR_CHECK), "post": (weir, servers.WEIR_TAKE)}
        for name, server in started.items():
            wanted[name] = (server, requests.get(name, servers.KEYED_PATH))
        names = {"floor": "parse nothing", "limited": "nginx limit_req", "204":
                 "nginx return 204", "haproxy": "HAProxy stick table", "crab": "throttlecrab POST"}
        bars = {
            16: (1, {"floor": (1.2, 1.08), "limited": (0.85, 0.65), "204": (1.05, 0.9),
                     "haproxy": (0.65, 0.5), "crab": (0.7, 0.55)}),
            17: (16, {"limited": (1 / 6, 1 / 12)}),
        }
        for row in sorted(set(rows) & set(bars)):
            pipeline, limits = bars[row]
            samples = measure_loads(report, wanted, pipeline, folder)
            for peer, (bar, aim) in limits.items():
                if peer in wanted:
                    report.pair(row, f"GET /v1/check, P={pipeline}", "us", samples, "weir", peer,
                                names[peer], bar, aim)
            report.pair(row, f"POST /v1/take, P={pipeline}", "us", samples, "post", "floor",
                        names["floor"])


def add_precision(report, name, unit, ratio, peer):
    error = abs(ratio - 1)
    report.add(19, name, ratio, unit, peer, 1.0, ratio=ratio)
    verdict = ("MISSED" if error > 0.002 else
               "ok, aim reached" if error <= 0.0002 and ratio <= 1 else "ok")
    report.lines[-1].update(verdict=verdict, precision_bar=0.002)
    print(f"     {'':<44} bar 1 +- 0.002 (aim 0.0002, never above)  {verdict}", flush=True)


def admitted_over_wire(folder, server, request, rate, burst):
    load = Load(server, folder, request, 4, 16, 1)
    try:
        figures = load.run(4.0)
    finally:
        load.close()
    return figures["allowed_at_refusal"] / (rate * figures["seconds_at_refusal"] + burst)


def row_precision(report):
    """19: admitted / (r t + b) under far more than r."""
    with Program(PROGRAMS / "bench_precision") as program:
        progress("admission precision")
        samples = [program.round() for _ in range(3)]
    for rate in samples[0]:
        ratio = statistics.median(each[rate] for each in samples)
        add_precision(report, f"admitted at {rate}, in process", "of ideal", ratio, "r t + b")
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weir = stack.enter_context(servers.weir(folder))
        for rate in (1000, 5000):
            request = servers.resp("WEIR.TAKE", f"k{servers.KEY}", f"{rate}/s capacity={rate // 10}")
            ratio = admitted_over_wire(folder, weir, request, rate, rate // 10)
            add_precision(report, f"admitted at {rate}/s, RESP", "of ideal", ratio, "r t + b")
        try:
            nginx = stack.enter_context(servers.nginx(
                folder, "limit_req zone=keys; try_files /nothing @done;", rate="5000r/s"))
            ratio = admitted_over_wire(folder, nginx, servers.KEYED_PATH, 5000, 1)
            report.add(19, "nginx limit_req at 5000/s, no burst", ratio, "of ideal", "r t + b", 1.0)
        except Missing as why:
            report.missing(19, "nginx", why)


def cpu_of_runs(command, count):
    """Processor milliseconds of one run of a command, its start included."""
    total = 0.0
    for _ in range(count):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        total += usage.ru_utime + usage.ru_stime
    return total * 1000 / count


def rows_pacing(report):
    """26 and 27: how even, and how late, a shaper lets items go."""
    quick = report.rounds < 5
    samples = []
    with Program(PROGRAMS / "bench_pacing") as program:
        for number in range(1 if quick else 3):
            progress(f"pacing, round {number + 1}")
            samples.append(program.round("1" if quick else "10"))
    for rate in (5, 100, 1000, 10000):
        stalls = sum(each[f"late_{rate}"] for each in samples)
        error = statistics.median(each[f"error_{rate}"] for each in samples)
        report.add(26, f"rate error at {rate}/s ({stalls:.0f} stalls)", error, "ppm",
                   "ideal, in ppm", 1.0, 200, 60)
    report.pair(27, "lateness at 1000/s, p99", "us", samples, "late_p99", "bare_p99",
                "timerfd + epoll", 1.5, 1.0)


def rows_timers(report):
    """30: to fire and to schedule with 100,000 queued."""
    with Program(PROGRAMS / "bench_timers") as program:
        samples = in_turns(max(report.rounds, 5), [program])
    report.pair(30, "fire + schedule, wheel, as in a queue", "ns", samples, "queue_wheel",
                "queue_heap", "4-ary heap", 0.5, 0.15)
    report.pair(30, "the same", "ns", samples, "queue_wheel", "plain_heap",
                "a heap that nobody can leave")
    report.pair(30, "the same, waits of 1 to 10 s by chance", "ns", samples, "mixed_wheel",
                "mixed_heap", "4-ary heap")
    report.pair(30, "pop + submit of a shaper, its lock included", "ns", samples, "shaper",
                "queue_heap", "4-ary heap, no lock")


def row_stream(report):
    """29: how evenly 1 MB/s flows."""
    programs = {"weir": [WEIR, "pipe", "--bytes", "1000000/s"]}
    try:
        programs["pv"] = [tool("pv", "pv"), "-q", "-L", "1000000"]
    except Missing as why:
        report.missing(29, "pv", why)
    samples = []
    for number in range(report.rounds):
        progress(f"round {number + 1} of {report.rounds}")
        samples.append({name: streams.spread_ms(streams.read_stamped(command, 3.0))[0]
                        for name, command in programs.items()})
    report.pair(29, "weir pipe, 1 MB/s: spread", "ms", samples, "weir", "pv", "pv -L", 1 / 10, 1 / 50)


def row_one_shot(report):
    """32: what one `weir take` costs."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weir = stack.enter_context(servers.weir(folder))
        take = [str(WEIR), "take", "alice", "10/s", "--server", f"127.0.0.1:{weir.address}"]
        try:
            version = [tool("redis-cli", "redis-tools"), "--version"]
        except Missing as why:
            report.missing(32, "redis-cli", why)
            return
        in_file = [str(WEIR), "take", "alice", "10/s", "--store", f"file:{folder}/store"]
        samples = [{"take": cpu_of_runs(take, 60), "cli": cpu_of_runs(version, 60),
                    "file": cpu_of_runs(in_file, 60)} for _ in range(report.rounds)]
        report.pair(32, "weir take, one shot", "ms", samples, "take", "cli", "redis-cli --version",
                    0.7, 0.45)
        report.pair(32, "weir take in a file, one shot", "ms", samples, "file", "cli",
                    "redis-cli --version", 0.7, 0.45)


def row_idle(report):
    """33: resident memory of an empty server."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(servers.weir(folder, memory="256M", threads=os.cpu_count()))
        started = start_all(stack, report, 33, [
            ("redis-server", lambda: servers.redis(folder)),
            ("nginx worker", lambda: servers.nginx_limited(folder))])
        mine = ours.resident_kib() / 1024
        for name, bar, aim in (("redis-server", 0.6, 0.3), ("nginx worker", 1.3, 0.7)):
            if name in started:
                index = 1 if name == "nginx worker" else 0
                report.add(33, "idle, resident", mine, "MB", name,
                           started[name].resident_kib(index) / 1024, bar, aim)


def quiet_text(machine, lines):
    """How quiet the machine was: what it did beside, and how far the rounds' own ratios lay apart."""
    text = (f"load {machine['load_before']:.1f} before; meanwhile others worked {machine['others']:.2f} processors, "
            f"and the host took {machine['stolen']:.2f}")
    spreads = sorted((line["spread"], line["row"]) for line in lines if "spread" in line)
    if spreads:
        text += (f"; from round to round a ratio moved by {statistics.median(spread for spread, _ in spreads):.0%} of "
                 f"itself, the median line, and by {spreads[-1][0]:.0%} at worst (row {spreads[-1][1]})")
    return text


def run_rows(report, rows):
    bytes_per_key = None
    if rows & {1, 2, 3}:
        rows_one_bucket(report)
    if rows & {4, 5, 6, 7, 8, 9, 37}:
        bytes_per_key = rows_many_keys(report)
    if rows & {34, 35}:
        rows_stores(report)
    if 36 in rows:
        row_kinds(report)
    if 38 in rows:
        row_article(report)
    if 40 in rows:
        row_choices(report)
    if 9 in rows:
        row_bytes(report, bytes_per_key)
    if rows & {10, 11, 12}:
        rows_resp(report, rows)
    if 41 in rows:
        row_later(report)
    if 13 in rows:
        row_wide(report)
    if 14 in rows:
        row_unix(report)
    if rows & {16, 17}:
        rows_http(report, rows)
    if 19 in rows:
        row_precision(report)
    if rows & {20, 21, 22, 23}:
        databases.rows(report)
    if rows & {26, 27}:
        rows_pacing(report)
    if 28 in rows:
        waits.worked_example(report)
    if 29 in rows:
        row_stream(report)
    if 30 in rows:
        waits.waiters_bytes(report)
        rows_timers(report)
    if 32 in rows:
        row_one_shot(report)
    if 33 in rows:
        row_idle(report)
    if 39 in rows:
        stalls.rows(report)


ALL_ROWS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19,
            20, 21, 22, 23, 26, 27, 28, 29, 30, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", default=",".join(map(str, ALL_ROWS)))
    parser.add_argument("--quick", action="store_true", help="few rounds and keys: to try it out")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench")
    options = parser.parse_args()
    rows = {int(row) for row in options.rows.replace(" ", ",").split(",") if row}
    if rows - set(ALL_ROWS):
        parser.error(f"rows are {', '.join(map(str, ALL_ROWS))}")
    report = Report(2, 0.3, 1000000, rows) if options.quick else Report(5, 0.8, 10000000, rows)
    result = {"machine": describe(), "quick": options.quick}
    start, quiet = time.monotonic(), Quiet()
    if result["machine"]["load_before"] > 0.5:
        progress(f"the machine is busy (load {result['machine']['load_before']:.1f}): "
                 "expect noise, above all in rows 3, 8, 10-17 and 41")
    run_rows(report, rows)
    result["machine"].update(quiet.figures())
    quietness = quiet_text(result["machine"], report.lines)
    result.update(lines=report.lines, seconds=round(time.monotonic() - start),
                  rows=sorted(rows))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.out / "report.txt").write_text(
        "".join(text_of(line) + "\n" for line in report.lines) + f"\nHow quiet: {quietness}.\n")
    print(f"How quiet: {quietness}.", flush=True)
    missed = [line for line in report.lines if line["verdict"] == "MISSED"]
    print(f"{len(report.lines)} lines, {len(missed)} bars missed, {result['seconds']} s; "
          f"written to {options.out}/report.txt and results.json", file=sys.stderr)


if __name__ == "__main__":
    main()
