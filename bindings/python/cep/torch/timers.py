# SPDX-License-Identifier: Apache-2.0
"""Stopwatches for CUDA time: for a quick measurement, not for weeks of training.

They write no rows, and reading one waits for the device. A cep.Profiler writes rows, and does not wait.
"""

from __future__ import annotations

import time
from typing import Any, Iterable

from ._pytorch import torch


class _HostEvent:
    """In place of a CUDA event if there is no CUDA: the host clock."""

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
    """Times the work between start() and stop(). Each uses the stream that is current when it is called.

    Without CUDA it reads the host clock. Neither start() nor stop() waits for the device; elapsed_ms() waits for the
    timed work. Starting again begins a new measurement. Not thread-safe: use one timer for each thread.
    """

    __slots__ = ("_start", "_stop", "_is_stopped")

    def __init__(self) -> None:
        self._start: Any = None  # made at the first start(), so that no CUDA context is made before
        self._stop: Any = None
        self._is_stopped = False

    def start(self) -> None:
        """Records the beginning."""
        if self._start is None:
            self._start, self._stop = _new_event(), _new_event()
        self._start.record()
        self._is_stopped = False

    def stop(self) -> None:
        """Records the end. Without a start() before it, it does nothing."""
        if self._stop is not None:
            self._stop.record()
            self._is_stopped = True

    def elapsed_ms(self) -> float:
        """The time between start() and stop() in milliseconds. Waits until the device has passed stop().

        0.0 if nothing was timed: no start(), or no stop() since.
        """
        if not self._is_stopped:
            return 0.0
        self._stop.synchronize()
        return float(self._start.elapsed_time(self._stop))


class CUDATimerCollection:
    """A CUDATimer for each of several named regions. A call for a region of another name raises a KeyError.

    Args:
        regions: Their names.
        enabled: False: no method does anything, and every time is 0.0. For timers that stay in the code.
    """

    def __init__(self, regions: Iterable[str], enabled: bool = True) -> None:
        self.enabled = enabled
        self._timers = {region: CUDATimer() for region in regions}

    def start(self, region: str) -> None:
        """Starts a region's timer."""
        if self.enabled:
            self._timers[region].start()

    def stop(self, region: str) -> None:
        """Stops a region's timer."""
        if self.enabled:
            self._timers[region].stop()

    def elapsed_ms(self, region: str) -> float:
        """A region's last time in milliseconds; 0.0 if it was not timed. Waits for the device."""
        return self._timers[region].elapsed_ms() if self.enabled else 0.0

    def elapsed_all(self) -> dict[str, float]:
        """Each region's last time in milliseconds, in the order of the regions as given. Waits for the device."""
        return {region: self.elapsed_ms(region) for region in self._timers}
