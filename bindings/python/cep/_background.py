# SPDX-License-Identifier: Apache-2.0
"""A thread beside the trainer's, which asks it for work and never waits for it."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import Any, Callable

_STOP = object()


class Background:
    """A daemon thread that calls a function once for each request, one after another. The function raises nothing.

    Args:
        name: The thread's name.
        act: The function, which is called with the request.
        most_waiting: Requests that may wait for those before them.
        at_end: Called at last, on the thread.
    """

    def __init__(
        self, name: str, act: Callable[[Any], object], most_waiting: int, at_end: Callable[[], object] = lambda: None
    ) -> None:
        self._act, self._at_end = act, at_end
        self._requests: queue.Queue[Any] = queue.Queue(most_waiting)
        self.is_ending = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def ask(self, request: Any = None) -> bool:
        """Makes a request. Returns whether there was room for it."""
        try:
            self._requests.put_nowait(request)
        except queue.Full:
            return False
        return True

    def end(self) -> None:
        """Has the thread end once it has done what it was asked for. Calling it again does nothing."""
        self.is_ending = True
        with contextlib.suppress(queue.Full):  # then it ends by itself, once it has emptied the queue
            self._requests.put_nowait(_STOP)

    def _run(self) -> None:
        for request in iter(self._requests.get, _STOP):
            self._act(request)
            if self.is_ending and self._requests.empty():
                break
        self._at_end()
