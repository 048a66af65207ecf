# SPDX-License-Identifier: Apache-2.0
"""Handles: what a call hands out for as long as what it began is to last."""

from __future__ import annotations

from types import TracebackType
from typing import Callable, Iterable, Optional, TypeVar

Self = TypeVar("Self", bound="Handle")
Removal = Callable[[], object]
"""Takes off again what was put on."""


def take_off(removals: list[Removal]) -> None:
    """Takes everything off, the last put on first, and empties the list."""
    while removals:
        removals.pop()()


class Handle:
    """A context manager: the end of a ``with`` block is the end of what the handle stands for."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        error: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._end()

    def _end(self) -> None:
        raise NotImplementedError


class Removable(Handle):
    """A handle on what was put on, which remove() or the end of a ``with`` block takes off again."""

    def __init__(self, removals: Iterable[Removal] = ()) -> None:
        self._removals = list(removals)

    def remove(self) -> None:
        """Takes everything off again. Calling it again does nothing."""
        take_off(self._removals)

    def _end(self) -> None:
        self.remove()
