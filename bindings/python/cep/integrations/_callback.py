# SPDX-License-Identifier: Apache-2.0
"""The base of the callbacks: opens and closes the profiler, unless it is the caller's, for each training."""

from __future__ import annotations

from typing import Any, Optional

from .. import Profiler
from .._handle import Removal, undo_all
from .._binding import why_no_hooks
from .._errors import warn
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
