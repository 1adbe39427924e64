# SPDX-License-Identifier: MIT
"""The reference model: what weir has to answer, as slow and as obvious as can be.

A bucket is a level and the moment at which that level was true, both exact fractions. It drains
N units per P nanoseconds and holds at most C units:

    level now = max(0, level - (now - moment) * N / P)

and a take of c units is allowed if and only if  level now + c <= C.  A reading older than the moment
makes `now - moment` negative, so it sees a fuller bucket.

A queue is the same level, of a line that moves on at the rate; what is allowed goes when it has drained
to its end, or with first=now when what stood before it has, and then C + 1 fit. fifo.py has the line
itself, item by item.

A stepped limit drains nothing between the ends of whole periods: see Stepped. A fixed one forgets what
was charged when its window of the calendar ends: see Fixed. A sliding one counts in windows of its own: see
Sliding. A window remembers what it let through: see Window.

One key under one limit, that is: world.py has all of them, several limits in one take, and keys that are
locked out. Nothing here knows the C code: not its state, not its rounding, not its parser.
"""

import copy
import datetime
import math
import re
from dataclasses import dataclass
from fractions import Fraction

MICRO = 10**6
UNITS_MAX = 10**12
SPAN_MAX_NS = 36525 * 86400 * 10**9  # 100 years
NUMERATOR_MAX = 2**40 - 1
TEXT_MAX = 256
WAITING_MAX = 10**6
WINDOW_MAX_NS = SPAN_MAX_NS // 2  # the period of a fixed or sliding limit
SLIDING_COUNT_MAX = 2**20 - 1
COUNTS_MAX = {"sliding": SLIDING_COUNT_MAX, "window": 10**6}
MONTH_NS = 146097 * 86400 * 10**9 // 4800  # of mean length: 400 years have so many days
DAY_NS = 86400 * 10**9

UNIT_NS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
UNIT_MONTHS = {"month": 1, "year": 12}  # of fixed limits
AS_WRITTEN = ("stepped", "fixed", "sliding", "window")  # 10/10s is not 1/s


class Refused(Exception):
    """A text that is no limit: `reason` is syntax, range or inexact; `offset` says where."""

    def __init__(self, reason, offset):
        super().__init__(f"{reason} at {offset}")
        self.reason = reason
        self.offset = offset


@dataclass(frozen=True)
class Limit:
    """`rate` in units per nanosecond and `capacity` in units. `waiting` is None where it is not said.
    `count` and `period_ns` are those of a limit that goes by periods, as written; `months` is not 0 where a
    fixed one goes by those of the calendar."""

    rate: Fraction
    capacity: Fraction
    on_full: str = "refuse"
    kind: str = "bucket"
    first: str = "interval"
    waiting: int | None = None
    count: Fraction | None = None
    period_ns: int | None = None
    months: int = 0
    block: int | str | None = None  # nanoseconds, or "empty"
    on_error: str = "refuse"

    @property
    def identity(self):
        """What makes two limits' buckets the same: policy words do not."""
        return (self.kind, self.rate, self.capacity, self.first, self.count, self.period_ns, self.months)

    @property
    def grain(self):
        """What it counts in, units; None where any cost will do."""
        whole = self.kind in ("sliding", "window") or (self.kind == "fixed" and self.count * MICRO > NUMERATOR_MAX)
        return Fraction(1) if whole else None

    @property
    def room(self):
        """What fits into an empty bucket: with first=now one more than has to wait."""
        return self.capacity + (self.first == "now")

    @property
    def denominator(self):
        """A moment under this limit is a whole number of so many parts of a nanosecond."""
        return (self.rate * MICRO).numerator

    def check(self, rate_at=0, capacity_at=0):
        """Refuses what only the numbers together show: a rate that is too fine, a bucket that takes
        too long to empty. They stand at these places of a text."""
        if self.kind == "stepped":
            if self.count * MICRO > NUMERATOR_MAX:
                raise Refused("inexact", rate_at)
            if math.ceil(self.capacity / self.count) * self.period_ns > SPAN_MAX_NS:
                raise Refused("range", capacity_at)
            return self
        if self.kind in ("fixed", "sliding", "window"):
            if self.grain and self.count.denominator != 1:
                raise Refused("inexact", rate_at)
            if self.count > COUNTS_MAX.get(self.kind, UNITS_MAX):
                raise Refused("inexact", rate_at)
            is_long = self.kind != "window" and self.period_ns > WINDOW_MAX_NS
            if self.capacity != self.count or is_long:
                raise Refused("range", capacity_at)
            return self
        if self.denominator > NUMERATOR_MAX:
            raise Refused("inexact", rate_at)
        if self.room / self.rate > SPAN_MAX_NS:
            raise Refused("range", capacity_at)
        return self


