# SPDX-License-Identifier: Apache-2.0
"""Where the cep command is, and what it says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Optional


def command_path() -> Optional[str]:
    """The path of the command in this package, else of the first on PATH, else None."""
    folders = [Path(__file__).resolve().parent / "bin", *map(Path, os.get_exec_path())]
    for path in (folder / "cep" for folder in folders):
        if path.is_file() and os.access(path, os.X_OK):
            with open(path, "rb") as file:  # the command itself, not a script that calls this module
                if file.read(4) == b"\x7fELF":
                    return str(path)
    return None


def find_command() -> str:
    """The path of the cep command. Raises a FileNotFoundError if there is none."""
    asked = os.environ.get("CEP_COMMAND")
    command = asked or command_path()
    if command is None:
        raise FileNotFoundError("no cep command: the package carries none, and none is on PATH or in CEP_COMMAND")
    if asked and not os.access(asked, os.X_OK):
        raise FileNotFoundError(f"CEP_COMMAND: no program: {asked}")
    return command


def run_command(*arguments: str, timeout_s: Optional[float] = None) -> subprocess.CompletedProcess[str]:
    """Runs the command, and keeps what it prints. Raises a FileNotFoundError if there is none."""
    return subprocess.run(
        [find_command(), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
