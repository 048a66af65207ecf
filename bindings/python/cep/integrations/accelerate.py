# SPDX-License-Identifier: Apache-2.0
"""cep in training loops with Accelerate.

    accelerator = Accelerator()
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with cep.Profiler("output") as prof, instrument(accelerator, prof, model, optimizer, loader):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()

Steps, ``training_step``, ``data_load``, ``host_to_device``, ``forward``, ``backward``, ``optimizer``, collectives and
memory are recorded with no line in the loop.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from types import TracebackType
from typing import Any, Callable, Optional

from .. import torch as cep_torch
from .._profiler import Profiler
from ._loading import Removal, attach_loaders
from ._steps import TrainingSteps

importlib.import_module("accelerate")  # says at once that it is missing
torch: Any = importlib.import_module("torch")

__all__ = ["Instrumentation", "instrument"]


class Instrumentation:
    """What instrument() returns: takes everything off by remove(), or at the end of a ``with`` block."""

    def __init__(self, removals: list[Removal]) -> None:
        self._removals = removals

    def remove(self) -> None:
        """Takes everything off again but DDP's communication hook, for which PyTorch has no way. Calling it again does
        nothing."""
        while self._removals:
            self._removals.pop()()

    def __enter__(self) -> Instrumentation:
        return self

    def __exit__(
        self,
        error: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.remove()


def _after_step(accelerator: Any, optimizer: Any, call: Callable[[], None]) -> Removal:
    """Has a function called after each step() of a prepared optimizer that is no mere accumulation of gradients."""
    original = optimizer.step

    @functools.wraps(original)
    def step(_: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if accelerator.sync_gradients:
            call()
        return result

    # A bound method, as learning-rate schedulers take it apart as one.
    optimizer.step = types.MethodType(step, optimizer)
    return lambda: vars(optimizer).pop("step", None)


def instrument(
    accelerator: Any,
    profiler: Profiler,
    *prepared: Any,
    first_step: int = 0,
    step_optimizer: Optional[Any] = None,
    collectives: bool = True,
    memory: bool = True,
) -> Instrumentation:
    """Times the phases of a training loop. Call it after ``accelerator.prepare()``, on all ranks at the same place.

    A step ends with the step() of the optimizer that brings one: with gradient accumulation, with the last of its
    micro-batches. The loop does not call profiler.step().

    Args:
        accelerator: The Accelerator.
        profiler: The profiler. Where it is off, nothing is changed.
        *prepared: What ``accelerator.prepare()`` returned, in any order: the model or models, the optimizers, and the
            loaders that are trained on. Others, as schedulers, are passed over.
        first_step: The first step's number: of a resumed training, its last checkpoint's.
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
    removals = attach_loaders(profiler, steps, prepared)
    for index, model in enumerate(models):
        phases = cep_torch.instrument(
            model, [] if index else optimizers, profiler, collectives=collectives and not index, memory=memory
        )
        removals.append(phases.remove)
        removals.append(_before_forward(model, steps))
    last = optimizers[-1] if step_optimizer is None else step_optimizer
    removals.append(_after_step(accelerator, last, steps.end))
    return Instrumentation(removals)


def _before_forward(model: Any, steps: TrainingSteps) -> Removal:
    """Begins a step with the model where no loader of Accelerate's did."""

    def begin(module: Any, args: Any) -> None:
        if module.training:
            steps.begin()

    # Before the hook that begins the forward phase, which belongs to the step.
    before = inspect.signature(model.register_forward_pre_hook).parameters
    first = {"prepend": True} if "prepend" in before else {}
    return model.register_forward_pre_hook(begin, **first).remove  # type: ignore[no-any-return]
