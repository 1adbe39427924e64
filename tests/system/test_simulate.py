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
from terminal import Terminal, on_terminal
from test_cli import examples_of, weir
from weirserver import DEADLINE_S, wait_until, weir_binary

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "examples" / "recordings"

sys.path.insert(0, str(ROOT / "tests" / "conformance"))
import model  # noqa: E402

pytestmark = [pytest.mark.alone, pytest.mark.storeless]


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
        "spill_is_exact": True, "full": 2, "full_at_ns": [2_300_000_000, 6_000_000_000], "never": 0, "cost_never": "0",
        "not_whole": 0, "blocked": 0, "cost_blocked": "0", "no_room": 0, "cost_no_room": "0", "unchecked": 0, "worst": [
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


def test_a_full_memory_is_called_what_it_is(tmp_path):
    """64 KiB have 1536 slots, and a quarter of that besides room for the events of 63 windows."""
    def said(count, *limits):
        done = weir("simulate", *limits, "--memory", "64K", input="\n".join(f"0,{i}" for i in range(count)))
        return re.findall("^ +(no room|unchecked) +\\d+ +(?:[0-9.]+ % +)?(.*)$", done.stdout, re.M)

    slots = "found the memory full of live buckets"
    events = "found the memory for events full"
    either = "found the memory for buckets full, or that for events"
    assert said(63, "window 1/h") == []
    assert said(64, "window 1/h") == [("no room", f"{events}; more: --memory")]
    assert said(64, "window 1/h on_full=allow") == [("unchecked", f"{events}, and passed; more: --memory")]
    assert said(64, "1/h, window 3/h") == [("no room", f"{events}; more: --memory")]
    assert said(3000, "1/h, window 3/h", "1/h") == [("no room", f"{either}; more: --memory"),
                                                    ("no room", f"{slots}; more: --memory")]
    assert said(3000, "window 1/h, 1/h on_full=allow", "window 2/h")[1] == ("no room", f"{either}; more: --memory")
    (tmp_path / "twice.csv").write_text("".join(f"0,{i}\n" for i in range(64)))
    assert f"{events}; more: --memory" in weir("simulate", "window 1/h", "--memory", "64K", tmp_path / "twice.csv").stdout
    done = weir("simulate", "window 1/h", "--memory", "128K", input="\n".join(f"0,{i}" for i in range(127)))
    assert "no room" not in done.stdout  # as it advises


def test_those_who_pass_because_there_is_no_room_are_counted():
    """As many as would have found none if on_full refused, under every kind, alone and in a list."""
    texts = ["1/s", "queue 2/s", "stepped 3/s", "fixed 2/h", "sliding 2/h", "window 500/h", "1/h, window 3/h"]
    for text in texts:
        each = 200 if text == "window 500/h" else 1  # the key may have room, and its next event none
        lines = [f"{i}us,{i // each}" for i in range(each * 40 if each > 1 else 3000)]
        lax = text.replace(",", " on_full=allow,") + " on_full=allow"
        [strict] = simulate(text, "--memory", "64K", lines=lines)["limits"]
        [passed] = simulate(lax, "--memory", "64K", lines=lines)["limits"]
        assert strict["unchecked"] == passed["no_room"] == 0
        assert passed["unchecked"] == strict["no_room"] > 0, text
        assert passed["admitted"] == strict["admitted"] + strict["no_room"]
    done = weir("simulate", "1/h on_full=allow", "--memory", "64K", input="\n".join(f"0,{i}" for i in range(2000)))
    assert re.search("^   unchecked +464 +found the memory full of live buckets, and passed; more: --memory$",
                     done.stdout, re.M)
    assert simulate("window 3/h on_full=allow", lines=["0,a", "0,a", "1,a", "1,a"])["limits"][0]["unchecked"] == 0


def test_each_verdict_has_its_share_and_no_other_is_called_refused():
    lines = ["0,k", "0,k", "0,k,7", "0,k,0.5", "1,k", "9,k"]
    [lane, listed] = simulate("window 1/2s block=3s", "9/s, window 1/2s block=3s", lines=lines)["limits"]
    for each in (lane, listed):
        assert [each[name] for name in ("admitted", "refused", "never", "not_whole", "blocked")] == [2, 1, 2, 1, 1]
        assert [each[f"cost_{name}"] for name in ("admitted", "refused", "never", "blocked")] == [
            "2", "1", "7.5", "1"]
        assert each["worst"] == [{"key": "k", "count": 4, "too_high_at_most": 0}]
    assert listed["limits"] == [
        {"limit": "9/s", "refused": 0, "never": 0, "blocked": 0, "no_room": 0},
        {"limit": "window 1/2s block=3s", "refused": 1, "never": 2, "blocked": 1, "no_room": 0}]
    said = weir("simulate", "window 1/2s block=3s", input="\n".join([*lines, "0,other"])).stdout
    assert ("  admitted            3   42.9 %   of cost 3\n"
            "  refused             1   14.3 %   of cost 1\n"
            "  never               2   28.6 %   of cost 7.5\n"
            "                      1           cost more than the capacity\n"
            "                      1           cost no whole number, and the limit counts whole units\n"
            "  blocked             1   14.3 %   of cost 1, while their key was locked out\n"
            "  turned away most often:\n") in said
    assert "# admitted  x turned away\n" in said
    [lane] = simulate("--fill", "sliding 5/s", lines=["0,k,0.5", "0,k"])["limits"]
    assert (lane["filled"], lane["never"], lane["not_whole"], lane["no_room"]) == (1, 1, 1, 0)


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


def test_the_report_says_which_columns_could_have_been_the_key():
    lines = "Time,user\x1b,Cost\n1,ann,2\n1,bob,1\n"
    said = weir("simulate", "5/h", input=lines).stdout
    assert said.splitlines()[1] == (
        "one key for all, for no column is called key; --key takes one of: Time,user?,Cost")
    assert "of cost 3\n" in said
    for arguments, text in ((["--key", "none"], lines), (["--key", "USER"], "time,user\n1,a\n"),
                            ([], "time,KEY\n1,a\n"), ([], "time,cost\n1,2\n"), ([], "1,a\n")):
        assert "one key for all" not in weir("simulate", "5/h", *arguments, input=text).stdout
    done = weir("simulate", "5/h", input="time,key\n1795266000000,a\n")
    assert done.stderr.startswith("weir simulate: line 2: the time is after the year 2116 in seconds;"
                                  " in milliseconds: --unit ms\n")


def test_json_names_the_key_that_it_used():
    log = [COMMON.format("h", "-", 0, "/", 200)]
    for arguments, lines, key in (([], ["time,user", "1,a"], None), (["--key", "user"], ["time,user", "1,a"], "user"),
                                  ([], ["1,a"], "key"), (["--key", "none"], ["1,a"], None), ([], log, "address"),
                                  (["--key", "path"], log, "path"), (["--key", "none"], log, None)):
        assert simulate("1/h", *arguments, lines=lines)["key"] == key


def test_a_hash_begins_a_comment_only_where_the_line_begins():
    result = simulate("1/h", lines=["# so", "  # so", "1,a # b", "1,#c", "2 # so"])
    assert (result["arrivals"], result["lines_left_out"]) == (2, 1)
    assert [each["key"] for each in simulate("1/h", lines=["1,a # b", "1,a # b"])["limits"][0]["worst"]] == ["a # b"]


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


@pytest.mark.parametrize("text", ["1,a\n2,a\n", "time,key\n1,a\n2,a\n", "# so\n1,a\n2,a\n"])
def test_a_byte_order_mark_is_skipped(text):
    assert simulate("1/h", lines=["\ufeff" + text]) == simulate("1/h", lines=[text])


def test_a_compressed_log_is_recognised(tmp_path):
    file = tmp_path / "access.log.gz"
    file.write_bytes(gzip.compress(random.Random(5).randbytes(5000)))
    done = weir("simulate", "10/s", file)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"weir simulate: {file}, line 1: this is compressed: zcat FILE | weir simulate LIMIT\n"


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
        (["10/s,"], "limit 2 of 2 is empty"),
        (["10/s, ,5/s"], "limit 2 of 3 is empty"),
        (["10/s, 5/x"], "limit 2 of 2: unknown unit 'x'"),
        (["1/s", "10/s, 5/s, 600/min capacity=10"], "limit 3 of 3 is limit 1 again, the same bucket twice"),
        ([", ".join(f"{i}/s" for i in range(1, 18))], "17 limits: at most 16 can be taken together"),
        (["10/s, 5/s", "--fill"], "one limit at a time: only takes are under several"),
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
        ([], "# so\nuser,cost\n1,a,2\n", "line 2: the header names no column 'time'; it needs one, as in"
         " time,key,cost"),
        ([], "time,time\n1,2\n", "line 1: the header names the column 'time' twice"),
        ([], "1.0000000001\n", "line 1: the time is finer than a nanosecond"),
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


def test_no_file_is_written_over_one_that_is_read_nor_twice(tmp_path):
    recording, fresh = tmp_path / "mine.csv", tmp_path / "fresh"
    recording.write_text("1,a\n")
    (tmp_path / "linked.csv").hardlink_to(recording)
    (tmp_path / "symbolic.csv").symlink_to("mine.csv")
    for option in ("--decisions", "--svg"):
        for name in ("mine.csv", "./mine.csv", recording, "linked.csv", "symbolic.csv"):
            done = weir("simulate", "1/h", "mine.csv", option, name, cwd=tmp_path)
            assert (done.returncode, done.stdout) == (2, "")
            assert f"{option} {name} would overwrite the recording" in done.stderr
        with open(recording) as opened:
            assert weir("simulate", "1/h", option, recording, stdin=opened).returncode == 2
    for name in (fresh, "./fresh", f"{tmp_path}//fresh"):
        done = weir("simulate", "1/h", "mine.csv", "--decisions", "fresh", "--svg", name, cwd=tmp_path)
        assert done.returncode == 2
        assert f"--svg {name} would overwrite --decisions" in done.stderr
        assert not fresh.exists()
    assert recording.read_text() == "1,a\n"
    for name in ("/dev/null", "/dev/stderr"):  # nothing is in them to be overwritten
        assert weir("simulate", "1/h", recording, "--decisions", name, "--svg", name).returncode == 0


def test_a_file_of_decisions_stays_until_there_is_one(tmp_path):
    file = tmp_path / "decisions.csv"
    file.write_text("of another day, and longer than what will be written here\n" * 9)
    before = file.read_text()
    for text in ("", "time,time\n1,2\n", "what\n"):
        assert weir("simulate", "1/h", "--decisions", file, input=text).returncode == 3
        assert file.read_text() == before
    assert [row["verdict"] for row in decided(tmp_path, "1/h", lines=["1"])] == ["allowed"]


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
    "kinds.svg": ["5/s capacity=10", "stepped 5/s capacity=10", "fixed 10/2s", "sliding 10/2s", "window 10/2s",
                  RECORDINGS / "burst.csv"],
    "list.svg": ["5/s capacity=10, window 20/5s", RECORDINGS / "burst.csv"],
    "access-log.svg": ["60/min capacity=10", RECORDINGS / "access.log"],
}


