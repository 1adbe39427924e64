"""A file that does not let anybody go on: a command says so, and ends; and what heals a damaged one."""

import fcntl
import struct
from contextlib import contextmanager

import pytest
from test_store import status, weir
from weirserver import WeirServer

F_OFD_SETLK = 37
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
def stopped_member(file):
    """One that is alive, holds all locks of stripes, and never goes on."""
    stripes_at, count, _ = regions_of(file)
    with open(file, "r+b") as opened:
        fcntl.fcntl(opened, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, MEMBER, 1, 0))
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
            assert stuck.stderr == (f"weir: {url} does not let anybody go on: a process that uses it is stopped, "
                                    "or it is damaged. When all that use it have ended: "
                                    f"weir store reset --force --store '{url}'\n")
    assert weir("take", "new", "10/d", "--store", url).returncode == 0  # the heir of all locks
    assert weir("show", "old", "10/d", "--store", url).stdout.endswith("of 10: 8 of 10 remain, empty in 4 h 48 min\n")


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
        assert done.stderr.splitlines()[-1] == (f"weir: {url} is damaged. When all that use it have ended: "
                                                f"weir store reset --force --store '{url}'")
        refused = weir("store", "reset", "--force", "--store", url)
        assert refused.returncode == 3 and "is in use: end the processes that have it open first" in refused.stderr
        assert server.command("WEIR.SHOW", "line", "1/h")[2] == 0  # nothing has changed
    done = weir("store", "reset", "--force", "--store", url)
    assert (done.returncode, done.stdout) == (0, "all buckets, locks, lines and events are new\n")
    assert weir("take", "line", "1/h", "--wait", "1ms", "--store", url).returncode == 0


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
