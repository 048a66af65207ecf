# SPDX-License-Identifier: Apache-2.0
"""PyTorch for cep.torch and cep.integrations, and small helpers.

The code of this package uses it as an untyped module, because its type hints differ between versions, and this package
works with 2.4 and later. What callers pass and get has PyTorch's own types.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

__all__ = ["Device", "Module", "Optimizer", "ProcessGroup", "Tensor", "dist", "distributed_is_initialized", "torch"]


def distributed_is_initialized() -> bool:
    """Whether this process is in a job with process groups."""
    return bool(dist.is_available() and dist.is_initialized())
