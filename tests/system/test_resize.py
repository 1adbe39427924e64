"""A file of buckets that gets another size while servers and commands use it."""

import json
import os
import shutil
import signal
import subprocess
import threading
import urllib.request

import pytest
from test_store import IS_ROOT, small_disk, status, weir  # noqa: F401 (a fixture)
from weirserver import DEADLINE_S, WeirServer, wait_until, weir_binary


LIMIT = "100000/9000d"  # drains by one in two hours


def resize(url, size, *arguments):
    done = weir("store", "resize", size, "--store", url, "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.once  # under ThreadSanitizer 16-byte swaps are atomic within one process only
def test_a_server_goes_on_in_a_file_that_grows_and_no_charge_is_lost(tmp_path):
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
                    answer = connection.command("WEIR.TAKE", f"k{key}-{client}", LIMIT)
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
            level = 10**5 - server.command("WEIR.SHOW", f"k{key}-0", LIMIT)[2]
            shown = json.loads(
                weir("show", f"k{key}-0", LIMIT, "--store", url, "--json").stdout)
            assert level == charged[key] == 10**5 - shown["remaining"]
        with urllib.request.urlopen(f"{server.http_url}/metrics", timeout=DEADLINE_S) as metrics:
            assert f"weir_table_memory_bytes {32 << 20}\n" in metrics.read().decode()
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


@pytest.mark.once  # under ThreadSanitizer 16-byte swaps are atomic within one process only
def test_nothing_moves_while_somebody_waits_and_nobody_overtakes_afterwards(tmp_path):
    url = f"file:{tmp_path}/store"
    with WeirServer("--store", url) as server, server.client() as waiter:
        assert server.command("WEIR.TAKE", "k", "1/2s capacity=1")[0] == 0
        waiter.send("WEIR.TAKE", "k", "1/2s capacity=1", "WAIT", 60000)
        wait_until(lambda: server.command("WEIR.TAKE", "k", "1/2s capacity=1")[3] > 2 * 10**9)
        done = weir("store", "resize", "1M", "--store", url)
        assert (done.returncode, done.stdout) == (3, "")
        assert "somebody stands in line now" in done.stderr and "nothing has changed" in done.stderr
        assert waiter.read_reply()[0] == 0
        resize(url, "1M")
        assert server.command("WEIR.TAKE", "k", "1/2s capacity=1")[0] in (0, 1)
        assert server.command("WEIR.TAKE", "j", "1/60s", "WAIT", 60000)[0] == 0  # it fits
        assert server.command("WEIR.TAKE", "j", "1/60s", "WAIT", 80000000)[0] == 4
        with WeirServer("--store", url) as other, other.client() as waiter:
            assert other.command("WEIR.TAKE", "l", "1/3s")[0] == 0
            waiter.send("WEIR.TAKE", "l", "1/3s", "WAIT", 60000)
            wait_until(lambda: other.command("WEIR.TAKE", "l", "1/3s")[3] > 3 * 10**9)
            assert server.command("WEIR.TAKE", "l", "1/3s")[0] == 4
            assert waiter.read_reply()[0] == 0
            assert server.command("WEIR.TAKE", "l", "1/3s")[0] == 1


def test_what_a_killed_one_left_is_removed(tmp_path):
    url = f"file:{tmp_path}/store"
    weir("take", "k", "10/d", "--store", url)
    (tmp_path / "store.weir-resize").write_text("half a file")
    resize(url, "1M")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_takes_all_back(tmp_path, number):
    url = f"file:{tmp_path}/store"
    weir("take", "k", "10/d", "--cost", 4, "--store", f"{url}?size=1M")
    command = subprocess.Popen(
        [weir_binary(), "store", "resize", "4G", "--store", url], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (tmp_path / "store.weir-resize").exists() or command.poll() is not None)
    command.send_signal(number)
    said = command.communicate(timeout=3 * DEADLINE_S)[1]
    if command.returncode == 0:
        pytest.skip("it was faster")
    assert command.returncode == 3
    assert "nothing has changed" in said
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert weir("take", "k", "10/d", "--cost", 6, "--store", url).returncode == 0


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
