# SPDX-License-Identifier: Apache-2.0
"""libcep.so itself: where it is found, its structs, and the prototype of every call the package makes."""

from __future__ import annotations

import ctypes
import os
from ctypes import CDLL, POINTER, PyDLL, c_char_p, c_double, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from ._errors import OK, error_for

SONAME = "libcep.so.0"
# The calls below are those of this version's header; 0.x may change incompatibly at each minor version.
REQUIRED_VERSION = (0, 1)

KINDS = {"auto": 0, "step": 1, "compute": 2, "comm": 3, "data": 4, "memory": 5, "host": 6, "other": 7}
LAYOUTS = {"full": 0, "flat": 1}
BACKENDS = {"auto": 0, "host": 1}


class Options(ctypes.Structure):
    """cep_options."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("enable", c_int32),
        ("directory", c_char_p),
        ("rank", c_int32),
        ("world_size", c_int32),
        ("local_rank", c_int32),
        ("layout", c_int32),
        ("start_step", c_int64),
        ("end_step", c_int64),
        ("record_every_n_steps", c_int64),
        ("flush_every_n_steps", c_int64),
        ("ranks", POINTER(c_int32)),
        ("ranks_count", c_uint64),
        ("max_file_bytes", c_int64),
        ("ring_capacity", c_int64),
        ("pool_limit", c_int64),
        ("backend", c_int32),
        ("reserved", c_int32),
        ("run_id", c_char_p),
        ("meta", c_char_p),
        ("storage", c_void_p),
    ]


class Attrs(ctypes.Structure):
    """cep_attrs."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("bytes", c_int64),
        ("flops", c_double),
        ("group", c_char_p),
        ("coll", c_int64),
        ("error", c_char_p),
        ("meta", c_char_p),
    ]


class StatsStruct(ctypes.Structure):
    """cep_stats."""

    _fields_ = [("struct_size", c_uint32), ("threads", c_uint32)] + [
        (name, c_uint64)
        for name in (
            "recorded",
            "written",
            "dropped_ring",
            "dropped_slots",
            "dropped_pool",
            "dropped_file",
            "dropped_io",
            "dropped_meta",
            "capture_skipped",
            "cuda_errors",
            "abandoned",
            "open_spans",
            "bytes_written",
            "self_ns",
            "pending",
        )
    ]


class Span(c_uint64):
    """cep_span. A subclass, because ctypes returns those as they are: no conversion on the way back in."""


SPAN_NONE = Span(2**64 - 1)


def _candidates() -> Iterator[tuple[str, str]]:
    """Where the library may be, best first, as (what to load, why there).

    An explicit CEP_LIBRARY is the only candidate: falling back from it would hide a mistake.
    """
    explicit = os.environ.get("CEP_LIBRARY")
    if explicit:
        yield explicit, "CEP_LIBRARY"
        return
    package = Path(__file__).resolve().parent
    for pattern in ("libcep.so*", "lib*/libcep.so*"):
        for path in sorted(package.glob(pattern)):
            yield str(path), "the package's directory"
    yield SONAME, "the loader's path"


def _find_library() -> str:
    """The first candidate that loads; an ImportError that lists them all if none does."""
    failures = []
    for path, origin in _candidates():
        try:
            CDLL(path)
            return path
        except OSError as error:
            failures.append(f"  {path} ({origin}): {error}")
    hint = "CEP_LIBRARY is not set" if not os.environ.get("CEP_LIBRARY") else "unset CEP_LIBRARY to look elsewhere"
    package = Path(__file__).resolve().parent
    raise ImportError(
        "cannot load libcep; looked at:\n" + "\n".join(failures) + f"\n({hint}; package directory: {package})"
    )


_path = _find_library()
# PyDLL keeps the interpreter's lock: right for calls that never block. CDLL gives it up: needed for those that can, or
# that wait for a lock of libcep's. No call to CUDA may be made with the lock kept, not even a query of whether the next
# would block: it waits for the driver's own locks, and who holds these may wait for a host function that needs ours.
_keeping_lock = PyDLL(_path)
_giving_lock = CDLL(_path)


