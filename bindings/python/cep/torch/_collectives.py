# SPDX-License-Identifier: Apache-2.0
"""instrument_collectives(): has each call of the functions of torch.distributed be a row.

While a profiler records collectives, functions of the extension module stand before those of NCCL in the table of
imports of libtorch_cuda.so. A span's events are on NCCL's own stream: it begins when that stream has come to the call,
and ends behind the call, or behind the group that NCCL launches at once. A function of torch.distributed announces its
call of NCCL, which is on the same thread. DDP's buckets are known by the communicator of the model's group.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import sys
import threading
import time
import weakref
from typing import Any, Callable, Mapping, Optional, Sequence

from .._binding import native, need_hooks
from .._errors import tell_mistake, warn
from .._life import Removable, Removal, patch, undo_all
from .._native import AsyncSpan, CollectiveCalls, NcclCalls, is_inside, turn_codes
from .._profiler import Profiler
from ._operations import BATCH, MESSAGE, Codes, Function, Group, Groups, Keywords, Operation
from ._operations import available_functions, codes_of, resolve_group
from ._pytorch import ProcessGroup, dist, distributed_is_initialized, is_compiling, note_failure, torch

_world: Any = getattr(torch.distributed.distributed_c10d, "_world", None) if dist.is_available() else None
_WAITS = ("wait", "synchronize", "block_current_stream")
Error = Optional[type[BaseException]]


class Waits:
    """Ends the spans of gloo's messages where the trainer has waited for their Works, which have no future that would
    tell. Thread-safe."""

    def __init__(self) -> None:
        self._ends: weakref.WeakKeyDictionary[Any, Callable[[Error], None]] = weakref.WeakKeyDictionary()  # by Work
        self._removals: list[Removal] = []
        self._lock = threading.RLock()

    def end_after(self, works: Sequence[Any], end: Callable[[Error], None]) -> None:
        """Calls `end` when the trainer has waited for the last of them. Keeps it as long as the Works live."""
        errors: list[Error] = []
        count = len(works)  # what ends the span keeps no Work

        def end_one(error: Error) -> None:
            errors.append(error)
            if len(errors) == count:
                end(next((each for each in errors if each is not None), None))

        with self._lock:
            if not self._removals:
                work_type = torch.distributed.Work
                self._removals += [patch(work_type, name, self._waiting) for name in _WAITS if hasattr(work_type, name)]
            self._ends.update((work, end_one) for work in works)

    def rest(self, _: bool = False) -> bool:
        """Makes waits PyTorch's own again, unless one is still to end a span."""
        with self._lock:
            if not self._ends:
                undo_all(self._removals)
        return False

    def _waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            error: Error = None
            try:
                return original(work, *args, **kwargs)
            except BaseException as raised:
                error = type(raised)
                raise
            finally:
                end = self._ends.pop(work, None)
                if end is not None:
                    end(error)

        return wait


