# SPDX-License-Identifier: Apache-2.0
"""Runs torch.profiler over a few steps, and writes a Chrome trace."""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path
from typing import Any, Mapping, Optional

from ._pytorch import torch

OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "activities")


def warn(message: str) -> None:
    """Failures are warnings: a profiler must not end a job that does its work."""
    with contextlib.suppress(RuntimeWarning):  # raised where warnings are errors
        warnings.warn(f"cep: {message}", RuntimeWarning, stacklevel=3)


def is_profiling() -> bool:
    """Whether a torch.profiler runs in this process. There can be only one at a time."""
    enabled = getattr(torch._C._autograd, "_profiler_enabled", None)
    return bool(enabled is not None and enabled())


class Capture:
    """One run of torch.profiler: first warm-up steps, whose events are discarded, then the steps of the trace.

    For the trainer's thread. Raises nothing: a failure is a warning and ends the run.
    """

    def __init__(self, warmup_steps: int, steps: int, options: Mapping[str, Any]) -> None:
        self._steps_left = warmup_steps + steps
        self._schedule = torch.profiler.schedule(wait=0, warmup=warmup_steps, active=steps, repeat=1)
        self._options = dict(options)
        self._profiler: Any = None

    @property
    def running(self) -> bool:
        return self._profiler is not None

    def start(self) -> bool:
        """Call it at the begin of the first step. False if torch.profiler does not start, or runs already."""
        if is_profiling():
            warn("torch.profiler runs already, so cep makes no trace")
            return False
        try:
            profiler = torch.profiler.profile(schedule=self._schedule, **self._options)
            profiler.start()
        except Exception as error:
            warn(f"torch.profiler does not start: {type(error).__name__}: {error}")
            return False
        self._profiler = profiler
        return True

    def step(self) -> Optional[Any]:
        """Call it at the end of each step. After the last one, returns the stopped profiler with its events."""
        self._steps_left -= 1
        try:
            if self._steps_left > 0:
                self._profiler.step()
                return None
            return self.stop()
        except Exception as error:
            warn(f"torch.profiler: {type(error).__name__}: {error}")
            self._profiler = None
            return None

    def stop(self) -> Optional[Any]:
        """Ends the run now. Returns the stopped profiler; None if none ran."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            try:
                profiler.stop()
            except Exception as error:
                warn(f"torch.profiler does not stop: {type(error).__name__}: {error}")
                return None
        return profiler


def export(profiler: Any, path: Path) -> bool:
    """Writes the Chrome trace under another name and renames it, so that no reader finds a part of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(temporary))
        temporary.replace(path)
        return True
    except Exception as error:
        warn(f"{path}: no trace: {type(error).__name__}: {error}")
        return False
