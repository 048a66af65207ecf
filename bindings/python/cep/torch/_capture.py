# SPDX-License-Identifier: Apache-2.0
"""A run of torch.profiler over a few steps, to a Chrome trace."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Mapping, Optional

from ._pytorch import torch

OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "activities")


def complain(what: str) -> None:
    """A profiler does not end a job that does its work."""
    warnings.warn(f"cep: {what}", RuntimeWarning, stacklevel=3)


def is_profiling() -> bool:
    """Whether some torch.profiler runs in this process: there can be one."""
    enabled = getattr(torch._C._autograd, "_profiler_enabled", None)
    return bool(enabled is not None and enabled())


class Capture:
    """torch.profiler from start() on: warm-up steps first, whose events are thrown away, then steps that count.

    For the trainer's thread. Raises nothing but what is said as a warning: after a failure it is over.
    """

    def __init__(self, warmup_steps: int, steps: int, options: Mapping[str, Any]) -> None:
        self._left = warmup_steps + steps
        self._schedule = torch.profiler.schedule(wait=0, warmup=warmup_steps, active=steps, repeat=1)
        self._options = dict(options)
        self._profiler: Any = None

    @property
    def running(self) -> bool:
        return self._profiler is not None

    def start(self) -> bool:
        """At the begin of the first step. False where torch.profiler does not start, or runs already for another."""
        if is_profiling():
            complain("torch.profiler runs already: no trace of cep's")
            return False
        try:
            profiler = torch.profiler.profile(schedule=self._schedule, **self._options)
            profiler.start()
        except Exception as error:
            complain(f"torch.profiler does not start: {type(error).__name__}: {error}")
            return False
        self._profiler = profiler
        return True

    def step(self) -> Optional[Any]:
        """At the end of each step. Returns the profiler, stopped and with its events, after the last step."""
        self._left -= 1
        try:
            if self._left > 0:
                self._profiler.step()
                return None
            return self.stop()
        except Exception as error:
            complain(f"torch.profiler: {type(error).__name__}: {error}")
            self._profiler = None
            return None

    def stop(self) -> Optional[Any]:
        """Ends it now. Returns the stopped profiler, None where none ran."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            try:
                profiler.stop()
            except Exception as error:
                complain(f"torch.profiler does not stop: {type(error).__name__}: {error}")
                return None
        return profiler


def export(profiler: Any, path: Path) -> bool:
    """Writes the Chrome trace, whole or not at all: readers may come at any time."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(temporary))
        temporary.replace(path)
        return True
    except Exception as error:
        complain(f"{path}: no trace: {type(error).__name__}: {error}")
        return False
