# SPDX-License-Identifier: Apache-2.0
"""cep in training loops with Accelerate.

    accelerator = Accelerator()
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with cep.Profiler("output") as prof, instrument(prof, accelerator, model, optimizer, loader):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
"""

from __future__ import annotations

import importlib
from typing import Any, Callable, Optional

from .. import torch as cep_torch
from .._life import Removal, patch, undo_all
from .._profiler import Profiler, profiler_first
from ..torch._instrument import Instrumentation
from ..torch._pytorch import torch
from ..torch._training import TrainingSteps
from ._trainings import attach_loaders

importlib.import_module("accelerate")  # raises now if it is missing

__all__ = ["Instrumentation", "instrument"]


def _around_step(accelerator: Any, optimizer: Any, steps: TrainingSteps, is_last: bool) -> Removal:
    """Begins a training step before the step() of a prepared optimizer that gets a closure, because the forward is in
    the closure. Ends it after the last optimizer's step(), unless that only accumulates."""

    def calling(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if any(map(callable, (*args, *kwargs.values()))):
                steps.begin()
            result = original(*args, **kwargs)
            if is_last and accelerator.sync_gradients:
                steps.end()
            return result

        return step

    return patch(optimizer, "step", calling)


@profiler_first
def instrument(
    profiler: Profiler,
    accelerator: Any,
    *prepared: Any,
    first_step: int = 0,
    step_optimizer: Optional[Any] = None,
    collectives: bool = True,
    memory: bool = True,
) -> Instrumentation:
    """Times the phases of a training loop. Call it after ``accelerator.prepare()``, on all ranks at the same place.

    A step ends when the optimizer updates the weights: with gradient accumulation, at the last of its micro-batches.
    The loop does not call profiler.step().

    Args:
        profiler: The profiler. Where it is off, nothing is changed.
        accelerator: The Accelerator.
        *prepared: What ``accelerator.prepare()`` returned, in any order: the model or models, the optimizers, and the
            loaders of the training data. Other objects, such as schedulers, are ignored.
        first_step: The number of the first step; for a resumed training, that of its last checkpoint.
        step_optimizer: The prepared optimizer whose step() ends a training step; None: the last one given.
        collectives: As for cep.torch.instrument(); so is memory.

    Returns:
        A handle with ``remove()``, and a context manager that calls it.

    Raises:
        ValueError: No model is given, or no optimizer.
    """
    models = [given for given in prepared if isinstance(given, torch.nn.Module)]
    optimizers = [given for given in prepared if isinstance(given, torch.optim.Optimizer)]
    if not models or not optimizers:
        raise ValueError("prepared: a model and an optimizer that accelerator.prepare() returned are needed")
    if not profiler.enabled:
        return Instrumentation([])
    steps = TrainingSteps(profiler, first_step)
    removals: list[Removal] = []
    try:
        for index, model in enumerate(models):
            phases = cep_torch.instrument(
                profiler, model, [] if index else optimizers, collectives=collectives and not index, memory=memory
            )
            removals.append(phases.remove)
            # A step begins at the model's forward, if no loader of Accelerate's has begun it.
            phases.announcer()(lambda model: steps.begin() if model.training else None)
        removals += attach_loaders(steps, prepared)
        last = optimizers[-1] if step_optimizer is None else step_optimizer
        others = [one for one in optimizers if one is not last]
        removals += [_around_step(accelerator, one, steps, one is last) for one in (*others, last)]
    except BaseException:
        undo_all(removals)
        raise
    return Instrumentation(removals)
