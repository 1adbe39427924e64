"""Buckets in a file: the command without a server, servers and programs that share one, and what is
said when a file cannot be used."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from test_docs import read_sessions
from weirserver import DEADLINE_S, WeirServer, wait_until, weir_binary

ROOT = Path(__file__).resolve().parents[2]
IS_ROOT = os.geteuid() == 0


def weir(*arguments, home=None, environment=None, prefix=(), **options):
    """Runs one command with a home of its own, without this shell's WEIR_ and XDG_ variables."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("WEIR_", "XDG_")) and name != "HOME"}
    if home is not None:
        clean["HOME"] = str(home)
    return subprocess.run(
        [*prefix, weir_binary(), *map(str, arguments)], capture_output=True, text=True,
        timeout=3 * DEADLINE_S, env={**clean, **(environment or {})}, **options,
    )


# ---- Without a server ----


def test_commands_of_a_user_share_a_file_with_no_set_up(tmp_path):
    assert weir("take", "k", "10/d", "--cost", 4, home=tmp_path).stdout.startswith("allowed: 6 of 10")
    file = tmp_path / ".local/state/weir/default.weir"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert weir("can-take", "k", "10/d", "--cost", 7, home=tmp_path).returncode == 1
    assert weir("fill", "k", "10/d", "--cost", 7, home=tmp_path).stdout.startswith("filled: 0 of 10")
    assert weir("refund", "k", "10/d", "--cost", 3, home=tmp_path).stdout.startswith("refunded: 3 of")
    shown = json.loads(weir("show", "k", "10/d", "--json", home=tmp_path).stdout)
    assert shown["remaining"] == 3 and 6.99 < Fraction(shown["level"]) < 7
    assert weir("reset", "k", "10/d", home=tmp_path).stdout == "reset: emptied\n"
    assert weir("take", "k", "10/d", "--cost", 11, home=tmp_path).returncode == 4
    assert [path.name for path in file.parent.iterdir()] == ["default.weir"]