def parse_decimal(text, at):
    """A decimal number of at most six places at text[at:]: its value, and where it ends."""
    match = re.compile(r"([0-9]+)(\.([0-9]*))?").match(text, at)
    if not match:
        raise Refused("syntax", at)
    whole, point, places = match.groups()
    if int(whole) > UNITS_MAX:
        raise Refused("range", at)
    if point is not None and places == "":
        raise Refused("syntax", match.end())
    if len(places or "") > 6:
        raise Refused("inexact", match.end(2) - len(places) + 6)
    value = Fraction(match.group())
    if value > UNITS_MAX:
        raise Refused("range", at)
    return value, match.end()


def parse_positive(text, at):
    value, end = parse_decimal(text, at)
    if value == 0:
        raise Refused("range", at)
    return value, end


def parse_cost(text):
    """A cost in units."""
    value, end = parse_decimal(text, 0)
    if end != len(text):
        raise Refused("syntax", end)
    return value


def parse_period(text, at, kind):
    """Its nanoseconds, its months, and where it ends."""
    digits = re.compile(r"[0-9]*").match(text, at).group()
    count = int(digits or "1")
    if count == 0 or count > SPAN_MAX_NS:
        raise Refused("range", at)
    word_at = at + len(digits)
    word = re.compile(r"([A-Za-z][A-Za-z_-]*)?").match(text, word_at).group()
    months = UNIT_MONTHS.get(word, 0) if kind == "fixed" else 0
    if word not in UNIT_NS and not months:
        raise Refused("syntax", word_at)
    unit_ns = months * MONTH_NS or UNIT_NS[word]
    if count * unit_ns > SPAN_MAX_NS:
        raise Refused("range", at)
    return count * unit_ns, count * months, word_at + len(word)


CHOICES = {"on_full": ("refuse", "allow", "evict"), "on_error": ("refuse", "allow"), "first": ("interval", "now")}


def parse_waiting(text, at):
    digits = re.compile(r"[0-9]*").match(text, at).group()
    if not digits:
        raise Refused("syntax", at)
    if int(digits) > WAITING_MAX:
        raise Refused("range", at)
    return int(digits), at + len(digits)


def parse_block(text, at):
    if text.startswith("empty", at):
        return "empty", at + len("empty")
    if not text[at : at + 1].isdigit():
        raise Refused("syntax", at)
    block_ns, _, end = parse_period(text, at, "bucket")
    return block_ns, end


def parse_option(text, at, kind, options):
    """One name=value; returns where it ends."""
    word = re.compile(r"([A-Za-z][A-Za-z_-]*)?").match(text, at).group()
    name = "capacity" if word == "burst" else word
    if name not in ("capacity", "waiting", "block", *CHOICES) or (name == "first" and kind != "queue"):
        raise Refused("syntax", at)
    value_at = at + len(word) + 1
    if text[value_at - 1 : value_at] != "=":
        raise Refused("syntax", value_at - 1)
    if name in options:
        raise Refused("syntax", at)
    if name == "capacity":
        options[name], end = parse_positive(text, value_at)
        options["capacity_at"] = value_at
        return end
    if name in ("waiting", "block"):
        options[name], end = {"waiting": parse_waiting, "block": parse_block}[name](text, value_at)
        return end
    choice = re.compile(r"([A-Za-z][A-Za-z_-]*)?").match(text, value_at).group()
    if choice not in CHOICES[name]:
        raise Refused("syntax", value_at)
    options[name] = choice
    return value_at + len(choice)


def skip_spaces(text, at):
    return at + len(text[at:]) - len(text[at:].lstrip(" "))


