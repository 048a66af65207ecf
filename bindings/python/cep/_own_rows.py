# SPDX-License-Identifier: Apache-2.0
"""Reads a process's own rows back from its rank file, while that grows, on a background thread."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import BinaryIO, Iterator, NamedTuple, Optional

READ_LIMIT_BYTES = 256 * 1024
_LINES_AT_ONCE = 50
_PAUSE_S = 0.001


class OwnSpan(NamedTuple):
    """A span of this process that is in its file."""

    name: str
    step: int
    kind: str
    duration_ms: float
    start_ns: int = 0
    """As UNIX time; 0 in files without starts."""


class OwnRows:
    """Reads the whole lines that were appended to a rank file since the last read, not those of an earlier attempt. If more was
    appended than a limit, only the newest part is read.

    Pauses now and then, so that the trainer's thread gets the GIL. Not thread-safe.
    """

    def __init__(self, path: Path, limit_bytes: Optional[int] = READ_LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._offset_bytes = path.stat().st_size if path.exists() else 0

    def read(self) -> Iterator[OwnSpan]:
        """Yields the new spans. Spans with an error and rows of other types are left out. Yields nothing if the file
        cannot be read."""
        with contextlib.suppress(OSError):
            yield from filter(None, map(_span_of, self.lines()))

    def lines(self) -> Iterator[bytes]:
        """Yields the new lines with their line ends. An incomplete last line is left for the next read.

        Raises:
            OSError: The file cannot be read.
        """
        with open(self._path, "rb") as file:
            self._skip_excess(file)
            file.seek(self._offset_bytes)
            for count, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                self._offset_bytes += len(line)
                yield line
                if count % _LINES_AT_ONCE == 0:
                    time.sleep(_PAUSE_S)

    def _skip_excess(self, file: BinaryIO) -> None:
        """Moves on to the first whole line within the limit."""
        size_bytes = file.seek(0, 2)
        if self._limit_bytes is None or size_bytes - self._offset_bytes <= self._limit_bytes:
            return
        self._offset_bytes = file.seek(size_bytes - self._limit_bytes) + len(file.readline())


def _span_of(line: bytes) -> Optional[OwnSpan]:
    try:
        row = json.loads(line)
        if "type" in row or "error" in row:
            return None
        return OwnSpan(row["name"], row["step"], row.get("kind", "other"), row["duration_ms"], row.get("start_ns", 0))
    except (ValueError, KeyError, TypeError):
        return None
