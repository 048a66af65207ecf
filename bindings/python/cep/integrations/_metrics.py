# SPDX-License-Identifier: Apache-2.0
"""log_metrics(): sends this rank's aggregates to an experiment logger, from a background thread."""

from __future__ import annotations

import atexit
import functools
import json
import threading
from typing import Any, Callable, Iterable, Mapping, Optional, Union

from .._errors import warn
from .._own_rows import Background, OwnRows
from .._profiler import Profiler

# Loggers are recognised by their methods: none is imported here.

Metrics = Mapping[str, float]
Sink = Callable[[Metrics, Optional[int]], object]
Logger = Union[Sink, Any]


def _tensorboard(writer: Any, prefix: str) -> Sink:
    return lambda metrics, step: [writer.add_scalar(name, value, step) for name, value in metrics.items()]


def _mlflow(logger: Any, prefix: str) -> Sink:
    """MLflow's active run is that of a thread, and these metrics come from another one: so its run is named."""
    active = getattr(logger, "active_run", lambda: None)()
    run = {} if active is None else {"run_id": active.info.run_id}
    return lambda metrics, step: logger.log_metrics(dict(metrics), step=step, **run)


def _wandb(run: Any, prefix: str) -> Sink:
    """Weights & Biases refuses a step that is behind the last one logged, and these metrics come late. So they get a
    step metric of their own, and go into the row that the trainer is filling, which its own calls end: a row of their own
    would end the trainer's, and the step that it logs next would be behind."""
    step_name = prefix + "step"
    run.define_metric(step_name)
    run.define_metric(prefix + "*", step_metric=step_name)
    return lambda metrics, step: run.log({**metrics, **({} if step is None else {step_name: step})}, commit=False)


_KINDS: tuple[tuple[str, Callable[[Any, str], Sink]], ...] = (
    ("add_scalar", _tensorboard),
    ("define_metric", _wandb),
    ("log_metrics", _mlflow),
    ("log", lambda logger, _: lambda metrics, step: logger.log(dict(metrics), step=step)),
)


def sink_of(logger: Logger, prefix: str) -> Sink:
    """A function that logs metrics of a step, of a logger as log_metrics() takes it; anything with ``log(metrics, step=)`` will
    do. Raises a TypeError for others."""
    for method, sink in _KINDS:
        if callable(getattr(logger, method, None)):
            return sink(logger, prefix)
    if callable(logger):
        return logger
    raise TypeError(f"logger: {logger!r} has none of {', '.join(name for name, _ in _KINDS)}, and cannot be called")


_QUEUE_LENGTH = 8
_FLUSH_TIMEOUT_S = 1.0
_CLOSE_TIMEOUT_S = 5.0


def _aggregates(lines: Iterable[bytes], prefix: str) -> dict[str, float]:
    """The mean and the maximum of each region's durations, and the last value of each counter."""
    durations_ms: dict[str, list[float]] = {}
    metrics: dict[str, float] = {}
    for row in map(json.loads, lines):
        kind = row.get("type")
        if kind is None:
            durations_ms.setdefault(row["name"], []).append(row["duration_ms"])
        elif kind == "counter":
            metrics[prefix + row["name"]] = row["value"]
    for name, each_ms in durations_ms.items():
        metrics[f"{prefix}{name}/mean_ms"] = sum(each_ms) / len(each_ms)
        metrics[f"{prefix}{name}/max_ms"] = max(each_ms)
    return metrics


