# SPDX-License-Identifier: Apache-2.0
"""Times Accelerate's data loaders, which Transformers' Trainer uses too.

The wait for a batch and its copy to the device both happen inside a loader's next(), one batch ahead of the loop and
before any callback.
"""

from __future__ import annotations

import collections
import importlib
from typing import Any, Callable, Iterable, Iterator

from .._handle import Removal, is_patched, patch
from .._streams import HOST
from ..torch._training import TrainingSteps


def attach_loaders(steps: TrainingSteps, loaders: Iterable[Any]) -> list[Removal]:
    """Times the first phases of a training's steps: the waits for batches, and their copies to the device. Loaders that
    Accelerate did not make are not timed. Returns what undoes it; iterations under way stay timed."""
    timer = _LoaderTimer(steps)
    removals = [timer.attach_copies()]
    for loader in loaders:
        base = getattr(loader, "base_dataloader", None)
        if base is not None and not is_patched(base, "__iter__"):
            removals.append(timer.attach(base))
    return removals


class _LoaderTimer:
    def __init__(self, steps: TrainingSteps) -> None:
        self._steps = steps
        # Batches that are fetched and not yet copied. Only the latest: a loader may copy them in another way, or never.
        self._fetched: collections.deque[Any] = collections.deque(maxlen=2)
        self._load = steps.profiler.region("data_load", kind="data", stream=HOST)
        self._copy = steps.profiler.region("host_to_device", kind="data")

    def attach(self, base: Any) -> Removal:
        # Accelerate calls this attribute, not iter().
        return patch(base, "__iter__", lambda iterate: lambda: self._timed(iterate()))

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

    def _take_fetched(self, batch: Any) -> bool:
        """Removes a batch from those that are not yet copied. Returns whether it was among them."""
        for index, fetched in enumerate(self._fetched):
            if fetched is batch:
                del self._fetched[index]
                return True
        return False

    def attach_copies(self) -> Removal:
        module: Any = importlib.import_module("accelerate.data_loader")

        def timed(original: Callable[..., Any]) -> Callable[..., Any]:
            def send_to_device(tensor: Any, *args: Any, **kwargs: Any) -> Any:
                if not self._take_fetched(tensor):
                    return original(tensor, *args, **kwargs)
                self._steps.begin()  # the first phase of its step, if the batch was fetched in the step before
                with self._copy:
                    return original(tensor, *args, **kwargs)

            return send_to_device

        return patch(module, "send_to_device", timed)
