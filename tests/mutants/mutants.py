#!/usr/bin/env python3
"""Breaks weir on purpose, one way at a time, and sees the tests notice each. README.md explains the tables.

    mutants.py check                  does each mutant still find its place?
    mutants.py list [NAME...]         what there is, and what each breaks
    mutants.py apply NAME TREE        break the sources in TREE; where it is not there, in a new copy of ours
    mutants.py run [NAME...]          build and test all of them, or these

A NAME is a table (core), a mutant (core.no_clamp), or how several begin (store_table.window_).
"""

import argparse
import difflib
import random
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import tables
import trial


def select(mutants, names):
    """The mutants that these names choose, in the order of the tables."""
    table_names = {mutant.table for mutant in mutants}
    chosen = set()
    for name in names:
        if name in table_names:
            found = {mutant for mutant in mutants if mutant.table == name}
        else:
            found = {mutant for mutant in mutants if mutant.name.startswith(name)}
        if not found:
            raise tables.Stale(f"no mutant is called {name}, or begins so")
        chosen |= found
    return [mutant for mutant in mutants if not names or mutant in chosen]


def git(*arguments):
    """What git prints, or None where it fails."""
    done = subprocess.run(["git", *arguments], cwd=tables.ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def changed_since(base, mutants, sources):
    """The names of mutants whose source, or whose entry, is not as it was in commit `base`."""
    listed = git("diff", "--name-only", base)
    files = set(listed.split("\n")) if listed else set()
    entries = {}
    for path in tables.table_paths():
        text = git("show", f"{base}:{path.relative_to(tables.ROOT)}")
        if text:
            entries |= {mutant.name: mutant for mutant in tables.mutants_of(path.stem, tomllib.loads(text))}
    return {
        mutant.name
        for mutant in mutants
        if entries.get(mutant.name) != mutant
        or any(tables.file_of(mutant.name, edit, sources) in files for edit in mutant.edits)
    }


def spread(mutants, seed):
    """Shuffled, so that any number of the first ones has its share of each table."""
    drawn = random.Random(seed)
    place = {}
    for table in sorted({mutant.table for mutant in mutants}):
        group = [mutant for mutant in mutants if mutant.table == table]
        drawn.shuffle(group)
        for i, mutant in enumerate(group):
            place[mutant.name] = (i + drawn.random()) / len(group)
    return sorted(mutants, key=lambda mutant: place[mutant.name])


def sample_order(mutants, say):
    """First what has changed since the last tag, or in the last commit; then the others, drawn by the commit."""
    base = git("describe", "--tags", "--abbrev=0") or git("rev-parse", "--verify", "-q", "--short", "HEAD~1")
    changed = changed_since(base, mutants, tables.Sources(tables.ROOT)) if base else set()
    seed = git("rev-parse", "HEAD") or ""
    say(f"first {len(changed)} that changed since {base}, then others as commit {seed[:12]} draws them")
    return sorted(spread(mutants, seed), key=lambda mutant: mutant.name not in changed)


def write_junit(path, tried):
    suite = ElementTree.Element("testsuite", name="mutants")
    for mutant, outcome in tried:
        case = ElementTree.SubElement(suite, "testcase", name=mutant.name)
        if outcome.verdict != trial.CAUGHT:
            ElementTree.SubElement(case, "failure", message=f"{outcome.verdict}: {outcome.reason}")
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path)


def report(tried, seconds, say):
    """Says how many were caught, and lists the others. Returns how many those are."""
    others = [(mutant, outcome) for mutant, outcome in tried if outcome.verdict != trial.CAUGHT]
    say(f"{len(tried) - len(others)} of {len(tried)} mutants caught in {seconds / 60:.1f} min")
    width = max((len(mutant.name) for mutant, _ in others), default=0)
    for mutant, outcome in sorted(others, key=lambda other: other[0].name):
        say(f"  {mutant.name:{width}}  {outcome.verdict:8}  {outcome.reason}")
        say(f"  {'':{width}}  {mutant.breaks}")
    return len(others)


def say(text):
    print(text, flush=True)


def check(_):
    sources, wrong = tables.Sources(tables.ROOT), []
    count = 0
    for path in tables.table_paths():
        try:
            mutants = tables.read_table(path)
        except tables.Stale as stale:
            wrong.append(str(stale))
            continue
        for mutant in mutants:
            count += 1
            wrong += tables.faults(mutant, sources)
    for text in wrong:
        say(text)
    if not wrong:
        say(f"{count} mutants find their places")
    return 1 if wrong else 0


def list_all(options):
    for mutant in select(tables.read_all(), options.names):
        say(f"{mutant.name:42} {mutant.breaks}")
    return 0


def apply(options):
    tree = Path(options.tree)
    chosen = [mutant for mutant in tables.read_all() if mutant.name == options.name]
    if not chosen:
        raise tables.Stale(f"no mutant is called {options.name}")
    if not tree.exists():
        for name in trial.tracked_files():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tables.ROOT / name, tree / name)
    for path, text in tables.applied(chosen[0], tables.Sources(tree)).items():
        before = (tree / path).read_text()
        lines = difflib.unified_diff(before.splitlines(), text.splitlines(), path, path, lineterm="")
        say("\n".join(lines))
        (tree / path).write_text(text)
    return 0


def run(options):
    mutants = select(tables.read_all(), options.names)
    if options.minutes is not None:
        mutants = sample_order(mutants, say)
    trials = trial.Trials(mutants, say, None if options.minutes is None else options.minutes * 60)
    tried = trials.run()
    if not tried:
        raise trial.CannotTry("the time was over before any mutant was tried")
    if options.junit:
        write_junit(Path(options.junit), tried)
    return 1 if report(tried, trials.seconds(), say) else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("check")
    command.set_defaults(call=check)
    command = commands.add_parser("list")
    command.add_argument("names", nargs="*")
    command.set_defaults(call=list_all)
    command = commands.add_parser("apply")
    command.add_argument("name")
    command.add_argument("tree")
    command.set_defaults(call=apply)
    command = commands.add_parser("run")
    command.add_argument("names", nargs="*")
    command.add_argument("--minutes", type=float, help="as many as so long allows, first those whose code has changed")
    command.add_argument("--junit", metavar="FILE", help="report as JUnit XML")
    command.set_defaults(call=run)
    options = parser.parse_args()
    try:
        return options.call(options)
    except (tables.Stale, trial.CannotTry) as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
