# SPDX-License-Identifier: Apache-2.0
"""Hooks that belong to one model in one process, and that never raise into it."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable

from ._pytorch import torch

is_compiling: Callable[[], bool] = torch.compiler.is_dynamo_compiling
_failures = 0


def hook_failures() -> int:
    """How many calls of hooks have failed in this process."""
    return _failures


def note_failure(error: Exception) -> None:
    """Counts a failure inside of a hook. The first one of the process is a warning."""
    global _failures
    _failures += 1
    if _failures == 1:
        message = f"cep: a hook failed, and a row is missing or incomplete: {type(error).__name__}: {error}"
        with contextlib.suppress(RuntimeWarning):  # raised where warnings are errors
            warnings.warn(message, RuntimeWarning, stacklevel=3)


def inert_hook() -> tuple[Any, ...]:
    """What __reduce__() returns, for a copy that takes any arguments, returns None, and is of the standard library."""
    return getattr, (contextlib.nullcontext(), "__exit__")


class Hook:
    """A function as a hook of a module or an optimizer.

    Copies of it, deep or pickled, do nothing: a copy of an instrumented model is not instrumented, and a checkpoint of
    one can be read without this package. An exception in the function is counted, and does not reach the trainer.
    """

    __slots__ = ("_function", "__weakref__")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        if is_compiling():  # torch.compile leaves nothing of a hook that is traced
            return None
        try:
            return self._function(*args)
        except Exception as error:
            note_failure(error)
            return None

    def __reduce__(self) -> Any:
        return inert_hook()
