# SPDX-License-Identifier: Apache-2.0
"""What is done when the trainer has waited for the Work of an asynchronous call.

On a device its tensors are let go. PyTorch keeps the tensors of an NCCL collective for its caller until somebody waits for the
Work, and the side stream of a profiler waits first. So they are kept here until the trainer's own wait, which frees their memory
as without a profiler: in the order of its stream. Those of a Work that nobody waits for are kept until the device is done with
them.

On the host the span of a message ends: the Works of gloo's have no future that would tell.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, NamedTuple, Optional, Sequence

from .._handle import Removal, patch, undo_all
from ._pytorch import Tensor, torch

_MANY = 64  # in a step, before it looks whether some are free
_WAITS = ("wait", "synchronize", "block_current_stream")


class Unmeasured(Exception):
    """The ``error`` of a row whose duration means nothing, because the end of the operation cannot be observed."""


End = Callable[[Optional[type[BaseException]]], None]


class _Kept(NamedTuple):
    work: Any
    """A weak reference."""
    tensors: Sequence[Tensor]
    stream: Any
    """Behind whose work the tensors are free; None on the host."""
    end: Optional[End]


def _is_idle(stream: Any) -> bool:
    """Whether all work of a stream is done. Not where the device has failed, which the trainer's own next call says."""
    try:
        return bool(stream.query())
    except Exception:
        return False


class Waits:
    """Thread-safe."""

    def __init__(self) -> None:
        self.kept: dict[int, _Kept] = {}  # by id() of the Work, or of the reference once the Work is gone
        self.removals: list[Removal] = []  # public: a step asks it before it calls anything
        self._sweep_at = _MANY
        self._lock = threading.RLock()

    def keep(self, work: Any, tensors: Sequence[Tensor], stream: Any) -> None:
        """Keeps the tensors of a Work, for which a stream waits."""
        self._add(work, tensors, stream, None)

    def end_after(self, works: Sequence[Any], end: End) -> None:
        """Calls `end` when the trainer has waited for the last of them; with an error where it never can."""
        waited: list[Optional[type[BaseException]]] = []
        count = len(works)

        def end_one(error: Optional[type[BaseException]]) -> None:
            waited.append(error)
            if len(waited) == count:
                end(next((each for each in waited if each is not None), None))

        for work in works:
            self._add(work, (), None, end_one)

    def _add(self, work: Any, tensors: Sequence[Tensor], stream: Any, end: Optional[End]) -> None:
        with self._lock:
            self._watch()
            self.kept[id(work)] = _Kept(weakref.ref(work, self._forget_work(id(work))), tensors, stream, end)
        if len(self.kept) >= self._sweep_at:
            self.sweep()

    def sweep(self) -> bool:
        """Lets go of what the device has done, also where nobody waits for it. Without any left, waits are PyTorch's own
        again. Returns whether tensors on a device are left, for another sweep."""
        if not self.removals:
            return False
        with self._lock:
            streams = {id(kept.stream): kept.stream for kept in list(self.kept.values()) if kept.stream is not None}
            if streams and torch.cuda.is_current_stream_capturing():  # to ask a stream would end the capture
                return True
            idle = {key for key, stream in streams.items() if _is_idle(stream)}
            for key, kept in list(self.kept.items()):
                if id(kept.stream) in idle:
                    self._let_go(key, None)
            self._sweep_at = len(self.kept) + _MANY
            if not self.kept:
                undo_all(self.removals)
            return any(kept.stream is not None for kept in list(self.kept.values()))

    def _let_go(self, key: int, error: Optional[type[BaseException]]) -> None:
        kept = self.kept.pop(key, None)
        if kept is not None and kept.end is not None:
            kept.end(error)

    def _forget_work(self, key: int) -> Callable[[Any], None]:
        def forget(reference: Any) -> None:
            with self._lock:
                kept = self.kept.get(key)
                if kept is None or kept.work is not reference:  # another Work has the place in memory
                    return
                if kept.end is not None:
                    self._let_go(key, Unmeasured)
                else:
                    self.kept[id(reference)] = self.kept.pop(key)

        return forget

    def _watch(self) -> None:
        if self.removals:
            return
        work_type = torch.distributed.Work
        self.removals += [patch(work_type, name, self._waiting) for name in _WAITS if hasattr(work_type, name)]

    def _waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(work, *args, **kwargs)
            except Exception as error:
                kept = self.kept.get(id(work))
                if kept is not None and kept.end is not None:
                    self._let_go(id(work), type(error))
                raise
            self._let_go(id(work), None)
            return result

        return wait


waits = Waits()
