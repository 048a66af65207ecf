# SPDX-License-Identifier: Apache-2.0
"""Ends the spans of gloo's messages where the trainer has waited for their Works, which have no future that would tell."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Optional, Sequence

from .._handle import Removal, patch, undo_all
from ._pytorch import torch

_WAITS = ("wait", "synchronize", "block_current_stream")


class Unmeasured(Exception):
    """The ``error`` of a row whose duration means nothing, because the end of the operation cannot be observed."""


Error = Optional[type[BaseException]]
End = Callable[[Error], None]


class Waits:
    """Thread-safe."""

    def __init__(self) -> None:
        self._ends: weakref.WeakKeyDictionary[Any, End] = weakref.WeakKeyDictionary()  # by Work
        self._removals: list[Removal] = []
        self._lock = threading.RLock()

    def end_after(self, works: Sequence[Any], end: End) -> None:
        """Calls `end` when the trainer has waited for the last of them. Keeps it as long as the Works live."""
        errors: list[Error] = []
        count = len(works)  # what ends the span keeps no Work

        def end_one(error: Error) -> None:
            errors.append(error)
            if len(errors) == count:
                end(next((each for each in errors if each is not None), None))

        with self._lock:
            if not self._removals:
                work_type = torch.distributed.Work
                self._removals += [patch(work_type, name, self._waiting) for name in _WAITS if hasattr(work_type, name)]
            self._ends.update((work, end_one) for work in works)

    def rest(self, _: bool = False) -> bool:
        """Makes waits PyTorch's own again, unless one is still to end a span."""
        with self._lock:
            if not self._ends:
                undo_all(self._removals)
        return False

    def _end(self, work: Any, error: Error) -> None:
        end = self._ends.pop(work, None)
        if end is not None:
            end(error)

    def _waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(work, *args, **kwargs)
            except Exception as error:
                self._end(work, type(error))
                raise
            self._end(work, None)
            return result

        return wait


waits = Waits()
