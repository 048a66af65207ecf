# SPDX-License-Identifier: Apache-2.0
"""Calls listeners at the steps of a profiler."""

from __future__ import annotations

import threading
from typing import Callable, Optional

from .._profiler import Profiler

Listener = Callable[[int, bool], Optional[bool]]
"""Called with the step that begins, and whether the sampling records it (on a rank that is off: would record it). Returns
whether it has to be called at the next step too, whatever step that is."""


class StepListeners:
    """Called by the step() of a profiler, at each step that is recorded and at the one after it; at other steps only if a
    listener asks for that, so that they cost nothing.

    Listeners are called on the thread that called step(). Thread-safe.
    """

    def __init__(self, profiler: Profiler) -> None:
        self._records = profiler._sampling.records
        self._profiler = profiler
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def __call__(self) -> None:
        number = self._profiler._step
        recorded = self._records(number)
        wants_steps = False
        for listener in self._listeners:
            if listener(number, recorded):
                wants_steps = True
        self._profiler._wants_steps = wants_steps

    def add(self, listener: Listener) -> None:
        with self._lock:
            if listener not in self._listeners:
                self._listeners = (*self._listeners, listener)
            self._profiler._wants_steps, self._profiler._on_step = True, self

    def remove(self, listener: Listener) -> None:
        """Removes a listener, if it is one."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other != listener)
            if not self._listeners and self._profiler._on_step is self:
                self._profiler._on_step = None


def step_listeners(profiler: Profiler) -> StepListeners:
    """The listeners of a profiler, made at the first call."""
    listeners: StepListeners = profiler.__dict__.get("_step_listeners") or profiler.__dict__.setdefault(
        "_step_listeners", StepListeners(profiler)
    )
    return listeners
