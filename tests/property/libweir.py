# SPDX-License-Identifier: MIT
"""libweir through ctypes, in the words of the reference model: exact fractions, None for no time.

Structs that are only ever passed by address are opaque here, so their fields may change."""

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_int64, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p
from fractions import Fraction
from pathlib import Path

import model

ROOT = Path(__file__).resolve().parents[2]
VERDICTS = {0: "allowed", 1: "limited", 2: "never", 3: "blocked", 4: "error"}
OPERATIONS = ("take", "can_take", "fill", "refund", "show", "reset")
KINDS = model.KINDS
FIRSTS = ("interval", "now")
UNTIL_EMPTY = 2**64 - 1  # as the length of a block
REASONS = {1: "syntax", 2: "range", 3: "inexact"}


class BucketState(Structure):
    _fields_ = [("empty_at_ns", c_uint64), ("word", c_uint64)]


class Decision(Structure):
    _fields_ = [("verdict", c_int), ("capacity", c_uint64), ("remaining", c_uint64),
                ("retry_after_ns", c_int64), ("reset_after_ns", c_int64), ("delay_ns", c_int64)]


class Amount(Structure):
    _fields_ = [(name, c_uint64) for name in ("numerator_high", "numerator_low",
                                              "denominator_high", "denominator_low")]

    @property
    def value(self):
        return Fraction(self.numerator_high << 64 | self.numerator_low,
                        self.denominator_high << 64 | self.denominator_low or 1)


class Detail(Structure):
    _fields_ = [("amount", Amount), ("empty_at_ns", c_uint64), ("full", c_bool),
                ("existed", c_bool), ("waiting", c_uint64)]


class Request(Structure):
    _fields_ = [("rule", c_void_p), ("key", c_char_p), ("key_len", c_size_t),
                ("cost_micro", c_uint64), ("operation", c_int), ("and_next", c_bool),
                ("shadow", c_bool), ("detail", POINTER(Detail)), ("block_ns", c_uint64)]


class Error(Structure):
    _fields_ = [("offset", c_size_t), ("message", ctypes.c_char * 768)]


class LimitConfig(Structure):
    _fields_ = [("kind", c_int), ("count_micro", c_uint64), ("period_ns", c_uint64),
                ("capacity_micro", c_uint64), ("on_full", c_int), ("on_error", c_int), ("first", c_int),
                ("waiting", c_uint32), ("period_months", c_uint32), ("block_ns", c_uint64)]


def load():
    preset = os.environ.get("WEIR_PRESET", "dev")
    library = ctypes.CDLL(str(ROOT / "build" / preset / "src" / "libweir.so"))
    bucket, limit, pointer = POINTER(BucketState), c_void_p, c_void_p
    take = [bucket, limit, c_uint64, c_uint64]
    for name, arguments, result in (
        ("weir_bucket_take", take, Decision),
        ("weir_shared_bucket_take", take, Decision),
        ("weir_bucket_can_take", take, Decision),
        ("weir_bucket_refund", take, Decision),
        ("weir_bucket_fill", [*take, POINTER(Amount), POINTER(c_bool)], Decision),
        ("weir_bucket_show", [bucket, limit, c_uint64, POINTER(Amount)], Decision),
        ("weir_bucket_valid", [bucket], c_bool),
        ("weir_limit_init", [limit, POINTER(LimitConfig), POINTER(Error)], c_int),
        ("weir_limit_parse", [POINTER(LimitConfig), c_char_p, c_size_t, POINTER(Error)], c_int),
        ("weir_limit_print", [POINTER(LimitConfig), c_char_p, c_size_t], c_int),
        ("weir_cost_parse", [POINTER(c_uint64), c_char_p, c_size_t, POINTER(Error)], c_int),
        ("weir_limiter_open", [POINTER(pointer), pointer, POINTER(Error)], c_int),
        ("weir_limiter_close", [pointer], None),
        ("weir_limiter_stats", [pointer, POINTER(c_uint64)], None),
        ("weir_rule_init", [pointer, pointer, limit], None),
        ("weir_rule_init_named", [pointer, pointer, limit, c_char_p, c_size_t], None),
        ("weir_limiter_decide_at",
         [pointer, POINTER(Request), POINTER(Decision), c_size_t, c_uint64], None),
    ):
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
    return library


LIBRARY = load()


def config_of(limit):
    """The model's limit as numbers that the library reads: count per period, not in lowest terms."""
    micro = limit.rate * model.MICRO
    count_micro, period_ns = micro.numerator, micro.denominator
    if limit.kind in model.AS_WRITTEN:  # not in lowest terms
        count_micro, period_ns = int(limit.count * model.MICRO), limit.period_ns
    waiting = limit.waiting if limit.waiting is not None else usual_waiting(limit.kind)
    return LimitConfig(KINDS.index(limit.kind), count_micro, period_ns,
                       int(limit.capacity * model.MICRO), 0, 0, FIRSTS.index(limit.first), waiting,
                       limit.months, UNTIL_EMPTY if limit.block == "empty" else limit.block or 0)


def usual_waiting(kind):
    return model.WAITING_MAX if kind == "queue" else 1000


def compile_limit(limit):
    """A compiled struct weir_limit, opaque; raises model.Refused."""
    compiled = ctypes.create_string_buffer(256)
    error = Error()
    status = LIBRARY.weir_limit_init(compiled, byref(config_of(limit)), byref(error))
    if status != 0:
        raise model.Refused(REASONS[status], error.offset)
    return compiled


def parse_limit(text):
    """The config of a text; raises model.Refused."""
    config, error = LimitConfig(), Error()
    raw = text.encode("latin-1")
    status = LIBRARY.weir_limit_parse(byref(config), raw, len(raw), byref(error))
    if status != 0:
        raise model.Refused(REASONS[status], error.offset)
    return config


