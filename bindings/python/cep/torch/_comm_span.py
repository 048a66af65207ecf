# SPDX-License-Identifier: Apache-2.0
"""The span of one collective: from when its inputs are ready to when its result is."""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple, Optional, Sequence

from .._attributes import Attributes
from .._profiler import Profiler
from .._region import Region
from .._streams import HOST, HOST_ADDRESS
from ._future_callbacks import FutureCallback
from ._groups import Group
from ._kept_tensors import kept_tensors
from ._pytorch import Future, Tensor, torch
from ._steps import step_listeners


class Unmeasured(Exception):
    """The ``error`` of a row whose duration means nothing, because the end of the operation cannot be observed."""


class Description(NamedTuple):
    """What the row of a collective has in addition to its times."""

    name: str
    bytes: Optional[int]
    group: Group
    coll: Optional[int]

    def region(self, profiler: Profiler, stream: Any) -> Region:
        return profiler.region(
            self.name, kind="comm", stream=stream, bytes=self.bytes, group=self.group.name, coll=self.coll
        )

    def async_region(self, profiler: Profiler) -> Region:
        """On the host clock, for a span that a thread of the backend may end: it is no part of this thread's nesting."""
        attributes = Attributes(self.bytes, None, self.group.name, self.coll, None, True)
        handle = profiler._native_regions.get(self.name) or profiler._native_region(self.name, "comm")
        return Region(profiler, self.name, handle, HOST_ADDRESS, attributes)


class SideStreams:
    """Streams of the profiler's own, one for each group and device, that wait for asynchronous collectives.

    No work runs on such a stream. It waits for the inputs of a collective and then for its result, and the events that
    time both are recorded on it. The collectives of a group run one after another, and so do the waits: the span of a
    collective that is queued behind another begins when that one is done.
    """

    def __init__(self) -> None:
        self._streams: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._lock = threading.Lock()
        self.wait_on_the_host = _waits_on_the_host()

    def after_current(self, group: Group, device: int) -> tuple[Any, Any]:
        """The group's stream, which waits for all work that the current stream has now; and the current stream."""
        current = torch.cuda.current_stream(device)
        with self._lock:
            known = self._streams.get((group.name, device))
            if known is None:
                known = self._streams[group.name, device] = torch.cuda.Stream(device), torch.cuda.Event()
            stream, reached = known
            # One event is enough: a wait is for what the event recorded last before the wait was queued.
            reached.record(current)
            stream.wait_event(reached)
        return stream, current


def future_of(work: Any) -> Optional[Future[Any]]:
    """The future of the Work that an asynchronous collective returned; None if its backend has none."""
    try:
        future: Future[Any] = work.get_future()
        return future
    except Exception:  # send and receive of gloo; coalesced operations
        return None


