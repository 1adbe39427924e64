"""`weir simulate`: the numbers of well-known examples, formats, bad input, pictures, the terminal."""

import csv
import fcntl
import gzip
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import termios
import threading
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from test_cli import examples_of, on_terminal, weir
from weirserver import DEADLINE_S, wait_until, weir_binary

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "examples" / "recordings"

sys.path.insert(0, str(ROOT / "tests" / "conformance"))
import model  # noqa: E402


def simulate(*arguments, lines=(), code=0):
    """What came out, as JSON."""
    done = weir("simulate", "--json", *arguments, input="".join(f"{line}\n" for line in lines))
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def counts(limit, lines, *arguments):
    """(admitted, refused) under one limit."""
    [lane] = simulate(limit, *arguments, lines=lines)["limits"]
    assert lane["never"] == lane["no_room"] == 0
    return lane["admitted"], lane["refused"]


# ---- The numbers of the articles ----


def test_the_plot_of_fills_has_two_full_events():
    [lane] = simulate("--fill", "1.5/s", "capacity=3", RECORDINGS / "fills.csv")["limits"]
    assert lane == {
        "limit": "1.5/s capacity=3", "filled": 5, "cost_filled": "9", "spilled": 1, "spill": "1.1",
        "full": 2, "full_at_ns": [2_300_000_000, 6_000_000_000], "blocked": 0,
        "no_room": 0, "worst": [
            {"key": "", "count": 1, "too_high_at_most": 0}],
    }


def test_the_same_arrivals_as_takes_refuse_what_does_not_fit():
    [lane] = simulate("1.5/s capacity=3", RECORDINGS / "fills.csv")["limits"]
    assert (lane["admitted"], lane["refused"]) == (4, 1)
    assert (lane["cost_admitted"], lane["cost_refused"]) == ("7", "2")


def test_of_twenty_every_25_ms_twelve_pass():
    result = simulate("5/s", "capacity=10", RECORDINGS / "every-25ms.csv")
    assert (result["arrivals"], result["first_ns"], result["latest_ns"]) == (20, 0, 475_000_000)
    [lane] = result["limits"]
    assert (lane["admitted"], lane["refused"], lane["delayed"]) == (12, 8, 0)
    assert counts("5/s capacity=10", ["475ms"] * 20) == (10, 10)


def test_as_a_queue_the_twelve_leave_every_200_ms(tmp_path):
    lines = [f"{25 * i}ms" for i in range(20)]
    arrivals = [25 * i for i in (*range(11), 16)]
    delays = [200 * (i + 1) - at for i, at in enumerate(arrivals)]  # egress 200 .. 2400 ms
    [lane] = simulate("queue 5/s", "capacity=10", lines=lines)["limits"]
    assert (lane["admitted"], lane["refused"], lane["delayed"]) == (12, 8, 12)
    assert lane["delay_max_ns"] == max(delays) * 10**6 == 2_000_000_000
    assert lane["delay_mean_ns"] == sum(delays) * 10**6 // 12
    svg = drawn(tmp_path, "queue 5/s capacity=10", RECORDINGS / "every-25ms.csv")
    leaves = re.search('class="leaves" d="([^"]*)"', svg)[1]
    places = [int(x) for x in re.findall(r"M(\d+) ", leaves)]
    assert places == [76 + min(int(660 * (i + 1) / 12), 659) for i in range(12)]
    [now] = simulate("queue 5/s capacity=10 first=now", lines=lines)["limits"]
    assert (now["admitted"], now["delayed"]) == (13, 12)


def decided(tmp_path, *arguments, lines):
    file = tmp_path / "decisions.csv"
    simulate(*arguments, "--decisions", file, lines=lines)
    with open(file, newline="") as opened:
        return list(csv.DictReader(opened))


