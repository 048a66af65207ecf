# SPDX-License-Identifier: Apache-2.0
"""The calls of a step loop through ctypes: what the package uses where its extension module is missing.

_native.abi3.so has the same classes in C; its source is beside the package, in native/.
"""

from __future__ import annotations

from contextlib import suppress
from ctypes import byref, c_int64, c_void_p
from threading import get_ident
from types import TracebackType
from typing import Any, Callable, Optional

from . import _ffi, _streams
from ._attributes import Attributes, Meta, span_struct, error_struct, whole_number
from ._errors import NOT_FAILURES
from ._ffi import Attrs, Span, SpanCalls
from ._options import kind_number
from ._sampling import Sampling
from ._streams import HOST_ADDRESS, Stream, StreamSource

Block = tuple[Span, c_void_p, Optional[Any]]
Phase = tuple[c_void_p, bool]
"""The stream of a thread's phase, and whether it is on the host clock."""

# Globals of this module are looked up faster than attributes of another.
_host_calls, _device_calls = _ffi.host_calls, _ffi.device_calls


class _Pointers(dict[int, c_void_p]):
    """Maps addresses to pointers, and makes each pointer once."""

    def __missing__(self, address: int) -> c_void_p:
        pointer = self[address] = c_void_p(address)
        return pointer


_pointers = _Pointers()
_DEFAULT_POINTER = c_void_p(None)  # the legacy default stream


def _default_stream() -> c_void_p:
    return _DEFAULT_POINTER


