# SPDX-License-Identifier: Apache-2.0
"""The span of one collective: from when its inputs are ready to when its result is."""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple, Optional

from .._profiler import Profiler
from .._region import Region
from .._streams import HOST
from ._future_callbacks import FutureCallback
from ._groups import Group
from ._pytorch import Future, Tensor, torch


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


class SideStreams:
    """Streams of the profiler's own, one for each group and device, that wait for asynchronous collectives.

    No work runs on such a stream. It waits for the inputs of a collective and then for its result, and the events that
    time both are recorded on it. The collectives of a group run one after another, and so do the waits: the span of a
    collective that is queued behind another begins when that one is done.
    """

    def __init__(self) -> None:
        self._streams: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._lock = threading.Lock()

    def after_current(self, group: Group, device: int) -> Any:
        """The group's stream, which waits for all work that the current stream has now."""
        with self._lock:
            known = self._streams.get((group.name, device))
            if known is None:
                known = self._streams[group.name, device] = torch.cuda.Stream(device), torch.cuda.Event()
            stream, reached = known
            # One event is enough: a wait is for what the event recorded last before the wait was queued.
            reached.record(torch.cuda.current_stream(device))
            stream.wait_event(reached)
        return stream


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


class AsyncSpan:
    """An asynchronous collective's span. Make it before the call; then call exactly one of end_with(),
    end_with_batch() and fail()."""

    def __init__(
        self, profiler: Profiler, streams: SideStreams, what: Description, device: Optional[int]
    ) -> None:
        self._profiler = profiler
        self._side = None if device is None else streams.after_current(what.group, device)
        self._region = what.region(profiler, HOST if device is None else self._side)
        self._begun = self._region._begin()

    def fail(self, error: type[BaseException]) -> None:
        """The call raised."""
        self._region._end(*self._begun, error)

    def end_with(self, future: Optional[Future[Any]]) -> None:
        """Ends the span when the future's value is ready. Never waits for it on the host."""
        if future is None:
            self.fail(Unmeasured)
        elif self._side is not None and future.done():
            self._end_on_side_stream(future)
        else:
            future.add_done_callback(FutureCallback(self._end_in_callback))

    def end_with_batch(self, works: list[Any], tensors: list[Tensor]) -> None:
        """Ends the span when all messages of a batch have arrived. Never waits for that on the host.

        The future of a batch is done before its messages have arrived, so the side stream waits for the Work itself. With
        that the Work releases the tensors that it keeps alive for its caller: the allocator is told that the side stream
        uses them, and does not give their memory to others before that wait is over.
        """
        if self._side is None or _waits_on_the_host():
            self.fail(Unmeasured)
            return
        error: Optional[type[BaseException]] = None
        try:
            for tensor in tensors:
                tensor.record_stream(self._side)
            with torch.cuda.stream(self._side):
                for work in works:
                    work.wait()
        except Exception as failure:  # the batch has failed; the trainer's own wait raises it
            error = type(failure)
        self._region._end(*self._begun, error)

    def _end_in_callback(self, _: Future[Any]) -> None:
        """Runs on a thread of the backend, whose current stream waits for the result."""
        span, stream = self._begun
        self._region._end(span, stream if self._side is None else self._profiler._current_stream(), None)

    def _end_on_side_stream(self, future: Future[Any]) -> None:
        """NCCL's futures are done from the start, and hold the events of the running work: their wait() makes only the
        current stream wait. Work.wait() would also release the tensors that the Work keeps alive for its caller."""
        error: Optional[type[BaseException]] = None
        try:
            with torch.cuda.stream(self._side):
                future.wait()
        except Exception as failure:  # the collective has failed; the trainer's own wait raises it
            error = type(failure)
        self._region._end(*self._begun, error)