KINDS = ("bucket", "queue", "stepped", "fixed", "sliding", "window")


def parse_limit(text):
    """[KIND] COUNT/[N]UNIT [capacity=C] [first=interval|now] [waiting=N] [block=[N]UNIT|empty]
    [on_full=refuse|allow|evict] [on_error=refuse|allow]"""
    if len(text) > TEXT_MAX:
        raise Refused("range", TEXT_MAX)
    at = skip_spaces(text, 0)
    kind = re.compile(r"([A-Za-z][A-Za-z_-]*)?").match(text, at).group()
    if kind not in ("", *KINDS):
        raise Refused("syntax", at)
    if kind:
        if text[at + len(kind) :][:1] != " ":
            raise Refused("syntax", at + len(kind))
        at = skip_spaces(text, at + len(kind))
    rate_at = at
    count, at = parse_positive(text, at)
    if text[at : at + 1] != "/":
        raise Refused("syntax", at)
    period_ns, months, at = parse_period(text, at + 1, kind)
    options = {}
    while at < len(text):
        if text[at] != " ":
            raise Refused("syntax", at)
        at = skip_spaces(text, at)
        if at < len(text):
            at = parse_option(text, at, kind, options)
    usual_capacity = count if kind in ("fixed", "sliding", "window") else max(count, Fraction(1))
    capacity = options.get("capacity", usual_capacity)
    usual_waiting = WAITING_MAX if kind == "queue" else 1000
    waiting = options.get("waiting", usual_waiting)
    limit = Limit(count / period_ns, capacity, options.get("on_full", "refuse"), kind or "bucket",
                  options.get("first", "interval"), None if waiting == usual_waiting else waiting,
                  *((count, period_ns, months) if kind in AS_WRITTEN else ()),
                  block=options.get("block"), on_error=options.get("on_error", "refuse"))
    return limit.check(rate_at, options.get("capacity_at", rate_at))


@dataclass(frozen=True)
class Answer:
    """Times in nanoseconds, None where there is none; amounts are exact fractions."""

    verdict: str
    capacity: int
    remaining: int
    retry_after: int | None
    reset_after: int
    level: Fraction
    delay: int = 0
    spill: Fraction = Fraction(0)
    full: bool = False
    live: bool = False


class Bucket:
    """One key's level, and when it was that."""

    def __init__(self):
        self.level = Fraction(0)
        self.moment = 0
        self.limit = None  # under which the level was written

    def level_at(self, limit, now):
        if self.limit is not None and self.limit != limit:
            return self._level_under_other_numbers(limit, now)
        return max(Fraction(0), self.level - (now - self.moment) * limit.rate)

    def _level_under_other_numbers(self, limit, now):
        """When the numbers change the time until empty stays; the part of a nanosecond in it is kept
        as a count of the former denominator's parts, and counts as a whole nanosecond where the new
        denominator has no such count."""
        empty_at = self.moment + self.level / self.limit.rate
        whole = math.floor(empty_at)
        parts = (empty_at - whole) * self.limit.denominator
        if parts >= limit.denominator:
            empty_at = Fraction(whole + 1)
        else:
            empty_at = whole + parts / limit.denominator
        return max(Fraction(0), (empty_at - now) * limit.rate)

    def _set(self, limit, now, level):
        self.level = level
        self.moment = now
        self.limit = limit

    def _answer(self, limit, verdict, level, retry_after=None, **more):
        return Answer(
            verdict=verdict,
            capacity=math.floor(limit.capacity),
            remaining=max(0, min(math.floor(limit.capacity), math.floor(limit.room - level))),
            retry_after=retry_after,
            reset_after=math.ceil(level / limit.rate),
            level=level,
            **more,
        )

    def take(self, limit, cost, now, charge=True):
        level = self.level_at(limit, now)
        if cost == 0:
            return self._answer(limit, "allowed", level)
        if cost > limit.capacity:
            return self._answer(limit, "never", level)
        if level + cost > limit.room:
            wait = math.ceil((level + cost - limit.room) / limit.rate)
            return self._answer(limit, "limited", level, retry_after=wait)
        if charge:
            self._set(limit, now, level + cost)
        before = {"bucket": 0, "queue": level if limit.first == "now" else level + cost}[limit.kind]
        return self._answer(limit, "allowed", level + cost, delay=math.ceil(before / limit.rate))

    def can_take(self, limit, cost, now):
        return self.take(limit, cost, now, charge=False)

    def fill(self, limit, cost, now):
        level = self.level_at(limit, now)
        fits = min(cost, max(Fraction(0), limit.room - level))
        if fits > 0:
            level += fits
            self._set(limit, now, level)
        return self._answer(limit, "allowed", level, spill=cost - fits,
                            full=level >= limit.room)

    def refund(self, limit, cost, now):
        level = self.level_at(limit, now)
        if cost > 0 and level > 0:
            level = max(Fraction(0), level - cost)
            self._set(limit, now, level)
        return self._answer(limit, "allowed", level)

    def show(self, limit, now):
        level = self.level_at(limit, now)
        return self._answer(limit, "allowed", level, live=level > 0)

    def reset(self, limit, now):
        level = self.level_at(limit, now)
        if level > 0:
            self._set(limit, now, Fraction(0))
        return self._answer(limit, "allowed", Fraction(0), live=level > 0)


