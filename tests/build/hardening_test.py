# SPDX-License-Identifier: Apache-2.0
"""The library and the command are built with what makes a memory error hard to exploit.

    hardening_test.py --sanitize NAME --optimization LEVEL FILE...
"""

import argparse
import re
import shutil
import subprocess
import sys

SKIPPED_STATUS = 77  # what Meson takes for a skipped test


def readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], check=True, capture_output=True, text=True).stdout


def missing(path, fortified):
    """What a file lacks, in words."""
    headers = readelf(path, "-l", "-h")
    dynamic = readelf(path, "-d")
    symbols = readelf(path, "--dyn-syms")
    if "GNU_RELRO" not in headers:
        yield "RELRO: no GNU_RELRO segment"
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW|\(BIND_NOW\)", dynamic):
        yield "BIND_NOW: symbols are bound lazily"
    stack = re.search(r"GNU_STACK\s+(?:0x\w+\s+){5}(\S+)", headers)
    if stack is None or "E" in stack.group(1):
        yield "GNU_STACK: the stack may be executable"
    if not re.search(r"Type:\s+DYN", headers):
        yield "PIE: the file is loaded at a fixed address"
    if re.search(r"\(TEXTREL\)", dynamic):
        yield "TEXTREL: code is written to at load time"
    if "__stack_chk_fail" not in symbols:
        yield "stack protector: no __stack_chk_fail"
    if fortified and not re.search(r"__\w+_chk\b", symbols.replace("__stack_chk_fail", "")):
        yield "FORTIFY_SOURCE: no __*_chk function"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sanitize", required=True)
    parser.add_argument("--optimization", required=True)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    if arguments.sanitize != "none":
        print("skipped: a sanitized build is not hardened")
        return SKIPPED_STATUS
    if shutil.which("readelf") is None:
        print("skipped: no readelf")
        return SKIPPED_STATUS
    fortified = arguments.optimization not in ("0", "plain")
    found = [f"{path}: {what}" for path in arguments.files for what in missing(path, fortified)]
    print("\n".join(found) or f"{len(arguments.files)} files are hardened")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
