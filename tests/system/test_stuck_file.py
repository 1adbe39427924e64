"""A file that does not let anybody go on: a command says so, and ends; and what heals a damaged one."""

import fcntl
import json
import signal
import struct
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_resize import in_line_of
from test_store import status, weir
from weirserver import DEADLINE_S, WeirServer, wait_until, weir_binary

pytestmark = pytest.mark.alone

F_OFD_SETLK = 37
GATE = 1 << 60
MEMBER = 1 << 61 | 4242  # an even number that no other member has
HEADER_BYTES, LINE_BYTES, STRIPE_BYTES = 4096, 64, 128


def regions_of(file):
    """Where the stripes are, how many there are, and where the room of those is that wait."""
    with open(file, "rb") as opened:
        head = opened.read(HEADER_BYTES)
    (stripes, lines), (waiting_at,) = struct.unpack_from("<QQ", head, 32), struct.unpack_from("<Q", head, 64)
    return HEADER_BYTES + stripes * lines * LINE_BYTES, stripes, waiting_at


def write_at(file, at, content):
    with open(file, "r+b") as opened:
        opened.seek(at)
        opened.write(content)


@contextmanager
def locked(file, byte):
    """Somebody holds this byte of the file."""
    with open(file, "r+b") as opened:
        fcntl.fcntl(opened, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, byte, 1, 0))
        yield opened


def remedy(url):
    return f"when all that use it have ended, copy it; this forgets what is in it: weir store reset --force --store '{url}'"


@contextmanager
def stopped_member(file):
    """One that is alive, holds all locks of stripes, and never goes on."""
    stripes_at, count, _ = regions_of(file)
    with locked(file, MEMBER):
        for stripe in range(count):
            write_at(file, stripes_at + stripe * STRIPE_BYTES, struct.pack("<Q", MEMBER))
        yield


