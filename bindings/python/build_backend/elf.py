# SPDX-License-Identifier: Apache-2.0
"""What programs and shared libraries need at run time: which libraries, and which versions of their symbols."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Iterable

# Parts of the C library: every Linux with this C library has them, and they cannot come from elsewhere.
C_LIBRARY = re.compile(r"(libc|libm|libdl|libpthread|librt|libutil|libresolv|ld-linux[-\w]*|linux-vdso)\.so")

MACHINES = {62: "x86_64", 183: "aarch64"}  # EM_X86_64, EM_AARCH64


def _readelf(*arguments: str) -> str:
    result = subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, env={"LC_ALL": "C"})
    if result.returncode != 0:
        raise SystemExit(f"cep: readelf {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def needed(path: Path) -> list[str]:
    """The libraries that a file itself names as needed."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", _readelf("-d", str(path)))


def _resolved(path: Path) -> dict[str, str]:
    """The paths at which the loader finds the libraries that a file needs, with those that these need in turn."""
    result = subprocess.run(["ldd", str(path)], capture_output=True, text=True, env={"LC_ALL": "C"})
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", result.stdout, re.MULTILINE))


def bundle_libraries(path: Path, folder: Path) -> None:
    """Copies every library that a file needs, except the C library's, to the folder where the file looks for them."""
    found = _resolved(path)
    for name in sorted({*needed(path), *found}):
        if C_LIBRARY.match(name):
            continue
        if name not in found:
            raise SystemExit(f"cep: {path.name} needs {name}, which is not installed")
        if not (folder / name).exists():
            shutil.copy(found[name], folder / name)


def glibc_version(path: Path) -> tuple[int, int]:
    """The newest version of the GNU C library that the symbols in a file need."""
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", _readelf("-V", str(path)))
    return max(((int(major), int(minor)) for major, minor in versions), default=(2, 5))


def machine(path: Path) -> str:
    """The machine that a file is for, which a cross compiler chooses."""
    with open(path, "rb") as file:
        header = file.read(20)
    number = int.from_bytes(header[18:20], "little" if header[5] == 1 else "big")  # e_machine
    return MACHINES.get(number, platform.machine())


def platform_tag(files: Iterable[Path]) -> str:
    """The wheel's platform: manylinux with the oldest GNU C library that has all symbols that the files need."""
    paths = list(files)
    (architecture,) = {machine(path) for path in paths}
    major, minor = max(glibc_version(path) for path in paths)
    return f"manylinux_{major}_{minor}_{architecture}"


def too_new(path: Path, limit: tuple[int, int]) -> list[str]:
    """The symbols that a file needs of a C library newer than the limit, or of a shared C++ runtime."""
    symbols = re.findall(r"\bUND +(\S+)@((?:GLIBC|GLIBCXX|CXXABI)_\S+)", _readelf("--dyn-syms", str(path)))
    found = []
    for symbol, version in symbols:
        numbers = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
        if numbers is None or (int(numbers[1]), int(numbers[2])) > limit:
            found.append(f"{symbol}@{version}")
    return sorted(found)
