# SPDX-License-Identifier: Apache-2.0
"""Replacements for profilers that trainers have: the same calls, made with cep. Only the import changes.

CudaEventProfiler replaces the class of that name. It writes ``<directory>/cuda_events_rank_<rank>.jsonl``: a row for
each span with ``duration_ms``, ``name``, ``rank``, ``step``, the metadata given to record(), and the other keys of a
span.

CUDATimer, CUDATimerCollection, build_profiler() and print_profiler_summary() replace those of trainers that wrap
torch.profiler and torch.cuda.Event. They need PyTorch, which is imported when one of them is first used. build_profiler()
is that of cep.torch with KempnerForge's defaults: steps 5 to 7, and the directory ``profiler_traces``.
"""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

from ._errors import EOPTION, OptionError
from ._options import own_rank
from ._profiler import Profiler

if TYPE_CHECKING:
    from .torch._trace import build_kempnerforge_profiler as build_profiler, print_profiler_summary
    from .torch.timers import CUDATimer, CUDATimerCollection

__all__ = ["CUDATimer", "CUDATimerCollection", "CudaEventProfiler", "build_profiler", "print_profiler_summary"]

_WITH_TORCH = {
    "CUDATimer": ("timers", "CUDATimer"),
    "CUDATimerCollection": ("timers", "CUDATimerCollection"),
    "build_profiler": ("_trace", "build_kempnerforge_profiler"),
    "print_profiler_summary": ("_trace", "print_profiler_summary"),
}
_NO_SPAN: AbstractContextManager[Any] = nullcontext()
_DEFAULT_STRIDE = _DEFAULT_FLUSH_CADENCE = 10
_FLUSH_TIMEOUT_S = 30.0
_LAYOUTS = ("spans", "flat")


def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