@pytest.mark.once
def test_every_picture_of_the_documents_is_drawn_here():
    assert {path.name for path in (ROOT / "docs" / "img").glob("*.svg")} == set(PICTURES)


@pytest.mark.once
@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_documents_are_drawn_so(tmp_path, name):
    assert (ROOT / "docs" / "img" / name).read_text() == drawn(tmp_path, *PICTURES[name])


@pytest.mark.parametrize(
    "arguments, lines",
    [
        (["--fill", "1.5/s capacity=3"], (RECORDINGS / "fills.csv").read_text().splitlines()),
        (["1.5/s capacity=3"], ["0,k,2", "0,k,2", "0,k,4", "9,k"]),
        (["1/s block=3s"], ["0", "0", "1", "9"]),
        (["--fill", "1/s block=3s"], ["0", "1", "2"]),
        (["1/h", "--memory", "64K"], [f"0,{i}" for i in range(4000)]),
        (["1/h on_full=allow", "--memory", "64K"], [f"0,{i}" for i in range(4000)]),
    ],
)
def test_a_picture_says_the_same_as_the_report(tmp_path, arguments, lines):
    said = weir("simulate", *arguments, "--svg", tmp_path / "drawn.svg", input="\n".join(lines)).stdout
    words = re.findall("^ +(admitted|unchecked|refused|never|filled|spilled|full|blocked|no room) +(\\d+)", said, re.M)
    svg = ElementTree.parse(tmp_path / "drawn.svg")
    [title] = ["".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")
               if text.get("class") == "small end" and "," in "".join(text.itertext())]
    assert title == ", ".join(f"{count} {word}" for word, count in words)


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


