# SPDX-License-Identifier: Apache-2.0
"""How a step loop's calls reach libcep: through the extension module, or through ctypes where that is missing.

The choice is made once, at import. ``CEP_BINDING`` overrides it: "native" or "ctypes", or the path of the extension
module. All other calls use ctypes either way.

Hooks of PyTorch are made of the module's classes, whose source (native/, beside the package) has their documentation.
Where it is missing, a stand-in has its name, and there are no hooks.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import TYPE_CHECKING, Any, Optional, Sequence

from . import _ffi
from ._attributes import HOST, Attributes, current_stream_source, span_struct, whole_number
from ._errors import NOT_FAILURES

NATIVE, CTYPES = "native", "ctypes"


def _native_struct(given: Sequence[Any]) -> tuple[ctypes.Structure, int]:
    struct = span_struct(Attributes(*given))
    return struct, ctypes.addressof(struct)


def _load(path: str) -> Any:
    """The extension module in the package, or the one at the path."""
    name = f"{__package__}._native"
    if not path:
        return importlib.import_module(name)
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec: Any = importlib.util.spec_from_file_location(name, path, loader=loader)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _connected(path: str) -> Any:
    # Builds without a GIL have another stable ABI.
    if "t" in getattr(sys, "abiflags", ""):
        raise ImportError("this Python has no GIL, and cep's extension module needs it")
    native = _load(path)
    objects = (
        HOST, _ffi.KINDS, whole_number, _native_struct, current_stream_source, NOT_FAILURES, types.MethodType,
    )  # fmt: skip
    functions = (_ffi.step, _ffi.recording, *_ffi.device_calls)  # in the order of library_calls in native/native.h
    native.connect(tuple(ctypes.cast(function, ctypes.c_void_p).value for function in functions), objects)
    return native


def _choose() -> tuple[str, Any, str]:
    wanted = os.environ.get("CEP_BINDING", "")
    if wanted == CTYPES:
        return CTYPES, None, "CEP_BINDING is ctypes"
    try:
        return NATIVE, _connected("" if wanted == NATIVE else wanted), ""
    except ImportError as error:
        if wanted:
            raise ImportError(f"CEP_BINDING is {wanted!r}: {error}") from error
        return CTYPES, None, str(error)


name, native, why_missing = _choose()
"""``native``: the extension module, or None; ``why_missing`` then says why."""

if TYPE_CHECKING or native is None:
    from ._ctypes_calls import ProfilerCalls, RegionCalls, timed_function
else:
    ProfilerCalls, RegionCalls, timed_function = native.ProfilerCalls, native.RegionCalls, native.TimedFunction

__all__ = ["ProfilerCalls", "RegionCalls", "name", "native", "need_hooks", "timed_function", "why_no_hooks"]


def why_no_hooks() -> Optional[str]:
    """What a user is told who has no hooks; None where there are."""
    if native is not None:
        return None
    return (
        f"cep's extension module is missing ({why_missing}), and PyTorch's hooks need it: install cep's wheel, or build cep where "
        "Python's headers are (python3-dev, python3-devel)"
    )


def need_hooks(*_: Any) -> None:
    """Raises an ImportError where there are no hooks."""
    why = why_no_hooks()
    if why is not None:
        raise ImportError(why)


class _Missing(types.ModuleType):
    """In the place of the module: nobody can make objects of its classes or call its functions."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": need_hooks})


if native is None:
    sys.modules[f"{__package__}._native"] = _Missing("_native")
