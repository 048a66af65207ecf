# SPDX-License-Identifier: Apache-2.0
"""PyTorch itself: imported here, and nowhere else in the package.

Loaded as an untyped module on purpose: its type hints differ from version to version, and this package works with 1.13
and later.
"""

from __future__ import annotations

import importlib
from typing import Any

try:
    torch: Any = importlib.import_module("torch")
except ImportError as error:
    raise ImportError(f"cep.torch needs PyTorch 1.13 or later, which cannot be imported: {error}") from error

dist: Any = importlib.import_module("torch.distributed")

# What these names stand for in the hints of this package.
Tensor = Any
Module = Any
Optimizer = Any
ProcessGroup = Any
Future = Any


def distributed_is_initialized() -> bool:
    """Whether this process is in a job with process groups."""
    return bool(dist.is_available() and dist.is_initialized())


def tensor_bytes(tensor: Tensor) -> int:
    """The size of a tensor's elements. Reads no element and never waits for the device."""
    return int(tensor.numel()) * int(tensor.element_size())
