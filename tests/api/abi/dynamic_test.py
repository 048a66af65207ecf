# SPDX-License-Identifier: Apache-2.0
"""Checks the library's soname, and that it needs only libc, libm, the loader and cJSON at run time."""

import argparse
import os
import re
import subprocess
import sys

SKIPPED = 77
ALLOWED = re.compile(r"^(libc\.so\.6|libm\.so\.6|libcjson\.so\.1|ld-linux[\w.-]*\.so\.\d+)$")


def entries(listing: str, tag: str) -> list[str]:
    return re.findall(rf"\({tag}\).*?\[(.*?)\]", listing)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--sanitized", action="store_true", help="sanitizers need libraries of their own")
    arguments = parser.parse_args()
    try:
        command = ["readelf", "-dW", arguments.library]
        environment = os.environ | {"LC_ALL": "C"}
        listing = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    except FileNotFoundError:
        print("skipped: readelf is missing")
        return SKIPPED
    problems = []
    if entries(listing, "SONAME") != ["libcep.so.0"]:
        problems.append(f"soname is {entries(listing, 'SONAME')}, expected libcep.so.0")
    needed = entries(listing, "NEEDED")
    if not arguments.sanitized:
        problems += [f"needs {name}" for name in needed if not ALLOWED.match(name)]
    print("\n".join(problems) or f"needs {', '.join(needed)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