@pytest.mark.parametrize(
    "limit, falls_s",  # the instants at which the level falls, of seven that come at 0.5 s and one at 2.9 s
    [
        ("stepped 3/s capacity=10", [1.5, 2.5, 3.5]),
        ("fixed 10/2s", [2, 4]),
        ("window 10/2s", [2.5, 4.9]),
    ],
)
def test_a_level_that_falls_at_once_is_drawn_so(tmp_path, limit, falls_s):
    lines = ["0.5"] * 7 + ["2.9"]
    points = points_of(drawn(tmp_path, limit, input="\n".join(lines)))
    pairs = list(zip(points, points[1:]))
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairs), points
    end_s = falls_s[-1]
    assert [a[0] for a, b in pairs if b[1] > a[1]] == [
        math.floor((76 + 660 * at / end_s) * 10 + 0.5) / 10 for at in falls_s]


def test_a_fixed_level_stays_to_the_end_of_its_window_after_many_arrivals(tmp_path):
    lines = [f"{i // 2}ms" for i in range(4000)]
    points = points_of(drawn(tmp_path, "fixed 5000/10s", input="\n".join(lines)))
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in zip(points, points[1:]))
    assert points[-1] == (736, 184) and points[-2][0] == 736


@pytest.mark.parametrize("limit", ["stepped 1/us capacity=1000000", "window 1000/ms"])
def test_as_many_falls_as_there_may_be_can_be_drawn(tmp_path, limit):
    lines = [f"{997 * i}us,,{i % 3 + 1}" for i in range(2000)]
    points = points_of(drawn(tmp_path, limit, input="\n".join(lines)))
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in zip(points, points[1:]))


