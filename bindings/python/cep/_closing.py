# SPDX-License-Identifier: Apache-2.0
"""Ends profilers that the trainer did not close: when collected, at the interpreter's or a worker's exit, in forks."""

from __future__ import annotations

import os
import sys
import weakref
from ctypes import c_void_p
from typing import Any

from . import _ffi
from ._attributes import INT64_MAX
from ._errors import EINVAL, OptionError

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


def _after_fork_in_child() -> None:
    for profiler in open_profilers:
        profiler._turn_off_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
