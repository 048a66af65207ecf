# SPDX-License-Identifier: Apache-2.0
"""Reading on in a file that grows, from a background thread."""

from __future__ import annotations

import time
from pathlib import Path
from typing import BinaryIO, Iterator, Optional

_LINES_AT_ONCE = 50
_PAUSE_S = 0.001


class AddedLines:
    """The whole lines that were added to a file since the last time.

    Pauses now and then, so that the trainer's thread gets the interpreter's lock. Not thread-safe.

    Args:
        path: The file. What it holds now is left out: an earlier attempt's rows are not this one's.
        limit_bytes: At most this much is read at a time; of more, the last. None: all.
    """

    def __init__(self, path: Path, limit_bytes: Optional[int] = None) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._offset_bytes = path.stat().st_size if path.exists() else 0
        self.skipped_bytes = 0
        """Not read, as more was added than the limit."""

    def read(self) -> Iterator[bytes]:
        """The lines, each with its end. A line without an end waits for it.

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
        """Goes on to the first whole line within the limit."""
        size_bytes = file.seek(0, 2)
        if self._limit_bytes is None or size_bytes - self._offset_bytes <= self._limit_bytes:
            return
        start = file.seek(size_bytes - self._limit_bytes)
        start += len(file.readline())
        self.skipped_bytes += start - self._offset_bytes
        self._offset_bytes = start
