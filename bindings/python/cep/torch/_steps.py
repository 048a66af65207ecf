# SPDX-License-Identifier: Apache-2.0
"""Calls listeners at the steps of a profiler."""

from __future__ import annotations

import contextlib
import threading
from typing import Callable, Optional

from .._handle import Removal
from .._profiler import Profiler

Listener = Callable[[bool], Optional[bool]]
"""Called with whether the step that begins is recorded, on the thread that called step(). Returns whether it has to be called
at the next step too, whatever step that is."""


class StepListeners:
    """Called by the step() of a profiler where recording begins or ends; at other steps only if a listener asks for that, so
    that they cost nothing. Thread-safe."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def __call__(self) -> None:
        is_recording, wants_steps = bool(self._profiler._recording), False
        for listener in self._listeners:
            if listener(is_recording):
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
    return profiler._part(StepListeners)


def turn_with_steps(profiler: Profiler, turn: Listener) -> Removal:
    """Has something be on during recorded steps, from now on: until the profiler is closed, or the returned function is
    called, which turns it off."""
    listeners = step_listeners(profiler)

    def stop() -> None:
        with contextlib.suppress(ValueError):  # close() has removed it already, to call it
            profiler._at_close.remove(stop)
        listeners.remove(turn)
        turn(False)

    profiler._at_close.append(stop)
    listeners.add(turn)
    turn(bool(profiler._recording))
    return stop
