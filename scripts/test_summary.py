"""Counts what ctest and pytest have reported as JUnit XML, and lists skips and failures.

    test_summary.py RESULTS_FOLDER ALLOWED_SKIPS

RESULTS_FOLDER/broken names, a line each, what ended before it could report. ALLOWED_SKIPS has a
shell pattern of test names per line, and after a `#` the reason. Where CI is set, a skip that no
pattern names is a failure. The last line is the count; the exit code is 0 if nothing failed.
"""

import fnmatch
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def read_results(path):
    """Yields (name, outcome, reason) of each test in one JUnit file."""
    runner, _, preset = path.stem.partition("-")
    for case in ElementTree.parse(path).iter("testcase"):
        name = case.get("name")
        if runner == "pytest":
            name = f"{case.get('classname')}::{name}"
        name = f"{preset}: {name}"
        failure = case.find("failure")
        if failure is None:
            failure = case.find("error")
        skipped = case.find("skipped")
        if failure is not None:
            yield name, "failed", first_line(failure.get("message"))
        elif skipped is not None:
            yield name, "skipped", skip_reason(case, skipped)
        elif case.get("status", "run") in ("run", "passed"):
            yield name, "passed", ""
        else:
            yield name, "failed", case.get("status")


def first_line(text):
    lines = (text or "").strip().splitlines()
    return lines[0] if lines else ""


def skip_reason(case, skipped):
    """pytest says why in the message; a C test says it in its last line of output."""
    message = skipped.get("message") or ""
    if "SKIP_RETURN_CODE" not in message:
        return message
    output = (case.findtext("system-out") or "").strip().splitlines()
    return output[-1] if output else "(no reason given)"


def read_patterns(path):
    lines = path.read_text().splitlines() if path.exists() else []
    patterns = [line.partition("#")[0].strip() for line in lines]
    return [pattern for pattern in patterns if pattern]


def main():
    folder, allowed = Path(sys.argv[1]), read_patterns(Path(sys.argv[2]))
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for path in sorted(folder.glob("*.xml")):
        for name, outcome, reason in read_results(path):
            counts[outcome] += 1
            if outcome != "passed":
                print(f"{outcome}: {name}: {reason}")
            short = name.partition(": ")[2]
            if outcome == "skipped" and os.environ.get("CI"):
                if not any(fnmatch.fnmatch(short, pattern) for pattern in allowed):
                    print(f"failed: {name}: {sys.argv[2]} does not name this skip")
                    counts["failed"] += 1
    broken = folder / "broken"
    for line in broken.read_text().splitlines() if broken.exists() else []:
        print(f"failed: {line}")
        counts["failed"] += 1
    line = f"{counts['passed']} passed, {counts['failed']} failed"
    if counts["skipped"]:
        line += f", {counts['skipped']} skipped"
    print(line)
    (folder / "summary").write_text(line + "\n")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
