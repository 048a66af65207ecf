# SPDX-License-Identifier: Apache-2.0
"""Collectives, timed where PyTorch calls NCCL.

While a profiler records collectives, functions of the extension module stand before ncclAllReduce, ncclAllGather and
ncclReduceScatter in the table of imports of libtorch_cuda.so. They take no lock of the interpreter's and cost a few
microseconds; on steps that are not recorded, nothing. The events that they record are on NCCL's own stream: a span begins when
that stream has come to the call, whose inputs are then ready and whose predecessors done, and ends behind it.

That needs a group's communicator. A call that is timed in another way tells which it is: what NCCL was called with. So a group's
first call is timed in the other way. It goes on where no call of NCCL is seen: with another backend, or where PyTorch has NCCL in
it or calls it by another way.
"""

from __future__ import annotations

import threading
import weakref
from typing import Callable, Optional

from .._handle import Removal
from .._profiler import Profiler
from ._groups import Group
from ._hooks import NcclCalls, note_failure
from ._pytorch import ProcessGroup, dist
from ._steps import turn_with_steps

_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")  # as NcclCalls takes their regions


class NcclComms:
    """NCCL's communicators of the process groups of one profiler. Thread-safe."""

    def __init__(self, profiler: Profiler, find: Callable[[ProcessGroup], Group]) -> None:
        self._profiler, self._find = profiler, find
        self.known: weakref.WeakKeyDictionary[ProcessGroup, int] = weakref.WeakKeyDictionary()
        self._calls: Optional[NcclCalls] = None
        self.is_held = False
        self._models: list[ProcessGroup] = []
        self._holds = 0
        self._stop: Removal = lambda: None
        self._lock = threading.RLock()

    def keep(self, model: Optional[ProcessGroup] = None) -> None:
        """Times calls, until let_go() is called with the same: those that functions of torch.distributed make, and those of
        a DistributedDataParallel model with this group."""
        with self._lock:
            self._holds += 1
            self._models += [model] if model is not None else []
            if self._holds == 1 and dist.is_nccl_available() and self._hold():
                self.is_held, self._stop = True, turn_with_steps(self._profiler, self._turn)
            self._turn(bool(self._profiler._recording))

    def _hold(self) -> bool:
        try:
            if self._calls is None:
                self._calls = NcclCalls(*(self._profiler.region(name, kind="comm") for name in _OPERATIONS))
            return bool(self._calls.hold())
        except Exception as error:  # there is no room for regions
            note_failure(error)
            return False

    def let_go(self, model: Optional[ProcessGroup] = None) -> None:
        with self._lock:
            self._holds -= 1
            if model is not None:
                self._models.remove(model)
            if self._holds == 0 and self.is_held and self._calls is not None:
                self._stop()
                self._calls.release()
                self.is_held = False
                self.known.clear()
            self._turn(bool(self._profiler._recording))

    def note(self, group: ProcessGroup, comm: int) -> None:
        """NCCL was called with this communicator: the group's."""
        try:
            with self._lock:
                if self.is_held and self._profiler._recording:
                    self._time(group, comm)
                    self.known[group] = comm
        except Exception as error:
            note_failure(error)

    def _time(self, group: ProcessGroup, comm: int) -> None:
        if self._calls is not None:
            self._calls.time_comm(comm, self._find(group), group in self._models)

    def _turn(self, on: bool) -> None:
        try:
            with self._lock:
                if self._calls is not None:
                    self._calls.forget_all()
                for group, comm in list(self.known.items()) if on else ():
                    self._time(group, comm)
        except Exception as error:
            note_failure(error)
