"""Tries mutants: builds weir with one in it, and runs the tests that must catch it.

Each worker has a copy of the sources under build/mutants, built once without a mutant. A mutant changes the
copy's files, ninja builds what depends on them, the tests run, and everything comes back as it was, with
the times of its files. So nothing is built twice, and the working tree is never touched.
"""

import concurrent.futures
import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import tables

FOLDER = tables.ROOT / "build/mutants"
TEST_SECONDS_MAX = 300
# Not optimised, as each mutant is compiled once; without symbols, which are most of the bytes to link.
FLAGS = "CMAKE_C_FLAGS_RELWITHDEBINFO=-O0"
ADDED_TEST = re.compile(r'^add_test\(\[=*\[(.+?)\]=*\] "([^"]+)"', re.M)  # as CMake tells ctest
CTEST_FAILED, PYTEST_FAILED = 8, 1  # how they exit when a test has failed
NOTICED = re.compile(r"VIOLATION|Assertion")  # what the explorer says; a crash is no finding

# How a test ends, and how a trial does.
PASSED, FAILED, CRASHED = "passed", "failed", "crashed"
CAUGHT, SURVIVED, BROKEN = "caught", "SURVIVED", "BROKEN"


class CannotTry(Exception):
    """Nothing can be tried. The text says why."""


class Stopped(Exception):
    """The time is over, or somebody pressed Ctrl-C: what is tried now has no outcome."""


@dataclass(frozen=True)
class Outcome:
    verdict: str
    reason: str


