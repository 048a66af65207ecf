# SPDX-License-Identifier: Apache-2.0
"""cep in training frameworks, and its figures in experiment loggers.

| module | for |
|---|---|
| cep.integrations.lightning | Lightning: a Callback |
| cep.integrations.transformers | Transformers' Trainer: a TrainerCallback |
| cep.integrations.accelerate | training loops with Accelerate |
| log_metrics() | Weights & Biases, TensorBoard, MLflow, or a function |

Each module imports its framework; this package imports none of them.

All of them record the same rows: ``training_step``, and in it ``data_load``, ``host_to_device``, ``forward``,
``backward`` and ``optimizer``; a row for each collective (see cep.torch.instrument_collectives()); the allocator's
counters; and marks for evaluations and checkpoints.
"""

from __future__ import annotations

from ._metrics import Logger, MetricsLogger, log_metrics

__all__ = ["Logger", "MetricsLogger", "log_metrics"]