def test_many_arrivals_make_a_picture_of_bounded_size(tmp_path):
    lines = [f"{i * 37 % 1000 + i // 1000 * 1000}us" for i in range(200000)]
    svg = drawn(tmp_path, "700/s capacity=50", "1/s", input="\n".join(lines))
    ElementTree.fromstring(svg)
    assert len(svg) < 200_000
    assert svg.count("<g ") == 2
    keyed = drawn(tmp_path, "1/s", input="\n".join(f"{line},{line[:1]}" for line in lines))
    assert "admitted</tspan>" in keyed and 'class="level"' not in keyed
    keyed = drawn(tmp_path, "1/s", "--of", "1", input="\n".join(f"{line},{line[:1]}" for line in lines))
    assert keyed.count('class="level"') == 1 and len(keyed) < 200_000


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


def test_of_one_instant_there_is_no_rate(tmp_path):
    lines = "\n".join(f"5,{i % 7}" for i in range(4000))
    assert '>4000</text>' in drawn(tmp_path, "10/s", input=lines)
    said = weir("simulate", "10/s", input=lines).stdout
    assert "     4000 |" in said and "/s |" not in said
    seconds = "\n".join(COMMON.format("10.0.0.%d" % (i % 7), "-", 0, "/", 200) for i in range(4000))
    assert '>4000/s</text>' in drawn(tmp_path, "10/s", input=seconds)
    close = "\n".join(f"{i}ns,{i % 7}" for i in range(100))
    assert '>1000M/s</text>' in drawn(tmp_path, "10/s", input=close)


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


# ---- The level of one of several keys ----

SVG = "{http://www.w3.org/2000/svg}"


