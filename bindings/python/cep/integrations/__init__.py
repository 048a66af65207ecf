# SPDX-License-Identifier: Apache-2.0
"""cep in training frameworks, and its figures in experiment loggers.

| module | for |
|---|---|
| cep.integrations.lightning | Lightning: a Callback |
| cep.integrations.transformers | Transformers' Trainer: a TrainerCallback |
| cep.integrations.accelerate | training loops with Accelerate |
| log_metrics() | Weights & Biases, TensorBoard, MLflow, or a function |

The framework is imported with the module that is for it, never with this one.

Each names the phases alike: ``training_step`` with ``data_load``, ``host_to_device``, ``forward``, ``backward`` and
``optimizer`` in it, beside them a row for each collective (see cep.torch.instrument_collectives()), the allocator's
counters, and marks for evaluations and checkpoints.
"""

from __future__ import annotations

from ._loggers import Logger
from ._metrics import MetricsLogger, log_metrics

__all__ = ["Logger", "MetricsLogger", "log_metrics"]
