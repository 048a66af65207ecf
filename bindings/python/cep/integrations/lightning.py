# SPDX-License-Identifier: Apache-2.0
"""cep in Lightning.

    trainer = Trainer(callbacks=[cep.integrations.lightning.CepCallback(record_every_n_steps=10)])
    trainer.fit(model, loader)
"""

from __future__ import annotations

import importlib
from typing import Any, Callable, Optional

from .. import Profiler
from .. import torch as cep_torch
from .._handle import Removal
from .._patch import patch
from .._streams import HOST
from ..torch._backward import Backward, backward_of
from ..torch._claims import claims_of
from ..torch._ddp import DDPGradientSync, time_reduction
from ..torch._training_steps import OpenPhase, TrainingSteps
from ._callback import TrainingCallback


def _callback_class() -> Any:
    try:
        return importlib.import_module("lightning.pytorch").Callback
    except ImportError:
        return importlib.import_module("pytorch_lightning").Callback


Callback: Any = _callback_class()

__all__ = ["CepCallback"]


class CepCallback(TrainingCallback, Callback):  # type: ignore[misc]
    """Times the phases of each training step of a Lightning Trainer.

    ``training_step`` with ``data_load``, ``host_to_device``, ``forward`` (the module's training_step(), with automatic
    optimization), ``backward`` and ``optimizer`` in it; a row for each collective, DistributedDataParallel's included;
    the allocator's counters; marks ``evaluation`` and ``checkpoint``.

    A step is an optimizer step, of several batches with gradient accumulation; its number is ``trainer.global_step``
    at its begin.

    Args:
        profiler: The profiler; the caller closes it. None: one is opened when a training begins, into the Trainer's
            ``default_root_dir``, and closed when it ends.
        **options: Options of that profiler, as for cep.Profiler (record_every_n_steps and so on).

    Attributes:
        profiler: The profiler, once there is one.
    """

    def __init__(self, profiler: Optional[Profiler] = None, **options: Any) -> None:
        super().__init__(profiler, **options)
        self._backward: Optional[Backward] = None
        self._sync: Optional[DDPGradientSync] = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        steps = self._start(trainer.default_root_dir, trainer.global_step)
        if steps is None:
            return
        profiler = steps.profiler
        self._backward = backward_of(profiler, "")
        reduction = time_reduction(trainer.strategy.model, profiler, buckets=True)
        self._sync = reduction.sync
        self._removals += reduction.removals
        claims = claims_of(profiler)
        is_mine = claims.claim_model(pl_module, "")
        if is_mine:
            self._removals.append(lambda: claims.release_model(pl_module))
        self._removals += _Actions(steps, trainer, times_forward=is_mine).attach()
        # Lightning does not call its module as one, and has hooks of its own for forward and backward.
        self._removals.append(cep_torch.instrument_optimizers(trainer.optimizers, profiler).remove)
        self._removals.append(cep_torch.instrument_collectives(profiler).remove)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._steps is not None:
            self._steps.begin(trainer.global_step)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        if self._backward is not None and self._steps is not None and self._steps.profiler.recording:
            self._backward.watch(loss, self._sync if self._sync is not None and self._sync.is_due() else None)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._steps is not None and self._steps.is_done(trainer.global_step):
            self._steps.end()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._mark("evaluation")

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        self._mark("checkpoint")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._finish()

    def _finish(self) -> None:
        if self._backward is not None:
            self._backward.abandon()
        self._backward = self._sync = None
        super()._finish()


class _Actions:
    """Times actions of Lightning's as phases of a step. Lightning calls its own profiler before and after each action,
    with the action's name."""

    def __init__(self, steps: TrainingSteps, trainer: Any, times_forward: bool) -> None:
        profiler = steps.profiler
        self._steps = steps
        self._trainer = trainer
        load = OpenPhase(profiler, profiler.region("data_load", kind="data", stream=HOST))
        copy = OpenPhase(profiler, profiler.region("host_to_device", kind="data"))
        self._phases = {"train_dataloader_next": load, "batch_to_device": copy}
        if times_forward and trainer.lightning_module.automatic_optimization:
            # With manual optimization, the action contains the backward and the optimizer too.
            self._phases["training_step"] = OpenPhase(profiler, profiler.region("forward", kind="compute"))

    def attach(self) -> list[Removal]:
        def starting(original: Callable[..., Any]) -> Callable[..., Any]:
            def start(action_name: str) -> None:
                original(action_name)
                phase = self._phase(action_name)
                if phase is not None:
                    phase.begin()

            return start

        def stopping(original: Callable[..., Any]) -> Callable[..., Any]:
            def stop(action_name: str) -> None:
                phase = self._phase(action_name)
                if phase is not None:
                    phase.end()
                original(action_name)

            return stop

        profiler = self._trainer.profiler
        return [patch(profiler, "start", starting), patch(profiler, "stop", stopping)]

    def _phase(self, action_name: str) -> Optional[OpenPhase]:
        phase = self._phases.get(action_name.rpartition(".")[2])
        if phase is None or not self._trainer.training:
            return None
        self._steps.begin(self._trainer.global_step)
        return phase
