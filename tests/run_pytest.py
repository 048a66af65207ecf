# SPDX-License-Identifier: Apache-2.0
"""Runs files of pytest in one process, and prints which tests were skipped and why.

    run_pytest.py [--needs MODULE]... FILE... [OPTION OF PYTEST]...

Exits with 77 (skipped, for Meson) where pytest or a module is missing, or where every test was skipped.
"""

import argparse
import gc
import importlib
import os
import sys

SKIPPED_STATUS = 77


class Outcomes:
    """A plugin of pytest that counts passed and skipped tests. A file that is skipped as a whole counts as one."""

    def __init__(self):
        self.counts = {"passed": 0, "skipped": 0}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.skipped:
            self.counts[report.outcome] = self.counts.get(report.outcome, 0) + 1

    def pytest_collectreport(self, report):
        if report.skipped:
            self.counts["skipped"] += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--needs", action="append", default=[], metavar="MODULE")
    options, arguments = parser.parse_known_args()
    sys.path.append(os.path.join(os.path.dirname(__file__), "engine"))  # jobs and rows for all tests
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # of what else is installed: no test needs one
    try:
        pytest = importlib.import_module("pytest")
        for module in options.needs:
            importlib.import_module(module)
    except ImportError as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return SKIPPED_STATUS
    outcomes = Outcomes()
    status = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", *arguments], plugins=[outcomes])
    none_failed = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    gc.freeze()  # at the end nothing is searched for garbage
    all_skipped = none_failed and outcomes.counts["skipped"] > 0 and outcomes.counts["passed"] == 0
    return SKIPPED_STATUS if all_skipped else int(status)


if __name__ == "__main__":
    sys.exit(main())