class Stepped:
    """What was charged since an empty bucket's first charge, and when that was. At the end of each whole
    period since then, `count` drains; when as much has drained as was charged the bucket is empty, and the
    next charge begins anew."""

    def __init__(self):
        self.charged = Fraction(0)
        self.began = 0

    def level_at(self, limit, now):
        ended = (now - self.began) // limit.period_ns  # negative at a reading before the first charge
        return max(Fraction(0), self.charged - ended * limit.count)

    def after_drains(self, limit, drains, now):
        """How long until so many more periods have ended."""
        ended = (now - self.began) // limit.period_ns
        return self.began + (ended + drains) * limit.period_ns - now

    def _answer(self, limit, verdict, now, retry_after=None, **more):
        level = self.level_at(limit, now)
        drains = math.ceil(level / limit.count)
        return Answer(
            verdict=verdict,
            capacity=math.floor(limit.capacity),
            remaining=max(0, math.floor(limit.capacity - level)),
            retry_after=retry_after,
            reset_after=self.after_drains(limit, drains, now) if drains > 0 else 0,
            level=level,
            **more,
        )

    def _charge(self, limit, cost, now):
        if self.level_at(limit, now) == 0:
            self.charged, self.began = Fraction(0), now
        self.charged += cost

    def take(self, limit, cost, now):
        level = self.level_at(limit, now)
        if cost > limit.capacity:
            return self._answer(limit, "never", now)
        if cost > 0 and level + cost > limit.capacity:
            drains = math.ceil((level + cost - limit.capacity) / limit.count)
            return self._answer(limit, "limited", now, self.after_drains(limit, drains, now))
        if cost > 0:
            self._charge(limit, cost, now)
        return self._answer(limit, "allowed", now)

    def can_take(self, limit, cost, now):
        return copy.copy(self).take(limit, cost, now)

    def fill(self, limit, cost, now):
        fits = min(cost, max(Fraction(0), limit.capacity - self.level_at(limit, now)))
        if fits > 0:
            self._charge(limit, fits, now)
        return self._answer(limit, "allowed", now, spill=cost - fits,
                            full=self.level_at(limit, now) >= limit.capacity)

    def refund(self, limit, cost, now):
        level = self.level_at(limit, now)
        if 0 < level <= cost:
            self.charged, self.began = Fraction(0), now
        elif level > 0:
            self.charged -= cost
        return self._answer(limit, "allowed", now)

    def show(self, limit, now):
        return self._answer(limit, "allowed", now, live=self.level_at(limit, now) > 0)

    def reset(self, limit, now):
        live = self.level_at(limit, now) > 0
        self.refund(limit, self.level_at(limit, now), now)
        return self._answer(limit, "allowed", now, live=live)


