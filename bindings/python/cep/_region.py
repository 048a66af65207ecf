# SPDX-License-Identifier: Apache-2.0
"""Regions: the named phases of a profiler, as context managers and decorators, and round the waits for a loader."""

from __future__ import annotations

import functools
import inspect
from typing import (
    TYPE_CHECKING, Any, AsyncGenerator, Awaitable, Callable, Generator, Generic, Iterable, Iterator, Optional, TypeVar, cast,
)  # fmt: skip

from ._binding import RegionCalls, timed_function

Function = TypeVar("Function", bound=Callable[..., Any])
Item = TypeVar("Item")


def _off_region(kind: Any, name: str) -> Region:
    region: Region = kind._off().region(name)
    return region


class Region(RegionCalls):
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

    __slots__ = ()

    if TYPE_CHECKING:

        def __enter__(self) -> Region: ...

    def __repr__(self) -> str:
        return f"<cep.Region {self.name!r}>"

    def __reduce__(self) -> Any:
        """A copy, deep or pickled, is of a profiler that is off."""
        return _off_region, (type(self._profiler), self.name)

    def __call__(self, function: Function) -> Function:
        """Wraps a function so that each call is a span of this region.

        A coroutine function has one span, from its first step to its return, waiting included. A generator function,
        plain or asynchronous, has a span for each item; the consumer's work between items is in none.
        """
        if inspect.isasyncgenfunction(function):
            wrapper: Callable[..., Any] = self._wrap_async_generator(function)
        elif inspect.iscoroutinefunction(function):

            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                return await self._await_timed(function(*args, **kwargs))

        elif inspect.isgeneratorfunction(function):
            wrapper = self._wrap_generator(function)
        else:
            wrapper = timed_function(self, function)
        return cast(Function, functools.wraps(function)(wrapper))

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
        if not self._profiler._recording:
            return await awaitable
        span, stream = self._begin()
        try:
            result = await awaitable
        except BaseException as error:
            self._end(span, stream, type(error))
            raise
        self._end(span, stream, None)
        return result

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


class TimedIterable(Generic[Item]):
    """What Profiler.iterate() returns. Can be iterated as often as the loader, and has a length if the loader has."""

    def __init__(self, profiler: Any, region: Region, iterable: Iterable[Item], first_step: Optional[int]) -> None:
        self._profiler = profiler
        self._region = region
        self._iterable = iterable
        self._first_step = first_step

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Item]:
        region = self._region
        step, length = self._first_step, length_of(self)
        # The step after the last item's never begins: its wait only finds the end.
        end_step = None if step is None or length is None else step + length
        iterator = iter(self._iterable)
        while True:
            if step is not None and step != end_step:
                self._profiler.step(step)
                step += 1
            with region:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item


def length_of(iterable: Any) -> Optional[int]:
    """None: it has none."""
    try:
        return len(iterable)
    except TypeError:
        return None
