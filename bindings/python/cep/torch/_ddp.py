# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's all-reduces, through its communication hook."""

from __future__ import annotations

from typing import Any, Callable, Optional

from .._profiler import Profiler
from ._collectives import CommRecorder, nested, recorder_of
from ._comm_span import AsyncSpan, Description
from ._future_callbacks import FutureCallback
from ._groups import resolve_group
from ._pytorch import Future, Module, ProcessGroup, Tensor, dist, tensor_bytes

Hook = Callable[[Any, Any], Future]


def _first(future: Future) -> Tensor:
    return future.value()[0]


def _average(group: Any, bucket: Any) -> Future:
    """Does what DDP does without a hook: divides the gradients by the number of ranks, then sums them over ranks."""
    group = resolve_group(group)
    # DDP multiplies by the inverse. So does this, for the same result to the last bit.
    tensor = bucket.buffer().mul_(1.0 / group.size())
    # The checks of dist.all_reduce() would take longer than the call itself.
    # On a GPU the future is done from the start, so its callback runs here and not on a thread of the backend.
    return group.allreduce([tensor]).get_future().then(_first if tensor.is_cuda else FutureCallback(_first))


class _TimedHook:
    """A communication hook that times each bucket's reduction. Thread-safe: the autograd engine's threads call it."""

    def __init__(self, recorder: CommRecorder, inner: Hook, group: Optional[ProcessGroup], name: str) -> None:
        self._recorder = recorder
        self._inner = inner
        self._group = group
        self._name = name

    def run(self, state: Any, bucket: Any) -> Future:
        recorder = self._recorder
        process_group = resolve_group(state if isinstance(state, dist.ProcessGroup) else self._group)
        if process_group is None:
            return self._run_inner(state, bucket)
        group = recorder.groups.find(process_group)
        coll = next(group.counts)
        if not recorder.recording:
            return self._run_inner(state, bucket)
        tensor = bucket.buffer()
        what = Description(self._name, tensor_bytes(tensor) or None, group, coll)
        span = AsyncSpan(recorder.profiler, recorder.streams, what, tensor.device.index if tensor.is_cuda else None)
        try:
            future = self._run_inner(state, bucket)
        except BaseException as error:
            span.fail(type(error))
            raise
        span.end_with(future)
        return future

    def _run_inner(self, state: Any, bucket: Any) -> Future:
        nested.inside = True
        try:
            return self._inner(state, bucket)
        finally:
            nested.inside = False


def ddp_comm_hook(
    prof: Profiler,
    inner: Optional[Hook] = None,
    *,
    group: Optional[ProcessGroup] = None,
    name: str = "all_reduce",
) -> Hook:
    """A DDP communication hook that times each bucket's reduction on recorded steps::

        model.register_comm_hook(None, cep.torch.ddp_comm_hook(prof))  # instead of no hook
        model.register_comm_hook(state, cep.torch.ddp_comm_hook(prof, powerSGD_hook))  # around another hook

    The rows are like those of instrument_collectives(), and both count ``coll`` together; ``bytes`` is the size of the
    bucket. On a GPU a span lasts from when the bucket's gradients are ready and the previous bucket is reduced, to when
    this bucket is reduced.

    Any hook in Python costs the autograd thread some 50 µs for each bucket, and this one 100 µs more on recorded steps.
    That is little in a device-bound step (0.4 % of 33 ms with 24 buckets) and much in a host-bound one. For a
    host-bound step use larger buckets (``bucket_cap_mb``), or leave the hook out (``collectives=False`` of
    instrument()).

    Args:
        prof: The profiler.
        inner: The hook that does the reduction. None: does what DDP does without a hook, with the same results.
        group: The model's process group, if the hook is not registered with the group as its state. None: the default
            group.
        name: The rows' name.

    Returns:
        The hook. Its state is passed on to inner. Without inner, its state is the process group or None.

    Thread-safe. Never waits for the device.
    """
    timed = _TimedHook(recorder_of(prof), inner or _average, group, name)

    def cep_timed_hook(state, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations that are strings
        return timed.run(state, bucket)

    return cep_timed_hook


def instrument_ddp(model: Module, prof: Profiler, *, name: str = "all_reduce") -> None:
    """Registers ddp_comm_hook() with a DistributedDataParallel model.

    The gradients stay the same to the last bit, with one exception: with ``gradient_as_bucket_view`` and gradients that
    are kept over steps (``zero_grad(set_to_none=False)``) DDP divides instead of multiplying, and the last bit may
    differ.

    DDP takes one hook and cannot remove it. If the profiler is off, none is registered.

    Args:
        model: The DistributedDataParallel.
        prof: The profiler.
        name: The rows' name.

    Raises:
        RuntimeError: The model has a communication hook already.
    """
    if not prof.enabled:
        return
    group = model.process_group
    model.register_comm_hook(group, ddp_comm_hook(prof, group=group, name=name))
