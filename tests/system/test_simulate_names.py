"""`weir simulate` and `weir explain` with the names of a configuration, and no server."""

import json
import re
from fractions import Fraction

import pytest
from test_cli import weir
from weirserver import reads_configurations

pytestmark = [
    pytest.mark.alone,
    pytest.mark.storeless,
    pytest.mark.skipif(not reads_configurations(), reason="built without libyaml"),
]


@pytest.fixture(name="path")
def configuration(tmp_path):
    return tmp_path / "weir.yaml"


TRIED = """
limits:
  login: 5/min
  tenant:
    limit: 10/s capacity=4
    overrides:
      acme: 10/s capacity=7
      gold-*: 20/s capacity=9
  exports: {limit: 2/h, shadow: true}
chains:
  request: [login, tenant]
"""


def tried(path, *arguments, lines=()):
    path.write_text(TRIED)
    return weir(*arguments, "--config", path, input="".join(f"{line}\n" for line in lines))


def test_simulate_tries_a_limit_by_its_name_with_the_overrides_of_each_key(path):
    lines = [f"0,{key}" for key in ("acme", "gold-1", "gold-2", "small") for _ in range(12)]
    done = tried(path, "simulate", "tenant", "login, tenant", "10/s capacity=4", "tenant", "exports",
                 "--json", lines=lines)
    found = json.loads(done.stdout)["limits"]
    assert [lane["limit"] for lane in found] == [
        "tenant", "login, tenant", "10/s capacity=4", "tenant", "exports"]
    assert [lane["admitted"] for lane in found] == [7 + 9 + 9 + 4, 5 + 5 + 5 + 4, 16, 29, 8]
    assert [(limit["limit"], limit["refused"]) for limit in found[1]["limits"]] == [("login", 3 * 7), ("tenant", 8)]


def test_simulate_says_what_a_name_is_and_draws_the_numbers_of_the_key(path, tmp_path):
    lines = [*["1,acme"] * 3, *["2,acme"] * 9, "2,small"]
    done = tried(path, "simulate", "tenant", "exports", "--of", "acme", "--svg", tmp_path / "drawn.svg",
                 lines=lines)
    assert "\ntenant\n  tenant is 10/s capacity=4, with 2 overrides\n" in done.stdout
    assert "\n  exports is 2/h; in shadow mode, but here it refuses\n" in done.stdout
    assert re.search(r"level of acme\n +7 \|", done.stdout)
    assert ">7</text>" in (tmp_path / "drawn.svg").read_text()
    many = [f"{i // 100}ms,acme" for i in range(3000)]
    done = tried(path, "simulate", "tenant", lines=many)
    assert re.search(r"level\n +7 \|", done.stdout)


@pytest.mark.parametrize(
    "words, said",
    [
        (["simulate", "login", "a.log"], "'login' is no limit, and the file comes last; a name needs"),
        (["simulate", "10/s", "login,", "5/s", "a.log"], "'login,' is no limit, and the file comes last; a"),
        (["simulate", "login"], "say which limit, for example 10/s access.log; a name needs"),
        (["explain", "login"], "'login' is no kind of limit; a name needs"),
    ],
)
def test_a_name_without_a_configuration_is_told_what_it_needs(tmp_path, words, said):
    done = weir(*words, environment={"XDG_CONFIG_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    there = tmp_path / "weir" / "weir.yaml"
    there.parent.mkdir()
    there.write_text(TRIED)
    done = weir(*words, environment={"XDG_CONFIG_HOME": str(tmp_path)})
    assert f"a name needs --config FILE (there is {there}); see weir {words[0]} --help" in done.stderr


@pytest.mark.parametrize("words", [["simulate", "a.log", "b.log"], ["simulate", "10/s", "a.log", "20/s"],
                                   ["explain", "tokn 5/s"], ["explain", "Login"]])
def test_what_can_be_no_name_is_told_nothing_of_names(words):
    done = weir(*words)
    assert done.returncode == 2
    assert "a name needs" not in done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (["request"], "request is a chain: its limits have keys of their own, and a recording has one"),
        (["1/s, request"], "limit 2 of 2: request is a chain"),
        (["login capacity=3"], "a name stands alone"),
        (["tenant, login, tenant"], "limit 3 of 3 is limit 1 again, the same bucket twice"),
        (["login", "nobody", "a.log"], "'nobody' is no limit, nor a name of one"),
        (["login, nobody"], "limit 2 of 2: 'nobody' is no kind of limit, and nothing in the configuration"),
        (["nobody"], "say which limit"),
    ],
)
def test_simulate_refuses_what_has_no_meaning(path, words, said):
    done = tried(path, "simulate", *words, lines=["1"])
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "a file whose name" not in done.stderr


