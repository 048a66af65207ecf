# SPDX-License-Identifier: Apache-2.0
"""Accelerate's data loaders, which Transformers' Trainer uses too: the wait for a batch, and its copy to the device.

Both happen inside a loader's next(), a batch ahead of the loop and before any callback.
"""

from __future__ import annotations

import collections
import functools
import importlib
from typing import Any, Iterable, Iterator

from .._handle import Removal
from .._streams import HOST
from ._steps import TrainingSteps


def attach_loaders(steps: TrainingSteps, loaders: Iterable[Any]) -> list[Removal]:
    """Times the waits for batches of those loaders that Accelerate made, and the copies of these batches to the device:
    the first phases of a training's steps.

    Returns:
        What takes it off again. Iterations under way stay timed.
    """
    timer = _LoaderTimer(steps)
    removals = [timer.attach_copies()]
    for loader in loaders:
        base = getattr(loader, "base_dataloader", None)
        if base is not None and "__iter__" not in vars(base):
            removals.append(timer.attach(base))
    return removals


class _LoaderTimer:
    def __init__(self, steps: TrainingSteps) -> None:
        self._steps = steps
        # Batches on their way to the device. A loader may copy them otherwise, or not at all: so only the last ones.
        self._fetched: collections.deque[Any] = collections.deque(maxlen=2)
        self._load = steps.profiler.region("data_load", kind="data", stream=HOST)
        self._copy = steps.profiler.region("host_to_device", kind="data")

    def attach(self, base: Any) -> Removal:
        iterate = base.__iter__
        base.__iter__ = lambda: self._timed(iterate())  # its loader calls it as a method, not by iter()
        return lambda: vars(base).pop("__iter__", None)

    def _timed(self, iterator: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while True:
            self._steps.begin()
            with self._load:
                batch = next(iterator, end)
            if batch is end:
                return
            self._fetched.append(batch)
            yield batch

    def _forget(self, batch: Any) -> bool:
        """Whether a batch is one that was fetched for a step and not yet copied."""
        for index, fetched in enumerate(self._fetched):
            if fetched is batch:
                del self._fetched[index]
                return True
        return False

    def attach_copies(self) -> Removal:
        module: Any = importlib.import_module("accelerate.data_loader")
        original = module.send_to_device

        @functools.wraps(original)
        def send_to_device(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._forget(tensor):
                return original(tensor, *args, **kwargs)
            self._steps.begin()  # of a batch that was fetched ahead, in the step before, this is the first phase
            with self._copy:
                return original(tensor, *args, **kwargs)

        module.send_to_device = send_to_device

        def restore() -> None:
            if module.send_to_device is send_to_device:
                module.send_to_device = original

        return restore
