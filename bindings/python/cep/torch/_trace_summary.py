# SPDX-License-Identifier: Apache-2.0
"""print_profiler_summary() as trainers have it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional, Union

from .._messages import warn
from ._trace import TraceProfiler, run_kernels

_LONGEST, _MOST_FLOPS = 30, 20


def print_profiler_summary(
    prof: Optional[TraceProfiler], trace_dir: Union[None, str, "os.PathLike[str]"] = None
) -> None:
    """Prints the longest operators of this rank, those with the most FLOPs, and what all traced GPUs did. Call it after
    stop(), on one rank.

    Args:
        prof: What build_profiler() returned. One that is off, or None, prints nothing.
        trace_dir: Also write ``summary.md`` there, of the traces that there are now.
    """
    if prof is None or prof.directory is None:
        return
    try:
        averages = prof.key_averages()
    except RuntimeError as error:
        warn(f"no summary: {error}")
        return
    print(_operators(averages))
    breakdown = run_kernels(prof.directory)
    if breakdown is None:
        return
    print(f"\nGPU time of the traces in {prof.directory}:\n\n{breakdown}", end="")
    if trace_dir is not None:
        Path(trace_dir).mkdir(parents=True, exist_ok=True)
        run_kernels(prof.directory, "-o", str(Path(trace_dir) / "summary.md"))


def _operators(averages: Any) -> str:
    device_us = float(sum(event.self_device_time_total or 0 for event in averages))
    flops = sum(event.flops or 0 for event in averages)
    sort_by, clock = ("self_cuda_time_total", "GPU") if device_us > 0 else ("self_cpu_time_total", "CPU")
    parts = [f"Operators by their own {clock} time:", averages.table(sort_by=sort_by, row_limit=_LONGEST)]
    if flops > 0:
        parts += ["Operators by FLOPs:", averages.table(sort_by="flops", row_limit=_MOST_FLOPS)]
        parts.append(f"FLOPs of the traced steps: {flops / 1e12:.4g} TFLOP{_rate(flops, device_us)}")
    return "\n".join(parts)


def _rate(flops: float, device_us: float) -> str:
    return f", {flops / device_us / 1e6:.4g} TFLOP/s while kernels ran" if device_us > 0 else ""
