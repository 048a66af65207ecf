# SPDX-License-Identifier: Apache-2.0
"""Callbacks for PyTorch's futures that are freed before the interpreter exits.

A thread that calls or frees a Python object while the interpreter exits is ended there. If it is a C++ thread, as those
of gloo are, the process ends with it: ``terminate called without an active exception``. So the exit waits until the
callbacks are freed, and until no such thread runs Python code.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from typing import Any, Callable

_EXIT_TIMEOUT_S = 0.5  # some collectives never end
_INTERVAL_S = 0.001


_pending: set[int] = set()  # the callbacks that are not freed, by id()


class FutureCallback:
    """A function of a future, for which the interpreter's exit waits. Thread-safe."""

    used = False

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._expect()

    def _expect(self) -> None:
        FutureCallback.used = True
        _pending.add(id(self))

    def __del__(self) -> None:
        _pending.discard(id(self))

    def __call__(self, future: Any) -> Any:
        return self._function(future)


def _foreign_thread_runs() -> bool:
    """Whether a thread that Python did not start runs Python code, such as that of a callback being freed."""
    started = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    started.add(threading.get_ident())
    return any(thread not in started for thread in sys._current_frames())


@atexit.register
def _wait_for_all() -> None:
    # Other threads have to run meanwhile, and nothing signals that a callback was freed: so this sleeps and checks. It
    # checks twice, because a thread may be between two objects that it frees.
    if not FutureCallback.used:
        return
    deadline_s = time.monotonic() + _EXIT_TIMEOUT_S
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline_s:
        time.sleep(_INTERVAL_S)
        quiet = 0 if len(_pending) > 0 or _foreign_thread_runs() else quiet + 1
