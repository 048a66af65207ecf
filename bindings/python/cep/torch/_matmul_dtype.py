# SPDX-License-Identifier: Apache-2.0
"""The type of number that a model's matrix products have, wherever autocast was turned on."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, Optional

from ._backward import tensors_in

_PRODUCTS = ("Addmm", "Mm", "Bmm", "Baddbmm", "Linear", "Convolution", "ScaledDotProduct")  # the names of nodes begin so
_MOST_NODES = 512


def matmul_dtype(output: object) -> Optional[str]:
    """The most usual type of the matrix products that a forward ended with, such as "bfloat16": autograd's graph has
    the type of each node's result, and no saved tensor is looked at. None where no product is found, as in a compiled
    model."""
    found: Counter[str] = Counter()
    waiting: deque[Any] = deque(tensor.grad_fn for tensor in tensors_in(output) if tensor.grad_fn is not None)
    seen = set(waiting)
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.popleft()
        if node.name().startswith(_PRODUCTS):
            found[str(node._input_metadata[0].dtype).removeprefix("torch.")] += 1
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)
    return found.most_common(1)[0][0] if found else None
