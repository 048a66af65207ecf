# SPDX-License-Identifier: Apache-2.0
"""The cep command, as ``python -m cep`` and as the console script that a wheel installs."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import NoReturn, Optional


def _is_program(path: Path) -> bool:
    """Whether a file is the command itself, not a script that calls this module."""
    if not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def command_path() -> Optional[str]:
    """The path of the command in this package, else of the first on PATH, else None."""
    folders = [Path(__file__).resolve().parent / "bin", *map(Path, os.get_exec_path())]
    candidates = (folder / "cep" for folder in folders)
    return next((str(path) for path in candidates if path.is_file() and _is_program(path)), None)


def main() -> NoReturn:
    """Replaces this process by the command, with the same arguments, streams and exit status.

    ``cep run`` needs Python and not the command, and then this is the right Python for it.
    """
    if sys.argv[1:2] == ["run"]:
        sys.argv[0:2] = ["cep run"]
        importlib.import_module(f"{__package__ or 'cep'}.run").main()
    command = command_path()
    if command is None:
        sys.exit("cep: the package carries no command, and there is none on PATH")
    os.execv(command, ["cep", *sys.argv[1:]])


if __name__ == "__main__":
    main()
