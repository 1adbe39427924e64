"""`weir`, the command, from a shell: against a real server on the test clock, against servers that
misbehave, and against none."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.request
from fractions import Fraction
from pathlib import Path

import pytest
from ports import free_port
from terminal import Terminal, on_terminal
from weirserver import DEADLINE_S, WeirServer, clean_environment, wait_until, weir_binary

ROOT = Path(__file__).resolve().parents[2]


def weir(*arguments, environment=None, **options):
    """Runs one command, without this shell's own WEIR_ variables."""
    return subprocess.run(
        [weir_binary(), *map(str, arguments)], capture_output=True, text=True,
        timeout=3 * DEADLINE_S, env=clean_environment(**(environment or {})), **options,
    )


@pytest.fixture(scope="module")
def server():
    with WeirServer("--test-clock", "--threads", "2") as running:
        yield running


@pytest.fixture
def ask(server):
    """Asks the server; returns the exit code and what was said."""

    def run(*arguments):
        command, *rest = arguments
        done = weir(command, "--server", f"127.0.0.1:{server.resp_port}", *rest)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


@pytest.fixture
def key(request):
    """A key that no other test uses."""
    return f"key:{request.node.name}"


# ---- Answers ----


def test_a_take_of_a_queue_says_when_it_may_go(ask, key):
    limit = "queue 5/s capacity=2"
    assert ask("can-take", key, limit) == (
        0, "allowed: it may go in 200 ms (1 of 2 would remain, empty in 200 ms)\n")
    assert ask("take", key, limit) == (
        0, "allowed: it may go in 200 ms (1 of 2 remain, empty in 200 ms)\n")
    assert json.loads(ask("take", key, limit, "--json")[1])["delay_ns"] == 400000000
    assert ask("take", key, limit) == (
        1, "limited: retry in 200 ms (0 of 2 remain, empty in 400 ms)\n")


def test_take_allows_limits_and_refuses_for_ever(ask, key):
    assert ask("take", key, "10/s", "--cost", 9) == (
        0, "allowed: 1 of 10 remain, empty in 900 ms\n")
    assert ask("take", key, "10/s", "--cost=1.22") == (
        1, "limited: retry in 22 ms (1 of 10 remain, empty in 900 ms)\n")
    assert ask("take", key, "10/s", "--cost", "10.5") == (
        4, "never: a cost of 10.5 exceeds the capacity of 10\n")


def test_json_has_the_exact_numbers(ask, key):
    code, said = ask("take", key, "10/3s", "capacity=7", "--cost", "6.9", "--json")
    assert code == 0
    assert json.loads(said) == {
        "verdict": "allowed", "capacity": 7, "remaining": 0, "retry_after_ns": -1,
        "retry_after_ms": -1, "reset_after_ns": 2070000000, "delay_ns": 0,
    }


def test_json_of_a_refusal(ask, key):
    assert ask("take", key, "7/s", "--cost", 7, "--json")[0] == 0
    code, said = ask("take", key, "7/s", "--json")
    assert code == 1
    assert json.loads(said) == {
        "verdict": "limited", "capacity": 7, "remaining": 0, "retry_after_ns": 142857143,
        "retry_after_ms": 143, "reset_after_ns": 1000000000, "delay_ns": 0,
    }
    code, said = ask("take", key, "7/s", "--json", "--cost", 8)
    assert code == 4
    assert json.loads(said)["verdict"] == "never"
    assert json.loads(said)["retry_after_ns"] == -1


def test_can_take_and_its_alias_charge_nothing(ask, key):
    for command in ("can-take", "peek", "can-take"):
        assert ask(command, key, "5/s", "--cost", 5) == (
            0, "allowed: 0 of 5 would remain, empty in 1 s\n")
    assert ask("take", key, "5/s", "--cost", 5)[0] == 0
    assert ask("can-take", key, "5/s")[0] == 1
    assert ask("can-take", key, "5/s", "--cost", 0)[0] == 0


def test_fill_spills_and_refund_gives_back(ask, key):
    assert ask("fill", key, "3/2s", "--cost", "2.5") == (
        0, "filled: 0 of 3 remain, empty in 1.67 s; 0 spilled\n")
    code, said = ask("fill", key, "3/2s", "--cost", "1.6", "--json")
    assert code == 0
    assert json.loads(said)["spill"] == "1.1"
    assert json.loads(said)["full"] is True
    assert ask("refund", key, "3/2s", "--cost", 2) == (
        0, "refunded: 2 of 3 remain, empty in 667 ms\n")
    assert ask("refund", key, "3/2s", "--cost", 99) == (0, "refunded: 3 of 3 remain, empty\n")


def test_show_is_exact_and_reset_empties(ask, server, key):
    assert ask("take", key, "3/s")[0] == 0
    server.command("WEIR.CLOCK", "ADVANCE", 1)
    code, said = ask("show", key, "3/s", "--json")
    assert code == 0
    assert json.loads(said)["level"] == "0.999999997"
    assert json.loads(said)["reset_after_ns"] == 333333333
    assert ask("show", key, "3/s") == (
        0, "level about 1 of 3: 2 of 3 remain, empty in 334 ms\n")
    assert ask("reset", key, "3/s") == (0, "reset: emptied\n")
    assert ask("reset", key, "3/s") == (0, "reset: there was nothing to empty\n")
    assert ask("reset", key, "3/s", "--json") == (0, '{"existed":false}\n')


def test_amounts_are_rounded_for_people_and_exact_as_json(ask, server, key):
    assert ask("take", key, "1000/30d", "--cost", "30.5")[0] == 0
    assert ask("show", key, "1000/30d")[1].startswith("level 30.5 of 1000: ")
    server.command("WEIR.CLOCK", "ADVANCE", 31234567)  # a clock never stands still
    assert ask("show", key, "1000/30d")[1].startswith("level about 30.499988 of 1000: ")
    code, said = ask("show", key, "1000/30d", "--json")
    assert "/" in json.loads(said)["level"]
    said = ask("fill", key, "1000/30d", "--cost", "1000")[1]
    assert "; about 30.499988 spilled, the bucket is full" in said


def test_retry_after_is_sufficient_and_minimal(ask, server, key):
    assert ask("take", key, "3/s capacity=1")[0] == 0
    code, said = ask("take", key, "3/s capacity=1", "--json")
    retry_ns = json.loads(said)["retry_after_ns"]
    assert (code, retry_ns) == (1, 333333334)
    server.command("WEIR.CLOCK", "ADVANCE", retry_ns - 1)
    assert ask("take", key, "3/s capacity=1")[0] == 1
    server.command("WEIR.CLOCK", "ADVANCE", 1)
    assert ask("take", key, "3/s capacity=1")[0] == 0


