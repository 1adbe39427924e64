# SPDX-License-Identifier: MIT
"""The line itself, item by item: what a queue of `model.py` counts, kept as people picture it.

Nothing here is computed from a level or from the moment at which the line is empty. Items stand in a
list; the front one drains, and when it has drained the next one begins."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass
class Item:
    cost: Fraction
    left: Fraction  # what of it has not drained
    egress: Fraction | None = None


class Fluid:
    """A line that measures what has not drained. With first=interval an item goes when it has drained to
    its end, with first=now when it begins to, and then one unit more fits."""

    def __init__(self, rate, capacity, first):
        self.rate = rate
        self.room = capacity + (first == "now")
        self.is_first_now = first == "now"
        self.items = []
        self.now = Fraction(0)

    def begin_front(self):
        if self.is_first_now and self.items and self.items[0].egress is None:
            self.items[0].egress = self.now

    def drain_until(self, then):
        while self.items and self.now < then:
            front = self.items[0]
            done = min(then, self.now + front.left / self.rate)
            front.left -= (done - self.now) * self.rate
            self.now = done
            if front.left == 0:
                self.items.pop(0)
                front.egress = front.egress if self.is_first_now else done
                self.begin_front()
        self.now = Fraction(then)

    def arrive(self, now, cost):
        """The item, or None if the line is full."""
        self.drain_until(now)
        if sum(item.left for item in self.items) + cost > self.room:
            return None
        item = Item(cost, cost)
        self.items.append(item)
        self.begin_front()
        return item


class Places:
    """A line of whole places, one per item whatever its cost, before an outlet that is busy with each for
    one interval: the text-book form. With first=interval an item keeps its place until the outlet is done
    with it; with first=now it leaves its place when the outlet begins."""

    def __init__(self, interval, places, first):
        self.interval = interval
        self.places = places
        self.is_first_now = first == "now"
        self.waiting = []
        self.busy_until = None

    def let_go_until(self, then):
        while self.busy_until is not None and self.busy_until <= then:
            tick, self.busy_until = self.busy_until, None
            if self.waiting and self.is_first_now:
                self.waiting.pop(0).egress = tick
                self.busy_until = tick + self.interval
            elif self.waiting:
                self.waiting.pop(0).egress = tick
                self.busy_until = tick + self.interval if self.waiting else None

    def arrive(self, now):
        """The item, or None if there is no place."""
        self.let_go_until(now)
        item = Item(Fraction(1), Fraction(1))
        if self.busy_until is None:
            self.busy_until = now + self.interval
            if self.is_first_now:
                item.egress = Fraction(now)
                return item
        if len(self.waiting) == self.places:
            return None
        self.waiting.append(item)
        return item
