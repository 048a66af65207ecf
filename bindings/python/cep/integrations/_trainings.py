# SPDX-License-Identifier: Apache-2.0
"""What trainings of several frameworks have in common: the base of their callbacks, and Accelerate's data loaders,
which Transformers' Trainer uses too."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Iterable, Iterator, Optional

from .. import Profiler
from .._binding import why_no_hooks
from .._errors import warn
from .._life import Removal, is_patched, patch, undo_all
from .._attributes import HOST
from ..torch._training import TrainingSteps


class TrainingCallback:
    """A base class. It comes before the framework's own class of callbacks; those say what its arguments are.

    Raises:
        TypeError: Both a profiler and options are given.
    """

    def __init__(self, profiler: Optional[Profiler] = None, **options: Any) -> None:
        super().__init__()
        if profiler is not None and options:
            raise TypeError(f"{', '.join(options)}: options cannot be set, because the profiler is given")
        self.profiler = profiler
        self._is_own = profiler is None
        self._options = options
        self._steps: Optional[TrainingSteps] = None  # during a training that is profiled
        self._removals: list[Removal] = []

    def _start(self, output_dir: Any, first_step: int) -> Optional[TrainingSteps]:
        """Begins a training. Returns its steps; None if it is not profiled."""
        self._finish()  # the training before, if an exception ended it
        why = why_no_hooks()
        if why is not None:
            warn(f"nothing of this training is recorded: {why}")
            self.profiler = self.profiler or Profiler._off()
            return None
        if self._is_own:
            self.profiler = Profiler(output_dir, **self._options)
        assert self.profiler is not None
        if self.profiler.enabled:
            self._steps = TrainingSteps(self.profiler, first_step)
        return self._steps

    def _mark(self, name: str) -> None:
        if self._steps is not None:
            self._steps.profiler.mark(name)

    def _finish(self) -> None:
        """Removes the hooks of a training, and closes the profiler if the training opened it."""
        undo_all(self._removals)
        self._steps = None
        if self._is_own and self.profiler is not None:
            self.profiler._end()


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
    """The wait for a batch and its copy to the device both happen inside a loader's next(), one batch ahead of the loop
    and before any callback."""

    def __init__(self, steps: TrainingSteps) -> None:
        self._steps = steps
        # Batches that are fetched and not yet copied. Only the latest: a loader may copy them in another way, or never.
        self._fetched: dict[int, Any] = {}  # by id()
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
            self._fetched[id(batch)] = batch
            for older in [*self._fetched][:-2]:
                del self._fetched[older]
            yield batch

    def attach_copies(self) -> Removal:
        module: Any = importlib.import_module("accelerate.data_loader")

        def timed(original: Callable[..., Any]) -> Callable[..., Any]:
            def send_to_device(tensor: Any, *args: Any, **kwargs: Any) -> Any:
                if self._fetched.pop(id(tensor), None) is None:
                    return original(tensor, *args, **kwargs)
                self._steps.begin()  # the first phase of its step, if the batch was fetched in the step before
                with self._copy:
                    return original(tensor, *args, **kwargs)

            return send_to_device

        return patch(module, "send_to_device", timed)
