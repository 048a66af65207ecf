# SPDX-License-Identifier: Apache-2.0
"""The steps of a training, as all ways to instrument one count them."""

from __future__ import annotations

from typing import Optional

from .._profiler import Profiler
from ._phases import NotFinished, Phase


class TrainingSteps:
    """The steps of a training, each a span ``training_step`` from the wait for its data to the end of its optimizer.

    A step begins with its first phase. What happens between two steps (evaluation, checkpoints, logging) is in neither
    span; its rows have the number of the step before.
    """

    def __init__(self, profiler: Profiler, first_step: int) -> None:
        self.profiler = profiler
        self._recording = profiler._recording
        self._span = Phase(profiler.region("training_step", kind="step")) if profiler.enabled else None
        self.next_step = first_step
        self.is_under_way = False

    def begin(self, step: Optional[int] = None) -> None:
        """Begins the next step, unless it has begun.

        Args:
            step: Its number; None: one more than the last.
        """
        if self.is_under_way:
            return
        if step is not None:
            self.next_step = step
        self.profiler.step(self.next_step)
        self.is_under_way = True
        if self._recording and self._span is not None:
            self._span.begin(None)

    def skip(self) -> None:
        """Ends a step and begins the next one, neither of which is recorded."""
        self.next_step += 1
        self.profiler.step(self.next_step)

    def end(self, error: Optional[type[BaseException]] = None) -> None:
        """Ends the step, if it has begun."""
        if self.is_under_way:
            self.is_under_way = False
            if self._span:
                self._span.end(None, error)
            self.next_step += 1

    def abandon(self) -> None:
        """Ends the step, if it has begun, as not finished."""
        self.end(NotFinished)
