# SPDX-License-Identifier: Apache-2.0
"""The backward phase: from the first gradient of a model's outputs to the end of the autograd engine's run."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import islice
from typing import Any, Callable, Iterator, Optional

from .._profiler import Profiler
from ._comm_span import end_done_spans
from ._hooks import Hook, note_failure
from ._memory import PhasePeaks
from ._phases import NotFinished, Phase
from ._pytorch import Tensor, torch

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


class Backward:
    """Times the backward of the models that share a prefix.

    It begins when the first gradient of a model output is ready, so it does not contain the loss function's own
    backward. It ends after the engine's final callbacks, so it contains the time that DDP and FSDP wait for their
    collectives. The hooks are on tensors of the graph and hold no tensor, so they keep no graph alive.

    Thread-safe: the engine's threads call it.
    """

    def __init__(self, profiler: Profiler, phase: Phase) -> None:
        self._profiler = profiler
        self._recording = profiler._recording
        self._phase = phase
        self.peaks: Optional[PhasePeaks] = None
        self.running = threading.Lock()  # held from the first gradient to the end
        self._sync: Any = None  # a DDPGradientSync
        # The hooks of outputs that are parameters or inputs, by id(). Those of others are freed with their graph.
        self._leaf_hooks: dict[int, Any] = {}
        self._begin_hook = Hook(self._begin)

    def watch(self, output: object, sync: Any = None) -> None:
        """Has the phase begin at the first gradient of a recorded forward's output.

        Args:
            output: The forward's output.
            sync: A DDPGradientSync, which times what follows the model's own backward, if it averages its gradients over ranks.
        """
        if sync is not None:
            self._sync = sync
            sync.watch()
        tensor: Any
        for tensor in (output,) if isinstance(output, torch.Tensor) else islice(tensors_in(output), _TENSOR_LIMIT):
            if not tensor.requires_grad:
                continue
            if not tensor.is_leaf:
                tensor.register_hook(self._begin_hook)
            elif id(tensor) not in self._leaf_hooks:
                self._leaf_hooks[id(tensor)] = tensor.register_hook(self._begin_hook)

    def unwatch(self) -> None:
        """Removes the hooks of parameters and inputs."""
        if self._sync is not None:
            self._sync.end(NotFinished)
            self._sync = None
        while self._leaf_hooks:
            self._leaf_hooks.popitem()[1].remove()

    def abandon(self) -> None:
        """Ends a backward whose end was not seen, because the engine raised."""
        if self.running.locked():
            self._finish(NotFinished)

    def _begin(self, gradient: Tensor) -> None:
        if not self._recording or not self.running.acquire(blocking=False):
            return
        self._phase.begin(None)
        _queue_callback(self._queue_last)

    def _queue_last(self) -> None:
        """Queues the end behind the callbacks of DDP and FSDP, which were queued after this one."""
        try:
            if self._sync is not None:
                self._sync.begin()
            _queue_callback(self._finish)
        except Exception as failure:
            note_failure(failure)

    def _finish(self, error: Any = None) -> None:
        try:
            if self._sync is not None:
                self._sync.end(error)
                self._sync = None
            end_done_spans(self._profiler)  # DDP has waited for its all-reduces
            self._phase.end(None, error)
            if self.peaks is not None:
                self.peaks.end("backward")
            if self._leaf_hooks:
                self.unwatch()
        except Exception as failure:
            note_failure(failure)
        finally:
            with suppress(RuntimeError):  # abandon() has released it
                self.running.release()


def backward_of(profiler: Profiler, prefix: str) -> Backward:
    """The only Backward of a profiler and prefix: a backward through several models is one phase."""
    known: dict[str, Backward] = profiler.__dict__.setdefault("_backwards", {})
    if prefix not in known:
        known[prefix] = Backward(profiler, Phase(profiler.region(prefix + "backward", kind="compute")))
    return known[prefix]
