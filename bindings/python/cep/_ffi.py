# SPDX-License-Identifier: Apache-2.0
"""Loads libcep.so, and declares its structs, the counts of a profiler, and the prototype of every call that the package
makes."""

from __future__ import annotations

import ctypes
import os
from collections import namedtuple
from ctypes import CDLL, POINTER, PyDLL, c_char_p, c_double, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from ._errors import OK, error_for

SONAME = "libcep.so.0"
_PACKAGE = Path(__file__).resolve().parent
# The declarations below follow this version's header. Each minor version of 0.x may change it incompatibly.
REQUIRED_VERSION = (0, 2)

KINDS = {"auto": 0, "step": 1, "compute": 2, "comm": 3, "data": 4, "memory": 5, "host": 6, "other": 7}
LAYOUTS = {"full": 0, "flat": 1, "spans": 2}
BACKENDS = {"auto": 0, "host": 1}


def _members(declared: str) -> list[tuple[str, Any]]:
    """The members of a struct in their order, declared as in C: a type, and the names of members of that type."""
    words = (members.split() for members in declared.split(";"))
    return [(name, getattr(ctypes, f"c_{kind}")) for kind, *names in words for name in names]


class Options(ctypes.Structure):
    """cep_options."""

    _fields_ = _members(
        "uint32 struct_size; int32 enable; char_p directory; int32 rank world_size local_rank layout; "
        "int64 start_step end_step record_every_n_steps flush_every_n_steps; void_p ranks; uint64 ranks_count; "
        "int64 max_file_bytes ring_capacity pool_limit; int32 backend reserved; char_p run_id meta; void_p storage; "
        "double max_overhead_percent; char_p capture_range"
    )


class Attrs(ctypes.Structure):
    """cep_attrs."""

    _fields_ = _members("uint32 struct_size flags; int64 bytes; double flops; char_p group; int64 coll; char_p error meta")


class Stats(NamedTuple):  # the fields of cep_stats in their order
    """Counts since the profiler was opened. Every span begun on a recorded step ends up as written, in one of the
    dropped counts, in capture_skipped, in abandoned, or still open."""

    threads: int
    """Threads that have recorded."""
    recorded: int
    """Spans begun; times (add_span()), counters and marks accepted."""
    written: int
    """Those of them that are rows in the file."""
    dropped_ring: int
    """Lost: the thread's ring was full."""
    dropped_slots: int
    """Lost: too many spans open on a thread, too many threads, or a call by a signal handler within another call."""
    dropped_pool: int
    """Lost: no free CUDA event (pool_limit)."""
    dropped_file: int
    """Lost: max_file_bytes reached."""
    dropped_io: int
    """Lost: the file could not be written (disk full)."""
    dropped_meta: int
    """Spans written without their metadata or attributes: invalid, or no room. Not lost."""
    capture_skipped: int
    """Spans not timed because their stream was capturing a graph."""
    cuda_errors: int
    """CUDA calls that failed."""
    abandoned: int
    """Spans whose device work never finished before close."""
    open_spans: int
    """Spans begun and not yet ended."""
    bytes_written: int
    """Bytes appended to the file."""
    self_ns: int
    """CPU time of the library's threads, in nanoseconds."""
    pending: int
    """Not yet in the file: in rings, at the device, or waiting for the disk. 0 once closed."""
    trainer_ns: int
    """Estimate of the time that the trainer's threads spent in libcep's calls that recorded, in nanoseconds."""

    @property
    def lost(self) -> int:
        """Spans that are not in the file and never will be."""
        dropped = self.dropped_ring + self.dropped_slots + self.dropped_pool + self.dropped_file + self.dropped_io
        return dropped + self.capture_skipped + self.abandoned


class StatsStruct(ctypes.Structure):
    """cep_stats."""

    _fields_ = [("struct_size", c_uint32), ("threads", c_uint32), *((name, c_uint64) for name in Stats._fields[1:])]


class Span(c_uint64):
    """cep_span. ctypes returns instances of a subclass unconverted, so they can be passed back without conversion."""


def _find_library() -> str:
    """The first place from which the library loads. If there is none, raises an ImportError that lists them all."""
    packaged = [*sorted(_PACKAGE.glob("libcep.so*")), *sorted(_PACKAGE.glob("lib*/libcep.so*"))]
    places = [*((str(path), "the package's directory") for path in packaged), (SONAME, "the loader's path")]
    if os.environ.get("CEP_LIBRARY"):  # alone: another one would hide a mistake
        places = [(os.environ["CEP_LIBRARY"], "CEP_LIBRARY")]
    failures = []
    for path, origin in places:
        try:
            CDLL(path)
            return path
        except OSError as error:
            failures.append(f"  {path} ({origin}): {error}")
    hint = "unset CEP_LIBRARY to look elsewhere" if os.environ.get("CEP_LIBRARY") else "CEP_LIBRARY is not set"
    raise ImportError("cannot load libcep; looked at:\n" + "\n".join(failures) + f"\n({hint}; package directory: {_PACKAGE})")


