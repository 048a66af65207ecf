# SPDX-License-Identifier: Apache-2.0
"""The end of a profiler, however it comes: close(), collection, the interpreter's exit, a worker's end, a fork."""

from __future__ import annotations

import os
import sys
import weakref
from ctypes import c_void_p

from . import _ffi
from ._attributes import INT64_MAX
from ._errors import EINVAL, OptionError
from ._protocols import ForkAware

CLOSE_TIMEOUT_S = 5.0


def milliseconds(timeout: float) -> int:
    """A timeout in seconds as libcep takes it."""
    if not 0 <= timeout <= INT64_MAX / 1e6:
        raise OptionError(EINVAL, f"timeout: seconds of at least 0 are needed, not {timeout!r}")
    return int(timeout * 1000)


def close_handle(handle: c_void_p, recording: list[bool]) -> None:
    """What remains to be done when a profiler is collected or the interpreter exits."""
    recording.clear()
    _ffi.close(handle, milliseconds(CLOSE_TIMEOUT_S))


def close_at_end_of_worker(handle: c_void_p, recording: list[bool]) -> None:
    """A forked child of multiprocessing ends by os._exit(): only multiprocessing's own finalizers run there."""
    multiprocessing = sys.modules.get("multiprocessing")
    util = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None and util is not None and multiprocessing.parent_process() is not None:
        util.Finalize(None, close_handle, (handle, recording), exitpriority=0)


opened: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for profiler in opened:
        profiler._turn_off_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
