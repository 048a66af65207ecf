# SPDX-License-Identifier: Apache-2.0
"""What `cep run` replaces in PyTorch: waiting for a DataLoader, copying a tensor to a device, an optimizer's step."""

from __future__ import annotations

import functools
import itertools
import weakref
from threading import get_ident, local
from typing import Any, Callable, Optional, Protocol

from .._handle import Removal, undo_all
from .._patch import Patches
from .._profiler import Profiler
from .._region import Region
from ..torch._hooks import is_compiling
from ..torch._pytorch import Optimizer, tensor_bytes, torch


class Fetcher(Protocol):
    """Who is asked about each wait for a DataLoader."""

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]: ...

    def wants(self, iterator: Any) -> bool: ...

    def fetch(self, get: Callable[[], Any]) -> Any: ...


def patch_loaders(fetcher: Fetcher) -> None:
    """Has each wait for a DataLoader go through the fetcher. Each loader gets a number, which its iterators have."""
    loaders: Any = torch.utils.data.dataloader
    iterate, get_next = loaders.DataLoader.__iter__, loaders._BaseDataLoaderIter.__next__
    wants = fetcher.guarded(fetcher.wants)
    numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    following = itertools.count()

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Any:
        iterator = iterate(self)
        if isinstance(iterator, loaders._BaseDataLoaderIter):
            if self not in numbers:
                numbers[self] = next(following)
            iterator.__dict__["_cep_length"] = _known_length(iterator)
            iterator.__dict__["_cep_loader"] = numbers[self]  # the loader itself may be gone before its iterator
        return iterator

    @functools.wraps(get_next)
    def __next__(self: Any) -> Any:
        if not wants(self):
            return get_next(self)
        return fetcher.fetch(functools.partial(get_next, self))

    loaders.DataLoader.__iter__ = __iter__
    loaders._BaseDataLoaderIter.__next__ = __next__


def _known_length(iterator: Any) -> Optional[int]:
    """How many batches a DataLoader's iterator yields in all; None if nobody knows."""
    try:
        kinds: Any = torch.utils.data.dataloader._DatasetKind
        return len(iterator) if iterator._dataset_kind == kinds.Map else None
    except Exception:  # these are not PyTorch's public attributes, or the script's sampler has no length
        return None


def is_exhausted(iterator: Any) -> bool:
    """Whether a DataLoader's iterator has yielded all that its loader has, if that is known."""
    facts = iterator.__dict__
    length = facts.get("_cep_length")
    return length is not None and facts.get("_num_yielded", 0) >= length


def _names_device(args: Any, kwargs: Any) -> bool:
    """Whether arguments of Tensor.to() name a device, and not only a type of numbers."""
    if "device" in kwargs or "other" in kwargs:
        return True
    return bool(args) and isinstance(args[0], (torch.device, torch.Tensor, str, int))


class CopyTimer:
    """Times copies of a batch to the device: each .to() and .cuda() of a tensor on the CPU. It is attached to PyTorch on
    recorded steps only: from the batch to the forward, and from the optimizer to the next batch."""

    def __init__(self, profiler: Profiler, thread: int) -> None:
        self._profiler, self._thread = profiler, thread
        self._removals: list[Removal] = []
        self._patches = Patches()

    def attach(self) -> None:
        if not self._removals:
            self._removals.append(self._patches.put(torch.Tensor, "to", self._timed_to))
            self._removals.append(self._patches.put(torch.Tensor, "cuda", self._timed))

    def detach(self) -> None:
        undo_all(self._removals)

    def _region(self, tensor: Any) -> Optional[Region]:
        try:
            if is_compiling() or get_ident() != self._thread or tensor.device.type != "cpu":
                return None
            return self._profiler.region("host_to_device", kind="data", bytes=tensor_bytes(tensor))
        except Exception:  # a tensor without a size
            return None

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def copy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            region = self._region(tensor)
            if region is None:
                return original(tensor, *args, **kwargs)
            with region:
                return original(tensor, *args, **kwargs)

        return copy

    def _timed_to(self, original: Callable[..., Any]) -> Callable[..., Any]:
        timed = self._timed(original)

        def to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            return (timed if _names_device(args, kwargs) else original)(tensor, *args, **kwargs)

        return to


class _Running(local):
    """The optimizers whose step() this thread is in, the outermost first."""

    def __init__(self) -> None:
        self.optimizers: list[int] = []


_running = _Running()


def watch_optimizer(
    optimizer: Optimizer, before: Callable[[Optimizer], None], after: Callable[[Optimizer], None]
) -> None:
    """Calls two functions before and after each step() of an optimizer. Those of an optimizer that another one calls in
    its own step() are part of that."""
    me = id(optimizer)

    def begin(given: Any, *_: Any) -> None:
        running = _running.optimizers
        if me in running:  # a step() that raised
            del running[running.index(me) :]
        running.append(me)
        if len(running) == 1:
            before(given)

    def end(given: Any, *_: Any) -> None:
        running = _running.optimizers
        if me in running:
            del running[running.index(me) :]
            if not running:
                after(given)

    hooked: Any = optimizer
    hooked.register_step_pre_hook(begin)
    hooked.register_step_post_hook(end)
