# SPDX-License-Identifier: Apache-2.0
"""The profiler is the first argument of each function that takes one."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, TypeVar, cast

from ._profiler import Profiler

Function = TypeVar("Function", bound=Callable[..., Any])


def profiler_first(function: Function) -> Function:
    """Also takes the profiler by name, and where it stood before 0.3, with a warning; until 1.0."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "profiler" in kwargs:
            return function(kwargs.pop("profiler"), *args, **kwargs)
        at = next((index for index, given in enumerate(args) if isinstance(given, Profiler)), 0)
        if at > 0:
            message = f"cep: {function.__name__}(): the profiler is the first argument since 0.3"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            args = (args[at], *args[:at], *args[at + 1 :])
        return function(*args, **kwargs)

    return cast(Function, call)
