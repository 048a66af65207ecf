# SPDX-License-Identifier: Apache-2.0
"""instrument_collectives(): wraps the functions of torch.distributed, so that each call is a row."""

from __future__ import annotations

import functools
import sys
import threading
from types import ModuleType
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from .._handle import Removable
from .._profiler import Profiler
from .._region import Region
from .._streams import HOST
from ._comm_span import AsyncSpan, Description, SideStreams, end_done_spans, future_of
from ._groups import Group, Groups, resolve_group
from ._hooks import is_compiling, note_failure
from ._operations import BATCH, MESSAGE, Arguments, Function, Keywords, Operation, available_functions
from ._pytorch import ProcessGroup, dist, distributed_is_initialized, tensor_bytes, torch
from ._steps import remove_listener, step_listeners

_world: Any = getattr(torch.distributed.distributed_c10d, "_world", None) if dist.is_available() else None


class _Nested(threading.local):
    """Whether this thread is inside a wrapped function. PyTorch's functions call each other, and only the outermost
    call is a row."""

    inside = False


nested = _Nested()


class CommRecorder:
    """Times the collectives of one profiler. Shared by the wrapped functions and DDP's hook.

    Thread-safe.
    """

    def __init__(self, profiler: Profiler) -> None:
        self.profiler = profiler
        self.recording = profiler._recording
        self.groups = Groups()
        self.streams = SideStreams()
        self._unmeasurable: set[Function] = set()

    def run(self, function: Function, args: Arguments, kwargs: Keywords) -> Any:
        """Makes a call of a function of torch.distributed on a recorded step, and times it."""
        nested.inside = True
        try:
            end_done_spans(self.profiler)
            given = function.given(args, kwargs)
            span = None if _is_coalescing() else self._span_of(function, given)
            if span is None:
                return function.original(*args, **kwargs)
            if isinstance(span, AsyncSpan):
                return self._run_async(function, args, kwargs, span)
            # If NCCL runs on a stream of its own, the current stream waits for it, and so does the end of the span.
            with span:
                return function.original(*args, **kwargs)
        finally:
            nested.inside = False

    def _span_of(self, function: Function, given: Keywords) -> Union[None, Region, AsyncSpan]:
        """What times a call: a region around it, or the span of an asynchronous one. None if the call gets no row."""
        try:
            found = self._find(function.operation, given)
        except Exception:  # the call itself raises what is wrong with its arguments
            return None
        if found is None:
            return None
        try:
            group, coll = found
            tensors = function.tensors(given)
            device = _device_of(tensors, group)
            name, size = function.operation.name, function.bytes(tensors, group.size)
            if not function.is_async(given):
                stream = HOST if device is None else None
                return self.profiler.region(name, kind="comm", stream=stream, bytes=size, group=group.name, coll=coll)
            if not self._is_measurable(function, device):
                return None
            return AsyncSpan(self.profiler, self.streams, Description(name, size, group, coll), device)
        except Exception as error:
            note_failure(error)
            return None

    def _find(self, operation: Operation, given: Keywords) -> Optional[tuple[Group, Optional[int]]]:
        """The group of a call and its index in the group. None if the call gets no row: this rank is not in the group,
        or the sender is not known yet. Raises if the arguments are invalid."""
        if operation.shape == BATCH:
            return self._find_batch(given["p2p_op_list"])
        group = resolve_group(given.get("group"))
        if group is None:
            return None
        known = self._pair(operation, given, group) if operation.shape == MESSAGE else self.groups.find(group)
        return None if known is None else (known, known.indices.take(self.profiler._step))

    def _find_batch(self, messages: Any) -> Optional[tuple[Group, Optional[int]]]:
        """A batch with one other rank is the same batch there, as in pipelines: its index is the number of messages
        between the two before it, in both directions. Ranks share no batch with several others, and no index."""
        group = resolve_group(messages[0].group)
        if group is None:
            return None
        peers = {message.peer for message in messages}
        if len(peers) > 1:
            return self.groups.find(group), None
        pair = self.groups.exchanging(group, dist.get_rank(), *peers)
        return pair, pair.indices.take(self.profiler._step, len(messages))

    def _pair(self, operation: Operation, given: Keywords, group: ProcessGroup) -> Optional[Group]:
        """The two ends of a message as a group. None if the sender is not known yet."""
        rank, peer = dist.get_rank(), given.get(operation.peer)
        if peer is None:
            peer = given.get(f"group_{operation.peer}")
            if peer is None:
                return None
            peer = dist.get_global_rank(group, peer)
        source, target = (rank, peer) if operation.name == "send" else (peer, rank)
        return self.groups.between(group, source, target)

    def _run_async(self, function: Function, args: Arguments, kwargs: Keywords, span: AsyncSpan) -> Any:
        try:
            work = function.original(*args, **kwargs)
        except BaseException as error:
            span.fail(type(error))
            raise
        try:
            if function.operation.shape == BATCH:
                span.end_with_batch(work, function.tensors(function.given(args, kwargs)))
                return work
            future = future_of(work)
            if future is None:
                self._unmeasurable.add(function)
            span.end_with(future)
        except Exception as error:
            note_failure(error)
        return work

    def bucket_span(self, process_group: Optional[ProcessGroup], tensor: Any, name: str) -> Optional[AsyncSpan]:
        """The span of the reduction of one of DistributedDataParallel's buckets; None if it cannot be timed."""
        if process_group is None or (tensor.is_cuda and torch.cuda.is_current_stream_capturing()):
            return None
        group = self.groups.find(process_group)
        what = Description(name, tensor_bytes(tensor) or None, group, group.indices.take(self.profiler._step))
        return AsyncSpan(self.profiler, self.streams, what, tensor.device.index if tensor.is_cuda else None)

    def _is_measurable(self, function: Function, device: Optional[int]) -> bool:
        if device is None:
            return function.operation.shape != BATCH  # gloo's messages have no future
        return function not in self._unmeasurable and not torch.cuda.is_current_stream_capturing()


