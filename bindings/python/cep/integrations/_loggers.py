# SPDX-License-Identifier: Apache-2.0
"""Experiment loggers. They are recognised by their methods: none is imported here."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Union

Metrics = Mapping[str, float]
Sink = Callable[[Metrics, Optional[int]], object]
Logger = Union[Sink, Any]


def _tensorboard(writer: Any, prefix: str) -> Sink:
    def write(metrics: Metrics, step: Optional[int]) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    return write


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


def _stepped_log(logger: Any, prefix: str) -> Sink:
    return lambda metrics, step: logger.log(dict(metrics), step=step)


_KINDS: tuple[tuple[str, Callable[[Any, str], Sink]], ...] = (
    ("add_scalar", _tensorboard),
    ("define_metric", _wandb),
    ("log_metrics", _mlflow),
    ("log", _stepped_log),
)


def sink_of(logger: Logger, prefix: str) -> Sink:
    """A function that logs metrics of a step.

    Args:
        logger: TensorBoard's SummaryWriter, wandb or a run of it, mlflow (its run is the one that is active now) or a
            logger of Lightning's, an Accelerator (or
            anything else with ``log(metrics, step=)``), or a function of metrics and step.
        prefix: The beginning of all metrics' names.

    Raises:
        TypeError: The logger is none of these.
    """
    for method, sink in _KINDS:
        if callable(getattr(logger, method, None)):
            return sink(logger, prefix)
    if callable(logger):
        return logger
    raise TypeError(f"logger: {logger!r} has none of {', '.join(name for name, _ in _KINDS)}, and cannot be called")
