# SPDX-License-Identifier: Apache-2.0
"""The optimizer phase: times step() of optimizers by their hooks."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Callable, Iterable, Optional, Union

from .._profiler import Profiler
from ._hooks import OptimizerCalls, Phase
from ._pytorch import Optimizer, torch

_NESTED_FRAMES = 8  # the most frames between the hooks of an inner step() and those of the outer


def optimizer_list(given: Union[None, Optimizer, Iterable[Optimizer]]) -> list[Optimizer]:
    """The given optimizers (None, one or several) as a list, without the wrappers of Lightning and Accelerate."""
    if given is None:
        return []
    several: Any = [given] if hasattr(given, "step") else given
    return [_unwrapped(optimizer) for optimizer in several]


def _unwrapped(optimizer: Optimizer) -> Optimizer:
    inner = optimizer.__dict__.get("optimizer", optimizer.__dict__.get("_optimizer"))
    return _unwrapped(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


def _has_two_steps(kind: Any) -> bool:
    """Whether a step() of an optimizer's class can call another one, as that of its base class. PyTorch puts what it has put
    around a base's step(), as Adam's, into a class that has none of its own, as AdamW."""
    own = [base for base in kind.__mro__ if base is not torch.optim.Optimizer]
    return len({inspect.unwrap(vars(base)["step"]) for base in own if "step" in vars(base)}) > 1


_may_nest: Callable[[Any], bool] = functools.lru_cache(None)(_has_two_steps)


def _is_nested_step(optimizer: Optimizer) -> bool:
    """Whether another step() of the same optimizer called this one, as super().step() in a subclass: PyTorch then runs
    the hooks for both. One frame up PyTorch runs the hook; the outer step() has a frame of the same code."""
    hooked = sys._getframe(1)
    frame = hooked.f_back
    for _ in range(_NESTED_FRAMES):
        if frame is None:
            return False
        if frame.f_code is hooked.f_code and frame.f_locals.get("args", (None,))[:1] == (optimizer,):
            return True
        frame = frame.f_back
    return False


class OptimizerTimer(OptimizerCalls):  # type: ignore[misc]
    """Times the steps of an optimizer by two hooks, which are on while turn() says so. `before` is called before each step;
    those in `after`, a list that all optimizers share, after each, until one raises. Copies of the hooks, deep or pickled, do
    nothing: a checkpoint can be read without this package.

    A closure given to step() is not optimizer time: it runs a forward and a backward. With a closure the span lasts
    from the end of the closure to the end of step().
    """

    def __init__(
        self,
        optimizer: Optimizer,
        profiler: Profiler,
        phase: Phase,
        before: Callable[[], None],
        after: list[Callable[[], object]],
    ) -> None:
        is_nested = _is_nested_step if _may_nest(optimizer.__class__) else None
        hooked: Any = optimizer
        places = hooked._optimizer_step_pre_hooks, hooked._optimizer_step_post_hooks
        super().__init__(profiler, phase, before, after, is_nested, *places)