class MetricsLogger:
    """Logs this rank's aggregates. The trainer never waits: a background thread reads the rank file and calls the
    logger. Thread-safe.

    The metrics are of what was recorded since the last call: ``cep/<region>/mean_ms`` and ``cep/<region>/max_ms`` for
    each region, ``cep/<counter>`` with each counter's last value, and ``cep/lost``, how many spans are not in the file
    and never will be. If nothing was recorded, nothing is logged. Calls that find the queue full are dropped, and the
    next one logs their part.

    Args:
        profiler: The profiler whose rows are logged. If it is off, nothing is logged and no thread is started.
        logger: As for log_metrics().
        prefix: The beginning of the metrics' names.

    Raises:
        TypeError: The logger is of an unknown kind.
    """

    def __init__(self, profiler: Profiler, logger: Logger, *, prefix: str = "cep/") -> None:
        self._profiler = profiler
        self._prefix = prefix
        self._sink = sink_of(logger, prefix)
        self.dropped = 0
        """Calls of log() that found the queue full."""
        self.failed = 0
        """Calls in which the logger raised. The first one is a warning."""
        self._last_step: Optional[int] = None  # that was asked for
        self._during_close = False
        self._background: Optional[Background] = None
        if profiler.enabled and profiler.path is not None:
            self._rows = OwnRows(profiler.path, limit_bytes=None)
            self._background = Background("cep-metrics", self._answer, _QUEUE_LENGTH, at_end=self._log_rest)

    def log(self, step: Optional[int] = None) -> bool:
        """Asks for what was recorded since the last call to be logged. Never waits.

        Args:
            step: The logger's step.

        Returns:
            Whether it will be logged: False if off, closed, or dropped.
        """
        if self._background is None or self._background.is_ending:
            return False
        is_asked = self._background.ask(step)
        self.dropped += not is_asked
        return is_asked

    def close(self, timeout: float = _CLOSE_TIMEOUT_S) -> bool:
        """Logs what was asked for, and ends the thread. If it returns False, it can be called again, to wait longer.

        Args:
            timeout: Longest wait in seconds.

        Returns:
            Whether all was logged in time.
        """
        if self._background is None:
            return True
        self._background.end()
        self._background.thread.join(max(0.0, timeout))
        return not self._is_alive()

    def _is_alive(self) -> bool:
        return self._background is not None and self._background.thread.is_alive()

    def _answer(self, step: Optional[int]) -> None:
        self._last_step, self._during_close = step, not self._profiler.enabled
        self._try_to_log()

    def _log_rest(self) -> None:
        if self._during_close:  # the last rows may have been written since
            self._try_to_log()

    def _try_to_log(self) -> None:
        try:
            if self._profiler.enabled:
                self._profiler.flush(_FLUSH_TIMEOUT_S)
            metrics = _aggregates(self._rows.lines(), self._prefix)
            if metrics:
                self._sink({**metrics, f"{self._prefix}lost": float(self._profiler.stats.lost)}, self._last_step)
        except Exception as error:  # a logger's failure is no reason to end a training
            self.failed += 1
            if self.failed == 1:
                warn(f"metrics are not logged: {error!r}")


_loggers: list[MetricsLogger] = []  # of log_metrics(): each until its thread has ended
_lock = threading.Lock()


atexit.register(lambda: [metrics_logger.close() for metrics_logger in _loggers])


def log_metrics(profiler: Profiler, logger: Logger, step: Optional[int] = None, *, prefix: str = "cep/") -> bool:
    """Logs this rank's aggregates of what was recorded since the last call, from a background thread::

        for step, batch in enumerate(loader):
            ...
            if step % 100 == 0:
                cep.integrations.log_metrics(prof, wandb, step)

    The first call for a profiler sets the logger, and only what is recorded after it is logged: make that call before
    the loop. This is the short form of MetricsLogger, which lists the metrics.

    Args:
        profiler: The profiler whose rows are logged.
        logger: TensorBoard's SummaryWriter, wandb or a run of it, mlflow, a logger of Lightning's, an Accelerator with
            trackers, or a function that takes metrics (a dict of floats) and step. Weights & Biases gets ``cep/step``
            as these metrics' own step, since it refuses steps behind its last.
        step: The logger's step.
        prefix: The beginning of the metrics' names.

    Returns:
        Whether they will be logged: False if the profiler is off, or if the logger is so slow that the queue of calls
        is full.

    Raises:
        TypeError: The logger is of an unknown kind.

    Thread-safe. Never waits for the logger, the file or the device. When the interpreter exits, it waits until what was
    asked for is logged, 5 s at most.
    """
    with _lock:
        found: Optional[MetricsLogger] = profiler._parts.get(MetricsLogger)
        if found is None or found._background is None or found._background.is_ending:
            found = MetricsLogger(profiler, logger, prefix=prefix)
            _loggers[:] = [other for other in _loggers if other._is_alive()]
            if found._is_alive():
                profiler._parts[MetricsLogger] = found
                _loggers.append(found)
                profiler._at_close.append(functools.partial(found.close, 0))  # it logs what was asked for
    return found.log(step)