def test_every_decision_can_be_written_down(tmp_path):
    rows = decided(tmp_path, "queue 5/s capacity=10", lines=[f"{25 * i}ms" for i in range(20)])
    egress_ms = [(int(row["time_ns"]) + int(row["delay_ns"])) // 10**6 for row in rows
                 if row["verdict"] == "allowed"]
    assert egress_ms == list(range(200, 2401, 200))
    passed = [i for i, row in enumerate(rows, 1) if row["verdict"] == "allowed"]
    assert passed == [*range(1, 12), 17]
    waits = [int(row["retry_after_ns"]) // 10**6 for row in rows if row["verdict"] == "limited"]
    assert waits == [125, 100, 75, 50, 25, 175, 150, 125]


def test_decisions_name_limit_key_and_spill(tmp_path):
    lines = ['0,"a, ""b""",2', "0,plain,1", '0,x"y', "1s,two words,9"]
    rows = decided(tmp_path, "1/s capacity=3", "2/s", lines=lines)
    assert [row["limit"] for row in rows] == ["1/s capacity=3", "2/s"] * 4
    assert [row["key"] for row in rows[::2]] == ['a, "b"', "plain", 'x"y', "two words"]
    assert [row["verdict"] for row in rows[:2] + rows[-2:]] == [
        "allowed", "allowed", "never", "never"]
    rows = decided(tmp_path, "--fill", "1.5/s capacity=3", lines=["0,k,2", "0.3,k,2"])
    assert [(row["spill"], row["full"]) for row in rows] == [("0", "false"), ("0.55", "true")]


def test_a_thousand_in_a_second():
    assert counts("100/s capacity=20", [f"{i}ms" for i in range(1000)]) == (119, 881)
    assert counts("100/s capacity=20", ["7"] * 1000) == (20, 980)


def test_the_spending_limit_says_when_990_fit():
    assert counts("1000/30d", ["0,eur,30", "0,eur,990", "51839.999999999,eur,990"]) == (1, 2)
    assert counts("1000/30d", ["0,eur,30", "0,eur,990", "51840,eur,990"]) == (2, 1)


def test_bob_and_alice_have_a_bucket_each():
    lines = ["0,bob", "999,bob", "1000,bob", "1000,alice", "1001,alice", "2001,bob", "2001,bob",
             "2001,alice", "3002,alice", "3003,alice"]
    result = simulate("1/2s", "--unit", "ms", lines=lines)
    [lane] = result["limits"]
    assert (lane["admitted"], lane["refused"]) == (4, 6)
    assert [(each["key"], each["count"]) for each in lane["worst"]] == [("bob", 3), ("alice", 3)]


def test_no_fraction_of_a_drip_is_lost():
    assert counts("10/10s", [f"{990 * i}ms" for i in range(902)]) == (901, 1)
    assert counts("10/10s", [f"{900 * i}ms" for i in range(92)]) == (91, 1)
    assert counts("10/10s", [f"{i}" for i in range(2000)]) == (2000, 0)
    pairs = [f"{1900 * (i // 2)}ms" for i in range(2000)]
    assert counts("1/s capacity=2", pairs)[0] == 1500


def test_the_bounds_of_a_meter():
    for limit, ticks, each, admitted in (
            ("10/s capacity=30", 301, 30, 330), ("10/s capacity=300", 301, 300, 600)):
        lines = [f"{100 * i}ms" for i in range(ticks) for _ in range(each)]
        assert counts(limit, lines)[0] == admitted
    assert counts("10/10s", [f"{i}" for i in range(11) for _ in range(10)])[0] == 20


# ---- The same as the model, whatever comes ----


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fill", [False, True], ids=["take", "fill"])
def test_it_decides_as_the_model_does(seed, fill):
    draw = random.Random(seed)
    texts = ["10/s", "7/3s capacity=2.5", "1/7us capacity=3", "100/min capacity=0.75"]
    lines, at_ns = [], 0
    expected = {text: [0, 0, 0] for text in texts}
    worlds = {text: {} for text in texts}
    for _ in range(3000):
        at_ns = max(0, at_ns + draw.choice([0, 1, 10**3, 10**7, 10**8, 3 * 10**8, -10**8]))
        key = draw.choice("abcd")
        cost = draw.choice(["0", "0.25", "1", "1", "2", "2.6"])
        lines.append(f"{at_ns}ns,{key},{cost}")
        for text in texts:
            bucket = worlds[text].setdefault(key, model.Bucket())
            decide = bucket.fill if fill else bucket.take
            answer = decide(model.parse_limit(text), model.parse_cost(cost), at_ns)
            verdict = answer.spill > 0 if fill else ["allowed", "limited", "never"].index(
                answer.verdict)
            expected[text][verdict] += 1
    result = simulate(*texts, *(["--fill"] if fill else []), lines=lines)
    for text, lane in zip(texts, result["limits"], strict=True):
        if fill:
            assert [lane["filled"] - lane["spilled"], lane["spilled"], 0] == expected[text]
        else:
            assert [lane["admitted"], lane["refused"], lane["never"]] == expected[text]


def test_every_limit_stands_alone_and_may_be_given_twice():
    lines = [f"{i}ms" for i in range(50)]
    alone = [counts(limit, lines) for limit in ("10/s", "1/h", "100/s capacity=3")]
    result = simulate("10/s", "bucket", "1/h", "100/s", "capacity=3", "10/s", "-", lines=lines)
    assert [(lane["admitted"], lane["refused"]) for lane in result["limits"]] == [*alone, alone[0]]
    assert [lane["limit"] for lane in result["limits"]] == [
        "10/s", "bucket 1/h", "100/s capacity=3", "10/s"]


def test_an_older_time_sees_a_fuller_bucket_and_is_counted():
    result = simulate("10/s capacity=5", lines=["0,k,5", "0.1,k", "0.05,k", "0.2,k"])
    assert (result["late"], result["late_max_ns"]) == (1, 50_000_000)
    assert (result["first_ns"], result["latest_ns"]) == (0, 200_000_000)
    [lane] = result["limits"]
    assert (lane["admitted"], lane["refused"]) == (3, 1)
    done = weir("simulate", "10/s", input="2\n1\n")
    assert "1 of them had an older time than one before, by at most 1 s: they see a fuller" \
        " bucket" in done.stdout


def test_a_full_table_is_counted_and_said():
    lines = [f"0,{i}" for i in range(20000)]
    result = simulate("1/h", "--memory", "64K", lines=lines)
    [lane] = result["limits"]
    assert lane["no_room"] > 10000
    assert lane["admitted"] + lane["no_room"] == 20000
    done = weir("simulate", "1/h", "--memory", "64K", input="\n".join(lines))
    assert "found the memory full of live buckets; more: --memory" in done.stdout


# ---- Formats ----

COMMON = '{} - {} [21/Nov/2026:13:00:{:02} +0000] "GET {} HTTP/1.1" {} 5'


def test_access_logs_are_recognised_and_keyed():
    lines = [COMMON.format("10.0.0.%d" % (i % 2), "-", i // 10, f"/{i % 5}?q={i}", 200 + i % 3)
             for i in range(40)]
    for log in (lines, [line + ' "-" "agent %s"' % line[:4] for line in lines]):
        assert counts("1/h", log) == (2, 38)
        assert counts("1/h", log, "--key", "path") == (5, 35)
        assert counts("1/h", log, "--key", "status") == (3, 37)
        assert counts("1/h", log, "--key", "none") == (1, 39)
        assert counts("1/h", log, "--format", "common") == (2, 38)
    assert counts("1/h", log, "--key", "agent") == (1, 39)
    assert simulate("1/h", lines=lines)["first_ns"] == 1795266000 * 10**9


def test_zones_order_the_log_and_not_its_lines():
    lines = [COMMON.format("h", "-", 0, "/", 200).replace("13:00:00 +0000", there)
             for there in ("13:00:00 +0000", "15:00:00 +0200", "08:30:00 -0430")]
    result = simulate("1/s", lines=lines)
    assert result["first_ns"] == result["latest_ns"]


def test_csv_by_any_of_its_times_and_columns(tmp_path):
    same = ["2026-11-21T13:00:00Z,a", "2026-11-21T14:00:01+01:00,a", "2026-11-21 13:00:02.5Z,b"]
    numbers = ["1795266000,a", "1795266001.0,a", "1795266002.5,b"]
    assert simulate("1/min", lines=same) == simulate("1/min", lines=numbers)
    file = tmp_path / "named.csv"
    file.write_bytes(b"# written by hand\r\nuser,time,cost\r\n\r\nann,1,2\r\nbob,2,0.5\r\nann,3,1")
    assert simulate("2/h", file)["limits"][0]["cost_admitted"] == "2"
    [lane] = simulate("2/h", file, "--key", "user")["limits"]
    assert (lane["cost_admitted"], lane["worst"][0]["key"]) == ("2.5", "ann")


def test_a_file_that_looks_like_a_limit_has_a_dot_before_it(tmp_path):
    (tmp_path / "2026").mkdir()
    (tmp_path / "2026" / "h").write_text("1\n")
    done = weir("simulate", "1/h", "2026/x.log", cwd=tmp_path)
    assert done.returncode == 2
    assert "a file whose name looks like a limit is ./2026/x.log" in done.stderr
    done = weir("simulate", "1/h", "./2026/h", cwd=tmp_path)
    assert done.returncode == 0
    assert "1 arrival in 0 s, from 1 s on" in done.stdout


def test_lines_that_cannot_be_read_are_counted_shown_and_left_out():
    lines = ["nonsense", "1,a", "later,b", "2,a", "", "# so", *["?"] * 10, "3,a", "x" * 70000]
    result = simulate("1/h", lines=lines)
    assert result["arrivals"] == 3
    assert result["lines_left_out"] == 13
    assert [each["line"] for each in result["first_left_out"]] == [1, 3, 7, 8, 9]
    said = weir("simulate", "1/h", input="\n".join(lines)).stdout
    assert "13 lines could not be read and are left out:\n" in said
    assert "  line 3: expected a time: seconds, 1500ms, or 2026-11-21T10:24:48Z\n" in said
    assert "  and 8 more\n" in said


def test_a_compressed_log_is_recognised(tmp_path):
    file = tmp_path / "access.log.gz"
    file.write_bytes(gzip.compress(b"1\n2\n"))
    done = weir("simulate", "10/s", file)
    assert done.returncode == 3
    assert "line 1: this is compressed: zcat FILE | weir simulate LIMIT" in done.stderr


def test_what_spills_is_summed_exactly_however_much_it_is():
    [lane] = simulate("--fill", "1/30d", lines=["0,k,1000000000000"] * 2000)["limits"]
    assert (lane["spilled"], lane["spill"]) == (2000, str(2000 * 10**12 - 1))
    [lane] = simulate("--fill", "3/7ns", "capacity=0.000001",
                      lines=["0ns,k,0.000001", *["1ns,k,999999999999.999999"] * 3])["limits"]
    assert (lane["spilled"], lane["spill"]) == (3, "2999999999999.999996")
    [lane] = simulate("--fill", "7/3s", lines=["0,k,7", "1ns,k,1", "2ns,k,1"])["limits"]
    assert lane["spill"] == "2999999993/1500000000"  # 2 - 2 * 7/3 billionths


def test_hostile_keys_do_not_reach_the_terminal():
    lines = ["0,\x1b[31mred", "0,\x1b[31mred", "0,b"]
    said = weir("simulate", "1/h", input="\n".join(lines)).stdout
    assert "\x1b" not in said and "?[31mred" in said
    [worst] = simulate("1/h", lines=lines)["limits"][0]["worst"]
    assert worst["key"] == "\x1b[31mred"  # JSON escapes it
    binary = subprocess.run([weir_binary(), "simulate", "1/h", "--json"], input=b"0,\xff\n0,\xff\n",
                            capture_output=True, check=True)
    assert json.loads(binary.stdout)["limits"][0]["worst"][0]["key"] == "?"


# ---- What is wrong ----


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "say which limit"),
        (["access.log"], "say which limit"),
        (["10/s", "a.log", "b.log"], "'a.log' is no limit, and the file comes last"),
        (["10/s", "a.log", "20/s"], "'a.log' is no limit, and the file comes last"),
        (["10/s", "--format", "xml"], "--format is csv, common or combined, not 'xml'"),
        (["10/s", "--unit", "min"], "--unit is s, ms, us or ns, not 'min'"),
        (["10/s", "--memory", "1K"], "--memory is a size from 64K to 16T"),
        (["10/s", "--keys", "x"], "did you mean --key?"),
        (["10/s"] * 17, "at most 16 limits at once"),
        (["1/s"] * 8 + ["capacity=1"] * 121, "too many words"),
    ],
)
def test_a_wrong_command_line_is_exit_2(arguments, said):
    done = weir("simulate", *arguments, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_bad_limit_is_shown_with_a_caret():
    done = weir("simulate", "10/s", "5/fortnight", "capacity=3", stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1:3] == ["    5/fortnight capacity=3", "      ^"]


@pytest.mark.parametrize(
    "arguments, text, said",
    [
        (["no/such.log"], "", "no/such.log: No such file or directory"),
        (["/"], "", "/: Is a directory"),
        ([], "", "standard input: there is no arrival in it"),
        ([], "# nothing\n\n", "standard input: there is no arrival in it"),
        ([], "what\never\n", "line 2: neither CSV that begins with a time, nor an access log"),
        (["--format", "csv"], "when,who\n1,2\n", "line 1: the header names no column 'time'"),
        (["--key", "user"], "1,bob\n", "line 1: --key names a column, and the CSV has no first"),
        (["--key", "user"], "time,key\n1,bob\n", "line 1: the header does not name the column"),
        (["--key", "colour"], COMMON.format("h", "-", 0, "/", 200) + "\n",
         "line 1: the keys of an access log are address user method path status referer agent"),
        (["--key", "agent"], COMMON.format("h", "-", 0, "/", 200) + "\n",
         "line 1: only the combined format has a referer and an agent"),
        (["--decisions", "/nowhere/x.csv"], "1\n", "/nowhere/x.csv: No such file or directory"),
        (["--svg", "/nowhere/x.svg"], "1\n", "/nowhere/x.svg: No such file or directory"),
    ],
)
def test_what_cannot_be_read_or_written_is_exit_3(arguments, text, said):
    done = weir("simulate", "10/s", *arguments, input=text)
    assert (done.returncode, done.stdout) == (3, "")
    assert said in done.stderr


def test_a_full_disk_is_a_failure():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    for option in ("--svg", "--decisions"):
        done = weir("simulate", "10/s", option, "/dev/full", input="1\n")
        assert (done.returncode, done.stdout) == (3, "")
        assert "/dev/full: No space left on device" in done.stderr


# ---- Pictures ----


def drawn(tmp_path, *arguments, **options):
    file = tmp_path / "drawn.svg"
    assert weir("simulate", *arguments, "--svg", file, **options).returncode == 0
    return file.read_text()


PICTURES = {
    "fills.svg": ["--fill", "1.5/s capacity=3", RECORDINGS / "fills.csv"],
    "refused-fills.svg": ["1.5/s capacity=3", RECORDINGS / "fills.csv"],
    "queue-every-25ms.svg": ["queue 5/s capacity=10", RECORDINGS / "every-25ms.csv"],
    "every-25ms.svg": ["5/s capacity=10", RECORDINGS / "every-25ms.csv"],
    "burst.svg": ["5/s capacity=10", "5/s capacity=1", "queue 5/s capacity=10",
                  RECORDINGS / "burst.csv"],
    "kinds.svg": ["5/s capacity=10", "stepped 5/s capacity=10", "fixed 10/2s", "sliding 10/2s",
                  RECORDINGS / "burst.csv"],
    "access-log.svg": ["60/min capacity=10", RECORDINGS / "access.log"],
}


@pytest.mark.once
def test_every_picture_of_the_documents_is_drawn_here():
    assert {path.name for path in (ROOT / "docs" / "img").glob("*.svg")} == set(PICTURES)


@pytest.mark.once
@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_documents_are_drawn_so(tmp_path, name):
    assert (ROOT / "docs" / "img" / name).read_text() == drawn(tmp_path, *PICTURES[name])


def points_of(svg, shape="level"):
    path = re.search(rf'<path class="{shape}" d="([^"]*)"', svg)[1]
    return [tuple(map(float, pair.split())) for pair in re.split("[ML]", path)[1:]]


def test_a_level_is_drawn_exactly(tmp_path):
    svg = drawn(tmp_path, "--fill", "1.5/s capacity=3", RECORDINGS / "fills.csv")
    ElementTree.fromstring(svg)
    tenth = lambda value: math.floor(value * 10 + 0.5) / 10  # noqa: E731
    at = lambda s, level: (tenth(76 + 660 * s / 8), tenth(184 - 150 * level / 3))  # noqa: E731
    assert points_of(svg) == [
        at(0, 0), at(1, 0), at(1, 1), at(5 / 3, 0), at(1.7, 0), at(1.7, 2), at(2, 1.55),
        at(2, 2.55), at(2.3, 2.1), at(2.3, 3), at(4.3, 0), at(6, 0), at(6, 3), at(8, 0)]
    assert svg.count("<circle") == 2


def test_many_arrivals_make_a_picture_of_bounded_size(tmp_path):
    lines = [f"{i * 37 % 1000 + i // 1000 * 1000}us" for i in range(200000)]
    svg = drawn(tmp_path, "700/s capacity=50", "1/s", input="\n".join(lines))
    ElementTree.fromstring(svg)
    assert len(svg) < 200_000
    assert svg.count("<g ") == 2
    keyed = drawn(tmp_path, "1/s", input="\n".join(f"{line},{line[:1]}" for line in lines))
    assert "admitted</tspan>" in keyed and 'class="level"' not in keyed


def test_a_short_and_a_long_recording_show_the_same_level(tmp_path):
    few = [f"{i}ms" for i in range(0, 2000)]
    many = [f"{i // 2}ms,,0.5" for i in range(0, 4000)]
    ours = [points_of(drawn(tmp_path, "100/s capacity=20", input="\n".join(lines)))
            for lines in (few, many)]
    top = [min(y for _, y in points) for points in ours]
    last = [points[-1][0] for points in ours]
    assert top == [34, 34] and abs(last[0] - last[1]) < 2


def test_a_large_capacity_is_written_out(tmp_path):
    assert ">1000000</text>" in drawn(tmp_path, "1000000/s", input="1\n")
    assert "  1000000 |" in weir("simulate", "1000000/s", input="1\n").stdout


def test_a_line_that_reaches_far_leaves_the_arrivals_their_picture(tmp_path):
    lines = "\n".join(f"{i // 10}" for i in range(5000))
    near = drawn(tmp_path, "queue 1/s capacity=50", input=lines)
    far = drawn(tmp_path, "queue 1/30d capacity=1000", input=lines)
    marks = [len(re.findall("M", re.search(f'class="{row}" d="([^"]*)"', svg)[1]))
             for row, svg in (("leaves", near), ("refused", far))]
    assert min(marks) > 200
    [lane] = simulate("queue 1/s capacity=50", lines=lines.split())["limits"]
    assert (lane["admitted"], lane["delayed"], lane["delay_max_ns"]) == (549, 549, 50 * 10**9)


def test_one_arrival_and_one_instant_can_be_drawn(tmp_path):
    for lines in (["0"], ["5"], ["5"] * 3000, ["5,a", "5,b"]):
        ElementTree.fromstring(drawn(tmp_path, "10/s", input="\n".join(lines)))
    assert "1 arrival in 0 s" in weir("simulate", "10/s", input="4611686018.427387904\n").stdout


def test_a_pipe_gets_plain_characters():
    said = weir("simulate", "5/s capacity=10", RECORDINGS / "every-25ms.csv").stdout
    assert said.isascii()
    assert max(map(len, said.splitlines())) <= 80
    assert not re.search(" $", said, re.M)


def test_a_terminal_gets_blocks_and_colours_where_it_wants_them():
    arguments = ["simulate", "5/s capacity=10", RECORDINGS / "every-25ms.csv"]
    said = on_terminal(*arguments, environment={"LC_ALL": "C.UTF-8"})
    assert "█" in said and "\033[31mx\033[0m" in said and "#" not in said
    said = on_terminal(*arguments, environment={"LC_ALL": "C"})
    assert "█" not in said and "#" in said
    said = on_terminal(*arguments, environment={"LC_ALL": "C.UTF-8", "NO_COLOR": "1"})
    assert "█" in said and "\033" not in said


@pytest.mark.once
@pytest.mark.parametrize("page", ["simulate.md", "which-limit.md"])
def test_every_example_of_the_page_is_true(page, tmp_path):
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "weir").symlink_to(Path(weir_binary()).resolve())
    environment = {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
    examples = list(examples_of(ROOT / "docs" / page))
    assert examples
    for command, printed in examples:
        done = subprocess.run(
            ["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment, cwd=ROOT, timeout=DEADLINE_S, check=False,
        )
        assert done.stdout == printed, command


# ---- Long recordings ----


def unread_bytes(pipe):
    count = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)


class Feeder:
    """A pipe with a name, into which a thousand lines after the other are written until the end of the
    block; with `pause` once, and then `taken` says that they have been read."""

    def __init__(self, folder, pause=False):
        self.path = folder / "fifo"
        os.mkfifo(self.path)
        self.over = threading.Event()
        self.taken = threading.Event()
        self.thread = threading.Thread(target=self.write, args=[pause], daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        self.thread.join(DEADLINE_S)

    def write(self, pause):
        try:
            with open(self.path, "w") as pipe:
                at = 0
                while not self.over.is_set():
                    pipe.write("".join(f"{at + i}ms\n" for i in range(1000)))
                    pipe.flush()
                    at += 1000
                    if pause:
                        wait_until(lambda: unread_bytes(pipe) == 0, "the lines to be read")
                        self.taken.set()
                        self.over.wait(DEADLINE_S)
        except BrokenPipeError:
            pass


def test_a_long_recording_shows_its_progress_until_ctrl_c(tmp_path):
    with Feeder(tmp_path) as feeder:
        said = on_terminal("simulate", "10/s", feeder.path,
                           done=lambda said: said.count(b"million a second") >= 2)
    progress, _, report = said.rpartition("\r\033[K")
    assert re.search(r"\d+ arrivals, \d+\.\d million a second", progress)
    assert re.match(r"\d+ arrivals in ", report)


def test_ctrl_c_ends_a_recording_that_waits(tmp_path):
    with Feeder(tmp_path, pause=True) as feeder:
        process = subprocess.Popen([weir_binary(), "simulate", "10/s", feeder.path, "--json"],
                                   stdout=subprocess.PIPE)
        assert feeder.taken.wait(DEADLINE_S)
        status = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: " S " in status.read_text(), "it to wait for more")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert json.loads(said)["arrivals"] == 1000
