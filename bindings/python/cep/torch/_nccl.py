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
        self.calls: Optional[NcclCalls] = None
        """None: they are not seen, or not timed."""
        self._holds = 0
        self._stop: Removal = lambda: None
        self._lock = threading.RLock()

    def keep(self) -> None:
        """Times calls, until let_go() is called."""
        with self._lock:
            self._holds += 1
            if self._holds == 1 and dist.is_nccl_available():
                self._hold()

    def _hold(self) -> None:
        try:
            calls = NcclCalls(self._profiler.region("all_reduce", kind="comm"))
            if calls.hold():
                self.calls, self._stop = calls, turn_with_steps(self._profiler, calls.turn)
        except Exception as error:  # there is no room for regions
            note_failure(error)

    def let_go(self) -> None:
        with self._lock:
            self._holds -= 1
            if self._holds == 0 and self.calls is not None:
                self._stop()
                self.calls.release()
                self.calls = None

    def tell_of_unseen(self) -> None:
        tell_mistake(
            self._profiler.rank, "unseen NCCL",
            "PyTorch's calls of NCCL are not seen: asynchronous collectives and DDP's all-reduces have no rows, and others are timed "
            "on the current stream",
        )  # fmt: skip

    def note(self, group: Group, comm: int) -> None:
        """NCCL was called with this communicator: the one of a model's group."""
        if self.calls is not None:
            self.calls.time_comm(comm, Attributes(group=group.name), group.indices)

    def forget(self, group: Group) -> None:
        """The group is no model's any more."""
        if self.calls is not None:
            self.calls.forget(group.indices)
