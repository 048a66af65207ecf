# SPDX-License-Identifier: Apache-2.0
"""Callbacks that are lent to a thread of torch's, and are back before the interpreter ends.

A thread that still has to call or to free an object of Python's when the interpreter is at its end is ended there, and
where it is one of C++, as those of gloo are, it takes the process with it: ``terminate called without an active
exception``.
"""

from __future__ import annotations

import atexit
import time
import weakref
from typing import Any, Callable

_PATIENCE_S = 0.5  # at exit, for collectives that will never end
_INTERVAL_S = 0.001


class Lent:
    """A function of a future. Thread-safe."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        _lent.add(self)

    def __call__(self, future: Any) -> Any:
        return self._function(future)


_lent: weakref.WeakSet[Lent] = weakref.WeakSet()


@atexit.register
def _wait_for_all() -> None:
    # Others must be able to run meanwhile, and who frees an object tells nobody: hence asleep, and not on a condition.
    deadline_s = time.monotonic() + _PATIENCE_S
    while len(_lent) > 0 and time.monotonic() < deadline_s:
        time.sleep(_INTERVAL_S)
