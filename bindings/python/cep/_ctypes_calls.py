# SPDX-License-Identifier: Apache-2.0
"""The calls of a step loop through ctypes: what the package uses where its extension module is missing, plainly.

_native.abi3.so has the same classes in C, for speed; its source is beside the package, in native/.
"""

from __future__ import annotations

from contextlib import suppress
from ctypes import byref, c_int64, c_void_p
from threading import get_ident
from types import TracebackType
from typing import Any, Callable, Optional

from . import _ffi, _streams
from ._attributes import Attributes, Meta, error_struct, span_struct, whole_number
from ._errors import NOT_FAILURES
from ._options import kind_number
from ._sampling import Sampling
from ._streams import HOST_ADDRESS, Stream, StreamSource


class ProfilerCalls:
    """The base of Profiler: what a step loop calls."""

    _enabled = False
    _on_host = False
    _step = -1  # the trainer's step
    _library_step = -1  # the last step that libcep was given
    _on_step: Optional[Callable[[], None]] = None  # called at each step that is recorded, and at the next one
    _wants_steps = False  # calls _on_step at every step
    _recording: list[bool]  # not empty while recording; every region reads this very list
    _regions: dict[str, Any]  # by name: those without a stream of their own
    _make_region: Callable[..., Any]
    _tell_late_step: Callable[[], None]

    def _attach(
        self, handle: int, recording: list[bool], regions: dict[str, Any], on_host: bool, sampling: tuple[int, ...]
    ) -> None:
        self._pointer = c_void_p(handle)
        self._recording, self._regions, self._on_host = recording, regions, on_host
        self._sampling_rule = Sampling(*sampling)
        self._stream_source: Optional[StreamSource] = None
        self._device_source: Optional[tuple[Callable[[int], int], int]] = None
        self._phases: dict[int, tuple[int, bool]] = {}  # by thread: the stream, and whether it is on the host clock

    # ---- Streams ----------------------------------------------------------------------------------------

    def _set_stream_source(self, source: StreamSource) -> None:
        self._stream_source = source

    def _set_device(self, exchange_device: Callable[[int], int], device: int) -> None:
        """Has all spans that are not on the host clock begin and end while a device is current."""
        self._device_source = exchange_device, device

    def _current_stream(self) -> int:
        if self._stream_source is None:
            return 0
        function, argument = self._stream_source
        return function() if argument is None else function(argument)

    def _call(self, name: str, on_host: bool, *args: Any) -> Any:
        """Makes a call of libcep's that begins or ends a span."""
        call = getattr(_ffi.host_calls if on_host else _ffi.device_calls, name)
        if on_host or self._device_source is None:
            return call(*args)
        exchange_device, device = self._device_source
        before = None
        try:
            with suppress(Exception):
                before = exchange_device(device)
            return call(*args)
        finally:
            if before is not None:
                with suppress(Exception):
                    exchange_device(before)

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
        was_recording = bool(self._recording)
        if self._enabled:
            self._begin_step(number)
        if self._on_step is not None and (was_recording or self._wants_steps or self._recording):
            self._on_step()

    def _begin_step(self, number: int) -> None:
        rule = self._sampling_rule
        if not rule.records(number) and not self._recording and self._library_step >= 0 and not rule.flushes(number):
            return  # nothing changes for libcep: most steps of a job return here
        self._set_library_step()
        self._recording[:] = [True] if rule.records(number) and _ffi.recording(self._pointer) else []
        if self._recording and self._stream_source is None:
            self._stream_source = _streams.current_stream_source()

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
        if all(given is None for given in (bytes, flops, group, coll, meta)):
            try:
                region = self._regions[name]
            except (KeyError, TypeError):
                return self._make_region(name, kind, stream)
            if kind is not None:
                kind_number(kind)
            address = _streams.stream_address(stream)
            while region is not None:
                if region._stream == address:
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
        address = region._stream if region._stream is not None else self._current_stream()
        ending = self._phases.pop(thread, None)
        if self._recording:
            self._phases[thread] = address, region._keeps_lock
        # A phase on a stream ends by an event, also where the next one is on the host clock.
        on_host = region._keeps_lock and (ending is None or ending[1])
        self._call("phase", on_host, self._pointer, region._handle, c_void_p(address))

    def end_phase(self) -> None:
        """Ends this thread's current phase, if it has one."""
        phase = self._phases.pop(get_ident(), None)
        if phase is not None:
            self._call("phase", phase[1], self._pointer, None, c_void_p(phase[0]))


class RegionCalls:
    """The base of Region: its spans and ``with`` blocks."""

    __slots__ = (
        "name", "_profiler", "_handle", "_stream", "_attributes", "_struct", "_keeps_lock", "_recording", "_open", "_next", "_is_early",
    )  # fmt: skip

    def __init__(
        self,
        profiler: ProfilerCalls,
        name: str,
        handle: Optional[int],
        stream: Optional[int],
        attributes: Optional[Attributes],
    ) -> None:
        self.name, self._profiler, self._stream, self._attributes = name, profiler, stream, attributes
        self._handle = None if handle is None else c_void_p(handle)
        self._struct: Any = None  # made from _attributes when a span first needs it
        self._keeps_lock = profiler._on_host or stream == HOST_ADDRESS
        self._recording = profiler._recording
        # The open `with` blocks by thread. While any is open, unrecorded blocks are entered too, so that every exit finds
        # its own block.
        self._open: dict[int, list[tuple[Any, int]]] = {}
        self._next: Optional[RegionCalls] = None  # of the same name on another stream
        self._is_early = False  # it was entered before the profiler's first step

    def __enter__(self) -> Any:
        if self._profiler._step < 0 or self._is_early:
            self._is_early = self._profiler._step < 0
            if not self._is_early:
                self._profiler._tell_late_step()
        if self._recording or self._open:
            self._open.setdefault(get_ident(), []).append(self._begin())
        return self

    def __exit__(
        self,
        error: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        blocks = self._open.get(get_ident())
        if blocks:
            block = blocks.pop()
            if not blocks:
                del self._open[get_ident()]
            self._end(*block, error)

    def _begin(self) -> tuple[Any, int]:
        stream = self._stream if self._stream is not None else self._profiler._current_stream()
        target = self._handle, c_void_p(stream)
        if self._attributes is None:
            return self._profiler._call("begin", self._keeps_lock, *target), stream
        if self._struct is None:
            self._struct = span_struct(self._attributes)
        return self._profiler._call("begin_with", self._keeps_lock, *target, byref(self._struct)), stream

    def _end(self, span: Any, stream: int, error: Optional[type[BaseException]]) -> None:
        target = self._handle, span, c_void_p(stream)
        if error is None or issubclass(error, NOT_FAILURES):
            self._profiler._call("end", self._keeps_lock, *target)
        else:
            self._profiler._call("end_with", self._keeps_lock, *target, byref(error_struct(error)))


def timed_function(
    region: RegionCalls, function: Callable[..., Any], recorded: Optional[Callable[..., Any]] = None
) -> Callable[..., Any]:
    """A function each of whose calls is a span of the region; or, while its profiler records, one of another function."""

    def timed(*args: Any, **kwargs: Any) -> Any:
        if recorded is not None:
            return (recorded if region._recording else function)(*args, **kwargs)
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
