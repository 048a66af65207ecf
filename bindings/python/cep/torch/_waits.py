# SPDX-License-Identifier: Apache-2.0
"""Ends the spans of gloo's messages where the trainer has waited for their Works, which have no future that would tell."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, NamedTuple, Optional, Sequence

from .._handle import Removal, patch, undo_all
from ._pytorch import torch

_WAITS = ("wait", "synchronize", "block_current_stream")


class Unmeasured(Exception):
    """The ``error`` of a row whose duration means nothing, because the end of the operation cannot be observed."""


Error = Optional[type[BaseException]]
End = Callable[[Error], None]


class _Awaited(NamedTuple):
    work: Any
    """A weak reference."""
    end: End


class Waits:
    """Thread-safe."""

    def __init__(self) -> None:
        self._awaited: dict[int, _Awaited] = {}  # by id() of the Work
        self.removals: list[Removal] = []  # public: a step asks it before it calls anything
        self._lock = threading.RLock()

    def end_after(self, works: Sequence[Any], end: End) -> None:
        """Calls `end` when the trainer has waited for the last of them; with an error where it never can."""
        errors: list[Error] = []
        count = len(works)  # what ends the span keeps no Work

        def end_one(error: Error) -> None:
            errors.append(error)
            if len(errors) == count:
                end(next((each for each in errors if each is not None), None))

        with self._lock:
            if not self.removals:
                work_type = torch.distributed.Work
                self.removals += [patch(work_type, name, self._waiting) for name in _WAITS if hasattr(work_type, name)]
            for work in works:
                self._awaited[id(work)] = _Awaited(weakref.ref(work, self._forgetting(id(work))), end_one)

    def rest(self) -> None:
        """Makes waits PyTorch's own again, unless one is still to end a span."""
        with self._lock:
            if not self._awaited:
                undo_all(self.removals)

    def _end(self, key: int, error: Error) -> None:
        awaited = self._awaited.pop(key, None)
        if awaited is not None:
            awaited.end(error)

    def _forgetting(self, key: int) -> Callable[[Any], None]:
        def forget(reference: Any) -> None:
            with self._lock:
                awaited = self._awaited.get(key)
                if awaited is not None and awaited.work is reference:  # else another Work has the place in memory
                    self._end(key, Unmeasured)

        return forget

    def _waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(work, *args, **kwargs)
            except Exception as error:
                self._end(id(work), type(error))
                raise
            self._end(id(work), None)
            return result

        return wait


waits = Waits()
