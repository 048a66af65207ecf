# SPDX-License-Identifier: Apache-2.0
"""instrument_collectives(): has each call of the functions of torch.distributed be a row."""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any, Callable, Mapping, Optional

from .._handle import Removable
from .._messages import warn
from .._profiler import Profiler
from . import _exit  # noqa: F401
from ._groups import Group, Groups, resolve_group
from ._hooks import AsyncSpan, CollectiveCalls, is_compiling, is_inside, need_hooks, turn_codes
from ._nccl import NcclComms
from ._operations import BATCH, MESSAGE, Arguments, Codes, Function, Keywords, Operation, available_functions, codes_of
from ._pytorch import ProcessGroup, dist, distributed_is_initialized, torch
from ._steps import add_listener, remove_listener
from ._waits import waits

_world: Any = getattr(torch.distributed.distributed_c10d, "_world", None) if dist.is_available() else None


class CommRecorder(CollectiveCalls):  # type: ignore[misc]
    """Times the collectives of one profiler. Shared by the timed functions and DDP's reductions. Its run(), in C, makes a call
    of a function of torch.distributed on a recorded step, and times it: where PyTorch calls NCCL; else as a region, or an
    asynchronous one to the end of its future.

    Thread-safe.
    """

    def __init__(self, profiler: Profiler) -> None:
        self.profiler = profiler
        self.recording = profiler._recording
        self.groups = Groups()
        self.nccl = NcclComms(profiler)
        # Not empty while calls are only collected, to run as one later.
        coalescing = getattr(_world, "pg_coalesce_state", {})
        super().__init__(profiler, self.groups.known, coalescing, _world, self.nccl)

    def _tell_if_unseen(self, function: Function, given: Keywords) -> None:
        """No call of NCCL was seen. There is nothing to see of one that moves nothing."""
        group = resolve_group(given.get("group"))
        if group is not None and self.groups.find(group).size > 1 and function.size(given, 1)[0]:
            self.nccl.tell_of_unseen()

    def _end_after_wait(self, work: Any, span: AsyncSpan) -> None:
        waits.end_after(work if isinstance(work, list) else [work], span.fail)
        add_listener(self.profiler, waits.rest)

    def _find(self, function: Function, given: Keywords) -> Optional[tuple[Optional[int], str, Optional[int], bool]]:
        """What run() does not find by itself of a call: its bytes, the name of its group, its index in that, and whether NCCL
        runs it. None: it gets no row."""
        try:
            found = self._group_and_index(function.operation, given)
        except Exception:  # the call itself raises what is wrong with its arguments
            return None
        if found is None:
            return None
        group, coll = found
        size, on_device = function.size(given, group.size)
        return size, group.name, coll, group.on_device and on_device is not False

    def _group_and_index(self, operation: Operation, given: Keywords) -> Optional[tuple[Group, Optional[int]]]:
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


def recorder_of(profiler: Profiler) -> CommRecorder:
    """The only recorder of a profiler: the timed functions and DDP's reductions share it, and so count together."""
    return profiler._part(CommRecorder)


