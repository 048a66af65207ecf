# SPDX-License-Identifier: Apache-2.0
"""A profiler that is off makes no system call that opens, makes or starts anything.

Usage: off_strace_test.py PROGRAM. Exits with 77 if strace is missing or not permitted to trace.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
FORBIDDEN = re.compile(
    r"^(?:\[pid +\d+\] |\d+ +)?(open|openat|openat2|creat|mkdir|mkdirat|clone|clone3|fork|vfork|socket|connect|pipe2?"
    r"|execve|unlink|unlinkat|rename|renameat2?|ioctl)\("
)


def traced_calls(program: str, how: str, directory: str) -> list[str]:
    """The system calls between the program's two marker writes."""
    log = os.path.join(directory, how + ".trace")
    subprocess.run(["strace", "-f", "-o", log, program, how], cwd=directory, check=True, stderr=subprocess.DEVNULL)
    with open(log, encoding="utf-8") as lines:
        calls = lines.read().splitlines()
    begin = next(i for i, call in enumerate(calls) if "TRACE BEGIN" in call)
    end = next(i for i, call in enumerate(calls) if "TRACE END" in call)
    return calls[begin + 1 : end]


def main() -> int:
    program = os.path.abspath(sys.argv[1])
    if shutil.which("strace") is None:
        print("skipped: strace is missing")
        return SKIPPED
    if subprocess.run(["strace", "-o", os.devnull, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: strace may not trace here")
        return SKIPPED
    failures = []
    with tempfile.TemporaryDirectory() as directory:
        for how in ("disabled", "unlisted"):
            calls = traced_calls(program, how, directory)
            failures += [f"{how}: {call}" for call in calls if FORBIDDEN.match(call)]
            print(f"{how}: {len(calls)} system calls")
        failures += [f"left behind: {name}" for name in os.listdir(directory) if not name.endswith(".trace")]
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
