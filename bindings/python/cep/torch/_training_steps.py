# SPDX-License-Identifier: Apache-2.0
"""The span of a whole step, and phases that one call begins and another ends."""

from __future__ import annotations

from typing import Optional

from .._profiler import Profiler
from .._region import Region
from ._phases import NotFinished, Phase


class OpenPhase:
    """A region whose begin and end are two calls of a framework, on any threads, one span at a time."""

    __slots__ = ("_recording", "_phase")

    def __init__(self, profiler: Profiler, region: Region) -> None:
        self._recording = profiler._recording
        self._phase = Phase(region)

    def begin(self) -> None:
        """Begins a span if the step is recorded. A span that is still open ends as NotFinished: its phase raised."""
        if self._recording:
            self._phase.begin(None)
        else:
            self._phase.end(None, NotFinished)

    def end(self) -> None:
        """Ends the open span, if there is one."""
        self._phase.end(None)

    def abandon(self) -> None:
        """Ends the open span, if there is one, as not finished."""
        self._phase.end(None, NotFinished)


class TrainingSteps:
    """The steps of a training, each a span ``training_step`` from the wait for its data to the end of its optimizer.

    A step begins with its first phase. What happens between two steps (evaluation, checkpoints, logging) is in neither
    span; its rows have the number of the step before.
    """

    def __init__(self, profiler: Profiler, first_step: int) -> None:
        self.profiler = profiler
        self._span = OpenPhase(profiler, profiler.region("training_step", kind="step"))
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
        self._span.begin()

    def skip(self) -> None:
        """Ends a step and begins the next one, neither of which is recorded."""
        self.next_step += 1
        self.profiler.step(self.next_step)

    def end(self) -> None:
        """Ends the step, if it has begun."""
        if self.is_under_way:
            self.is_under_way = False
            self._span.end()
            self.next_step += 1

    def abandon(self) -> None:
        """Ends the step, if it has begun, as not finished."""
        if self.is_under_way:
            self.is_under_way = False
            self._span.abandon()
            self.next_step += 1
