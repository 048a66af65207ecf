# SPDX-License-Identifier: Apache-2.0
"""Stopwatches of CUDA time that are read where they are used: for a question now, not for weeks of rows.

They write no row, and reading one waits for the device; a cep.Profiler does neither.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Optional

from ._pytorch import torch


class _HostEvent:
    """Stands for a CUDA event where there is no CUDA: the host's clock."""

    def __init__(self) -> None:
        self._recorded_ns = 0

    def record(self) -> None:
        self._recorded_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: _HostEvent) -> float:
        return (end._recorded_ns - self._recorded_ns) / 1e6


def _new_event() -> Any:
    return torch.cuda.Event(enable_timing=True) if torch.cuda.is_available() else _HostEvent()


class CUDATimer:
    """Times what lies between start() and stop() on the stream that is current at each.

    Without CUDA it reads the host's clock. Neither start() nor stop() waits for the device; elapsed_ms() waits for what
    was timed. Starting again begins a new measurement. Not thread-safe: one timer for each thread.
    """

    __slots__ = ("_start", "_stop", "_state")

    def __init__(self) -> None:
        self._start: Optional[Any] = None  # made at the first start(): no CUDA context before it
        self._stop: Optional[Any] = None
        self._state = "unused"

    def start(self) -> None:
        """Records the beginning."""
        if self._start is None:
            self._start, self._stop = _new_event(), _new_event()
        self._start.record()
        self._state = "started"

    def stop(self) -> None:
        """Records the end. Without a start() before it, it does nothing."""
        if self._state == "unused":
            return
        assert self._stop is not None
        self._stop.record()
        self._state = "stopped"

    def elapsed_ms(self) -> float:
        """Waits until the device has passed the end; then the time between, in milliseconds.

        0.0 where nothing was timed: no start(), or no stop() since.
        """
        if self._state != "stopped":
            return 0.0
        assert self._start is not None and self._stop is not None
        self._stop.synchronize()
        return float(self._start.elapsed_time(self._stop))


class CUDATimerCollection:
    """A CUDATimer for each of several named regions.

    Args:
        regions: Their names.
        enabled: False: every method does nothing, and every time is 0.0; for timers that stay in the code.
    """

    def __init__(self, regions: Iterable[str], enabled: bool = True) -> None:
        self._enabled = enabled
        self._timers = {region: CUDATimer() for region in regions}

    @property
    def enabled(self) -> bool:
        """Whether anything is timed."""
        return self._enabled

    def start(self, region: str) -> None:
        """Begins to time a region.

        Raises:
            KeyError: There is no region of that name.
        """
        self._call(CUDATimer.start, region)

    def stop(self, region: str) -> None:
        """Ends it.

        Raises:
            KeyError: There is no region of that name.
        """
        self._call(CUDATimer.stop, region)

    def elapsed_ms(self, region: str) -> float:
        """A region's last time in milliseconds; 0.0 where it was not timed. Waits for the device.

        Raises:
            KeyError: There is no region of that name.
        """
        return self._timers[region].elapsed_ms() if self._enabled else 0.0

    def elapsed_all(self) -> dict[str, float]:
        """Each region's last time in milliseconds, in the order of their names as given. Waits for the device."""
        return {region: self.elapsed_ms(region) for region in self._timers}

    def _call(self, method: Callable[[CUDATimer], None], region: str) -> None:
        if self._enabled:
            method(self._timers[region])
