# SPDX-License-Identifier: Apache-2.0
"""Handles: objects that calls return, and that end what the call began; and functions of other people's objects, replaced for
a while."""

from __future__ import annotations

import functools
import os
import types
import warnings
from pathlib import Path
from typing import Any, Callable, Iterable, Optional, TypeVar

Self = TypeVar("Self", bound="Handle")
Removal = Callable[[], object]
"""Undoes one change: removes a hook, or puts a replaced function back."""


def undo_all(removals: list[Removal]) -> None:
    """Undoes all changes, the last one first, and empties the list. One that fails is a warning, and keeps no other."""
    while removals:
        try:
            removals.pop()()
        except Exception as error:
            warnings.warn(f"cep: not undone: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=3)


def discard(removals: list[Removal], removal: Removal) -> None:
    """Takes one out of a list, unless undo_all() has done so already, to call it."""
    if removal in removals:
        removals.remove(removal)


class Handle:
    """A context manager that calls _end() at the end of its ``with`` block."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._end()

    def _end(self) -> None:
        raise NotImplementedError


class Removable(Handle):
    """A handle on hooks and replaced functions. remove(), or the end of a ``with`` block, removes them."""

    def __init__(self, removals: Iterable[Removal] = ()) -> None:
        self._removals = list(removals)

    def remove(self) -> None:
        """Removes everything. Calling it again does nothing."""
        undo_all(self._removals)

    _end = remove


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Has a file written under another name and renames it, so that no reader finds a part of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write(temporary)
    temporary.replace(path)


_MISSING = object()

Make = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes the new function from the original, which it is to call with the arguments that it gets."""


def _store(owner: Any, name: str, value: Any) -> None:
    """Sets an attribute, or deletes it."""
    attributes = vars(owner)
    if type(attributes) is not dict:  # of a class
        setattr(owner, name, value) if value is not _MISSING else delattr(owner, name)
    elif value is _MISSING:
        del attributes[name]
    else:
        attributes[name] = value  # a module of PyTorch's looks at what setattr() sets for long


class Replacement:
    """Another value of an attribute of an object, a class or a module, until remove()."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self._owner, self._name, self._value = owner, name, value
        self._before = vars(owner).get(name, _MISSING)  # missing: it is one of the class
        _store(owner, name, value)

    def remove(self) -> None:
        """Puts back what was there. Where somebody has replaced it since, that stays."""
        if vars(self._owner).get(self._name) is self._value:
            _store(self._owner, self._name, self._before)


class _Patch(Replacement):
    """A replaced function of an object. Patches may be removed in any order, and leave what others have put on."""

    def __init__(self, owner: Any, name: str, make: Make) -> None:
        self._is_removed = False
        original: Any = getattr(owner, name)
        timed = make(original)

        # Somebody may have kept or wrapped the new function: once removed, it only calls the original.
        def function(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs) if self._is_removed else timed(*args, **kwargs)

        def method(_: Any, *args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs) if self._is_removed else timed(*args, **kwargs)

        # A bound method again: learning-rate schedulers use its __func__ and __self__.
        is_bound = isinstance(original, types.MethodType)
        made: Any = functools.wraps(original)(method if is_bound else function)
        made.__dict__["_cep_patch"] = self
        super().__init__(owner, name, types.MethodType(made, owner) if is_bound else made)

    def remove(self) -> None:
        self._is_removed = True
        patch: Optional[_Patch] = self
        while patch is not None and patch._is_removed:
            Replacement.remove(patch)
            patch = getattr(patch._before, "_cep_patch", None)


def patch(owner: Any, name: str, make: Make) -> Removal:
    """Replaces a function of a module, or a method of an object, by one that calls it. Returns what undoes this. If something
    else has replaced the function since, that stays, and what it calls does no more than the original."""
    return _Patch(owner, name, make).remove


def is_patched(owner: Any, name: str) -> bool:
    """Whether patch() has replaced the function, and has not put it back."""
    return getattr(vars(owner).get(name), "_cep_patch", None) is not None
