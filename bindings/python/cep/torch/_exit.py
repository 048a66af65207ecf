# SPDX-License-Identifier: Apache-2.0
"""The interpreter's exit waits until the callbacks of PyTorch's futures are freed.

A thread that calls or frees a Python object while the interpreter exits is ended there. If it is a C++ thread, as those of gloo
are, the process ends with it: ``terminate called without an active exception``. So the exit waits until the callbacks are freed,
and until no such thread runs Python code.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time

from ._hooks import expected_callbacks

_EXIT_TIMEOUT_S = 0.5  # some collectives never end
_INTERVAL_S = 0.001


def _foreign_thread_runs() -> bool:
    """Whether a thread that Python did not start runs Python code, such as that of a callback being freed."""
    started = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    started.add(threading.get_ident())
    return any(thread not in started for thread in sys._current_frames())


@atexit.register
def _wait_for_all() -> None:
    # Other threads have to run meanwhile, and nothing signals that a callback was freed: so this sleeps and checks. It
    # checks twice, because a thread may be between two objects that it frees.
    if not expected_callbacks()[0]:
        return
    deadline_s = time.monotonic() + _EXIT_TIMEOUT_S
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline_s:
        time.sleep(_INTERVAL_S)
        quiet = 0 if expected_callbacks()[1] > 0 or _foreign_thread_runs() else quiet + 1
