# SPDX-License-Identifier: Apache-2.0
"""How things end: handles, which calls return, and which end what the call began; functions of other people's objects,
replaced for a while; and what ends a profiler that the trainer did not close: when it is collected, at the
interpreter's or a worker's exit, in forks. And how a profiler begins: spans from before its first step."""

from __future__ import annotations

import functools
import os
import re
import sys
import time
import types
import warnings
import weakref
from ctypes import c_void_p
from pathlib import Path
from threading import get_ident
from typing import Any, Callable, Iterable, Optional, TypeVar

from . import _ffi
from ._attributes import INT64_MAX
from ._errors import EINVAL, OptionError

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


_MOST = 64
# In names of regions that are part of a step, and not of what a script does before its loop ("load_checkpoint").
_WORDS_OF_A_PASS = {"forward", "backward", "fwd", "bwd", "step", "iteration"}


class EarlySpans:
    """Outermost spans, of the first wait for data or of a whole pass of a loop that calls step() at its end: timed on the host
    clock until the first step has a number. Thread-safe."""

    def __init__(self) -> None:
        self._open: dict[int, list[tuple[Any, int]]] = {}  # by thread: regions with their begins
        self._ended: list[tuple[Any, int, int]] = []

    def enter(self, region: Any) -> None:
        if not region._profiler._enabled:
            return
        self._open.setdefault(get_ident(), []).append((region, time.time_ns()))

    def leave(self) -> None:
        spans = self._open.get(get_ident())
        if spans:
            region, start_ns = spans.pop()
            if not spans and len(self._ended) < _MOST:
                self._ended.append((region, start_ns, time.time_ns() - start_ns))

    def move_to(self, profiler: Any) -> bool:
        """Adds the spans to the step that has begun. Returns whether they are a pass of the loop."""
        ended, self._ended = self._ended, []
        for region, start_ns, duration_ns in ended:
            profiler.add_span(region.name, start_ns, duration_ns)
        words = {word for region, _, _ in ended for word in re.split("[^a-z]+", region.name.lower())}
        return not words.isdisjoint(_WORDS_OF_A_PASS)


CLOSE_TIMEOUT_S = 5.0


def milliseconds(timeout: float) -> int:
    """Converts a timeout in seconds to libcep's milliseconds."""
    if not 0 <= timeout <= INT64_MAX / 1e6:
        raise OptionError(EINVAL, f"timeout: seconds of at least 0 are needed, not {timeout!r}")
    return int(timeout * 1000)


def close_handle(handle: c_void_p, recording: list[bool]) -> None:
    """Closes a profiler when it is garbage-collected or the interpreter exits."""
    recording.clear()
    _ffi.close(handle, milliseconds(CLOSE_TIMEOUT_S))


def close_at_end_of_worker(handle: c_void_p, recording: list[bool]) -> None:
    """Has a worker process of multiprocessing close its profiler before it exits.

    A forked worker exits by os._exit(), before which only multiprocessing's own finalizers run.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    util = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None and util is not None and multiprocessing.parent_process() is not None:
        util.Finalize(None, close_handle, (handle, recording), exitpriority=0)


open_profilers: weakref.WeakSet[Any] = weakref.WeakSet()


os.register_at_fork(after_in_child=lambda: [profiler._turn_off() for profiler in open_profilers])
