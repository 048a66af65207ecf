# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's all-reduces: which way they are timed, its communication hook, and what is exposed."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

from .._argument_order import profiler_first
from .._handle import Removal
from .._profiler import Profiler
from .._region import Region
from ._collectives import CommRecorder, nested, recorder_of
from ._comm_span import AsyncSpan
from ._ddp_reductions import time_own_reductions
from ._future_callbacks import FutureCallback
from ._groups import resolve_group
from ._hooks import Hook, inert_hook, note_failure
from ._pytorch import Future, GradBucket, Module, ProcessGroup, Tensor, dist, torch

CommHook = Callable[[Any, GradBucket], Future[Tensor]]


def _first(future: Future[list[Tensor]]) -> Tensor:
    return future.value()[0]


def _average(group: Any, bucket: GradBucket) -> tuple[Any, Future[Tensor]]:
    """Does what DDP does without a hook: divides the gradients by the number of ranks, then sums them over ranks. Returns
    the Work, and the future of its result."""
    # DDP multiplies by the inverse. So does this, for the same result to the last bit.
    tensor = bucket.buffer().mul_(1.0 / group.size())
    # The checks of dist.all_reduce() would take longer than the call itself.
    # On a GPU the future is done from the start, so its callback runs here and not on a thread of the backend.
    work = group.allreduce([tensor])
    future: Future[Any] = work.get_future()
    return work, future.then(_first) if tensor.is_cuda else future.then(FutureCallback(_first))


class _TimedHook:
    """A communication hook that times each bucket's reduction. Thread-safe: the autograd engine's threads call it."""

    def __init__(
        self, recorder: CommRecorder, inner: Optional[CommHook], group: Optional[ProcessGroup], name: str
    ) -> None:
        self._recorder = recorder
        self._inner = inner
        self._group = group
        self._name = name
        self.__name__ = self.__qualname__ = "cep_timed_hook"  # DDP looks at both

    def __call__(self, state, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations that are strings
        if not self._recorder.recording:
            return self._reduce(state, bucket)[1]
        try:
            span = self._begin(state, bucket)
        except Exception as error:
            note_failure(error)
            span = None
        if span is None:
            return self._reduce(state, bucket)[1]
        try:
            work, future = self._reduce(state, bucket)
        except BaseException as error:
            span.fail(type(error))
            raise
        try:
            span.end_with(future) if work is None else span.end_with_works([work], [bucket.buffer()])
        except Exception as error:
            note_failure(error)
        return future

    def __reduce__(self) -> Any:
        return inert_hook()  # a copy of the model has a reducer of its own, without a hook

    def _group_of(self, state: Any) -> Optional[ProcessGroup]:
        return resolve_group(state if isinstance(state, dist.ProcessGroup) else self._group)

    def _begin(self, state: Any, bucket: GradBucket) -> Optional[AsyncSpan]:
        """The span of a bucket; None if it cannot be timed."""
        return self._recorder.bucket_span(self._group_of(state), bucket.buffer(), self._name)

    def _reduce(self, state: Any, bucket: GradBucket) -> tuple[Any, Future[Tensor]]:
        if self._inner is None:
            return _average(self._group_of(state), bucket)
        nested.inside = True
        try:
            return None, self._inner(state, bucket)
        finally:
            nested.inside = False


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
    """Has the all-reduces of a model timed, if it is a DistributedDataParallel: each bucket by itself, or the part of
    all that is exposed.

    Args:
        model: Any module.
        profiler: The profiler.
        buckets: Whether to time each bucket. If the model has a communication hook, the exposed part is timed.
    """
    model = getattr(model, "_orig_mod", model)  # in torch.compile's module
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return TimedReduction()
    if buckets:
        removal = time_own_reductions(model, recorder_of(profiler))
        if removal is not None:
            return TimedReduction(removals=(removal,))
    return TimedReduction(DDPGradientSync(profiler, model))


def ddp_comm_hook(
    profiler: Profiler,
    inner: Optional[CommHook] = None,
    *,
    group: Optional[ProcessGroup] = None,
    name: str = "all_reduce",
) -> CommHook:
    """A DDP communication hook that times each bucket's reduction on recorded steps::

        model.register_comm_hook(None, cep.torch.ddp_comm_hook(prof))  # instead of no hook
        model.register_comm_hook(state, cep.torch.ddp_comm_hook(prof, powerSGD_hook))  # around another hook

    The rows are like those of instrument_collectives(), and both count ``coll`` together; ``bytes`` is the size of the
    bucket. On a GPU a span lasts from when the bucket's gradients are ready and the previous bucket is reduced, to when
    this bucket is reduced.

    Any hook in Python costs the autograd thread some 50 µs for each bucket, and this one 100 µs more on recorded steps.
    That is little in a device-bound step (0.4 % of 33 ms with 24 buckets) and much in a host-bound one. For a
    host-bound step use larger buckets (``bucket_cap_mb``), or no hook: instrument() times the buckets without one.

    Args:
        profiler: The profiler.
        inner: The hook that does the reduction. None: does what DDP does without a hook, with the same results.
        group: The model's process group, if the hook is not registered with the group as its state. None: the default
            group.
        name: The rows' name.

    Returns:
        The hook. Its state is passed on to inner. Without inner, its state is the process group or None.

    Thread-safe. Never waits for the device.
    """
    return _TimedHook(recorder_of(profiler), inner, group, name)


@profiler_first
def instrument_ddp(profiler: Profiler, model: Module, *, name: str = "all_reduce") -> None:
    """Registers ddp_comm_hook() with a DistributedDataParallel model. instrument() times the buckets without a hook.

    The gradients stay the same to the last bit, with one exception: with ``gradient_as_bucket_view`` and gradients that
    are kept over steps (``zero_grad(set_to_none=False)``) DDP divides instead of multiplying, and the last bit may
    differ.

    DDP takes one hook and cannot remove it. If the profiler is off, none is registered.

    Args:
        profiler: The profiler.
        model: The DistributedDataParallel.
        name: The rows' name.

    Raises:
        RuntimeError: The model has a communication hook already.
    """
    if not profiler.enabled:
        return
    ddp: Any = model
    ddp.register_comm_hook(None, ddp_comm_hook(profiler, group=ddp.process_group, name=name))
