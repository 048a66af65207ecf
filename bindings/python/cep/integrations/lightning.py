# SPDX-License-Identifier: Apache-2.0
"""cep in Lightning.

    trainer = Trainer(callbacks=[cep.integrations.lightning.CepCallback(record_every_n_steps=10)])
    trainer.fit(model, loader)
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, Callable, Optional

from .. import Profiler
from .. import torch as cep_torch
from .._life import Replacement
from .._native import BackwardCalls, Phase
from .._region import Region
from .._attributes import HOST
from ..torch._ddp import time_reductions
from ..torch._instrument import Claims, backward_of
from ..torch._training import TrainingSteps
from ._auto import install
from ._trainings import TrainingCallback


try:
    Callback: Any = importlib.import_module("lightning.pytorch").Callback
except ImportError:
    Callback = importlib.import_module("pytorch_lightning").Callback

__all__ = ["CepCallback"]


class CepCallback(TrainingCallback, Callback):  # type: ignore[misc]
    """Times the phases of each training step of a Lightning Trainer.

    The rows that cep.integrations lists; ``forward`` is the module's training_step(), with automatic optimization.

    A step is an optimizer step, of several batches with gradient accumulation; its number is ``trainer.global_step``
    at its begin.

    Args:
        profiler: The profiler; the caller closes it. None: one is opened when a training begins, into the Trainer's
            ``default_root_dir``, and closed when it ends.
        **options: Options of that profiler, as for cep.Profiler (record_every_n_steps and so on).

    Attributes:
        profiler: The profiler, once there is one.
    """

    _backward: Optional[BackwardCalls] = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        steps = self._start(trainer.default_root_dir, trainer.global_step)
        if steps is None:
            return
        profiler = steps.profiler
        self._backward = backward_of(profiler, "")
        self._removals += time_reductions(trainer.strategy.model, profiler)
        release = profiler._part(Claims).claim(pl_module)
        if release is not None:
            self._removals.append(release)
        self._removals.append(_Actions(steps, trainer, times_forward=release is not None).remove)
        # Lightning does not call its module as one, and has hooks of its own for forward and backward.
        self._removals.append(cep_torch.instrument_optimizers(profiler, trainer.optimizers).remove)
        self._removals.append(cep_torch.instrument_collectives(profiler).remove)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._steps is not None and not self._steps.is_under_way:
            self._steps.begin(trainer.global_step)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        if self._backward is not None and self._steps is not None and self._steps.profiler._recording:
            self._backward.watch(loss)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        steps = self._steps
        if steps is not None and trainer.global_step > steps.next_step:  # not of several batches
            steps.end()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._mark("evaluation")

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        self._mark("checkpoint")

    def on_train_end(self, trainer: Any, pl_module: Any, exception: Optional[BaseException] = None) -> None:
        self._finish()

    on_exception = on_train_end

    def _finish(self) -> None:
        if self._backward is not None:
            self._backward.abandon()
        self._backward = None
        super()._finish()


class _FirstPhase(Phase):  # type: ignore[misc]
    """A phase that may be the first one of its step."""

    __slots__ = ("_steps", "_trainer")

    def __init__(self, region: Region, steps: TrainingSteps, trainer: Any) -> None:
        super().__init__(region)
        self._steps, self._trainer = steps, trainer

    def __enter__(self) -> None:
        if self._trainer.training:
            if not self._steps.is_under_way:
                self._steps.begin(self._trainer.global_step)
            super().__enter__()


_NO_PHASE = contextlib.nullcontext()


class _Actions(dict[str, Any]):
    """Times actions of Lightning's as phases of a step. Lightning calls its own profiler before and after each action,
    with the action's name; its default profiler does nothing then, and that is all that a call takes here unless the action
    is a phase. Here are the phases by the actions' names, as what profile() of that profiler returns."""

    def __init__(self, steps: TrainingSteps, trainer: Any, times_forward: bool) -> None:
        super().__init__()
        profiler = steps.profiler
        self._is_removed = False
        load = _FirstPhase(profiler.region("data_load", kind="data", stream=HOST), steps, trainer)
        copy = _FirstPhase(profiler.region("host_to_device", kind="data"), steps, trainer)
        self._phases: dict[str, Phase] = {"train_dataloader_next": load, "batch_to_device": copy}
        if times_forward and trainer.lightning_module.automatic_optimization:
            # With manual optimization, the action contains the backward and the optimizer too.
            self._phases["training_step"] = Phase(profiler.region("forward", kind="compute"))

        lightnings = trainer.profiler
        starts, stops = self._around(lightnings.start, lightnings.stop)
        self._replaced = [Replacement(lightnings, "start", starts), Replacement(lightnings, "stop", stops)]
        if type(lightnings).__name__ == "PassThroughProfiler":
            self._replaced.append(Replacement(lightnings, "profile", self.__getitem__))

    def __missing__(self, action_name: str) -> Any:
        self[action_name] = phase = self._phases.get(action_name.rpartition(".")[2], _NO_PHASE)
        return phase

    def remove(self) -> None:
        self._is_removed = True
        for replaced in self._replaced:
            replaced.remove()
        for phase in self._phases.values():
            phase.abandon()  # of an action that raised

    def _around(self, starts: Callable[..., Any], stops: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
        def start(action_name: str) -> None:
            starts(action_name)
            phase = self[action_name]
            if phase is not _NO_PHASE and not self._is_removed:
                phase.__enter__()

        def stop(action_name: str) -> None:
            phase = self[action_name]
            if phase is not _NO_PHASE:
                phase.__exit__()
            stops(action_name)

        return start, stop


# ---- Under `cep run` -------------------------------------------------------------------------------------------------------


class CallbackOfRun(CepCallback):
    """Lightning's callback with the profiler that all of the process shares."""

    def _start(self, output_dir: Any, first_step: int) -> Optional[TrainingSteps]:
        self.profiler, self._is_own = install().open(), False
        return None if self.profiler is None else super()._start(output_dir, first_step)

    def __reduce__(self) -> Any:
        """To processes that Lightning spawns: there it uses the profiler of that process."""
        return CallbackOfRun, ()


def add_to(trainer: Any) -> None:
    """Adds a callback to a Lightning Trainer that is about to train, unless it has one of cep's."""
    training = install()
    if not training.is_off and not any(isinstance(callback, CepCallback) for callback in trainer.callbacks):
        trainer.callbacks.append(CallbackOfRun())
        training.watches = False
