"""A file of buckets that gets another size while servers and commands use it."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import termios
import threading

import pytest
from terminal import Terminal, on_terminal
from test_store import IS_ROOT, small_disk, status, weir  # noqa: F401 (a fixture)
from weirserver import DEADLINE_S, WeirServer, wait_until, weir_binary


LIMITS = ["100000/9000d", "window 100000/9000d"]  # the first drains by one in two hours


def resize(url, size, *arguments):
    done = weir("store", "resize", size, "--store", url, "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.once  # under ThreadSanitizer 16-byte swaps are atomic within one process only
@pytest.mark.parametrize("limit", LIMITS)
def test_a_server_goes_on_in_a_file_that_grows_and_no_charge_is_lost(tmp_path, limit):
    url = f"file:{tmp_path}/store"
    with WeirServer("--store", f"{url}?size=1M", "--threads", "2") as server:
        charged = [0] * 7
        is_over = threading.Event()
        turns = [0, 0]

        def charge(client):
            connection = server.client()
            with connection:
                while not is_over.is_set():
                    key = turns[client] % 7
                    answer = connection.command("WEIR.TAKE", f"k{key}-{client}", limit)
                    assert answer[0] == 0
                    charged[key] += client == 0
                    turns[client] += 1
                    connection.command("WEIR.TAKE", f"new{turns[client]}", "10/s")

        threads = [threading.Thread(target=charge, args=(client,)) for client in range(2)]
        for thread in threads:
            thread.start()
        sizes = ["2M", "16M", "4M", "8M", "1M", "32M"]
        before = [0, 0]
        for size in sizes:
            wait_until(lambda: all(now > then + 50 for now, then in zip(turns, before)))
            before = list(turns)
            done = resize(url, size)
            assert done["to"] == done["events_to"] * 4 and done["moved"] >= 14
        wait_until(lambda: all(now > then + 50 for now, then in zip(turns, before)))
        is_over.set()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert status(url)["bytes"] == 32 << 20
        for key in range(7):  # the server and a command see the same
            level = 10**5 - server.command("WEIR.SHOW", f"k{key}-0", limit)[2]
            shown = json.loads(
                weir("show", f"k{key}-0", limit, "--store", url, "--json").stdout)
            assert level == charged[key] == 10**5 - shown["remaining"]
        assert server.metric("weir_table_memory_bytes") == 32 << 20
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_what_a_resize_says(tmp_path):
    url = f"file:{tmp_path}/store"
    weir("take", "k", "10/d", "--cost", 4, "--store", f"{url}?size=1M")
    done = weir("store", "resize", "2M", "--store", url)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{tmp_path}/store\n\n  size     2048 KiB, and 512 KiB for events\n")
    assert "  buckets  1 moved; 0 were empty, and are forgotten\n" in done.stdout
    assert weir("store", "resize", "2M", "--store", url).stdout == f"{tmp_path}/store has 2048 KiB already\n"
    assert resize(url, "2M", "--events", "1M")["events_to"] == 1 << 20
    assert weir("take", "k", "10/d", "--cost", 7, "--store", url).returncode == 1
    assert weir("take", "k", "10/d", "--cost", 6, "--store", url).returncode == 0


def test_what_had_the_file_made_goes_on_with_its_words(tmp_path):
    url = f"file:{tmp_path}/store?size=1M&events=512K"
    for size in ["2M", "4M"]:  # the words of the first one are right, and those of the last one
        assert weir("take", "k", "10/d", "--store", url).returncode == 0
        resize(f"file:{tmp_path}/store", size)
    for words in ["size=1M&events=512K", "size=4M", "events=2M", "events=512K"]:
        assert weir("take", "k", "10/d", "--store", f"file:{tmp_path}/store?{words}").returncode == 0
    done = weir("take", "k", "10/d", "--store", f"file:{tmp_path}/store?size=2M")
    assert done.returncode == 3
    command = done.stderr.split("leave out the size, or: weir ")[1].strip()
    assert weir(*shlex.split(command)).returncode == 0
    assert weir("take", "k", "10/d", "--store", f"file:{tmp_path}/store?size=2M").returncode == 0
    done = weir("take", "k", "10/d", "--store", f"file:{tmp_path}/store?events=2M")
    assert done.returncode == 3
    command = done.stderr.split("leave out events, or: weir ")[1].strip()
    assert weir(*shlex.split(command)).returncode == 0
    assert weir("take", "k", "10/d", "--store", f"file:{tmp_path}/store?events=2M").returncode == 0


def test_a_file_keeps_its_mode_and_what_leads_to_it(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    url = f"file:{real}/store?mode=0660"
    weir("take", "k", "10/d", "--store", url)
    made = status(url)["made"]
    link.symlink_to(real / "store")
    if IS_ROOT:
        os.chown(real / "store", 12345, 23456)
    resize(f"file:{link}", "1M")
    assert link.is_symlink()
    found = (real / "store").stat()
    assert found.st_mode & 0o777 == 0o660
    assert not IS_ROOT or (found.st_uid, found.st_gid) == (12345, 23456)
    assert (status(f"file:{link}")["bytes"], status(url)["made"]) == (1 << 20, made)
    assert [path.name for path in real.iterdir()] == ["store"]


def test_a_file_with_two_names_stays_as_it_is(tmp_path):
    url = f"file:{tmp_path}/store"
    weir("take", "k", "10/d", "--store", url)
    os.link(tmp_path / "store", tmp_path / "other")
    done = weir("store", "resize", "1M", "--store", url)
    assert (done.returncode, done.stdout) == (3, "")
    assert "has other names too" in done.stderr and "nothing has changed" in done.stderr
    assert weir("show", "k", "10/d", "--store", url).returncode == 0


def test_buckets_that_do_not_fit_stay_where_they_are(tmp_path):
    url = f"file:{tmp_path}/store?size=1M"
    with WeirServer("--store", url) as server, server.client() as connection:
        answers = connection.pipeline([("WEIR.TAKE", f"k{number}", "1/d") for number in range(5000)])
        assert all(answer[0] == 0 for answer in answers)
        done = weir("store", "resize", "64K", "--store", f"file:{tmp_path}/store")
        assert done.returncode == 3
        assert "holds 5000 buckets, too many for 65536 bytes; nothing has changed" in done.stderr
        assert server.command("WEIR.TAKE", "k7", "1/d")[0] == 1
        assert resize(url, "256K")["moved"] == 5000  # at a load of 0.67
        assert server.command("WEIR.TAKE", "k7", "1/d")[0] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_events_that_do_not_fit_stay_where_they_are(tmp_path):
    url, limit = f"file:{tmp_path}/store", "window 9/9000d"
    with WeirServer("--store", f"{url}?size=1M") as server, server.client() as connection:
        answers = connection.pipeline([("WEIR.TAKE", f"k{number}", limit, "COST", 7)
                                       for number in range(30)])  # a chunk of 256 bytes each
        assert all(answer[0] == 0 for answer in answers)
        done = weir("store", "resize", "1M", "--events", "7K", "--store", url)
        assert (done.returncode, done.stdout) == (3, "")
        assert "holds more events than fit into 7168 bytes; nothing has changed" in done.stderr
        assert server.command("WEIR.TAKE", "k7", limit, "COST", 3)[0] == 1
        assert resize(url, "1M", "--events", "8K")["events_to"] == 8192  # the header, too
        assert server.command("WEIR.SHOW", "k7", limit)[6] == "7"
        assert server.command("WEIR.TAKE", "k7", limit, "COST", 2)[0] == 0
        assert server.command("WEIR.TAKE", "another", limit)[0] == 0
        assert server.command("WEIR.TAKE", "one more", limit)[0] == 4  # there are 31 chunks
        assert status(url)["events_full"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_full_file_advises_to_grow(tmp_path):
    url = f"file:{tmp_path}/store?size=64K"
    with WeirServer("--store", url) as server, server.client() as connection:
        assert status(url)["advised_bytes"] == 0
        connection.pipeline([("WEIR.TAKE", f"k{number}", "1/d") for number in range(1900)])
        assert status(url)["advised_bytes"] == 128 << 10
        said = weir("store", "status", "--store", f"file:{tmp_path}/store").stdout
        assert f"  weir store resize 128K --store 'file:{tmp_path}/store'\n" in said
    resize(f"file:{tmp_path}/store", "128K")
    assert status(f"file:{tmp_path}/store")["advised_bytes"] == 0


def test_a_full_disk_changes_nothing(small_disk):  # noqa: F811
    url = f"file:{small_disk}/store"
    assert weir("take", "k", "10/d", "--store", f"{url}?size=256K").returncode == 0
    done = weir("store", "resize", "64M", "--store", url)
    assert (done.returncode, done.stdout) == (3, "")
    assert "No space left on device; nothing has changed" in done.stderr
    assert weir("take", "k", "10/d", "--cost", 9, "--store", url).returncode == 0
    assert [path.name for path in small_disk.iterdir()] == ["store"]


def test_who_cannot_follow_fails_until_it_can(tmp_path):
    there, away = tmp_path / "there", tmp_path / "away"
    there.mkdir()
    url = f"file:{there}/store"
    with WeirServer("--store", url) as server:
        assert server.command("WEIR.TAKE", "k", "10/d", "COST", 4)[0] == 0
        there.rename(away)
        assert server.command("WEIR.TAKE", "k", "10/d")[0] == 0
        resize(f"file:{away}/store", "1M")
        assert server.command("WEIR.TAKE", "k", "10/d")[0] == 4
        shutil.copytree(away, there)  # another file by its inode, but of the same buckets
        assert server.command("WEIR.TAKE", "k", "10/d")[:3] == [0, 10, 4]


def wait_in_line(server, clients, key, limit, count):
    """So many more wait for the key, each on a connection of its own, and stand there when this returns."""
    for _ in range(count):
        connection = clients.enter_context(server.client())
        before = server.command("WEIR.TAKE", key, limit)[3]
        connection.send("WEIR.TAKE", key, limit, "WAIT", 10**6)
        wait_until(lambda: server.command("WEIR.TAKE", key, limit)[3] > before + 2 * 10**8)
        yield connection


@pytest.mark.once  # under ThreadSanitizer 16-byte swaps are atomic within one process only
def test_those_who_wait_go_on_in_the_new_file_and_nobody_overtakes(tmp_path):
    url = f"file:{tmp_path}/store"
    limit = "1/500ms capacity=1"
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(WeirServer("--store", url, "--threads", "2")) for _ in range(2)]
        assert servers[0].command("WEIR.TAKE", "k", limit)[0] == 0
        waiters = []
        for turn in range(4):  # of both, in turns
            waiters += wait_in_line(servers[turn % 2], stack, "k", limit, 1)
        assert resize(url, "1M")["waiting"] >= 2
        # one of each that had the old file open, and one that knows the new one only
        fresh = stack.enter_context(WeirServer("--store", url))
        for server in [servers[1], fresh, servers[0]]:
            waiters += wait_in_line(server, stack, "k", limit, 1)
        for server in [*servers, fresh]:
            assert server.command("WEIR.TAKE", "k", limit)[0] == 1
        answers = [waiter.read_reply() for waiter in waiters]
        assert [answer[0] for answer in answers] == [0] * 7
        # a bucket without a line is as it was
        assert servers[1].command("WEIR.TAKE", "j", limit, "WAIT", 60000)[0] == 0
        assert servers[0].command("WEIR.TAKE", "j", limit, "WAIT", 60000)[0] == 0


def in_line_of(url, key, limit, seconds):
    """One more command that waits for the key, and stands there when this returns."""
    command = subprocess.Popen(
        [weir_binary(), "take", key, limit, "--wait", "1h", "--store", url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: json.loads(weir("can-take", key, limit, "--json", "--store", url).stdout)[
        "retry_after_ms"] > seconds * 1000)
    return command


@pytest.mark.once  # under ThreadSanitizer 16-byte swaps are atomic within one process only
def test_a_file_cut_short_ends_who_waits_with_3(tmp_path):
    url = f"file:{tmp_path}/store"
    limit = "1/100s capacity=1"
    assert weir("take", "k", limit, "--store", url).returncode == 0
    stopped = in_line_of(url, "k", limit, 110)
    waiter = in_line_of(url, "k", limit, 210)
    stopped.send_signal(signal.SIGSTOP)
    resize(url, "1M")  # for a second the other one looks whether this one comes
    os.truncate(tmp_path / "store", 4096)
    said = waiter.communicate(timeout=DEADLINE_S)[1]
    assert (waiter.returncode, said) == (
        3, "weir: the file of the store was cut short while it was open, or its disk has failed\n")
    stopped.kill()
    stopped.communicate(timeout=DEADLINE_S)


def test_what_a_killed_one_left_is_removed(tmp_path):
    url = f"file:{tmp_path}/store"
    weir("take", "k", "10/d", "--store", url)
    (tmp_path / f"store.weir-resize-{(tmp_path / 'store').stat().st_ino}").write_text("half a file")
    resize(url, "1M")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def is_making(command, folder):
    """Whether it has the other file open, with a name or without one."""
    descriptors = f"/proc/{command.pid}/fd"
    with contextlib.suppress(OSError):  # it has just closed one
        names = [os.readlink(f"{descriptors}/{fd}") for fd in os.listdir(descriptors)]
        return any(name.startswith(f"{folder}/") and name != f"{folder}/store" for name in names)
    return False


def has_nameless_files(folder):
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_it_takes_all_back(tmp_path, number):
    url = f"file:{tmp_path}/store"
    weir("take", "k", "10/d", "--cost", 4, "--store", f"{url}?size=1M")
    command = subprocess.Popen(
        [weir_binary(), "store", "resize", "4G", "--store", url], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    wait_until(lambda: is_making(command, tmp_path) or command.poll() is not None)
    command.send_signal(number)
    said = command.communicate(timeout=3 * DEADLINE_S)[1]
    if command.returncode == 0:
        pytest.skip("it was faster")
    if number == signal.SIGKILL:
        assert command.returncode == -number
    else:
        assert command.returncode == 3
        assert "nothing has changed" in said
    if number != signal.SIGKILL or has_nameless_files(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert weir("take", "k", "10/d", "--cost", 6, "--store", url).returncode == 0


def test_a_stopped_terminal_does_not_stop_a_resize(tmp_path):
    """As ^S does, but at a certain instant: before the first word."""
    url = f"file:{tmp_path}/store"
    weir("take", "k", "10/d", "--cost", 4, "--store", f"{url}?size=1M")
    terminal = Terminal("store", "resize", "2M", "--store", url, is_stopped=True, stdout=subprocess.PIPE)
    assert terminal.process.wait(DEADLINE_S) == 0
    assert weir("take", "k", "10/d", "--cost", 7, "--store", url).returncode == 1
    termios.tcflow(terminal.theirs, termios.TCOON)
    assert terminal.read_all() == ""


def test_nothing_is_written_while_buckets_move(tmp_path):
    url = f"file:{tmp_path}/store"
    weir("take", "k", "10/d", "--cost", 4, "--store", f"{url}?size=1M")
    said = on_terminal("store", "resize", "64M", "--store", url, stdout=subprocess.PIPE)
    assert "allocating           100 %" in said
    assert "moving" not in said and said.count("writing to the disk") == 1


@pytest.mark.parametrize(
    "words, said",
    [
        (["resize"], "to what size?"),
        (["resize", "1"], "a size is 64K to 16T"),
        (["resize", "much"], "a size is 64K to 16T"),
        (["resize", "1M", "2M"], "one size"),
        (["status", "1M"], "one of status, resize, reset"),
        (["status", "--events", "1M"], "--events is an option of resize"),
        (["resize", "1M", "--events", "1"], "memory for events is 4K to 1T"),
        (["resize", "1M", "--store", "memory:?shared=yes"], "memory keeps the size"),
    ],
)
def test_wrong_usage(words, said):
    done = weir("store", *words, environment={"HOME": "/nowhere"})
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    done = weir("store", "resize", "1M", "--store", f"file:{tmp_path}/none")
    assert done.returncode == 3
    assert "no store at" in done.stderr
    assert list(tmp_path.iterdir()) == []
