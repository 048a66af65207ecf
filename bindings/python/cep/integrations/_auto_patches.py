# SPDX-License-Identifier: Apache-2.0
"""What `cep run` replaces in PyTorch: waiting for a DataLoader, and copying a tensor to a device."""

from __future__ import annotations

import functools
import itertools
import math
import weakref
from threading import get_ident
from typing import Any, Callable

from .._profiler import Profiler
from ..torch._hook_calls import TimedFunction
from ..torch._hooks import is_compiling
from ..torch._pytorch import torch


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

    @functools.wraps(get_next)
    def __next__(self: Any) -> Any:
        if training.is_quiet and training.passes(self) or training.is_off:
            return get_next(self)
        try:
            is_wanted = training.wants(self)
        except Exception as error:
            is_wanted = False
            training.fail(error)
        if not is_wanted:
            return get_next(self)
        try:
            with training.load:
                item = get_next(self)
        except StopIteration:
            training.end_of_data()
            raise
        training.has_fetched = True
        training.copies.switched[:] = training.recording
        return item

    loaders.DataLoader.__iter__ = __iter__
    loaders._BaseDataLoaderIter.__next__ = __next__


def _known_length(iterator: Any) -> float:
    """How many batches a DataLoader's iterator yields in all; infinity if nobody knows."""
    try:
        kinds: Any = torch.utils.data.dataloader._DatasetKind
        return len(iterator) if iterator._dataset_kind == kinds.Map else math.inf
    except Exception:  # these are not PyTorch's public attributes, or the script's sampler has no length
        return math.inf


_DEVICES = (torch.device, torch.Tensor, str, int)  # by what Tensor.to() is told a device, and not only a type of numbers


class CopyTimer:
    """Times copies of a batch to the device: each .to() and .cuda() of a tensor on the CPU, while it is on: from the batch to
    the forward, and from the optimizer to the next batch.

    The methods of PyTorch's class are replaced once, until remove(). A change of a class at each step would have Python
    forget what it knows of it, for good from the thousandth on. While it is off, they go through a branch in C.
    """

    def __init__(self, profiler: Profiler, thread: int) -> None:
        self._profiler, self._thread = profiler, thread
        self._replaced: dict[str, tuple[Any, Any]] = {}  # by name: the replacement, and what the class had
        self.switched: list[bool] = []  # not empty while it is on
        region = profiler.region("host_to_device", kind="data")
        for name in ("to", "cuda"):
            original = getattr(torch.Tensor, name)
            timed: Any = TimedFunction(region, original, self._timed(original, name == "cuda"), self.switched)
            functools.update_wrapper(timed, original)
            self._replaced[name] = timed, vars(torch.Tensor).get(name)
            setattr(torch.Tensor, name, timed)

    def remove(self) -> None:
        self.switched.clear()
        for name, (timed, before) in self._replaced.items():
            if vars(torch.Tensor).get(name) is not timed:
                continue  # somebody has replaced it since
            if before is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, before)

    def _timed(self, original: Callable[..., Any], is_copy: bool) -> Callable[..., Any]:
        region_of, thread, cpu = self._profiler.region, self._thread, torch.device("cpu")

        # In one function, for each further one costs several microseconds in a trainer.
        def copy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            region = None
            if is_copy or args and isinstance(args[0], _DEVICES) or "device" in kwargs or "other" in kwargs:
                try:
                    if tensor.device == cpu and not is_compiling() and get_ident() == thread:
                        region = region_of("host_to_device", kind="data", bytes=tensor.nbytes)
                except Exception:  # a tensor without a size
                    pass
            if region is None:
                return original(tensor, *args, **kwargs)
            with region:
                return original(tensor, *args, **kwargs)

        return copy