class Counter:
    """What fixed and sliding limits have in common: `remaining` and the like follow from level(), and a cost
    that cannot be counted is never."""

    def _answer(self, limit, verdict, now, retry_after=None, **more):
        level = self.level(limit, now)
        return Answer(
            verdict=verdict,
            capacity=math.floor(limit.capacity),
            remaining=max(0, math.floor(limit.capacity - level)),
            retry_after=retry_after,
            reset_after=self.empty_at(limit, now) - now if level > 0 else 0,
            level=level,
            **more,
        )

    def level_at(self, limit, now):
        return self.level(limit, now)

    @staticmethod
    def is_uncounted(limit, cost):
        return limit.grain is not None and (cost / limit.grain).denominator != 1

    def take(self, limit, cost, now):
        if cost > limit.capacity or self.is_uncounted(limit, cost):
            return self._answer(limit, "never", now)
        if cost > 0 and self.level(limit, now) + cost > limit.capacity:
            return self._answer(limit, "limited", now, self.fits_at(limit, cost, now) - now)
        if cost > 0:
            self.charge(limit, cost, now)
        return self._answer(limit, "allowed", now)

    def can_take(self, limit, cost, now):
        return copy.deepcopy(self).take(limit, cost, now)

    def fill(self, limit, cost, now):
        if self.is_uncounted(limit, cost):
            return self._answer(limit, "never", now, spill=cost)
        room = max(Fraction(0), limit.capacity - self.level(limit, now))
        if limit.grain:
            room = Fraction(math.floor(room / limit.grain)) * limit.grain
        fits = min(cost, room)
        if fits > 0:
            self.charge(limit, fits, now)
        return self._answer(limit, "allowed", now, spill=cost - fits, full=fits == room)

    def refund(self, limit, cost, now):
        if self.is_uncounted(limit, cost):
            return self._answer(limit, "never", now)
        if cost > 0 and self.level(limit, now) > 0:
            self.give_back(limit, cost, now)
        return self._answer(limit, "allowed", now)

    def show(self, limit, now):
        return self._answer(limit, "allowed", now, live=self.level(limit, now) > 0)

    def reset(self, limit, now):
        live = self.level(limit, now) > 0
        if live:
            self.__init__(now)
        return self._answer(limit, "allowed", now, live=live)


EPOCH = datetime.date(1970, 1, 1).toordinal()


