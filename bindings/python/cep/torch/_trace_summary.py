# SPDX-License-Identifier: Apache-2.0
"""build_profiler() and print_profiler_summary() as trainers have them: None where it is off, and a printed summary."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, Optional, Union

from ._capture import warn
from ._trace import TraceOptions, TraceProfiler, rank_or_own, run_kernels, trace_options, traced_ranks

# What the trainers' own build_profiler() turns on. FLOPs are counted from shapes.
_OPTIONS = {"record_shapes": True, "profile_memory": True, "with_flops": True}
_LONGEST, _MOST_FLOPS = 30, 20


class SummarizedTrace(TraceProfiler):
    """What cep.compat.build_profiler() returns: a TraceProfiler that keeps the events of its trace, in host memory, until
    it is deleted."""

    def __init__(self, options: TraceOptions, rank: int, ranks: tuple[int, ...]) -> None:
        super().__init__(options, rank, ranks)
        self.directory = options.directory
        """Where the traces are."""
        self._traced: Any = None

    def key_averages(self, *args: Any, **options: Any) -> Any:
        """torch.profiler.profile.key_averages() of the traced steps. Call it after stop().

        Raises:
            RuntimeError: No step was traced: the job ended before the window, or the profiler failed and said so.
        """
        if self._traced is None:
            raise RuntimeError("no step was traced, so there are no averages")
        return self._traced.key_averages(*args, **options)

    def _finish(self, stopped: Any) -> None:
        self._traced = stopped
        super()._finish(stopped)


def build_profiler(
    config: Union[None, Mapping[str, Any], Any], rank: Optional[int] = None, world_size: Optional[int] = None
) -> Optional[SummarizedTrace]:
    """cep.torch.build_profiler() with the manners of the function of that name in trainers.

    It differs from that of cep.torch in three things: the result is None where there is nothing to trace; the result has
    key_averages(); and shapes, memory and FLOPs are recorded unless the configuration says otherwise.

    Args:
        config: As for cep.torch.build_profiler(). ``trace_dir`` is where traces and summary go.
        rank: As for cep.torch.build_profiler(); so is world_size.

    Returns:
        None if the configuration does not enable it, or does not list this rank.

    Raises:
        cep.OptionError: An option is unknown or its value invalid. It is a ValueError.
    """
    options = trace_options(config)
    rank = rank_or_own(rank)
    if options is None or (options.ranks is not None and rank not in options.ranks):
        return None
    options = options._replace(options={**_OPTIONS, **options.options})
    return SummarizedTrace(options, rank, traced_ranks(options, rank, world_size))


def print_profiler_summary(
    prof: Optional[SummarizedTrace], trace_dir: Union[None, str, "os.PathLike[str]"] = None
) -> None:
    """Prints the longest operators of this rank, those with the most FLOPs, and what all traced GPUs did. Call it after
    stop(), on one rank.

    Args:
        prof: What build_profiler() returned. None prints nothing.
        trace_dir: Also write ``summary.md`` there, of the traces that there are now.
    """
    if prof is None:
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
    device_us = sum(_device_us(event) for event in averages)
    flops = sum(event.flops or 0 for event in averages)
    sort_by, clock = ("self_cuda_time_total", "GPU") if device_us > 0 else ("self_cpu_time_total", "CPU")
    parts = [f"Operators by their own {clock} time:", averages.table(sort_by=sort_by, row_limit=_LONGEST)]
    if flops > 0:
        parts += ["Operators by FLOPs:", averages.table(sort_by="flops", row_limit=_MOST_FLOPS)]
        parts.append(f"FLOPs of the traced steps: {flops / 1e12:.4g} TFLOP{_rate(flops, device_us)}")
    return "\n".join(parts)


def _rate(flops: float, device_us: float) -> str:
    return f", {flops / device_us / 1e6:.4g} TFLOP/s while kernels ran" if device_us > 0 else ""


def _device_us(event: Any) -> float:
    """An event's own time on the GPU; PyTorch 2.3 and earlier name it after CUDA."""
    return float(getattr(event, "self_device_time_total", None) or getattr(event, "self_cuda_time_total", 0) or 0)
