# SPDX-License-Identifier: Apache-2.0
"""What the processes under `cep run` tell the launcher: lines of JSON, a file for each process, in a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator

VARIABLE = "CEP_RUN_RECORDS"
"""The environment variable that names the folder. Where it is set, processes are instrumented."""


def tell(what: str, **facts: Any) -> bool:
    """Adds a record of this process. Returns whether the launcher can see it: the folder is not on other hosts."""
    folder = os.environ.get(VARIABLE, "")
    try:
        with open(Path(folder) / f"{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"what": what, **facts}) + "\n")
        return True
    except OSError:
        return False


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """All records in a folder. A line that was cut off with its process is left out."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue
