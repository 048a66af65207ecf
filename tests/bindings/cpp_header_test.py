# SPDX-License-Identifier: Apache-2.0
"""cep.hpp compiles alone and without a warning, in each language that it supports, with each installed compiler."""

import shutil
import subprocess
import sys

WARNINGS = "-Wall -Wextra -pedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror".split()


def main():
    include = sys.argv[1]
    compilers = [name for name in ("g++", "clang++") if shutil.which(name)]
    failed = 0
    for compiler in compilers:
        for standard in ("c++17", "c++20"):
            command = [compiler, f"-std={standard}", *WARNINGS, "-I", include, "-fsyntax-only", "-xc++", "-"]
            result = subprocess.run(command, input="#include <cep/cep.hpp>\n", text=True)
            failed += result.returncode != 0
            print(f"{compiler} {standard}: {'failed' if result.returncode else 'no warning'}")
    return 1 if failed or not compilers else 0


if __name__ == "__main__":
    sys.exit(main())
