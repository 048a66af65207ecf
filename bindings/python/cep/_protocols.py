# SPDX-License-Identifier: Apache-2.0
"""What the parts of a profiler use of it. They name these protocols, so that none of them imports the profiler."""

from __future__ import annotations

from ctypes import c_void_p
from typing import Callable, Optional, Protocol


class RegionOwner(Protocol):
    """The profiler, as its regions use it."""

    _recording: list[bool]
    """Not empty while recording. Always the same list."""
    _on_host: bool
    """Whether every span is on the host clock."""
    _current_stream: Callable[[], c_void_p]
    """Returns the stream for spans that name none."""


class StepCounter(Protocol):
    """The profiler, as an iteration that counts its steps uses it."""

    def step(self, step: Optional[int] = None) -> None: ...


class ForkAware(Protocol):
    """The profiler, as a fork of its process uses it."""

    def _turn_off_after_fork(self) -> None: ...
