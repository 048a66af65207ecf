# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's all-reduces: which way they are timed, and what is exposed of them."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from .._handle import Removal
from .._profiler import Profiler
from .._region import Region
from ._collectives import recorder_of
from ._ddp_reductions import time_own_reductions
from ._hooks import Hook
from ._pytorch import Module, torch


class DDPGradientSync:
    """The span of what is exposed of a DistributedDataParallel model's all-reduces, the wait for the slowest rank
    included. Needs no communication hook.

    It begins with the gradient of the model's first parameter, which DDP's order of buckets takes for the last to be
    ready, and ends when all buckets are reduced. The bucket of that gradient is reduced after that on all ranks, so no
    rank's span ends before the last rank's has begun.
    """

    def __init__(self, profiler: Profiler, model: Module) -> None:
        self._recorder = recorder_of(profiler)
        self._model: Any = model
        self._last: Any = next((parameter for parameter in model.parameters() if parameter.requires_grad), None)
        self._hook = Hook(lambda _: self.begin())
        self._handle: Any = None
        self._open: Optional[tuple[Region, Any, Any]] = None

    def is_due(self) -> bool:
        """Whether the next backward averages the gradients: not within no_sync()."""
        return bool(self._model.require_backward_grad_sync)

    def watch(self) -> None:
        """Call it before the backward."""
        if self._last is not None and self._handle is None:
            self._handle = self._last.register_hook(self._hook)

    def begin(self) -> None:
        """Begins the span, unless it has begun."""
        recorder, process_group = self._recorder, self._model.process_group
        if self._open is not None or not recorder.recording:
            return
        group = recorder.groups.find(process_group)
        coll = group.indices.take(recorder.profiler._step)
        region = recorder.profiler.region("gradient_sync", kind="comm", group=group.name, coll=coll)
        self._open = region, *region._begin()

    def end(self, error: Optional[type[BaseException]]) -> None:
        """Call it after the backward."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()
        opened, self._open = self._open, None
        if opened is not None:
            region, span, stream = opened
            region._end(span, stream, error)


class TimedReduction(NamedTuple):
    """What time_reduction() returns."""

    sync: Optional[DDPGradientSync] = None
    """What times the exposed part; None if the buckets are timed, or there is nothing to time."""
    removals: tuple[Removal, ...] = ()


def time_reduction(model: Any, profiler: Profiler, buckets: bool) -> TimedReduction:
    """Has the all-reduces of a model timed, if it is a DistributedDataParallel or has one in it, as the modules of
    torch.compile and Fabric have: each bucket by itself, or the part of all that is exposed.

    Args:
        model: Any module.
        profiler: The profiler.
        buckets: Whether to time each bucket. If the model has a communication hook, the exposed part is timed.
    """
    is_ddp = torch.nn.parallel.DistributedDataParallel
    model = next((module for module in model.modules() if isinstance(module, is_ddp)), None)
    if model is None:
        return TimedReduction()
    if buckets:
        removal = time_own_reductions(model, recorder_of(profiler))
        if removal is not None:
            return TimedReduction(removals=(removal,))
    return TimedReduction(DDPGradientSync(profiler, model))
