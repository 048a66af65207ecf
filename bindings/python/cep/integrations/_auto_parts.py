# SPDX-License-Identifier: Apache-2.0
"""What `cep run` watches: which modules an optimizer trains and when they are called, waits for a DataLoader, and copies of
tensors to a device."""

from __future__ import annotations

import functools
import gc
import itertools
import math
import weakref
from typing import Any, Callable

from .. import torch as cep_torch
from .._handle import Replacement
from .._profiler import Profiler
from ..torch._hooks import TimedCopy, TimedFunction, is_compiling
from ..torch._pytorch import Module, torch

_MOST_MODELS = 8


def outermost_models(parameters: set[int]) -> list[Module]:
    """The modules that have these parameters (by id()) and are in no other module: the wrappers of DDP and FSDP, not what
    is in them. Looks at all objects of the process, which takes some 50 ms for a million."""
    module_type = torch.nn.Module
    # Not isinstance(): that asks objects for their __class__, and proxies answer with an import.
    modules = [found for found in gc.get_objects() if issubclass(type(found), module_type)]
    inside = {id(child) for module in modules for child in module._modules.values()}
    outermost = [module for module in modules if id(module) not in inside]
    trained = [module for module in outermost if any(id(parameter) in parameters for parameter in module.parameters())]
    if not trained:  # the optimizer has copies of the parameters (mixed precision, sharded states)
        trained = [module for module in outermost if any(parameter.requires_grad for parameter in module.parameters())]
    return trained[:_MOST_MODELS]


class ModelWatch:
    """Times a model's forward and backward, and calls a function before each of its calls, recorded or not, unless it is
    paused."""

    def __init__(self, model: Module, profiler: Profiler, on_call: Callable[[ModelWatch, Module], None]) -> None:
        self.model = weakref.ref(model)
        self.was_called = False
        self._phases = cep_torch.instrument(profiler, model, None, memory=False)
        self.on_call = functools.partial(on_call, self)
        self.announce = self._phases.announcer()
        """Has a function called before each call of the model. None: no more, and without a recorded step the call is its own."""
        self.announce(self.on_call)

    def remove(self) -> None:
        self._phases.remove()


def patch_loaders(training: Any) -> None:
    """Has each wait for a DataLoader go through an AutoTraining. Each loader gets a number, which its iterators have."""
    loaders: Any = torch.utils.data.dataloader
    iterate, get_next = loaders.DataLoader.__iter__, loaders._BaseDataLoaderIter.__next__
    numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    following = itertools.count()

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Any:
        iterator = iterate(self)
        if isinstance(iterator, loaders._BaseDataLoaderIter):
            if self not in numbers:
                numbers[self] = next(following)
            iterator.__dict__["_cep_length"] = _known_length(iterator)  # all that it yields
            iterator.__dict__["_cep_loader"] = numbers[self]  # the loader itself may be gone before its iterator
        return iterator

    training.get_next = get_next
    timed: Any = TimedFunction(None, get_next, training.next_batch, [True])
    functools.update_wrapper(timed, get_next)
    loaders.DataLoader.__iter__ = __iter__
    loaders._BaseDataLoaderIter.__next__ = timed


def _known_length(iterator: Any) -> float:
    """How many batches a DataLoader's iterator yields in all; infinity if nobody knows."""
    try:
        kinds: Any = torch.utils.data.dataloader._DatasetKind
        return len(iterator) if iterator._dataset_kind == kinds.Map else math.inf
    except Exception:  # these are not PyTorch's public attributes, or the script's sampler has no length
        return math.inf


_DEVICES = (torch.device, str, int, torch.Tensor)  # by what Tensor.to() is told a device, and not only a type of numbers


class CopyTimer:
    """Times copies of a batch to the device: each .to() and .cuda() of a tensor on the CPU, on this thread, while it is on: from
    the batch to the forward, and from the optimizer to the next batch.

    The methods of PyTorch's class are replaced once, until remove(). A change of a class at each step would have Python
    forget what it knows of it, for good from the thousandth on. While it is off, they go through a branch in C.
    """

    def __init__(self, profiler: Profiler) -> None:
        self._replaced: list[Replacement] = []
        self.switched: list[bool] = []  # not empty while it is on
        region = profiler.region("host_to_device", kind="data")
        for name, devices in (("to", _DEVICES), ("cuda", None)):
            original = getattr(torch.Tensor, name)
            copy = TimedCopy(region, original, devices, torch.device("cpu"), is_compiling)
            timed: Any = TimedFunction(region, original, copy, self.switched)
            functools.update_wrapper(timed, original)
            self._replaced.append(Replacement(torch.Tensor, name, timed))

    def remove(self) -> None:
        self.switched.clear()
        for replaced in self._replaced:
            replaced.remove()
