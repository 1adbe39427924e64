# SPDX-License-Identifier: MIT
"""What the measuring driver needs of the machine: programs that run rounds, and servers that are
started for real in a temporary folder and ended by their process id."""

import json
import os
import pathlib
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
PROGRAMS = BUILD / "tests" / "bench"
PEERS = ROOT / "build" / "peers"
WEIR = BUILD / "weir"
DELAYED = BUILD / "weir-delayed"

SERVER_CPU, LOAD_CPU = 0, 1


class Missing(Exception):
    """A peer is not here; the text says what to install."""


def progress(text):
    print(f"  .. {text}", file=sys.stderr, flush=True)


def tool(name, package):
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if path is None:
        raise Missing(f"{name} is not installed (Debian: {package})")
    return path


def pin(cpu):
    if cpu is not None and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {cpu})


class Program:
    """A measuring program: a line in, a line of JSON out (tests/bench/bench.h)."""

    def __init__(self, *command, cpu=None):
        self.command = [str(part) for part in command]
        if not pathlib.Path(self.command[0]).exists():
            raise Missing(f"{self.command[0]} was not built")
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: pin(cpu))

    def round(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise Missing(f"{' '.join(self.command)} ended early")
        figures = json.loads(answer)
        figures.pop("end", None)
        return figures

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def descendants(pid):
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid] + [each for child in children for each in descendants(int(child))]


class Server:
    """A server under measurement. `address` is a port or the path of a unix socket."""

    def __init__(self, command, address, folder=None):
        self.address = str(address)
        self.process = subprocess.Popen(
            [str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: pin(SERVER_CPU))
        try:
            self.wait_until_listening()
        except Missing:
            self.close()
            raise

    def wait_until_listening(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.02)
        raise Missing(f"{self.process.args[0]} did not start")

    def connect(self):
        if self.address.startswith("/"):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self.address)
            return connection
        return socket.create_connection(("127.0.0.1", int(self.address)))

    def cpu_ns(self):
        """Processor time of all its threads so far, by the scheduler's own accounting."""
        total = 0
        for pid in descendants(self.process.pid):
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                try:
                    total += int((task / "schedstat").read_text().split()[0])
                except OSError:
                    pass  # it ended just now
        return total

    def resident_kib(self, index=0):
        status = pathlib.Path(f"/proc/{descendants(self.process.pid)[index]}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def describe():
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":")[1].strip()
            break
    clock = pathlib.Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    memory_kib = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    return {
        "processor": model,
        "cpus": os.cpu_count(),
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "clocksource": clock.read_text().strip() if clock.exists() else "unknown",
        "load_before": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
        "commit": subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True,
                                 capture_output=True, check=False).stdout.strip(),
    }


def processors_ns():
    """Since the machine started: how long its processors worked, and how long the host gave them to somebody else."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, idle, iowait, irq, softirq, steal = (int(field) for field in fields[:8])
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) * tick_ns, steal * tick_ns


def own_ns():
    """What we and those we started and have ended worked."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses) * 1e9


class Quiet:
    """How quiet the machine was from now on until it is asked, in processors: what others worked there, and what the
    host of a virtual machine took. Interrupts count as the work of others."""

    def __init__(self):
        self.start = time.monotonic_ns(), *processors_ns(), own_ns()

    def figures(self):
        now = time.monotonic_ns(), *processors_ns(), own_ns()
        wall, worked, stolen, own = (after - before for before, after in zip(self.start, now))
        return {"others": max(worked - own, 0) / wall, "stolen": stolen / wall}
