# SPDX-License-Identifier: Apache-2.0
"""The models of a script that does not name them: which modules an optimizer trains, and when they are called."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Callable

from .. import torch as cep_torch
from .._profiler import Profiler
from ..torch._pytorch import Module, torch

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

    def __init__(self, model: Module, profiler: Profiler, on_call: Callable[[ModelWatch], None]) -> None:
        self.model = weakref.ref(model)
        self.was_called = False
        self._phases = cep_torch.instrument(profiler, model, None, memory=False)
        self.on_call = functools.partial(on_call, self)
        self.announce = self._phases.announcer()
        """Has a function called before each call of the model. None: no more, and without a recorded step the call is its own."""
        self.announce(self.on_call)

    def remove(self) -> None:
        self._phases.remove()