def _is_coalescing() -> bool:
    """Whether calls are only collected now, to run as one later."""
    return bool(getattr(_world, "pg_coalesce_state", None))


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


class _Site(NamedTuple):
    """A module that has a function of torch.distributed by name."""

    module: ModuleType
    name: str
    original: Any
    wrapper: Any


class _WrappedFunctions:
    """Wraps the functions of torch.distributed, once in the process, on the recorded steps of the profiler that holds
    them. On other steps the originals are in place."""

    def __init__(self) -> None:
        self._recorder: Optional[CommRecorder] = None
        self._holds: dict[CommRecorder, int] = {}
        self._sites: list[_Site] = []
        self._modules_searched = 0
        self._attached = False
        self._lock = threading.RLock()

    def hold(self, recorder: CommRecorder) -> None:
        with self._lock:
            if self._holds and recorder not in self._holds:
                raise RuntimeError("cep: another open profiler records the collectives of this process")
            if recorder not in self._holds:
                step_listeners(recorder.profiler).add(self._on_step)
                recorder.profiler._at_close.append(functools.partial(self._drop, recorder))
            self._holds[recorder] = self._holds.get(recorder, 0) + 1
            self._recorder = recorder
            self._on_step()

    def release(self, recorder: CommRecorder) -> None:
        with self._lock:
            if self._holds.get(recorder, 0) > 1:
                self._holds[recorder] -= 1
            elif recorder in self._holds:
                self._forget(recorder)

    def _forget(self, recorder: CommRecorder) -> None:
        del self._holds[recorder]
        remove_listener(recorder.profiler, self._on_step)
        self._recorder = None
        self._detach()

    def _drop(self, recorder: CommRecorder) -> None:
        """Lets go of a profiler that was closed, and whose handles nobody removed."""
        with self._lock:
            if recorder in self._holds:
                self._forget(recorder)

    def _on_step(self, step: int = 0, recorded: bool = False) -> None:
        is_recording = self._recorder is not None and bool(self._recorder.recording)
        if is_recording is not self._attached:
            with self._lock:
                self._attach() if is_recording else self._detach()

    def _attach(self) -> None:
        self._attached = True
        if len(sys.modules) != self._modules_searched or any(
            vars(site.module).get(site.name) is not site.original for site in self._sites
        ):
            self._search()
        for site in self._sites:
            setattr(site.module, site.name, site.wrapper)

    def _search(self) -> None:
        """Finds the functions also in modules that have them by name, after ``from torch.distributed import
        all_reduce``."""
        known = {id(site.original): site.wrapper for site in self._sites}
        wrappers: dict[int, tuple[Any, Any]] = {}
        for function in available_functions():
            original = function.original
            wrappers[id(original)] = original, known.get(id(original)) or self._wrapper(function)
        self._sites = []
        modules = list(sys.modules.values())
        self._modules_searched = len(modules)
        for module in modules:
            for name, value in list(getattr(module, "__dict__", {}).items()):
                original, wrapper = wrappers.get(id(value), (None, None))
                if original is value and wrapper is not None:
                    self._sites.append(_Site(module, name, original, wrapper))

    def _detach(self) -> None:
        """Puts the originals back, also in modules that were imported meanwhile."""
        if not self._attached:
            return
        self._attached = False
        for site in self._sites:
            if vars(site.module).get(site.name) is site.wrapper:
                setattr(site.module, site.name, site.original)
        if len(sys.modules) != self._modules_searched:
            originals = {id(site.wrapper): site.original for site in self._sites}
            for module in list(sys.modules.values()):
                for name, value in list(getattr(module, "__dict__", {}).items()):
                    if id(value) in originals:
                        setattr(module, name, originals[id(value)])

    def _wrapper(self, function: Function) -> Callable[..., Any]:
        original = function.original

        @functools.wraps(original)
        def timed_collective(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # torch.compile can trace the original
                return original(*args, **kwargs)
            recorder = self._recorder
            if recorder is None or not recorder.recording or nested.inside:
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
            self._removals.append(functools.partial(_wrapped_functions.release, recorder))


def instrument_collectives(
    profiler: Profiler, *, names: Optional[Mapping[ProcessGroup, str]] = None
) -> InstrumentedCollectives:
    """Times each collective of torch.distributed on recorded steps. On other steps nothing is wrapped.

    Wraps all_reduce, broadcast, reduce, all_gather, all_gather_into_tensor, reduce_scatter, reduce_scatter_tensor,
    all_to_all, all_to_all_single, gather, scatter, barrier, send, recv and batch_isend_irecv in every module that has
    them by name. This covers the collectives of FSDP and FSDP2. It does not cover calls from C++ (for DDP's own
    all-reduces see instrument()), functional collectives (DTensor, tensor parallelism), compiled calls
    (torch.compile), coalesced calls, and isend and irecv outside a batch.

    A row is named after the operation (``all_gather`` for all_gather_into_tensor too), is of kind ``comm``, and has

    - ``bytes``: the size of the message as in nccl-tests: the output of an all_gather, the input of a reduce_scatter.
    - ``group``: "world", or a name that all ranks of the group have for it and no other group has. The group of a
      message is its two ends: "world/0>1". The group of a batch with one other rank is the two: "world/0-1".
    - ``coll``: the step times 1,000,000, plus how many collectives of the group came before in the step. For a batch with
      one other rank: how many messages came before between the two. Batches with several others have none.

    A span is timed so that the spans of one (group, coll) can be split into waiting and transfer:

    - NCCL without async_op: on the current stream, from when it reaches the call to when the result is ready.
    - NCCL with async_op: from when the current stream reaches the call and the group's previous asynchronous collective
      is done, to when the result is ready, no matter when the trainer waits for it. The events are on a stream of the
      profiler's own. The trainer's streams and its Work are not touched.
    - gloo: on the host clock, from the call to its return, or with async_op to the completion of its future.

    Never waits for the device or for a future.

    A name in a module follows, whenever it was imported. Another reference (an attribute of an object, a default
    argument, a partial, a local variable) keeps what it was taken from: calls through one that was taken before this
    call, or on a step that is not recorded, have no rows. One that was taken on a recorded step keeps the wrapper,
    which makes rows on recorded steps, and otherwise calls the original. Look the function up at each call instead:
    ``torch.distributed.all_reduce(tensor)``.

    All ranks have to call this in the same step, because counting begins here.

    Args:
        profiler: The profiler.
        names: Names of your process groups, the same on all ranks. A row's group is the name and the group's ranks:
            {dp_group: "dp"} gives "dp:0-3".

    Returns:
        A handle with ``remove()``, and a context manager that calls it. If the profiler is off or there is no process
        group, nothing is wrapped.

    Raises:
        RuntimeError: Another open profiler records the collectives of this process.

    Thread-safe.
    """
    if not profiler.enabled or not distributed_is_initialized():
        return InstrumentedCollectives(None)
    recorder = recorder_of(profiler)
    for group, name in (names or {}).items():
        recorder.groups.set_name(group, name)
    return InstrumentedCollectives(recorder)
