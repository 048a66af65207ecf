# SPDX-License-Identifier: Apache-2.0
"""Runs one pytest file; status 77 (skipped, for Meson) where pytest or NumPy is missing, or each test was skipped."""

import sys

SKIPPED = 77

try:
    import numpy  # noqa: F401
    import pytest
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(SKIPPED)


class Outcomes:
    """Counts what came of the tests."""

    def __init__(self):
        self.counts = {"passed": 0, "skipped": 0}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.skipped:
            self.counts[report.outcome] = self.counts.get(report.outcome, 0) + 1


outcomes = Outcomes()
status = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[outcomes])
nothing_ran = status == 0 and outcomes.counts["passed"] == 0 and outcomes.counts["skipped"] > 0
sys.exit(SKIPPED if nothing_ran else status)
