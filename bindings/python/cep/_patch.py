# SPDX-License-Identifier: Apache-2.0
"""Functions of other people's objects, replaced for a while."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable, Optional

from ._handle import Removal

_MISSING = object()


Make = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes the new function from the original, which it is to call with the arguments that it gets."""


class _Patch:
    """A replaced function of an object. Patches may be removed in any order, and leave what others have put on."""

    def __init__(self, owner: Any, name: str, make: Make, default: Optional[Callable[..., Any]], before: Any) -> None:
        self._owner, self._name = owner, name
        self._before = before
        self._is_removed = True
        original: Any = getattr(owner, name) or default
        timed = make(original)

        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            # Somebody may have kept or wrapped this function: once removed, it only calls the original.
            return original(*args, **kwargs) if self._is_removed else timed(*args, **kwargs)

        replacement.__dict__["_cep_patch"] = self
        self._replacement: Any = replacement
        if isinstance(original, types.MethodType) and original is not default:
            # A bound method again: learning-rate schedulers use its __func__ and __self__.
            self._replacement = types.MethodType(lambda _, *args, **kwargs: replacement(*args, **kwargs), owner)
            functools.update_wrapper(self._replacement.__func__, replacement)

    def put(self) -> None:
        self._is_removed = False
        attributes = vars(self._owner)
        if type(attributes) is dict:  # not of a class; a module of PyTorch's looks at what is set for long
            attributes[self._name] = self._replacement
        else:
            setattr(self._owner, self._name, self._replacement)

    def remove(self) -> None:
        self._is_removed = True
        patch: Optional[_Patch] = self
        while patch is not None and patch._is_removed and vars(self._owner).get(self._name) is patch._replacement:
            if patch._before is _MISSING:
                attributes = vars(self._owner)
                if type(attributes) is dict:
                    del attributes[self._name]
                else:
                    delattr(self._owner, self._name)
                return
            setattr(self._owner, self._name, patch._before)
            patch = getattr(patch._before, "_cep_patch", None)


class Patches:
    """Replaced functions of objects that come and go with the recorded steps: each is made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], _Patch] = {}

    def put(self, owner: Any, name: str, make: Make, default: Optional[Callable[..., Any]] = None) -> Removal:
        """As patch(), for an owner that outlives this object and a `make` that is always the same."""
        before = vars(owner).get(name, _MISSING)  # missing: the function is one of the class
        made = self._made.get((id(owner), name))
        if made is None or made._before is not before or not made._is_removed:
            made = self._made[id(owner), name] = _Patch(owner, name, make, default, before)
        made.put()
        return made.remove


def patch(owner: Any, name: str, make: Make, default: Optional[Callable[..., Any]] = None) -> Removal:
    """Replaces a function of a module, or a method of an object, by one that calls it.

    Args:
        owner: The module or object.
        name: The function's name.
        make: Makes the new function.
        default: The original where the attribute is None.

    Returns:
        A function that undoes this. If something else has replaced the function since, that stays, and what it calls
        does no more than the original.
    """
    return Patches().put(owner, name, make, default)


def is_patched(owner: Any, name: str) -> bool:
    """Whether patch() has replaced the function, and has not put it back."""
    return getattr(vars(owner).get(name), "_cep_patch", None) is not None