def limit_of(config):
    """A config in the model's terms."""
    kind = KINDS[config.kind]
    as_written = ((Fraction(config.count_micro, model.MICRO), config.period_ns, config.period_months)
                  if kind in model.AS_WRITTEN else (None, None, 0))
    return model.Limit(Fraction(config.count_micro, config.period_ns * model.MICRO),
                       Fraction(config.capacity_micro, model.MICRO),
                       ("refuse", "allow", "evict")[config.on_full], kind, FIRSTS[config.first],
                       None if config.waiting == usual_waiting(kind) else config.waiting,
                       *as_written,
                       block="empty" if config.block_ns == UNTIL_EMPTY else config.block_ns or None,
                       on_error=("refuse", "allow")[config.on_error])


def print_limit(config):
    text = ctypes.create_string_buffer(256)
    assert LIBRARY.weir_limit_print(byref(config), text, len(text)) == 0
    return text.value.decode()


def parse_cost(text):
    cost, error = c_uint64(), Error()
    raw = text.encode("latin-1")
    status = LIBRARY.weir_cost_parse(byref(cost), raw, len(raw), byref(error))
    if status != 0:
        raise model.Refused(REASONS[status], error.offset)
    return Fraction(cost.value, model.MICRO)


def tell(decision):
    """What every decision says, as a tuple: verdict, capacity, remaining, retry, reset, delay."""
    retry_ns = decision.retry_after_ns
    return (VERDICTS[decision.verdict], decision.capacity, decision.remaining,
            None if retry_ns == -1 else retry_ns, decision.reset_after_ns, decision.delay_ns)


class CoreBucket:
    """One struct weir_bucket."""

    take_function = LIBRARY.weir_bucket_take

    def __init__(self):
        # 16-byte aligned, as the shared bucket wants it
        self._memory = ctypes.create_string_buffer(32)
        offset = -ctypes.addressof(self._memory) % 16
        self.state = BucketState.from_buffer(self._memory, offset)

    def decide(self, operation, compiled, cost_micro, now):
        """(what every decision says, what this operation says beyond)"""
        state = byref(self.state)
        if operation == "take":
            return tell(self.take_function(state, compiled, cost_micro, now)), ()
        if operation == "can_take":
            return tell(LIBRARY.weir_bucket_can_take(state, compiled, cost_micro, now)), ()
        if operation == "fill":
            spill, full = Amount(), c_bool()
            decision = LIBRARY.weir_bucket_fill(state, compiled, cost_micro, now, byref(spill),
                                                byref(full))
            return tell(decision), (spill.value, full.value)
        if operation == "show":
            level = Amount()
            decision = LIBRARY.weir_bucket_show(state, compiled, now, byref(level))
            return tell(decision), (level.value,)
        if operation == "reset":  # what a store does
            if LIBRARY.weir_bucket_show(state, compiled, now, None).reset_after_ns > 0:
                self.state.empty_at_ns, self.state.word = now, 0
            return tell(LIBRARY.weir_bucket_show(state, compiled, now, None)), ()
        return tell(LIBRARY.weir_bucket_refund(state, compiled, cost_micro, now)), ()


class SharedBucket(CoreBucket):
    take_function = LIBRARY.weir_shared_bucket_take


class LoneKey:
    """One key of a table: for kinds that need a store's memory beside their state."""

    def __init__(self):
        self.limiter, self.rules = Limiter(65536), {}

    def decide(self, operation, compiled, cost_micro, now):
        rule = self.rules.setdefault(id(compiled), (compiled, self.limiter.rule(compiled, b"name")))[1]
        ((answer, more),) = self.limiter.decide([(operation, rule, b"key", cost_micro)], now)
        return answer, more

    def close(self):
        self.limiter.close()


class Limiter:
    """A table, asked by weir_limiter_decide_at()."""

    def __init__(self, memory_bytes=0, seed=0):
        self.handle = c_void_p()
        error = Error()
        # struct weir_limiter_config: a seed, no store, a clock of the caller's; the rest 0
        config = (c_uint64 * 16)(memory_bytes, 0, seed, 1, 0, 1)
        status = LIBRARY.weir_limiter_open(byref(self.handle), config, byref(error))
        assert status == 0, error.message

    def close(self):
        LIBRARY.weir_limiter_close(self.handle)

    def reused_count(self):
        stats = (c_uint64 * 16)()  # struct weir_limiter_stats: the fourth
        LIBRARY.weir_limiter_stats(self.handle, stats)
        return stats[3]

    def rule(self, compiled, name=None):
        rule = ctypes.create_string_buffer(512)
        if name is None:
            LIBRARY.weir_rule_init(rule, self.handle, compiled)
        else:
            LIBRARY.weir_rule_init_named(rule, self.handle, compiled, name, len(name))
        return rule

    def decide(self, questions, now):
        """Many questions (operation, rule, key, cost_micro) at one instant, in one call."""
        count = len(questions)
        details = (Detail * count)()
        decisions = (Decision * count)()
        requests = (Request * count)(*(
            Request(ctypes.addressof(rule), key, len(key), cost_micro, OPERATIONS.index(operation),
                    detail=ctypes.pointer(detail))
            for (operation, rule, key, cost_micro), detail in zip(questions, details)))
        LIBRARY.weir_limiter_decide_at(self.handle, requests, decisions, count, now)
        return [(tell(decision), self._beyond(question[0], detail))
                for question, decision, detail in zip(questions, decisions, details)]

    @staticmethod
    def _beyond(operation, detail):
        if operation == "fill":
            return (detail.amount.value, detail.full)
        if operation == "show":
            return (detail.amount.value, detail.existed)
        return (detail.existed,) if operation == "reset" else ()
