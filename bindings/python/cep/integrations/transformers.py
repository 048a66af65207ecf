# SPDX-License-Identifier: Apache-2.0
"""cep in Transformers' Trainer.

    trainer = Trainer(model, TrainingArguments("output"), train_dataset=dataset)
    cep.integrations.transformers.instrument(trainer)
    trainer.train()

or ``Trainer(..., callbacks=[CepCallback()])``.
"""

from __future__ import annotations

import importlib
import math
import weakref
from typing import Any, Optional

from .. import Profiler
from .. import torch as cep_torch
from ._trainings import TrainingCallback, attach_loaders

TrainerCallback: Any = importlib.import_module("transformers").TrainerCallback

__all__ = ["CepCallback", "instrument"]


class CepCallback(TrainingCallback, TrainerCallback):  # type: ignore[misc]
    """Times the phases of each training step of a Trainer.

    The rows that cep.integrations lists, and ``loss`` and ``grad_norm`` as counters where the Trainer logs them. Those
    of DistributedDataParallel's collectives only with instrument(), which knows the wrapped model.

    A step is an update step, of several micro-batches with gradient accumulation; its number is
    ``state.global_step`` at its begin.

    Args:
        profiler: The profiler; the caller closes it. None: one is opened when a training begins, into the output
            directory of the Trainer's arguments, and closed when it ends.
        **options: Options of that profiler, as for cep.Profiler (record_every_n_steps and so on).

    Attributes:
        profiler: The profiler, once there is one.
    """

    _trainer: Optional[weakref.ref[Any]] = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None,
        train_dataloader: Any = None, **others: Any,
    ) -> None:  # fmt: skip
        steps = self._start(args.output_dir, state.global_step)
        if steps is not None:
            self._removals += attach_loaders(steps, [train_dataloader])
            trainer = None if self._trainer is None else self._trainer()
            wrapped = model if trainer is None else trainer.model_wrapped
            phases = cep_torch.instrument(steps.profiler, wrapped, optimizer)
            self._removals.append(phases.remove)

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if self._steps is not None:
            self._steps.begin(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if self._steps is not None:
            self._steps.end()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        for name in ("loss", "grad_norm"):
            value = (logs or {}).get(name)
            if self._steps is not None and isinstance(value, (int, float)) and math.isfinite(value):
                self._steps.profiler.counter(name, value)

    def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._mark("evaluation")

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._mark("checkpoint")

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._finish()


def instrument(trainer: Any, profiler: Optional[Profiler] = None, **options: Any) -> CepCallback:
    """Adds a CepCallback that knows its Trainer, so that DistributedDataParallel's collectives are recorded too.

    Args:
        trainer: The Trainer, before its train().
        profiler: As for CepCallback; so are the options.

    Returns:
        The callback.
    """
    callback = CepCallback(profiler, **options)
    callback._trainer = weakref.ref(trainer)
    trainer.add_callback(callback)
    return callback