class _TimedFunctions:
    """Times the functions of torch.distributed, once in the process, on the recorded steps of one profiler: the newest that
    holds them. On other steps those that have been called run their own code. The others, which most trainings never call,
    keep the other code until then: to change the code of all at each recorded step takes longer than a span.
    """

    def __init__(self) -> None:
        # Weak: a training that has failed, and is tried again, leaves nothing that keeps its profiler open.
        self._recorder: Callable[[], Optional[CommRecorder]] = lambda: None
        self._holds = 0
        self._codes: list[Codes] = []  # of all
        self._called: list[Codes] = []
        self._turn: Callable[[bool], bool] = functools.partial(turn_codes, self._called)
        self._lock = threading.RLock()

    def hold(self, recorder: CommRecorder) -> None:
        with self._lock:
            before = self._recorder()
            if before is not recorder:
                if before is not None:
                    warn(f"the collectives of this process are recorded in {recorder.profiler.path} from now on")
                    self._forget(before)
                if not self._codes:
                    self._codes = [codes_of(function.inner, self._timed(function)) for function in available_functions()]
                turn_codes(self._codes, True)
                self._recorder, self._holds = weakref.ref(recorder, self._detach), 0
                add_listener(recorder.profiler, self._turn)
                recorder.nccl.keep()
                recorder.profiler._at_close.append(functools.partial(self._forget, recorder))
            self._holds += 1
            self._turn(bool(recorder.recording))

    def release(self, recorder: CommRecorder) -> None:
        with self._lock:
            if self._recorder() is recorder:
                self._holds -= 1
                if self._holds == 0:
                    self._forget(recorder)

    def _forget(self, recorder: CommRecorder) -> None:
        with self._lock:
            if self._recorder() is recorder:
                remove_listener(recorder.profiler, self._turn)
                remove_listener(recorder.profiler, waits.rest)
                self._recorder = lambda: None
                self._detach()
                recorder.nccl.let_go()
                waits.rest()

    def _detach(self, _: object = None) -> None:
        turn_codes(self._codes, False)

    def _timed(self, function: Function) -> Callable[..., Any]:
        def timed_collective(given: Keywords, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return function.original(*args, **kwargs)
            recorder = self._recorder()
            if not function.was_called:
                self._note_called(function, recorder)
            if recorder is None or not recorder.recording or is_inside():
                return function.original(*args, **kwargs)
            return recorder.run(function, given, args, kwargs)

        return timed_collective

    def _note_called(self, function: Function, recorder: Optional[CommRecorder]) -> None:
        with self._lock:
            function.was_called = True
            self._called += [codes for codes in self._codes if codes[0] is function.inner]
            self._turn(recorder is not None and bool(recorder.recording))


_timed_functions = _TimedFunctions()


class InstrumentedCollectives(Removable):
    """What instrument_collectives() returns. remove(), or the end of a ``with`` block, restores the functions, unless
    another handle still holds them."""


def instrument_collectives(
    profiler: Profiler, *, names: Optional[Mapping[ProcessGroup, str]] = None
) -> InstrumentedCollectives:
    """Times each collective of torch.distributed on recorded steps. On other steps a function runs its own code, from its second
    call on.

    That is all_reduce, broadcast, reduce, all_gather, all_gather_into_tensor, reduce_scatter, reduce_scatter_tensor (since
    PyTorch 2.13 also all_gather_single and reduce_scatter_single), all_to_all, all_to_all_single, gather, scatter, barrier,
    send, recv, isend, irecv and batch_isend_irecv. This covers the collectives of FSDP and FSDP2. It does not cover calls from C++ (for
    DDP's own all-reduces see instrument()), functional collectives (DTensor, tensor parallelism), compiled calls
    (torch.compile) and coalesced calls.

    A row is named after the operation (``all_gather`` for all_gather_into_tensor too), is of kind ``comm``, and has

    - ``bytes``: the size of the message as in nccl-tests: the output of an all_gather, the input of a reduce_scatter.
    - ``group``: "world", or a name that all ranks of the group have for it and no other group has. The group of a
      message is its two ends: "world/0>1". The group of a batch with one other rank is the two: "world/0-1".
    - ``coll``: the step times 1,000,000, plus how many collectives of the group came before in the step. For a batch with
      one other rank: how many messages came before between the two. Batches with several others have none.

    A span is timed so that the spans of one (group, coll) can be split into waiting and transfer:

    - NCCL: on the stream that PyTorch gives it, from when that reaches the call, whose inputs are then ready and whose
      predecessors are done, to when the call's work is done, no matter when the trainer waits for it.
    - gloo: on the host clock, from the call to its return, or with async_op to the completion of its future; of isend, irecv
      and batches to the trainer's wait.

    Never waits for the device or for a future. Where PyTorch's calls of NCCL are not seen, a message tells what has no rows.

    The functions stay the same objects, whose code is another on recorded steps: so every reference to one follows,
    whenever it was taken, and what torch.compile has made of a call stays valid. Of two open profilers the newest records
    the collectives, and a warning tells of it.

    All ranks have to call this in the same step, because counting begins here.

    Args:
        profiler: The profiler.
        names: Names of your process groups, the same on all ranks. A row's group is the name and the group's ranks:
            {dp_group: "dp"} gives "dp:0-3".

    Returns:
        A handle with ``remove()``, and a context manager that calls it. If the profiler is off or there is no process
        group, nothing is changed.

    Raises:
        ImportError: As instrument() does.

    Thread-safe.
    """
    if not profiler.enabled or not distributed_is_initialized():
        return InstrumentedCollectives()
    need_hooks()
    recorder = recorder_of(profiler)
    for group, name in (names or {}).items():
        recorder.groups.set_name(group, name)
    _timed_functions.hold(recorder)
    return InstrumentedCollectives([functools.partial(_timed_functions.release, recorder)])
