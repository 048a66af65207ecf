# SPDX-License-Identifier: Apache-2.0
"""The models of a script that does not name them: which modules an optimizer trains, and when they are called."""

from __future__ import annotations

import gc
import weakref
from typing import Any, Callable

from .. import torch as cep_torch
from .._profiler import Profiler
from ..torch._hooks import Hook, is_compiling
from ..torch._pytorch import HAS_CALL_SLOT, Module, hook_before_forward, patch_call, torch

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
    """Times a model's forward and backward, and calls a function before each of its calls, recorded or not."""

    def __init__(self, model: Module, profiler: Profiler, on_call: Callable[[ModelWatch], None]) -> None:
        self.model = weakref.ref(model)
        self.was_called = False
        self._on_call = on_call
        self._phases = cep_torch.instrument(model, None, profiler, ddp_buckets="without_hook", memory=False)
        # On recorded steps, what times the forward comes before the function below.
        self._phases.call_before_forward(lambda: on_call(self))
        # PyTorch before 2.1 has no place for a function around the call.
        self._unhook = (
            patch_call(model, self._around) if HAS_CALL_SLOT else hook_before_forward(model, Hook(self._before))
        )

    def remove(self) -> None:
        self._unhook()
        self._phases.remove()

    def _begins_recording(self) -> bool:
        """Tells of a call. Returns whether a recorded step has begun with it."""
        was_attached = self._phases.is_attached
        self._on_call(self)
        return self._phases.is_attached and not was_attached

    def _before(self, module: Module, args: Any) -> None:
        if self._begins_recording():
            self._phases.begin_forward(args)  # PyTorch calls no hook of this forward that was added during it

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_compiling() and self._begins_recording():
                model: Any = self.model()
                return model(*args, **kwargs)  # what times the forward has come only now
            return original(*args, **kwargs)

        return call
