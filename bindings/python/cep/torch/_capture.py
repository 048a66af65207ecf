# SPDX-License-Identifier: Apache-2.0
"""Runs torch.profiler over a few steps, and writes a Chrome trace."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Callable, Mapping, Optional

from .._messages import warn
from ._pytorch import torch

OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "activities")


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
        try:
            profiler = torch.profiler.profile(schedule=self._schedule, **self._options)
            profiler.start()
        except Exception as error:
            warn(f"torch.profiler does not start: {type(error).__name__}: {error}")
            return False
        self._profiler = profiler
        return True

    def step(self) -> None:
        """Call it at the end of each step. The last one ends the run."""
        self._steps_left -= 1
        if self._steps_left == 0:
            self.stop()
            return
        try:
            self._profiler.step()
        except Exception as error:
            warn(f"torch.profiler: {type(error).__name__}: {error}")
            self._profiler = None

    def stop(self) -> None:
        """Ends the run now, if it runs."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        try:
            profiler.stop()
        except Exception as error:
            warn(f"torch.profiler does not stop: {type(error).__name__}: {error}")
            return
        self.traced = profiler
        # Not a daemon thread, so that the process waits for it at its exit.
        self._exporter = threading.Thread(target=self._export, args=(profiler,), name="cep-trace")
        self._exporter.start()

    def join(self) -> None:
        """Waits until the trace is written."""
        if self._exporter is not None:
            self._exporter.join()

    def _export(self, profiler: Any) -> None:
        """Writes the Chrome trace under another name and renames it, so that no reader finds a part of it."""
        path = self._path
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            profiler.export_chrome_trace(str(temporary))
            temporary.replace(path)
        except Exception as error:
            warn(f"{path}: no trace: {type(error).__name__}: {error}")
            return
        self._then()
