# SPDX-License-Identifier: Apache-2.0
"""Functions of other people's objects, replaced for a while."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable, Optional

from ._handle import Removal

_MISSING = object()


class _Patch:
    """A replaced function of an object. Patches may be removed in any order, and leave what others have put on."""

    def __init__(
        self,
        owner: Any,
        name: str,
        make: Callable[[Callable[..., Any]], Callable[..., Any]],
        default: Optional[Callable[..., Any]],
    ) -> None:
        self._owner, self._name = owner, name
        self._before = vars(owner).get(name, _MISSING)  # missing: the function is one of the class
        self._is_removed = False
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
        setattr(owner, name, self._replacement)

    def remove(self) -> None:
        self._is_removed = True
        patch: Optional[_Patch] = self
        while patch is not None and patch._is_removed and vars(self._owner).get(self._name) is patch._replacement:
            if patch._before is _MISSING:
                delattr(self._owner, self._name)
                return
            setattr(self._owner, self._name, patch._before)
            patch = getattr(patch._before, "_cep_patch", None)


def patch(
    owner: Any,
    name: str,
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
    default: Optional[Callable[..., Any]] = None,
) -> Removal:
    """Replaces a function of a module, or a method of an object, by one that calls it.

    Args:
        owner: The module or object.
        name: The function's name.
        make: Makes the new function from the original, which it is to call with the arguments that it gets.
        default: The original where the attribute is None.

    Returns:
        A function that undoes this. If something else has replaced the function since, that stays, and what it calls
        does no more than the original.
    """
    return _Patch(owner, name, make, default).remove


def is_patched(owner: Any, name: str) -> bool:
    """Whether patch() has replaced the function, and has not put it back."""
    return getattr(vars(owner).get(name), "_cep_patch", None) is not None
