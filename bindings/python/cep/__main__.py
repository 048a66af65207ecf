# SPDX-License-Identifier: Apache-2.0
"""The cep command, as ``python -m cep`` and as the console script that a wheel installs."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Replaces this process by the command, with the same arguments, streams and exit status.

    ``cep run`` needs Python and not the command, and then this is the right Python for it.
    """
    if sys.argv[1:2] == ["run"]:
        sys.argv[0:2] = ["cep run"]
        importlib.import_module(f"{__package__ or 'cep'}.run").main()
    command = importlib.import_module(f"{__package__ or 'cep'}._command").command_path()
    if command is None:
        sys.exit("cep: the package carries no command, and there is none on PATH")
    os.execv(command, ["cep", *sys.argv[1:]])


if __name__ == "__main__":
    main()
