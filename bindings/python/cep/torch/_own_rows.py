# SPDX-License-Identifier: Apache-2.0
"""This process's own timings, read back from the end of its rank file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

from .._added_lines import AddedLines

READ_LIMIT_BYTES = 256 * 1024


class OwnSpan(NamedTuple):
    """A span of this process that is in its file."""

    name: str
    step: int
    kind: str
    duration_ms: float


class OwnRows:
    """The spans that were added to a rank file since the last time: for a background thread, as AddedLines.

    Args:
        path: The rank file. What it holds now is left out.
        limit_bytes: At most this much is read at a time; of more, the last.
    """

    def __init__(self, path: Path, limit_bytes: int = READ_LIMIT_BYTES) -> None:
        self._lines = AddedLines(path, limit_bytes)

    @property
    def skipped_bytes(self) -> int:
        """Not read, as more was added than the limit."""
        return self._lines.skipped_bytes

    def read(self) -> Iterator[OwnSpan]:
        """The spans of whole lines added since. Those that failed are left out; so is what is no span. A file that
        cannot be read has none."""
        try:
            for line in self._lines.read():
                span = _span_of(line)
                if span is not None:
                    yield span
        except OSError:
            return


def _span_of(line: bytes) -> Optional[OwnSpan]:
    try:
        row = json.loads(line)
        if "type" in row or "error" in row:
            return None
        return OwnSpan(row["name"], row["step"], row.get("kind", "other"), row["duration_ms"])
    except (ValueError, KeyError, TypeError):
        return None
