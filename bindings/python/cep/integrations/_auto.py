# SPDX-License-Identifier: Apache-2.0
"""Instruments a script that does not know of cep, under `cep run`: finds its steps, and times their phases.

The start-up module (cep/_startup) calls install(), and add_optimizer() for each optimizer of PyTorch that is made. The
first step of an optimizer shows which models are trained, by its parameters; recording begins with the step after it.

Nothing here raises into the script, prints to standard output, or draws random numbers.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import itertools
import math
import os
import weakref
from threading import get_ident
from typing import Any, Callable, Optional

from .. import Profiler
from .. import torch as cep_torch
from .._options import rank_and_size, tell
from .._life import Removal, Replacement, open_profilers, patch, undo_all
from .._binding import why_no_hooks
from .._errors import say
from .._native import TimedCopy, TimedFunction, TrainingWatch
from .._attributes import HOST
from ..torch._pytorch import Module, Optimizer, distributed_is_initialized, is_compiling, torch
from ..torch._training import TrainingSteps

_MOST_OPTIMIZERS = 16  # each gets hooks and rows; a script with one for each parameter has hundreds
_MOST_UPDATES = 64  # in one step, before waits for a loader no longer tell steps apart
_NO_STEP_OUTSIDE = (
    "{} replays of CUDA graphs after the last optimizer step outside of one: nothing tells such steps apart; open a "
    "cep.Profiler in the script, and call its step() at each step"
)
_SEARCHED_LEVELS = 4  # of models inside the outermost one, which is not always the one that is called
_MOST_MODELS = 8


def outermost_models(parameters: set[int]) -> list[Module]:
    """The modules that have these parameters (by id()) and are in no other module: the wrappers of DDP and FSDP, not what
    is in them. Looks at all objects of the process, which takes some 50 ms for a million."""
    module_type = torch.nn.Module
    # Not isinstance(): that asks objects for their __class__, and proxies answer with an import.
    modules = [found for found in gc.get_objects() if issubclass(type(found), module_type)]
    inside = {id(child) for module in modules for child in module._modules.values()}
    outermost = [module for module in modules if id(module) not in inside]
    trained = [module for module in outermost if any(id(parameter) in parameters for parameter in module.parameters())]
    if not trained:  # the optimizer has copies of the parameters (mixed precision, sharded states)
        trained = [module for module in outermost if any(parameter.requires_grad for parameter in module.parameters())]
    return trained[:_MOST_MODELS]


class ModelWatch:
    """Times a model's forward and backward, and calls a function before each of its calls, recorded or not, unless it is
    paused."""

    def __init__(self, model: Module, profiler: Profiler, on_call: Callable[[ModelWatch, Module], None]) -> None:
        self.model = weakref.ref(model)
        self.was_called = False
        self._phases = cep_torch.instrument(profiler, model, None, memory=False)
        self.on_call = functools.partial(on_call, self)
        self.announce = self._phases.announcer()
        """Has a function called before each call of the model. None: no more, and without a recorded step the call is its own."""
        self.announce(self.on_call)
        self.remove = self._phases.remove


def patch_loaders(training: Any) -> None:
    """Has each wait for a DataLoader go through an AutoTraining. Each loader gets a number, which its iterators have."""
    loaders: Any = torch.utils.data.dataloader
    iterate, get_next = loaders.DataLoader.__iter__, loaders._BaseDataLoaderIter.__next__
    numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    following = itertools.count()

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Any:
        iterator = iterate(self)
        if isinstance(iterator, loaders._BaseDataLoaderIter):
            if self not in numbers:
                numbers[self] = next(following)
            iterator.__dict__["_cep_length"] = math.inf  # all that it yields; infinity: nobody knows
            with contextlib.suppress(Exception):  # not public attributes, or the script's sampler has no length
                if iterator._dataset_kind == loaders._DatasetKind.Map:
                    iterator.__dict__["_cep_length"] = len(iterator)
            iterator.__dict__["_cep_loader"] = numbers[self]  # the loader itself may be gone before its iterator
        return iterator

    training.get_next = get_next
    timed: Any = TimedFunction(None, get_next, training.next_batch, [True])
    functools.update_wrapper(timed, get_next)
    loaders.DataLoader.__iter__ = __iter__
    loaders._BaseDataLoaderIter.__next__ = timed


_DEVICES = (torch.device, str, int, torch.Tensor)  # by what Tensor.to() is told a device, and not only a type of numbers


def time_copies(profiler: Profiler, switched: list[bool]) -> list[Removal]:
    """Times copies of a batch to the device: each .to() and .cuda() of a tensor on the CPU, on this thread, while a
    list is not empty: from the batch to the forward, and from the optimizer to the next batch.

    The methods of PyTorch's class are replaced once. A change of a class at each step would have Python forget what it
    knows of it, for good from the thousandth on. While the list is empty, they go through a branch in C.
    """
    region = profiler.region("host_to_device", kind="data")
    removals: list[Removal] = []
    for name, devices in (("to", _DEVICES), ("cuda", None)):
        original = getattr(torch.Tensor, name)
        copy = TimedCopy(region, original, devices, torch.device("cpu"), is_compiling)
        timed: Any = TimedFunction(region, original, copy, switched)
        functools.update_wrapper(timed, original)
        removals.append(Replacement(torch.Tensor, name, timed).remove)
    return [*removals, switched.clear]


class AutoTraining(TrainingWatch):  # type: ignore[misc]
    """The training of this process.

    A step ends at the first wait for a DataLoader after an optimizer has stepped. Batches that are only accumulated so
    belong to one step, and so do several optimizers that step on one batch. In a script without a DataLoader, or that
    waits for it on another thread, a step ends at the first forward of a trained model once all optimizers of the step
    before have stepped again. Where neither is seen, as with a step that is one CUDA graph, the last of these optimizers
    ends it. What no training needs (waiting for a loader of evaluation data) ends a step too, and the next one begins when
    training goes on.

    Where loaders tell steps apart, a step that is not recorded is quiet: the models' calls are their own, an optimizer's step
    is counted, and a wait for the loader looks whether one has stepped. All else waits for the next recorded step, or for
    something new: another loader or optimizer.
    """

    def __init__(self) -> None:
        # In C, where native/training.c describes them: last_loader, thread, replays, updates, is_off and more.
        self.profiler: Optional[Profiler] = None
        self.steps: Any  # TrainingSteps
        self.has_fetched: bool
        self.watches = True
        """Not where it is off, and where Lightning's callback records."""
        self.models: list[ModelWatch] = []
        self._searched_levels = 0
        self.optimizers: dict[int, Any] = {}  # by id(): weak references to those that have stepped
        self._parameters: set[int] = set()  # of all models that are watched, by id()
        self._removals: list[Removal] = []
        self.training_loaders: set[int] = set()
        self.switched: list[bool] = []  # not empty while copies are timed
        self.open_profilers = vars(open_profilers)["data"]
        self.stepped: set[int] = set()  # the optimizers that have stepped in this step
        self.needed: set[int] = set()
        self.most_updates = _MOST_UPDATES
        self.captures = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
        self.cuda = None if self.captures is None else vars(torch.cuda)
        self.is_grad_enabled = torch.is_grad_enabled

    def __reduce__(self) -> Any:
        """A copy of an optimizer with all that it has is told to the same."""
        return install, ()

    def fail(self, error: Exception) -> None:
        """A failure ends the instrumentation."""
        rank = 0 if self.profiler is None else self.profiler.rank
        self.tell_failure(f"rank {rank} is no longer instrumented: {type(error).__name__}: {error}")

    def tell_failure(self, why: str) -> None:
        """Ends the instrumentation, and has the launcher say why."""
        if not tell("failed", why=why):
            say(why)
        self.turn_off()

    def turn_off(self) -> None:
        """Ends the instrumentation for good. Functions that are replaced stay, and do no more than the originals."""
        self.is_off = True
        self.watches = self.is_quiet = False
        with contextlib.suppress(Exception):
            self._close()

    def _close(self) -> None:
        steps, self.steps = self.steps, None
        self._ended = steps  # who is using them goes on
        if steps is not None:
            steps.abandon()
        undo_all(self._removals)
        if self.replays > 1:
            tell("advice", why=_NO_STEP_OUTSIDE.format(self.replays))
        if self.profiler is not None and self.profiler.enabled:
            self.profiler.close()
            tell("ended", steps=steps.made if steps is not None else 0)

    def _end(self) -> None:
        """At the interpreter's exit."""
        try:
            if not self.is_off:
                self._close()
        except Exception as error:
            self.fail(error)

    def forget_after_fork(self) -> None:
        """In a forked child the training is the parent's."""
        if self.profiler is not None:
            self.is_off, self.watches = True, False

    def open(self) -> Optional[Profiler]:
        """Opens the profiler. None if this process is not to be recorded, or records itself."""
        if self.profiler is not None:
            return self.profiler
        if self._has_own_profiler():
            return None
        options: dict[str, Any] = {}
        if not os.environ.get("CEP_START_STEP") and not os.environ.get("CEP_CONFIG"):
            options["start_step"] = 1  # the step before the first one that can be recorded
        profiler = Profiler(**options)
        if not profiler.enabled:
            tell("off", rank=profiler.rank)
            self.turn_off()
            return None
        self.profiler = profiler
        tell("opened", path=str(profiler.path), rank=profiler.rank, world_size=rank_and_size()[1], is_own=False)
        atexit.register(self._end)
        return profiler

    def _has_own_profiler(self) -> bool:
        """Whether the script itself has a profiler. Then cep does nothing more, and says so."""
        own = (profiler for profiler in open_profilers if profiler is not self.profiler and profiler.enabled)
        profiler: Any = next(own, None)
        if profiler is None:
            return False
        tell("opened", path=str(profiler.path), rank=profiler.rank, world_size=rank_and_size()[1], is_own=True)
        if profiler.rank == 0:
            say(f"the script uses cep itself, so it is not instrumented again; its rows are in {profiler.path.parent}")
        self.turn_off()
        return True

    def _begin(self, optimizer: Optimizer) -> None:
        """At the end of the first step of an optimizer."""
        self.thread = get_ident()
        self.learn_loader()
        profiler = self.open()
        if profiler is None:
            return
        self.load = profiler.region("data_load", kind="data", stream=HOST)
        self._replay = profiler.region("graph_replay", kind="compute")
        self._removals += time_copies(profiler, self.switched)
        if distributed_is_initialized():
            self._removals.append(cep_torch.instrument_collectives(profiler).remove)
        self.steps = TrainingSteps(profiler, 1)
        self.steps.made = 1
        self._add_trained_by(optimizer)

    def _add_trained_by(self, optimizer: Optimizer) -> None:
        """Times an optimizer that steps for the first time, and the models that it trains."""
        assert self.profiler is not None
        if id(optimizer) in self.optimizers or len(self.optimizers) == _MOST_OPTIMIZERS:
            return
        self.optimizers[id(optimizer)] = weakref.ref(optimizer)
        is_first = not self._removals or len(self.optimizers) == 1
        phases = cep_torch.instrument_optimizers(self.profiler, optimizer, memory=is_first)
        self._removals.append(phases.remove)
        trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if not trained <= self._parameters:
            for model in outermost_models(trained):
                self._watch(model)

    def _watch(self, model: Module) -> None:
        assert self.profiler is not None
        if any(watch.model() is model for watch in self.models):
            return
        watch = ModelWatch(model, self.profiler, self.before_forward)
        self.models.append(watch)
        self._removals.append(watch.remove)
        self._parameters |= {id(parameter) for parameter in model.parameters()}

    def _search_models(self) -> None:
        """Where no outermost model has been called in a whole step, those inside are watched in their place."""
        if any(watch.was_called for watch in self.models):
            self.has_found = True
            return
        self._searched_levels += 1
        self.has_found = self._searched_levels == _SEARCHED_LEVELS
        unused, self.models = self.models, []
        for watch in unused:
            watch.remove()
            model = watch.model()
            for child in () if model is None else model.children():
                if any(id(parameter) in self._parameters for parameter in child.parameters()):
                    self._watch(child)

    def _begin_replay(self) -> Optional[Any]:
        """Before a CUDA graph is replayed. Returns the region that times it; None where it is not recorded."""
        self.replays += 1
        if self.steps is None or self.is_quiet or get_ident() != self.thread:
            return None
        self.learn_loader()
        self.steps.begin()
        return self._replay if self.profiler is not None and self.profiler._recording else None

    def replay(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """What takes the place of CUDAGraph.replay()."""
        def replay(*args: Any, **kwargs: Any) -> Any:
            region = None
            try:
                region = None if self.is_off else self._begin_replay()
            except Exception as error:
                self.fail(error)
            if region is None:
                return original(*args, **kwargs)
            with region:
                return original(*args, **kwargs)

        return replay

    def _note_unusual(self, optimizer: Optimizer) -> bool:
        """After a step() of an optimizer while much is new. Returns whether it is part of a step that is counted."""
        if self.steps is None:
            if self.profiler is None:
                self._begin(optimizer)
            return False
        if id(optimizer) not in self.optimizers:
            self._add_trained_by(optimizer)
        if self.updates + 1 == _MOST_UPDATES and self.has_fetched:
            self.training_loaders.clear()
            self.has_fetched = False
        if not self.has_found:
            self._search_models()
        return True


_training: Optional[AutoTraining] = None


def install() -> AutoTraining:
    """Prepares this process, once."""
    global _training
    if _training is None:
        _training = AutoTraining()
        why = why_no_hooks()
        if why is not None:
            _training.tell_failure(f"nothing of this training is recorded: {why}")
            return _training
        patch_loaders(_training)
        patch(torch.cuda.CUDAGraph, "replay", _training.replay)
        os.register_at_fork(after_in_child=_training.forget_after_fork)
    return _training


def add_optimizer(optimizer: Optimizer) -> None:
    """Watches the steps of an optimizer that has just been made."""
    training = install()
    if not training.watches:
        return
    hooked: Any = optimizer
    hooked.register_step_pre_hook(training.before_optimizer)
    hooked.register_step_post_hook(training.after_optimizer)
