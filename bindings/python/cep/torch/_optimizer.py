# SPDX-License-Identifier: Apache-2.0
"""The optimizer phase: times step() of optimizers by their hooks."""

from __future__ import annotations

import functools
import inspect
import sys
from threading import get_ident
from typing import Any, Callable, Iterable, Optional, Union

from .._profiler import Profiler
from ._hooks import NotFinished, Phase, inert_hook, is_compiling, note_failure
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
    the hooks for both. Two frames up PyTorch runs this hook; the outer step() has a frame of the same code."""
    hooked = sys._getframe(2)
    frame = hooked.f_back
    for _ in range(_NESTED_FRAMES):
        if frame is None:
            return False
        if frame.f_code is hooked.f_code and frame.f_locals.get("args", (None,))[:1] == (optimizer,):
            return True
        frame = frame.f_back
    return False


class _StepHook:
    """A hook in one function, which a step of a trainer calls once: each further one costs several microseconds there. Copies,
    deep or pickled, do nothing: a checkpoint can be read without this package."""

    __slots__ = ("timer", "__weakref__")

    def __init__(self, timer: OptimizerTimer) -> None:
        self.timer = timer

    def __reduce__(self) -> Any:
        return inert_hook()


class _Begin(_StepHook):
    __slots__ = ()

    def __call__(self, *given: Any) -> Any:
        if is_compiling():
            return None
        optimizer, args, kwargs = given
        timer = self.timer
        try:
            is_recording = bool(timer.recording)
            if not is_recording and not timer.phase or timer.may_nest and _is_nested_step(optimizer):
                return None
            timer.before()
            if len(args) > 1 and callable(args[1]):
                changed = (args[0], timer.timed_closure(args[1]), *args[2:]), kwargs
            elif kwargs and callable(kwargs.get("closure")):
                changed = args, {**kwargs, "closure": timer.timed_closure(kwargs["closure"])}
            else:
                changed = None
            if is_recording and changed is None:
                timer.phase.begin(get_ident())
            else:
                timer.phase.end(get_ident(), NotFinished)  # of a step() that raised
            return changed
        except Exception as error:
            note_failure(error)
            return None


class _End(_StepHook):
    __slots__ = ()

    def __call__(self, *given: Any) -> None:
        timer = self.timer
        if is_compiling() or not timer.phase:
            return
        try:
            if timer.may_nest and _is_nested_step(given[0]):
                return
            timer.phase.end(get_ident())
            for call in timer.after:
                call()
        except Exception as error:
            timer.after.clear()  # what fails once is left
            note_failure(error)


class OptimizerTimer:
    """Times the steps of an optimizer. `before` is called before each step; those in `after`, a list that all optimizers share,
    after each, until one raises.

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
        self.recording = profiler._recording
        self.phase = phase
        self.before = before
        self.after = after
        self.may_nest = _may_nest(optimizer.__class__)
        self._optimizer = optimizer
        self._hooks = _Begin(self), _End(self)
        self._handles: list[Any] = []
        self._is_on = False

    def turn(self, on: bool) -> bool:
        """Puts the hooks on, or takes them off where no step is open, of another thread. Whether they are to go."""
        if not on and self.phase:
            return True
        if on is self._is_on:
            return False
        self._is_on = on
        if not on:
            for handle in self._handles:
                handle.remove()
        elif self._handles:
            for handle, hook in zip(self._handles, self._hooks):  # as it was, at a fraction of what PyTorch takes
                handle.hooks_dict_ref()[handle.id] = hook
        else:
            optimizer: Any = self._optimizer
            begin, end = self._hooks
            self._handles = [optimizer.register_step_pre_hook(begin), optimizer.register_step_post_hook(end)]
        return False

    def timed_closure(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """A closure for step(), which ends the phase and begins it again."""

        def between_spans() -> Any:
            self.phase.end(get_ident())
            result = closure()
            if self.recording:
                self.phase.begin(get_ident())
            return result

        return between_spans
