# SPDX-License-Identifier: Apache-2.0
"""The begin and the end of a profiler's life: spans from before its first step; and what ends one that the trainer did not
close: when it is collected, at the interpreter's or a worker's exit, in forks."""

from __future__ import annotations

import os
import re
import sys
import time
import weakref
from ctypes import c_void_p
from threading import get_ident
from typing import Any

from . import _ffi
from ._attributes import INT64_MAX
from ._errors import EINVAL, OptionError

_MOST = 64
# In names of regions that are part of a step, and not of what a script does before its loop ("load_checkpoint").
_WORDS_OF_A_PASS = {"forward", "backward", "fwd", "bwd", "step", "iteration"}


class EarlySpans:
    """Outermost spans, of the first wait for data or of a whole pass of a loop that calls step() at its end: timed on the host
    clock until the first step has a number. Thread-safe."""

    def __init__(self) -> None:
        self._open: dict[int, list[tuple[Any, int]]] = {}  # by thread: regions with their begins
        self._ended: list[tuple[Any, int, int]] = []

    def enter(self, region: Any) -> None:
        if not region._profiler._enabled:
            return
        self._open.setdefault(get_ident(), []).append((region, time.time_ns()))

    def leave(self) -> None:
        spans = self._open.get(get_ident())
        if spans:
            region, start_ns = spans.pop()
            if not spans and len(self._ended) < _MOST:
                self._ended.append((region, start_ns, time.time_ns() - start_ns))

    def move_to(self, profiler: Any) -> bool:
        """Adds the spans to the step that has begun. Returns whether they are a pass of the loop."""
        ended, self._ended = self._ended, []
        for region, start_ns, duration_ns in ended:
            profiler.add_span(region.name, start_ns, duration_ns)
        words = {word for region, _, _ in ended for word in re.split("[^a-z]+", region.name.lower())}
        return not words.isdisjoint(_WORDS_OF_A_PASS)


CLOSE_TIMEOUT_S = 5.0


def milliseconds(timeout: float) -> int:
    """Converts a timeout in seconds to libcep's milliseconds."""
    if not 0 <= timeout <= INT64_MAX / 1e6:
        raise OptionError(EINVAL, f"timeout: seconds of at least 0 are needed, not {timeout!r}")
    return int(timeout * 1000)


def close_handle(handle: c_void_p, recording: list[bool]) -> None:
    """Closes a profiler when it is garbage-collected or the interpreter exits."""
    recording.clear()
    _ffi.close(handle, milliseconds(CLOSE_TIMEOUT_S))


def close_at_end_of_worker(handle: c_void_p, recording: list[bool]) -> None:
    """Has a worker process of multiprocessing close its profiler before it exits.

    A forked worker exits by os._exit(), before which only multiprocessing's own finalizers run.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    util = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None and util is not None and multiprocessing.parent_process() is not None:
        util.Finalize(None, close_handle, (handle, recording), exitpriority=0)


open_profilers: weakref.WeakSet[Any] = weakref.WeakSet()


os.register_at_fork(after_in_child=lambda: [profiler._turn_off() for profiler in open_profilers])
