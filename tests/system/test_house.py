"""The rules of the house that a program can check: the arrows between folders, and format."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.once

# What each folder under src/ may include, itself apart. Everybody may use core, which uses nobody.
MAY_INCLUDE = {
    "core": set(),
    "sync": {"platform"},
    "platform": set(),
    "store": {"sync", "platform"},
    "limiter": {"store", "sync", "platform"},
    "config": {"limiter"},
    "protocol": {"limiter", "store", "sync", "platform"},
    "server": {"config", "protocol", "limiter", "store", "sync", "platform"},
    "cli": {"server", "config", "protocol", "limiter", "store", "sync", "platform"},
}

# Who besides itself, and besides the files beside it, may include a folder within a folder.
INCLUDED_BY = {
    "cli/bench": set(),
    "cli/explain": set(),
    "cli/pipe": set(),
    "cli/simulate": set(),
    "limiter/lines": {"limiter/shared_lines", "server"},
    "limiter/names": {"config", "protocol", "protocol/http1", "protocol/json", "protocol/resp",
                      "server", "cli", "cli/explain", "cli/pipe", "cli/simulate"},
    "limiter/shared_lines": {"limiter/lines", "server", "cli"},
    "protocol/http1": set(),
    "protocol/json": {"protocol/http1", "cli"},
    "protocol/resp": {"server"},
    "store/postgres": set(),
    "store/table": set(),
}


def find_includes(folder):
    """Yields (file, line number, header) for every #include "..." below a folder."""
    for path in sorted(folder.rglob("*.[ch]")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match:
                yield path, number, match.group(1)


def test_every_source_folder_has_its_place_in_the_map():
    assert {path.name for path in (ROOT / "src").iterdir() if path.is_dir()} <= set(MAY_INCLUDE)


def test_includes_point_downwards_only():
    wrong = []
    for path, number, header in find_includes(ROOT / "src"):
        inside = path.relative_to(ROOT / "src").parts[0]
        target = header.split("/")[0]
        if "/" not in header or target not in MAY_INCLUDE:
            continue  # the same folder, or the public headers
        if target not in MAY_INCLUDE[inside] | {inside, "core"}:
            wrong.append(f"{path.relative_to(ROOT)}:{number}: {inside} must not include {header}")
    assert not wrong, "\n".join(wrong)


def test_folders_within_folders_are_included_by_those_who_may():
    listed = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").glob("*/*/") if path.is_dir()}
    assert listed == set(INCLUDED_BY)
    wrong = []
    for path, number, header in find_includes(ROOT / "src"):
        inside = str(path.relative_to(ROOT / "src").parent)
        target = str(Path(header).parent)
        if target in INCLUDED_BY and inside not in INCLUDED_BY[target] | {target, str(Path(target).parent)}:
            wrong.append(f"{path.relative_to(ROOT)}:{number}: {inside} must not include {header}")
    assert not wrong, "\n".join(wrong)


# Files that call each other in a ring can only be read together. Of these there are larger rings, each within a folder.
RING_MAX = 3
MAY_RING = {"store/table", "limiter/lines limiter/shared_lines"}


def calls_between_files():
    """{file: the files that it calls or whose data it names}, read from the objects of the build."""
    build = ROOT / "build" / os.environ.get("WEIR_PRESET", "dev") / "src"
    defined_in, needs = {}, {}
    for path in sorted(build.rglob("*.c.o")):
        name = re.sub(r"CMakeFiles/[^/]*\.dir/", "", str(path.relative_to(build)))[: -len(".o")]
        if not (ROOT / "src" / name).exists():
            continue  # left over from a file that has gone
        listed = subprocess.run(["nm", "-g", str(path)], capture_output=True, text=True, check=True)
        for *_, kind, symbol in (line.split() for line in listed.stdout.splitlines() if line):
            if kind == "U":
                needs.setdefault(name, set()).add(symbol)
            else:
                defined_in[symbol] = name
    return {
        name: {defined_in[symbol] for symbol in symbols if symbol in defined_in} - {name}
        for name, symbols in needs.items()
    }


def reachable(graph, start):
    seen, todo = set(), [start]
    while todo:
        for name in graph.get(todo.pop(), ()):
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


def test_few_files_call_each_other_in_a_ring():
    graph = calls_between_files()
    assert len(graph) > 100, "the objects of the build were not found"
    reach = {name: reachable(graph, name) for name in graph}
    rings = {frozenset(other for other in reach[name] if name in reach.get(other, ())) for name in graph}
    large = [sorted(ring) for ring in rings if len(ring) > RING_MAX]
    wrong = [ring for ring in large
             if " ".join(sorted({str(Path(name).parent) for name in ring})) not in MAY_RING]
    assert not wrong, "\n".join(map(str, wrong))


def test_public_headers_include_public_headers_only():
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {header}"
        for path, number, header in find_includes(ROOT / "include")
        if not header.startswith("weir/")
    ]
    assert not wrong, "\n".join(wrong)


def tracked(*patterns):
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def test_c_files_are_formatted():
    if not shutil.which("clang-format"):
        pytest.skip("clang-format is not installed")
    checked = subprocess.run(
        ["clang-format", "--dry-run", "--Werror", *tracked("*.c", "*.h")],
        cwd=ROOT, capture_output=True, text=True,
    )
    assert checked.returncode == 0, checked.stderr


def test_shell_scripts_pass_shellcheck():
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    scripts = tracked("scripts/*.sh", ".ci/run", "tests/*.sh", "docs/*.sh", "examples/*.sh")
    checked = subprocess.run(["shellcheck", *scripts], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_menu_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.M).group(1).split()
    menu = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line.split()[1] for line in menu.stdout.splitlines()] == targets
