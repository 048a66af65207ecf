# SPDX-License-Identifier: Apache-2.0
"""The span of one collective: begun where its inputs are ready, ended where its result is."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, Optional

from .._profiler import Profiler
from .._region import Region
from .._streams import HOST
from ._groups import Group
from ._lent import Lent
from ._pytorch import Future, torch


class Unmeasured(Exception):
    """In the ``error`` of a row: the operation's end cannot be observed; its duration means nothing."""


class Description(NamedTuple):
    """What the row of a collective says beside its times."""

    name: str
    bytes: Optional[int]
    group: Group
    coll: Optional[int]

    def region(self, profiler: Profiler, stream: Any) -> Region:
        return profiler.region(
            self.name, kind="comm", stream=stream, bytes=self.bytes, group=self.group.name, coll=self.coll
        )


class SideStreams:
    """A stream of the profiler's own for each group and device, on which asynchronous collectives are waited for.

    Nothing runs on it: it waits for the inputs, then for the result, and holds the events that time both. As the
    collectives of a group run one behind the other, so do the waits, and a collective that queues behind the one before
    begins, here too, when that one is done.
    """

    def __init__(self) -> None:
        self._streams: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._lock = threading.Lock()

    def after_current(self, group: Group, device: int) -> Any:
        """The group's stream, behind all that the current stream has to do before the collective."""
        with self._lock:
            known = self._streams.get((group.name, device))
            if known is None:
                known = self._streams[group.name, device] = torch.cuda.Stream(device), torch.cuda.Event()
            stream, reached = known
            # One event again and again: whoever waits, waits for what it stood for at that call.
            reached.record(torch.cuda.current_stream(device))
            stream.wait_event(reached)
        return stream


def future_of(work: Any) -> Optional[Future]:
    """The future of what an asynchronous collective returned; None where its backend has none."""
    try:
        return work.get_future()
    except Exception:  # send and receive of gloo; coalesced operations
        return None


class AsyncSpan:
    """An asynchronous collective's span. Make it before the call; then exactly one of end_with() and fail()."""

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

    def end_with(self, future: Optional[Future]) -> None:
        """Ends where the future's value is ready. Never waits for it on the host."""
        if future is None:
            self.fail(Unmeasured)
        elif self._side is not None and future.done():
            self._end_on_side_stream(future)
        else:
            future.add_done_callback(Lent(self._end_in_callback))

    def _end_in_callback(self, _: Future) -> None:
        """Another thread brings the result. The callback's current stream there is one that waits for it."""
        span, stream = self._begun
        self._region._end(span, stream if self._side is None else self._profiler._current_stream(), None)

    def _end_on_side_stream(self, future: Future) -> None:
        """NCCL's futures are done at once, and hold the events of what runs: wait() makes only the current stream
        wait. Not Work.wait(): that would also release the tensors that the work keeps alive for its caller."""
        error: Optional[type[BaseException]] = None
        try:
            with torch.cuda.stream(self._side):
                future.wait()
        except Exception as failure:  # the collective's own failure: the trainer meets it at its own wait
            error = type(failure)
        self._region._end(*self._begun, error)