def test_a_window_takes_no_refund(tmp_path):
    assert weir("take", "k", "window 5/d", "--cost", 2, home=tmp_path).returncode == 0
    done = weir("refund", "k", "window 5/d", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a window takes no refund: what it let through has passed" in done.stderr
    assert weir("show", "k", "window 5/d", home=tmp_path).stdout.startswith("level 2 of 5")


def test_a_window_without_room_says_what_there_is_too_little_of(tmp_path):
    store = f"file:{tmp_path}/small.weir?size=64K&events=4K"
    for i in range(40):
        done = weir("take", f"k{i}", "window 5/d", "--store", store)
        if done.returncode == 3:
            break
    assert done.stdout == ("error: the store cannot decide: its memory for events is full "
                           "(more: events=), or its table is\n")
    done = weir("take", "other", "5/d", "window 6/d", "--store", store)
    assert "its memory for events is full" in done.stdout
    assert weir("take", "other", "5/d", "--store", store).stdout.startswith("allowed: 4 of 5")


def test_the_file_is_where_xdg_has_it(tmp_path):
    state = {"XDG_STATE_HOME": str(tmp_path / "a%b?c")}
    assert weir("take", "k", "1/d", home=tmp_path, environment=state).returncode == 0
    assert weir("take", "k", "1/d", home=tmp_path, environment=state).returncode == 1
    assert (tmp_path / "a%b?c" / "weir" / "default.weir").exists()
    relative = {"XDG_STATE_HOME": "state"}  # to be ignored
    assert weir("take", "k", "1/d", home=tmp_path, environment=relative).returncode == 0
    assert (tmp_path / ".local/state/weir/default.weir").exists()


def test_where_there_is_no_home_a_place_must_be_named(tmp_path):
    done = weir("take", "k", "1/d")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no HOME to keep buckets in: say --store file:/PATH or --server ADDR" in done.stderr
    (tmp_path / "file").touch()
    done = weir("take", "k", "1/d", home=tmp_path / "file")
    assert done.returncode == 3
    assert f"cannot make {tmp_path}/file/.local/state/weir: Not a directory" in done.stderr


def test_a_store_is_named_by_option_or_variable(tmp_path):
    one, two = f"file:{tmp_path}/one", f"file:{tmp_path}/two"
    variable = {"WEIR_STORE": one}
    assert weir("take", "k", "1/d", environment=variable).returncode == 0
    assert weir("take", "k", "1/d", "--store", one).returncode == 1
    assert weir("take", "k", "1/d", "--store", two, environment=variable).returncode == 0
    elsewhere = {"WEIR_SERVER": "127.0.0.1:1"}
    assert weir("take", "k", "1/d", "--store", two, environment=elsewhere).returncode == 1


@pytest.mark.parametrize(
    "arguments, environment, said",
    [
        (["--store", "file:/x", "--server", "localhost:1"], {}, "--server or --store"),
        ([], {"WEIR_STORE": "file:/x", "WEIR_SERVER": "h:1"}, "unset WEIR_SERVER or WEIR_STORE"),
        (["--store", "memory:"], {}, "memory is forgotten when this command ends"),
        (["--store", "file:x"], {}, "the path of a file starts with /"),
        (["--store", "file:/x?mode=0777"], {}, "a mode is 0600"),
        (["--store", "file:/x", "--password-file", "/p"], {}, "a password is for a server"),
    ],
)
def test_a_place_that_is_none_is_wrong_usage(arguments, environment, said):
    done = weir("take", "k", "1/d", *arguments, environment=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.once  # under ThreadSanitizer 16-byte swaps are atomic within one process only
def test_a_hundred_at_once_take_what_may_be_taken(tmp_path):
    clean = {**os.environ, "WEIR_STORE": f"file:{tmp_path}/store"}
    running = [
        subprocess.Popen([weir_binary(), "take", "k", "30/d"], env=clean, stdout=subprocess.PIPE)
        for _ in range(100)
    ]
    codes = []
    for process in running:
        process.communicate(timeout=3 * DEADLINE_S)
        codes.append(process.returncode)
    assert (codes.count(0), codes.count(1)) == (30, 70)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


# ---- With servers ----


def test_servers_and_commands_share_a_file_that_outlives_them(tmp_path):
    url = f"file:{tmp_path}/store"
    with WeirServer("--store", url) as one, WeirServer("--store", url) as two:
        assert one.command("WEIR.TAKE", "k", "10/d", "COST", 4)[0] == 0
        assert two.command("WEIR.TAKE", "k", "10/d", "COST", 4)[2] == 2
        assert weir("take", "k", "10/d", "--cost", 3, "--store", url).returncode == 1
        assert weir("take", "k", "10/d", "--cost", 2, "--store", url).returncode == 0
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait(DEADLINE_S)
        assert two.command("WEIR.TAKE", "k", "10/d")[0] == 1
        assert f'url="{url}"' in two.log or f"url={url}" in two.log
        assert "buckets stay when this process ends" in two.log
    with WeirServer("--store", url) as again:
        assert again.command("WEIR.TAKE", "k", "10/d")[0] == 1


def test_a_server_finds_its_store_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("WEIR_STORE", f"file:{tmp_path}/store?size=1M")
    with WeirServer() as server:
        assert server.command("WEIR.TAKE", "k", "10/d")[0] == 0
    assert (tmp_path / "store").stat().st_size == (1 << 20) * 5 // 4  # for events too
    monkeypatch.setenv("WEIR_STORE", "somewhere")
    done = subprocess.run([weir_binary(), "serve"], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 2
    assert "WEIR_STORE 'somewhere': a store is memory:" in done.stderr and "file:/path" in done.stderr


def test_memory_says_how_large_a_new_file_is(tmp_path):
    with WeirServer("--store", f"file:{tmp_path}/store?size=1M", "--memory", "2M"):
        assert (tmp_path / "store").stat().st_size == (2 << 20) * 5 // 4
    done = weir("serve", "--resp", "127.0.0.1:0", "--http", "off", "--store", f"file:{tmp_path}/store",
                "--memory", "4M")
    assert done.returncode == 3
    assert f"{tmp_path}/store has 2097152 bytes and not 4194304: leave out the size" in done.stderr


def test_a_file_of_real_time_and_one_of_tests_are_two(tmp_path):
    assert weir("take", "k", "1/d", "--store", f"file:{tmp_path}/real").returncode == 0
    done = weir("serve", "--resp", "127.0.0.1:0", "--http", "off", "--store", f"file:{tmp_path}/real",
                "--test-clock")
    assert done.returncode == 3
    assert "holds buckets of real time" in done.stderr
    with WeirServer("--store", f"file:{tmp_path}/test", "--test-clock") as server:
        assert server.command("WEIR.TAKE", "k", "1/s")[0] == 0
    done = weir("take", "k", "1/s", "--store", f"file:{tmp_path}/test")
    assert done.returncode == 3
    assert "holds buckets of a test" in done.stderr


def test_several_limits_wait_in_a_file_too(tmp_path):
    with WeirServer("--store", f"file:{tmp_path}/store") as server:
        assert server.command("WEIR.TAKE", "k", "1/d", "WAIT", 1000)[0] == 0
        assert server.command("WEIR.TAKE", "k", "1/d, 2/d", "WAIT", 1000)[0] == 1  # not in time
        assert server.command("WEIR.TAKE", "k", "1/d")[0] == 1
        assert server.command("WEIR.TAKE", "k", "2/d", "COST", 2)[0] == 0  # nothing was charged


# ---- Upkeep ----


def status(url):
    return json.loads(weir("store", "status", "--store", url, "--json").stdout)


def test_status_counts_and_reset_empties_while_a_server_goes_on(tmp_path):
    url = f"file:{tmp_path}/store?size=1M"
    with WeirServer("--store", url) as server:
        for number in range(300):
            assert server.command("WEIR.TAKE", f"k{number}", "7/d", "COST", "2.5")[0] == 0
        assert server.command("WEIR.TAKE", "brief", "1000000/s")[0] == 0
        before = status(url)
        assert before["made"].startswith("20") and before["format"] == 6
        assert (before["bytes"], before["live"], before["used"]) == (1 << 20, 300, 301)
        assert (before["reused"], before["full"]) == (0, 0)
        said = weir("store", "status", "--store", url).stdout
        assert said.startswith(url) and "300 not empty" in said
        assert weir("store", "reset", "--store", url).stdout == "emptied 300 buckets\n"
        assert weir("store", "reset", "--store", url, "--json").stdout == '{"emptied":0}\n'
        assert status(url)["live"] == 0
        assert server.command("WEIR.TAKE", "k7", "7/d", "COST", 7)[:3] == [0, 7, 0]
        assert status(url)["live"] == 1


def test_upkeep_is_of_the_users_own_file_unless_said(tmp_path):
    done = weir("store", "status", home=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "no store at " in done.stderr
    assert not (tmp_path / ".local/state/weir/default.weir").exists()
    assert weir("take", "k", "1/d", home=tmp_path).returncode == 0
    assert "1 not empty" in weir("store", "status", home=tmp_path).stdout
    assert weir("store", "reset", home=tmp_path).returncode == 0
    assert weir("take", "k", "1/d", home=tmp_path).returncode == 0


@pytest.mark.parametrize("words", [[], ["resize"], ["status", "reset"], ["status", "--store", "memory:"]])
def test_upkeep_of_nothing_is_wrong_usage(words):
    done = weir("store", *words, environment={"HOME": "/nowhere"})
    assert (done.returncode, done.stdout) == (2, "")


# ---- Files that cannot be used ----


def test_a_file_cut_short_ends_weir_with_3(tmp_path):
    url = f"file:{tmp_path}/store"
    with WeirServer("--store", url) as server:
        assert server.command("WEIR.TAKE", "k", "1/d")[0] == 0
        os.truncate(tmp_path / "store", 4096)
        with pytest.raises(Exception):  # the connection breaks, one way or another
            server.command("WEIR.TAKE", "k", "1/d")
        wait_until(lambda: server.process.poll() is not None)
        assert server.process.returncode == 3
        server.wait_for_log("the file of the store was cut short while it was open")
    done = weir("take", "k", "1/d", "--store", url)
    assert done.returncode == 3
    assert re.search(r"store is truncated: .* this sets it aside: mv '.*' '.*\.old'", done.stderr)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 1 MiB."""
    if not IS_ROOT:
        pytest.skip("mounting takes root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", disk],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"mount: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(small_disk):
    done = weir("take", "k", "1/d", "--store", f"file:{small_disk}/store")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (f"weir take: cannot allocate {small_disk}/store: No space left on device; "
                           "choose less with size=\n")
    assert list(small_disk.iterdir()) == []
    assert weir("take", "k", "1/d", "--store", f"file:{small_disk}/store?size=512K").returncode == 0


def test_a_disk_that_cannot_be_written_is_one_clear_error(small_disk):
    url = f"file:{small_disk}/store?size=512K"
    assert weir("take", "k", "1/d", "--store", url).returncode == 0
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = weir("take", "k", "1/d", "--store", url)
    assert done.returncode == 3
    assert "Read-only file system; weir writes it: choose a path where that is possible" in done.stderr
    done = weir("take", "k", "1/d", "--store", f"file:{small_disk}/other?size=64K")
    assert done.returncode == 3
    assert "Read-only file system; choose another path" in done.stderr


@pytest.mark.once
def test_a_file_system_of_several_hosts_is_refused(tmp_path):
    """No such file system can be had in a test: fstatfs() says that it is one."""
    (tmp_path / "nfs.c").write_text("""
        #include <stdlib.h>
        #include <sys/vfs.h>
        int fstatfs(int fd, struct statfs *about)
        {
            (void)fd;
            about->f_type = (long)strtoul(getenv("F_TYPE"), NULL, 0);
            return 0;
        }""")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "nfs.so", tmp_path / "nfs.c"], check=True)
    store = tmp_path / "store"
    for f_type, code in (("0x6969", 3), ("0x65735546", 3), ("0xef53", 0), ("0xff534d42", 3)):
        done = weir("take", "k", "9/d", "--store", f"file:{store}",
                    environment={"LD_PRELOAD": str(tmp_path / "nfs.so"), "F_TYPE": f_type})
        assert done.returncode == code
        assert code == 0 or f"{store} is on a file system that other hosts may share" in done.stderr
        assert store.exists() == (f_type not in ("0x6969", "0x65735546"))
    assert len(list(tmp_path.iterdir())) == 3


def test_time_is_the_machines_in_a_time_namespace(tmp_path):
    """A container may see another CLOCK_BOOTTIME: what it takes drains no sooner for that."""
    url = f"file:{tmp_path}/store"
    later = ("unshare", "--time", "--boottime", "864000")  # ten days
    if not IS_ROOT or subprocess.run([*later, "true"], capture_output=True).returncode != 0:
        pytest.skip("no time namespaces here")
    assert weir("take", "k", "1/d", "--store", url).returncode == 0
    assert weir("take", "k", "1/d", "--store", url, prefix=later).returncode == 1
    assert weir("take", "new", "1/d", "--store", url, prefix=later).returncode == 0
    shown = json.loads(weir("show", "new", "1/d", "--store", url, "--json").stdout)
    assert shown["reset_after_ns"] <= 86400 * 10**9


# ---- The documents ----


def run_session(command, environment):
    ran = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, text=True, timeout=60,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return ran.stdout


def test_sessions_of_limit_a_script(tmp_path):
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "weir").symlink_to(weir_binary())
    environment = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    sessions = list(read_sessions(ROOT / "docs/limit-a-script.md"))
    assert len(sessions) >= 5
    assert [(command, run_session(command, environment)) for command, _ in sessions] == sessions


@pytest.mark.once
def test_sessions_of_share_among_workers():
    preset = os.environ.get("WEIR_PRESET", "dev")
    library = ROOT / "build" / preset / "src" / "libweir.so.0"
    if not library.exists() or preset in ("asan", "tsan"):
        pytest.skip("no library that a plain python can load")
    environment = {**os.environ, "LIBWEIR": str(library)}
    sessions = list(read_sessions(ROOT / "docs/share-among-workers.md"))
    assert sessions
    assert [(command, run_session(command, environment)) for command, _ in sessions] == sessions
    code = re.search(r"^```python\n(.*?)^```", (ROOT / "docs/share-among-workers.md").read_text(),
                     re.M | re.S).group(1)
    with tempfile.TemporaryDirectory() as folder:
        code = code.replace("file:/run/app/limits", f"file:{folder}/limits")
        code += "\nprint(decision.allowed)\n"
        ran = subprocess.run([sys.executable, "-c", code], env={**environment, "PYTHONPATH": "examples"},
                             cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.stdout == "True\n", ran.stderr
