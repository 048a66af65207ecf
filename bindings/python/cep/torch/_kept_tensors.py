# SPDX-License-Identifier: Apache-2.0
"""The tensors of asynchronous collectives, kept for the trainer.

PyTorch keeps the tensors of an NCCL collective for its caller until somebody waits for the Work, and the side stream of a
profiler waits first. So they are kept here until the trainer's own wait, which frees their memory as without a profiler: in
the order of its stream. Those of a Work that nobody waits for are kept until the device is done with them.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Sequence

from .._handle import Removal, undo_all
from .._patch import patch
from ._pytorch import Tensor, torch

_MANY = 64  # in a step, before it looks whether some are free
_WAITS = ("wait", "synchronize", "block_current_stream")


def _is_idle(stream: Any) -> bool:
    """Whether all work of a stream is done. Not where the device has failed, which the trainer's own next call says."""
    try:
        return bool(stream.query())
    except Exception:
        return False


class KeptTensors:
    """Thread-safe."""

    def __init__(self) -> None:
        # By id() of the Work, or of the reference once the Work is gone: with the stream behind whose work they are free.
        self.kept: dict[int, tuple[Any, Sequence[Tensor], Any]] = {}
        self._removals: list[Removal] = []
        self._sweep_at = _MANY
        self._lock = threading.RLock()

    def keep(self, work: Any, tensors: Sequence[Tensor], stream: Any) -> None:
        """Keeps the tensors of a Work, for which a stream waits."""
        with self._lock:
            self._watch_waits()
            self.kept[id(work)] = weakref.ref(work, self._forget_work(id(work))), tensors, stream
        if len(self.kept) >= self._sweep_at:
            self.sweep()

    def sweep(self) -> None:
        """Lets go of what the device has done, also where nobody waits for it. Without any left, waits are PyTorch's own
        again."""
        if not self._removals or torch.cuda.is_current_stream_capturing():  # to ask a stream would end the capture
            return
        with self._lock:
            streams = {id(stream): stream for _, _, stream in list(self.kept.values())}
            idle = {key for key, stream in streams.items() if _is_idle(stream)}
            for key, (_, _, stream) in list(self.kept.items()):
                if id(stream) in idle:
                    self.kept.pop(key, None)
            self._sweep_at = len(self.kept) + _MANY
            if not self.kept:
                undo_all(self._removals)

    def _forget_work(self, key: int) -> Callable[[Any], None]:
        def forget(reference: Any) -> None:
            with self._lock:
                if key in self.kept and self.kept[key][0] is reference:  # another Work may have the place in memory
                    self.kept[id(reference)] = self.kept.pop(key)

        return forget

    def _watch_waits(self) -> None:
        if self._removals:
            return
        work_type = torch.distributed.Work
        self._removals += [patch(work_type, name, self._waiting) for name in _WAITS if hasattr(work_type, name)]

    def _waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(work, *args, **kwargs)
            self.kept.pop(id(work), None)
            return result

        return wait


kept_tensors = KeptTensors()
