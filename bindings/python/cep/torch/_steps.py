# SPDX-License-Identifier: Apache-2.0
"""Calls listeners at the steps of a profiler: by its step(), where recording begins or ends; at other steps only if a listener
asks for that, so that they cost nothing."""

from __future__ import annotations

import contextlib
import threading
from typing import Callable, Optional

from .._handle import Removal
from .._profiler import Profiler

Listener = Callable[[bool], Optional[bool]]
"""Called with whether the step that begins is recorded, on the thread that called step(). Returns whether it has to be called
at the next step too, whatever step that is."""

_lock = threading.Lock()


def add_listener(profiler: Profiler, listener: Listener) -> None:
    """Has a listener called, once."""
    with _lock:
        if listener not in profiler._listeners:
            profiler._listeners, profiler._wants_steps = (*profiler._listeners, listener), True


def remove_listener(profiler: Profiler, listener: Listener) -> None:
    """Removes a listener, if it is one."""
    with _lock:
        profiler._listeners = tuple(other for other in profiler._listeners if other != listener)


def turn_with_steps(profiler: Profiler, turn: Listener) -> Removal:
    """Has something be on during recorded steps, from now on: until the profiler is closed, or the returned function is
    called, which turns it off."""

    def stop() -> None:
        with contextlib.suppress(ValueError):  # close() has removed it already, to call it
            profiler._at_close.remove(stop)
        remove_listener(profiler, turn)
        turn(False)

    profiler._at_close.append(stop)
    add_listener(profiler, turn)
    turn(bool(profiler._recording))
    return stop
