# SPDX-License-Identifier: Apache-2.0
"""What the hooks of PyTorch are made of: classes of the extension module, in C, whose source (native/, beside the package) has
their documentation; and what keeps hooks in one process, and their failures from the trainer. Without the module there are
no hooks."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Optional

from .._binding import native, why_missing
from .._messages import warn
from ._pytorch import torch

__all__ = [
    "AsyncSpan", "BackwardCalls", "BucketTimer", "CollectiveCalls", "ForwardCalls", "Indices", "NcclCalls",
    "NotFinished", "OptimizerCalls", "Phase", "StepSpans", "TimedCopy", "TimedFunction", "TrainingWatch", "connect_torch",
    "expected_callbacks", "hook_failures", "inert_hook", "is_compiling", "is_inside", "need_hooks", "note_failure", "turn_codes",
    "why_no_hooks",
]  # fmt: skip


def why_no_hooks() -> Optional[str]:
    """What a user is told who has no hooks; None where there are."""
    if native is not None:
        return None
    return (
        f"cep's extension module is missing ({why_missing}), and PyTorch's hooks need it: install cep's wheel, or build cep where "
        "Python's headers are (python3-dev, python3-devel)"
    )


def need_hooks() -> None:
    """Raises an ImportError where there are no hooks."""
    why = why_no_hooks()
    if why is not None:
        raise ImportError(why)


class _Missing:
    """In the place of the module's classes: nobody can make an object of it."""

    def __init__(self, *_: Any) -> None:
        need_hooks()


if native is not None:
    from .._native import (
        AsyncSpan, BackwardCalls, BucketTimer, CollectiveCalls, ForwardCalls, Indices, NcclCalls,
        OpenSpans as Phase, OptimizerCalls, StepSpans, TimedCopy, TimedFunction, TrainingWatch, connect_torch, expected_callbacks,
        is_inside, turn_codes,
    )  # fmt: skip
else:
    AsyncSpan = BackwardCalls = BucketTimer = CollectiveCalls = ForwardCalls = Indices = NcclCalls = Phase = _Missing
    OptimizerCalls = StepSpans = TimedCopy = TimedFunction = is_inside = turn_codes = _Missing
    TrainingWatch = object

    def connect_torch(*_: Any) -> None:
        pass

    def expected_callbacks() -> tuple[bool, int]:
        return False, 0


class NotFinished(Exception):
    """The ``error`` of a row whose phase began and has no end that was seen, because the code in it raised."""


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
        warn(f"a hook failed, and a row is missing or incomplete: {type(error).__name__}: {error}")


def inert_hook() -> tuple[Any, ...]:
    """What __reduce__() returns, for a copy that takes any arguments, returns None, and is of the standard library."""
    return getattr, (contextlib.nullcontext(), "__exit__")
