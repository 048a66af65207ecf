# SPDX-License-Identifier: Apache-2.0
"""What the callbacks of trainers share: the profiler, their own or the caller's, and one training after the other."""

from __future__ import annotations

from typing import Any, Optional

from .. import Profiler
from .._handle import Removal, undo_all
from ._steps import TrainingSteps


class TrainingCallback:
    """A base class to name before the framework's class of callbacks.

    Args:
        profiler: The profiler; the caller closes it. None: each training opens one and closes it.
        **options: Of those of its own.

    Attributes:
        profiler: The profiler, once there is one.

    Raises:
        TypeError: There are options for a profiler that is given already.
    """

    def __init__(self, profiler: Optional[Profiler] = None, **options: Any) -> None:
        super().__init__()
        if profiler is not None and options:
            raise TypeError(f"{', '.join(options)}: options of a profiler that is given already")
        self.profiler = profiler
        self._is_own = profiler is None
        self._options = options
        self._steps: Optional[TrainingSteps] = None  # while a training is under way that is profiled
        self._removals: list[Removal] = []

    def _start(self, output_dir: Any, first_step: int) -> Optional[TrainingSteps]:
        """A training begins. Its steps; None where it is not profiled."""
        self._finish()  # one that an exception ended
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
        """Takes off what a training put on, and closes what it opened."""
        undo_all(self._removals)
        self._steps = None
        if self._is_own and self.profiler is not None:
            self.profiler._end()
