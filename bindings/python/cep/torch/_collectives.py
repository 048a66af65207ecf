# SPDX-License-Identifier: Apache-2.0
"""instrument_collectives(): wraps the functions of torch.distributed, so that each call is a row."""

from __future__ import annotations

import functools
import sys
import threading
from types import ModuleType
from typing import Any, Callable, Mapping, Optional

from .._handle import Removable
from .._profiler import Profiler
from .._streams import HOST
from ._comm_span import AsyncSpan, Description, SideStreams, future_of
from ._groups import Group, Groups, resolve_group
from ._operations import BATCH, MESSAGE, Arguments, Call, Function, Keywords, available_functions
from ._pytorch import ProcessGroup, dist, distributed_is_initialized, torch

_is_compiling: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_dynamo_compiling", lambda: False)
_c10d: Any = torch.distributed.distributed_c10d if dist.is_available() else None


class _Nested(threading.local):
    """Whether this thread is inside a wrapped function. PyTorch's functions call each other, and only the outermost
    call is a row."""

    inside = False


nested = _Nested()


class CommRecorder:
    """Counts and times the collectives of one profiler. Shared by the wrapped functions and DDP's hook.

    Thread-safe.
    """

    def __init__(self, profiler: Profiler) -> None:
        self.profiler = profiler
        self.recording = profiler._recording
        self.groups = Groups()
        self.streams = SideStreams()
        self._unmeasurable: set[str] = set()

    def run(self, function: Function, args: Arguments, kwargs: Keywords) -> Any:
        """Makes a call of a function of torch.distributed. Counts it, and times it if the step is recorded."""
        nested.inside = True
        try:
            found = self._count(function, args, kwargs)
            if found is None or not self.recording or _is_coalescing():
                return function.original(*args, **kwargs)
            return self._timed(Call(function, args, kwargs), *found)
        finally:
            nested.inside = False

    def _count(
        self, function: Function, args: Arguments, kwargs: Keywords
    ) -> Optional[tuple[Group, Optional[int]]]:
        """The group of a call and its index in the group. None if the call gets no row: this rank is not in the group,
        the sender is not known yet, or the arguments are invalid."""
        try:
            shape = function.operation.shape
            if shape == BATCH:  # each rank has messages of its own in a batch, so ranks share no index
                group = resolve_group(function.argument("p2p_op_list", args, kwargs)[0].group)
                return None if group is None else (self.groups.find(group), None)
            group = resolve_group(function.argument("group", args, kwargs))
            if group is None:
                return None
            if shape == MESSAGE:
                found = self._pair(Call(function, args, kwargs), group)
                return None if found is None else (found, next(found.counts))
            known = self.groups.find(group)
            return known, next(known.counts)
        except Exception:  # the call itself raises what is wrong with its arguments
            return None

    def _pair(self, call: Call, group: ProcessGroup) -> Optional[Group]:
        """The two ends of a message as a group. None if the sender is not known yet."""
        parameter, rank = call.operation.peer, dist.get_rank()
        peer = call.argument(parameter)
        if peer is None:
            peer = call.argument(f"group_{parameter}")
            if peer is None:
                return None
            peer = dist.get_global_rank(group, peer)
        source, target = (rank, peer) if call.operation.name == "send" else (peer, rank)
        return self.groups.between(group, source, target)

    def _timed(self, call: Call, group: Group, coll: Optional[int]) -> Any:
        try:
            tensors = call.tensors()
            device = _device_of(tensors, group)
            what = Description(call.operation.name, call.bytes(tensors, group.size), group, coll)
        except Exception:  # tensors of unknown size
            return call.run()
        if call.is_async():
            return self._timed_async(call, what, device)
        # If NCCL runs on a stream of its own, the current stream waits for it, and so does the end of the span.
        with what.region(self.profiler, HOST if device is None else None):
            return call.run()

    def _timed_async(self, call: Call, what: Description, device: Optional[int]) -> Any:
        if not self._is_measurable(call, device):
            return call.run()
        span = AsyncSpan(self.profiler, self.streams, what, device)
        try:
            work = call.run()
        except BaseException as error:
            span.fail(type(error))
            raise
        future = future_of(work[-1] if isinstance(work, list) and work else work)
        if future is None:
            self._unmeasurable.add(call.operation.function)
        span.end_with(future)
        return work

    def _is_measurable(self, call: Call, device: Optional[int]) -> bool:
        if device is None:
            return call.operation.shape != BATCH  # gloo's messages have no future
        return call.operation.function not in self._unmeasurable and not torch.cuda.is_current_stream_capturing()


def _is_coalescing() -> bool:
    """Whether calls are only collected now, to run as one later."""
    return bool(getattr(getattr(_c10d, "_world", None), "pg_coalesce_state", None))


def _device_of(tensors: list[Any], group: Group) -> Optional[int]:
    """The index of the CUDA device that a collective runs on; None: on the host."""
    if tensors:
        device = tensors[0].device
        return int(device.index) if device.type == "cuda" else None
    return int(torch.cuda.current_device()) if group.on_device else None