def panels(svg):
    """(title, counts, points of the level or []) of each."""
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        title, counted = ["".join(text.itertext()) for text in group.iter(f"{SVG}text")][:2]
        level = [path.get("d") for path in group.iter(f"{SVG}path") if path.get("class") == "level"]
        found.append((title, counted, [tuple(map(float, pair.split()))
                                       for path in level for pair in re.split("[ML]", path)[1:]]))
    return found


def recorded(tmp_path, lines):
    file = tmp_path / "recorded.csv"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def test_each_limit_draws_the_key_that_it_refused_most_often(tmp_path):
    lines = ["0,small", "0,big,5", *["1,small"] * 3, "2,big,3", "2,big,3", "3,calm", "4,calm"]
    file = recorded(tmp_path, lines)
    by = lambda s, level: (round(76 + 660 * s / 4, 1), 184 - 150 * level / 4)  # noqa: E731
    found = panels(drawn(tmp_path, "1/s capacity=4", "2/h capacity=2", file))
    assert [title for title, _, _ in found] == [
        "1/s capacity=4", "level of big, turned away most often",
        "2/h capacity=2", "level of big, turned away most often"]
    assert found[1][1:] == ("1 admitted, 1 refused, 1 never", [
        by(0, 0), by(2, 0), by(2, 3), by(4, 1)])
    found = panels(drawn(tmp_path, "1/s capacity=5", "2/h capacity=9 block=1s", file))
    assert [title for title, _, _ in found[1::2]] == [
        "level of big, refused most often", "level of big, refused most often"]
    found = panels(drawn(tmp_path, "1/30s capacity=2.5", file, "--key", "none"))
    assert len(found) == 1
    found = panels(drawn(tmp_path, "1/30s capacity=8", "1/30s capacity=3",
                         recorded(tmp_path, [*["0,often"] * 9, "0,dear,8", "0,dear,4", "0,dear,3"])))
    assert [title.split(",")[0] for title, _, _ in found[1::2]] == ["level of dear", "level of often"]


def test_if_nobody_was_refused_the_closest_is_drawn(tmp_path):
    file = recorded(tmp_path, ["0,a,2", "1,b,6", "2,c,6", "3,a,3"])
    [_, (title, counted, points)] = panels(drawn(tmp_path, "1/h capacity=10", file))
    assert (title, counted) == ("level of b, closest to the capacity", "1 admitted, 0 refused")
    assert points[1:3] == [(76 + 660 / 3, 184), (76 + 660 / 3, 94)]
    said = weir("simulate", "1/h capacity=10", file).stdout
    assert "\n           level of b, closest to the capacity\n" in said


def test_a_pipe_is_asked_for_its_key_and_draws_the_same(tmp_path):
    lines = [f"{7 * i}ms,{'abc'[i % 3]}" for i in range(900)]
    text = "\n".join(lines)
    file = recorded(tmp_path, lines)
    [(_, counted, _)] = panels(drawn(tmp_path, "queue 20/s capacity=9", input=text))
    assert counted == "402 admitted, 498 refused"
    hint = "\nThe level of one key: --of KEY, or a file that can be read twice.\n"
    assert weir("simulate", "20/s", input=text).stdout.endswith(hint)
    of_file = weir("simulate", "20/s", file).stdout
    assert hint not in of_file and "level of a, refused most often" in of_file
    arguments = ["queue 20/s capacity=9", "1/min capacity=3", "--of", "b"]
    piped = drawn(tmp_path, *arguments, input=text)
    assert piped == drawn(tmp_path, *arguments, file)
    assert [title for title, _, _ in panels(piped)[1::2]] == ["level of b"] * 2
    twice = drawn(tmp_path, *arguments[:2], file).replace("level of a, refused most often", "level of a")
    assert twice == drawn(tmp_path, *arguments[:3], "a", input=text)
    assert 'class="leaves"' in piped


