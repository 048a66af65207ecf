# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's all-reduces, timed without a communication hook.

DDP's C++ code reduces a bucket with the operator c10d::allreduce_. Two things can time it, both in the extension module:

- On recorded steps a function stands before that operator in PyTorch's dispatcher. On other steps nothing does, and DDP runs as
  if cep were not there.
- With NCCL its call is timed: see _collectives.py. That needs a group's communicator. So on the first recorded step
  that has buckets the function announces the call, and learns with which communicator it was; from then on no function
  stands there.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any, Callable, Optional

from .._life import Removal
from .._attributes import Attributes
from .._errors import warn
from .._native import BucketTimer
from .._profiler import Profiler
from ._collectives import recorder_of
from ._operations import Group
from ._pytorch import ProcessGroup, note_failure, torch

_OPERATOR = "allreduce_"
# By device: the key that the dispatcher tries before that of the backend. By its name it would be looked for among all names.
_KEYS = {"cpu": torch._C.DispatchKey.AutogradCPU, "cuda": torch._C.DispatchKey.AutogradCUDA}

_c10d: Any = getattr(torch._C, "_distributed_c10d", None)
# They make Python's objects of those that the dispatcher passes.
_unbox_group: Any = getattr(getattr(_c10d, "ProcessGroup", None), "unbox", None)
_unbox_work: Any = getattr(getattr(_c10d, "Work", None), "unbox", None)


class DDPReductions(BucketTimer):  # type: ignore[misc]
    """Times the all-reduces that the DistributedDataParallel models of one profiler make themselves.

    The function is put before the operator and taken away by profiler.step(), for tensors of the models' devices only. The
    dispatcher has no lock for those that call an operator, so no other thread may reduce such a tensor meanwhile.
    """

    def __init__(self, profiler: Profiler) -> None:
        self._profiler, self._recorder = profiler, recorder_of(profiler)
        self._groups: list[ProcessGroup] = []  # of the models, once for each
        self._by_operator: dict[ProcessGroup, Group] = {}  # those whose communicators are not known
        self._found: dict[ProcessGroup, Group] = {}
        region = profiler.region("all_reduce", kind="comm")
        below_autograd = torch._C._AutoDispatchBelowAutograd
        # torch.ops' own way to the operator looks for the overload that arguments fit, which takes longer than all else here.
        schema = torch._C._dispatch_find_schema_or_throw(f"c10d::{_OPERATOR}", "")
        operator = functools.partial(torch._C._dispatch_call_boxed, schema)
        super().__init__(region, self._by_operator, self._note, _unbox_group, _unbox_work, below_autograd, operator)
        self._keys: set[Any] = set()  # of the models' devices
        self._library: Any = torch.library.Library("c10d", "IMPL")
        self._is_registered = False
        self._stop: Removal = lambda: None
        self._lock = threading.RLock()

    def hold(self, group: ProcessGroup, device: str) -> Removal:
        """Times the all-reduces of a model's group, until the returned function is called."""
        with self._lock:
            self._keys.add(_KEYS[device])
            self._check()
            self._recorder.keep_nccl()
            self._groups.append(group)
            found = self._recorder.groups.find(group)
            self._found[group] = found._replace(on_device=found.on_device and device == "cuda")
            if self._found[group].on_device and self._recorder.nccl is None:
                self._recorder.tell_of_unseen()
            if len(self._groups) == 1:
                self._stop = self._profiler._turn_with_steps(self._turn)
            else:
                self._turn(bool(self._profiler._recording))
                self._profiler._wants_steps = True
        return lambda: self._release(group)

    def _release(self, group: ProcessGroup) -> None:
        with self._lock:
            if group in self._groups:
                self._groups.remove(group)
                found = None if group in self._groups else self._found.pop(group)
                if found is not None and self._recorder.nccl is not None:
                    self._recorder.nccl.forget(found.indices)
                self._recorder.release_nccl()
                self._turn(bool(self._profiler._recording))
                if not self._groups:
                    self._keys.clear()
                    self._stop()

    def _note(self, group: ProcessGroup, comm: int) -> None:
        with self._lock:
            if group in self._groups and self._recorder.nccl is not None:
                found = self._found[group]
                self._recorder.nccl.time_comm(comm, Attributes(group=found.name), found.indices)

    def _turn(self, on: bool) -> bool:
        """Times each group by the one or the other. Returns whether there may be more to do at the next step."""
        if not on and not self._is_registered:
            return False
        try:
            with self._lock:
                calls = self._recorder.nccl
                self._by_operator.clear()
                for group, found in self._found.items() if on else ():
                    if not found.on_device or (calls is not None and not calls.times(found.indices)):
                        self._by_operator[group] = found
                if self._by_operator and not self._is_registered:
                    self._register()
                elif self._is_registered and not self._by_operator:
                    self._unregister()  # unless another thread is in the function
                return self._is_registered and (calls is not None or not self._by_operator)
        except Exception as error:
            note_failure(error)
            return False

    def _check(self) -> None:
        """Raises if a function in Python of somebody else's is there already, which this one would hide."""
        self._unregister()
        others = _registered()
        if others is not None:
            others._unregister()
        for key in self._keys:
            if torch._C._dispatch_has_kernel_for_dispatch_key(f"c10d::{_OPERATOR}", key):
                raise RuntimeError(f"another function stands before c10d::{_OPERATOR} for {key.name}")

    def _register(self) -> None:
        global _registered
        others = _registered()
        if others is not None and others is not self:
            others._unregister()  # of a profiler that is still open: the newest wins
        _registered = weakref.ref(self)
        self._is_registered = True
        for key in self._keys:  # past Library.impl(), whose checks take a multiple of this
            self._library.m.impl(_OPERATOR, key, self._function, False)

    def _unregister(self) -> None:
        if self._running == 0 and self._is_registered:
            self._library.m.reset()
            self._is_registered = False


_registered: Callable[[], Optional[DDPReductions]] = lambda: None  # whose function stands before the operator


def time_reductions(model: Any, profiler: Profiler) -> list[Removal]:
    """Has each all-reduce of a bucket timed that a model makes itself, if it is a DistributedDataParallel or has one in it, as
    the modules of torch.compile and Fabric have. Those of a communication hook in Python are rows of its own calls."""
    is_ddp = torch.nn.parallel.DistributedDataParallel
    ddp: Any = next((module for module in model.modules() if isinstance(module, is_ddp)), None)
    if ddp is None:
        return []
    device = next(ddp.parameters()).device.type
    if device not in _KEYS:
        warn(f"the all-reduces of DistributedDataParallel are not timed: its parameters are on a device of type {device}")
        return []
    try:
        return [profiler._part(DDPReductions).hold(ddp.process_group, device)]
    except Exception as error:  # these are not PyTorch's public functions
        warn(f"the all-reduces of DistributedDataParallel are not timed: {type(error).__name__}: {error}")
        return []
