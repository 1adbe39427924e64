"""`make run`: what it says when an address is busy, and that the second time it starts at once."""

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from ports import free_port, is_listening
from weirserver import DEADLINE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.once


class MakeRun:
    """`make run`; a number is a port of loopback. What it says goes to a file of `folder`."""

    def __init__(self, folder, resp, http):
        addresses = {"RESP": resp, "HTTP": http}
        for variable, address in addresses.items():
            if isinstance(address, int):
                addresses[variable] = f"127.0.0.1:{address}"
        environment = {**os.environ, **addresses}
        environment.pop("MAKEFLAGS", None)
        self.output = folder / "said"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                ["make", "-s", "run"], cwd=ROOT, env=environment, start_new_session=True,
                stdout=output, stderr=subprocess.STDOUT,
            )

    def said(self):
        return self.output.read_text()

    def wait_until_it_serves(self):
        wait_until(lambda: " ready " in self.said() or self.process.poll() is not None, "make run")
        assert self.process.poll() is None, self.said()

    def stop(self):
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(timeout=DEADLINE_S)
        return self.said()

    def ends(self):
        assert self.process.wait(timeout=DEADLINE_S) != 0, self.said()
        return self.said()


def start_from(preset):
    """The first build of `release` begins with what that preset has compiled. Ninja knows by which commands it was, and
    from which files: it compiles anew what differs."""
    release, other = ROOT / "build/release", ROOT / "build" / preset
    with (ROOT / "build/release.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as scripts/build.sh
        if (release / "build.ninja").exists() or not (other / ".ninja_log").exists():
            return
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, capture_output=True, timeout=600)
        for path in [other / ".ninja_log", other / ".ninja_deps", *other.glob("src/**/*.o")]:
            copy = release / path.relative_to(other)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)


@pytest.fixture(scope="module", autouse=True)
def built():
    """Built before any test takes a port: other tests would be given the same one meanwhile."""
    start_from("dev")
    subprocess.run(["scripts/build.sh", "release"], cwd=ROOT, check=True, timeout=600)


def test_serves_and_builds_nothing_the_second_time(tmp_path):
    built_ns = (ROOT / "build/release/weir").stat().st_mtime_ns
    resp, http = free_port(), free_port()
    program = MakeRun(tmp_path, resp, http)
    program.wait_until_it_serves()
    take = ["build/release/weir", "take", "alice", "10/s", "--server", f"127.0.0.1:{resp}"]
    asked = subprocess.run(take, cwd=ROOT, capture_output=True, text=True, check=False)
    said = program.stop()
    assert asked.returncode == 0, asked.stderr
    assert f"127.0.0.1:{resp}" in said and f"127.0.0.1:{http}" in said
    assert " ".join(take) in said
    assert "forgotten at exit" in said
    assert (ROOT / "build/release/weir").stat().st_mtime_ns == built_ns


@pytest.mark.parametrize("variable", ["RESP", "HTTP"])
def test_busy_address_is_named_with_the_variable_to_set(tmp_path, variable):
    with socket.socket() as occupier:
        occupier.bind(("127.0.0.1", 0))
        occupier.listen()
        busy, other = occupier.getsockname()[1], free_port()
        said = MakeRun(tmp_path, *((busy, other) if variable == "RESP" else (other, busy))).ends()
    assert f"127.0.0.1:{busy} is busy" in said
    line = re.search(r"make run RESP=127.0.0.1:(\d+) HTTP=127.0.0.1:(\d+)\n", said)
    free, kept = line.groups() if variable == "RESP" else reversed(line.groups())
    assert int(kept) == other
    assert not is_listening(("127.0.0.1", int(free)))


@pytest.mark.parametrize("variable", ["RESP", "HTTP"])
@pytest.mark.parametrize("address, said", [
    ("17005", "=17005 is a port without a host. Try: make run"),
    ("localhost", "=localhost is no address: HOST:PORT"),
    ("127.0.0.1:", "=127.0.0.1: is no address"),
    ("127.0.0.1:65536", "=127.0.0.1:65536 is no address"),
    ("::1:6390", "=::1:6390 is no address"),
    ("http://127.0.0.1:80", "=http://127.0.0.1:80 is no address"),
])
def test_what_is_no_address_is_refused(tmp_path, variable, address, said):
    printed = MakeRun(tmp_path, *((address, "off") if variable == "RESP" else ("off", address))).ends()
    assert f"weir: {variable}{said}" in printed


def test_serves_one_protocol_where_the_other_is_off(tmp_path):
    resp = free_port()
    program = MakeRun(tmp_path, resp, "off")
    program.wait_until_it_serves()
    said = program.stop()
    assert f"127.0.0.1:{resp}" in said
    assert "http" not in said.lower()
