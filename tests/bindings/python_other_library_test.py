# SPDX-License-Identifier: Apache-2.0
"""The Python package with a library of another version, which returns undefined codes.

    python_other_library_test.py LIBRARY
"""

import os
import subprocess
import sys
import unittest

CODE = -99
MESSAGE = "flux: capacitor empty"
library = os.path.abspath(sys.argv.pop(1))

CALLS = f"""
import cep
prof = cep.Profiler("output")
prof.step(0)
with prof.region("forward"):
    pass
for call in (
    lambda: prof.set_meta(dp=0),
    lambda: prof.counter("loss", 1.0),
    lambda: prof.mark("checkpoint"),
    lambda: prof.add_span("forward", 0, 1),
    lambda: prof.stats,
    lambda: prof.flush(0),
    lambda: prof.close(0),
):
    try:
        call()
    except cep.Error as error:
        assert (error.code, error.message) == ({CODE}, {MESSAGE!r}), error
    else:
        raise AssertionError("no error")
"""

FAILING_OPEN = f"""
import cep
try:
    cep.Profiler("output")
except cep.Error as error:
    assert (error.code, error.message) == ({CODE}, {MESSAGE!r}), error
else:
    raise AssertionError("no error")
"""


def run(text, **variables):
    environment = {**os.environ, "CEP_LIBRARY": library, **variables}
    return subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True)


class OtherLibrary(unittest.TestCase):
    def test_an_unknown_code_from_any_call_is_an_error_that_keeps_it(self):
        process = run(CALLS)
        self.assertEqual(process.returncode, 0, process.stderr)

    def test_an_unknown_code_from_open_is_an_error_that_keeps_it(self):
        process = run(FAILING_OPEN, TEST_CEP_OPEN_FAILS="1")
        self.assertEqual(process.returncode, 0, process.stderr)

    def test_a_library_of_another_minor_version_is_refused_at_import(self):
        process = run("import cep", TEST_CEP_VERSION="0.99.0")
        self.assertEqual(process.returncode, 1)
        self.assertRegex(process.stderr, r"is libcep 0\.99\.0; this package needs 0\.\d\.x")


if __name__ == "__main__":
    unittest.main()
