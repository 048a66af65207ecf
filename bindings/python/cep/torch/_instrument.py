# SPDX-License-Identifier: Apache-2.0
"""instrument(): times the phases of a training step, with no change to the loop."""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections import Counter, OrderedDict, deque
from itertools import islice
from typing import Any, Callable, Iterable, Iterator, Optional, Union

from .._life import Removable, Removal, discard
from .._binding import native, need_hooks
from .._errors import tell_mistake, warn
from .._native import BackwardCalls, ForwardCalls, OptimizerCalls, Phase, seldom
from .._profiler import Profiler, profiler_first
from .._options import note_training
from .._attributes import current_stream_source, exchange_device
from . import _memory
from ._collectives import instrument_collectives
from ._ddp import time_reductions
from ._pytorch import (
    Module, NotFinished, Optimizer, Tensor, Unmeasured, distributed_is_initialized, inert_hook, note_failure, torch,
)  # fmt: skip

_NESTED_FRAMES = 8  # the most frames between the hooks of an inner step() and those of the outer
_ADVICE = "; the second time counts for nothing: instrument it once, or call remove() on the first handle before"


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
    native.connect_torch(
        note_failure, NotFinished, Unmeasured, torch.Tensor,
        lambda output: list(islice(tensors_in(output), _TENSOR_LIMIT)), OrderedDict, inert_hook(),
    )  # fmt: skip


def backward_of(profiler: Profiler, prefix: str) -> BackwardCalls:
    """Times the backward of the models of a profiler that share a prefix: a backward through several is one phase.

    It is itself the hook of tensors of the graph, and holds no tensor, so it keeps no graph alive. It ends after the engine's
    final callbacks. Thread-safe: the engine's threads call it.
    """
    known: dict[str, BackwardCalls] = profiler.__dict__.setdefault("_backwards", {})
    if prefix not in known:
        phase = Phase(profiler.region(prefix + "backward", kind="compute"))
        known[prefix] = BackwardCalls(profiler, phase, _queue_callback)
    return known[prefix]


class Claims:
    """The models and optimizers of one profiler that are timed: no phase is counted twice."""

    def __init__(self, profiler: Profiler) -> None:
        self._rank = profiler.rank
        self._claimed: dict[int, tuple[Callable[[], Any], str]] = {}  # by id()

    def claim(self, timed: Union[Module, Optimizer], prefix: str = "") -> Optional[Removal]:
        """Claims an optimizer, or a model whose phases' names have a prefix. Returns what releases it. None if it is timed
        already, or a module around it or inside of it is under the same names."""
        for reference, taken in list(self._claimed.values()):
            other = reference()
            place = None if other is None else _place_beside(other, timed, taken == prefix)
            if place is not None:
                kind = "model" if hasattr(timed, "modules") else "optimizer"
                what = f"the {kind} {type(timed).__name__}{place} is instrumented twice (by instrument(), or an integration)"
                tell_mistake(self._rank, f"{kind} twice", what + _ADVICE)
                return None
        self._claimed[id(timed)] = weakref.ref(timed), prefix
        return functools.partial(self._claimed.pop, id(timed), None)


def _place_beside(other: Any, timed: Any, has_same_names: bool) -> Optional[str]:
    """How a message says where something is that another claim has already; None where it does not."""
    if other is timed:
        return ""
    if not has_same_names or not hasattr(other, "modules") or not hasattr(timed, "modules"):
        return None
    if any(module is timed for module in other.modules()):
        return f", as part of the model {type(other).__name__},"
    return f", around the model {type(other).__name__}," if any(module is other for module in timed.modules()) else None


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


def _forward_of(
    profiler: Profiler, prefix: str, backward: BackwardCalls, model: Module, end_peak: Optional[Callable[[str], None]]
) -> ForwardCalls:
    """Times the forwards of a model. Thread-safe: forwards of several threads are timed separately."""
    names = prefix + "forward", prefix + "forward_no_grad"
    forward, no_grad = (Phase(profiler.region(name, kind="compute")) for name in names)
    # Around all hooks, so that the work of FSDP's own (gathering parameters) is part of the forward.
    made = ForwardCalls(model, forward, no_grad, backward, graph_task, torch.is_grad_enabled)
    unknown = ["the type of matrix products"]

    def after(output: Any) -> None:
        """After a forward with gradients."""
        if end_peak is None:
            made.after = None  # no more calls: the first forward told it all
        else:
            end_peak("forward")
        if unknown and unknown.pop():
            found = matmul_dtype(output)
            profiler.add_settings({} if found is None else {"matmul_dtype": found})

    made.after = after
    return made


def optimizer_list(given: Union[None, Optimizer, Iterable[Optimizer]]) -> list[Optimizer]:
    """The given optimizers (None, one or several) as a list, without the wrappers of Lightning and Accelerate."""
    if given is None:
        return []
    several: Any = [given] if hasattr(given, "step") else given
    return [_unwrapped(optimizer) for optimizer in several]


