# SPDX-License-Identifier: Apache-2.0
"""The backward phase: from the first gradient of a model's outputs to the end of the autograd engine's run; and what an output's
graph tells."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from itertools import islice
from typing import Any, Callable, Iterator, Optional

from .._binding import native
from .._native import BackwardCalls, Phase
from .._profiler import Profiler
from ._pytorch import NotFinished, Tensor, Unmeasured, inert_hook, note_failure, torch

_DEPTH_LIMIT = 4
_TENSOR_LIMIT = 64

_queue_callback: Callable[[Callable[[], None]], None] = torch.autograd.Variable._execution_engine.queue_callback
graph_task: Callable[[], int] = torch._C._current_graph_task_id
"""The autograd engine's run in this thread; -1: none."""


def tensors_in(output: object, depth: int = _DEPTH_LIMIT) -> Iterator[Tensor]:
    """The tensors of a model's output: of tuples, lists, mappings and dataclasses of these."""
    if isinstance(output, torch.Tensor):
        yield output
        return
    if depth == 0 or output is None or isinstance(output, (str, bytes, int, float)):
        return
    if isinstance(output, (tuple, list)):
        members: Any = output
    elif hasattr(output, "values") and callable(output.values):
        members = output.values()
    elif hasattr(output, "__dataclass_fields__"):
        members = [getattr(output, field) for field in output.__dataclass_fields__]
    else:
        return
    for member in members:
        yield from tensors_in(member, depth - 1)


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


if native is not None:
    listed: Callable[[object], list[Tensor]] = lambda output: list(islice(tensors_in(output), _TENSOR_LIMIT))  # noqa: E731
    native.connect_torch(note_failure, NotFinished, Unmeasured, torch.Tensor, listed, OrderedDict, inert_hook())


class Backward(BackwardCalls):  # type: ignore[misc]
    """Times the backward of the models that share a prefix.

    It begins when the first gradient of a model output is ready, so it does not contain the loss function's own
    backward. It ends after the engine's final callbacks, so it contains the time that DDP and FSDP wait for their
    collectives. It is itself the hook of tensors of the graph, and holds no tensor, so it keeps no graph alive.

    Thread-safe: the engine's threads call it.
    """


def backward_of(profiler: Profiler, prefix: str) -> Backward:
    """The only Backward of a profiler and prefix: a backward through several models is one phase."""
    known: dict[str, Backward] = profiler.__dict__.setdefault("_backwards", {})
    if prefix not in known:
        known[prefix] = Backward(profiler, Phase(profiler.region(prefix + "backward", kind="compute")), _queue_callback)
    return known[prefix]