def first_of_month(month):
    """Nanoseconds since the epoch at which a month begins; the January of the year 0 is month 0."""
    return (datetime.date(month // 12, month % 12 + 1, 1).toordinal() - EPOCH) * DAY_NS


def calendar_window(limit, utc_ns):
    """The window of the calendar that an instant is in: when it begins, and when it ends."""
    if limit.months:
        day = datetime.date.fromordinal(EPOCH + utc_ns // DAY_NS)
        month = (day.year * 12 + day.month - 1) // limit.months * limit.months
        return first_of_month(month), first_of_month(month + limit.months)
    monday = 4 * DAY_NS if limit.period_ns % (7 * DAY_NS) == 0 else 0
    begin = (utc_ns - monday) // limit.period_ns * limit.period_ns + monday
    return begin, begin + limit.period_ns


class Fixed(Counter):
    """What was charged in the window that was charged last, and when that ends. Empty since then, or since
    a reset. `offset` is UTC minus the clock that the readings are of."""

    def __init__(self, since=0):
        self.charged = Fraction(0)
        self.ends = since
        self.offset = 0

    def level(self, limit, now):
        return self.charged if now < self.ends else Fraction(0)

    def empty_at(self, limit, now):
        return self.ends

    def fits_at(self, limit, cost, now):
        return self.ends

    def charge(self, limit, cost, now):
        if self.level(limit, now) == 0:
            now = max(now, self.ends)
            begin, end = (at - self.offset for at in calendar_window(limit, now + self.offset))
            if self.charged > 0 and self.ends - begin > min(5 * 10**6, (end - begin) // 2):
                _, end = calendar_window(limit, end + self.offset)  # that window has ended once
                end -= self.offset
            self.charged, self.ends = Fraction(0), end
        self.charged += cost

    def give_back(self, limit, cost, now):
        self.charged -= cost
        if self.charged <= 0:
            self.charged, self.ends = Fraction(0), now


class Sliding(Counter):
    """How much was charged in each of the windows since the first charge of an empty bucket. A reading older
    than the latest of them that holds something counts as its beginning."""

    def __init__(self, since=0):
        self.began = since
        self.counts = {}  # by the number of the window
        self.period = None

    def _follow(self, limit):
        """Under another period the time until empty stays, and the last two windows with it."""
        if self.counts and self.period != limit.period_ns:
            last = max(self.counts)
            empty_at = self.began + (last + 2) * self.period
            self.counts = {0: self.counts[last], -1: self.counts.get(last - 1, 0)}
            self.began = empty_at - 2 * limit.period_ns
        self.period = limit.period_ns

    def _now(self, limit, now):
        """The number of the window, and what of it has elapsed."""
        self._follow(limit)
        now = max(now, self.began + max(self.counts, default=0) * limit.period_ns)
        return divmod(now - self.began, limit.period_ns)

    def level(self, limit, now):
        window, elapsed = self._now(limit, now)
        former = Fraction(limit.period_ns - elapsed, limit.period_ns)
        return self.counts.get(window - 1, 0) * former + self.counts.get(window, 0)

    def empty_at(self, limit, now):
        return self.began + (max(self.counts) + 2) * limit.period_ns

    def fits_at(self, limit, cost, now):
        """Within a window the level falls evenly, and not at all between two: so look at each of them."""
        window, elapsed = self._now(limit, now)
        while True:
            former, current = self.counts.get(window - 1, 0), self.counts.get(window, 0)
            if current + cost <= limit.capacity:
                counted = (limit.capacity - current - cost) * limit.period_ns
                needed = math.ceil(limit.period_ns - counted / former) if former else 0
                if needed < limit.period_ns:
                    return self.began + window * limit.period_ns + max(elapsed, needed)
            window, elapsed = window + 1, 0

    def charge(self, limit, cost, now):
        if self.level(limit, now) == 0:
            since = self.began if not self.counts else 0
            self.__init__(max(now, since))
            self.period = limit.period_ns
        window, _ = self._now(limit, now)
        self.counts[window] = self.counts.get(window, 0) + cost

    def give_back(self, limit, cost, now):
        window, _ = self._now(limit, now)
        for number in (window, window - 1):
            some = min(cost, self.counts.get(number, 0))
            self.counts[number] = self.counts.get(number, 0) - some
            cost -= some
        self.counts = {number: count for number, count in self.counts.items()
                       if count > 0 and number >= window - 1}
        if not self.counts:
            self.__init__(now)


class Window(Counter):
    """What was let through, and when. A reading before the last of it, or before a reset, counts as that one. When
    the numbers change, nothing stays longer than it would have before: `until`."""

    def __init__(self, since=0):
        self.events = []  # (instant, cost), in order
        self.since = since
        self.until = since

    def now(self, now):
        return max(now, self.since)

    def left(self, limit, now):
        """What has not left yet: when it does, and its cost."""
        leaving = [(min(at + limit.period_ns, self.until), cost) for at, cost in self.events]
        return [(leaves, cost) for leaves, cost in leaving if leaves > self.now(now)]

    def level(self, limit, now):
        return sum((cost for _, cost in self.left(limit, now)), Fraction(0))

    def empty_at(self, limit, now):
        return max(leaves for leaves, _ in self.left(limit, now))

    def fits_at(self, limit, cost, now):
        room = limit.capacity - self.level(limit, now)
        for leaves, some in self.left(limit, now):
            room += some
            if room >= cost:
                return leaves
        raise AssertionError("it never fits")

    def charge(self, limit, cost, now):
        if not self.left(limit, now):
            self.events = []
        self.since = self.now(now)
        self.until = self.since + limit.period_ns
        self.events.append((self.since, cost))

    def refund(self, limit, cost, now):
        """A window takes nothing back."""
        return Answer("error", math.floor(limit.capacity), 0, None, -1, Fraction(0))

    def reset(self, limit, now):
        """What has left, too: under a longer period it would count again."""
        live = self.level(limit, now) > 0
        if self.events:
            self.__init__(now)
        return self._answer(limit, "allowed", now, live=live)


BUCKETS = {"stepped": Stepped, "fixed": Fixed, "sliding": Sliding, "window": Window}


def bucket_of(limit):
    """A new bucket for a limit of this kind."""
    return BUCKETS.get(limit.kind, Bucket)()
