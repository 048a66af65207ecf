# SPDX-License-Identifier: Apache-2.0
"""What the tests report: count_results.py over logs of each kind of test, run_pytest.py over files with skipped tests.

    test_reports_test.py [PYTHON_WITH_PYTEST]
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PYTEST_PYTHON = sys.argv.pop(1) if len(sys.argv) > 1 else None

GOOGLETEST = """
[ RUN      ] Clock.Real
../clock_test.cpp:3: Skipped
no GPU
[  SKIPPED ] Clock.Real (0 ms)
[ RUN      ] Clock.Fake
[       OK ] Clock.Fake (1 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Clock.Real
"""
TAP = "1..3\nok 1 - one\nok 2 - two # SKIP no right to mount\nnot ok 3 - three\n"
PYTEST = "s.s\nSKIPPED [2] ../test_a.py:4: no framework\nSKIPPED [1] ../test_a.py:9: could not import 'b'\n1 passed, 3 skipped\n"


class CountResults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def count(self, *tests):
        log = self.folder / "meson-logs" / "testlog.json"
        log.parent.mkdir()
        log.write_text("".join(json.dumps(dict(zip(("name", "result", "stdout"), test))) + "\n" for test in tests))
        command = [sys.executable, TESTS / "count_results.py", self.folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def test_passed_failed_and_skipped_tests_are_counted(self):
        status, lines = self.count(("a", "OK", ""), ("b", "OK", ""), ("c", "FAIL", "why"), ("d", "SKIP", "no d"))
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed, 1 skipped"))
        self.assertIn("   why", lines)
        self.assertIn("   no d", lines)

    def test_a_timeout_and_an_error_are_failures(self):
        status, lines = self.count(("a", "OK", ""), ("b", "TIMEOUT", ""), ("c", "ERROR", ""))
        self.assertEqual((status, lines[-1]), (1, "1 passed, 2 failed, 0 skipped"))

    def test_nothing_at_all_is_a_failure(self):
        self.assertEqual(self.count()[0], 1)

    def test_cases_skipped_in_a_test_that_passed_are_counted_with_their_reasons(self):
        status, lines = self.count(("g", "OK", GOOGLETEST), ("t", "OK", TAP), ("p", "OK", PYTEST))
        self.assertEqual((status, lines[-1]), (0, "3 passed, 0 failed, 0 skipped"))
        self.assertEqual(lines[-2], "-- 5 cases were skipped inside tests that passed")
        reasons = [line.split(": ", 1)[1] for line in lines[:-2]]
        self.assertEqual(
            reasons,
            [
                "g: 1 skipped: no GPU",
                "t: 1 skipped: no right to mount",
                "p: 2 skipped: no framework",
                "p: 1 skipped: could not import 'b'",
            ],
        )

    def test_a_test_that_was_skipped_as_a_whole_counts_once(self):
        lines = self.count(("a", "OK", ""), ("p", "SKIP", PYTEST))[1]
        self.assertEqual(lines[-1], "1 passed, 0 failed, 1 skipped")
        # The reasons in pytest's output are repeated, but no closing line that reads as the result of all tests.
        self.assertEqual([line.split(": ", 1)[1] for line in lines[:-1]], [
            "p: 2 skipped: no framework",
            "p: 1 skipped: could not import 'b'",
        ])


@unittest.skipIf(PYTEST_PYTHON is None, "no python3 with pytest")
class RunPytest(unittest.TestCase):
    def status_and_output(self, text, *options):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "test_made_up.py"
            file.write_text("import pytest\n" + text)
            command = [PYTEST_PYTHON, "-B", TESTS / "run_pytest.py", *options, file]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    PASSES = "def test_a(): pass\n"
    SKIPS = "def test_b(): pytest.skip('not here')\n"
    FAILS = "def test_c(): assert False\n"

    def test_a_skipped_test_is_shown_with_its_reason(self):
        status, output = self.status_and_output(self.PASSES + self.SKIPS)
        self.assertEqual(status, 0)
        self.assertRegex(output, r"SKIPPED \[1\] .*: not here")

    def test_a_file_of_skipped_tests_is_skipped(self):
        self.assertEqual(self.status_and_output(self.SKIPS)[0], 77)
        self.assertEqual(self.status_and_output("pytest.importorskip('no_such_module')\n" + self.PASSES)[0], 77)
        self.assertEqual(self.status_and_output(self.PASSES, "--needs", "no_such_module")[0], 77)

    def test_a_failure_is_a_failure_whatever_else_is_skipped(self):
        self.assertEqual(self.status_and_output(self.FAILS + self.SKIPS)[0], 1)
        self.assertEqual(self.status_and_output("import no_such_module\n" + self.SKIPS)[0], 2)

    def test_a_file_without_tests_is_a_failure(self):
        self.assertEqual(self.status_and_output("")[0], 5)


if __name__ == "__main__":
    unittest.main()
