# SPDX-License-Identifier: Apache-2.0
"""Each script of tests is one of the build's tests. Else it would never run, and nobody would notice.

usage: registered_test.py BUILD_DIRECTORY
"""

import json
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def main():
    build = Path(sys.argv[1])
    registered = json.loads((build / "meson-info" / "intro-tests.json").read_text())
    arguments = {(build / argument).resolve() for test in registered for argument in test["cmd"]}
    scripts = {path for pattern in ("test_*.py", "*_test.py") for path in TESTS.rglob(pattern)}
    missing = sorted(scripts - arguments)
    for path in missing:
        print(f"{path}: no test of the build runs it")
    return 1 if missing else 0


sys.exit(main())
