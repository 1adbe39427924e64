# SPDX-License-Identifier: MIT
"""How evenly a program lets bytes through: it reads an endless input, and whatever it writes is
stamped as it comes.

The stream is a staircase: at each arrival the bytes so far rise from `before` to `after`. Its own
rate is the slope of the line through the steps, found by least squares; its *spread* is how long the
staircase is from its lowest to its highest point beside that line, in milliseconds of stream. So a
program that lets through 100 ms' worth at a time has a spread of at least 100 ms, however right its
average is."""

import subprocess
import time


def read_stamped(command, seconds, settle_s=0.5):
    """[(when in s, bytes before, bytes after)] of what a command lets through."""
    with open("/dev/zero", "rb") as endless:
        process = subprocess.Popen([str(word) for word in command], stdin=endless,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
    steps, total = [], 0
    start = time.monotonic()
    while (now := time.monotonic()) < start + settle_s + seconds:
        some = process.stdout.read(1 << 20)
        now = time.monotonic()
        if not some:
            break
        if now >= start + settle_s:
            steps.append((now - start, total, total + len(some)))
        total += len(some)
    process.kill()
    process.wait()
    process.stdout.close()
    return steps


def slope_and_origin(points):
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    variance = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / variance
    return slope, mean_y - slope * mean_x


def spread_ms(steps):
    slope, origin = slope_and_origin([(when, (before + after) / 2) for when, before, after in steps])
    lowest = min((before - origin) / slope - when for when, before, _ in steps)
    highest = max((after - origin) / slope - when for when, _, after in steps)
    return 1000 * (highest - lowest), slope
