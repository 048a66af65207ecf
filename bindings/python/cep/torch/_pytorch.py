# SPDX-License-Identifier: Apache-2.0
"""PyTorch for cep.torch and cep.integrations, and what keeps hooks in one process, and their failures from the trainer.

The code of this package uses it as an untyped module, because its type hints differ between versions, and this package
works with 2.4 and later. What callers pass and get has PyTorch's own types.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any, Callable

from .._errors import warn

try:
    torch: Any = importlib.import_module("torch")
    importlib.import_module("torch.compiler")
    if not hasattr(torch.library, "custom_op"):  # it came with 2.4
        raise ImportError(f"this is PyTorch {torch.__version__}")
except ImportError as error:
    raise ImportError(f"cep.torch needs PyTorch 2.4 or later, which cannot be imported: {error}") from error

dist: Any = importlib.import_module("torch.distributed")

# PyTorch's types in the type hints of this package. They are for type checkers only.
if TYPE_CHECKING:
    from torch import Tensor
    from torch import device as Device
    from torch._C._distributed_c10d import ProcessGroup
    from torch.nn import Module
    from torch.optim import Optimizer
else:
    Tensor = Device = ProcessGroup = Module = Optimizer = Any

__all__ = [
    "Device", "Module", "NotFinished", "Optimizer", "ProcessGroup", "Tensor", "Unmeasured", "dist",
    "distributed_is_initialized", "hook_failures", "inert_hook", "is_compiling", "note_failure", "torch",
]  # fmt: skip


def distributed_is_initialized() -> bool:
    """Whether this process is in a job with process groups."""
    return bool(dist.is_available() and dist.is_initialized())


class NotFinished(Exception):
    """The ``error`` of a row whose phase began and has no end that was seen, because the code in it raised."""


class Unmeasured(Exception):
    """The ``error`` of a row whose duration means nothing, because the end of the operation cannot be observed."""


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
