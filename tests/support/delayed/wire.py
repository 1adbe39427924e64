"""The bad wire between a weir and its store: build/PRESET/weir-delayed, and what it does (delayed_driver.c).

    with Wire() as wire, wire.server("--threads", "2") as server:
        wire.set(is_silent=1)
        assert server.command("WEIR.TAKE", "alice", "10/s on_error=allow")[0] == 0
        wire.set()                                  # as good a wire as there can be
"""

import mmap
import os
import struct
import tempfile
from pathlib import Path

from weirserver import WeirServer, clean_environment, weir_binary

ROOT = Path(__file__).resolve().parents[3]

# The words of the file, in the order of plan_of_file(). Chances are in thousand.
WORDS = ("connect_ns", "way_ns", "there_ns", "back_ns", "parts", "written_max", "not_asked", "refused_sending",
         "lost_there", "unknown_there", "lost_back", "unknown_back", "breaks", "is_silent", "refuses", "fails_at_once",
         "held")


def delayed_binary():
    """weir with stores that answer later, beside the `weir` under test."""
    return str(Path(weir_binary()).parent / "weir-delayed")


class Wire:
    """What the wire does, for all processes that are started with its environment."""

    def __init__(self, **plan):
        self.file = tempfile.NamedTemporaryFile(prefix="weir-wire-")
        self.file.truncate(8 * len(WORDS))
        self.words = mmap.mmap(self.file.fileno(), 8 * len(WORDS))
        self.set(**plan)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.words.close()
        self.file.close()

    def set(self, **plan):
        """From now on, within a millisecond or two; what is not named is 0."""
        assert plan.keys() <= set(WORDS)
        self.words[:] = struct.pack(f"={len(WORDS)}Q", *(plan.get(word, 0) for word in WORDS))

    @property
    def environment(self):
        return clean_environment(WEIR_DELAYED=self.file.name)

    def server(self, *arguments, environment=None, **options):
        """`environment` is what it has beside the wire's."""
        return WeirServer(*arguments, binary=delayed_binary(),
                          environment={**self.environment, **(environment or {})}, **options)