def _waits_on_the_host() -> bool:
    """Whether waiting for a Work of NCCL blocks the thread, in some versions of PyTorch."""
    return any(os.environ.get(name, "0") not in ("", "0") for name in ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"))


class UnendedSpans(set["AsyncSpan"]):
    """The spans of one profiler that wait for a future's callback.

    The callback needs the interpreter's lock, so it may run long after the work has ended: even in the next step. So who
    has just waited for the work, and so knows that it has ended, calls end_done(). Thread-safe.
    """

    def __init__(self, profiler: Profiler) -> None:
        super().__init__()
        self._profiler = profiler
        step_listeners(profiler).add(self._on_step)
        profiler._at_close.append(self._close)

    def end_done(self) -> None:
        """Ends the spans whose work has ended."""
        for span in list(self):
            future = span._future
            if future is not None and future.done():
                span(future)

    def _on_step(self, step: int, recorded: bool) -> bool:
        if self:
            self.end_done()
        return bool(self)

    def _close(self) -> None:
        step_listeners(self._profiler).remove(self._on_step)
        self.clear()
        self._profiler.__dict__.pop("_unended_spans", None)


def unended_spans(profiler: Profiler) -> UnendedSpans:
    found = profiler.__dict__.get("_unended_spans")
    if found is None:
        found = profiler.__dict__.setdefault("_unended_spans", UnendedSpans(profiler))
    return found  # type: ignore[no-any-return]


def end_done_spans(profiler: Profiler) -> None:
    """Ends the spans of asynchronous collectives on the host whose work has ended. Cheap if there are none."""
    unended = profiler.__dict__.get("_unended_spans")
    if unended:
        unended.end_done()


class AsyncSpan(FutureCallback):
    """An asynchronous collective's span. Make it before the call; then call exactly one of
    end_with_works(), end_with() and fail()."""

    def __init__(
        self, profiler: Profiler, streams: SideStreams, what: Description, device: Optional[int]
    ) -> None:
        self._profiler, self._streams, self._device = profiler, streams, device
        self._side: Any = None
        self._current: Any = None
        if device is not None:
            self._side, self._current = streams.after_current(what.group, device)
        self._on_nccl = what.group.on_device
        self._region = what.async_region(profiler) if device is None else what.region(profiler, self._side)
        self._future: Optional[Future[Any]] = None
        self._unended: Optional[UnendedSpans] = None
        # Taken by the one that ends the span: pop() is atomic.
        self._begun = [self._region._begin()]

    def fail(self, error: type[BaseException]) -> None:
        """The call raised."""
        self._end(error)

    def _end(self, error: Optional[type[BaseException]]) -> None:
        try:
            span, stream = self._begun.pop()
        except IndexError:  # it has ended
            return
        self._region._end(span, stream, error)

    def end_with_works(self, works: Sequence[Any], tensors: Sequence[Tensor]) -> None:
        """Ends the span when all of the works that the call returned are done. Never waits for them on the host.

        The side stream waits for NCCL's Work itself, not for its future: that would record the stream on the result's
        tensors, and the allocator would give their memory to nobody before that stream has passed.

        Args:
            works: Several for a batch of messages.
            tensors: All that the call reads and writes, but those that its caller keeps until it has waited.
        """
        if self._side is None or not self._on_nccl:
            self.end_with(future_of(works[0]))
            return
        if self._streams.wait_on_the_host:
            self.fail(Unmeasured)
            return
        self._end_behind(works)
        if tensors:
            for work in works:
                kept_tensors.keep(work, tensors, self._side)

    def end_with(self, future: Optional[Future[Any]]) -> None:
        """Ends the span when the future's value is ready. Never waits for it on the host. For other backends than NCCL."""
        if future is None:
            self.fail(Unmeasured)
        elif self._side is not None and future.done():
            self._end_behind([future])  # it holds the events of the running work
        elif self._side is not None:
            self._expect()
            future.add_done_callback(self)
        else:
            self._future, self._unended = future, self._profiler.__dict__.get("_unended_spans")
            if self._unended is None:
                self._unended = unended_spans(self._profiler)
            self._unended.add(self)
            self._expect()
            future.add_done_callback(self)

    def __call__(self, future: Future[Any]) -> None:
        """Ends the span, once the future is done. Runs on a thread of the backend, or on one that has waited for the
        result. The current stream of a thread of the backend waits for the result."""
        try:
            span, stream = self._begun.pop()
        except IndexError:  # it has ended
            return
        self._region._end(span, stream if self._side is None else self._profiler._current_stream(), None)
        self._future = None
        if self._unended is not None:
            self._unended.discard(self)

    def _end_behind(self, waited_for: Sequence[Any]) -> None:
        """Ends the span when the side stream has waited for all of them, which makes only that stream wait."""
        error: Optional[type[BaseException]] = None
        device = torch.cuda.current_device()
        torch.cuda.set_stream(self._side)  # which torch.cuda.stream() does in twice the time
        try:
            for each in waited_for:
                each.wait()
        except Exception as failure:  # the collective has failed; the trainer's own wait raises it
            error = type(failure)
        finally:
            torch.cuda.set_stream(self._current)
            if device != self._device:
                torch.cuda.set_device(device)
        self._end(error)
