# SPDX-License-Identifier: Apache-2.0
"""The optimizer phase: step() of one or several optimizers, through their hooks or, before PyTorch 2.0, around it."""

from __future__ import annotations

import functools
import sys
import types
from threading import get_ident
from types import FrameType
from typing import Any, Callable, Iterable, Optional, Union

from .._handle import Removal
from .._profiler import Profiler
from ._phases import Phase
from ._pytorch import Optimizer, torch


def optimizer_list(given: Union[None, Optimizer, Iterable[Optimizer]]) -> list[Optimizer]:
    """The optimizers themselves: of None, one or several, without the wrappers of Lightning and Accelerate."""
    if given is None:
        return []
    several = given if isinstance(given, (list, tuple)) else [given]
    return [_unwrapped(optimizer) for optimizer in several]


def _unwrapped(optimizer: Optimizer) -> Optimizer:
    inner = optimizer.__dict__.get("optimizer", optimizer.__dict__.get("_optimizer"))
    return _unwrapped(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


def _is_within_its_own_step(optimizer: Optimizer, hooked: FrameType) -> bool:
    """Whether a step() that has hooks calls another, as a subclass does with super().step(): PyTorch then runs the
    hooks for each. ``hooked`` is the frame that runs them; an outer one of the same code is the outer step()'s."""
    near = 8
    frame = hooked.f_back
    for _ in range(near):
        if frame is None:
            return False
        if frame.f_code is hooked.f_code and frame.f_locals.get("args", (None,))[:1] == (optimizer,):
            return True
        frame = frame.f_back
    return False


def replace_step(optimizer: Optimizer, step: Callable[..., Any]) -> Removal:
    """Puts a function of the optimizer and step()'s arguments in the place of step().

    Returns:
        What puts back what was there.
    """
    before = vars(optimizer).get("step")
    # A bound method, as learning-rate schedulers take it apart as one.
    replaced = optimizer.step = types.MethodType(step, optimizer)

    def restore() -> None:
        if vars(optimizer).get("step") is not replaced:
            return  # a scheduler wrapped it since, and calls it
        if before is None:
            del optimizer.step
        else:
            optimizer.step = before

    return restore


class OptimizerTimer:
    """Times the steps of optimizers.

    A closure given to step() is not optimizer time: it holds a forward and a backward of its own. The span then is from
    the closure's end to the step's.
    """

    def __init__(self, profiler: Profiler, phase: Phase, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._recording = profiler._recording
        self._phase = phase
        self._before = before
        self._after = after

    def attach(self, optimizer: Optimizer) -> list[Removal]:
        """Returns what takes it off again."""
        if hasattr(optimizer, "register_step_pre_hook"):
            return [
                optimizer.register_step_pre_hook(self._begin_hooked).remove,
                optimizer.register_step_post_hook(self._end_hooked).remove,
            ]
        return [self._replace_step(optimizer)]

    def _begin(self, has_closure: bool) -> None:
        if self._phase or self._recording:
            self._before()
            if self._recording and not has_closure:
                self._phase.begin(get_ident())

    def _end(self, error: Optional[type[BaseException]] = None) -> None:
        if self._phase:
            self._phase.end(get_ident(), error)
            self._after()

    def _begin_hooked(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        if not self._recording and not self._phase or _is_within_its_own_step(optimizer, sys._getframe(1)):
            return None
        args, kwargs, has_closure = self._with_timed_closure(args, kwargs, first=1)
        self._begin(has_closure)
        return (args, kwargs) if has_closure else None

    def _end_hooked(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._phase and not _is_within_its_own_step(optimizer, sys._getframe(1)):
            self._end()

    def _with_timed_closure(self, args: Any, kwargs: Any, first: int) -> tuple[Any, Any, bool]:
        """The arguments of step() with its closure timed; it is their first, behind the optimizer if that is there."""
        if len(args) > first and callable(args[first]):
            return (*args[:first], self._timed_closure(args[first]), *args[first + 1 :]), kwargs, True
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._timed_closure(kwargs["closure"])}, True
        return args, kwargs, False

    def _timed_closure(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        @functools.wraps(closure)
        def between_spans() -> Any:
            self._phase.end(get_ident())
            result = closure()
            if self._recording:
                self._phase.begin(get_ident())
            return result

        return between_spans

    def _replace_step(self, optimizer: Optimizer) -> Removal:
        """For versions without hooks. Where it cannot be taken off, it does nothing once its profiler is closed."""
        original = optimizer.step

        @functools.wraps(original)
        def step(_: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if not self._recording and not self._phase:
                return original(*args, **kwargs)
            args, kwargs, has_closure = self._with_timed_closure(args, kwargs, first=0)
            self._begin(has_closure)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                self._end(type(error))
                raise
            self._end()
            return result

        return replace_step(optimizer, step)