def recorder_of(profiler: Profiler) -> CommRecorder:
    """The only recorder of a profiler: the wrapped functions and DDP's hook share it, and so count together."""
    recorder = profiler.__dict__.get("_comm_recorder")
    if recorder is None:
        recorder = profiler.__dict__.setdefault("_comm_recorder", CommRecorder(profiler))
    return recorder  # type: ignore[no-any-return]


class _WrappedFunctions:
    """Wraps the functions of torch.distributed, once in the process, while any handle holds them."""

    def __init__(self) -> None:
        self.recorder: Optional[CommRecorder] = None
        self._holders = 0
        self._replaced: list[tuple[ModuleType, str, Any, Any]] = []
        self._lock = threading.Lock()

    def hold(self, recorder: CommRecorder) -> None:
        with self._lock:
            current = self.recorder
            if current is not None and current is not recorder and current.profiler.enabled:
                raise RuntimeError("cep: another open profiler records the collectives of this process")
            self.recorder = recorder
            self._holders += 1
            if not self._replaced:
                self._replace_everywhere()

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self.recorder = None
                self._restore()

    def _replace_everywhere(self) -> None:
        """Also in modules that have the functions by name, after ``from torch.distributed import all_reduce``."""
        wrappers: dict[int, tuple[Any, Any]] = {}
        for function in available_functions():
            wrappers[id(function.original)] = (function.original, self._wrapper(function))
        for module in list(sys.modules.values()):
            for name, value in list(getattr(module, "__dict__", {}).items()):
                original, wrapper = wrappers.get(id(value), (None, None))
                if original is value and wrapper is not None:
                    setattr(module, name, wrapper)
                    self._replaced.append((module, name, original, wrapper))

    def _restore(self) -> None:
        for module, name, original, wrapper in self._replaced:
            if module.__dict__.get(name) is wrapper:
                setattr(module, name, original)
        self._replaced.clear()

    def _wrapper(self, function: Function) -> Callable[..., Any]:
        original = function.original

        @functools.wraps(original)
        def timed_collective(*args: Any, **kwargs: Any) -> Any:
            recorder = self.recorder
            # torch.compile can trace the original.
            if recorder is None or nested.inside or _is_compiling():
                return original(*args, **kwargs)
            return recorder.run(function, args, kwargs)

        return timed_collective


_wrapped_functions = _WrappedFunctions()


class InstrumentedCollectives(Removable):
    """What instrument_collectives() returns. remove(), or the end of a ``with`` block, restores the functions, unless
    another handle still holds them."""

    def __init__(self, recorder: Optional[CommRecorder]) -> None:
        super().__init__()
        if recorder is not None:
            _wrapped_functions.hold(recorder)
            self._removals.append(_wrapped_functions.release)


def instrument_collectives(
    prof: Profiler, *, names: Optional[Mapping[ProcessGroup, str]] = None
) -> InstrumentedCollectives:
    """Times each collective of torch.distributed on recorded steps, and counts it on all steps.

    Wraps all_reduce, broadcast, reduce, all_gather, all_gather_into_tensor, reduce_scatter, reduce_scatter_tensor,
    all_to_all, all_to_all_single, gather, scatter, barrier, send, recv and batch_isend_irecv in every module that has
    them by name. This covers the collectives of FSDP and FSDP2. It does not cover calls from C++ (DDP's own
    all-reduces: see instrument_ddp()), functional collectives (DTensor, tensor parallelism), compiled calls
    (torch.compile), coalesced calls, and isend and irecv outside a batch.

    A row is named after the operation (``all_gather`` for all_gather_into_tensor too), is of kind ``comm``, and has

    - ``bytes``: the size of the message as in nccl-tests: the output of an all_gather, the input of a reduce_scatter.
    - ``group``: "world", or a name that all ranks of the group have for it and no other group has. The group of a
      message is its two ends: "world/0>1".
    - ``coll``: the index of the call within the group, counted on every step since instrument_collectives().

    A span is timed so that the spans of one (group, coll) can be split into waiting and transfer:

    - NCCL without async_op: on the current stream, from when it reaches the call to when the result is ready.
    - NCCL with async_op: from when the current stream reaches the call and the group's previous asynchronous collective
      is done, to when the result is ready, no matter when the trainer waits for it. The events are on a stream of the
      profiler's own. The trainer's streams and its Work are not touched.
    - gloo: on the host clock, from the call to its return, or with async_op to the completion of its future.

    Never waits for the device or for a future. On a step that is not recorded, a wrapped call costs 1 to 2 µs more.

    All ranks have to call this at the same place in the program, because counting begins here.

    Args:
        prof: The profiler.
        names: Names of your process groups, the same on all ranks. A row's group is the name and the group's ranks:
            {dp_group: "dp"} gives "dp:0-3".

    Returns:
        A handle with ``remove()``, and a context manager that calls it. If the profiler is off or there is no process
        group, nothing is wrapped.

    Raises:
        RuntimeError: Another open profiler records the collectives of this process.

    Thread-safe.
    """
    if not prof.enabled or not distributed_is_initialized():
        return InstrumentedCollectives(None)
    recorder = recorder_of(prof)
    for group, name in (names or {}).items():
        recorder.groups.set_name(group, name)
    return InstrumentedCollectives(recorder)
