"""The unit for systemd and the Dockerfile: what can be checked of them without either running."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from weirserver import WeirServer

ROOT = Path(__file__).resolve().parents[2]
NEEDS_SYSTEMD = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed"
)

pytestmark = pytest.mark.once


@pytest.fixture
def unit(tmp_path):
    """The unit with a program that is there, since weir need not be installed."""
    path = tmp_path / "weir.service"
    text = (ROOT / "weir.service").read_text()
    path.write_text(re.sub(r"^ExecStart=weir ", "ExecStart=/bin/true ", text, flags=re.M))
    return path


@NEEDS_SYSTEMD
def test_unit_is_valid(unit):
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True,
        check=False,
    )
    complaints = [line for line in ran.stderr.splitlines() if "weir.service" in line]
    assert not complaints, ran.stderr


@NEEDS_SYSTEMD
def test_unit_is_hardened(unit):
    ran = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(unit)],
        capture_output=True, text=True, check=False,
    )
    assert ran.returncode == 0, ran.stdout


def dockerfile():
    return (ROOT / "Dockerfile").read_text().replace("\\\n", " ")


def test_container_is_built_from_packages_that_the_build_needs():
    needed = set(re.findall(r"printf '([a-z0-9-]+) '", (ROOT / "scripts/lib.sh").read_text()))
    build = dockerfile().split("FROM")[1]
    installed = set(re.search(r"apt-get install -y --no-install-recommends (.*)", build)[1].split())
    assert installed == needed


def test_container_serves_with_a_password_and_as_nobody_in_particular():
    assert "--password-file" in re.search(r"^CMD (.*)$", dockerfile(), re.M)[1]
    assert dockerfile().index("\nUSER weir") < dockerfile().index("\nENTRYPOINT")


def test_command_of_the_container_serves_and_its_health_check_passes(tmp_path):
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    with WeirServer("--password-file", str(password)) as server:
        words = eval(re.search(r"HEALTHCHECK .*?CMD (\[.*\])", dockerfile())[1])
        words[-1] = words[-1].replace("/8390 ", f"/{server.http_port} ")
        assert subprocess.run(words, timeout=10, check=False).returncode == 0
        server.stop()
        assert subprocess.run(words, timeout=10, check=False, stderr=subprocess.DEVNULL).returncode


def test_container_asks_for_options_that_exist():
    command = eval(re.search(r"^CMD (.*)$", dockerfile(), re.M)[1])
    shown = WeirServer.help("serve") if hasattr(WeirServer, "help") else None
    for word in command:
        assert shown is None or not word.startswith("--") or word in shown
