# SPDX-License-Identifier: Apache-2.0
"""Reads what `meson test` logged in build directories, shows what failed, and counts.

    count_results.py BUILD_DIRECTORY...

The last line is `N passed, N failed, N skipped`. Exits 1 if anything failed, did not build, or if there was nothing.
"""

import json
import sys
from pathlib import Path

PASSED = ("OK", "EXPECTEDFAIL")
SKIPPED = ("SKIP",)
SHOWN_LINES = 60


def results(directory):
    """The tests of one build; one that failed in their place where it left no log."""
    log = Path(directory) / "meson-logs" / "testlog.json"
    try:
        found = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        found = []
    return found or [{"name": "the build", "result": "FAIL", "stdout": "No tests were run."}]


def show(directory, test):
    print(f"-- {directory}: {test['name']}: {test['result']}")
    for stream in ("stdout", "stderr"):
        for line in test.get(stream, "").splitlines()[-SHOWN_LINES:]:
            print(f"   {line}")


def main(directories):
    passed = failed = skipped = 0
    for directory in directories:
        for test in results(directory):
            if test["result"] in PASSED:
                passed += 1
            elif test["result"] in SKIPPED:
                skipped += 1
                show(directory, test)
            else:
                failed += 1
                show(directory, test)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