def test_it_is_the_level_of_that_key_alone(tmp_path):
    """Few arrivals or many, also where times run backwards; and the same counts as the report has."""
    draw = random.Random(3)
    for limit in ("10/s capacity=7", "window 12/3s", "stepped 20/2s capacity=9", "fixed 30/5s", "sliding 9/s"):
        for count in (3000, 12000):
            at_ms = [max(0, i * 10 - draw.choice([0, 0, 0, 70])) for i in range(count)]
            lines = [f"{at}ms,{draw.choice('aab')}" for at in at_ms] + [f"{10 * count}ms,b"]
            mine = [line for line in lines if line.endswith("a")] + [lines[-1].replace("b", "a,0")]
            [_, (_, counted, points)] = panels(
                drawn(tmp_path, limit, recorded(tmp_path, lines), "--of", "a"))
            [_, (title, again, found)] = panels(drawn(tmp_path, limit, recorded(tmp_path, lines)))
            assert title == "level of a, refused most often"
            assert (again, found) == (counted, points)
            [lane] = simulate(limit, lines=mine)["limits"]
            assert counted == f"{lane['admitted'] - 1} admitted, {lane['refused']} refused"


def test_a_file_with_a_header_and_bad_lines_is_read_twice_as_it_was_once(tmp_path):
    lines = ["# a comment", "who,time", "x,1", "x,soon", "y,1", "x,1", "x" * 70000]
    done = weir("simulate", "1/h", recorded(tmp_path, lines), "--key", "who")
    assert "2 lines could not be read and are left out:\n" in done.stdout
    assert "level of x, refused most often" in done.stdout
    log = ["no log", *[COMMON.format(f"10.0.0.{i // 5}", "-", i, "/", 200) for i in range(6)]]
    said = weir("simulate", "1/h", recorded(tmp_path, log)).stdout
    assert "1 line could not be read" in said and "level of 10.0.0.0, refused most often" in said


def test_standard_input_that_is_a_file_is_read_twice_from_where_it_stood(tmp_path):
    file = recorded(tmp_path, [*["9,skipped"] * 9, "10,a", "10,a", "11,b"])
    with open(file) as opened:
        os.lseek(opened.fileno(), len("9,skipped\n") * 9, os.SEEK_SET)
        done = weir("simulate", "1/h", stdin=opened)
    assert "3 arrivals in 1 s" in done.stdout
    assert "level of a, refused most often" in done.stdout


def test_a_key_that_never_came_is_said(tmp_path):
    for option in ([], ["--json"], ["--svg", tmp_path / "not.svg"]):
        done = weir("simulate", "1/h", "--of", "\x1bme", *option, input="1,you\n")
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == (
            "weir simulate: standard input: no arrival in it is of the key '?me'\n")
    assert not (tmp_path / "not.svg").exists()
    assert weir("simulate", "1/h", "--of", "you", input="1,you\n").returncode == 0


def test_a_hostile_key_is_text_in_a_picture(tmp_path):
    key = "<b>&\x1b]--" + "x" * 200
    file = recorded(tmp_path, [f"1,{key}", f"1,{key}", "2,b"])
    [_, (title, _, _)] = panels(drawn(tmp_path, "1/h", file))
    assert title == "level of <b>&?]--" + "x" * 32 + "..., refused most often"
    said = weir("simulate", "1/h", file).stdout
    assert "level of <b>&?]--" + "x" * 92 + "..., refused most often\n" in said
    assert "\x1b" not in said


def test_keys_are_shown_as_the_characters_that_they_are(tmp_path):
    long = "ж" * 40 + "語" * 40
    for key, shown in (("müller", "müller"), ("日本&", "日本&"), ("", '""'), ("a\u202eb\u0085c\u200bd\uffff", "a?b?c?d?"),
                       (b"m\xfcller\xe6\x97", "m?ller??"), ("🦊\x7f", "🦊?"), (b"\xed\xa0\x80", "???"),
                       (long, "ж" * 40 + "語" * 6 + "..."), ("é" * 100, "é" * 50 + "..."),
                       ("x" + "é" * 100, "x" + "é" * 49 + "...")):
        key = key if isinstance(key, bytes) else key.encode()
        file = tmp_path / "recorded.csv"
        file.write_bytes(b"1,%b\n1,%b\n2,other\n" % (key, key))
        [_, (title, _, _)] = panels(drawn(tmp_path, "1/h", file))
        cut = shown if len(shown) <= 40 else shown[:40] + "..."
        assert title == f"level of {cut}, refused most often"
        said = weir("simulate", "1/h", file).stdout
        assert f"\n                      1  {shown}\n" in said
        assert f"level of {shown}, refused most often\n" in said


