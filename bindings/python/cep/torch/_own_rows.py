# SPDX-License-Identifier: Apache-2.0
"""This process's own timings, read back from the end of its rank file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import BinaryIO, Iterator, NamedTuple, Optional

READ_LIMIT_BYTES = 256 * 1024
_ROWS_AT_ONCE = 50
_PAUSE_S = 0.001


class OwnSpan(NamedTuple):
    """A span of this process that is in its file."""

    name: str
    step: int
    kind: str
    duration_ms: float


class OwnRows:
    """Reads what was added to a rank file since the last time.

    For a background thread: reading does file I/O, and takes the interpreter's lock for less than a millisecond at a
    time. Not thread-safe.

    Args:
        path: The rank file. What it holds now is left out.
        limit_bytes: At most this much is read at a time; of more, the last.
    """

    def __init__(self, path: Path, limit_bytes: int = READ_LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._offset = path.stat().st_size if path.exists() else 0
        self.skipped_bytes = 0
        """Not read, as more was added than the limit."""

    def read(self) -> Iterator[OwnSpan]:
        """The spans of whole lines added since. Those that failed are left out; so is what is no span."""
        for count, line in enumerate(self._added_lines(), start=1):
            span = _span_of(line)
            if span is not None:
                yield span
            if count % _ROWS_AT_ONCE == 0:
                time.sleep(_PAUSE_S)  # gives up the interpreter's lock

    def _added_lines(self) -> list[bytes]:
        try:
            with open(self._path, "rb") as file:
                added = self._added_bytes(file)
        except OSError:
            return []
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()

    def _added_bytes(self, file: BinaryIO) -> bytes:
        size = file.seek(0, 2)
        if size - self._offset <= self._limit_bytes:
            file.seek(self._offset)
            return file.read(self._limit_bytes)
        start = size - self._limit_bytes
        file.seek(start)
        added = file.read(self._limit_bytes)
        cut = added.find(b"\n") + 1
        self.skipped_bytes += start + cut - self._offset
        self._offset = start + cut
        return added[cut:]


def _span_of(line: bytes) -> Optional[OwnSpan]:
    try:
        row = json.loads(line)
        if "type" in row or "error" in row:
            return None
        return OwnSpan(row["name"], row["step"], row.get("kind", "other"), row["duration_ms"])
    except (ValueError, KeyError, TypeError):
        return None
