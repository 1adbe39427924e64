#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make bench BEFORE=COMMIT: what a take costs now, beside what it cost at an earlier commit, in one run.

    before.py COMMIT [--rounds 7] [--keys 10000000]

Builds the measuring programs of that commit in build/before/, gives both a round in turn, and prints the median of
the rounds' own ratios, with the least and the largest of them. Figures that only one of the two knows are left out.
Asserts nothing."""

import argparse
import contextlib
import statistics
import subprocess
import sys

from machine import PROGRAMS, ROOT, Missing, Program, describe, progress

# What a program measures of one bucket; the others of its figures are peers, or several limits.
PARTS = [
    ("bench_one_bucket", [], {
        "take_clock": "decision with its own clock",
        "take_allowed": "time passed in, accepted",
        "take_denied": "time passed in, denied",
        "hot_allowed": "one hot key, 2 threads, accepted",
        "hot_denied": "one hot key, 2 threads, denied"}),
    ("bench_many_keys", ["weir", "{keys}"], {
        "single": "keyed, one call",
        "naive": "the same, with the caller's clock",
        "batch": "keyed batch of 32",
        "two_threads": "keyed batches, 2 threads",
        "under_two": "take under two limits, batched"}),
]


def run(*command, **options):
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr, **options)


def build(commit):
    """The folder of that commit's programs, built as `make bench` builds them."""
    name = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "--verify", f"{commit}^{{commit}}"],
                          capture_output=True, text=True, check=False)
    if name.returncode != 0:
        sys.exit(f"before.py: no such commit: {commit}")
    folder = ROOT / "build" / "before" / name.stdout.strip()
    programs = folder / "build" / "bench" / "tests" / "bench"
    if not all((programs / program).exists() for program, _, _ in PARTS):
        progress(f"building {folder.name} in {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", folder.name], capture_output=True, check=True)
        run("tar", "-x", "-C", folder, input=archive.stdout)
        run("cmake", "--preset", "bench", "-Wno-dev", cwd=folder)
        run("cmake", "--build", "--preset", "bench", "--target", *(program for program, _, _ in PARTS), cwd=folder)
    return folder.name, programs


def compare(programs, figures, rounds):
    """Yields (what, before, now, least, median and largest ratio)."""
    samples = []
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        samples.append([program.round() for program in programs])
    for figure, what in figures.items():
        pairs = [(now[figure], before[figure]) for now, before in samples if figure in now and figure in before]
        if pairs:
            ratios = sorted(now / before for now, before in pairs)
            yield (what, statistics.median(before for _, before in pairs),
                   statistics.median(now for now, _ in pairs), ratios[0], statistics.median(ratios), ratios[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keys", type=int, default=10000000)
    options = parser.parse_args()
    name, folder = build(options.commit)
    machine = describe()
    print(f"{machine['commit']} beside {name}: {machine['processor']}, load {machine['load_before']:.1f}")
    for program, arguments, figures in PARTS:
        words = [word.format(keys=options.keys) for word in arguments]
        with contextlib.ExitStack() as stack:
            try:
                programs = [stack.enter_context(Program(where / program, *words)) for where in (PROGRAMS, folder)]
                for what, before, now, *ratios in compare(programs, figures, options.rounds):
                    least, median, largest = ratios
                    print(f"  {what:<36} {before:>9.2f} -> {now:>9.2f} ns  x{median:.2f}"
                          f"  ({least:.2f} to {largest:.2f})", flush=True)
            except Missing as why:
                print(f"  {program}: {why}")


if __name__ == "__main__":
    main()
