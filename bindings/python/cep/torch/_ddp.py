# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's all-reduces, through its communication hook."""

from __future__ import annotations

from typing import Any, Callable, Optional

from .._profiler import Profiler
from ._collectives import CommRecorder, nested, recorder_of
from ._comm_span import AsyncSpan, Description
from ._groups import resolved
from ._lent import Lent
from ._pytorch import Future, Module, ProcessGroup, Tensor, dist, tensor_bytes

Hook = Callable[[Any, Any], Future]


def _first(future: Future) -> Tensor:
    return future.value()[0]


def _average(group: Any, bucket: Any) -> Future:
    """What DDP does without a hook: the gradients over the number of ranks, then their sum over the ranks."""
    group = resolved(group)
    # The inverse as a factor, and no division, as DDP has it: the same to the last bit.
    tensor = bucket.buffer().mul_(1.0 / group.size())
    # Not dist.all_reduce: what that checks takes longer than the call.
    # On a GPU, the result is there at once for whoever goes on with it.
    return group.allreduce([tensor]).get_future().then(_first if tensor.is_cuda else Lent(_first))


class _TimedHook:
    """A communication hook with each bucket's reduction timed. Thread-safe: the autograd engine's threads call it."""

    def __init__(self, recorder: CommRecorder, inner: Hook, group: Optional[ProcessGroup], name: str) -> None:
        self._recorder = recorder
        self._inner = inner
        self._group = group
        self._name = name

    def run(self, state: Any, bucket: Any) -> Future:
        recorder = self._recorder
        process_group = resolved(state if isinstance(state, dist.ProcessGroup) else self._group)
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

        model.register_comm_hook(None, cep.torch.ddp_comm_hook(prof))  # where there is none
        model.register_comm_hook(state, cep.torch.ddp_comm_hook(prof, powerSGD_hook))  # around another

    A row is as those of instrument_collectives(), with which it shares the counting of ``coll``; ``bytes`` are the
    bucket's. On a GPU it is from where the bucket's gradients are ready, and the bucket before it is reduced, to where
    this one is.

    Any hook in Python costs some 50 µs of the autograd thread for each bucket, and this one 100 µs more on recorded
    steps: nothing to speak of where the device is what a step is short of (0.4 % of a step of 33 ms with 24 buckets), but
    much where the host is. There, use larger buckets (``bucket_cap_mb``), or none of this: ``collectives=False`` of
    instrument().

    Args:
        prof: The profiler.
        inner: The hook that does the reduction. None: what DDP does without a hook, with its results.
        group: The model's process group, if that is not the state that the hook is registered with. None: the default
            one.
        name: The rows' name.

    Returns:
        The hook. Its state is handed on to inner; without inner, it is the process group or None.

    Thread-safe. Never waits for the device.
    """
    timed = _TimedHook(recorder_of(prof), inner or _average, group, name)

    def cep_timed_hook(state, bucket):  # type: ignore[no-untyped-def]  # DDP compares a hook's annotations, as objects
        return timed.run(state, bucket)

    return cep_timed_hook


def instrument_ddp(model: Module, prof: Profiler, *, name: str = "all_reduce") -> None:
    """Registers ddp_comm_hook() with a DistributedDataParallel model.

    The gradients stay the same to the last bit; with ``gradient_as_bucket_view`` and gradients that are kept over steps
    (``zero_grad(set_to_none=False)``), where DDP divides instead, to the last but one.

    DDP takes one hook for life: there is no removing it. Where the profiler is off, none is registered.

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