def test_a_limit_in_words_is_the_same_limit(ask, key):
    assert ask("take", key, "10/s", "capacity=1")[0] == 0
    assert ask("take", key, "10/s capacity=1")[0] == 1
    assert ask("take", key, "bucket", "600/min", "capacity=1")[0] == 1


# ---- Several limits ----


@pytest.fixture(params=["server", "file"])
def ask_under_several(request, tmp_path):
    """Asks a server whose clock stands still, or a file, whose times are left out."""
    environment = {"WEIR_STORE": f"file:{tmp_path}/buckets.weir"}
    if request.param == "server":
        server = request.getfixturevalue("server")
        environment = {"WEIR_SERVER": f"127.0.0.1:{server.resp_port}"}

    def run(*arguments):
        done = weir(*arguments, environment=environment)
        assert done.stderr == ""
        return done.returncode, re.sub(r", empty in [^\n)]*|retry in [^(]*", "", done.stdout)

    return run


def test_a_take_under_several_limits_is_all_or_nothing(ask_under_several, key):
    both = ("take", key, "10/d", "100/d", "capacity=20")
    assert ask_under_several(*both, "--cost", 9) == (
        0, "allowed: 1 of 10 remain\n"
           "    10/d               1 of 10 remain\n"
           "    100/d capacity=20  11 of 20 remain\n")
    for _ in range(2):
        assert ask_under_several(*both, "--cost", 2) == (
            1, "limited: (1 of 10 remain)\n"
               "  > 10/d               1 of 10 remain\n"
               "    100/d capacity=20  11 of 20 remain\n")
    assert ask_under_several("can-take", key, "100/d capacity=20, 10/d", "--cost", 15) == (
        4, "never: a cost of 15 exceeds the capacity of 10\n"
           "    100/d capacity=20  11 of 20 remain\n"
           "  > 10/d               1 of 10 remain\n")
    code, said = ask_under_several(*both, "--cost", 2, "--json")
    answer = json.loads(said)
    assert (code, answer["verdict"], answer["binding"]) == (1, "limited", 0)
    assert [limit["remaining"] for limit in answer["limits"]] == [1, 11]
    assert answer["retry_after_ns"] > 0


@pytest.mark.parametrize("words", [["10/d", "5/h"], ["10/d,5/h"], ["10/d,", "5/h"], ["10/d", ",", "5/h"],
                                   ["bucket", "10/d", "queue", "5/h"], ["10/d  capacity=10, 5/h"]])
def test_limits_in_any_words_are_a_list(ask, key, words):
    code, said = ask("take", key, *words, "--json")
    assert (code, [limit["capacity"] for limit in json.loads(said)["limits"]]) == (0, [10, 5])