waits = Waits()


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
        self.nccl: Optional[NcclCalls] = None
        """NCCL's calls. None: they are not seen, or not timed."""
        self._holds = 0
        self._stop: Removal = lambda: None
        self._lock = threading.RLock()
        # Not empty while calls are only collected, to run as one later.
        coalescing = getattr(_world, "pg_coalesce_state", {})
        super().__init__(profiler, self.groups.known, coalescing, _world)

    def keep_nccl(self) -> None:
        """Times NCCL's calls, until release_nccl() is called."""
        with self._lock:
            self._holds += 1
            if self._holds > 1 or not dist.is_nccl_available():
                return
            try:
                calls = NcclCalls(self.profiler.region("all_reduce", kind="comm"))
                if calls.hold():
                    self.nccl, self._stop = calls, self.profiler._turn_with_steps(calls.turn)
            except Exception as error:  # there is no room for regions
                note_failure(error)

    def release_nccl(self) -> None:
        with self._lock:
            self._holds -= 1
            if self._holds == 0 and self.nccl is not None:
                self._stop()
                self.nccl.release()
                self.nccl = None

    def tell_of_unseen(self) -> None:
        tell_mistake(
            self.profiler.rank, "unseen NCCL",
            "PyTorch's calls of NCCL are not seen: asynchronous collectives and DDP's all-reduces have no rows, and others are timed "
            "on the current stream",
        )  # fmt: skip

    def _tell_if_unseen(self, function: Function, given: Keywords) -> None:
        """No call of NCCL was seen. There is nothing to see of one that moves nothing."""
        group = resolve_group(given.get("group"))
        if group is not None and self.groups.find(group).size > 1 and function.size(given, 1)[0]:
            self.tell_of_unseen()

    def _end_after_wait(self, work: Any, span: AsyncSpan) -> None:
        waits.end_after(work if isinstance(work, list) else [work], span.fail)
        self.profiler._listen(waits.rest)

    def _find(self, function: Function, given: Keywords) -> Optional[tuple[Optional[int], str, Optional[int], bool]]:
        """What run() does not find by itself of a call: its bytes, the name of its group, its index in that, and whether NCCL
        runs it. None: it gets no row."""
        found = None
        with contextlib.suppress(Exception):  # the call itself raises what is wrong with its arguments
            found = self._group_and_index(function.operation, given)
        if found is None:
            return None
        group, coll = found
        size, on_device = function.size(given, group.size)
        return size, group.name, coll, group.on_device and on_device is not False

    def _group_and_index(self, operation: Operation, given: Keywords) -> Optional[tuple[Group, Optional[int]]]:
        """The group of a call and its index in the group. None if the call gets no row: this rank is not in the group,
        or the sender is not known yet. Raises if the arguments are invalid."""
        if operation.shape == BATCH:
            return self._batch_and_index(given["p2p_op_list"])
        group = resolve_group(given.get("group"))
        if group is None:
            return None
        known = self._pair(operation, given, group) if operation.shape == MESSAGE else self.groups.find(group)
        return None if known is None else (known, known.indices.take(self.profiler._step))

    def _batch_and_index(self, messages: Any) -> Optional[tuple[Group, Optional[int]]]:
        """A batch with one other rank is the same batch there, as in pipelines: its index is the number of messages
        between the two before it, in both directions. Ranks share no batch with several others, and no index."""
        group = resolve_group(messages[0].group)
        if group is None:
            return None
        peers = {message.peer for message in messages}
        if len(peers) > 1:
            return self.groups.find(group), None
        pair = self.groups.pair(group, "-".join(map(str, sorted([dist.get_rank(), *peers]))))
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
        return self.groups.pair(group, f"{source}>{target}")


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
                recorder.profiler._listen(self._turn)
                recorder.keep_nccl()
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
                recorder.profiler._stop_listening(self._turn)
                recorder.profiler._stop_listening(waits.rest)
                self._recorder = lambda: None
                self._detach()
                recorder.release_nccl()
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

    This covers the collectives of FSDP and FSDP2, messages (send, irecv, batch_isend_irecv) and barriers. It does not
    cover calls from C++ (for DDP's own all-reduces see instrument()), functional collectives (DTensor, tensor
    parallelism), compiled calls (torch.compile) and coalesced calls.

    A row is named after the operation (``all_gather`` for all_gather_into_tensor too), is of kind ``comm``, and has

    - ``bytes``: the size of the message as in nccl-tests: the output of an all_gather, the input of a reduce_scatter.
    - ``group``: "world", or a name that all ranks of the group have for it and no other group has. The group of a
      message is its two ends: "world/0>1". The group of a batch with one other rank is the two: "world/0-1".
    - ``coll``: the step times 1,000,000, plus how many collectives of the group came before in the step. For a batch with
      one other rank: how many messages came before between the two. Batches with several others have none.

    A span of NCCL's is on the stream that PyTorch gives it, from when that reaches the call to when the call's work is
    done. One of gloo's is on the host clock, from the call to its return, or with async_op to the completion of its
    future; of isend, irecv and batches to the trainer's wait.

    Never waits for the device or for a future. Where PyTorch's calls of NCCL are not seen, a message tells what has no
    rows. The functions stay the same objects, whose code is another on recorded steps. Of two open profilers the newest
    records the collectives, and a warning tells of it. All ranks have to call this in the same step, because counting
    begins here.

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


# ---- The exit of the interpreter

_EXIT_TIMEOUT_S = 0.5  # some collectives never end
_INTERVAL_S = 0.001


def _foreign_thread_runs() -> bool:
    """Whether a thread that Python did not start runs Python code, such as that of a callback being freed."""
    started = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    started.add(threading.get_ident())
    return any(thread not in started for thread in sys._current_frames())


@atexit.register
def _wait_for_callbacks() -> None:
    """A thread that calls or frees a Python object while the interpreter exits is ended there. If it is a C++ thread,
    as those of gloo are, the process ends with it: "terminate called without an active exception". So the exit waits
    until the callbacks of futures are freed, and until no such thread runs Python code."""
    # Other threads have to run meanwhile, and nothing signals that a callback was freed: so this sleeps and checks. It
    # checks twice, because a thread may be between two objects that it frees.
    if native is None or not native.expected_callbacks()[0]:
        return
    deadline_s = time.monotonic() + _EXIT_TIMEOUT_S
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline_s:
        time.sleep(_INTERVAL_S)
        quiet = 0 if native.expected_callbacks()[1] > 0 or _foreign_thread_runs() else quiet + 1
