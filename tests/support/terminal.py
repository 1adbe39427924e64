"""A command of weir on a terminal of its own.

    terminal = Terminal("take", "k", "1/s", stdout=subprocess.PIPE)
    terminal.read_until(b"in line")
    assert "allowed" in terminal.read_all()

The kernel may say that a terminal is closed before it hands over what was written last: the tests keep the
other end open themselves, and it is the end of the process that ends what can be read."""

import os
import pty
import select
import subprocess
import termios
import time

from weirserver import DEADLINE_S, clean_environment, weir_binary


class Terminal:
    """`streams` are those of subprocess.Popen that are not to be the terminal. One that is stopped takes nothing,
    as after ^S."""

    def __init__(self, *arguments, environment=None, is_stopped=False, **streams):
        self.ours, self.theirs = pty.openpty()
        if is_stopped:
            termios.tcflow(self.theirs, termios.TCOOFF)
        self.process = subprocess.Popen(
            [weir_binary(), *map(str, arguments)], bufsize=0,
            env=clean_environment(**{"TERM": "xterm", **(environment or {})}),
            **{"stdin": self.theirs, "stdout": self.theirs, "stderr": self.theirs, **streams},
        )
        self.ended = os.pidfd_open(self.process.pid)
        self.said = b""

    def read(self):
        """What was written next; b"" when the process has ended and all was read."""
        ready, _, _ = select.select([self.ours, self.ended], [], [], DEADLINE_S)
        assert ready, f"neither a word nor an end after {self.said!r}"
        if self.ours not in ready:  # it may have written since it was looked at, and before it ended
            ready, _, _ = select.select([self.ours], [], [], 0)
        some = os.read(self.ours, 65536) if self.ours in ready else b""
        self.said += some
        return some

    def read_until(self, text, times=1):
        deadline = time.monotonic() + DEADLINE_S
        while self.said.count(text) < times:
            assert self.read(), self.said
            assert time.monotonic() < deadline, f"no {text!r} in {self.said!r}"

    def read_all(self):
        """All that was written, when the process has ended; its exit code is `process.returncode`."""
        while self.read():
            pass
        self.close()
        return self.said.decode()

    def close(self):
        self.process.wait(DEADLINE_S)
        for end in (self.ours, self.theirs, self.ended):
            os.close(end)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def on_terminal(*arguments, **options):
    """Runs a command on a terminal to its end; returns what it wrote there."""
    return Terminal(*arguments, **options).read_all()