def test_fills_draw_the_key_that_spilled_most_often(tmp_path):
    file = recorded(tmp_path, ["0,a,9", "0,b,2", "0,b,2", "1,b,2"])
    [_, (title, counted, _)] = panels(drawn(tmp_path, "--fill", "1/h capacity=3", file))
    assert (title, counted) == ("level of b, spilled most often", "3 filled, 2 spilled, 2 full")


def test_a_watched_key_may_come_before_time_begins(tmp_path):
    file = recorded(tmp_path, ["100,a", *["5,b"] * 2, *["6,b"] * 3000])
    [_, (title, counted, points)] = panels(drawn(tmp_path, "1/h capacity=5", file))
    assert (title, counted) == ("level of b, refused most often", "5 admitted, 2997 refused")
    assert 34 < min(y for _, y in points) < 35  # of 5 at 6 s, at 100 s


# ---- Several limits that decide together ----


def decide_together(limits, buckets, cost, now_ns):
    """None, or which limit refuses: the strictest verdict, then the longest wait, then the first."""
    asked = [bucket.can_take(limit, cost, now_ns) for limit, bucket in zip(limits, buckets)]
    verdicts = [answer.verdict for answer in asked]
    if set(verdicts) == {"allowed"}:
        for limit, bucket in zip(limits, buckets):
            bucket.take(limit, cost, now_ns)
        return None
    if "never" in verdicts:
        return verdicts.index("never")
    return max((i for i, verdict in enumerate(verdicts) if verdict == "limited"),
               key=lambda i: (asked[i].retry_after, -i))


@pytest.mark.parametrize("seed", range(3))
def test_a_list_decides_as_the_model_does(tmp_path, seed):
    draw = random.Random(seed)
    lists = [["3/s capacity=4", "window 9/5s"], ["1/s capacity=3", "stepped 4/3s capacity=5", "fixed 20/10s"],
             ["2/s"], ["sliding 5/2s", "7/3s capacity=4"]]
    limits = [[model.parse_limit(text) for text in texts] for texts in lists]
    worlds, lines, at_ns = {}, [], 10**18
    expected = [[0] * (len(texts) + 1) for texts in lists]
    decisions = []
    for _ in range(800):
        at_ns += draw.choice([0, 0, 10**7, 10**8, 6 * 10**8])
        key, cost = draw.choice("abc"), draw.choice([1, 1, 1, 2, 5])
        lines.append(f"{at_ns}ns,{key},{cost}")
        for i, each in enumerate(limits):
            buckets = worlds.setdefault((i, key), [model.bucket_of(limit) for limit in each])
            refusing = decide_together(each, buckets, model.parse_cost(str(cost)), at_ns)
            expected[i][len(each) if refusing is None else refusing] += 1
            decisions.append("" if refusing is None else lists[i][refusing])
    texts = [", ".join(each) for each in lists]
    rows = decided(tmp_path, *texts, lines=lines)
    assert [row["limit"] for row in rows[:4]] == texts
    assert [row["refused_by"] for row in rows] == decisions
    found = simulate(*texts, lines=lines)["limits"]
    for lane, each, counted in zip(found, lists, expected, strict=True):
        assert lane["admitted"] == counted[-1]
        assert lane["refused"] + lane["never"] == sum(counted[:-1])
        refused = [limit["refused"] + limit["never"] for limit in lane.get("limits", [])]
        assert refused == (counted[:-1] if len(each) > 1 else [])


def test_a_comma_joins_limits_however_the_shell_cut_them(tmp_path):
    file = recorded(tmp_path, ["0,a"] * 9)
    for words in (["10/s capacity=5, window 3/s", "2/s"], ["10/s", "capacity=5,", "window", "3/s", "2/s"],
                  ["10/s capacity=5,window 3/s", "2/s"], ["10/s", "capacity=5,", "window 3/s", "2/s"]):
        found = simulate(*words, file)["limits"]
        assert [lane["admitted"] for lane in found] == [3, 2]
        assert [limit["limit"] for limit in found[0]["limits"]] == ["10/s capacity=5", "window 3/s"]
    said = weir("simulate", "1/s capacity=5, window 3/s", file).stdout
    assert "  refused             6   66.7 %\n" + " " * 22 + "6           by window 3/s\n" in said


