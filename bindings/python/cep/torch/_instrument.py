# SPDX-License-Identifier: Apache-2.0
"""instrument(): times the phases of a training step, with no change to the loop."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any, Callable, Iterable, Optional, Union

from .._handle import Removable
from .._messages import tell_mistake, warn
from .._profiler import Profiler, profiler_first
from .._settings import note_training
from .._streams import current_stream_source, exchange_device
from ._backward import Backward, backward_of, graph_task, matmul_dtype
from ._collectives import instrument_collectives
from ._ddp import time_reductions
from ._hooks import ForwardCalls, Phase, need_hooks
from ._memory import PhasePeaks, memory_recorder
from ._optimizer import OptimizerTimer, optimizer_list
from ._pytorch import Module, Optimizer, distributed_is_initialized, torch
from ._steps import step_listeners

_ADVICE = "; the second time counts for nothing: instrument it once, or call remove() on the first handle before"


class Claims:
    """The models and optimizers of one profiler that are timed: no phase is counted twice."""

    def __init__(self, profiler: Profiler) -> None:
        self._rank = profiler.rank
        self._models: dict[int, tuple[Callable[[], Any], str]] = {}  # by id()
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()

    def claim_model(self, model: Module, prefix: str) -> bool:
        """Claims a model, whose phases' names have a prefix. False if it is timed already, or a module around it or
        inside of it is under the same names."""
        for reference, taken in list(self._models.values()):
            other = reference()
            if other is None:
                continue
            if other is model or taken == prefix and (_contains(other, model) or _contains(model, other)):
                relation = "as part of" if _contains(other, model) else "around"
                where = "" if other is model else f", {relation} {_name(other)},"
                self._tell("model", f"{_name(model)}{where} is instrumented twice (by instrument(), or an integration)")
                return False
        self._models[id(model)] = weakref.ref(model), prefix
        return True

    def release_model(self, model: Module) -> None:
        self._models.pop(id(model), None)

    def claim_optimizer(self, optimizer: Optimizer) -> bool:
        """Claims an optimizer. False if it is timed already."""
        if optimizer in self._optimizers:
            self._tell("optimizer", f"{_name(optimizer)} is instrumented twice (by instrument(), or an integration)")
            return False
        self._optimizers.add(optimizer)
        return True

    def release_optimizer(self, optimizer: Optimizer) -> None:
        self._optimizers.discard(optimizer)

    def _tell(self, kind: str, what: str) -> None:
        tell_mistake(self._rank, f"{kind} twice", what + _ADVICE)


def _name(timed: object) -> str:
    return f"the {'model' if hasattr(timed, 'modules') else 'optimizer'} {type(timed).__name__}"


def _contains(outer: Module, inner: Module) -> bool:
    return outer is not inner and any(module is inner for module in outer.modules())


def claims_of(profiler: Profiler) -> Claims:
    return profiler._part(Claims)


def follow_device_of(model: Module, profiler: Profiler) -> None:
    """Has the profiler's spans be on the GPU of the first model, also where that is not the current one, as in a process
    that says ``model.to("cuda:1")`` and never torch.cuda.set_device(1). They would be on an idle stream of another GPU.
    """
    parameter = next(model.parameters(), None)
    if parameter is None or not parameter.is_cuda:
        return
    device = int(parameter.device.index)
    if profiler._device is None:
        profiler._device = device
        source = None if device == torch.cuda.current_device() else current_stream_source(device)
        if source is not None:
            profiler._set_stream_source(source)
            profiler._set_device(exchange_device, device)
    elif device != profiler._device:
        warn(
            f"a model is on GPU {device}, and the first model of this profiler is on GPU {profiler._device}: "
            f"all spans are timed on GPU {profiler._device}"
        )


class _Forward(ForwardCalls):  # type: ignore[misc]
    """Times the forwards of a model. Thread-safe: forwards of several threads are timed separately."""

    def __init__(self, profiler: Profiler, prefix: str, backward: Backward, model: Module) -> None:
        forward, no_grad = (Phase(profiler.region(prefix + name, kind="compute")) for name in ("forward", "forward_no_grad"))
        # Around all hooks, so that the work of FSDP's own (gathering parameters) is part of the forward.
        super().__init__(model, forward, no_grad, backward, graph_task, torch.is_grad_enabled)
        self.peaks: Optional[PhasePeaks] = None
        self._profiler: Optional[Profiler] = profiler  # until it knows the type of matrix products
        self.after: Optional[Callable[[Any], None]] = self._after

    def _after(self, output: Any) -> None:
        """After a forward with gradients."""
        if self.peaks is None:
            self.after = None  # no more calls: the first forward told it all
        else:
            self.peaks.end("forward")
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            found = matmul_dtype(output)
            profiler.add_settings({} if found is None else {"matmul_dtype": found})


class Instrumentation(Removable):
    """What instrument() and instrument_optimizers() return. remove(), or the end of a ``with`` block, removes
    everything; so does the profiler's close(). Do not call it during a step.

    The hooks are on the model and the optimizers during recorded steps only.
    """

    def __init__(self, profiler: Profiler, prefix: str, memory: bool, memory_phases: bool = False) -> None:
        super().__init__()
        self._peaks = PhasePeaks(profiler) if memory_phases else None
        self._profiler = profiler
        self._memory = memory
        self._forward: Optional[_Forward] = None
        self._optimizer = Phase(profiler.region(prefix + "optimizer", kind="compute"))
        self._backward = backward_of(profiler, prefix)
        if self._peaks is not None:
            self._backward.after = functools.partial(self._peaks.end, "backward")
        self._turns: list[Callable[[bool], bool]] = []  # of what has hooks during recorded steps

    def _start(self, model: Optional[_Forward], optimizers: list[Optimizer]) -> None:
        self._forward = model
        if model is not None:
            self._turns.append(model.turn)
        claims = claims_of(self._profiler)
        abandon = self._backward.abandon if model is None else model.abandon
        after: list[Callable[[], object]] = []
        if self._peaks is not None:
            after.append(functools.partial(self._peaks.end, "optimizer"))
        if self._memory:
            after.append(memory_recorder(self._profiler))
        for optimizer in optimizers:
            if claims.claim_optimizer(optimizer):
                self._removals.append(functools.partial(claims.release_optimizer, optimizer))
                self._turns.append(OptimizerTimer(optimizer, self._profiler, self._optimizer, abandon, after).turn)
        self._removals.append(self._stop)
        for turn in self._turns:
            step_listeners(self._profiler).add(turn)
            turn(bool(self._profiler._recording))
        self._profiler._at_close.append(self.remove)

    def _stop(self) -> None:
        with contextlib.suppress(ValueError):  # close() has removed it already, to call it
            self._profiler._at_close.remove(self.remove)
        if self._forward is not None:
            self._forward.abandon()
            self._forward.turn(None)
        self._backward.abandon()
        self._optimizer.abandon()
        self._backward.unwatch()
        for turn in self._turns:
            step_listeners(self._profiler).remove(turn)
            turn(False)
        self.announcer()(None)

    def announcer(self) -> Callable[[Optional[Callable[[], None]]], None]:
        """What has a function called before each call of the model, recorded or not; it may begin the next step. None: no
        more."""
        announce: Callable[[Optional[Callable[[], None]]], None] = self._forward.announce if self._forward else lambda _: None
        return announce


class _Off(Instrumentation):
    """On a rank that is not profiled: no hook at all."""

    def __init__(self) -> None:
        Removable.__init__(self)


@profiler_first
def instrument(
    profiler: Profiler,
    model: Module,
    optimizer: Union[None, Optimizer, Iterable[Optimizer]] = None,
    *,
    prefix: str = "",
    collectives: bool = True,
    ddp_buckets: bool = True,
    memory: bool = True,
    memory_phases: bool = False,
) -> Instrumentation:
    """Times the forward, backward and optimizer phases of each recorded step, with no further change to the loop::

        model = DistributedDataParallel(model)
        with cep.Profiler("output") as prof, cep.torch.instrument(prof, model, optimizer):
            for step, batch in enumerate(cep.torch.iterate(prof, loader)):
                prof.step(step)
                ...

    The rows are all of kind ``compute``, each on the stream that is current when its phase begins. If the model is on
    another device than the current one, so are all spans of the profiler from now on:

    - ``forward``: a call of the model with gradients. ``forward_no_grad``: one without (evaluation, a teacher model).
      The work of FSDP's hooks before it (gathering parameters) is part of it, if instrument() is called after FSDP.
    - ``backward``: from the first gradient of a model output to the end of the autograd engine's run, with the time
      that DDP and FSDP wait for their collectives. The loss function's own backward is not part of it.
    - ``optimizer``: each step() of each optimizer. A closure's forward and backward are not part of it.

    With gradient accumulation a step has several spans of a name (``seq``). The recomputation of activation
    checkpointing is part of the backward. A phase that raises is marked (``error``).
    ``profiler.step()`` turns the hooks on and off: on a step that is not recorded, or if the profiler is off, there are none.
    They never synchronise, never raise (failures are counted, and the first is a warning), and never keep a graph or a
    tensor alive. Copies of the model, deep or pickled, are not instrumented. What is instrumented already, by another call or
    by an integration, is not timed twice: a message tells of it.

    Args:
        profiler: The profiler.
        model: The module that the loop calls: the DDP or FSDP wrapper, if there is one. Call instrument() after
            wrapping, after sharding, and after torch.compile, which replaces the module.
        optimizer: One optimizer, several, or None.
        prefix: Goes before the phases' names, to tell several models apart ("generator.").
        collectives: Also calls instrument_collectives(). Then every rank has to call instrument() in the same step.
        ddp_buckets: Also a row ``all_reduce`` for each bucket of a DistributedDataParallel, at no cost on steps that are not
            recorded. No other thread may reduce gradients while the loop calls ``profiler.step()``. With False, the
            backward hides its all-reduces.
        memory: Also calls record_memory() after recorded optimizer steps, at most four times a second.
        memory_phases: Also records the most memory in each phase of a recorded step, as ``memory.peak_bytes.forward``,
            ``.backward`` and ``.optimizer``. For that it resets PyTorch's peaks at the end of each phase, so that
            torch.cuda.max_memory_allocated() and ``memory.peak_allocated_bytes`` are since then.

    Returns:
        A handle with ``remove()``, and a context manager that calls it.

    Raises:
        ImportError: The package has no extension module, which the hooks need. The message says what to install.
        OptionError: The prefix makes an invalid name.
    """
    if not profiler.enabled:
        return _Off()
    need_hooks()
    optimizers = optimizer_list(optimizer)
    claims = claims_of(profiler)
    follow_device_of(model, profiler)
    made = Instrumentation(profiler, prefix, memory, memory_phases)
    forward: Optional[_Forward] = None
    try:
        if claims.claim_model(model, prefix):
            made._removals.append(functools.partial(claims.release_model, model))
            forward = _Forward(profiler, prefix, made._backward, model)
            forward.peaks = made._peaks
        if collectives and distributed_is_initialized():
            made._removals.append(instrument_collectives(profiler).remove)
            if forward is not None and ddp_buckets:
                made._removals += time_reductions(model, profiler)
        made._start(forward, optimizers)
        note_training(profiler, model=model, optimizer=next(iter(optimizers), None))
    except BaseException:
        made.remove()
        raise
    return made


@profiler_first
def instrument_optimizers(
    profiler: Profiler, optimizer: Union[Optimizer, Iterable[Optimizer]], *, prefix: str = "", memory: bool = True
) -> Instrumentation:
    """Times each step() of optimizers, as instrument() does, and nothing else.

    Args:
        profiler: The profiler; prefix and memory as for instrument().
        optimizer: One optimizer or several.

    Returns:
        A handle with ``remove()``, and a context manager that calls it.

    Raises:
        ImportError: As instrument() does.
    """
    if not profiler.enabled:
        return _Off()
    need_hooks()
    made = Instrumentation(profiler, prefix, memory)
    made._start(None, optimizer_list(optimizer))
    return made
