"""The tables of mutants are right; and what reads them, applies them and tries them does what README.md says."""

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import c_source
import mutants
import tables
import trial

pytestmark = pytest.mark.once


def test_every_mutant_finds_its_place():
    checked = subprocess.run(
        [sys.executable, tables.FOLDER / "mutants.py", "check"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_mutant_names_tests_that_exist():
    programs = trial.programs_of(Path(os.environ["WEIR_BINARY"]).parent)
    unknown = [
        f"{mutant.name}: {test}"
        for mutant in tables.read_all()
        for test in mutant.caught_by
        if not test.startswith(("system.", "explore_")) and test not in programs
    ]
    assert not unknown, "\n".join(unknown)


# Finding definitions and places.

C = r"""
#define LIMIT_MAX \
    16
#include <stdint.h>

enum kind { KIND_A = 1, KIND_B };

/* int comment(void) { return 1; } */
struct pair {
    int first; // }
    const char *text;
};

int declared(int a);
static const char *const NAMES[KIND_B] = {"}", [1] = "b"};
static int counter = 0;

__attribute__((cold)) static struct pair *make_pair(int (*how)(int), struct pair *pair)
{
    pair->first = how('{') + declared(1); // {
    pair->text = "\"}";
    if (pair->first  >=
        LIMIT_MAX) { /* never */
        return NULL;
    }
    return pair;
}

int declared(int a)
{
    return a + a1 + a;
}
"""


def text_of(name):
    (found,) = [definition for definition in c_source.definitions(C) if definition.name == name]
    return C[found.begin:found.end]


def test_definitions_of_a_file():
    names = [definition.name for definition in c_source.definitions(C)]
    assert names == ["LIMIT_MAX", "kind", "pair", "NAMES", "counter", "make_pair", "declared"]


def test_a_definition_ends_where_it_ends():
    assert text_of("LIMIT_MAX").split() == ["#define", "LIMIT_MAX", "\\", "16"]
    assert text_of("pair").endswith("const char *text;\n};")
    assert text_of("NAMES").endswith('[1] = "b"};')
    assert text_of("make_pair").startswith("__attribute__") and text_of("make_pair").endswith("return pair;\n}")
    assert text_of("declared").startswith("int declared(int a)\n{")


def test_braces_that_do_not_match_are_an_error():
    with pytest.raises(ValueError):
        c_source.definitions("int f(void)\n{\n")


def test_every_function_of_weir_is_found():
    """By the layout that clang-format gives: its body is between two braces at the beginning of a line."""
    missed = []
    for path in sorted((tables.ROOT / "src").rglob("*.[ch]")):
        text = path.read_text()
        ends = {definition.end for definition in c_source.definitions(text)}
        for body in re.finditer(r"^\{\n.*?^\}$", text, re.M | re.S):
            if body.end() not in ends:
                missed.append(f"{path}:{text.count(chr(10), 0, body.start()) + 1}")
    assert not missed


def find_all(name, expression):
    (found,) = [definition for definition in c_source.definitions(C) if definition.name == name]
    return [C[begin:end] for begin, end in c_source.places(C, found, expression)]


def test_white_space_and_comments_do_not_count():
    assert find_all("make_pair", "if(pair->first>=LIMIT_MAX){return NULL;}")
    assert find_all("pair", "int first; const char *text;")


def test_words_are_whole():
    assert find_all("declared", "a") == ["a", "a", "a"]
    assert not find_all("declared", "inta")
    assert not find_all("make_pair", "irst")


def test_literals_count_as_they_are():
    assert find_all("make_pair", r'"\"}"')
    assert not find_all("make_pair", r'"\" }"')


def test_comments_are_not_searched():
    assert not find_all("make_pair", "never")


# Reading tables and applying them.

FIELDS = {"breaks": "It is wrong.", "in": "f", "old": "1", "new": "2", "caught_by": ["unit.f"]}


def mutant_of(**fields):
    return tables.read_mutant("core.wrong", "src/core", FIELDS | fields)


@pytest.mark.parametrize(
    "fields, complaint",
    [
        ({"olde": "1"}, "core.wrong: unknown field 'olde'"),
        ({"breaks": "no sentence"}, "core.wrong: breaks is not a sentence"),
        ({"caught_by": []}, "core.wrong: caught_by names no test"),
        ({"old": "// 1"}, "core.wrong: old is empty"),
        ({"old": "a+b", "new": "a + b"}, "core.wrong: old and new are the same"),
        ({"edits": [{"in": "f", "old": "1"}]}, "core.wrong: unknown field 'in'"),
    ],
)
def test_a_wrong_entry_is_named(fields, complaint):
    with pytest.raises(tables.Stale, match=re.escape(complaint)):
        mutant_of(**fields)


def test_an_edit_lacks_a_field():
    with pytest.raises(tables.Stale, match="core.wrong: field 'new' is missing"):
        tables.read_mutant(
            "core.wrong", "src/core",
            {"breaks": "It is.", "caught_by": ["unit.f"], "edits": [{"in": "f", "old": "1"}]},
        )


@pytest.fixture
def tree(tmp_path):
    """write(path, text) puts a file into an empty tree of sources."""
    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    write.root = tmp_path
    return write


def apply_in(tree, mutant):
    return tables.applied(mutant, tables.Sources(tree.root))


ONE = "int f(void)\n{\n    return 1; // one\n}\n"


def test_only_the_expression_changes(tree):
    tree("src/core/a.c", "int g(void)\n{\n    return 1;\n}\n" + ONE)
    assert apply_in(tree, mutant_of()) == {
        "src/core/a.c": "int g(void)\n{\n    return 1;\n}\n" + ONE.replace("1", "2")
    }


def test_a_mutant_survives_a_move_within_its_folder(tree):
    tree("src/core/part/b.h", ONE.replace("return 1;", "return\n        1;"))
    assert "return\n        2; // one" in apply_in(tree, mutant_of())["src/core/part/b.h"]


def test_a_move_to_another_folder_is_told(tree):
    tree("src/core/a.c", "")
    tree("src/sync/b.c", ONE)
    with pytest.raises(tables.Stale, match="f is not defined in src/core/, but in src/sync/b.c: move the entry"):
        apply_in(tree, mutant_of())


def test_a_name_in_two_files_needs_the_file(tree):
    tree("src/core/a.c", ONE)
    tree("src/core/b.c", ONE)
    with pytest.raises(tables.Stale, match="f is defined in src/core/a.c, src/core/b.c: set file"):
        apply_in(tree, mutant_of())
    assert list(apply_in(tree, mutant_of(file="b.c"))) == ["src/core/b.c"]


def test_an_expression_that_is_gone_is_told(tree):
    tree("src/core/a.c", ONE.replace("1", "3"))
    with pytest.raises(tables.Stale, match="f in src/core/a.c has no `1`: renew old and new"):
        apply_in(tree, mutant_of())


def test_an_expression_that_is_there_twice_needs_its_number(tree):
    tree("src/core/a.c", ONE.replace("1", "1 + 1"))
    with pytest.raises(tables.Stale, match="has `1` 2 times: make old longer, or set nth"):
        apply_in(tree, mutant_of())
    with pytest.raises(tables.Stale, match="nth = 3 is wrong"):
        apply_in(tree, mutant_of(nth=3))
    assert "return 1 + 2;" in apply_in(tree, mutant_of(nth=2))["src/core/a.c"]


def test_several_edits_of_a_file(tree):
    tree("src/core/a.c", "#define N 3\n" + ONE)
    edits = [{"in": "f", "old": "1", "new": "22"}, {"in": "N", "old": "3", "new": "44"}]
    both = tables.read_mutant(
        "core.wrong", "src/core", {"breaks": "It is.", "caught_by": ["unit.f"], "edits": edits}
    )
    assert apply_in(tree, both)["src/core/a.c"] == "#define N 44\n" + ONE.replace("1", "22")


# Choosing.

def some(*names):
    return [tables.Mutant(name, "It is wrong.", (), ("unit.f",)) for name in names]


def test_names_choose_tables_mutants_or_beginnings():
    known = some("core.a", "core.b", "core_math.a", "sync.lock_a", "sync.lock_b", "sync.other")
    chosen = lambda *names: [mutant.name for mutant in mutants.select(known, names)]
    assert chosen() == [mutant.name for mutant in known]
    assert chosen("core") == ["core.a", "core.b"]
    assert chosen("sync.lock_", "core.b") == ["core.b", "sync.lock_a", "sync.lock_b"]
    with pytest.raises(tables.Stale, match="no mutant is called nothing"):
        chosen("nothing")


def test_a_sample_has_its_share_of_every_table():
    known = some(*[f"small.{i}" for i in range(10)], *[f"large.{i}" for i in range(90)])
    drawn = mutants.spread(known, "one commit")
    assert sorted(mutant.name for mutant in drawn) == sorted(mutant.name for mutant in known)
    assert 1 <= sum(mutant.table == "small" for mutant in drawn[:20]) <= 3
    assert drawn != mutants.spread(known, "another commit")
    assert drawn == mutants.spread(known, "one commit")


# Trying, for real: a program of its own, with a test, in a repository of its own.

PROJECT = {
    "CMakePresets.json": """{"version": 5, "configurePresets": [
        {"name": "dev", "generator": "Ninja", "binaryDir": "${sourceDir}/build/dev"}]}""",
    "CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.25)
        project(small C)
        enable_testing()
        foreach(program weir test_add explore_1)
            add_executable(${program} src/core/add.c tests/main.c)
        endforeach()
        set_target_properties(explore_1 PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests/concurrency)
        add_test(NAME unit.add COMMAND test_add)
        add_test(NAME unit.wrong COMMAND test_add wrong)""",
    "src/core/add.c": """
int add(int a, int b)
{
    return a + b;
}
""",
    "tests/main.c": """
#include <stdio.h>
#include <string.h>

int add(int a, int b);

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "wrong") != 0 && add(2, 2) == 4) {
        return 0;
    }
    return strcmp(how, "found") == 0 ? puts("VIOLATION: a sum") : 1;
}
""",
    "tests/mutants/core.toml": """
        folder = "src/core"
        [caught]
        breaks = "It adds one more."
        in = "add"
        old = "a + b"
        new = "a + b + 1"
        caught_by = ["unit.add"]
        [missed]
        breaks = "It multiplies."
        in = "add"
        old = "a + b"
        new = "a * b"
        caught_by = ["unit.add"]
        [no_c]
        breaks = "It does not compile."
        in = "add"
        old = "a + b"
        new = "a +"
        caught_by = ["unit.add"]
        [no_test]
        breaks = "It adds one more."
        in = "add"
        old = "a + b"
        new = "a + b + 1"
        caught_by = ["unit.none"]
        [found]
        breaks = "It adds one more."
        in = "add"
        old = "a + b"
        new = "a + b + 1"
        caught_by = ["explore_1 found 1"]
        [crashed]
        breaks = "It adds one more."
        in = "add"
        old = "a + b"
        new = "a + b + 1"
        caught_by = ["explore_1 pair-2x2 1"]
        [always_red]
        breaks = "It adds one more."
        in = "add"
        old = "a + b"
        new = "a + b + 1"
        caught_by = ["unit.wrong"]
        """,
    ".gitignore": "/build/",
}


@pytest.fixture
def project(tree, monkeypatch):
    for path, text in PROJECT.items():
        tree(path, text)
    subprocess.run(["git", "init", "-q", tree.root], check=True)
    monkeypatch.setattr(tables, "ROOT", tree.root)
    monkeypatch.setattr(tables, "FOLDER", tree.root / "tests/mutants")
    monkeypatch.setattr(trial, "FOLDER", tree.root / "build/mutants")
    return tree


def test_mutants_are_tried_and_told_apart(project):
    said = []
    trials = trial.Trials(tables.read_all(), said.append)
    outcomes = {mutant.name: (outcome.verdict, outcome.reason) for mutant, outcome in trials.run()}
    assert outcomes == {
        "core.caught": (trial.CAUGHT, "unit.add"),
        "core.missed": (trial.SURVIVED, "unit.add passed"),
        "core.found": (trial.CAUGHT, "explore_1 found 1"),
        "core.crashed": (trial.SURVIVED, "explore_1 pair-2x2 1 crashed"),
        "core.no_c": (trial.BROKEN, "does not build"),
        "core.no_test": (trial.BROKEN, "there is no test unit.none"),
        "core.always_red": (trial.BROKEN, "unit.wrong failed without it"),
    }
    assert len(said) == 7 and all("min left" in line for line in said)
    # Everything is as it was: in the sources, in the copies, and in what was built of them.
    assert (project.root / "src/core/add.c").read_text() == PROJECT["src/core/add.c"]
    for copy in trial.FOLDER.glob("*/tree"):
        assert (copy / "src/core/add.c").read_text() == PROJECT["src/core/add.c"]
        programs = ("weir", "test_add", "tests/concurrency/explore_1")  # a copy has built what it was needed for
        built = [program for program in programs if (copy / "build/dev" / program).exists()]
        idle = subprocess.run(["ninja", "-C", copy / "build/dev", "-n", *built], capture_output=True, text=True)
        assert "weir" in built and "no work to do" in idle.stdout
        for program in copy.glob("build/dev/test_add"):
            assert subprocess.run([program]).returncode == 0


def test_survivors_are_listed_and_counted(project, tmp_path):
    missed = [mutant for mutant in tables.read_all() if mutant.name == "core.missed"]
    said = []
    tried = trial.Trials(missed, said.append).run()
    said.clear()
    assert mutants.report(tried, 6, said.append) == 1
    assert said == [
        "0 of 1 mutants caught in 0.1 min",
        "  core.missed  SURVIVED  unit.add passed",
        "               It multiplies.",
    ]
    mutants.write_junit(tmp_path / "mutants-all.xml", tried)
    counted = subprocess.run(
        [sys.executable, Path(__file__).parents[2] / "scripts/test_summary.py", tmp_path, tmp_path / "none"],
        capture_output=True, text=True,
    )
    assert counted.stdout.splitlines() == [
        "failed: all: core.missed: SURVIVED: unit.add passed", "0 passed, 1 failed"
    ]


def test_two_runs_do_not_share_their_copies(project):
    with trial.alone():
        with pytest.raises(trial.CannotTry, match="another run uses"):
            trial.Trials(tables.read_all(), print).run()


def test_when_the_time_is_over_what_is_tried_counts_for_nothing(project):
    project("tests/main.c", PROJECT["tests/main.c"].replace("return 0;", "for (;;) {\n        }"))
    begun = time.monotonic()
    assert trial.Trials(tables.read_all(), print, seconds_max=5).run() == []
    assert time.monotonic() - begun < 60


def test_what_changed_since_a_commit_comes_first(project):
    git = ["git", "-C", project.root, "-c", "user.name=a", "-c", "user.email=a@b"]
    project("src/core/other.c", "int other(void)\n{\n    return 1;\n}\n")
    for command in (["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    known = tables.read_all()
    assert mutants.changed_since("HEAD", known, tables.Sources(project.root)) == set()
    project("tests/mutants/core.toml", PROJECT["tests/mutants/core.toml"].replace("multiplies", "doubles"))
    project("src/core/other.c", "int other(void)\n{\n    return 2;\n}\n")
    known = tables.read_all()
    assert mutants.changed_since("HEAD", known, tables.Sources(project.root)) == {"core.missed"}
    project("src/core/add.c", PROJECT["src/core/add.c"] + "\n")
    changed = mutants.changed_since("HEAD", known, tables.Sources(project.root))
    assert changed == {mutant.name for mutant in known}


@pytest.mark.parametrize("script, code", [("wait", None), ("exit 3", 3)])
def test_what_a_program_has_started_ends_with_it(tmp_path, script, code):
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    # In a group of its own, as ctest does with the programs of tests.
    command = ["bash", "-c", f"set -m; exec 3>held; sleep 100 & {script}"]
    assert trial.Processes().run(command, tmp_path / "log", seconds=1, cwd=tmp_path) == code
    ended, _, _ = select.select([held], [], [], 50)  # once nobody can write to it
    assert ended and os.read(held, 1) == b""
    os.close(held)


def test_apply_breaks_a_copy(project, capsys):
    copy = project.root / "build/broken"
    class Options:
        name, tree = "core.missed", str(copy)
    assert mutants.apply(Options) == 0
    assert "-    return a + b;\n+    return a * b;" in capsys.readouterr().out
    assert "a * b" in (copy / "src/core/add.c").read_text()
    assert (project.root / "src/core/add.c").read_text() == PROJECT["src/core/add.c"]
