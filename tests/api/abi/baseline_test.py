# SPDX-License-Identifier: Apache-2.0
"""The library's ABI is compatible with the baseline of the last release.

To write a new baseline, from a build with debug information:

    python3 tests/api/abi/baseline_test.py --write --baseline tests/api/abi/libcep.abi \\
        --library build/lib/libcep.so --headers include/cep

Exits with 77 if libabigail's abidw and abidiff are missing, or if the library has no debug information.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
# Bits of abidiff's exit status.
ERROR, USAGE, CHANGED, INCOMPATIBLE = 1, 2, 4, 8
# The exported functions and the types of the public header, without details that differ between machines.
DUMP = [
    "abidw", "--exported-interfaces-only", "--drop-private-types", "--drop-undefined-syms", "--no-corpus-path",
    "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed",
]  # fmt: skip


def dump(library: str, headers: str, out: str) -> None:
    subprocess.run([*DUMP, "--headers-dir", headers, "--out-file", out, library], check=True)


def has_debug_information(library: str) -> bool:
    """Without it the dump has names but no types, and equals any other."""
    with open(library, "rb") as file:
        return b".debug_info" in file.read()


def structs_only_grow(report: str) -> bool:
    """Whether structs only grow at their end, which struct_size makes compatible."""
    structs = re.split(r"type size changed from (\d+) to \d+ \(in bits\)", report)
    before, sizes, changes = structs[0], structs[1::2], structs[2::2]
    inserted = [re.findall(r"at offset (\d+) \(in bits\)", change) for change in changes]
    other = re.search(r"deletion|offset changed|data member changes?|type changed from|name changed|parameter \d+ was", report)
    if not sizes or other or " at offset " in before:
        return False
    return all(
        offsets and all(int(offset) >= int(size) for offset in offsets) for size, offsets in zip(sizes, inserted)
    )


def compare(baseline: str, library: str, headers: str) -> int:
    with tempfile.TemporaryDirectory() as directory:
        current = os.path.join(directory, "current.abi")
        dump(library, headers, current)
        result = subprocess.run(["abidiff", "--harmless", baseline, current], capture_output=True, text=True)
    print(result.stdout + result.stderr)
    if result.returncode & (ERROR | USAGE):
        return 1
    # Additions are compatible. The next release adds them to the baseline.
    changed = "[C]" in result.stdout and not structs_only_grow(result.stdout)
    return 1 if result.returncode & INCOMPATIBLE or changed or "[D]" in result.stdout else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--baseline", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--headers", required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("abidw") is None or shutil.which("abidiff") is None:
        print("skipped: abidw and abidiff are missing")
        return SKIPPED
    if not has_debug_information(arguments.library):
        print("skipped: the library has no debug information")
        return SKIPPED
    if arguments.write:
        dump(arguments.library, arguments.headers, arguments.baseline)
        return 0
    return compare(arguments.baseline, arguments.library, arguments.headers)


if __name__ == "__main__":
    sys.exit(main())
