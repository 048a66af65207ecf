# SPDX-License-Identifier: Apache-2.0
"""build_profiler(): torch.profiler over a window of steps, one trace for each rank; and print_profiler_summary()."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from .._command import run_command
from .._errors import EOPTION, OptionError, warn, warned
from .._life import Handle, write_whole
from .._options import own_rank, rank_and_size
from ._pytorch import torch

OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "activities")
_SUMMARY_TIMEOUT_S = 120.0
_LONGEST, _MOST_FLOPS = 30, 20
_BY_DEFAULT = {"record_shapes": True, "profile_memory": True, "with_flops": True}  # FLOPs are counted from shapes
_OWN = ("enable", "ranks", "start_step", "end_step", "directory", "trace_dir", "output_dir", "world_size", "tensorboard")
_KEYS = frozenset((*_OWN, *OPTIONS))
_DEFAULTS = {"start_step": 0, "end_step": 1, "directory": "torch_profiler"}
_OF_KEMPNERFORGE = {"start_step": 5, "end_step": 8, "directory": "profiler_traces"}


class Capture:
    """One run of torch.profiler: first warm-up steps, whose events are discarded, then the steps of the trace, which is written
    to a path on a thread of its own: it takes seconds. Then `then` is called there.

    For the trainer's thread. Raises nothing: a failure is a warning and ends the run.
    """

    def __init__(
        self, warmup_steps: int, steps: int, options: Mapping[str, Any], path: Path, then: Callable[[], object]
    ) -> None:
        self._steps_left = warmup_steps + steps
        self._schedule = torch.profiler.schedule(wait=0, warmup=warmup_steps, active=steps, repeat=1)
        self._options, self._path, self._then = dict(options), path, then
        self._profiler: Any = None
        self._exporter: Optional[threading.Thread] = None
        self.traced: Any = None
        """torch.profiler with its events, once it has stopped."""

    @property
    def running(self) -> bool:
        return self._profiler is not None

    def start(self) -> bool:
        """Call it at the begin of the first step. False if torch.profiler does not start, or runs already."""
        if torch._C._autograd._profiler_enabled():  # there can be only one in a process
            warn("torch.profiler runs already, so cep makes no trace")
            return False
        with warned("torch.profiler does not start"):
            profiler = torch.profiler.profile(schedule=self._schedule, **self._options)
            profiler.start()
            self._profiler = profiler
        return self.running

    def step(self) -> None:
        """Call it at the end of each step. The last one ends the run."""
        self._steps_left -= 1
        if self._steps_left == 0:
            self.stop()
            return
        profiler, self._profiler = self._profiler, None
        with warned("torch.profiler"):
            profiler.step()
            self._profiler = profiler

    def stop(self) -> None:
        """Ends the run now, if it runs."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        with warned("torch.profiler does not stop"):
            profiler.stop()
            self.traced = profiler
            # Not a daemon thread, so that the process waits for it at its exit.
            self._exporter = threading.Thread(target=self._export, args=(profiler,), name="cep-trace")
            self._exporter.start()

    def join(self) -> None:
        """Waits until the trace is written."""
        if self._exporter is not None:
            self._exporter.join()

    def _export(self, profiler: Any) -> None:
        with warned(f"{self._path}: no trace"):
            write_whole(self._path, lambda path: profiler.export_chrome_trace(str(path)))
            self._then()


class TraceOptions(NamedTuple):
    """What build_profiler() takes from its configuration."""

    start_step: int
    end_step: int
    directory: Path
    ranks: Optional[tuple[int, ...]]
    world_size: Optional[int]
    options: Mapping[str, Any]
    tensorboard: bool

    def path(self, rank: int) -> Path:
        return self.directory / (f"rank_{rank}.pt.trace.json" if self.tensorboard else f"rank_{rank}_trace.json")


def _listed_ranks(ranks: Any) -> Optional[tuple[int, ...]]:
    """None for all ranks. Trainers' configurations have a number for one rank, and "all", too."""
    if ranks is None or ranks == "all":
        return None
    listed = [ranks] if isinstance(ranks, int) else ranks
    try:
        return tuple(sorted({int(rank) for rank in listed}))
    except (TypeError, ValueError):
        raise OptionError(EOPTION, f"ranks: a list of ranks is needed, not {ranks!r}") from None


