"""The manual pages: they lint, and they leave no option out."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from weirserver import weir_binary

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "man").glob("*.[1-8]"))

pytestmark = pytest.mark.once


def test_there_are_five_pages():
    assert [page.name for page in PAGES] == [
        "libweir.3", "weir-protocol.7", "weir-serve.8", "weir.1", "weir.yaml.5",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_lints(page):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    lint = subprocess.run(["mandoc", "-Tlint", str(page)], capture_output=True, text=True)
    # The pages refer to each other, and are not installed here.
    complaints = [
        line for line in lint.stdout.splitlines() if "referenced manual not found" not in line
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_refers_to_pages_that_exist(page):
    names = {path.name for path in PAGES}
    for name, section in re.findall(r"^\.Xr (\S+) (\d)", page.read_text(), re.M):
        assert f"{name}.{section}" in names


COMMANDS = ["take", "can-take", "fill", "refund", "reset", "show", "run", "pipe", "explain", "simulate", "store", "check-config", "bench",
            "serve"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_help_is_in_the_manual(command):
    page = ROOT / "docs" / "man" / ("weir-serve.8" if command == "serve" else "weir.1")
    manual = page.read_text().replace("\\-", "-")
    shown = subprocess.run([weir_binary(), command, "--help"], capture_output=True, text=True)
    options = set(re.findall(r"^ +(?:-\w, )?--([a-z][a-z-]*)", shown.stdout, re.M)) - {"help"}
    assert options
    missing = [name for name in sorted(options) if not re.search(rf"Fl -{name}\b", manual)]
    assert not missing


def test_the_synopsis_of_explain_has_its_options():
    """Of `at most` without --config: there is no name in it. Only it is counted elsewhere, with a jitter."""
    synopsis = (ROOT / "docs/man/weir.1").read_text().replace("\\-", "-")
    lines = re.findall(r"^\.Cm explain\n((?:\.(?:Op|Ar|Li) .*\n)+)", synopsis, re.M)
    shown = subprocess.run([weir_binary(), "explain", "--help"], capture_output=True, text=True)
    options = set(re.findall(r"^  --([a-z-]+)", shown.stdout, re.M)) - {"help"}
    assert [set(re.findall(r"Fl -([a-z-]+)", line)) for line in lines] == [options - {"jitter"}, options - {"config"}]


def test_every_word_of_a_limit_is_in_the_grammar():
    """Of each kind as it may have it: the word is refused where the line of the grammar leaves it out."""
    grammar = re.findall(r"^\.Dl (?:Oo )?(\w+) (?:Oc )?Ar count (.*)$",
                         (ROOT / "docs/man/weir.1").read_text(), re.M)
    assert len(grammar) == 6
    for kind, rest in grammar:
        said = set(re.findall(r"(\w+)= Ns", rest))
        for word in ("capacity=2", "first=now", "waiting=2", "block=1s", "on_full=allow", "on_error=allow"):
            taken = subprocess.run([weir_binary(), "explain", f"{kind} 1/s {word}"], capture_output=True)
            assert (taken.returncode == 0) == (word.split("=")[0] in said), f"{kind}: {word}"


def test_the_help_says_that_blocked_exits_with_1():
    for words in (["take", "--help"], ["--help"]):
        shown = subprocess.run([weir_binary(), *words], capture_output=True, text=True)
        assert re.search(r"\b1 (if it is\s+)?limited or (its key is )?blocked", shown.stdout)


def test_the_manual_has_every_public_call_and_no_other():
    headers = "".join(path.read_text() for path in (ROOT / "include" / "weir").glob("*.h"))
    declarations = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
    calls = set(re.findall(r"\b(weir_\w+)\([^;{}]*\);", declarations))
    manual = (ROOT / "docs/man/libweir.3").read_text()
    assert set(re.findall(r"^\.Fn (\w+)", manual, re.M)) == calls


def options_of(text):
    """Of each WEIR command that begins a row: the words that may follow its arguments."""
    rows = re.findall(r"^(?:\| `|\.It )(WEIR\.\w+) ([^`\n]*)", text, re.M)
    return {command: re.findall(r"\b[A-Z]{3,}\b", rest) for command, rest in rows}


def test_resp_commands_have_the_same_options_in_page_and_manual():
    page = options_of((ROOT / "docs/resp.md").read_text())
    del page["WEIR.CLOCK"]  # for tests
    assert page["WEIR.TAKE"] == ["COST", "WAIT", "SHADOW", "VAR"]
    assert options_of((ROOT / "docs/man/weir-protocol.7").read_text()) == page


def test_every_parameter_of_check_is_in_the_manual():
    table = (ROOT / "docs/http.md").read_text().split("## GET /v1/check")[1].split("**Names and routes")[0]
    parameters = re.findall(r"^\| `([\w.]+=)", table, re.M)
    assert len(parameters) == 8
    manual = (ROOT / "docs/man/weir-protocol.7").read_text()
    assert sorted(re.findall(r"^\.It Cm ([\w.]+=)", manual, re.M)) == sorted(parameters)