class Processes:
    """The programs that run now, so that all can be stopped: each with its children in a session of its own."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.is_stopped = False

    def run(self, command, log, seconds=None, *, cwd, env=None):
        """The exit code, or None after `seconds`. Its output goes to the file `log`."""
        with open(log, "ab") as output:
            with self.lock:
                if self.is_stopped:
                    raise Stopped
                process = subprocess.Popen(
                    command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    start_new_session=True,
                )
                self.running.add(process)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self.kill(process)  # and what a test that failed has left
                with self.lock:
                    self.running.discard(process)
        if self.is_stopped:
            raise Stopped
        return code

    @staticmethod
    def kill(process):
        """Ends what is in its session: its children too, also where ctest has put them into groups of their own."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                session = stat.read_text().rpartition(")")[2].split()[3]
                if int(session) == process.pid:
                    os.kill(int(stat.parent.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended meanwhile
        process.wait()

    def stop(self):
        """Ends all programs, and starts no more."""
        with self.lock:
            self.is_stopped = True
            running = list(self.running)
        for process in running:
            self.kill(process)


def copy_if_other(source, target):
    """Copies a file with its time, unless its size and time are the same already."""
    try:
        there = target.stat()
        here = source.stat()
        if (there.st_size, there.st_mtime_ns) == (here.st_size, here.st_mtime_ns):
            return
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)  # a program of a test that hangs may still run
    shutil.copy2(source, target, follow_symlinks=False)


def files_below(folder):
    return {
        Path(where, name).relative_to(folder)
        for where, _, names in os.walk(folder)
        for name in names
    }


def mirror(source, target):
    """Makes the folder `target` the same as `source`."""
    here = files_below(source)
    for path in here:
        copy_if_other(source / path, target / path)
    for path in files_below(target) - here:
        (target / path).unlink()


def tracked_files():
    """What git tracks, or would: as the working tree has it now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=tables.ROOT, capture_output=True, check=True, text=True,
    )
    return [name for name in listed.stdout.split("\0") if name and (tables.ROOT / name).is_file()]


def programs_of(built):
    """The program of each test that ctest knows, as ninja calls it. It need not be built."""
    return {
        name: os.path.relpath(program, built)
        for path in built.rglob("CTestTestfile.cmake")
        for name, program in ADDED_TEST.findall(path.read_text())
    }


class Tree:
    """A copy of the sources, and what is built of it."""

    def __init__(self, folder, processes):
        self.root = folder / "tree"
        self.built = self.root / "build/dev"
        self.whole = folder / "whole"  # what was built without a mutant
        self.log = folder / "log"
        self.processes = processes
        folder.mkdir(parents=True, exist_ok=True)

    def copy_sources(self):
        """Files that are the same stay untouched, so that ninja builds what has changed only."""
        names = tracked_files()
        for name in names:
            source, target = tables.ROOT / name, self.root / name
            if not target.exists() or source.read_bytes() != target.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        for path in files_below(self.root) - {Path(name) for name in names}:
            if path.parts[0] != "build":
                (self.root / path).unlink()

    def configure(self):
        self.log.write_bytes(b"")
        environment = {key: value for key, value in os.environ.items() if key != "CI"}  # warnings are no errors
        command = ["cmake", "--preset", "dev", "-D", FLAGS]
        if self.processes.run(command, self.log, cwd=self.root, env=environment) != 0:
            raise CannotTry(f"cannot configure (see {self.log})")

    def build(self, targets):
        command = ["ninja", "-C", self.built, "-j", "1", *targets]
        return self.processes.run(command, self.log, cwd=self.root) == 0

    def keep(self):
        mirror(self.built, self.whole)

    def restore(self, paths):
        for path in paths:
            copy_if_other(self.root / f"{path}.whole", self.root / path)
            (self.root / f"{path}.whole").unlink()
        mirror(self.whole, self.built)

    def change(self, changed):
        for path, text in changed.items():
            shutil.copy2(self.root / path, self.root / f"{path}.whole")
            (self.root / path).write_text(text)

    def result_of(self, test):
        """PASSED; FAILED, also if it does not end; or CRASHED, if it was not the test that said so."""
        if test.startswith("explore"):
            return self.walk(test)
        if test.startswith("system."):
            code, failed = self.in_pytest(test.removeprefix("system.")), PYTEST_FAILED
        else:
            code, failed = self.in_ctest(test), CTEST_FAILED
        return PASSED if code == 0 else FAILED if code in (failed, None) else CRASHED

    def walk(self, test):
        """A walk of the explorer: its program, a family of scripts, and one in how many of them."""
        program, *arguments = test.split()
        output = self.log.with_name("walk")
        output.unlink(missing_ok=True)
        command = [self.built / "tests/concurrency" / program, *arguments]
        if self.processes.run(command, output, TEST_SECONDS_MAX, cwd=self.root) == 0:
            return PASSED
        return FAILED if NOTICED.search(output.read_text()) else CRASHED

    def in_ctest(self, test):
        command = ["ctest", "--test-dir", self.built, "-R", f"^{re.escape(test)}$", "--no-tests=error",
                   "--output-on-failure", "--timeout", str(TEST_SECONDS_MAX)]
        return self.processes.run(command, self.log, cwd=self.root)

    def in_pytest(self, test):
        module, _, case = test.partition("::")
        chosen = f"tests/system/test_{module}.py" + (f"::{case}" if case else "")
        build = tables.ROOT / "build"
        environment = os.environ | {
            "WEIR_PRESET": "dev",
            "WEIR_BINARY": str(self.built / "weir"),
            "PYTHONPYCACHEPREFIX": str(build / "pycache"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(build / "hypothesis"),
        }
        command = [build / "venv/bin/python", "-m", "pytest", "-c", "tests/pytest.ini", "-q", "-x",
                   "-m", "not slow and not soak", chosen]
        return self.processes.run(command, self.log, TEST_SECONDS_MAX, cwd=tables.ROOT, env=environment)


class Bench:
    """Where one worker tries mutants."""

    def __init__(self, tree, results):
        self.tree = tree
        self.results = results  # of the tests without a mutant; all workers share it
        self.programs = {}

    def prepare(self):
        self.tree.copy_sources()
        self.tree.configure()
        if not self.tree.build(["weir"]):
            raise CannotTry(f"weir does not build (see {self.tree.log})")
        self.programs = programs_of(self.tree.built)

    def target_of(self, test):
        """What has to be built for a test."""
        if test.startswith("explore"):
            return "tests/concurrency/" + test.split()[0]
        if test.startswith("system.store_later"):
            return "weir-delayed"  # without it these tests are skipped, which looks like passing
        return "weir" if test.startswith("system.") else self.programs[test]

    def first_unknown(self, tests):
        for test in tests:
            if not test.startswith(("explore", "system.")) and test not in self.programs:
                return test
        return None

    def result_without(self, test):
        """How a test ends without a mutant: the second time, where it fails on a busy machine the first time."""
        for _ in range(2):
            if self.results.get(test) != PASSED:
                self.results[test] = self.tree.result_of(test)
        return self.results[test]

    def try_one(self, mutant, changed):
        """Tries a mutant, first its tests without it. `changed`: the text of its files, by path."""
        if unknown := self.first_unknown(mutant.caught_by):
            return Outcome(BROKEN, f"there is no test {unknown}")
        targets = {self.target_of(test) for test in mutant.caught_by}
        if not self.tree.build(targets):
            return Outcome(BROKEN, "its tests do not build without it")
        self.tree.keep()
        for test in mutant.caught_by:
            if (result := self.result_without(test)) != PASSED:
                return Outcome(BROKEN, f"{test} {result} without it")
        return self.try_broken(mutant, changed, targets)

    def try_broken(self, mutant, changed, targets):
        self.tree.change(changed)
        try:
            if not self.tree.build(targets):
                return Outcome(BROKEN, "does not build")
            results = {}
            for test in mutant.caught_by * 2:  # a second time, since threads may meet by chance only
                results[test] = self.tree.result_of(test)
                if results[test] == FAILED:
                    return Outcome(CAUGHT, test)
            return Outcome(SURVIVED, ", ".join(f"{test} {result}" for test, result in results.items()))
        finally:
            self.tree.restore(changed)


@contextlib.contextmanager
def alone():
    """While no other run uses the copies."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotTry(f"another run uses {FOLDER}") from None
        yield


class Trials:
    """Tries mutants, as many at once as there are processors, and tells how it goes."""

    def __init__(self, mutants, say, seconds_max=None):
        self.waiting = mutants[::-1]
        self.count = len(mutants)
        self.say = say
        self.started = time.monotonic()
        self.begun = None  # the first mutant, when weir was built
        self.seconds_max = seconds_max
        self.tried = []  # of (mutant, outcome)
        self.lock = threading.Lock()
        self.processes = Processes()
        self.sources = tables.Sources(tables.ROOT)
        self.changes = {mutant.name: tables.applied(mutant, self.sources) for mutant in mutants}

    def run(self):
        """Tries all, or as many as the time allows. Returns a list of (mutant, outcome)."""
        with alone():
            return self.run_alone()

    def run_alone(self):
        results = {}
        folders = [FOLDER / str(number) for number in range(len(os.sched_getaffinity(0)))]
        benches = [Bench(Tree(folder, self.processes), results) for folder in folders]
        end = threading.Timer(self.seconds_max or threading.TIMEOUT_MAX, self.processes.stop)
        end.daemon = True
        end.start()
        with concurrent.futures.ThreadPoolExecutor(len(benches)) as pool:
            workers = [pool.submit(self.work, bench) for bench in benches]
            try:
                for worker in concurrent.futures.as_completed(workers):
                    worker.result()
            finally:  # after an error, or Ctrl-C, too: nothing goes on behind our back
                end.cancel()
                self.processes.stop()
        return self.tried

    def seconds(self):
        return time.monotonic() - self.started

    def work(self, bench):
        try:
            bench.prepare()
            while (mutant := self.take()) is not None:
                started = time.monotonic()
                outcome = bench.try_one(mutant, self.changes[mutant.name])
                self.note(mutant, outcome, time.monotonic() - started)
        except Stopped:
            pass

    def take(self):
        with self.lock:
            self.begun = self.begun or time.monotonic()
            return self.waiting.pop() if self.waiting else None

    def note(self, mutant, outcome, seconds):
        with self.lock:
            self.tried.append((mutant, outcome))
            tried, spent = len(self.tried), time.monotonic() - self.begun
            left = spent / tried * (self.count - tried)
            if self.seconds_max is not None:
                left = min(left, self.seconds_max - self.seconds())
            self.say(
                f"[{tried:3}/{self.count}] {mutant.name:42} {outcome.verdict}: {outcome.reason}"
                f" ({seconds:.0f} s; {left / 60:.0f} min left)"
            )
