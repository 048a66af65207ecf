# SPDX-License-Identifier: Apache-2.0
"""Calls listeners at each step of a profiler."""

from __future__ import annotations

import threading
from typing import Callable, Optional

from .._profiler import Profiler

Listener = Callable[[int, bool], None]
"""Called with the step that begins, and whether the sampling records it (on a rank that is off: would record it)."""


class StepListeners:
    """Replaces a profiler's step() by itself: it calls the original, and then the listeners.

    Listeners are called on the thread that called step(). Thread-safe.
    """

    def __init__(self, profiler: Profiler) -> None:
        self._records = profiler._sampling.records
        self._profiler = profiler
        self._step = type(profiler).step
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()
        profiler.__dict__["step"] = self

    def __call__(self, step: Optional[int] = None) -> None:
        self._step(self._profiler, step)
        number = self._profiler._step
        recorded = self._records(number)
        for listener in self._listeners:
            listener(number, recorded)

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: Listener) -> None:
        """Removes a listener. After the last one, the profiler has its own step() again."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other != listener)
            if not self._listeners and self._profiler.__dict__.get("step") is self:
                del self._profiler.__dict__["step"]


def step_listeners(profiler: Profiler) -> StepListeners:
    """The listeners of a profiler, made at the first call."""
    listeners = profiler.__dict__.get("step")
    return listeners if isinstance(listeners, StepListeners) else StepListeners(profiler)


def remove_listener(profiler: Profiler, listener: Listener) -> None:
    """Removes a listener, if it is one."""
    listeners = profiler.__dict__.get("step")
    if isinstance(listeners, StepListeners):
        listeners.remove(listener)
