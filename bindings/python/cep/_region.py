# SPDX-License-Identifier: Apache-2.0
"""Regions: the named phases of a profiler, as context managers and decorators."""

from __future__ import annotations

import functools
import inspect
from ctypes import byref, c_void_p
from threading import get_ident
from types import TracebackType
from typing import Any, AsyncGenerator, Awaitable, Callable, Generator, Optional, TypeVar, cast

from . import _ffi
from ._attributes import Attributes, attributes_struct, error_struct
from ._ffi import Attrs, Span
from ._protocols import RegionOwner
from ._streams import HOST_POINTER

Function = TypeVar("Function", bound=Callable[..., Any])
Block = tuple[Span, c_void_p, Optional[Any]]

# Globals of this module are looked up faster than attributes of another.
_host_calls, _device_calls = _ffi.host_calls, _ffi.device_calls

# Generators raise and receive these at the end of an iteration, which is no failure of the phase.
_NOT_FAILURES = (GeneratorExit, StopIteration, StopAsyncIteration)


class Region:
    """A phase to time: ``with region: …``, or ``@region`` above a function. Made by Profiler.region().

    A region is reusable, nests (also in itself), and may be entered by any number of threads at once. A ``with``
    block has to be left on the thread that entered it. For coroutines that interleave on one thread, use the
    decorator: it gives each call a span of its own.

    A span ends on the stream on which it began.

    If the body raises, the row names the exception's type, and the exception passes through.

    Thread-safe. Entering and leaving do no I/O, and do nothing at all on a step that is not recorded. They never wait
    for the device to finish work. Like a kernel launch, they wait for room if the device's queue is full; other Python
    threads run meanwhile.
    """

    __slots__ = (
        "name",
        "_profiler",
        "_handle",
        "_stream",
        "_attributes",
        "_struct",
        "_calls",
        "_begin_span",
        "_end_span",
        "_recording",
        "_open",
    )

    def __init__(
        self,
        profiler: RegionOwner,
        name: str,
        handle: Optional[c_void_p],
        stream: Optional[c_void_p],
        attributes: Optional[Attributes],
    ) -> None:
        self.name = name
        self._profiler = profiler
        self._handle = handle
        self._stream = stream
        self._attributes = attributes
        self._struct: Optional[Attrs] = None  # made from _attributes when a span first needs it
        self._calls = calls = _host_calls if stream is HOST_POINTER or profiler._on_host else _device_calls
        self._begin_span, self._end_span = calls.begin, calls.end  # saves a lookup in each span
        # The profiler's own list, not empty while recording. Held here, it costs an unrecorded `with` a single lookup.
        self._recording = profiler._recording
        # The open `with` blocks. By thread: the span and stream of the innermost block, and the block around it. A
        # thread touches its own entry only. While any block is open, unrecorded blocks are entered too (with SPAN_NONE
        # as their span), so that every exit finds its own block.
        self._open: dict[int, Block] = {}

    def __repr__(self) -> str:
        return f"<cep.Region {self.name!r}>"

    def __enter__(self) -> Region:
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
            self._struct = attributes_struct(self._attributes)
        return self._calls.begin_with(self._handle, stream, byref(self._struct))  # type: ignore[no-any-return]

    def _begin(self) -> tuple[Span, c_void_p]:
        stream = self._stream if self._stream is not None else self._profiler._current_stream()
        span = self._begin_span(self._handle, stream) if self._attributes is None else self._begin_with(stream)
        return span, stream

    def _end(self, span: Span, stream: c_void_p, error: Optional[type[BaseException]]) -> None:
        if error is None or issubclass(error, _NOT_FAILURES):
            self._end_span(self._handle, span, stream)
        else:
            self._calls.end_with(self._handle, span, stream, byref(error_struct(error)))

    def __call__(self, function: Function) -> Function:
        """Wraps a function so that each call is a span of this region.

        A coroutine function has one span, from its first step to its return, waiting included. A generator function,
        plain or asynchronous, has a span for each item; the consumer's work between items is in none.
        """
        if inspect.isasyncgenfunction(function):
            wrapper: Callable[..., Any] = self._wrap_async_generator(function)
        elif inspect.iscoroutinefunction(function):
            wrapper = self._wrap_coroutine(function)
        elif inspect.isgeneratorfunction(function):
            wrapper = self._wrap_generator(function)
        else:
            wrapper = self._wrap_function(function)
        return cast(Function, functools.wraps(function)(wrapper))

    def _wrap_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return timed

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            resume, argument = generator.send, None
            while True:
                with self:
                    try:
                        item = resume(argument)
                    except StopIteration as stop:
                        return stop.value
                try:
                    resume, argument = generator.send, (yield item)
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as error:
                    resume, argument = generator.throw, error

        return timed

    async def _await_timed(self, awaitable: Awaitable[Any]) -> Any:
        """Awaits within a span of this call's own: other coroutines may enter the region on this thread meanwhile."""
        if not self._recording:
            return await awaitable
        span, stream = self._begin()
        try:
            result = await awaitable
        except BaseException as error:
            self._end(span, stream, type(error))
            raise
        self._end(span, stream, None)
        return result

    def _wrap_coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def timed(*args: Any, **kwargs: Any) -> Any:
            return await self._await_timed(function(*args, **kwargs))

        return timed

    def _wrap_async_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def timed(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            generator = function(*args, **kwargs)
            resume, argument = generator.asend, None
            while True:
                try:
                    item = await self._await_timed(resume(argument))
                except StopAsyncIteration:
                    return
                try:
                    resume, argument = generator.asend, (yield item)
                except GeneratorExit:
                    await generator.aclose()
                    raise
                except BaseException as error:
                    resume, argument = generator.athrow, error

        return timed
