# SPDX-License-Identifier: Apache-2.0
"""A phase of the trainer that hooks begin and end."""

from __future__ import annotations

from ctypes import c_void_p
from typing import Optional

from .._ffi import Span
from .._region import Region

Begun = tuple[Span, c_void_p]


class NotFinished(Exception):
    """The ``error`` of a row whose phase began and has no end that was seen, because the code in it raised."""


class Phase:
    """The open spans of one region, at most one for each key (a thread, or None for the whole process).

    Thread-safe as long as two threads do not share a key.
    """

    __slots__ = ("_region", "_begun")

    def __init__(self, region: Region) -> None:
        self._region = region
        self._begun: dict[Optional[int], Begun] = {}

    def __bool__(self) -> bool:
        """Whether any span is open."""
        return bool(self._begun)

    def is_open(self, key: Optional[int]) -> bool:
        return key in self._begun

    def begin(self, key: Optional[int]) -> None:
        """Begins a span on the current stream. A span of the key that is still open ends as NotFinished."""
        self.end(key, NotFinished)
        self._begun[key] = self._region._begin()

    def end(self, key: Optional[int], error: Optional[type[BaseException]] = None) -> None:
        """Ends the key's span, if there is one, on the stream on which it began."""
        begun = self._begun.pop(key, None)
        if begun is not None:
            self._region._end(*begun, error)

    def abandon(self) -> None:
        """Ends all open spans as NotFinished."""
        for key in list(self._begun):
            self.end(key, NotFinished)