def trace_options(config: Any, defaults: Mapping[str, Any] = _DEFAULTS) -> Optional[TraceOptions]:
    """The options in a configuration, checked; None where it is off."""
    given = config if isinstance(config, Mapping) else {key: getattr(config, key, None) for key in _KEYS}
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise OptionError(EOPTION, f"{unknown[0]}: not an option of build_profiler: {', '.join(sorted(_KEYS))}")
    values = {key: value for key, value in given.items() if value is not None}
    if not values.get("enable", bool(values)):
        return None
    start, end = values.get("start_step"), values.get("end_step")
    if start is None:  # an end before the default begin is that of the first steps
        start = 0 if isinstance(end, int) and end <= defaults["start_step"] else defaults["start_step"]
    if end is None:
        end = start + defaults["end_step"] - defaults["start_step"]
    for name, value in (("start_step", start), ("end_step", end)):
        if not isinstance(value, int) or value < 0:
            raise OptionError(EOPTION, f"{name}: a whole number of at least 0 is needed, not {value!r}")
    if end <= start:
        raise OptionError(EOPTION, f"end_step: {end} is exclusive, and not after start_step {start}")
    directory = values.get("directory") or values.get("trace_dir")
    directory = directory or Path(values.get("output_dir", ".")) / defaults["directory"]
    ranks = _listed_ranks(values.get("ranks"))
    options = {key: values[key] for key in OPTIONS if key in values}
    world_size, tensorboard = values.get("world_size"), bool(values.get("tensorboard"))
    return TraceOptions(start, end, Path(directory), ranks, world_size, options, tensorboard)


