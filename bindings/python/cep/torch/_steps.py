# SPDX-License-Identifier: Apache-2.0
"""Hearing of a profiler's steps."""

from __future__ import annotations

from typing import Callable, Optional

from .._profiler import Profiler

Listener = Callable[[int, bool], None]
"""Called with the step that begins and whether the sampling records it (on ranks that are off, would record it)."""


class StepListeners:
    """Puts itself in front of a profiler's step(), and tells listeners of each step that begins.

    Listeners are called on the thread that called step(), after the profiler. Thread-safe.
    """

    def __init__(self, profiler: Profiler) -> None:
        self._records = profiler._sampling.records
        self._profiler = profiler
        self._step = type(profiler).step
        self._listeners: tuple[Listener, ...] = ()
        profiler.__dict__["step"] = self

    def __call__(self, step: Optional[int] = None) -> None:
        self._step(self._profiler, step)
        number = self._profiler._step
        recorded = self._records(number)
        for listener in self._listeners:
            listener(number, recorded)

    def add(self, listener: Listener) -> None:
        self._listeners = (*self._listeners, listener)

    def remove(self, listener: Listener) -> None:
        """The last one gives the profiler its own step() back."""
        self._listeners = tuple(other for other in self._listeners if other != listener)
        if not self._listeners and self._profiler.__dict__.get("step") is self:
            del self._profiler.__dict__["step"]


def listeners_of(profiler: Profiler) -> StepListeners:
    """Those of a profiler, made the first time."""
    listeners = profiler.__dict__.get("step")
    return listeners if isinstance(listeners, StepListeners) else StepListeners(profiler)