def test_a_command_that_cannot_go_on_says_so_and_one_whose_holder_dies_goes_on(tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K"
    assert weir("take", "old", "10/d", "--store", url).returncode == 0
    with stopped_member(file):
        assert weir("take", "old", "10/d", "--store", url).returncode == 0  # it is there, and locks nothing
        for words in (["take", "new", "10/d"], ["take", "new", "10/d", "--wait", "1s"]):
            stuck = weir(*words, "--store", url)
            assert (stuck.returncode, stuck.stdout) == (3, "")
            assert stuck.stderr == (f"weir: {url}: nobody can go on: a process that uses it is stopped, or gives it a "
                                    f"new size or content; or it is damaged; {remedy(url)}\n")
    assert weir("take", "new", "10/d", "--store", url).returncode == 0  # the heir of all locks
    assert weir("show", "old", "10/d", "--store", url).stdout.endswith("of 10: 8 of 10 remain, empty in 4 h 48 min\n")


def start(*words):
    return subprocess.Popen([weir_binary(), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


SERVE = ["serve", "--resp", "127.0.0.1:0", "--http", "off"]


def test_a_gate_that_stays_held_ends_every_command_with_a_sentence(tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K"
    assert weir("take", "k", "10/d", "--store", url).returncode == 0
    before = file.read_bytes()
    with locked(file, GATE):
        begin = time.monotonic()
        commands = [start(*words, "--store", url) for words in (
            ["take", "k", "10/d"], ["store", "status"], ["store", "reset", "--force"], ["store", "resize", "1M"],
            SERVE, [*SERVE, "--log", "json"])]
        said = [command.communicate(timeout=3 * DEADLINE_S)[1] for command in commands]
        assert time.monotonic() - begin < 10
    assert [command.returncode for command in commands] == [3] * len(commands)
    why = "another process begins or ends to use it, or makes it new, and has not gone on for seconds"
    assert all(why in text for text in said)
    assert said[2] == f"weir store: cannot have {file} alone: {why}\n"
    assert json.loads(said[5].splitlines()[-1])["event"] == "store_failed"
    assert file.read_bytes() == before
    assert weir("take", "k", "10/d", "--cost", 9, "--store", url).returncode == 0


def test_an_answer_is_given_though_the_gate_is_held_at_the_end(tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K"
    limit = "1/2s capacity=1"
    assert weir("take", "k", limit, "--store", url).returncode == 0
    waiter = in_line_of(url, "k", limit, 2)
    with locked(file, GATE):
        said, complaint = waiter.communicate(timeout=3 * DEADLINE_S)
        assert (waiter.returncode, complaint) == (0, "") and said.startswith("allowed")
    assert weir("can-take", "k", limit, "--store", url).returncode == 1  # it was charged


@pytest.mark.parametrize("held", ["gate", "flock"])
def test_a_resize_that_waits_for_others_can_be_interrupted(held, tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K"
    assert weir("take", "k", "10/d", "--store", url).returncode == 0
    with locked(file, GATE if held == "gate" else MEMBER) as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        command = start("store", "resize", "1M", "--store", url)
        wait_until(lambda: str(file) in Path(f"/proc/{command.pid}/maps").read_text())
        command.send_signal(signal.SIGINT)
        assert command.wait(2) == -signal.SIGINT
    assert weir("take", "k", "10/d", "--cost", 9, "--store", url).returncode == 0


def test_what_is_damaged_ends_a_command_with_a_sentence(tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K"
    with WeirServer("--store", url) as server:  # one alone would make the room anew
        assert server.command("WEIR.TAKE", "line", "1/h")[0] == 0
        assert weir("take", "line", "1/h", "--wait", "1ms", "--store", url).returncode == 1
        _, _, waiting_at = regions_of(file)
        write_at(file, waiting_at + 48, b"\xf0\xff\xff\xff")  # the first free ticket
        done = weir("take", "line", "1/h", "--wait", "2h", "--store", url)
        assert done.returncode == 3
        assert done.stderr.splitlines()[-1] == f"weir: {url}: it is damaged, or weir has a bug; {remedy(url)}"
        refused = weir("store", "reset", "--force", "--store", url)
        assert refused.returncode == 3 and "is in use: end the processes that have it open first" in refused.stderr
        assert server.command("WEIR.SHOW", "line", "1/h")[2] == 0  # nothing has changed
    done = weir("store", "reset", "--force", "--store", url)
    assert (done.returncode, done.stdout) == (0, "all buckets, locks, lines and events are new\n")
    assert weir("take", "line", "1/h", "--wait", "1ms", "--store", url).returncode == 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_damaged_ends_a_server_with_a_line_of_its_log(form, tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K"
    with WeirServer("--store", url, "--log", form) as server, server.client() as client:
        assert server.command("WEIR.TAKE", "line", "1/h")[0] == 0
        client.send("WEIR.TAKE", "line", "1/h", "WAIT", 10)
        client.read_reply()  # the room is as new
        write_at(file, regions_of(file)[2] + 48, b"\xf0\xff\xff\xff")  # the first free ticket
        client.send("WEIR.TAKE", "line", "1/h", "WAIT", 7200000)
        server.wait()
        assert server.process.returncode == 3
        if form == "json":
            line = json.loads(server.lines[-1])
            assert (line["level"], line["event"], line["url"]) == ("error", "store_damaged", url)
            assert (line["why"], line["remedy"]) == ("it is damaged, or weir has a bug", remedy(url))
        else:
            assert " error store_damaged " in server.lines[-1] and remedy(url) in server.lines[-1]


def test_an_abort_from_outside_still_leaves_a_core(tmp_path):
    with WeirServer("--store", f"file:{tmp_path}/store?size=128K") as server:
        server.process.send_signal(signal.SIGABRT)
        server.wait()
        assert server.process.returncode == -signal.SIGABRT
        assert "store_damaged" not in server.log


@pytest.mark.parametrize("words", [["take", "k", "window 5/h"], ["store", "status"], ["store", "resize", "1M"], SERVE])
def test_counts_that_cannot_be_are_damage(words, tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K"
    assert weir("take", "k", "10/d", "--store", url).returncode == 0
    write_at(file, HEADER_BYTES, b"\xff" * (file.stat().st_size - HEADER_BYTES))
    done = weir(*words, "--store", url)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"{file} is damaged: it counts more events than it has room for; {remedy(f'file:{file}')}" in done.stderr


def test_a_status_that_cannot_be_is_damage(tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K"
    assert weir("take", "k", "10/d", "--store", url).returncode == 0
    stripes_at, _, waiting_at = regions_of(file)
    write_at(file, stripes_at, b"\xff" * (waiting_at - stripes_at))
    done = weir("store", "status", "--store", url)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"weir store: {url} is damaged: it counts more slots in use than it has; {remedy(url)}\n"


def test_force_forgets_all_that_is_behind_the_header(tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K&events=64K"
    for words in (["take", "k", "10/d"], ["take", "w", "window 5/d"], ["block", "b", "5/d", "1h"]):
        assert weir(*words, "--store", url).returncode == 0
    before = status(url)
    head = file.read_bytes()[:HEADER_BYTES]
    write_at(file, HEADER_BYTES, b"\xa5" * (file.stat().st_size - HEADER_BYTES))
    assert weir("store", "reset", "--force", "--json", "--store", url).stdout == '{"renewed":true}\n'
    after = status(url)
    assert (after["live"], after["used"], after["events_used_bytes"]) == (0, 0, 0)
    assert after["made"] == before["made"] and file.read_bytes()[:128] == head[:128]
    assert weir("take", "b", "5/d", "--store", url).returncode == 0
    assert weir("take", "w", "window 5/d", "--cost", 5, "--store", url).returncode == 0


def test_the_help_of_reset_shows_the_use_of_force():
    assert "    weir store reset --force --store file:/" in weir("store", "reset", "--help").stdout


@pytest.mark.parametrize("words", [["status", "--force"], ["resize", "1M", "--force"]])
def test_force_is_of_reset(words, tmp_path):
    done = weir("store", *words, "--store", f"file:{tmp_path}/store")
    assert done.returncode == 2 and "--force is an option of reset" in done.stderr


def test_a_damaged_header_is_for_mv(tmp_path):
    file = tmp_path / "store"
    url = f"file:{file}?size=128K"
    assert weir("take", "k", "10/d", "--store", url).returncode == 0
    write_at(file, 32, b"\xff")
    done = weir("store", "reset", "--force", "--store", url)
    assert done.returncode == 3 and "is damaged: its header does not add up; this sets it aside: mv" in done.stderr
