#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make bench BEFORE=COMMIT: what a take costs now, beside what it cost at an earlier commit, in one run.

    before.py COMMIT [--rows 1,2,10] [--rounds 7] [--keys 10000000]

Builds the measuring programs and the server of that commit in build/before/, gives both a round in turn, and prints
the median of the rounds' own ratios, with the least and the largest of them. Servers are under the load of today's
program. Figures that only one of the two knows are left out. Asserts nothing."""

import argparse
import contextlib
import pathlib
import statistics
import subprocess
import sys
import tempfile

import servers
from machine import PROGRAMS, ROOT, WEIR, Missing, Program, describe, progress

# What a program measures of weir: row, and what it is. The others of its figures are peers.
PARTS = [
    ("bench_one_bucket", [], {
        "take_clock": (1, "decision with its own clock"),
        "take_allowed": (2, "time passed in, accepted"),
        "take_denied": (2, "time passed in, denied"),
        "hot_allowed": (3, "one hot key, 2 threads, accepted"),
        "hot_denied": (3, "one hot key, 2 threads, denied")}),
    ("bench_many_keys", ["weir", "{keys}"], {
        "single": (4, "keyed, one call"),
        "naive": (6, "the same, with the caller's clock"),
        "batch": (5, "keyed batch of 32"),
        "two_threads": (8, "keyed batches, 2 threads"),
        "under_two": (37, "take under two limits, batched"),
        "under_four": (37, "take under four limits, batched")}),
    ("bench_timers", [], {
        "queue_wheel": (30, "fire + schedule, as in a queue"),
        "mixed_wheel": (30, "the same, waits of 1 to 10 s by chance"),
        "shaper": (30, "pop + submit of a shaper")}),
]

# What is asked of a server: row, what it is, over HTTP, the request, how many at once.
LOADS = [
    (10, "CL.THROTTLE, P=1", False, servers.THROTTLE, 1),
    (11, "CL.THROTTLE, P=16", False, servers.THROTTLE, 16),
    (12, "CL.THROTTLE, P=64", False, servers.THROTTLE, 64),
    (16, "GET /v1/check, P=1", True, servers.WEIR_CHECK, 1),
    (16, "POST /v1/take, P=1", True, servers.WEIR_TAKE, 1),
]

SERVER_S = 0.8  # of a round


def run(*command, **options):
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr, **options)


def build(commit):
    """The name of that commit, its programs and its server, built as `make bench` builds them."""
    name = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "--verify", f"{commit}^{{commit}}"],
                          capture_output=True, text=True, check=False)
    if name.returncode != 0:
        sys.exit(f"before.py: no such commit: {commit}")
    folder = ROOT / "build" / "before" / name.stdout.strip()
    programs, weir = folder / "build" / "bench" / "tests" / "bench", folder / "build" / "bench" / "weir"
    if not weir.exists() or not all((programs / program).exists() for program, _, _ in PARTS):
        progress(f"building {folder.name} in {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", folder.name], capture_output=True, check=True)
        run("tar", "-x", "-C", folder, input=archive.stdout)
        run("cmake", "--preset", "bench", "-Wno-dev", cwd=folder)
        run("cmake", "--build", "--preset", "bench", "--target", "weir", *(program for program, _, _ in PARTS),
            cwd=folder)
    return folder.name, programs, weir


def show(row, what, unit, pairs):
    """`pairs`: (now, before) of each round."""
    ratios = sorted(now / before for now, before in pairs)
    now, before = (statistics.median(figures) for figures in zip(*pairs))
    print(f"{row:>3}  {what:<40} {before:>9.2f} -> {now:>9.2f} {unit}  x{statistics.median(ratios):.2f}"
          f"  ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


def compare_programs(options, rows, folder):
    for program, arguments, figures in PARTS:
        if not rows & {row for row, _ in figures.values()}:
            continue
        words = [word.format(keys=options.keys) for word in arguments]
        with contextlib.ExitStack() as stack:
            programs = [stack.enter_context(Program(where / program, *words)) for where in (PROGRAMS, folder)]
            samples = []
            for number in range(options.rounds):
                progress(f"{program}, round {number + 1} of {options.rounds}")
                samples.append([each.round() for each in programs])
        for figure, (row, what) in figures.items():
            pairs = [(now[figure], before[figure]) for now, before in samples if figure in now and figure in before]
            if pairs and row in rows:
                show(row, what, "ns", pairs)


def compare_servers(options, rows, weir_before):
    for row, what, over_http, request, pipeline in LOADS:
        if row not in rows:
            continue
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            loads = []
            for program in (WEIR, weir_before):
                server = stack.enter_context(servers.weir(folder, over_http=over_http, program=program))
                load = servers.Load(server, folder, request, 50, pipeline)
                stack.callback(load.close)
                load.sweep()
                loads.append(load)
            pairs = []
            for number in range(options.rounds):
                progress(f"{what}, round {number + 1} of {options.rounds}")
                pairs.append([load.run(SERVER_S)["us"] for load in loads])
        show(row, what, "us", pairs)


def main():
    known = {row for _, _, figures in PARTS for row, _ in figures.values()} | {row for row, *_ in LOADS}
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--rows", default=",".join(map(str, sorted(known))))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keys", type=int, default=10000000)
    options = parser.parse_args()
    rows = {int(row) for row in options.rows.replace(" ", ",").split(",") if row}
    if rows - known:
        parser.error(f"rows are {', '.join(map(str, sorted(known)))}")
    name, folder, weir_before = build(options.commit)
    machine = describe()
    print(f"{machine['commit']} beside {name}: {machine['processor']}, load {machine['load_before']:.1f}")
    for compare, where in ((compare_programs, folder), (compare_servers, weir_before)):
        try:
            compare(options, rows, where)
        except Missing as why:
            print(f"     {why}")


if __name__ == "__main__":
    main()
