# SPDX-License-Identifier: MIT
"""What limits of every kind promise, of one bucket in C."""

from itertools import accumulate


def assert_bound(charges, most_in):
    """In no window, both ends included, is more charged than most_in(its length). charges: (instant, cost)."""
    sums = [0, *accumulate(cost for _, cost in charges)]
    for i, (first, _) in enumerate(charges):
        for j, (last, _) in enumerate(charges[i:], i):
            assert sums[j + 1] - sums[i] <= most_in(last - first)


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
