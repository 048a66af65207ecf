# SPDX-License-Identifier: Apache-2.0
"""Hooks that belong to one model in one process, and that never raise into it."""

from __future__ import annotations

import contextlib
from typing import Any, Callable

from .._messages import warn
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
        warn(f"a hook failed, and a row is missing or incomplete: {type(error).__name__}: {error}")


def inert_hook() -> tuple[Any, ...]:
    """What __reduce__() returns, for a copy that takes any arguments, returns None, and is of the standard library."""
    return getattr, (contextlib.nullcontext(), "__exit__")
