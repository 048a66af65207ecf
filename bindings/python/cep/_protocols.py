# SPDX-License-Identifier: Apache-2.0
"""What the parts of a profiler use of it. They name these protocols, so that none of them imports the profiler."""

from __future__ import annotations

from typing import Optional, Protocol


class StepCounter(Protocol):
    """The profiler, as an iteration that counts its steps uses it."""

    def step(self, step: Optional[int] = None) -> None: ...


class ForkAware(Protocol):
    """The profiler, as the end or a fork of its process uses it."""

    def _turn_off_after_fork(self) -> None: ...
