#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A limit that the processes of a host share, through libweir and one file; nothing but Python's own
library. Copy this file into your program, or run it: four processes try 1000 times each where 100 a
day may pass."""

import ctypes
import os
import tempfile
from multiprocessing import get_context

VERDICTS = {0: "allowed", 1: "limited", 2: "never", 4: "error"}
RULE_BYTES = 256  # a struct weir_rule, with room to spare


class Config(ctypes.Structure):
    _fields_ = [("memory_bytes", ctypes.c_uint64), ("waiting_max", ctypes.c_uint64),
                ("seed", ctypes.c_uint64 * 2), ("store", ctypes.c_char_p),
                ("caller_clock", ctypes.c_bool), ("events_bytes", ctypes.c_uint64),
                ("drivers", ctypes.c_void_p)]


class Error(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_size_t), ("message", ctypes.c_char * 768)]


class Decision(ctypes.Structure):
    _fields_ = [("verdict", ctypes.c_int), ("capacity", ctypes.c_uint64),
                ("remaining", ctypes.c_uint64), ("retry_after_ns", ctypes.c_int64),
                ("reset_after_ns", ctypes.c_int64), ("delay_ns", ctypes.c_int64)]

    @property
    def allowed(self):
        return self.verdict == 0

    @property
    def retry_after_s(self):
        return self.retry_after_ns / 1e9


weir = ctypes.CDLL(os.environ.get("LIBWEIR", "libweir.so.0"))
weir.weir_limiter_take.restype = Decision
weir.weir_limiter_take.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p,
                                   ctypes.c_size_t, ctypes.c_uint64]


class Limiter:
    """Opens a store: "file:/path", made if there is none. One per process."""

    def __init__(self, store):
        error = Error()
        self.handle = ctypes.c_void_p()
        config = Config(store=store.encode())
        if weir.weir_limiter_open(ctypes.byref(self.handle), ctypes.byref(config),
                                  ctypes.byref(error)) != 0:
            raise OSError(error.message.decode())

    def limit(self, text):
        """A limit of this store, "10/min": compile it once."""
        return Limit(self, text)

    def close(self):
        weir.weir_limiter_close(self.handle)


class Limit:
    def __init__(self, limiter, text):
        error = Error()
        self.limiter = limiter
        self.rule = ctypes.create_string_buffer(RULE_BYTES)
        if weir.weir_rule_from_text(self.rule, limiter.handle, text.encode(),
                                    ctypes.byref(error)) != 0:
            raise ValueError(f"{text}: {error.message.decode()}")

    def take(self, key, cost=1):
        """Charges the bucket of this key if the cost fits: a Decision."""
        key = key.encode()
        return weir.weir_limiter_take(self.limiter.handle, self.rule, key, len(key),
                                      round(cost * 1000000))


def work(store):
    """What each process does: counts how many of 1000 attempts pass."""
    limiter = Limiter(store)
    exports = limiter.limit("100/d")
    passed = sum(exports.take("export:alice").allowed for _ in range(1000))
    limiter.close()
    return passed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        with get_context("fork").Pool(4) as pool:
            passed = sum(pool.map(work, [f"file:{folder}/limits"] * 4, chunksize=1))
    print(f"{passed} of 4000 passed")
