# SPDX-License-Identifier: Apache-2.0
"""One phase of a trainer that hooks begin and end."""

from __future__ import annotations

from ctypes import c_void_p
from typing import Optional

from .._ffi import Span
from .._region import Region

Begun = tuple[Span, c_void_p]


class NotFinished(Exception):
    """In the ``error`` of a row: the phase began and its end was never seen, as the code in it raised."""


class Phase:
    """The spans of one region that are under way, at most one for each key (a thread, or None for the whole process).

    Thread-safe as long as two threads do not share a key.
    """

    __slots__ = ("_region", "_begun")

    def __init__(self, region: Region) -> None:
        self._region = region
        self._begun: dict[Optional[int], Begun] = {}

    def __bool__(self) -> bool:
        """Whether any span is under way."""
        return bool(self._begun)

    def is_begun(self, key: Optional[int]) -> bool:
        return key in self._begun

    def begin(self, key: Optional[int]) -> None:
        """Begins a span on the current stream. One that is still under way had no end, and is marked so."""
        self.end(key, NotFinished)
        self._begun[key] = self._region._begin()

    def end(self, key: Optional[int], error: Optional[type[BaseException]] = None) -> None:
        """Ends the key's span, on the stream that it began on, if there is one."""
        begun = self._begun.pop(key, None)
        if begun is not None:
            self._region._end(*begun, error)

    def abandon(self) -> None:
        """Ends all that is under way as not finished."""
        for key in list(self._begun):
            self.end(key, NotFinished)