def test_a_file_called_like_a_limit_has_a_dot_before_it(path, tmp_path):
    (tmp_path / "login").write_text("1\n")
    path.write_text(TRIED)
    done = weir("simulate", "--config", path, "login", "./login", cwd=tmp_path)
    assert "1 arrival in 0 s" in done.stdout


def test_a_quoted_key_is_what_its_quotes_say(path):
    path.write_text("limits:\n  t:\n    limit: 1/h\n    overrides:\n      'x\"y': 3/h\n")
    done = weir("simulate", "t", "--json", "--config", path,
                input='0,"x""y"\n0,"x""y"\n0,x"y\n0,"x""y"\n0,x""y\n')
    [lane] = json.loads(done.stdout)["limits"]
    assert (lane["admitted"], lane["worst"]) == (4, [{"key": 'x"y', "count": 1, "too_high_at_most": 0}])


def spilled(path, overrides, lines):
    """(how many, the sum as a fraction, whether it is exact) of a name whose overrides have other rates."""
    path.write_text("limits:\n  t:\n    limit: 5/s\n    overrides:\n" + "".join(
        f"      {key}: {limit}\n" for key, limit in overrides.items()))
    done = weir("simulate", "--fill", "t", "--json", "--config", path, input="\n".join(lines))
    [lane] = json.loads(done.stdout)["limits"]
    return lane["spilled"], Fraction(lane["spill"]), lane["spill_is_exact"]


def test_what_spills_under_several_rates_is_one_exact_sum(path):
    lines = ["0,dave", "0.1,dave", "0.2,ann,5", "0.3,ann", "0.4,dave"]
    tenth = Fraction(1, 10)
    dave = (1 - tenth / 60) + (1 - 3 * tenth / 60)
    assert spilled(path, {"dave": "1/min"}, lines) == (3, dave + 1 - 5 * tenth, True)
    assert "           about 2.493333 in all\n" in weir(
        "simulate", "--fill", "t", "--config", path, input="\n".join(lines)).stdout
    periods_ns = [7, 11, 13, 17, 19, 23]  # nothing in common
    overrides = {f"k{ns}": f"1/{ns}ns" for ns in periods_ns}
    lines = [line for key in overrides for line in (f"0,{key}", f"1ns,{key}")]
    assert spilled(path, overrides, lines) == (6, sum(1 - Fraction(1, ns) for ns in periods_ns), True)


def test_a_sum_of_too_many_rates_says_that_it_is_rounded(path):
    periods_ns = [10**9 + step for step in (7, 9, 21, 33, 87, 93)]  # primes
    overrides = {f"k{ns}": f"1/{ns}ns" for ns in periods_ns}
    lines = [line for key in overrides for line in (f"0,{key}", f"1ns,{key}", f"2ns,{key}")]
    count, total, is_exact = spilled(path, overrides, lines)
    expected = sum((1 - Fraction(1, ns)) * 2 for ns in periods_ns)
    assert (count, is_exact) == (12, False)
    assert 0 <= expected - total < Fraction(20, 10**9)
    assert re.search(r" about 1[12]\.?\d* in all\n", weir(
        "simulate", "--fill", "t", "--config", path, input="\n".join(sorted(lines))).stdout)


def test_the_configuration_is_not_written_over(path):
    for option in ("--svg", "--decisions"):
        done = tried(path, "simulate", "login", option, path, lines=["1"])
        assert done.returncode == 2
        assert f"{option} {path} would overwrite the configuration" in done.stderr
        assert path.read_text() == TRIED


def test_explain_says_what_a_name_promises_and_who_has_other_numbers(path):
    said = tried(path, "explain", "tenant").stdout
    assert said.startswith("10/s capacity=4\n\n  named       tenant\n  but         acme: 10/s capacity=7\n"
                           "              gold-*: 20/s capacity=9\n")
    told = json.loads(tried(path, "explain", "--json", "tenant").stdout)
    assert (told["limit"], told["name"], told["shadow"]) == ("10/s capacity=4", "tenant", False)
    assert told["overrides"] == [{"key": "acme", "limit": "10/s capacity=7"},
                                 {"key": "gold-*", "limit": "20/s capacity=9"}]
    assert "exports; in shadow mode it refuses nothing\n" in tried(path, "explain", "exports").stdout
    assert tried(path, "explain", "10/s").stdout == weir("explain", "10/s").stdout
    for words, complaint in ((["request"], "request is a chain: one limit at a time"),
                             (["nobody"], "nothing in the configuration has this name"),
                             (["login,", "tenant"], "one limit at a time")):
        done = tried(path, "explain", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert complaint in done.stderr


@pytest.mark.parametrize("command", ["simulate", "explain"])
def test_a_configuration_that_is_wrong_is_exit_3_and_says_where(command, path):
    path.write_text("limits:\n  login: 5/fortnight\n")
    done = weir(command, "login", "--config", path, input="1\n")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"weir {command}: {path}:2:12: " in done.stderr