def test_a_list_that_is_wrong_says_which_and_where(server, tmp_path):
    here = ("--server", f"127.0.0.1:{server.resp_port}")
    file = ("--store", f"file:{tmp_path}/buckets.weir")
    for arguments, said in [
        (["10/s", "9/x", *here], "limit 2 of 2: unknown unit 'x'; one of ns us ms s min h d w\n"
                                 "    10/s, 9/x\n            ^\n"),
        (["10/s", *["9/s"] * 16, *file], "17 limits: at most 16 can be taken together\n"),
        (["10/s", "600/min", "burst=10", *file],
         "limit 2 of 2 is limit 1 again, the same bucket twice\n    10/s, 600/min burst=10\n"),
        (["1" * 300, *file], "the limit is longer than 256 bytes\n"),
    ]:
        done = weir("take", "k", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("weir take: " + said)
    done = weir("take", "k", "10/s", "600/min", "burst=10", *here)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ERR invalid limit at byte 6: limit 2 of 2 is limit 1 again, the same bucket twice" in done.stderr


def test_any_key_will_do(ask):
    for key in ("a b", "--", "\n", "schlüssel", "x" * 60000, "*3\r\n", "-x"):
        assert ask("take", "--cost", 1, "--", key, "1/h")[0] == 0
        assert ask("take", "--json", "--", key, "1/h")[0] == 1


# ---- Where the server is ----


def test_the_server_is_found_by_option_variable_and_unix_socket(tmp_path):
    path = tmp_path / "weir.sock"
    with WeirServer("--resp", f"unix:{path}") as running:
        there = {"WEIR_SERVER": f"unix:{path}"}
        nowhere = {"WEIR_SERVER": "127.0.0.1:1"}
        assert weir("take", "k", "1/h", environment=there).returncode == 0
        option = ["--server", f"unix:{path}"]
        assert weir("take", "k", "1/h", *option, environment=nowhere).returncode == 1
        assert running.addresses["resp"] == [f"unix:{path}"]


def test_names_and_ipv6_are_addresses():
    with WeirServer("--resp", "[::1]:0") as running:
        port = running.resp_port
        assert weir("take", "k", "1/h", "--server", f"[::1]:{port}").returncode == 0
    with WeirServer() as running:
        port = running.resp_port
        assert weir("take", "k", "1/h", "--server", f"localhost:{port}").returncode == 0


def test_no_server_is_exit_3_with_the_command_that_starts_one(tmp_path):
    port = free_port()
    done = weir("take", "k", "1/h", "--server", f"127.0.0.1:{port}")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == (
        f"weir take: no server at 127.0.0.1:{port} (Connection refused); this starts one:\n"
        f"    {weir_binary()} serve --resp 127.0.0.1:{port}\n"
    )
    command = done.stderr.splitlines()[1].split()
    with WeirServer("--resp", command[-1]) as running:
        assert running.command_line()[:2] == command[:2]
        assert weir("take", "k", "1/h", "--server", f"127.0.0.1:{port}").returncode == 0
    path = tmp_path / "nobody.sock"
    done = weir("show", "k", "1/h", "--server", f"unix:{path}")
    assert done.returncode == 3
    assert f"serve --resp unix:{path}" in done.stderr


# ---- Passwords ----


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    file = tmp_path_factory.mktemp("password") / "password"
    file.write_text("open sesame\n")
    file.chmod(0o600)
    with WeirServer("--password-file", file) as running:
        yield f"127.0.0.1:{running.resp_port}", file, running


def test_the_right_password_opens(locked):
    address, file, _ = locked
    assert weir("take", "k1", "1/h", "--server", address, "--password-file", file).returncode == 0
    by_variable = {"WEIR_PASSWORD_FILE": str(file), "WEIR_SERVER": address}
    assert weir("take", "k1", "1/h", environment=by_variable).returncode == 1


def test_a_missing_and_a_wrong_password_say_so_and_are_not_shown(locked, tmp_path):
    address, _, _ = locked
    done = weir("take", "k2", "1/h", "--server", address)
    assert (done.returncode, done.stdout) == (3, "")
    assert "wants a password: --password-file FILE or WEIR_PASSWORD_FILE" in done.stderr
    wrong = tmp_path / "wrong"
    wrong.write_text("open barley\n")
    done = weir("take", "k2", "1/h", "--server", address, "--password-file", wrong)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"refuses the password from {wrong}" in done.stderr
    assert "barley" not in done.stderr


def test_an_unreadable_password_file_is_a_failure(locked, tmp_path):
    address, _, _ = locked
    done = weir("take", "k", "1/h", "--server", address, "--password-file", tmp_path / "none")
    assert done.returncode == 3
    assert f"no password from {tmp_path / 'none'}: No such file or directory" in done.stderr


def test_a_password_for_a_server_without_one_is_said(server, tmp_path):
    file = tmp_path / "password"
    file.write_text("secret\n")
    done = weir("take", "k", "1/h", "--server", f"127.0.0.1:{server.resp_port}",
                "--password-file", file)
    assert done.returncode == 3
    assert f"has no password; leave out the one from {file}" in done.stderr


# ---- Servers that misbehave ----


class BadServer:
    """Accepts connections, reads a little, sends `reply` and then closes, or hangs."""

    def __init__(self, reply=b"", hang=False):
        self.reply = reply
        self.hang = hang
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.kept = []

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *exception):
        for connection in self.kept:
            connection.close()
        self.listener.close()

    def serve(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                connection.recv(65536)
                connection.sendall(self.reply)
                if self.hang:
                    self.kept.append(connection)
                else:
                    connection.close()
        except OSError:
            pass  # closed at the end of the test, or by the client


@pytest.mark.parametrize(
    "reply, said",
    [
        (b"", "it closed the connection without an answer"),
        (b"*6\r\n:0\r\n", "it closed the connection without an answer"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it does not speak RESP"),
        (b"*6\r\n" + b":9\r\n" * 6, "its answer is none to WEIR.TAKE"),
        (b"*5\r\n" + b":0\r\n" * 5, "its answer is none to WEIR.TAKE"),
        (b"+OK\r\n", "its answer is none to WEIR.TAKE"),
        (b":1\r\n", "its answer is none to WEIR.TAKE"),
        (b"x" * 100000, "it does not speak RESP"),
        (b"-ERR unknown command 'WEIR.TAKE'\r\n", "says: ERR unknown command 'WEIR.TAKE'"),
        (b"-\x1b[31mred\r\n", "says: ?[31mred"),
    ],
    ids=["closes", "cut", "http", "no-verdict", "short", "ok", "number", "endless", "error", "escape"],
)
def test_a_server_that_talks_nonsense_is_a_failure(reply, said):
    with BadServer(reply) as bad:
        done = weir("take", "k", "1/h", "--server", bad.address)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(f"weir take: the server at {bad.address}")
        assert said in done.stderr


@pytest.mark.parametrize("reply", [b"", b"*6\r\n:0\r\n"], ids=["silent", "half"])
def test_a_server_that_hangs_is_left_after_the_timeout(reply):
    with BadServer(reply, hang=True) as bad:
        done = weir("take", "k", "1/h", "--server", bad.address, "--timeout", "150ms")
        assert done.returncode == 3
        assert done.stderr == f"weir take: the server at {bad.address}: no answer in time\n"


# ---- On a terminal ----


def test_colours_are_for_terminals_that_want_them(server, key):
    there = ["--server", f"127.0.0.1:{server.resp_port}"]
    assert "\033[32mallowed\033[0m: " in on_terminal("take", key, "1/h", *there)
    assert "\033[31mlimited\033[0m: " in on_terminal("take", key, "1/h", *there)
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        said = on_terminal("take", key, "1/h", *there, environment=environment)
        assert said.startswith("limited: ")
    assert "\033" not in on_terminal("take", key, "1/h", "--json", *there)
    assert "\033[1mweir take" in on_terminal("take", "--help")


def test_bench_shows_its_progress_on_a_terminal(server):
    terminal = Terminal("bench", "--server", f"127.0.0.1:{server.resp_port}", "--duration", "1h",
                        "--rate", "100/s")
    terminal.read_until(b"/s  allowed ", times=2)
    terminal.process.send_signal(signal.SIGINT)
    said = terminal.read_all()
    progress, _, report = said.rpartition("\r\033[K")
    assert re.search(r"  1 s  \d+/s  allowed \d+  limited 0  failed 0", progress)
    assert re.search(r"  2 s  \d+/s  allowed ", progress)
    assert "answered" in report


# ---- The command line ----


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["take"], "say which key and which limit"),
        (["take", "k"], "say which limit"),
        (["take", "", "10/s"], "a key has 1 to 65535 bytes"),
        (["take", "k" * 65536, "10/s"], "a key has 1 to 65535 bytes"),
        (["take", "k", "10/s", "--cots", "5"], "did you mean --cost?"),
        (["take", "k", "10/s", "--cost"], "--cost needs a value"),
        (["show", "k", "10/s", "--cost", "1"], "unknown option --cost"),
        (["take", "k", "10/s", "--server", "nowhere"], "bad server address 'nowhere'"),
        (["take", "k", "10/s", "--server", "::1:6390"], "bad server address"),
        (["take", "k", "10/s", "--server", "localhost:0"], "bad server address"),
        (["take", "k", "10/s", "--server", "localhost:65536"], "bad server address"),
        (["take", "k", "10/s", "--server", "unix:"], "bad server address"),
        (["take", "k", "10/s", "--server", "unix:/" + "x" * 200], "bad server address"),
        (["take", "k", *["10/s", "capacity=5"] * 65], "too many words"),
        (["take", "k", *["1" * 300 + "/s"] * 14], "limits have at most 4128 bytes"),
        (["fill", "k", "10/s", "5/s"], "one limit at a time"),
        (["pipe", "10/s", "100/min"], "one limit: what leaves has one rate"),
        (["pipe", "10/s,100/min"], "one limit: what leaves has one rate"),
        (["explain"], "say which limit"),
        (["explain", "10/s", "20/s"], "one limit at a time"),
        (["explain", "10/s, window 20/min"], "one limit at a time"),
        (["explain", "at most 5 in any 1s", "--config", "x.yaml"], "--config is for a limit by its name"),
        (["explain", "10/s", "fixed", "20/h"], "one limit at a time"),
        (["version", "please"], "it takes no words"),
        (["bench", "fast"], "it takes only options"),
        (["bench", "--connections", "0"], "a whole number from 1"),
        (["bench", "--pipeline", "x"], "a whole number from 1"),
        (["bench", "--keys", "1000000001"], "a whole number from 1"),
        (["bench", "--skew", "-1"], "from 0 to 10"),
        (["bench", "--skew", "nan"], "from 0 to 10"),
        (["bench", "--protocol", "grpc"], "resp or http"),
        (["bench", "--command", "reset"], "there is no 'reset'"),
        (["bench", "--rate", "10/s capacity=3"], "a rate is COUNT/[N]UNIT"),
        (["bench", "--rate", "x"], "a rate is COUNT/[N]UNIT, for example 1000/s, not 'x'"),
        (["bench", "--rate", "10/s", "--saturate"], "exclude each other"),
        (["bench", "--cost", "5", "--cost", "6"], "--cost is given twice"),
        (["bench", "--command", "show", "--cost", "3"], "show takes no --cost"),
        (["bench", "--command", "ping", "--cost", "3"], "ping takes no --cost"),
        (["take", "-k", "10/s"], "unknown option -k; a word that starts with - comes after --"),
        (["take", "k", "10/s", "--cost", "1", "--cost=2"], "--cost is given twice"),
        (["bench", "--duration", "0s"], "above 0"),
        (["bench", "--command", "check"], "there is no check over RESP"),
        (["help", "me"], "there is no command 'me'"),
    ],
)
def test_a_wrong_command_line_is_exit_2_and_says_what_is_wrong(arguments, said):
    done = weir(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.startswith(f"weir {arguments[0]}: ")
    assert f"see weir {arguments[0]} --help" in done.stderr


@pytest.mark.parametrize(
    "arguments, line, column",
    [
        (["take", "k", "10/fortnight"], "10/fortnight", 3),
        (["take", "k", "10/s", "capacity=x"], "10/s capacity=x", 14),
        (["take", "k", "Ten"], "Ten", 0),
        (["explain", "10/s", "colour=red"], "10/s colour=red", 5),
        (["take", "k", "10/s", "--cost", "1.5.5"], "1.5.5", 3),
        (["take", "k", "10/s", "--cost", "0.0000001"], "0.0000001", 8),
        (["take", "k", "10/s", "--timeout", "5 s"], "5 s", 1),
        (["bench", "--limit", "10/q"], "10/q", 3),
    ],
)
def test_a_caret_points_at_what_is_wrong(arguments, line, column):
    done = weir(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    shown = done.stderr.splitlines()
    assert len(shown) == 3
    assert shown[1] == "    " + line
    assert shown[2] == " " * (4 + column) + "^"


def test_unknown_commands_suggest_the_nearest():
    for typed, meant in (("tkae", "take"), ("cantake", "can-take"), ("benhc", "bench")):
        done = weir(typed)
        assert done.returncode == 2
        assert f"did you mean weir {meant}?" in done.stderr


def test_an_unknown_command_sends_no_codes_to_the_terminal():
    done = weir("\x1b[31mred\x07\x7f")
    assert done.returncode == 2
    assert done.stderr.startswith("weir: unknown command '?[31mred??'")
    done = weir("frobnicate")
    assert done.returncode == 2
    assert "did you mean" not in done.stderr
    assert weir().returncode == 2


COMMANDS = ["take", "can-take", "fill", "refund", "reset", "show", "block", "unblock", "run",
            "pipe", "explain", "simulate", "store", "check-config", "bench", "serve", "help",
            "version"]


def test_help_teaches_and_lists_every_command():
    overview = weir("--help")
    assert overview.returncode == 0
    assert overview.stdout == weir("help").stdout == weir("-h").stdout
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", overview.stdout, re.M)
    assert max(map(len, overview.stdout.splitlines())) <= 100
    assert "\033" not in overview.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_page(command):
    by_option = weir(command, "--help")
    assert by_option.returncode == 0
    assert by_option.stderr == ""
    if command != "help":
        assert by_option.stdout == weir("help", command).stdout
    assert max(map(len, by_option.stdout.splitlines())) <= 100


def test_what_is_not_built_is_not_in_the_help():
    everything = "".join(weir(command, "--help").stdout for command in COMMANDS)
    for word in ("take-all", "TAKEALL", "redis:", "grpc"):
        assert word not in everything


def test_version_says_what_is_in():
    done = weir("--version")
    assert done.returncode == 0
    assert re.fullmatch(
        r"weir \d+\.\d+\.\d+\nin this build: .*jansson.*\ncompiler: .*\nclock: CLOCK_BOOTTIME.*\n",
        done.stdout,
    )


def test_a_full_disk_is_a_failure():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([weir_binary(), "explain", "10/s"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3


# ---- explain ----


def test_explain_in_json_is_exact():
    done = weir("explain", "--json", "10/3s", "capacity=2.5")
    assert done.returncode == 0
    explained = json.loads(done.stdout)
    assert explained["limit"] == "200/min capacity=2.5"
    assert explained["rate_per_s"] == "10/3"
    assert explained["interval_ns"] == "300000000"
    assert explained["drain_ns"] == "750000000"
    assert explained["windows"][0] == {
        "window_ns": 3000000000, "at_most": "12.5", "requests_at_most": 12, "end_included": True,
    }
    assert explained["strict"] == [
        {"limit": "9/3s capacity=1", "at_most": 10, "window_ns": 3000000000, "burst": 1},
        {"limit": "5/3s", "at_most": 10, "window_ns": 3000000000, "burst": 5},
        {"limit": "window 10/3s", "at_most": 10, "window_ns": 3000000000, "burst": 10},
    ]
    assert "window 10/3s             all at once; its end not included, 296 to 632 bytes a key\n" \
        in weir("explain", "10/3s capacity=2.5").stdout


@pytest.mark.parametrize(
    "limit", ["stepped 1099511.627775/ns", "stepped 0.000001/36525d capacity=0.000001",
              "queue 1/7us first=now", "0.000001/36525d capacity=0.000001", "1000000/ns", "1/7us", "1000000000000/36525d"]
)
def test_explain_knows_the_largest_and_the_smallest(limit):
    assert weir("explain", limit).returncode == 0
    explained = json.loads(weir("explain", "--json", limit).stdout)
    again = json.loads(weir("explain", "--json", explained["limit"]).stdout)
    for same in ("limit", "rate_per_s", "interval_ns", "drain_ns", "capacity"):
        assert explained[same] == again[same]


@pytest.mark.parametrize(
    "limit, waits",
    [
        ("5/min block=15min", "15 min for a take of 1, 15 min for a take of 5, the block included"),
        ("5/min block=30s", "30 s for a take of 1, 1 min for a take of 5, the block included"),
        ("5/min block=empty", "1 min for a take of 1, 1 min for a take of 5, the block included"),
        ("1/min block=1ns", "1 min for a take of 1, the block included"),
        ("5/min", "12 s for a take of 1, 1 min for a take of 5"),
    ],
)
def test_explain_counts_the_block(limit, waits):
    said = weir("explain", limit).stdout
    assert f"  waits       at most {waits}; more than that never passes\n" in said
    explained = json.loads(weir("explain", "--json", limit).stdout)
    longest_ns = {"5/min block=15min": 15 * 60 * 10**9}.get(limit, 60 * 10**9)
    assert explained["wait_max_ns"] == str(longest_ns)
    assert explained["bucket_bytes"] == 40
    is_blocking = "block" in limit
    assert explained.get("block_bytes") == (40 if is_blocking else None)
    assert ("and as many again for a block, until that ends\n" in said) == is_blocking


def test_explain_says_what_on_error_lets_pass():
    line = "  on_error    while the store is out of reach every key passes, uncounted\n"
    for limit, word in (("5/min on_error=allow", "allow"), ("5/min on_error=refuse", "refuse"), ("5/min", "refuse")):
        assert (line in weir("explain", limit).stdout) == (word == "allow")
        assert json.loads(weir("explain", "--json", limit).stdout)["on_error"] == word
    assert "on_error=local is not available" in weir("explain", "5/min on_error=local").stderr


def test_explain_tells_a_stepped_limit_by_its_periods():
    explained = json.loads(weir("explain", "--json", "stepped", "10/10s", "capacity=25").stdout)
    assert (explained["limit"], explained["kind"]) == ("stepped 10/10s capacity=25", "stepped")
    assert (explained["interval_ns"], explained["drain_ns"]) == ("10000000000", "30000000000")
    assert [window["at_most"] for window in explained["windows"]] == ["35", "85", "3625", "86425"]
    said = weir("explain", "stepped 10/10s capacity=25").stdout
    assert "  drains      10 at the end of every 10 s since its first charge, 1 per second in" in said
    assert "at most 25 + 10 for each 10 s begun:\n" in said
    assert "          15 s  |########################                | 15\n" in said
    small = weir("explain", "stepped 100/s capacity=1").stdout
    assert "at most 1 + 1 for each 1 s begun:\n" in small
    assert "  drains      1 at the end of every 1 s since its first charge\n" in small
    sized = weir("explain", "stepped 10/10s", "--max-latency", "25s").stdout
    assert sized.startswith("stepped 10/10s capacity=20\n")
    assert "  sized for   25 s: 10 for each whole 10 s = 20\n" in sized


def test_explain_tells_a_fixed_limit_by_the_calendar():
    explained = json.loads(weir("explain", "--json", "fixed 1000/month").stdout)
    assert (explained["kind"], explained["period_months"]) == ("fixed", 1)
    assert explained["windows"] == [{"window_ns": 31 * 86400 * 10**9, "at_most": "3000",
                                     "requests_at_most": 3000, "end_included": True}]
    said = weir("explain", "fixed 1000/month").stdout
    assert "  lets pass   1000 in each month of the calendar, in UTC, " in said
    assert "  empties     when its window ends, after at most 31 d\n" in said
    assert "at most 1000 for each month it meets:\n" in said
    assert "each 3 years of" in weir("explain", "fixed 5/3year").stdout


def test_explain_does_not_promise_a_sliding_window():
    explained = json.loads(weir("explain", "--json", "sliding 10/s").stdout)
    assert [window["at_most"] for window in explained["windows"]][:2] == ["18", "549"]
    assert explained["rate_per_s"] == "9"
    said = weir("explain", "sliding 10/s").stdout
    assert "at most 18 where T is up to 1 s, and 9 more for each further 1 s begun:\n" in said
    assert "at most 2 where T is up to 1 s, 4 up to 2 s, and 1 more for each further 1 s begun:\n" in weir(
        "explain", "sliding 2/s").stdout
    assert "  counts      10 per s in two windows of which the former fades\n" \
        "  lets pass   at most 9 per s in the long run\n" in said
    one = weir("explain", "sliding 1/min").stdout
    assert "  lets pass   at most 1 per 2 min in the long run\n" in one
    assert "at most 1, and 1 more for each whole 2 min:\n" in one
    assert "any 1 h      at most 31\n" in one
    assert json.loads(weir("explain", "--json", "sliding 1/s").stdout)["rate_per_s"] == "0.5"
    assert "         1.5 s  |####################                    | 5\n" in said
    sized = weir("explain", "sliding 10/s", "--max-latency", "1s")
    assert (sized.returncode, sized.stdout) == (2, "")
    assert "this kind holds its count" in sized.stderr


@pytest.mark.parametrize("count", [2, 3, 5, 100])
def test_explain_says_of_a_sliding_limit_what_its_table_says(count):
    said = weir("explain", f"sliding {count}/s").stdout
    most, more = map(int, re.search(r"at most (\d+) where T is up to 1 s.* and (\d+) more for each further 1 s", said).groups())
    beyond = 1 if ", 4 up to 2 s, " in said else 0
    table = {seconds: int(re.search(rf"any {text} +at most (\d+)\n", said)[1])
             for seconds, text in [(1, "1 s"), (60, "1 min"), (3600, "1 h")]}
    assert table == {1: most, 60: most + beyond + 59 * more, 3600: most + beyond + 3599 * more}
    assert most >= count  # so many pass at one instant


def test_explain_promises_of_a_window_just_its_count():
    explained = json.loads(weir("explain", "--json", "window 25/5s").stdout)
    assert [window["at_most"] for window in explained["windows"]] == ["25", "300", "18000", "432000"]
    assert {window["end_included"] for window in explained["windows"]} == {False}
    said = weir("explain", "window 25/5s").stdout
    assert "in any window of T, its beginning included and its end not, at most 25 for each 5 s" \
        " begun:\n                any 5 s      at most 25\n" in said
    assert "bucket" not in said
    assert "  holds       25: so many pass at one instant, when the window is empty\n" in said
    [longest] = json.loads(weir("explain", "--json", "window 1/36525d").stdout)["windows"]
    assert (longest["at_most"], longest["requests_at_most"]) == ("1", 1)


def test_explain_says_what_the_first_event_of_a_window_takes(tmp_path):
    store = f"file:{tmp_path}/buckets.weir"
    assert weir("take", "k", "window 25/1h", "--store", store).returncode == 0
    used = json.loads(weir("store", "status", "--json", "--store", store).stdout)["events_used_bytes"]
    explained = json.loads(weir("explain", "--json", "window 25/1h").stdout)
    assert (used, explained["events_bytes_min"], explained["events_bytes_max"]) == (256, 256, 712)
    assert "  costs       40 bytes of memory per key, until its window is empty\n" \
        "              and 256 to 712 for its events: at most 8 for 1, in chunks of 256\n" \
        in weir("explain", "window 25/1h").stdout
    assert "needs of memory at most, of the window at least 296.\n" in weir("explain", "at most 25 in any 1h").stdout


@pytest.mark.parametrize("words", [["take", "k", "10/s"], ["can-take", "k", "10/s", "100/min"],
                                   ["run", "k", "10/s", "--", "true"]])
def test_variables_that_nothing_can_ask_for_are_wrong_usage(words, tmp_path):
    done = weir(words[0], "--vars", "user=ann", "--store", f"file:{tmp_path}/buckets.weir", *words[1:])
    assert (done.returncode, done.stdout) == (125 if words[0] == "run" else 2, "")
    assert "--vars are for the keys of a chain: no name is among these limits" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("operation", ["take", "can-take", "fill", "refund"])
def test_a_cost_that_cannot_be_counted_is_wrong_usage(operation):
    done = weir(operation, "k", "sliding 5/s", "--cost", "1.5")
    assert (done.returncode, done.stdout) == (2, "")
    assert "this limit counts whole units" in done.stderr


def test_explain_finds_the_limit_for_at_most():
    done = weir("explain", "--json", "at most 300 in any 60s")
    assert json.loads(done.stdout) == {
        "at_most": "300", "window_ns": 60_000_000_000, "choices": [
            {"limit": "270/min capacity=30", "capacity": "30", "rate_per_s": "4.5",
             "end_included": True, "key_bytes_at_least": 40, "key_bytes_at_most": 40, "recommended": True},
            {"limit": "299/min capacity=1", "capacity": "1", "rate_per_s": "299/60",
             "end_included": True, "key_bytes_at_least": 40, "key_bytes_at_most": 40, "recommended": False},
            {"limit": "150/min", "capacity": "150", "rate_per_s": "2.5",
             "end_included": True, "key_bytes_at_least": 40, "key_bytes_at_most": 40, "recommended": False},
            {"limit": "window 300/min", "capacity": "300", "rate_per_s": "5",
             "end_included": False, "key_bytes_at_least": 296, "key_bytes_at_most": 2952,
             "recommended": False}],
    }
    assert weir("explain", "at", "most", "300", "in any 60s").stdout \
        == weir("explain", "at most 300 in any 60s").stdout
    one = weir("explain", "at most 1 in any min").stdout
    assert "under 1/min two are never closer than 1 min" in one
    assert re.search(r"^  window 1/min  .*  560 bytes  <- take this$", one, re.M)
    exact = weir("explain", "at most 1000000000000 in any 7ns").stdout
    assert "No bucket can keep that exactly" in exact
    assert "No window does: it counts up to 1000000." in exact
    assert "No window does: it counts whole units." in weir("explain", "at most 0.5 in any s").stdout


@pytest.mark.parametrize(
    "asked, limits",
    [
        ("at most 1000 in any 31d", ["900/31d capacity=100", "999/31d capacity=1", "500/31d", "window 1000/31d"]),
        ("fixed 1000/month", ["900/31d capacity=100", "999/31d capacity=1", "500/31d", "window 1000/31d"]),
        ("25/5s", ["23/5s capacity=2", "24/5s capacity=1", "13/5s capacity=12", "window 25/5s"]),
        ("at most 1000001 in any 5s", ["900001/5s capacity=100000", "1000000/5s capacity=1",
                                       "500001/5s capacity=500000"]),
        ("1000001/5s", ["900001/5s capacity=100000", "1000000/5s capacity=1", "500001/5s capacity=500000"]),
    ],
)
def test_explain_names_limits_over_the_period_that_was_asked_about(asked, limits):
    """In columns that do not run together."""
    answer = json.loads(weir("explain", "--json", asked).stdout)
    assert [choice["limit"] for choice in answer.get("choices") or answer["strict"]] == limits
    why = "(?:a tenth at once|one at a time, evenly|half at once|all at once)"
    rows = re.findall(rf"^( +(\S.*\S)  +){why}", weir("explain", asked).stdout, re.M)
    assert [limit for _, limit in rows] == limits
    assert len({len(column) for column, _ in rows}) == 1


@pytest.mark.parametrize("asked_s, jitter, limits", [
    (60, "1s", ["90/61s capacity=10", "99/61s capacity=1", "50/61s", "window 100/61s"]),
    (60, "250ms", ["90/60250ms capacity=10", "99/60250ms capacity=1", "50/60250ms", "window 100/60250ms"]),
    (1, "1min", ["90/61s capacity=10", "99/61s capacity=1", "50/61s", "window 100/61s"]),
])
def test_explain_allows_for_a_way_that_varies(asked_s, jitter, limits):
    """What passes within T + jitter may arrive within T: so no limit lets more pass in that."""
    words = [f"at most 100 in any {asked_s}s", "--jitter", jitter]
    answer = json.loads(weir("explain", "--json", *words).stdout)
    jitter_ns = {"1s": 10**9, "250ms": 250 * 10**6, "1min": 60 * 10**9}[jitter]
    assert (answer["window_ns"], answer["jitter_ns"]) == (asked_s * 10**9, jitter_ns)
    assert [choice["limit"] for choice in answer["choices"]] == limits
    for limit in limits:
        bound = json.loads(weir("explain", "--json", limit).stdout)["windows"][0]
        assert bound["window_ns"] == answer["window_ns"] + jitter_ns
        assert Fraction(bound["at_most"]) == 100
    said = weir("explain", *words).stdout
    assert said.startswith(f"at most 100 in any {'1 min' if asked_s == 60 else '1 s'}, with a jitter of ")
    assert "only the\n  jitter costs rate" in said
    rates = [float(rate) for rate in re.findall(r"([\d.]+) % of the rate", said)]
    exact = 100 * asked_s / (asked_s + jitter_ns / 10**9)
    assert exact - 0.1 <= rates[-1] <= exact  # of the window; rounded down


def test_explain_says_where_the_way_matters():
    hint = "Where somebody else counts what arrives there, add --jitter 1s"
    assert hint in weir("explain", "at most 100 in any 60s").stdout
    said = weir("explain", "at most 100 in any 60s", "--jitter", "1s").stdout
    assert hint not in said
    assert "What passes here within 61 s may arrive there within 1 min" in said
    assert "what comes exactly 61 s after the first may pass" in said


def test_explain_finds_the_bucket_that_also_drains_in_time():
    done = weir("explain", "--json", "at most 300 in any 60s", "--max-latency", "2s")
    choices = json.loads(done.stdout)["choices"]
    assert [choice["limit"] for choice in choices if choice["recommended"]] == ["291/min capacity=9"]
    assert [choice["limit"] for choice in choices] \
        == ["291/min capacity=9", "299/min capacity=1", "window 300/min"]
    drains_ns = [Fraction(json.loads(weir("explain", "--json", limit).stdout)["drain_ns"])
                 for limit in ("291/min capacity=9", "290/min capacity=10")]
    assert drains_ns[0] <= 2 * 10**9 < drains_ns[1]


@pytest.mark.parametrize(
    "count, latency, why",
    [
        ("300", "100ms", "No bucket that guarantees that drains within 100 ms: one that holds 1,\n"
                         "  299/min capacity=1, takes 201 ms from full.\n"),
        ("300", "200ms", "  299/min capacity=1, takes 201 ms from full.\n"),
        ("1", "1ms", "No bucket guarantees that: one that holds 1 admits 1, and then what has drained in\n"
                     "  the window.\n"), # two in 60 s would drain too late as well
        ("1", "1min", "But under 1/min two are never closer than 1 min"),
    ],
)
def test_explain_keeps_the_window_where_no_bucket_drains_so_soon(count, latency, why):
    words = [f"at most {count} in any 60s", "--max-latency", latency]
    done = weir("explain", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert why in done.stdout
    assert "every split of" not in done.stdout
    assert re.findall(r"^  (\S.*?)  .* <- take this$", done.stdout, re.M) == [f"window {count}/min"]
    answer = json.loads(weir("explain", "--json", *words).stdout)
    assert [(choice["limit"], choice["recommended"]) for choice in answer["choices"]] == [(f"window {count}/min", True)]
    assert answer["max_latency_ns"] == {"100ms": 10**8, "200ms": 2 * 10**8, "1ms": 10**6, "1min": 6 * 10**10}[latency]


@pytest.mark.parametrize("latency, count", [("7s", 3), ("1h", 4)])
def test_explain_gives_up_no_more_rate_for_more_patience(latency, count):
    words = ["at most 300 in any 60s", "--max-latency", latency]
    choices = json.loads(weir("explain", "--json", *words).stdout)["choices"]
    assert choices[0]["limit"] == "270/min capacity=30"
    assert [choice["recommended"] for choice in choices] == [True] + [False] * (count - 1)
    said = weir("explain", *words).stdout
    assert re.search(r"^  270/min capacity=30  .* 90\.0 % of the rate .*  <- take this$", said, re.M)
    assert said.count("<- take this") == 1
    window = {"7s": "7 s", "1h": "1 h"}[latency]
    assert f"Full, each of these has drained within {window}." in said


def test_explain_sizes_by_latency():
    done = weir("explain", "100/s", "--max-latency", "200ms")
    assert done.stdout.splitlines()[0] == "100/s capacity=20"
    explained = json.loads(weir("explain", "queue 100/s", "--max-latency=200ms", "--json").stdout)
    assert explained["limit"] == "queue 100/s capacity=20"
    assert explained["max_latency_ns"] == 200_000_000
    assert explained["delay_max_ns"] == "200000000"
    assert explained["windows"][0] == {"window_ns": 10**9, "at_most": "120",
                                       "requests_at_most": 120, "end_included": True,
                                       "leave_at_most": 101}


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["10/s", "--max-latency", "5ms"], "nothing of cost 1 can be served so soon: one drains"
                                           " every 100 ms"),
        (["stepped 10/10s", "--max-latency", "9s"], "nothing of cost 1 can be served so soon"),
        (["10/s", "capacity=3", "--max-latency", "1s"], "--max-latency chooses the capacity"),
        (["10/s", "burst=3", "--max-latency", "1s"], "--max-latency chooses the capacity"),
        (["10/s", "--max-latency", "0s"], "--max-latency is above 0"),
        (["10/s", "--max-latency", "soon"], "expected a duration"),
        (["at most 1000001 in any 1d", "--max-latency", "1ms"], "no bucket that keeps that has room"),
        (["at most 0.5 in any 1s", "--max-latency", "1h"], "that drains so soon, and no window keeps it"),
        (["at most 3 in any 1s", "--jitter", "0"], "--jitter is above 0"),
        (["at most 3 in any 1s", "--jitter", "1"], "expected a unit"),
        (["at most 3 in any 5217w", "--jitter", "3153600000s"], "together at most 100 years"),
        (["5/s", "--jitter", "1s"], "--jitter is for 'at most N in any T'"),
        (["at most 3"], "expected 'in any' and a time"),
        (["at most 0 in any 1s"], "it is a ban"),
        (["at", "most"], "expected 'at most N in any T'"),
    ],
)
def test_explain_refuses_what_makes_no_plan(arguments, said):
    done = weir("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_explain_of_a_queue_says_when_they_leave():
    explained = json.loads(weir("explain", "queue 5/s capacity=10 first=now", "--json").stdout)
    assert (explained["kind"], explained["first"]) == ("queue", "now")
    assert (explained["delay_max_ns"], explained["drain_ns"]) == ("2000000000", "2200000000")
    assert explained["strict"] == []
    said = weir("explain", "queue 5/s capacity=10").stdout
    assert "  delay       at most 2 s for whoever is let in\n" in said
    assert "any 1 s      at most 15 in, at most 6 out" in said
    assert "Never more than" not in said


# ---- bench ----


def counted(server, protocol):
    """The server's own count of decisions, by verdict."""
    with urllib.request.urlopen(f"{server.http_url}/metrics") as reply:
        text = reply.read().decode()
    counts = {}
    for labels, count in re.findall(r"^weir_decisions_total{(.*)} (\d+)$", text, re.M):
        if f'protocol="{protocol}"' in labels:
            counts[re.search(r'verdict="(\w+)"', labels)[1]] = int(count)
    return counts


def bench(server, protocol, *arguments):
    port = server.resp_port if protocol == "resp" else server.http_port
    done = weir("bench", "--protocol", protocol, "--server", f"127.0.0.1:{port}", "--json",
                *arguments)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def bench_server():
    with WeirServer("--test-clock", "--threads", "1") as running:
        yield running


@pytest.mark.parametrize("protocol", ["resp", "http"])
def test_bench_counts_what_the_server_counts(bench_server, protocol):
    # The clock stands still: of 5 keys exactly 3 requests each pass.
    code, result = bench(bench_server, protocol, "--requests", 500, "--saturate", "--keys", 5,
                         "--limit", "3/h", "--connections", 7, "--pipeline", 4)
    assert code == 0
    assert result["sent"] == result["answered"] == 500
    assert result["verdicts"] == {
        "allowed": 15, "limited": 485, "never": 0, "error": 0, "plain": 0, "failed": 0,
    }
    assert result["unsent"] == result["pending"] == result["lost"] == result["broken"] == 0
    latency = result["latency_ns"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
    server_side = counted(bench_server, protocol)
    assert server_side["allowed"] == 15
    assert server_side["limited"] == 485


@pytest.mark.parametrize("protocol, command", [
    ("resp", "can-take"), ("resp", "fill"), ("resp", "refund"), ("resp", "show"),
    ("resp", "throttle"), ("resp", "ping"), ("http", "can-take"), ("http", "fill"),
    ("http", "refund"), ("http", "show"), ("http", "check"), ("http", "ping"),
])
def test_bench_knows_every_command(bench_server, protocol, command):
    code, result = bench(bench_server, protocol, "--requests", 50, "--saturate", "--keys", 1,
                         "--limit", "40/h", "--command", command, "--threads", 2)
    assert code == 0
    verdicts = {name: count for name, count in result["verdicts"].items() if count > 0}
    if command == "ping":
        assert verdicts == {"plain": 50}
    elif command in ("throttle", "check"):
        assert verdicts == {"allowed": 40, "limited": 10}
    else:
        assert verdicts == {"allowed": 50}


@pytest.mark.parametrize("protocol, command", [("resp", "take"), ("http", "take"), ("http", "check")])
def test_bench_loads_with_several_limits(bench_server, protocol, command):
    code, result = bench(bench_server, protocol, "--requests", 50, "--saturate", "--keys", 1,
                         "--limit", "40/h, 30/d", "--command", command)
    assert (code, result["verdicts"]["allowed"], result["verdicts"]["limited"]) == (0, 30, 20)


def test_bench_at_a_rate_takes_its_time(bench_server):
    code, result = bench(bench_server, "resp", "--rate", "200/s", "--requests", 101, "--limit", "1/h",
                         "--keys", 1)
    assert code == 0
    assert result["answered"] == 101
    assert result["verdicts"]["allowed"] == 1
    assert result["took_ns"] >= 500_000_000  # request 100 is due after exactly half a second


def test_bench_stops_by_itself_after_the_duration(bench_server):
    code, result = bench(bench_server, "resp", "--rate", "1000/s", "--duration", "200ms")
    assert code == 0 or result["pending"] > 0, result  # where the machine did not come to answer
    assert result["sent"] + result["unsent"] == 200


def test_bench_reports_errors_and_fails(bench_server, tmp_path):
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    with WeirServer("--password-file", password) as locked_server:
        code, result = bench(locked_server, "resp", "--requests", 10)
        assert code == 3
        assert result["verdicts"]["failed"] == 10
        assert result["first_error"].startswith("NOAUTH")
        for protocol in ("resp", "http"):
            code, result = bench(locked_server, protocol, "--requests", 10,
                                 "--password-file", password)
            assert code == 0
            assert result["verdicts"]["allowed"] == 10


def test_bench_charges_a_stalled_server_for_all_who_came():
    # It reads nothing: one request is on its way, and all others were due meanwhile.
    with BadServer(hang=True) as bad:
        done = weir("bench", "--server", bad.address, "--rate", "100/s", "--duration", "300ms",
                    "--connections", 1, "--timeout", "100ms", "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 3
    assert result["sent"] == result["pending"] == 1
    assert result["unsent"] == 29
    # All thirty count, with what they had waited: the first to the end and 100 ms more.
    assert result["latency_ns"]["max"] >= 400_000_000
    assert result["latency_ns"]["p50"] >= 130_000_000


def test_bench_says_when_a_server_closes():
    with BadServer() as bad:
        done = weir("bench", "--server", bad.address, "--requests", 5, "--connections", 2, "--json")
        said = weir("bench", "--server", bad.address, "--requests", 5, "--connections", 2).stdout
    assert "verdicts none" in said and "first error: " in said and "latency" not in said
    result = json.loads(done.stdout)
    assert done.returncode == 3
    assert result["broken"] == 2
    assert result["lost"] == result["sent"] == 2
    assert result["first_error"] is not None


def test_bench_without_a_server_says_how_to_start_one():
    port = free_port()
    done = weir("bench", "--server", f"127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"serve --resp 127.0.0.1:{port}" in done.stderr
    done = weir("bench", "--protocol", "http", "--server", f"127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"serve --http 127.0.0.1:{port}" in done.stderr


def test_bench_shows_what_it_has_after_an_interrupt(bench_server):
    process = subprocess.Popen(
        [weir_binary(), "bench", "--server", f"127.0.0.1:{bench_server.resp_port}", "--json",
         "--duration", "1h", "--rate", "500/s"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    wait_until(lambda: counted(bench_server, "resp").get("allowed", 0) > 20, "some answers")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert json.loads(said)["answered"] > 20


def test_bench_for_people_has_the_figures(bench_server):
    done = weir("bench", "--server", f"127.0.0.1:{bench_server.resp_port}", "--requests", 20)
    assert done.returncode == 0
    assert done.stderr == ""  # no progress line: it is no terminal
    assert "answered 20 of 20" in done.stdout
    for figure in ("p50", "p90", "p99", "p99.9", "max", "allowed 20"):
        assert figure in done.stdout


# ---- Completion ----


def completed(*words):
    """What bash proposes for the last word."""
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir;'
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    file = ROOT / "completions" / "weir.bash"
    done = subprocess.run(
        ["bash", "-c", script, "bash", file, weir_binary(), *words], capture_output=True, text=True,
        cwd=ROOT,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.once
def test_bash_completes_commands_options_and_values():
    assert completed("ta") == ["take"]
    assert set(completed("")) == set(COMMANDS)
    assert completed("take", "--c") == ["--cost"]
    assert completed("show", "--c") == []
    assert set(completed("bench", "--s")) == {"--server", "--saturate", "--skew", "--seed"}
    assert completed("bench", "--protocol", "h") == ["http"]
    assert completed("bench", "--command", "th") == ["throttle"]
    assert completed("serve", "--test") == ["--test-clock"]
    assert completed("serve", "--qu") == ["--quiet"]
    assert completed("help", "expl") == ["explain"]
    assert completed("store", "") == ["status", "resize", "reset", "init", "migrate", "prune", "limit"]
    assert completed("simulate", "10/s", "--format", "com") == ["common", "combined"]
    assert completed("simulate", "10/s", "README") == ["README.md"]
    assert completed("take", "key", "10/s") == []
    assert completed("take", "--w") == completed("run", "--w") == ["--wait"]
    assert completed("pipe", "--nu") == ["--null"]
    assert "bash" in completed("run", "key", "10/s", "--", "bas")
    assert completed("run", "key", "10/s", "--", "weir-nothing", "--w") == []


# ---- The page ----


def examples_of(page):
    """(command, what it prints) from the console blocks of a page, in order."""
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.M | re.S):
        for example in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = example.partition("\n")
            yield command, printed


@pytest.mark.once
def test_every_example_of_the_page_is_true(tmp_path):
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "weir").symlink_to(Path(weir_binary()).resolve())
    shell = shutil.which("sh")
    with WeirServer("--test-clock") as running:
        environment = {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "WEIR_SERVER": f"127.0.0.1:{running.resp_port}",
        }
        examples = list(examples_of(ROOT / "docs" / "cli.md"))
        assert len(examples) > 15
        for command, printed in examples:
            done = subprocess.run(
                [shell, "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env=environment, timeout=DEADLINE_S,
            )
            assert done.stdout == printed, command
