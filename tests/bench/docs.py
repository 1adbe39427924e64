#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make bench-docs: writes docs/performance.md, and the figures of README.md between their markers,
from build/bench/results.json. Of a run that measured some rows only, those are exchanged on the page that is
there, each with a word about which run it is of, and README.md stays as it is."""

import json
import pathlib
import re

from bench import quiet_text, short
from machine import ROOT

INTRO = """# Performance

Written by `make bench-docs` from one run of `make bench`, but for rows that name another; do not edit. How it
is measured, and what to beware of: [tests/bench](../tests/bench/README.md).

Only ratios within one run compare: absolute figures are this machine's, that day. "ns" is processor
time of one decision in the process; "us" is processor time of the server per request, by the
scheduler's accounting, with one worker, 50 connections and 100 000 keys unless the line says
otherwise. A **bar** must hold in every release on every machine; an *aim* is what is known to be
within reach.

"""

SECTIONS = [
    ("In the process: one bucket", (1, 2, 3)),
    ("In the process: many keys", (4, 5, 6, 7, 8, 9, 37)),
    ("In the process: each kind of limit beside the bucket", (36, 38)),
    ("In the process: what it chose on this processor", (40,)),
    ("The server: RESP", (10, 11, 12, 13, 14)),
    ("The server: HTTP", (16, 17)),
    ("The server: a store that answers later", (41,)),
    ("Precision", (19,)),
    ("In a file that processes share", (34, 35)),
    ("In PostgreSQL", (20, 21, 22, 23)),
    ("Waiting", (26, 27, 28, 29, 30)),
    ("Fairness", (39,)),
    ("The command, and an idle server", (32, 33)),
]


def number(value):
    return f"{value:.4f}" if 0.9 < value < 1.1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def table_row(line):
    if line["verdict"] == "no peer":
        return f"| {line['row']} | {line['name']} | | not measured: {line['peer']} | | | |"
    if line["row"] == 19:
        bar = "1 ± 0.002" if "precision_bar" in line else ""
        return (f"| 19 | {line['name']} | {line['figure']:.4f} | {line['peer']} | "
                f"{line['ratio']:.4f} | {bar} | {line['verdict']} |")
    bar = ""
    if line["bar"] is not None:
        sign = "≥" if line["at_least"] else "≤"
        aim = f" (*{short(line['aim'])}*)" if line["aim"] is not None else ""
        bar = f"{sign} {short(line['bar'])}{aim}"
    return (f"| {line['row']} | {line['name']} | {number(line['figure'])} {line['unit']} | "
            f"{line['peer']}: {number(line['peer_figure'])} | {short(line['ratio'])} | {bar} | "
            f"{line['verdict']} |")


def machine_text(result):
    machine = result["machine"]
    return (f"{machine['processor']}, {machine['cpus']} processors, {machine['memory_gib']} GiB, "
            f"Linux {machine['kernel']}, clock source {machine['clocksource']}; "
            f"{machine['date']}, commit {machine['commit']}; {quiet_text(machine, result['lines'])}.")


def row_of(table_line):
    return int(table_line.split("|")[1])


def write_page(head, table_lines):
    """`head` says which runs these are."""
    text = INTRO + head
    for title, rows in SECTIONS:
        lines = [line for row in rows for line in table_lines if row_of(line) == row]
        if lines:
            text += f"\n## {title}\n\n| # | what | weir | beside | ratio | bar (*aim*) | |\n"
            text += "|---|---|---|---|---|---|---|\n"
            text += "".join(line + "\n" for line in lines)
    return text


def performance_page(result):
    head = "**This run:** " + machine_text(result) + "\n"
    if result["quick"]:
        head += "\nA quick trial (`QUICK=1`): too few rounds to rely on.\n"
    return write_page(head, [table_row(line) for line in result["lines"]])


def renewed_page(page, result):
    """The page with the rows of this run; of the other runs those stay that a row is still of."""
    commit = result["machine"]["commit"]
    measured = {line["row"] for line in result["lines"]}
    kept = [line for line in re.findall(r"^\| \d+ \|.*$", page, re.M) if row_of(line) not in measured]
    new = [re.sub(r" *\|$", f" (run {commit}) |", table_row(line)) for line in result["lines"]]
    first = re.search(r"^\*\*This run:\*\*.*$", page, re.M)[0]
    others = [line for line in re.findall(r"^\*\*Run .*$", page, re.M)
              if any(f"(run {line.split()[1].rstrip(':*')})" in row for row in kept)]
    others.append(f"**Run {commit}:** {machine_text(result)}")
    return write_page("\n\n".join([first, *others]) + "\n", kept + new)


README_LINES = [
    (1, "governor check()", "one exact decision, clock read included"),
    (5, "prefetched CAS16", "one of a batch of 32, over ten million keys"),
    (9, "Redis GCRA string + PX", "memory per key, everything included"),
    (10, "parse nothing", "`CL.THROTTLE`, one per round trip"),
    (12, "redis PING", "`CL.THROTTLE`, pipelined by 64"),
    (12, "redis, GCRA in Lua", "the same"),
    (16, "nginx limit_req", "HTTP `GET /v1/check`"),
    (28, "nginx limit_req", "worst gap error of those who wait in `queue 5/s`"),
]


def readme_figures(result):
    text = "| what | weir | beside | ratio |\n|---|---|---|---|\n"
    for row, peer, what in README_LINES:
        for line in result["lines"]:
            if line["row"] == row and line["peer"] == peer and line["bar"] is not None:
                text += (f"| {what} | {number(line['figure'])} {line['unit']} | "
                         f"{peer}: {number(line['peer_figure'])} | {short(line['ratio'])} |\n")
                break
    return (text + f"\n{machine_text(result)} All of it: [docs/performance.md](docs/performance.md); "
            "`make bench` measures your machine.\n")


def renew_readme(result):
    path = ROOT / "README.md"
    if not path.exists():
        print("no README.md")
        return
    text = path.read_text()
    renewed = re.sub(r"(<!-- figures:[^\n]*-->\n).*?(<!-- end of figures -->)",
                     lambda found: found[1] + readme_figures(result) + found[2], text, flags=re.S)
    if renewed == text:
        print("README.md: no markers, or nothing new")
    path.write_text(renewed)


def main():
    result = json.loads((ROOT / "build" / "bench" / "results.json").read_text())
    page = ROOT / "docs" / "performance.md"
    if page.exists() and {row for _, rows in SECTIONS for row in rows} - set(result["rows"]):
        page.write_text(renewed_page(page.read_text(), result))
    else:
        page.write_text(performance_page(result))
        renew_readme(result)
    print(f"wrote {pathlib.Path(page).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
