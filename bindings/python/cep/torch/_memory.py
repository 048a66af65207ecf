# SPDX-License-Identifier: Apache-2.0
"""Records the state of PyTorch's CUDA allocator as counters."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Mapping, Optional

from .._profiler import Profiler
from ._pytorch import torch

_POOLS = {
    "memory.allocated_bytes": ("allocated_bytes", "current"),
    "memory.reserved_bytes": ("reserved_bytes", "current"),
    "memory.active_bytes": ("active_bytes", "current"),
    "memory.inactive_split_bytes": ("inactive_split_bytes", "current"),
    "memory.peak_allocated_bytes": ("allocated_bytes", "peak"),
    "memory.peak_reserved_bytes": ("reserved_bytes", "peak"),
}
_EVENTS = {"memory.alloc_retries": "num_alloc_retries", "memory.ooms": "num_ooms"}

# torch.cuda.memory_allocated() and similar calls first make a flat dict of all statistics: they take ten times as long.
_read_stats: Optional[Callable[[int], Mapping[str, Any]]] = getattr(torch._C, "_cuda_memoryStats", None)


# Those that were told how much memory their device has.
_told: weakref.WeakSet[Profiler] = weakref.WeakSet()


def _device_bytes(device: int) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory)


def memory_counters(stats: Mapping[str, Any]) -> dict[str, int]:
    """The counters that the allocator's statistics have. Their nesting is that of torch._C._cuda_memoryStats()."""
    counters = {}
    for name, (pool, which) in _POOLS.items():
        if pool in stats:
            counters[name] = int(stats[pool]["all"][which])
    for name, key in _EVENTS.items():
        if key in stats:
            counters[name] = int(stats[key])
    return counters


def record_memory(profiler: Profiler, device: Optional[int] = None) -> bool:
    """Records the state of PyTorch's CUDA allocator as counters of the current step, if it is recorded.

    ``memory.allocated_bytes`` (in tensors), ``memory.reserved_bytes`` (held from the driver), ``memory.active_bytes``
    (allocated, or freed and still in use by a stream), ``memory.inactive_split_bytes`` (free parts of split blocks,
    which fragmentation keeps from being returned), ``memory.peak_allocated_bytes`` and ``memory.peak_reserved_bytes``
    (since the process started, or torch.cuda.reset_peak_memory_stats()), ``memory.alloc_retries`` and ``memory.ooms``
    (counts since the process started; a retry frees the cache and synchronises the device); and once for a profiler
    ``memory.device_bytes``, of the device.

    Reads host memory only: no CUDA call, no wait. instrument() calls it after each recorded optimizer step.

    Args:
        profiler: The profiler.
        device: A CUDA device's index; None: that of the instrumented model, or else the current one.

    Returns:
        Whether there was anything to record: a recorded step, and a process that uses CUDA.

    Thread-safe.
    """
    if not profiler.recording or _read_stats is None or not torch.cuda.is_initialized():
        return False
    if device is None:
        device = torch.cuda.current_device() if profiler._device is None else profiler._device
    stats = _read_stats(device)
    if profiler not in _told:
        _told.add(profiler)
        profiler.counter("memory.device_bytes", _device_bytes(device))
    for name, value in memory_counters(stats).items():
        profiler.counter(name, value)
    return True
