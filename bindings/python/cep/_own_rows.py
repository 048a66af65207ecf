# SPDX-License-Identifier: Apache-2.0
"""Threads beside the trainer's, which asks them for work and never waits for them; and what they read: this process's
own rows, from its rank file while that grows."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional

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
            size_bytes = file.seek(0, 2)
            if self._limit_bytes is not None and size_bytes - self._offset_bytes > self._limit_bytes:
                # On to the first whole line within the limit.
                self._offset_bytes = file.seek(size_bytes - self._limit_bytes) + len(file.readline())
            file.seek(self._offset_bytes)
            for count, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                self._offset_bytes += len(line)
                yield line
                if count % _LINES_AT_ONCE == 0:
                    time.sleep(_PAUSE_S)


def _span_of(line: bytes) -> Optional[OwnSpan]:
    try:
        row = json.loads(line)
        if "type" in row or "error" in row:
            return None
        return OwnSpan(row["name"], row["step"], row.get("kind", "other"), row["duration_ms"], row.get("start_ns", 0))
    except (ValueError, KeyError, TypeError):
        return None


_STOP = object()


class Background:
    """A daemon thread that calls a function with each request, one after another, and another function at last. They
    raise nothing. Some requests may wait for those before them."""

    def __init__(
        self, name: str, act: Callable[[Any], object], most_waiting: int, at_end: Callable[[], object] = lambda: None
    ) -> None:
        self._act, self._at_end = act, at_end
        self._requests: queue.Queue[Any] = queue.Queue(most_waiting)
        self.is_ending = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def ask(self, request: Any = None) -> bool:
        """Makes a request. Returns whether there was room for it."""
        try:
            self._requests.put_nowait(request)
        except queue.Full:
            return False
        return True

    def end(self) -> None:
        """Has the thread end once it has done what it was asked for. Calling it again does nothing."""
        self.is_ending = True
        with contextlib.suppress(queue.Full):  # then it ends by itself, once it has emptied the queue
            self._requests.put_nowait(_STOP)

    def _run(self) -> None:
        for request in iter(self._requests.get, _STOP):
            self._act(request)
            if self.is_ending and self._requests.empty():
                break
        self._at_end()
