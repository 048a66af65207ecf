# SPDX-License-Identifier: Apache-2.0
"""Reads this process's own timings back from its rank file."""

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
    start_ns: int = 0
    """As UNIX time; 0 in files without starts."""


class OwnRows:
    """Reads the spans that were appended to a rank file since the last read. For a background thread, like AddedLines.

    Args:
        path: The rank file. Rows that it holds already are skipped.
        limit_bytes: The most to read at a time. If more was appended, only the newest part is read.
    """

    def __init__(self, path: Path, limit_bytes: int = READ_LIMIT_BYTES) -> None:
        self._lines = AddedLines(path, limit_bytes)

    @property
    def skipped_bytes(self) -> int:
        """Bytes that were not read, because more than the limit was appended."""
        return self._lines.skipped_bytes

    def read(self) -> Iterator[OwnSpan]:
        """Yields the new spans. Spans with an error and rows of other types are left out. Yields nothing if the file
        cannot be read."""
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
        return OwnSpan(row["name"], row["step"], row.get("kind", "other"), row["duration_ms"], row.get("start_ns", 0))
    except (ValueError, KeyError, TypeError):
        return None
