# SPDX-License-Identifier: MIT
"""What limits of every kind promise, of one bucket in C."""

from itertools import accumulate

import libweir
import model


def assert_bound(charges, most_in):
    """In no window, both ends included, is more charged than most_in(its length). charges: (instant, cost)."""
    sums = [0, *accumulate(cost for _, cost in charges)]
    for i, (first, _) in enumerate(charges):
        for j, (last, _) in enumerate(charges[i:], i):
            assert sums[j + 1] - sums[i] <= most_in(last - first)


def most_under_stepped(limit, window_ns):
    """Units that any window of so many nanoseconds admits, both its ends included."""
    drains = -(-window_ns // limit.period_ns)
    return limit.capacity + min(limit.capacity, limit.count) * drains


def most_under_sliding(limit, window_ns):
    count, period_ns = int(limit.count), limit.period_ns
    if count == 1:
        return window_ns // period_ns // 2 + 1
    if window_ns == 0:
        return count
    met = -(-window_ns // period_ns) + 1
    return (count - 1) * met + (count == 2 and window_ns > period_ns)


class Histories:
    """All that can come to a bucket in takes of whole units, at whole nanoseconds."""

    def __init__(self, limit):
        self.bucket, self.compiled = libweir.CoreBucket(), libweir.compile_limit(limit)
        self.afterwards = {}  # state: those a nanosecond later, after a take of 0, 1, .. units
        found = [self._state_at(0)]
        while found:
            state = found.pop()
            if state not in self.afterwards:
                self.afterwards[state] = self._take_all(state)
                found += self.afterwards[state]

    def _state_at(self, now):
        """As it is told from now on; what is empty is all one."""
        state = self.bucket.state
        return (state.empty_at_ns - now, state.word) if state.empty_at_ns > now else (0, 0)

    def _take_all(self, state, now=10**6):
        later = []
        while True:
            self.bucket.state.empty_at_ns, self.bucket.state.word = state[0] and now + state[0], state[1]
            units = len(later)
            if self.bucket.decide("take", self.compiled, units * model.MICRO, now)[0][0] != "allowed":
                return later
            later.append(self._state_at(now + 1))

    def most_in(self, window_max_ns):
        """The most units that pass in any window of 0, 1, .. nanoseconds, both its ends included."""
        most = {state: len(later) - 1 for state, later in self.afterwards.items()}
        for _ in range(window_max_ns):
            yield max(most.values())
            most = {state: max(units + most[after] for units, after in enumerate(later))
                    for state, later in self.afterwards.items()}
        yield max(most.values())


def assert_word_is_kept(bucket, compiled, cost_micro, now):
    """What is told at `now`: retry_after is sufficient and minimal, and so is reset_after; to ask changes nothing.
    Returns what is foretold of a take, and after which time the bucket is empty."""
    before = bytes(bucket.state)

    def ask(at, operation="can_take", cost=cost_micro):
        return bucket.decide(operation, compiled, cost, at)[0]

    foretold = ask(now)
    verdict, _, _, retry_after, _, _ = foretold
    if verdict == "limited":
        assert ask(now + retry_after)[0] == "allowed"
        assert ask(now + retry_after - 1)[0] == "limited"
    reset_after = ask(now, "show", 0)[4]
    assert ask(now + reset_after, "show", 0)[4] == 0
    assert reset_after == 0 or ask(now + reset_after - 1, "show", 0)[4] == 1
    assert bytes(bucket.state) == before
    return foretold, reset_after