def _with_device(exchange_device: Callable[[int], int], device: int) -> SpanCalls:
    """Calls during which a device is current."""

    def on_device(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            before = None
            try:
                with suppress(Exception):
                    before = exchange_device(device)
                return call(*args)
            finally:
                if before is not None:
                    with suppress(Exception):
                        exchange_device(before)

        return called

    return SpanCalls(*map(on_device, _device_calls))


class ProfilerCalls:
    """The base of Profiler: what a step loop calls."""

    _enabled = False
    _on_host = False
    _step = -1  # the trainer's step
    _library_step = -1  # the last step that libcep was given
    _recording: list[bool]  # not empty while recording; every region reads this very list
    _regions: dict[str, Any]  # by name: those without a stream of their own
    _make_region: Callable[..., Any]

    def _attach(
        self, handle: int, recording: list[bool], regions: dict[str, Any], on_host: bool, sampling: tuple[int, ...]
    ) -> None:
        self._pointer = c_void_p(handle)
        self._recording = recording
        self._regions = regions
        self._on_host = on_host
        self._span_calls = _device_calls
        self._records, self._flushes = Sampling(*sampling).records, Sampling(*sampling).flushes
        self._current_stream: Callable[[], c_void_p] = _default_stream
        self._phases: dict[int, Phase] = {}  # by thread

    # ---- Streams ----------------------------------------------------------------------------------------

    def _set_stream_source(self, source: StreamSource) -> None:
        function, argument = source
        if argument is None:
            self._current_stream = lambda: _pointers[function()]
        else:
            self._current_stream = lambda: _pointers[function(argument)]

    def _find_current_stream(self) -> None:
        source = _streams.current_stream_source()
        if source is not None:
            self._set_stream_source(source)

    def _set_device(self, exchange_device: Callable[[int], int], device: int) -> None:
        """Has all spans that are not on the host clock begin and end while a device is current."""
        self._span_calls = _with_device(exchange_device, device)
        for first in self._regions.values():
            region = first
            while region is not None:
                region._choose_calls()
                region = region._next

    # ---- Steps ------------------------------------------------------------------------------------------

    def step(self, step: Optional[int] = None) -> None:
        """Begins a step of the trainer. It decides whether what follows is recorded; before the first call nothing is.

        Steps may jump, repeat and go back. Never waits; no I/O.

        Args:
            step: The step, at least 0; None: one more than the last (the first is 0).

        Raises:
            OptionError: The step is not a whole number of at least 0.
        """
        self._step = number = self._step + 1 if step is None else whole_number("step", step, 0)
        if not self._enabled:
            return
        records = self._records(number)
        if not records and not self._recording and self._library_step >= 0 and not self._flushes(number):
            return  # nothing changes for libcep: most steps of a job return here
        self._set_library_step()
        if not (records and _ffi.recording(self._pointer)):  # libcep decides
            self._recording.clear()
            return
        if self._current_stream is _default_stream:
            self._find_current_stream()
        if not self._recording:
            self._recording.append(True)

    def _set_library_step(self) -> None:
        self._library_step = self._step
        _ffi.step(self._pointer, c_int64(self._step))

    # ---- Regions ----------------------------------------------------------------------------------------

    def region(
        self,
        name: str,
        kind: Optional[str] = None,
        stream: Stream = None,
        bytes: Optional[int] = None,
        flops: Optional[float] = None,
        group: Optional[str] = None,
        coll: Optional[int] = None,
        meta: Optional[Meta] = None,
    ) -> Any:
        """A phase to time, as a context manager or decorator. Calling it again for the same name is cheap.

        Attributes (bytes to meta) are written with every span of the returned object. They are checked only when a span
        is recorded, as in the C API.

        Args:
            name: 1 to 255 bytes without control characters.
            kind: "step", "compute", "comm", "data", "memory", "host" or "other"; None: inferred from the name's
                words ("all_reduce": comm). The first use of a name decides its kind.
            stream: The CUDA stream to time: None for PyTorch's current one at each use (else the default stream), a
                PyTorch or CuPy stream, a cudaStream_t as integer; cep.HOST for the host clock.
            bytes: Bytes moved by the operation.
            flops: Floating-point operations done.
            group: Process group of a collective ("dp").
            coll: Index of the collective within group, the same on all its ranks. Needs group.
            meta: A mapping or JSON object's text, at most 16384 bytes as JSON.

        Raises:
            OptionError: The name, kind or stream is invalid. Invalid attributes are a warning when a span is recorded.
        """
        # Written out for speed: every `with prof.region("forward")` in a step loop comes through here.
        if bytes is None and flops is None and group is None and coll is None and meta is None:
            try:
                region = self._regions[name]
            except (KeyError, TypeError):
                return self._make_region(name, kind, stream)
            if kind is not None:
                kind_number(kind)
            if stream is None:
                return region
            address = _streams.stream_address(stream)
            while region is not None:
                if region._address == address:
                    return region
                region = region._next
        return self._make_region(name, kind, stream, bytes, flops, group, coll, meta)

    # ---- Phases -----------------------------------------------------------------------------------------

    def phase(self, name: str, kind: Optional[str] = None, stream: Stream = None) -> None:
        """Ends this thread's current phase, if it has one, and begins the next, with one event for both.

        Phases chain across steps, so N phases a step cost N event records instead of 2 N. end_phase() ends the last
        one. An exception does not end a phase and does not mark its row. Thread-safe: each thread has a current phase
        of its own.

        Args:
            name: As for region().
            kind: As for region().
            stream: As for region().
        """
        thread = get_ident()
        if not self._recording and thread not in self._phases:
            return
        region = self.region(name, kind, stream)
        pointer = region._stream if region._stream is not None else self._current_stream()
        ending = self._phases.pop(thread, None)
        if self._recording:
            self._phases[thread] = (pointer, region._keeps_lock)
        # A phase on a stream ends by an event, also where the next one is on the host clock.
        calls = region._calls if ending is None or ending[1] else self._span_calls
        calls.phase(self._pointer, region._handle, pointer)

    def end_phase(self) -> None:
        """Ends this thread's current phase, if it has one."""
        phase = self._phases.pop(get_ident(), None)
        if phase is not None:
            pointer, on_host = phase
            (_host_calls if on_host else self._span_calls).phase(self._pointer, None, pointer)


class RegionCalls:
    """The base of Region: its spans and ``with`` blocks."""

    __slots__ = (
        "name",
        "_profiler",
        "_handle",
        "_stream",
        "_address",
        "_attributes",
        "_struct",
        "_calls",
        "_keeps_lock",
        "_begin_span",
        "_end_span",
        "_recording",
        "_open",
        "_next",
    )

    def __init__(
        self,
        profiler: ProfilerCalls,
        name: str,
        handle: Optional[int],
        stream: Optional[int],
        attributes: Optional[Attributes],
    ) -> None:
        self.name = name
        self._profiler = profiler
        self._handle = None if handle is None else c_void_p(handle)
        self._stream = None if stream is None else _pointers[stream]
        self._address = stream
        self._attributes = attributes
        self._struct: Optional[Attrs] = None  # made from _attributes when a span first needs it
        self._keeps_lock = profiler._on_host or stream == HOST_ADDRESS
        self._choose_calls()
        # The profiler's own list, not empty while recording. Held here, it costs an unrecorded `with` a single lookup.
        self._recording = profiler._recording
        # The open `with` blocks. By thread: the span and stream of the innermost block, and the block around it. A
        # thread touches its own entry only. While any block is open, unrecorded blocks are entered too (with SPAN_NONE
        # as their span), so that every exit finds its own block.
        self._open: dict[int, Block] = {}
        self._next: Optional[RegionCalls] = None  # of the same name on another stream

    def _choose_calls(self) -> None:
        self._calls = calls = _host_calls if self._keeps_lock else self._profiler._span_calls
        self._begin_span, self._end_span = calls.begin, calls.end  # saves a lookup in each span

    def __enter__(self) -> Any:
        # _begin() and _end() are written out here and below: a Python call costs a tenth of a recorded block.
        if self._recording or self._open:
            thread, stream, open_blocks = get_ident(), self._stream, self._open
            if stream is None:
                stream = self._profiler._current_stream()
            span = self._begin_span(self._handle, stream) if self._attributes is None else self._begin_with(stream)
            open_blocks[thread] = (span, stream, open_blocks.get(thread))
        return self

    def __exit__(
        self,
        error: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._open:
            thread = get_ident()
            block = self._open.pop(thread, None)
            if block is None:
                return
            span, stream, outer = block
            if outer is not None:
                self._open[thread] = outer
            if error is None:
                self._end_span(self._handle, span, stream)
            else:
                self._end(span, stream, error)

    def _begin_with(self, stream: c_void_p) -> Span:
        assert self._attributes is not None
        if self._struct is None:
            self._struct = span_struct(self._attributes)
        return self._calls.begin_with(self._handle, stream, byref(self._struct))  # type: ignore[no-any-return]

    def _begin(self) -> tuple[Any, Any]:
        stream = self._stream if self._stream is not None else self._profiler._current_stream()
        span = self._begin_span(self._handle, stream) if self._attributes is None else self._begin_with(stream)
        return span, stream

    def _end(self, span: Any, stream: Any, error: Optional[type[BaseException]]) -> None:
        if error is None or issubclass(error, NOT_FAILURES):
            self._end_span(self._handle, span, stream)
        else:
            self._calls.end_with(self._handle, span, stream, byref(error_struct(error)))


def timed_function(region: RegionCalls, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function each of whose calls is a span of the region."""

    def timed(*args: Any, **kwargs: Any) -> Any:
        with region:
            return function(*args, **kwargs)

    return timed


class OpenSpans:
    """The open spans of one region that hooks begin and end, at most one for each key (a thread, or None for the whole
    process).

    Thread-safe as long as two threads do not share a key.
    """

    __slots__ = ("_region", "_not_finished", "_begun")

    def __init__(self, region: RegionCalls, not_finished: type[BaseException]) -> None:
        self._region = region
        self._not_finished = not_finished
        self._begun: dict[Optional[int], tuple[Any, Any]] = {}

    def __bool__(self) -> bool:
        """Whether any span is open."""
        return bool(self._begun)

    def is_open(self, key: Optional[int]) -> bool:
        return key in self._begun

    def begin(self, key: Optional[int]) -> None:
        """Begins a span on the current stream. A span of the key that is still open ends as not finished."""
        self.end(key, self._not_finished)
        self._begun[key] = self._region._begin()

    def end(self, key: Optional[int], error: Optional[type[BaseException]] = None) -> None:
        """Ends the key's span, if there is one, on the stream on which it began."""
        begun = self._begun.pop(key, None)
        if begun is not None:
            self._region._end(*begun, error)

    def abandon(self) -> None:
        """Ends all open spans as not finished."""
        for key in list(self._begun):
            self.end(key, self._not_finished)
