# SPDX-License-Identifier: Apache-2.0
"""A binding with a library of another version: see other_library.cpp.

    other_library_test.py LIBRARY COMMAND...

The command is a program that makes every call. It exits with 0 if each call failed with the library's code and message. If
opening fails, it prints that code and message.
"""

import os
import subprocess
import sys
import unittest
from pathlib import Path

library = Path(sys.argv.pop(1)).resolve()
command = sys.argv[1:]
del sys.argv[1:]


def run(**variables):
    environment = {**os.environ, "CEP_LIBRARY": str(library), **variables}
    environment["LD_LIBRARY_PATH"] = f"{library.parent}:{environment.get('LD_LIBRARY_PATH', '')}"
    return subprocess.run(command, env=environment, capture_output=True, text=True)


class OtherLibrary(unittest.TestCase):
    def test_an_unknown_code_from_any_call_is_an_error_that_keeps_it(self):
        process = run()
        self.assertEqual((process.returncode, process.stdout), (0, ""), process.stderr)

    def test_an_unknown_code_from_open_is_an_error_that_keeps_it(self):
        process = run(TEST_CEP_OPEN_FAILS="1")
        self.assertEqual(process.stdout, "-99 flux: capacitor empty\n", process.stderr)

    def test_a_library_of_another_minor_version_is_refused(self):
        process = run(TEST_CEP_VERSION="0.99.0")
        self.assertRegex(process.stdout + process.stderr, r"is libcep 0\.99\.0; this (program|package) needs 0\.\d\.x")


if __name__ == "__main__":
    unittest.main()