_path = _find_library()
# PyDLL keeps the GIL during a call: for calls that never block. CDLL releases it: for calls that can block, or that
# take one of libcep's locks. No call may keep the GIL while it calls CUDA, not even for a query: CUDA takes the
# driver's own locks, and the thread that holds one may wait for a host function that needs the GIL.
_keeping_gil = PyDLL(_path)
_releasing_gil = CDLL(_path)


def _prototype(library: CDLL, name: str, result: Any, *arguments: Any) -> Any:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise ImportError(f"{_path} has no {name}(): not a libcep {'.'.join(map(str, REQUIRED_VERSION))}") from None
    function.restype = result
    if arguments:
        function.argtypes = arguments
    return function


version = _prototype(_keeping_gil, "cep_version", c_char_p)
strerror = _prototype(_keeping_gil, "cep_strerror", c_char_p, c_int32)
last_error = _prototype(_keeping_gil, "cep_last_error", c_char_p)

options_init = _prototype(_keeping_gil, "cep_options_init", c_int32, POINTER(Options), c_uint32)
options_load_json = _prototype(_releasing_gil, "cep_options_load_json", c_int32, POINTER(Options), c_char_p)
options_load_env = _prototype(_releasing_gil, "cep_options_load_env", c_int32, POINTER(Options))
options_clear = _prototype(_keeping_gil, "cep_options_clear", None, POINTER(Options))

open_profiler = _prototype(_releasing_gil, "cep_open", c_int32, POINTER(Options), POINTER(c_void_p))
close = _prototype(_releasing_gil, "cep_close", c_int32, c_void_p, c_int64)
flush = _prototype(_releasing_gil, "cep_flush", c_int32, c_void_p, c_int64)
set_meta = _prototype(_releasing_gil, "cep_set_meta", c_int32, c_void_p, c_char_p)
enabled = _prototype(_keeping_gil, "cep_enabled", c_int32, c_void_p)
rank = _prototype(_keeping_gil, "cep_rank", c_int32, c_void_p)
get_stats = _prototype(_releasing_gil, "cep_get_stats", c_int32, c_void_p, POINTER(StatsStruct))

recording = _prototype(_keeping_gil, "cep_recording", c_int32, c_void_p)
region_get = _prototype(_releasing_gil, "cep_region_get", c_void_p, c_void_p, c_char_p, c_int32)

# Recorded steps make this call, and begin, end and phase below, often. They have no `argtypes`, which saves a
# tenth of their cost: pass them ctypes objects and None only. The result of cep_step() is ignored: it refuses negative
# steps only, and the caller has checked for these. That of cep_phase() is ignored, too: it refuses regions of other
# profilers only.
step = _prototype(_keeping_gil, "cep_step", None)


SpanCalls = namedtuple("SpanCalls", "begin begin_with end end_with phase")
"""The calls that begin and end spans."""


def _span_calls(library: CDLL) -> SpanCalls:
    return SpanCalls(
        _prototype(library, "cep_begin", Span),
        _prototype(library, "cep_begin_with", Span, c_void_p, c_void_p, POINTER(Attrs)),
        _prototype(library, "cep_end", None),
        _prototype(library, "cep_end_with", c_int32, c_void_p, Span, c_void_p, POINTER(Attrs)),
        _prototype(library, "cep_phase", None),
    )


host_calls = _span_calls(_keeping_gil)
"""For spans that are certainly on the host clock: these calls make no CUDA call."""

device_calls = _span_calls(_releasing_gil)
"""For all other spans. cuEventRecord() blocks while the GPU's queue is full, and the work in the queue may wait for a
host function (cuLaunchHostFunc) that needs the GIL."""

begin, begin_with, end, end_with, phase = device_calls  # these are safe for every span

record = _prototype(_keeping_gil, "cep_record", c_int32, c_void_p, c_int64, c_int64, POINTER(Attrs))
counter = _prototype(_keeping_gil, "cep_counter", c_int32, c_void_p, c_char_p, c_double)
mark = _prototype(_keeping_gil, "cep_mark", c_int32, c_void_p, c_char_p, c_char_p)


def library_version() -> str:
    """The version of the loaded library, "MAJOR.MINOR.PATCH"."""
    return str(version().decode())


def library_path() -> str:
    """The path of the loaded library, or its bare soname if the loader's path has it."""
    return _path


def last_message(code: int) -> str:
    """libcep's message about the last failure on this thread, or the general meaning of the code."""
    text = last_error() or strerror(code)
    return str(text.decode("utf-8", "replace"))


def check(code: int) -> None:
    """Raises the exception for a code other than OK."""
    if code != OK:
        raise error_for(code, last_message(code))


if tuple(map(int, library_version().split(".")[:2])) != REQUIRED_VERSION:
    wanted = ".".join(map(str, REQUIRED_VERSION))
    raise ImportError(f"{_path} is libcep {library_version()}; this package needs {wanted}.x")
check(options_init(ctypes.byref(Options()), ctypes.sizeof(Options)))
