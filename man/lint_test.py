# SPDX-License-Identifier: Apache-2.0
"""mandoc has no warnings about the given pages. Exits with 77 if mandoc is missing."""

import shutil
import subprocess
import sys

SKIPPED = 77


def main() -> int:
    if shutil.which("mandoc") is None:
        print("skipped: mandoc is missing")
        return SKIPPED
    lint = ["mandoc", "-T", "lint", "-W", "warning"]
    failed = [page for page in sys.argv[1:] if subprocess.run([*lint, page]).returncode != 0]
    print(f"{len(sys.argv) - 1} pages, {len(failed)} with warnings")
    return 1 if failed or len(sys.argv) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
