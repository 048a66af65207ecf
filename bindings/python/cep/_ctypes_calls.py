# SPDX-License-Identifier: Apache-2.0
"""The calls of a step loop through ctypes: what the package uses where its extension module is missing. That has the same
classes in C, with their documentation, in native/, beside the package."""

from __future__ import annotations

from ctypes import byref, c_int64, c_void_p
from threading import get_ident
from typing import Any, Callable, Optional

from . import _ffi
from ._attributes import HOST_ADDRESS, Attributes, Stream, StreamSource, current_stream_source, error_struct
from ._attributes import span_struct, stream_address, whole_number
from ._errors import NOT_FAILURES
from ._options import Sampling, kind_number


class ProfilerCalls:
    _enabled = _on_host = False
    _step = _library_step = -1  # the trainer's, and the last one that libcep was given
    _listeners: tuple[Callable[[bool], Any], ...] = ()  # called where recording begins or ends
    _wants_steps = False  # calls them at every step
    _recording: list[bool]  # not empty while recording; every region reads this very list
    _regions: dict[str, Any]  # by name: those without a stream of their own
    _make_region: Callable[..., Any]
    _move_early: Callable[[bool], None]

    def _attach(self, handle: int, recording: Any, regions: Any, on_host: bool, sampling: tuple[int, ...]) -> None:
        self._pointer = c_void_p(handle)
        self._recording, self._regions, self._on_host = recording, regions, on_host
        self._sampling_rule = Sampling(*sampling)
        self._stream_source: Optional[StreamSource] = None
        self._phases: dict[int, int] = {}  # by thread: the stream's address

    def _current_stream(self) -> int:
        if self._stream_source is None:
            return 0
        function, argument = self._stream_source
        return function() if argument is None else function(argument)

    def step(self, step: Optional[int] = None) -> None:
        """Begins a step of the trainer. It decides whether what follows is recorded."""
        is_first = self._step < 0
        self._step = number = self._step + 1 if step is None else whole_number("step", step, 0)
        was_recording, rule = bool(self._recording), self._sampling_rule
        # Most steps of a job change nothing for libcep.
        is_news = was_recording or rule.records(number) or self._library_step < 0 or number % rule.flush_every == 0
        if self._enabled and is_news:
            self._set_library_step()
            self._recording[:] = [True] if rule.records(number) and _ffi.recording(self._pointer) else []
            if self._recording and self._stream_source is None:
                self._stream_source = current_stream_source()
        is_recording = bool(self._recording)
        if self._wants_steps or was_recording is not is_recording:
            self._wants_steps = any([listener(is_recording) for listener in self._listeners])
        if is_first:
            self._move_early(step is not None)

    def _set_library_step(self) -> None:
        self._library_step = self._step
        _ffi.step(self._pointer, c_int64(self._step))

    def region(
        self, name: str, kind: Optional[str] = None, stream: Stream = None, bytes: Any = None, flops: Any = None,
        group: Any = None, coll: Any = None, meta: Any = None,
    ) -> Any:  # fmt: skip
        """A phase to time, as a context manager or decorator. Calling it again for the same name is cheap."""
        region = self._regions.get(name) if isinstance(name, str) else None
        if region is not None and all(given is None for given in (bytes, flops, group, coll, meta)):
            if kind is not None:
                kind_number(kind)
            address = stream_address(stream)
            while region is not None:
                if region._stream == address:
                    return region
                region = region._next
        return self._make_region(name, kind, stream, bytes, flops, group, coll, meta)

    def phase(self, name: str, kind: Optional[str] = None, stream: Stream = None) -> None:
        """Ends this thread's current phase, if it has one, and begins the next, with one event for both."""
        if not self._recording and get_ident() not in self._phases:
            return
        region = self.region(name, kind, stream)
        address = region._stream if region._stream is not None else self._current_stream()
        self._phases.pop(get_ident(), None)
        if self._recording:
            self._phases[get_ident()] = address
        _ffi.phase(self._pointer, region._handle, c_void_p(address))

    def end_phase(self) -> None:
        """Ends this thread's current phase, if it has one."""
        address = self._phases.pop(get_ident(), None)
        if address is not None:
            _ffi.phase(self._pointer, None, c_void_p(address))


class RegionCalls:
    __slots__ = ("name", "_profiler", "_handle", "_stream", "_attributes", "_keeps_lock", "_recording", "_open", "_next")

    def __init__(
        self, profiler: Any, name: str, handle: Optional[int], stream: Optional[int], attributes: Optional[Attributes]
    ) -> None:
        self.name, self._profiler, self._stream, self._attributes = name, profiler, stream, attributes
        self._handle = None if handle is None else c_void_p(handle)
        self._keeps_lock = profiler._on_host or stream == HOST_ADDRESS
        self._recording = profiler._recording
        # The open `with` blocks by thread. While any is open, unrecorded ones are entered too: every exit finds its own.
        self._open: dict[int, list[tuple[Any, int]]] = {}
        self._next: Optional[RegionCalls] = None  # of the same name on another stream

    def __enter__(self) -> Any:
        if self._profiler._step < 0:
            self._profiler._enter_early(self)
        if self._recording or self._open:
            self._open.setdefault(get_ident(), []).append(self._begin())
        return self

    def __exit__(self, error: Optional[type[BaseException]], value: Any, traceback: Any) -> None:
        if self._profiler._step < 0:
            self._profiler._leave_early()
        blocks = self._open.get(get_ident())
        if blocks:
            block = blocks.pop()
            if not blocks:
                del self._open[get_ident()]
            self._end(*block, error)

    def _begin(self) -> tuple[Any, int]:
        stream = self._stream if self._stream is not None else self._profiler._current_stream()
        calls = _ffi.host_calls if self._keeps_lock else _ffi.device_calls
        if self._attributes is None:
            return calls.begin(self._handle, c_void_p(stream)), stream
        return calls.begin_with(self._handle, c_void_p(stream), byref(span_struct(self._attributes))), stream

    def _end(self, span: Any, stream: int, error: Optional[type[BaseException]]) -> None:
        calls = _ffi.host_calls if self._keeps_lock else _ffi.device_calls
        if error is None or issubclass(error, NOT_FAILURES):
            calls.end(self._handle, span, c_void_p(stream))
        else:
            calls.end_with(self._handle, span, c_void_p(stream), byref(error_struct(error)))


def timed_function(region: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function each of whose calls is a span of the region."""

    def timed(*args: Any, **kwargs: Any) -> Any:
        with region:
            return function(*args, **kwargs)

    return timed
