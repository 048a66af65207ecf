# SPDX-License-Identifier: Apache-2.0
"""Records the state of PyTorch's CUDA allocator as counters, and its own snapshot when memory runs out."""

from __future__ import annotations

import pickle
import weakref
from pathlib import Path
from typing import Any, Callable, Mapping, Optional

from .._errors import warned
from .._life import write_whole
from .._options import PathText, own_rank
from .._profiler import Profiler
from ._pytorch import note_failure, torch

_POOLS = {
    "current": ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes"),
    "peak": ("allocated_bytes", "reserved_bytes"),
}
_EVENTS = {"memory.alloc_retries": "num_alloc_retries", "memory.ooms": "num_ooms"}

# torch.cuda.memory_allocated() and similar calls first make a flat dict of all statistics: they take ten times as long.
_read_stats: Optional[Callable[[int], Mapping[str, Any]]] = getattr(torch._C, "_cuda_memoryStats", None)


def _device_bytes(device: int) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory)


def _stats_of(profiler: Profiler, device: Optional[int] = None) -> Optional[tuple[int, Mapping[str, Any]]]:
    """A device, and the allocator's statistics; None on a step that is not recorded, or where the process does not use CUDA."""
    if not profiler._recording or _read_stats is None or not torch.cuda.is_initialized():
        return None
    if device is None:
        device = torch.cuda.current_device() if profiler._device is None else profiler._device
    return device, _read_stats(device)


def memory_counters(stats: Mapping[str, Any]) -> dict[str, int]:
    """The counters that the allocator's statistics have. Their nesting is that of torch._C._cuda_memoryStats()."""
    counters = {name: int(stats[key]) for name, key in _EVENTS.items() if key in stats}
    for which, pools in _POOLS.items():
        prefix = "memory." if which == "current" else "memory.peak_"
        counters.update((prefix + pool, int(stats[pool]["all"][which])) for pool in pools if pool in stats)
    return counters


def record_memory(profiler: Profiler, device: Optional[int] = None) -> bool:
    """Records the state of PyTorch's CUDA allocator as counters of the current step, if it is recorded.

    ``memory.allocated_bytes`` (in tensors), ``memory.reserved_bytes`` (held from the driver), ``memory.active_bytes``
    (allocated, or freed and still in use by a stream), ``memory.inactive_split_bytes`` (free parts of split blocks,
    which fragmentation keeps from being returned), ``memory.peak_allocated_bytes`` and ``memory.peak_reserved_bytes``
    (since the process started, or torch.cuda.reset_peak_memory_stats()), ``memory.alloc_retries`` and ``memory.ooms``
    (counts since the process started; a retry frees the cache and synchronises the device); and once for a profiler
    ``memory.device_bytes``, of the device.

    Reads host memory only: no CUDA call, no wait. It takes up to 75 µs, so instrument() calls it after a recorded optimizer
    step at most once a second.

    Args:
        profiler: The profiler.
        device: A CUDA device's index; None: that of the instrumented model, or else the current one.

    Returns:
        Whether there was anything to record: a recorded step, and a process that uses CUDA.

    Thread-safe.
    """
    found = _stats_of(profiler, device)
    if found is None:
        return False
    device, stats = found
    counters = memory_counters(stats)
    if not profiler._has_device_bytes:
        profiler._has_device_bytes = True
        counters["memory.device_bytes"] = _device_bytes(device)
    for name, value in counters.items():
        profiler.counter(name, value)
    return True


def phase_peaks(profiler: Profiler) -> Callable[[str], None]:
    """What records the most memory in a phase at its end, as a counter ``memory.peak_bytes.<phase>``. The next phase
    begins with what is allocated then: PyTorch's peaks are reset."""
    failures: list[Exception] = []

    def end(phase: str) -> None:
        try:
            found = None if failures else _stats_of(profiler)
            if found is not None and "allocated_bytes" in found[1]:
                device, stats = found
                profiler.counter(f"memory.peak_bytes.{phase}", int(stats["allocated_bytes"]["all"]["peak"]))
                torch.cuda.reset_peak_memory_stats(device)
        except Exception as error:
            failures.append(error)
            note_failure(error)

    return end


def snapshot_on_oom(
    directory: Optional[PathText] = None, *, profiler: Optional[Profiler] = None, history: int = 100_000
) -> Optional[Path]:
    """Has PyTorch's snapshot of its memory written when an allocation on a GPU fails, once in this process::

        cep.torch.snapshot_on_oom(profiler=prof)  # beside the rank file
        cep.torch.snapshot_on_oom("output/memory")

    The file is ``cuda_memory_rank_<rank>.pickle``, for https://pytorch.org/memory_viz. With a profiler there is also a mark
    ``out_of_memory`` that names it, which ``cep summarize`` shows. The allocation fails as without this.

    Args:
        directory: Where the file goes. None: the profiler's directory.
        profiler: The profiler that gets the mark. Where it is off, nothing is changed.
        history: How many allocations PyTorch notes from now on, with the stack of each, which costs a trainer a few
            microseconds for each allocation. 0: the snapshot has what is allocated, and not by whom.

    Returns:
        The path that the snapshot gets; None where nothing is changed: without CUDA.
    """
    if profiler is not None and (not profiler.enabled or profiler.path is None):
        return None
    rank = own_rank() if profiler is None else profiler.rank
    if directory is None and profiler is None:
        raise TypeError("snapshot_on_oom() needs a directory or a profiler")
    folder = profiler.path.parent if directory is None else Path(directory)  # type: ignore[union-attr]
    if not torch.cuda.is_available():
        return None
    path = folder.absolute() / f"cuda_memory_rank_{rank}.pickle"
    if history > 0:
        torch.cuda.memory._record_memory_history(max_entries=history)
    torch.cuda.init()
    torch._C._cuda_attach_out_of_memory_observer(_snapshot_writer(path, profiler))
    return path


def _snapshot_writer(path: Path, profiler: Optional[Profiler]) -> Callable[..., None]:
    """What PyTorch calls before an allocation fails."""
    known = None if profiler is None else weakref.ref(profiler)
    left = [True]

    def write(*sizes: Any) -> None:
        if left and left.pop():
            with warned("no snapshot of the memory"):
                write_whole(path, lambda temporary: temporary.write_bytes(pickle.dumps(torch.cuda.memory._snapshot())))
                found = None if known is None else known()
                if found is not None:
                    found.mark(f"out_of_memory, see {path.name}")

    return write
