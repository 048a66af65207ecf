# SPDX-License-Identifier: Apache-2.0
"""cep in Transformers' Trainer.

    trainer = Trainer(model, TrainingArguments("output"), train_dataset=dataset)
    cep.integrations.transformers.instrument(trainer)
    trainer.train()

or, for what needs no Trainer to be known, ``Trainer(..., callbacks=[CepCallback()])``.
"""

from __future__ import annotations

import importlib
import weakref
from typing import Any, Optional

from .. import torch as cep_torch
from .._profiler import Profiler
from ._loading import Removal, attach_loaders
from ._steps import TrainingSteps

TrainerCallback: Any = importlib.import_module("transformers").TrainerCallback

__all__ = ["CepCallback", "instrument"]


class CepCallback(TrainerCallback):  # type: ignore[misc]
    """Times the phases of each training step of a Trainer.

    ``training_step`` with ``data_load`` and ``host_to_device`` (which happen in the loader, before any event that a
    callback sees), ``forward``, ``backward`` and ``optimizer`` in it; the allocator's counters; ``loss`` and
    ``grad_norm`` as counters where the Trainer logs them; marks ``evaluation`` and ``checkpoint``. In a job with
    process groups a row for each collective too; those of DistributedDataParallel only with instrument(), which knows
    the wrapped model.

    A step is an update step, of several micro-batches with gradient accumulation; its number is
    ``state.global_step`` at its begin.

    Args:
        profiler: The profiler; the caller closes it. None: one is opened when a training begins, into the output
            directory of the Trainer's arguments, and closed when it ends.
        **options: Of that profiler, as for cep.Profiler (record_every_n_steps and so on).

    Attributes:
        profiler: The profiler, once there is one.
    """

    def __init__(self, profiler: Optional[Profiler] = None, **options: Any) -> None:
        if profiler is not None and options:
            raise TypeError(f"{', '.join(options)}: options of a profiler that is given already")
        self.profiler = profiler
        self._is_own = profiler is None
        self._options = options
        self._trainer: Optional[weakref.ReferenceType[Any]] = None
        self._steps: Optional[TrainingSteps] = None
        self._removals: list[Removal] = []

    def _wrapped_model(self, model: Any) -> Any:
        trainer = None if self._trainer is None else self._trainer()
        return model if trainer is None else trainer.model_wrapped

    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        model: Any = None,
        optimizer: Any = None,
        train_dataloader: Any = None,
        **others: Any,
    ) -> None:
        self._finish()
        if self._is_own:
            self.profiler = Profiler(args.output_dir, **self._options)
        profiler = self.profiler
        assert profiler is not None
        if not profiler.enabled:
            return
        self._steps = TrainingSteps(profiler, state.global_step)
        self._removals = attach_loaders(profiler, self._steps, [train_dataloader])
        self._removals.append(cep_torch.instrument(self._wrapped_model(model), optimizer, profiler).remove)

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if self._steps is not None:
            self._steps.begin(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if self._steps is not None:
            self._steps.end()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        for name in ("loss", "grad_norm"):
            value = (logs or {}).get(name)
            if self._steps is not None and self.profiler is not None and isinstance(value, (int, float)):
                _count(self.profiler, name, float(value))

    def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._mark("evaluation")

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._mark("checkpoint")

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._finish()

    def _mark(self, name: str) -> None:
        if self._steps is not None and self.profiler is not None:
            self.profiler.mark(name)

    def _finish(self) -> None:
        """Takes off what a training put on, and closes what it opened: also of one that was ended by an exception."""
        while self._removals:
            self._removals.pop()()
        self._steps = None
        if self._is_own and self.profiler is not None:
            self.profiler.__exit__(None, None, None)


def _count(profiler: Profiler, name: str, value: float) -> None:
    if value - value == 0:  # neither infinite nor NaN, which rows cannot hold
        profiler.counter(name, value)


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
