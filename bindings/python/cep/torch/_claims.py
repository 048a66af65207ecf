# SPDX-License-Identifier: Apache-2.0
"""Who times which model and optimizer, so that no phase is counted twice."""

from __future__ import annotations

import weakref
from typing import Any, Callable

from .._messages import tell_mistake
from .._profiler import Profiler
from ._pytorch import Module, Optimizer

_ADVICE = "; the second time counts for nothing: instrument it once, or call remove() on the first handle before"


class Claims:
    """The models and optimizers of one profiler that are timed."""

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
