"""`weir take --wait` and `weir run`: against a real server on the test clock, and against one that
says what the test wants."""

import json
import signal
import subprocess
import time

import pytest
from scriptedserver import ALLOWED, FAILED, LIMITED, NEVER, ScriptedServer, reply
from terminal import Terminal, on_terminal
from weirserver import DEADLINE_S, WeirServer, clean_environment, wait_until, weir_binary

MS = 1_000_000
HOUR = 3600 * 1000 * MS


def start(*arguments, **options):
    environment = clean_environment(**options.pop("environment", {}))
    return subprocess.Popen(
        [weir_binary(), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment, **options,
    )


def weir(*arguments, **options):
    """Runs one command; returns (exit code, standard output, standard error)."""
    process = start(*arguments, **options)
    said, complained = process.communicate(timeout=3 * DEADLINE_S)
    return process.returncode, said, complained


def say(*replies):
    """A script: these replies, in turn; the last one for ever."""
    left = list(replies)
    return lambda server, command: left.pop(0) if len(left) > 1 else left[0]


# ---- take --wait: what is sent, and how long it listens ----


@pytest.mark.once
@pytest.mark.parametrize("arguments, sent", [
    (["--wait", "1.5s"], ["WAIT", "1500"]),
    (["--wait", "1ms"], ["WAIT", "1"]),
    (["--wait", "24h"], ["WAIT", "86400000"]),
    (["--wait=2min", "--cost", "0.50"], ["COST", "0.5", "WAIT", "120000"]),
    (["--wait", "0"], []),
    (["--wait", "0s", "--cost", "1.0"], []),
])
def test_the_wait_goes_over_the_wire_in_milliseconds(arguments, sent):
    with ScriptedServer(say(reply(ALLOWED))) as server:
        assert weir("take", "k", "1/s", "--server", server.address, *arguments)[0] == 0
        assert server.commands == [["WEIR.TAKE", "k", "1/s", *sent]]


@pytest.mark.once
@pytest.mark.parametrize("command", ["take", "run"])
@pytest.mark.parametrize("wait", ["1us", "0.5ms", "1500us", "24.1h", "25h", "2w"])
def test_a_wait_that_the_wire_has_not_is_refused(command, wait):
    end = [] if command == "take" else ["--", "true"]
    code, said, complained = weir(command, "k", "1/s", "--wait", wait, *end)
    assert (code, said) == (2 if command == "take" else 125, "")
    assert f"--wait is a whole number of milliseconds, at most 24 h, not '{wait}'" in complained


@pytest.mark.once
def test_a_wait_is_a_duration():
    for wait in ("-1s", "5", "soon", ""):
        code, said, complained = weir("take", "k", "1/s", "--wait", wait)
        assert (code, said) == (2, "")
        assert "^" in complained
    assert "unknown option --wait" in weir("can-take", "k", "1/s", "--wait", "1s")[2]


def test_it_listens_for_as_long_as_it_may_wait_and_a_little_more():
    with ScriptedServer(say(b"")) as server:
        began = time.monotonic()
        code, _, complained = weir("take", "k", "1/s", "--server", server.address,
                                   "--wait", "300ms", "--timeout", "100ms")
        assert code == 3
        assert "no answer in time" in complained
        assert time.monotonic() - began >= 0.4


@pytest.mark.parametrize("command, end", [("take", []), ("run", ["--", "true"])])
def test_ctrl_c_closes_the_connection(command, end):
    with ScriptedServer(say(b"")) as server:
        process = start(command, "k", "1/s", "--server", server.address, "--wait", "1h", *end)
        wait_until(lambda: server.commands, "the question")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == -signal.SIGINT  # a shell says 130
        assert server.closed.wait(DEADLINE_S)
        assert process.communicate() == ("", "")


# ---- On a terminal ----

ASKED_ON_A_TERMINAL = ["WEIR.CANTAKE", "WEIR.SHOW", "WEIR.TAKE"]


def test_a_terminal_sees_who_waits_and_for_how_long():
    with ScriptedServer(say(b"")) as server:
        terminal = Terminal("take", "api:\033acme", "1/s", "--server", server.address,
                            "--wait", "90s", stdout=subprocess.PIPE)
        terminal.read_until(b"\r\033[Kweir take: waiting for 'api:?acme': 1 s so far "
                            b"(gives up after 1 min 30 s)")
        for connection in server.connections:
            connection.sendall(3 * reply(ALLOWED))
        assert terminal.read_all().endswith("\r\033[K")  # nothing of it stays
        assert terminal.process.returncode == 0


def test_a_terminal_sees_how_long_a_command_has_waited_in_all():
    def answer(server, command):
        is_first = len(server.commands) <= len(ASKED_ON_A_TERMINAL)
        return reply(LIMITED, 2500 * MS) if is_first else reply(ALLOWED)

    with ScriptedServer(answer) as server:
        terminal = Terminal("run", "k", "1/s", "--server", server.address, "--", "true")
        assert "weir run: waiting for 'k': 2 s so far\033[?7h\r\033[K" in terminal.read_all()
        assert terminal.process.returncode == 0


def test_a_server_that_knows_only_takes_is_waited_for_all_the_same():
    def answer(server, command):
        return b"" if command[0] == "WEIR.TAKE" else b"-ERR unknown command\r\n"

    with ScriptedServer(answer) as server:
        terminal = Terminal("take", "k", "1/s", "--server", server.address, "--wait", "90s")
        terminal.read_until(b"waiting for 'k': 1 s so far")
        assert [command[0] for command in server.commands] == ASKED_ON_A_TERMINAL
        server.connections[0].sendall(reply(ALLOWED))
        assert "5 of 10 remain" in terminal.read_all()
        assert terminal.process.returncode == 0


@pytest.mark.parametrize("where", ["server", "file"])
@pytest.mark.parametrize("command, end", [("take", []), ("run", ["--", "echo", "its turn"])])
def test_a_terminal_sees_the_place_in_line_and_about_how_long(where, command, end, tmp_path):
    """The fourth: three wait before it, each for an hour of the limit. Asking charges nothing."""
    limit = "1/h capacity=1"
    with WeirServer("--test-clock") as server:
        here = at(server) if where == "server" else ["--store", f"file:{tmp_path}/store"]
        assert weir("take", "k", limit, *here)[0] == 0
        others = [start("take", "k", limit, "--wait", "20h", *here) for _ in range(3)]

        def shown():
            return json.loads(weir("show", "k", limit, "--json", *here)[1])

        wait_until(lambda: shown()["waiting"] == 3, "three in line")
        terminal = Terminal(command, "k", limit, "--wait", "10h", *here, *end)
        terminal.read_until(b"weir %s: waiting for 'k': 4th in line, about 4 h (gives up after 10 h)"
                            % command.encode())
        terminal.read_until(b"waiting for 'k': joined as 4th, about 4 h left (gives up after 10 h)")
        assert shown()["waiting"] == 4
        line_ns = json.loads(weir("can-take", "k", limit, "--json", *here)[1])["retry_after_ns"]
        assert round(line_ns / HOUR) == 5
        for process in [*others, terminal.process]:
            process.terminate()
            process.wait(DEADLINE_S)
        terminal.read_all()
        for process in others:
            process.communicate()


def test_the_time_is_counted_down(server):
    assert weir("take", "k", "1/3s", *at(server))[0] == 0
    terminal = Terminal("run", "k", "1/3s", *at(server), "--", "true")
    terminal.read_until(b"weir run: waiting for 'k': 1st in line, about 3 s\033")
    terminal.read_until(b"waiting for 'k': joined as 1st, about 1 s left\033")
    terminal.read_until(b"waiting for 'k': joined as 1st, any moment\033")
    advance(server, 3000 * MS)
    assert terminal.read_all().endswith("\r\033[K")
    assert terminal.process.returncode == 0


@pytest.mark.parametrize("first, held", [("interval", 2), ("now", 3)])
def test_of_a_queue_it_is_the_time_to_the_own_egress(server, first, held):
    """With first=now one of those whom the queue holds has gone already."""
    limit = f"queue 1/h capacity=10 first={first}"
    with server.client() as one, server.client() as two, server.client() as three:
        for i, client in enumerate([one, two, three][:held]):
            client.send("WEIR.TAKE", "q", limit, "WAIT", 80_000_000)
            wait_until(lambda: server.command("WEIR.SHOW", "q", limit)[6] == f"{i + 1}", "its place")
        terminal = Terminal("take", "q", limit, "--wait", "10h", *at(server))
        terminal.read_until(b"waiting for 'q': 3rd in line, about 3 h (")
        terminal.process.terminate()
        terminal.read_all()


@pytest.mark.parametrize("where", ["server", "file"])
def test_under_several_limits_it_sees_about_how_long(where, tmp_path):
    limits = ("20/h capacity=1", "1/h capacity=1")
    with WeirServer("--test-clock") as server:
        here = at(server) if where == "server" else ["--store", f"file:{tmp_path}/store"]
        assert weir("take", "k", *limits, *here)[0] == 0
        terminal = Terminal("take", "k", *limits, "--wait", "10h", *here)
        terminal.read_until(b"waiting for 'k': about 1 h (gives up after 10 h)")
        terminal.process.terminate()
        terminal.read_all()


@pytest.mark.parametrize("name, words", [
    ("slow", b"waiting for 'ann': 2nd in line, about 2 h ("),
    ("request", b"waiting for 'ann': about 2 h ("),
])
def test_under_a_name_it_sees_the_same_as_under_its_limit(name, words, tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text("limits:\n  slow: 1/h capacity=1\n"
                      "chains:\n  request:\n    - {limit: slow, key: '{user}'}\n")
    with WeirServer("--test-clock", "--config", config) as server, server.client() as other:
        assert server.command("WEIR.TAKE", "ann", "slow")[0] == 0
        other.send("WEIR.TAKE", "ann", "slow", "WAIT", 80_000_000)
        wait_for_line(server, "ann", "slow", 7200)
        terminal = Terminal("take", "ann", name, "--vars", "user=ann", "--wait", "10h", *at(server))
        terminal.read_until(words)
        terminal.process.terminate()
        terminal.read_all()


def test_a_refusal_at_once_shows_no_line(server):
    assert weir("take", "k", LIMIT, *at(server))[0] == 0
    terminal = Terminal("take", "k", LIMIT, "--wait", "999ms", *at(server))
    assert "waiting for" not in terminal.read_all()
    assert terminal.process.returncode == 1


def test_a_server_that_wants_a_password_says_so_on_a_terminal_too(tmp_path):
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    password.chmod(0o600)
    with WeirServer("--password-file", password) as locked:
        assert "wants a password: --password-file FILE" in on_terminal(
            "take", "k", "1/s", "--wait", "1s", *at(locked))
        assert "0 of 1 remain" in on_terminal(
            "take", "k", "1/s", "--wait", "1s", *at(locked), "--password-file", password)


# ---- run: whose turn it is ----


def run(server, *arguments, **options):
    return weir("run", "k", "1/s", "--server", server.address, *arguments, **options)


@pytest.mark.parametrize("arguments, sent", [
    ([], ["WAIT", "86400000"]),
    (["--wait", "2s"], ["WAIT", "2000"]),
    (["--wait", "0"], []),
    (["--cost", "3"], ["COST", "3", "WAIT", "86400000"]),
])
@pytest.mark.once
def test_run_waits_without_bound_unless_it_is_bounded(arguments, sent):
    with ScriptedServer(say(reply(ALLOWED))) as server:
        assert run(server, *arguments, "--", "echo", "mine") == (0, "mine\n", "")
        assert server.commands == [["WEIR.TAKE", "k", "1/s", *sent]]


def test_run_becomes_the_command():
    with ScriptedServer(say(reply(ALLOWED))) as server:
        assert run(server, "--", "sh", "-c", "cat; exit 7", stdin=subprocess.DEVNULL)[0] == 7
        process = start("run", "k", "1/s", "--server", server.address, "--", "sh", "-c",
                        "echo $$; cat; echo over", stdin=subprocess.PIPE)
        assert process.stdout.readline() == f"{process.pid}\n"
        assert process.communicate("input\n", DEADLINE_S) == ("input\nover\n", "")
        code, _, _ = run(server, "--", "sh", "-c", "kill -TERM $$")
        assert code == -signal.SIGTERM


def test_run_leaves_nothing_open_to_the_command():
    with ScriptedServer(say(reply(ALLOWED))) as server:
        code, said, _ = run(server, "--", "sh", "-c", "ls /proc/self/fd")
        assert (code, said.split()) == (0, ["0", "1", "2", "3"])  # 3: the folder itself


@pytest.mark.once
def test_words_of_the_command_are_its_own():
    with ScriptedServer(say(reply(ALLOWED))) as server:
        assert run(server, "--", "echo", "--wait", "--", "-0")[1] == "--wait -- -0\n"
        assert server.commands == [["WEIR.TAKE", "k", "1/s", "WAIT", "86400000"]]


def test_run_says_how_it_ended_as_env_does(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with ScriptedServer(say(reply(ALLOWED))) as server:
        code, _, complained = run(server, "--", "/nowhere/to/be/found")
        assert (code, "No such file or directory" in complained) == (127, True)
        assert run(server, "--", "no-such-command-anywhere")[0] == 127
        code, _, complained = run(server, "--", folder)
        assert (code, "Permission denied" in complained) == (126, True)


def test_run_is_124_if_the_turn_does_not_come_in_time():
    for bound in (["--wait", "5s"], ["--wait", "0"]):
        with ScriptedServer(say(reply(LIMITED, 1500 * MS))) as server:
            code, said, complained = run(server, *bound, "--", "echo", "mine")
            assert (code, said) == (124, "")
            assert complained == "weir run: k: its turn did not come in time; retry in 1.5 s\n"
            assert len(server.commands) == 1


def test_run_without_bound_asks_again():
    script = say(reply(LIMITED, 30 * MS), reply(LIMITED, 0), reply(LIMITED, -1), reply(ALLOWED))
    with ScriptedServer(script) as server:
        began = time.monotonic()
        assert run(server, "--", "echo", "mine") == (0, "mine\n", "")
        assert time.monotonic() - began >= 0.05  # 30 ms, and twice no less than 10 ms
        assert len(server.commands) == 4


@pytest.mark.parametrize("answer, said", [
    (reply(NEVER), "its turn never comes: a wait of 1 d is shorter than what an empty queue takes"),
    (reply(FAILED), "lets nobody wait: it is ending, or has no room"),
    (b"-ERR no\r\n", "says: ERR no"),
    (None, "it closed the connection without an answer"),
], ids=["never", "failed", "error", "closed"])
def test_run_is_125_if_weir_fails(answer, said):
    with ScriptedServer(say(answer)) as server:
        code, output, complained = run(server, "--", "echo", "mine")
        assert (code, output) == (125, "")
        assert said in complained


@pytest.mark.once
@pytest.mark.parametrize("arguments, said", [
    ([], "say what to run after --"),
    (["k", "1/s"], "say what to run after --"),
    (["k", "1/s", "--"], "say what to run after --"),
    (["k", "1/s", "echo", "--", "x"], "option"),
    (["--", "true"], "say which key and which limit"),
    (["k", "--", "true"], "say which limit"),
    (["k", "1/q", "--", "true"], "unknown unit 'q'"),
    (["k", "1/s", "--json", "--", "true"], "unknown option --json"),
    (["k", "1/s", "--cost", "x", "--", "true"], "expected the cost"),
    (["k", "1/s", "--server", "nowhere", "--", "true"], "bad server address"),
    (["k", "1/s", "--server", "127.0.0.1:1", "--", "true"], "no server at 127.0.0.1:1"),
])
def test_a_wrong_command_line_is_125_too(arguments, said):
    code, output, complained = weir("run", *arguments)
    assert (code, output) == (125, "")
    assert said in complained


# ---- At a real server, whose clock moves when the test says so ----

LIMIT = "1/s capacity=1"


@pytest.fixture
def server():
    with WeirServer("--test-clock", "--threads", "2") as running:
        yield running


def at(server):
    return ["--server", f"127.0.0.1:{server.resp_port}"]


def wait_for_line(server, key, limit, seconds):
    """Until so many seconds of the rate stand in line: what a take would have to wait."""
    def line_ns():
        return server.command("WEIR.CANTAKE", key, limit)[3]
    wait_until(lambda: line_ns() == seconds * 1000 * MS, f"a line of {seconds} s")


def advance(server, ns):
    server.command("WEIR.CLOCK", "ADVANCE", ns)


def test_the_answer_comes_when_it_is_its_turn(server):
    assert weir("take", "k", LIMIT, *at(server))[0] == 0
    waiting = []
    for i in range(3):
        waiting.append(start("take", "k", LIMIT, "--wait", "10s", *at(server)))
        wait_for_line(server, "k", LIMIT, i + 2)
    assert weir("take", "k", LIMIT, *at(server))[0] == 1  # it would have to overtake
    for process in waiting:
        advance(server, 1000 * MS - 1)
        assert process.poll() is None
        advance(server, 1)
        assert process.communicate(timeout=DEADLINE_S) == (
            "allowed: 0 of 1 remain, empty in 1 s\n", "")
        assert process.returncode == 0


def test_a_wait_in_vain_is_refused_at_once(server):
    assert weir("take", "k", LIMIT, *at(server))[0] == 0
    assert weir("take", "k", LIMIT, "--wait", "999ms", *at(server)) == (
        1, "limited: retry in 1 ms (0 of 1 remain, empty in 1 s)\n", "")
    assert weir("run", "k", LIMIT, "--wait", "999ms", *at(server), "--", "true") == (
        124, "", "weir run: k: its turn did not come in time; retry in 1 ms\n")


def test_of_a_queue_it_goes_when_the_queue_lets_it(server):
    limit = "queue 5/s capacity=10"
    assert weir("take", "q", limit, *at(server)) == (
        0, "allowed: it may go in 200 ms (9 of 10 remain, empty in 200 ms)\n", "")
    process = start("run", "q", limit, *at(server), "--", "echo", "mine")
    wait_until(lambda: server.command("WEIR.SHOW", "q", limit)[6] == "2", "two in line")
    shown = weir("show", "q", limit, *at(server))[1]
    assert shown == "level 2 of 10: 8 of 10 remain, empty in 400 ms; 1 waits in line\n"
    advance(server, 400 * MS - 1)
    assert process.poll() is None
    advance(server, 1)
    assert process.communicate(timeout=DEADLINE_S) == ("mine\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_who_gives_up_gives_the_place_back(server, number):
    assert weir("take", "k", LIMIT, *at(server))[0] == 0
    first = start("run", "k", LIMIT, *at(server), "--", "echo", "first")
    wait_for_line(server, "k", LIMIT, 2)
    second = start("run", "k", LIMIT, *at(server), "--", "echo", "second")
    wait_for_line(server, "k", LIMIT, 3)
    first.send_signal(number)
    assert first.communicate(timeout=DEADLINE_S) == ("", "")
    assert first.returncode == -number
    wait_for_line(server, "k", LIMIT, 2)
    advance(server, 1000 * MS)
    assert second.communicate(timeout=DEADLINE_S) == ("second\n", "")


def test_a_turn_that_never_comes(server):
    assert weir("run", "k", LIMIT, "--cost", "2", *at(server), "--", "echo", "mine") == (
        125, "", "weir run: its turn never comes: a cost of 2 exceeds the capacity of 1\n")
    assert weir("take", "k", LIMIT, "--cost", "2", "--wait", "1s", *at(server))[:2] == (
        4, "never: a cost of 2 exceeds the capacity of 1\n")
    closed = "queue 5/s waiting=0"
    assert weir("take", "k", closed, "--wait", "1s", *at(server))[:2] == (
        4, "never: its limit lets nobody wait, and none goes at once\n")


def test_a_wait_shorter_than_an_empty_queue_takes(server):
    limit = "queue 2/s capacity=1"
    why = "a wait of 100 ms is shorter than what an empty queue takes, 500 ms\n"
    assert weir("take", "k", limit, "--wait", "100ms", *at(server)) == (4, "never: " + why, "")
    assert weir("run", "k", limit, "--wait", "100ms", *at(server), "--", "echo", "mine") == (
        124, "", "weir run: k: its turn did not come in time: " + why)
    # Who waits for as long as it takes is told that it never ends.
    assert weir("run", "k", "queue 1/w", *at(server), "--", "echo", "mine") == (
        125, "", "weir run: its turn never comes: "
                 "a wait of 1 d is shorter than what an empty queue takes, 7 d\n")
    with open("/etc/passwd") as stdin:
        code, _, complained = weir("pipe", "1/w", "--key", "k", *at(server), stdin=stdin)
    assert (code, "shorter than what an empty queue takes, 7 d" in complained) == (3, True)


def test_of_a_queue_run_without_a_wait_takes_no_place(server):
    for limit, code in (("queue 2/s", 124), ("queue 2/s first=now", 0)):
        assert weir("run", "q", limit, "--wait", "0", *at(server), "--", "true")[0] == code
    # The first has gone: who does not wait may not go, and does not stand there either.
    assert weir("run", "q", "queue 2/s first=now", "--wait", "0", *at(server), "--", "true") == (
        124, "", "weir run: q: its turn did not come in time; retry in 499 ms\n")
    assert server.command("WEIR.SHOW", "q", "queue 2/s")[6] == "0"


# ---- without a server, in a file ----

COMMANDS = [(3, ["take", "k", "1/s", "--wait", "1s"]), (125, ["run", "k", "1/s", "--", "true"]),
            (3, ["pipe", "1/s", "--key", "k"])]


@pytest.mark.once
@pytest.mark.parametrize("code, arguments", COMMANDS)
def test_where_nothing_is_said_it_is_the_file_of_the_user(code, arguments, server, tmp_path):
    home = {"XDG_STATE_HOME": str(tmp_path)}
    with open("/etc/hostname") as stdin:
        assert weir(*arguments, environment=home, stdin=stdin)[0] == 0
    assert (tmp_path / "weir" / "default.weir").exists()
    # What the command line says counts alone; of the environment, one.
    store = {"WEIR_STORE": f"file:{tmp_path}/store"}
    command, *rest = arguments
    assert weir(command, *at(server), *rest, environment=store, stdin=subprocess.DEVNULL)[0] == 0
    assert not (tmp_path / "store").exists()
    both = {**store, "WEIR_SERVER": at(server)[1]}
    got, _, complained = weir(*arguments, environment=both, stdin=subprocess.DEVNULL)
    assert (got, "unset WEIR_SERVER or WEIR_STORE" in complained) == (125 if code == 125 else 2, True)


@pytest.mark.once
def test_shells_wait_in_the_order_in_which_they_came(tmp_path):
    """Each stands in line before the next one comes: a refusal says how long the line is."""
    where = ["--store", f"file:{tmp_path}/store"]
    log = tmp_path / "log"
    limit = "2/s capacity=1"

    def end_of_line():
        said = json.loads(weir("can-take", "k", limit, "--json", *where)[1])
        return time.monotonic_ns() + said["retry_after_ns"]

    assert weir("take", "k", limit, *where)[0] == 0
    shells = []
    for number in range(5):
        before = end_of_line()
        shells.append(start("run", "k", limit, *where, "--", "sh", "-c", f"echo {number} >> {log}"))
        wait_until(lambda: end_of_line() > before + 400 * MS, "its place")
    assert weir("take", "k", limit, *where)[0] == 1  # overtakes nobody
    for shell in shells:
        assert shell.wait(DEADLINE_S) == 0
    assert log.read_text().split() == ["0", "1", "2", "3", "4"]


@pytest.mark.once
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_shell_that_ends_gives_its_place_back(number, tmp_path):
    where = ["--store", f"file:{tmp_path}/store"]
    limit = "1/s capacity=20"
    assert weir("take", "k", limit, "--cost", "19", *where)[0] == 0
    first = start("take", "k", limit, "--cost", "20", "--wait", "1h", *where)
    wait_until(lambda: weir("can-take", "k", limit, *where)[0] == 1, "its place")
    second = start("take", "k", limit, "--wait", "1h", *where)
    first.send_signal(number)
    assert second.wait(DEADLINE_S) == 0  # there was room for it


@pytest.mark.once
def test_a_server_and_shells_have_one_line(tmp_path):
    limit = "4/s capacity=1"
    store = f"file:{tmp_path}/store"
    with WeirServer("--store", store) as shared:
        assert weir("take", "k", limit, "--store", store)[0] == 0
        with shared.client() as first:
            first.send("WEIR.TAKE", "k", limit, "WAIT", 60_000)
            wait_until(lambda: int(shared.command("INFO").split("blocked_clients:")[1].split()[0]) == 1,
                       "its place")
            shell = start("take", "k", limit, "--wait", "1min", "--store", store)
            assert first.read_reply()[0] == 0
            assert shell.wait(DEADLINE_S) == 0


def test_run_comes_again_where_the_line_is_full(server):
    limit = "100/s capacity=1 waiting=0"
    assert weir("take", "k", limit, *at(server))[0] == 0
    process = start("run", "k", limit, *at(server), "--", "echo", "mine")
    wait_until(lambda: server.command("WEIR.CLOCK") == 0 and process.poll() is None, "a start")
    advance(server, 10 * MS)
    assert process.communicate(timeout=DEADLINE_S) == ("mine\n", "")
    assert process.returncode == 0


def test_a_server_that_ends_tells_those_who_wait(server):
    assert weir("take", "k", LIMIT, *at(server))[0] == 0
    take = start("take", "k", LIMIT, "--wait", "1h", *at(server))
    wait_for_line(server, "k", LIMIT, 2)
    run = start("run", "k", LIMIT, *at(server), "--", "echo", "mine")
    wait_for_line(server, "k", LIMIT, 3)
    server.stop()
    said, complained = take.communicate(timeout=DEADLINE_S)
    assert (take.returncode, complained) == (3, "")
    assert said.startswith("error: the server lets nobody wait: it is ending, ")
    said, complained = run.communicate(timeout=DEADLINE_S)
    assert (run.returncode, said) == (125, "")
    assert "lets nobody wait: it is ending, " in complained


def test_a_password_opens_for_those_who_wait(tmp_path):
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    password.chmod(0o600)
    with WeirServer("--password-file", password) as locked:
        there = at(locked)
        for command, end in (("take", []), ("run", ["--", "true"]), ("pipe", ["--key", "k"])):
            words = ["100/s"] if command == "pipe" else ["k", "100/s"]
            options = [*there, *(["--wait", "1s"] if command != "pipe" else [])]
            with open(password) as stdin:
                code, _, complained = weir(command, *words, *options, *end, stdin=stdin)
            assert code == (125 if command == "run" else 3)
            assert "wants a password: --password-file FILE" in complained
            with open(password) as stdin:
                code, _, complained = weir(command, *words, *options, "--password-file", password,
                                           *end, stdin=stdin)
            assert (code, complained) == (0, "")


# ---- several limits ----


@pytest.mark.parametrize("where", ["server", "file"])
def test_several_limits_wait_together(where, tmp_path):
    with WeirServer() as server:
        here = at(server) if where == "server" else ["--store", f"file:{tmp_path}/store"]
        limits = ("20/s capacity=1", "1000/s capacity=1")
        assert weir("take", "k", *limits, *here)[0] == 0
        code, said, complained = weir("take", "k", *limits, *here, "--wait", "5s")
        assert (code, said.split(":")[0], complained) == (0, "allowed", "")
        assert weir("run", "k", *limits, *here, "--", "echo", "its turn") == (0, "its turn\n", "")
        often_rarely = ("1/h capacity=1", "20/s", *here, "--wait", "1s")
        assert weir("take", "k", *often_rarely)[0] == 0
        assert weir("take", "k", *often_rarely)[0] == 1
        code, said, complained = weir(
            "run", "k", "20/s", "queue 1/h", *here, "--wait", "1s", "--", "echo", "never")
        assert (code, said) == (124, "")
        assert "a wait of 1 s is shorter than what an empty queue takes, 1 h" in complained
