# SPDX-License-Identifier: Apache-2.0
"""Handles: objects that calls return, and that end what the call began."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Callable, Iterable, Optional, TypeVar

Self = TypeVar("Self", bound="Handle")
Removal = Callable[[], object]
"""Undoes one change: removes a hook, or puts a replaced function back."""


def undo_all(removals: list[Removal]) -> None:
    """Undoes all changes, the last one first, and empties the list. One that fails is a warning, and keeps no other."""
    while removals:
        try:
            removals.pop()()
        except Exception as error:
            warnings.warn(f"cep: not undone: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=3)


class Handle:
    """A context manager that calls _end() at the end of its ``with`` block."""

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
    """A handle on hooks and replaced functions. remove(), or the end of a ``with`` block, removes them."""

    def __init__(self, removals: Iterable[Removal] = ()) -> None:
        self._removals = list(removals)

    def remove(self) -> None:
        """Removes everything. Calling it again does nothing."""
        undo_all(self._removals)

    def _end(self) -> None:
        self.remove()
