"""`make run`: what it says when an address is busy, and that the second time it starts at once."""

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.once


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def start(resp, http):
    """`make run`; a number is a port of loopback."""
    addresses = {"RESP": resp, "HTTP": http}
    for variable, address in addresses.items():
        if isinstance(address, int):
            addresses[variable] = f"127.0.0.1:{address}"
    environment = {**os.environ, **addresses}
    environment.pop("MAKEFLAGS", None)
    return subprocess.Popen(
        ["make", "-s", "run"], cwd=ROOT, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )


def stop(program):
    os.killpg(program.pid, signal.SIGINT)
    return program.communicate(timeout=20)[0]


def wait_until_it_answers(port, program):
    deadline = time.monotonic() + 300  # it may have to build, beside other tests
    while not answers(port):
        assert program.poll() is None, program.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_serves_and_the_second_time_builds_nothing():
    resp, http = free_port(), free_port()
    program = start(resp, http)  # may have to build first
    wait_until_it_answers(resp, program)
    stop(program)

    built_ns = (ROOT / "build/release/weir").stat().st_mtime_ns
    program = start(resp, http)
    wait_until_it_answers(resp, program)
    take = ["build/release/weir", "take", "alice", "10/s", "--server", f"127.0.0.1:{resp}"]
    asked = subprocess.run(take, cwd=ROOT, capture_output=True, text=True, check=False)
    said = stop(program)
    assert asked.returncode == 0, asked.stderr
    assert f"127.0.0.1:{resp}" in said and f"127.0.0.1:{http}" in said
    assert " ".join(take) in said
    assert "forgotten at exit" in said
    assert (ROOT / "build/release/weir").stat().st_mtime_ns == built_ns


@pytest.mark.parametrize("variable", ["RESP", "HTTP"])
def test_busy_address_is_named_with_the_variable_to_set(variable):
    with socket.socket() as occupier:
        occupier.bind(("127.0.0.1", 0))
        occupier.listen()
        busy, other = occupier.getsockname()[1], free_port()
        program = start(*((busy, other) if variable == "RESP" else (other, busy)))
        said, _ = program.communicate(timeout=300)
    assert program.returncode != 0
    assert f"127.0.0.1:{busy} is busy" in said
    line = re.search(r"make run RESP=127.0.0.1:(\d+) HTTP=127.0.0.1:(\d+)\n", said)
    free, kept = line.groups() if variable == "RESP" else reversed(line.groups())
    assert int(kept) == other
    assert not answers(int(free))


@pytest.mark.parametrize("variable", ["RESP", "HTTP"])
@pytest.mark.parametrize("address, said", [
    ("17005", "=17005 is a port without a host. Try: make run"),
    ("localhost", "=localhost is no address: HOST:PORT"),
    ("127.0.0.1:", "=127.0.0.1: is no address"),
    ("127.0.0.1:65536", "=127.0.0.1:65536 is no address"),
    ("::1:6390", "=::1:6390 is no address"),
    ("http://127.0.0.1:80", "=http://127.0.0.1:80 is no address"),
])
def test_what_is_no_address_is_refused(variable, address, said):
    program = start(*((address, "off") if variable == "RESP" else ("off", address)))
    printed, _ = program.communicate(timeout=300)
    assert program.returncode != 0
    assert f"weir: {variable}{said}" in printed


def test_serves_one_protocol_where_the_other_is_off():
    resp = free_port()
    program = start(resp, "off")
    wait_until_it_answers(resp, program)
    said = stop(program)
    assert f"127.0.0.1:{resp}" in said
    assert "http" not in said.lower()
