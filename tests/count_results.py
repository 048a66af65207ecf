# SPDX-License-Identifier: Apache-2.0
"""Reads what `meson test` logged in build directories, shows what failed or was skipped, and counts.

    count_results.py BUILD_DIRECTORY...

The last line is `N passed, N failed, N skipped`, where each is a program or a file of tests; the line before says how
many cases were skipped inside those that passed. Exits 1 if anything failed, did not build, or if there was nothing.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

PASSED = ("OK", "EXPECTEDFAIL")
SKIPPED = ("SKIP",)
SHOWN_LINES = 60

PYTEST_SKIP = re.compile(r"SKIPPED \[(\d+)\] .+?:\d+: (.*)")
TAP_SKIP = re.compile(r"ok \d+.*# SKIP\b *(.*)", re.IGNORECASE)
# The reason is in the line before; without its time, the name is one of the list at the end.
GOOGLETEST_SKIP = re.compile(r"\[  SKIPPED \] .*\(\d+ ms\)")


def results(directory):
    """The tests of one build; one that failed in their place where it left no log."""
    log = Path(directory) / "meson-logs" / "testlog.json"
    try:
        found = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        found = []
    return found or [{"name": "the build", "result": "FAIL", "stdout": "No tests were run."}]


def skipped_cases(output):
    """How many cases of one test were skipped, by the reason."""
    reasons = Counter()
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for before, line in zip(["", *lines], lines):
        if match := PYTEST_SKIP.match(line):
            reasons[match[2]] += int(match[1])
        elif match := TAP_SKIP.match(line):
            reasons[match[1]] += 1
        elif GOOGLETEST_SKIP.match(line):
            reasons[before] += 1
    return reasons


def show(directory, test):
    print(f"-- {directory}: {test['name']}: {test['result']}")
    for stream in ("stdout", "stderr"):
        for line in test.get(stream, "").splitlines()[-SHOWN_LINES:]:
            print(f"   {line}")


def show_cases(directory, test):
    """A line for each reason; returns how many cases there were."""
    reasons = skipped_cases(test.get("stdout", ""))
    for reason, count in reasons.items():
        print(f"-- {directory}: {test['name']}: {count} skipped: {reason or 'no reason given'}")
    return sum(reasons.values())


def main(directories):
    passed = failed = skipped = cases = 0
    for directory in directories:
        for test in results(directory):
            if test["result"] in PASSED:
                passed += 1
                cases += show_cases(directory, test)
            elif test["result"] in SKIPPED:
                skipped += 1
                # The reasons are enough; a test without any, such as a plain program, shows what it printed.
                if not show_cases(directory, test):
                    show(directory, test)
            else:
                failed += 1
                show(directory, test)
    if cases:
        print(f"-- {cases} cases were skipped inside tests that passed")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