def _unwrapped(optimizer: Optimizer) -> Optimizer:
    inner = optimizer.__dict__.get("optimizer", optimizer.__dict__.get("_optimizer"))
    return _unwrapped(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


def _has_two_steps(kind: Any) -> bool:
    """Whether a step() of an optimizer's class can call another one, as that of its base class. PyTorch puts what it has put
    around a base's step(), as Adam's, into a class that has none of its own, as AdamW."""
    own = [base for base in kind.__mro__ if base is not torch.optim.Optimizer]
    return len({inspect.unwrap(vars(base)["step"]) for base in own if "step" in vars(base)}) > 1


_may_nest: Callable[[Any], bool] = functools.lru_cache(None)(_has_two_steps)


def _is_nested_step(optimizer: Optimizer) -> bool:
    """Whether another step() of the same optimizer called this one, as super().step() in a subclass: PyTorch then runs
    the hooks for both. One frame up PyTorch runs the hook; the outer step() has a frame of the same code."""
    hooked = sys._getframe(1)
    frame = hooked.f_back
    for _ in range(_NESTED_FRAMES):
        if frame is None:
            return False
        if frame.f_code is hooked.f_code and frame.f_locals.get("args", (None,))[:1] == (optimizer,):
            return True
        frame = frame.f_back
    return False


class Instrumentation(Removable):
    """What instrument() and instrument_optimizers() return. remove(), or the end of a ``with`` block, removes
    everything; so does the profiler's close(). Do not call it during a step.

    The hooks are on the model and the optimizers during recorded steps only.
    """

    _forward: Optional[ForwardCalls] = None

    def _time(
        self,
        profiler: Profiler,
        prefix: str,
        model: Optional[Module],
        optimizers: list[Optimizer],
        memory: bool,
        memory_phases: bool = False,
    ) -> bool:
        """Times the phases of a model and of optimizers, as far as nobody else does. Returns whether it times the model."""
        backward = backward_of(profiler, prefix)
        optimizer_phase = Phase(profiler.region(prefix + "optimizer", kind="compute"))
        after: list[Callable[[], object]] = [seldom(lambda: _memory.record_memory(profiler))] if memory else []
        end_peak = _memory.phase_peaks(profiler) if memory_phases else None
        if end_peak is not None:
            backward.after = functools.partial(end_peak, "backward")
            after.insert(0, functools.partial(end_peak, "optimizer"))
        if model is not None and self._claim(profiler, model, prefix):
            self._forward = _forward_of(profiler, prefix, backward, model, end_peak)
            self._removals.append(profiler._turn_with_steps(self._forward.turn))
        abandon = backward.abandon if self._forward is None else self._forward.abandon
        for optimizer in optimizers:
            if self._claim(profiler, optimizer):
                is_nested = _is_nested_step if _may_nest(optimizer.__class__) else None
                hooked: Any = optimizer
                places = hooked._optimizer_step_pre_hooks, hooked._optimizer_step_post_hooks
                timer = OptimizerCalls(profiler, optimizer_phase, abandon, after, is_nested, *places)
                self._removals.append(profiler._turn_with_steps(timer.turn))
        self._removals += [backward.unwatch, optimizer_phase.abandon, abandon, functools.partial(self._forget, profiler)]
        profiler._at_close.append(self.remove)
        return self._forward is not None

    def _claim(self, profiler: Profiler, timed: Union[Module, Optimizer], prefix: str = "") -> bool:
        release = profiler._part(Claims).claim(timed, prefix)
        if release is not None:
            self._removals.append(release)
        return release is not None

    def _forget(self, profiler: Profiler) -> None:
        discard(profiler._at_close, self.remove)
        if self._forward is not None:
            self._forward.announce(None)
            self._forward.turn(None)

    def announcer(self) -> Callable[[Optional[Callable[[Any], object]]], None]:
        """What has a function called with the model before each of its calls, recorded or not; it may begin the next step.
        None: no more."""
        announce: Callable[[Any], None] = (lambda _: None) if self._forward is None else self._forward.announce
        return announce


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
    checkpointing is part of the backward. A phase that raises is marked (``error``). ``profiler.step()`` turns the
    hooks on and off: on a step that is not recorded, or if the profiler is off, there are none. They never synchronise,
    never raise (failures are counted, and the first is a warning), and never keep a graph or a tensor alive. Copies of
    the model are not instrumented. What is instrumented already is not timed twice: a message tells of it.

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
        memory: Also calls record_memory() after recorded optimizer steps, at most once a second.
        memory_phases: Also records the most memory in each phase of a recorded step, as ``memory.peak_bytes.forward``,
            ``.backward`` and ``.optimizer``. For that it resets PyTorch's peaks at the end of each phase, so that
            torch.cuda.max_memory_allocated() and ``memory.peak_allocated_bytes`` are since then.

    Returns:
        A handle with ``remove()``, and a context manager that calls it.

    Raises:
        ImportError: The package has no extension module, which the hooks need. The message says what to install.
        OptionError: The prefix makes an invalid name.
    """
    made = Instrumentation()
    if not profiler.enabled:
        return made
    need_hooks()
    optimizers = optimizer_list(optimizer)
    follow_device_of(model, profiler)
    try:
        is_timed = made._time(profiler, prefix, model, optimizers, memory, memory_phases)
        if collectives and distributed_is_initialized():
            made._removals.append(instrument_collectives(profiler).remove)
            if is_timed and ddp_buckets:
                made._removals += time_reductions(model, profiler)
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
    made = Instrumentation()
    if profiler.enabled:
        need_hooks()
        made._time(profiler, prefix, None, optimizer_list(optimizer), memory)
    return made