class CudaEventProfiler:
    """Times named regions of a training step with CUDA events on the current stream, on sampled steps of chosen ranks::

        profiler = CudaEventProfiler(enable=True, directory=f"{output_dir}/cuda_event_profiler", rank=rank)
        for step, batch in enumerate(loader):
            with profiler.record("training_step", step=step, micro_step=0):
                train(batch)
            profiler.maybe_flush(step)
        profiler.close()

    It is off if ``enable`` is false, if the rank is not among ``ranks``, and, with a warning, if there is no CUDA. When
    off, it makes no file and no directory, and every call does nothing.

    Thread-safe.

    Args:
        enable: Whether to profile.
        directory: Where the rank file goes; made if absent. An existing file is appended to.
        rank: This process's rank. None: that of the process group, else the launcher's, else 0.
        profiler_config: ``start_step`` (0) and ``end_step`` (None: no end) of the window, both inclusive;
            ``record_every_n_steps`` (10), the stride from start_step; ``flush_every_n_steps`` (10), at whose multiples
            maybe_flush() flushes; ``ranks`` (None: all); ``backend``: "host" times on the host clock, with or without
            CUDA; ``layout``: "spans" (default), or "flat" for rows without the other keys of a span. A stride or
            cadence below 1 is taken as 1.

    Raises:
        cep.OptionError: A value is invalid. The message names it.
        cep.Error: The directory or the file cannot be made or written.
    """

    def __init__(
        self,
        enable: bool,
        directory: Union[str, "os.PathLike[str]"],
        rank: Optional[int] = None,
        profiler_config: Optional[Mapping[str, Any]] = None,
    ) -> None:
        config = dict(profiler_config or {})
        self.directory = directory
        self.rank = rank = own_rank() if rank is None else int(rank)
        self.start_step = int(config.get("start_step") or 0)
        end_step, ranks = config.get("end_step"), config.get("ranks")
        self.end_step = None if end_step is None else int(end_step)
        self.record_every_n_steps = max(int(config.get("record_every_n_steps", _DEFAULT_STRIDE)), 1)
        self.flush_every_n_steps = max(int(config.get("flush_every_n_steps", _DEFAULT_FLUSH_CADENCE)), 1)
        self.ranks = None if ranks is None else frozenset(int(listed) for listed in ranks)
        self.path = Path(directory) / f"cuda_events_rank_{rank}.jsonl"
        backend, layout = config.get("backend", "auto"), config.get("layout") or "spans"
        if layout not in _LAYOUTS:
            raise OptionError(EOPTION, f"layout: {layout!r} is not one of 'spans' and 'flat'")
        self.enable = bool(enable) and (self.ranks is None or rank in self.ranks)
        if self.enable and backend != "host" and not _has_cuda():
            warnings.warn("cep: CUDA is not available; the CUDA event profiler is off", RuntimeWarning, stacklevel=2)
            self.enable = False
        self._begin_lock = threading.Lock()
        named = ("enable", "directory", "rank", "start_step", "end_step", "record_every_n_steps", "flush_every_n_steps")
        options: dict[str, Any] = {name: getattr(self, name) for name in named}
        # The rows of this class do not hold world_size, so any value above the rank will do.
        options.update(world_size=rank + 1, local_rank=0, ranks=[rank], layout=layout, backend=backend)
        self._profiler = Profiler(None, **options)

    def should_record(self, step: int) -> bool:
        """Whether spans of a step are recorded: the profiler is on, and the step is in the window and on the stride.

        With ``CEP_MAX_OVERHEAD_PERCENT``, libcep may record fewer steps.
        """
        return self._profiler.enabled and self._profiler._sampling.records(step)

    def record(self, name: str, step: int, **metadata: Any) -> AbstractContextManager[Any]:
        """Times a region, as a context manager. If it raises, it is still recorded, and the exception passes through.

        Args:
            name: The row's name.
            step: The row's step.
            **metadata: Further keys of the row, with values that JSON has. They never replace ``duration_ms``,
                ``name``, ``rank`` and ``step``. Of another key of the row that metadata name, the row has theirs.

        Raises:
            cep.OptionError: The name or the metadata is invalid. Checked only on recorded steps.
        """
        if not self.should_record(step):
            return _NO_SPAN
        return _Span(self, name, step, metadata)

    def maybe_flush(self, step: int) -> None:
        """Asks for finished rows to be written, at steps divisible by flush_every_n_steps. Does not wait."""
        if self._profiler.enabled and step % self.flush_every_n_steps == 0:
            self._profiler.flush(0)

    def flush(self, blocking: bool = False) -> None:
        """Writes finished rows.

        Args:
            blocking: True waits, 30 s at most, until the device has finished what was recorded and its rows are in the
                file. False does not wait: rows of finished work are written soon.

        Raises:
            cep.Error: Rows could not be written.
        """
        if self._profiler.enabled and not self._profiler.flush(_FLUSH_TIMEOUT_S if blocking else 0):
            warnings.warn(f"cep: the device did not finish within {_FLUSH_TIMEOUT_S:g} s", RuntimeWarning, stacklevel=2)

    def close(self) -> None:
        """Writes everything, waiting for the device as cep.Profiler.close() does, and closes the file. Calling it again
        does nothing."""
        self._profiler.close()


class _Span(AbstractContextManager[None]):
    """What record() returns. Holds a lock from setting the profiler's step until the span has begun."""

    def __init__(self, owner: CudaEventProfiler, name: str, step: int, metadata: Mapping[str, Any]) -> None:
        self._owner = owner
        self._step = step
        self._region = owner._profiler.region(name, meta=metadata or None)

    def __enter__(self) -> None:
        owner = self._owner
        with owner._begin_lock:
            owner._profiler.step(self._step)
            self._region.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._region.__exit__(*raised)


if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> Any:
        """What needs PyTorch is imported when it is first used."""
        if name in _WITH_TORCH:
            module, member = _WITH_TORCH[name]
            return getattr(importlib.import_module(f"cep.torch.{module}"), member)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
