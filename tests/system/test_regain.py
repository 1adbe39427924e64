"""A store whose file is deleted or replaced while a server runs: SIGHUP makes the server go on under its name."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from waiters import DAY_MS, StampedWaiter, WaitingServer
from weirserver import WeirServer, wait_until, weir_binary


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store" / "buckets"


@pytest.fixture
def store(path):
    path.parent.mkdir()
    return f"file:{path}"


def start(store, *arguments):
    return WeirServer("--store", f"{store}?size=256K", *arguments)


def lines_of(server, event):
    return [line for line in list(server.lines) if f" {event} " in line]


def field(line, name):
    return re.search(rf' {name}=("[^"]*"|\S+)', line)[1]


def hang_up(server, event):
    """SIGHUP, and the line of the log that says what has become of it."""
    count = len(lines_of(server, event))
    server.signal(signal.SIGHUP)
    wait_until(lambda: len(lines_of(server, event)) > count, event)
    return lines_of(server, event)[-1]


def remaining(store, limit="10/d", key="alice"):
    """As another process sees it, which opens the file by its name."""
    run = [weir_binary(), "show", key, limit, "--json", "--store", store]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["remaining"]


def take(server, cost=1, limit="10/d", key="alice"):
    with server.client() as client:
        return client.command("WEIR.TAKE", key, limit, "COST", cost)


def copy(path, to):
    shutil.copyfile(path, to)
    to.chmod(0o600)


def test_a_deleted_file_is_made_again_with_all_its_buckets(path, store):
    with start(store) as server:
        take(server, 4)
        path.unlink()
        gone = server.wait_for_log(" store_gone ")
        assert "SIGHUP" in field(gone, "remedy") and "makes it again" in field(gone, "remedy")
        assert b"SIGHUP" in server.get("/healthz").body
        take(server, 1)  # meanwhile
        hang_up(server, "reload")  # the last that it says
        line, = lines_of(server, "store_followed")
        assert " info " in line and "new file" in field(line, "how")
        assert (field(line, "carried"), field(line, "waiting")) == ("1", "0")
        assert server.get("/healthz").status == 200
        assert server.metric("weir_store_gone") == 0
        assert remaining(store) == 5
        take(server, 2)
        assert remaining(store) == 3
        assert os.listdir(path.parent) == ["buckets"]
        assert path.stat().st_mode & 0o777 == 0o600
        assert len(lines_of(server, "store_gone")) == 1 and lines_of(server, "store_back") == []
    with start(store) as server:
        assert take(server, 4)[0] == 1 and take(server, 3)[0] == 0


def test_a_hang_up_without_need_changes_nothing(path, store):
    with start(store) as server:
        inode = path.stat().st_ino
        hang_up(server, "reload")
        assert path.stat().st_ino == inode
        assert "store_" not in server.log
    with WeirServer() as server:  # of memory
        hang_up(server, "reload")
        assert server.get("/healthz").status == 200


def test_a_file_that_was_moved_gets_its_name_again(path, store):
    with start(store) as server:
        take(server, 4)
        inode = path.stat().st_ino
        path.rename(path.parent / "elsewhere")
        assert "had another name" in field(hang_up(server, "store_followed"), "how")
        assert path.stat().st_ino == inode
        assert remaining(store) == 6


def test_a_backup_that_was_put_back_is_gone_on_with(path, store):
    backup = path.parent / "backup"
    with start(store) as server:
        take(server, 4)
        copy(path, backup)
        take(server, 3)
        take(server, 1, key="bob")
        backup.rename(path)
        gone = server.wait_for_log(" store_gone ")
        assert "another file" in field(gone, "why") and "lost" in field(gone, "remedy")
        line = hang_up(server, "store_followed")
        assert " warn " in line and field(line, "lost") == "2"
        assert server.get("/healthz").status == 200
        take(server, 1)
        assert remaining(store) == 5
        assert remaining(store, key="bob") == 10


def another_store(path):
    path.unlink()
    run = [weir_binary(), "take", "alice", "10/d", "--store", f"file:{path}"]
    subprocess.run(run, check=True, capture_output=True)


def no_store(path):
    path.unlink()
    path.write_bytes(b"no store at all" * 1000)


def half_a_store(path):
    copy(path, path.parent / "half")
    with open(path.parent / "half", "r+b") as file:
        file.truncate(8192)
    (path.parent / "half").rename(path)


def open_to_all(path):
    copy(path, path.parent / "copy")
    (path.parent / "copy").chmod(0o666)
    (path.parent / "copy").rename(path)


def copy_beside(path):
    path.rename(path.parent / "aside")
    copy(path.parent / "aside", path)


@pytest.mark.parametrize(
    "replace, why",
    [(another_store, "seed"), (no_store, "not a file of weir"), (half_a_store, "truncated"),
     (open_to_all, "chmod o-w"), (copy_beside, "still there")],
)
def test_what_cannot_be_gone_on_with_changes_nothing(path, store, replace, why):
    with start(store) as server:
        take(server, 4)
        replace(path)
        inode = path.stat().st_ino
        line = hang_up(server, "store_not_followed")
        assert " error " in line and why in field(line, "why") and str(path) in field(line, "why")
        assert "SIGHUP" in field(line, "remedy")
        assert path.stat().st_ino == inode
        assert server.get("/healthz").status == 503
        assert list(take(server, 2)[:3]) == [0, 10, 4]
        for file in path.parent.iterdir():
            file.unlink()
        hang_up(server, "store_followed")
        assert remaining(store) == 4


def test_without_its_folder_it_says_so_and_goes_on_later(path, store):
    with start(store) as server:
        take(server, 4)
        shutil.rmtree(path.parent)
        assert "folder" in field(hang_up(server, "store_not_followed"), "why")
        assert take(server, 1)[0] == 0
        path.parent.mkdir()
        hang_up(server, "store_followed")
        assert remaining(store) == 5


def test_several_servers_share_the_new_file(path, store):
    with start(store) as one, start(store) as other:
        take(one, 4)
        path.unlink()
        one.signal(signal.SIGHUP)
        other.signal(signal.SIGHUP)
        wait_until(lambda: lines_of(one, "reload") and lines_of(other, "reload"), "both")
        take(one, 1)
        take(other, 1)
        assert remaining(store) == 4
        path.unlink()
        hang_up(one, "store_followed")  # and the other one, which nobody tells, is idle
        take(other, 1)
        assert remaining(store) == 3
        assert other.get("/healthz").status == 200


def test_an_idle_server_follows_another_one(path, store):
    with start(store) as one, start(store) as other:
        path.unlink()
        other.wait_for_log(" store_gone ")
        hang_up(one, "store_followed")
        other.wait_for_log(" store_back ")
        path.unlink()  # and that is the file that it watches now
        wait_until(lambda: len(lines_of(other, "store_gone")) == 2, "the other alarm")


def join(server, limit):
    waiter = StampedWaiter(server.resp_port)
    waiter.ask("k", limit, DAY_MS)
    server.settle()
    return waiter


@pytest.mark.parametrize("limit", ["5/s capacity=1", "queue 5/s capacity=10", "window 1/200ms"])
@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_who_waits_stays_in_line_in_order(path, store, limit, what):
    with WaitingServer("--store", store, clock=(), threads=1) as server:
        copy(path, path.parent / "copy")
        server.take("k", limit)
        waiters = [join(server, limit) for i in range(5)]
        (path.parent / "copy").rename(path) if what == "replaced" else path.unlink()
        line = hang_up(server, "store_followed")
        assert int(field(line, "waiting")) <= 5
        waiters.append(join(server, limit))  # behind them
        answers = [waiter.stamped_answer() for waiter in waiters]
        assert [answer.verdict for _, answer in answers] == [0] * 6
        assert answers == sorted(answers, key=lambda answer: answer[0])
        for waiter in waiters:
            waiter.close()


def test_the_end_right_after_a_hang_up(path, store):
    """All that was charged is in the file."""
    with start(store) as server:
        take(server, 4)
        path.unlink()
        server.signal(signal.SIGHUP)
        server.signal(signal.SIGTERM)
        server.wait()
        assert server.process.returncode == 0
    assert remaining(store) == 6
