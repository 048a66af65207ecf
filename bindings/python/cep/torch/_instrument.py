# SPDX-License-Identifier: Apache-2.0
"""instrument(): times the phases of a training step, with no change to the loop."""

from __future__ import annotations

import inspect
import sys
import warnings
from threading import get_ident
from typing import Any, Callable, Iterable, Union

from .._binding import gate
from .._handle import Removable
from .._profiler import Profiler
from ._backward import Backward
from ._capture import warn
from ._collectives import instrument_collectives
from ._ddp import instrument_ddp
from ._memory import record_memory
from ._optimizer import OptimizerTimer, optimizer_list
from ._phases import NotFinished, Phase
from ._pytorch import Module, Optimizer, distributed_is_initialized, hook_before_forward, torch

_is_grad_enabled: Callable[[], bool] = torch.is_grad_enabled


class Instrumentation(Removable):
    """What instrument() returns. remove(), or the end of a ``with`` block, removes everything but DDP's communication
    hook, which PyTorch cannot remove. Do not call it during a step.

    Thread-safe: forwards of several threads are timed separately.
    """

    def __init__(self, model: Module, optimizers: list[Optimizer], prof: Profiler, prefix: str, memory: bool) -> None:
        super().__init__([self._abandon_all])
        self._prof = prof
        self._recording = prof._recording
        self._memory = memory
        self._forward = Phase(prof.region(prefix + "forward", kind="compute"))
        self._forward_no_grad = Phase(prof.region(prefix + "forward_no_grad", kind="compute"))
        self._optimizer = Phase(prof.region(prefix + "optimizer", kind="compute"))
        self._backward = Backward(prof, Phase(prof.region(prefix + "backward", kind="compute")))
        self._hook_forward(model)
        timer = OptimizerTimer(prof, self._optimizer, self._abandon_unfinished, self._after_optimizer)
        for optimizer in optimizers:
            self._removals += timer.attach(optimizer)

    def _hook_forward(self, model: Module) -> None:
        # The outermost hook, so that the work of FSDP's own hooks (gathering parameters) is part of the forward.
        gates = (self._recording, (self._forward, self._forward_no_grad))
        self._removals.append(hook_before_forward(model, gate(self._begin_forward, *gates)))
        after = inspect.signature(model.register_forward_hook).parameters
        always = {"always_call": True} if "always_call" in after else {}
        end = gate(self._end_forward, *gates)
        self._removals.append(model.register_forward_hook(end, **always).remove)

    def _begin_forward(self, module: Module, args: Any) -> None:
        if not self._recording and not self._forward and not self._forward_no_grad:
            return
        if self._backward.is_running():
            return
        self._abandon_forward()
        if self._recording:
            (self._forward if _is_grad_enabled() else self._forward_no_grad).begin(get_ident())

    def _end_forward(self, module: Module, args: Any, output: Any) -> None:
        if not self._forward and not self._forward_no_grad:
            return
        thread = get_ident()
        # After a forward that raised, the hook is called without an output while the exception is handled.
        error = sys.exc_info()[0] if output is None else None
        self._forward_no_grad.end(thread, error)
        if self._forward.is_open(thread):
            self._forward.end(thread, error)
            self._backward.watch(output)

    def _abandon_forward(self) -> None:
        """Ends a forward of this thread as not finished: if it is open when the next phase begins, it has raised."""
        self._forward.end(get_ident(), NotFinished)
        self._forward_no_grad.end(get_ident(), NotFinished)

    def _abandon_unfinished(self) -> None:
        """Ends an open forward and an open backward as not finished: both are over when an optimizer steps."""
        self._abandon_forward()
        self._backward.abandon()

    def _abandon_all(self) -> None:
        self._abandon_unfinished()
        self._optimizer.abandon()

    def _after_optimizer(self) -> None:
        if self._memory:
            try:
                record_memory(self._prof)
            except Exception as error:
                self._memory = False
                warn(f"no more memory counters: {type(error).__name__}: {error}")


class _Off(Instrumentation):
    """On a rank that is not profiled: no hook at all."""

    def __init__(self) -> None:
        Removable.__init__(self)


def instrument(
    model: Module,
    optimizer: Union[None, Optimizer, Iterable[Optimizer]],
    prof: Profiler,
    *,
    prefix: str = "",
    collectives: bool = True,
    memory: bool = True,
) -> Instrumentation:
    """Times the forward, backward and optimizer phases of each recorded step, with no further change to the loop::

        model = DistributedDataParallel(model)
        with cep.Profiler("output") as prof, cep.torch.instrument(model, optimizer, prof):
            for step, batch in enumerate(cep.torch.iterate(prof, loader)):
                prof.step(step)
                ...

    The rows are all of kind ``compute``, each on the stream that is current when its phase begins:

    - ``forward``: a call of the model with gradients. ``forward_no_grad``: one without (evaluation, a teacher model).
      The work of FSDP's hooks before it (gathering parameters) is part of it, if instrument() is called after FSDP.
    - ``backward``: from the first gradient of a model output to the end of the autograd engine's run, with the time
      that DDP and FSDP wait for their collectives. The loss function's own backward is not part of it.
    - ``optimizer``: each step() of each optimizer. A closure's forward and backward are not part of it.

    With gradient accumulation a step has several spans of a name (``seq``). The recomputation of activation
    checkpointing is part of the backward. A phase that raises is marked (``error``).

    On a step that is not recorded, the hooks cost two Python calls for each forward and two for each optimizer step, 1
    to 2 µs a pair, and nothing for the backward. They never synchronise, and never keep a graph or a tensor alive. If
    the profiler is off, there are no hooks.

    Args:
        model: The module that the loop calls: the DDP or FSDP wrapper, if there is one. Call instrument() after
            wrapping, after sharding, and after torch.compile, which replaces the module.
        optimizer: One optimizer, several, or None.
        prof: The profiler.
        prefix: Goes before the phases' names, to tell several models apart ("generator.").
        collectives: Also calls instrument_collectives(), and instrument_ddp() if the model is a
            DistributedDataParallel without a communication hook. Then every rank has to call instrument() at the same
            place.
        memory: Also calls record_memory() after each recorded optimizer step.

    Returns:
        A handle with ``remove()``, and a context manager that calls it.

    Raises:
        RuntimeError: Another open profiler records the collectives of this process.
    """
    if not prof.enabled:
        return _Off()
    collectives = collectives and distributed_is_initialized()
    wrapped = instrument_collectives(prof) if collectives else None
    instrumentation = Instrumentation(model, optimizer_list(optimizer), prof, prefix, memory)
    if wrapped is not None:
        instrumentation._removals.append(wrapped.remove)
        instrument_ddp_if_free(model, prof)
    return instrumentation


def instrument_ddp_if_free(model: Module, prof: Profiler) -> None:
    """Calls instrument_ddp() if a model is a DistributedDataParallel. Warns if it has a communication hook already."""
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return
    try:
        instrument_ddp(model, prof)
    except RuntimeError as error:
        warnings.warn(
            f"cep: DDP's all-reduces are not timed, because it has a communication hook already ({error}); "
            "register cep.torch.ddp_comm_hook(prof, inner=that_hook) in its place",
            RuntimeWarning,
            stacklevel=3,
        )