def run_kernels(directory: Path, *options: str) -> Optional[str]:
    """Runs ``cep kernels`` over a directory of traces. Returns what it prints; None, with a warning, if that fails."""
    try:
        done = run_command("kernels", *options, str(directory), timeout_s=_SUMMARY_TIMEOUT_S)
    except FileNotFoundError:
        warn(f"no cep command is found, so there is no summary of the traces in {directory}")
    except (OSError, subprocess.SubprocessError) as error:
        warn(f"cep kernels: {error}")
    else:
        if done.returncode == 0:
            return done.stdout
        warn(f"cep kernels ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return None


def summarize_traces(directory: Path, into: Optional[Path] = None) -> bool:
    """Writes ``summary.md`` of a directory of traces, there or elsewhere. Returns False, with a warning, if that
    fails."""
    return run_kernels(directory, "-o", str((into or directory) / "summary.md")) is not None


class TraceProfiler(Handle):
    """What build_profiler() returns. It has the methods of torch.profiler.profile that trainers use, and they raise
    nothing. Keeps the events of its trace, in host memory, until it is deleted. For the trainer's thread."""

    def __init__(self, options: Optional[TraceOptions], rank: int, ranks: tuple[int, ...]) -> None:
        self._options = options
        self._rank = rank
        self._ranks = ranks
        self._next_step = 0
        self._capture: Optional[Capture] = None
        self._is_over = options is None

    @property
    def enabled(self) -> bool:
        """Whether this rank is traced."""
        return self._options is not None

    def __bool__(self) -> bool:
        return self.enabled

    @property
    def directory(self) -> Optional[Path]:
        """Where the traces are; None where this rank is not traced."""
        return None if self._options is None else self._options.directory

    def key_averages(self, *args: Any, **options: Any) -> Any:
        """torch.profiler.profile.key_averages() of the traced steps. Call it after stop().

        Raises:
            RuntimeError: No step was traced: the job ended before the window, or the profiler failed and said so.
        """
        if self._capture is None or self._capture.traced is None:
            raise RuntimeError("no step was traced, so there are no averages")
        return self._capture.traced.key_averages(*args, **options)

    def start(self, first_step: int = 0) -> None:
        """Call it before the first step, whose number a resumed job passes."""
        self._next_step = first_step
        self._start_capture()

    def step(self) -> None:
        """Call it at the end of each step. Outside the window it only counts."""
        if self._is_over:
            return
        self._next_step += 1
        if self._capture is None:
            self._start_capture()
            return
        self._capture.step()
        self._is_over = not self._capture.running

    def stop(self) -> None:
        """Ends tracing. A trace that is under way is written with the steps that it has so far. Waits for the trace and
        the summary."""
        self._is_over = True
        if self._capture is not None:
            self._capture.stop()
            self._capture.join()
            if self._capture.traced is not None:
                self._summarize_if_missing()

    def __enter__(self) -> TraceProfiler:
        self.start()
        return self

    _end = stop

    def _start_capture(self) -> None:
        options, step = self._options, self._next_step
        if options is None or step < options.start_step - 1:
            return
        if step >= options.end_step:
            self._is_over = True
            return
        warmup = max(0, options.start_step - step)
        steps = options.end_step - step - warmup
        capture = Capture(warmup, steps, options.options, options.path(self._rank), self._summarize_if_last)
        self._is_over = not capture.start()
        self._capture = None if self._is_over else capture

    def _summarize_if_last(self) -> None:
        """The last rank summarises all. If several are last at the same time, they write the same."""
        if self._options is not None and all(self._options.path(rank).exists() for rank in self._ranks):
            summarize_traces(self._options.directory)

    def _summarize_if_missing(self) -> None:
        """Makes the summary if no rank has seen all traces, because a rank died or the directory is not shared."""
        directory = self.directory
        if directory is not None and self._rank == self._ranks[0] and not (directory / "summary.md").exists():
            if any(directory.glob("rank_*trace.json")):
                summarize_traces(directory)


def build_profiler(
    config: Union[None, Mapping[str, Any], Any], rank: Optional[int] = None, world_size: Optional[int] = None
) -> TraceProfiler:
    """Traces a window of steps with torch.profiler. Call the result's step() at the end of each step::

        with cep.torch.build_profiler({"start_step": 100, "end_step": 103, "ranks": [0, 5]}) as tracer:
            for step, batch in enumerate(loader):
                ...
                tracer.step()

    Step start_step − 1 is for the warm-up: it is profiled, and its events are discarded. Before it and after the
    window, step() only counts. The trace is ``<directory>/rank_<rank>_trace.json`` in the Chrome format, written on a
    background thread. Once the traces of all ranks exist, ``cep kernels`` makes ``<directory>/summary.md`` of them;
    without a cep command there is a warning instead.

    Args:
        config: A mapping, or an object with attributes, of: ``enable`` (default: whether there is anything in it),
            ``ranks`` (a list, one rank, or "all", which is the default), ``start_step`` (default 0), ``end_step``
            (exclusive; default one step), ``directory`` or ``trace_dir`` (default ``torch_profiler`` in ``output_dir``,
            by default the working directory), ``world_size``, ``tensorboard`` (True: files are named
            ``rank_<rank>.pt.trace.json``, as TensorBoard's plugin for PyTorch finds them), and torch.profiler.profile's
            ``record_shapes``, ``profile_memory`` and ``with_flops`` (which are on by default), ``with_stack``,
            ``with_modules`` and ``activities``. None is off.
        rank: This process's rank. None: that of torch.distributed, else the launcher's, else 0.
        world_size: Number of ranks. None: the configuration's, else that of torch.distributed, else the launcher's, else
            rank + 1.

    Returns:
        A TraceProfiler, which does nothing where it is off and on a rank that is not listed.

    Raises:
        OptionError: An option is unknown or its value invalid.
    """
    return _build(config, rank, world_size, _DEFAULTS)


def build_kempnerforge_profiler(
    config: Union[None, Mapping[str, Any], Any], rank: Optional[int] = None, world_size: Optional[int] = None
) -> TraceProfiler:
    """As build_profiler(), with KempnerForge's defaults: the steps 5 to 8 (exclusive), and ``profiler_traces``."""
    return _build(config, rank, world_size, _OF_KEMPNERFORGE)


def _build(config: Any, given_rank: Optional[int], world_size: Optional[int], defaults: Mapping[str, Any]) -> TraceProfiler:
    options = trace_options(config, defaults)
    rank = own_rank() if given_rank is None else given_rank
    if options is None or (options.ranks is not None and rank not in options.ranks):
        return TraceProfiler(None, rank, ())
    options = options._replace(options={**_BY_DEFAULT, **options.options})
    size = world_size or options.world_size or max(rank_and_size()[1], rank + 1)
    return TraceProfiler(options, rank, options.ranks or tuple(range(size)))


def print_profiler_summary(prof: Optional[TraceProfiler], trace_dir: Union[None, str, "os.PathLike[str]"] = None) -> None:
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
        summarize_traces(prof.directory, Path(trace_dir))


def _operators(averages: Any) -> str:
    device_us = float(sum(event.self_device_time_total or 0 for event in averages))
    flops = sum(event.flops or 0 for event in averages)
    sort_by, clock = ("self_cuda_time_total", "GPU") if device_us > 0 else ("self_cpu_time_total", "CPU")
    parts = [f"Operators by their own {clock} time:", averages.table(sort_by=sort_by, row_limit=_LONGEST)]
    if flops > 0:
        parts += ["Operators by FLOPs:", averages.table(sort_by="flops", row_limit=_MOST_FLOPS)]
        rate = f", {flops / device_us / 1e6:.4g} TFLOP/s while kernels ran" if device_us > 0 else ""
        parts.append(f"FLOPs of the traced steps: {flops / 1e12:.4g} TFLOP{rate}")
    return "\n".join(parts)
