# SPDX-License-Identifier: Apache-2.0
"""Collectives and messages, timed where PyTorch calls NCCL.

While a profiler records collectives, functions of the extension module stand before those of NCCL in the table of imports of
libtorch_cuda.so. They take no lock of the interpreter's. A span's events are on NCCL's own stream: it begins when that stream has
come to the call, whose inputs are then ready and whose predecessors done, and ends behind the call, or behind the group that
NCCL launches at once.

A function of torch.distributed announces its call of NCCL, which is on the same thread. DDP's buckets are announced by nobody:
they are known by the communicator of the model's group.
"""

from __future__ import annotations

import threading
from typing import Optional

from .._attributes import Attributes
from .._handle import Removal
from .._messages import tell_mistake
from .._profiler import Profiler
from ._groups import Group
from ._hooks import NcclCalls, note_failure
from ._pytorch import dist
from ._steps import turn_with_steps


class NcclComms:
    """NCCL's calls of one profiler, and the communicators of its models. Thread-safe."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._calls: Optional[NcclCalls] = None
        self.is_held = False
        self._holds = 0
        self._stop: Removal = lambda: None
        self._lock = threading.RLock()

    def keep(self) -> None:
        """Times calls, until let_go() is called."""
        with self._lock:
            self._holds += 1
            if self._holds == 1 and dist.is_nccl_available() and self._hold():
                self.is_held, self._stop = True, turn_with_steps(self._profiler, self._turn)

    def _hold(self) -> bool:
        try:
            self._calls = NcclCalls(self._profiler.region("all_reduce", kind="comm"))
            return bool(self._calls.hold())
        except Exception as error:  # there is no room for regions
            note_failure(error)
            return False

    def let_go(self) -> None:
        with self._lock:
            self._holds -= 1
            if self._holds == 0 and self._calls is not None:
                self._stop()
                self._calls.release()
                self.is_held, self._calls = False, None

    def tell_of_unseen(self) -> None:
        tell_mistake(
            self._profiler.rank, "unseen NCCL",
            "PyTorch's calls of NCCL are not seen: asynchronous collectives and DDP's all-reduces have no rows, and others are timed "
            "on the current stream",
        )  # fmt: skip

    def note(self, group: Group, comm: int) -> None:
        """NCCL was called with this communicator: the one of a model's group."""
        if self._calls is not None:
            self._calls.time_comm(comm, Attributes(None, None, group.name, None, None, False), group.indices)

    def knows(self, group: Group) -> bool:
        """Whether a model's group has its communicator."""
        return self._calls is not None and bool(self._calls.times(group.indices))

    def forget(self, group: Group) -> None:
        """The group is no model's any more."""
        if self._calls is not None:
            self._calls.forget(group.indices)

    def _turn(self, on: bool) -> None:
        if self._calls is not None:
            self._calls.turn(on)
