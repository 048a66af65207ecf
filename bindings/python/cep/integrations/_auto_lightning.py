# SPDX-License-Identifier: Apache-2.0
"""Lightning under `cep run`. It calls its module in a way of its own, so its callback does the work."""

from __future__ import annotations

from typing import Any, Optional

from ..torch._training import TrainingSteps
from ._auto import install
from .lightning import CepCallback


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
        training.is_lightnings = training.is_quiet = True