def _prototype(library: CDLL, name: str, result: Any, *arguments: Any) -> Any:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise ImportError(f"{_path} has no {name}(): not a libcep {'.'.join(map(str, REQUIRED_VERSION))}") from None
    function.restype = result
    if arguments:
        function.argtypes = arguments
    return function


version = _prototype(_keeping_lock, "cep_version", c_char_p)
strerror = _prototype(_keeping_lock, "cep_strerror", c_char_p, c_int32)
last_error = _prototype(_keeping_lock, "cep_last_error", c_char_p)

options_init = _prototype(_keeping_lock, "cep_options_init", c_int32, POINTER(Options), c_uint32)
options_load_json = _prototype(_giving_lock, "cep_options_load_json", c_int32, POINTER(Options), c_char_p)
options_load_env = _prototype(_giving_lock, "cep_options_load_env", c_int32, POINTER(Options))
options_clear = _prototype(_keeping_lock, "cep_options_clear", None, POINTER(Options))

open_profiler = _prototype(_giving_lock, "cep_open", c_int32, POINTER(Options), POINTER(c_void_p))
close = _prototype(_giving_lock, "cep_close", c_int32, c_void_p, c_int64)
flush = _prototype(_giving_lock, "cep_flush", c_int32, c_void_p, c_int64)
set_meta = _prototype(_giving_lock, "cep_set_meta", c_int32, c_void_p, c_char_p)
get_stats = _prototype(_giving_lock, "cep_get_stats", c_int32, c_void_p, POINTER(StatsStruct))

recording = _prototype(_keeping_lock, "cep_recording", c_int32, c_void_p)
region_get = _prototype(_giving_lock, "cep_region_get", c_void_p, c_void_p, c_char_p, c_int32)

# Every recorded step makes some of these calls: without `argtypes` they cost a tenth less. They take ctypes objects and
# None only. A step that is at least 0, as the caller has made sure, is never refused.
step = _prototype(_keeping_lock, "cep_step", None)


class SpanCalls(NamedTuple):
    """The calls that read a span's clock."""

    begin: Any
    begin_with: Any
    end: Any
    end_with: Any
    switch: Any


def _span_calls(library: CDLL) -> SpanCalls:
    return SpanCalls(
        _prototype(library, "cep_begin", Span),
        _prototype(library, "cep_begin_with", Span, c_void_p, c_void_p, POINTER(Attrs)),
        _prototype(library, "cep_end", None),
        _prototype(library, "cep_end_with", c_int32, c_void_p, Span, c_void_p, POINTER(Attrs)),
        _prototype(library, "cep_switch", Span),
    )


host_calls = _span_calls(_keeping_lock)
"""For spans that are sure to be on the host's clock: they make no CUDA call."""

device_calls = _span_calls(_giving_lock)
"""For all others. cuEventRecord() blocks while the GPU's queue is full. What fills it may wait for a host function
(cuLaunchHostFunc) that needs the interpreter's lock."""

begin, begin_with, end, end_with, switch = device_calls  # safe for every span

record = _prototype(_keeping_lock, "cep_record", c_int32, c_void_p, c_int64, c_int64, POINTER(Attrs))
counter = _prototype(_keeping_lock, "cep_counter", c_int32, c_void_p, c_char_p, c_double)
mark = _prototype(_keeping_lock, "cep_mark", c_int32, c_void_p, c_char_p, c_char_p)


def library_version() -> str:
    """The version of the library that was loaded, "MAJOR.MINOR.PATCH"."""
    return str(version().decode())


def library_path() -> str:
    """What was loaded: a path, or the bare soname where the loader found it."""
    return _path


def last_message(code: int) -> str:
    """What libcep says about the last failure on this thread, or what the code means in general."""
    text = last_error() or strerror(code)
    return str(text.decode("utf-8", "replace"))


def check(code: int) -> None:
    """Raises the exception of a code that is not OK."""
    if code != OK:
        raise error_for(code, last_message(code))


def _check_abi() -> None:
    found = library_version()
    if tuple(int(part) for part in found.split(".")[:2]) != REQUIRED_VERSION:
        wanted = ".".join(map(str, REQUIRED_VERSION))
        raise ImportError(f"{_path} is libcep {found}; this package needs {wanted}.x")
    check(options_init(ctypes.byref(Options()), ctypes.sizeof(Options)))


_check_abi()