def test_sixteen_lists_of_sixteen(tmp_path):
    lists = [", ".join(f"{i + j + 1}/s" for i in range(16)) for j in range(16)]
    lines = [f"0,{i % 2}" for i in range(100)]
    found = simulate(*lists, recorded(tmp_path, lines))["limits"]
    assert [lane["admitted"] for lane in found] == [2 * (j + 1) for j in range(16)]
    assert len(panels(drawn(tmp_path, *lists, recorded(tmp_path, lines)))) == 16 * 17


def test_a_list_draws_the_level_under_each_of_its_limits(tmp_path):
    lines = [*["0"] * 3, *["1"] * 3, "4"]
    found = panels(drawn(tmp_path, "1/s capacity=2, window 3/4s", recorded(tmp_path, lines)))
    assert [(title, counted) for title, counted, _ in found] == [
        ("1/s capacity=2, window 3/4s", "4 admitted, 3 refused"),
        ("level under 1/s capacity=2", "4 admitted, 1 refused by it"),
        ("level under window 3/4s", "4 admitted, 2 refused by it")]
    at = lambda s, part: (round(76 + 660 * s / 8, 1), 184 - 150 * part)  # noqa: E731
    assert found[0][2] == []
    assert found[1][2] == [at(0, 0), at(0, 1), at(1, 1 / 2), at(1, 1), at(3, 0), at(4, 0), at(4, 1 / 2),
                           at(5, 0), at(8, 0)]
    assert found[2][2] == [at(0, 0), at(0, 2 / 3), at(1, 2 / 3), at(1, 1), at(4, 1), at(4, 1 / 3),
                           at(4, 2 / 3), at(5, 2 / 3), at(5, 1 / 3), at(8, 1 / 3), at(8, 0)]
    keyed = [f"{line},k" for line in lines] + ["0,other"]
    found = panels(drawn(tmp_path, "1/s capacity=2, window 3/4s", recorded(tmp_path, keyed)))
    assert [title for title, _, _ in found] == [
        "1/s capacity=2, window 3/4s", "level of k under 1/s capacity=2", "level of k under window 3/4s"]
    assert "level of k, refused most often, under window 3/4s\n" in weir(
        "simulate", "1/s capacity=2, window 3/4s", recorded(tmp_path, keyed)).stdout


def test_many_arrivals_under_a_list_show_the_level_under_each(tmp_path):
    few = [f"{i}ms" for i in range(0, 2000)]
    many = [f"{i}ms,,1" for i in range(0, 2000)] + [f"{i}ms,,0" for i in range(1999, 2100)]
    limits = "20/s capacity=10, queue 30/s capacity=15, window 18/s"
    ours = [panels(drawn(tmp_path, limits, input="\n".join(lines))) for lines in (few, many)]
    for one, other in zip(*ours):
        assert "admitted" in one[1] and one[1].split(", ")[1] == other[1].split(", ")[1]
    for one, other in zip(ours[0][1:], ours[1][1:]):
        assert abs(min(y for _, y in one[2]) - min(y for _, y in other[2])) < 1
    svg = drawn(tmp_path, limits, input="\n".join(few))
    assert svg.count('class="leaves"') == 1  # under the queue
    svg = drawn(tmp_path, limits, input="\n".join(many))
    assert svg.count('class="leaves"') == 1


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
        terminal = Terminal("simulate", "10/s", feeder.path)
        terminal.read_until(b" a second", times=2)
        terminal.process.send_signal(signal.SIGINT)
        said = terminal.read_all()
    progress, _, report = said.rpartition("\r\033[K")
    assert re.search(r"\d+ arrivals, (\d+|\d+\.\d million) a second", progress)
    assert ", 0.0 million" not in progress
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
