# SPDX-License-Identifier: Apache-2.0
"""The span of one asynchronous collective: from when its inputs are ready to when its result is.

On the host clock it ends with the work's future. The callback needs the interpreter's lock, so it may run long after the
work has ended, even in the next step: who has just waited for the work, and so knows that it has ended, calls
end_done_spans().

For CUDA tensors it is on a stream of the profiler's own, one for each group and device, on which no work runs. That stream
waits for the inputs of a collective and then for its result, and the events that time both are recorded on it. The
collectives of a group run one after another, and so do the waits: the span of a collective that is queued behind another
begins when that one is done. The stream waits for NCCL's Work itself, not for its future: that would record the stream on
the result's tensors, and the allocator would give their memory to nobody before that stream has passed.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from typing import Any, NamedTuple, Optional

from .._attributes import Attributes
from .._profiler import Profiler
from ._groups import Group
from ._hooks import AsyncSpan, SideStream, expected_callbacks
from ._pytorch import torch


def _waits_on_the_host() -> bool:
    """Whether waiting for a Work of NCCL blocks the thread, in some versions of PyTorch."""
    return any(os.environ.get(name, "0") not in ("", "0") for name in ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"))


def _stream_ids(stream: Any) -> tuple[int, int, int]:
    return stream.stream_id, stream.device_index, stream.device_type


def _calls(side: Any) -> tuple[Any, ...]:
    """What a SideStream calls, in its order: PyTorch's functions in C where it has them, for each of its own in Python costs
    several microseconds in a trainer."""
    event, cuda, in_c = torch.cuda.Event(), torch.cuda, torch._C
    base = getattr(in_c, "_CudaEventBase", None)
    if base is None or not isinstance(event, base):
        functions = cuda.set_stream, cuda.current_device, cuda.set_device
        return None, cuda.current_stream, lambda stream: (stream,), event.record, side.wait_event, event, *functions
    record, wait = base.record.__get__(event), base.wait.__get__(event)
    functions = in_c._cuda_setStream, in_c._cuda_getDevice, in_c._cuda_setDevice
    return in_c._cuda_getCurrentRawStream, cuda.current_stream, _stream_ids, record, wait, side, *functions


class SideStreams:
    """The streams of one profiler that wait for asynchronous collectives. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], SideStream] = {}
        self._waits_on_the_host = _waits_on_the_host()

    def of(self, group: Group, device: int) -> SideStream:
        known = self._known.get((group.name, device))
        return known if known is not None else self._make(group, device)

    def _make(self, group: Group, device: int) -> SideStream:
        stream = torch.cuda.Stream(device)
        made = SideStream(device, stream, _calls(stream), group.on_device, self._waits_on_the_host)
        return self._known.setdefault((group.name, device), made)


class Description(NamedTuple):
    """What the row of a collective has in addition to its times."""

    name: str
    bytes: Optional[int]
    group: Group
    coll: Optional[int]


def begin_async(profiler: Profiler, streams: SideStreams, what: Description, device: Optional[int]) -> AsyncSpan:
    """Begins the span of an asynchronous call, before the call, on a CUDA device or (None) on the host: there it is no part of
    this thread's nesting, because a thread of the backend may end it. Then call exactly one of its end_with_works() and
    fail(), neither of which waits on the host."""
    like = profiler._regions.get(what.name) or profiler.region(what.name, kind="comm")
    side = None if device is None else streams.of(what.group, device)
    attributes = Attributes(what.bytes, None, what.group.name, what.coll, None, device is None)
    return AsyncSpan(like, side, attributes)


# A thread that calls or frees a Python object while the interpreter exits is ended there. If it is a C++ thread, as those of gloo
# are, the process ends with it: ``terminate called without an active exception``. So the exit waits until the callbacks of
# PyTorch's futures are freed, and until no such thread runs Python code.

_EXIT_TIMEOUT_S = 0.5  # some collectives never end
_INTERVAL_S = 0.001


def _foreign_thread_runs() -> bool:
    """Whether a thread that Python did not start runs Python code, such as that of a callback being freed."""
    started = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    started.add(threading.get_ident())
    return any(thread not in started for thread in sys._current_frames())


@atexit.register
def _wait_for_all() -> None:
    # Other threads have to run meanwhile, and nothing signals that a callback was freed: so this sleeps and checks. It
    # checks twice, because a thread may be between two objects that it frees.
    if not expected_callbacks()[0]:
        return
    deadline_s = time.monotonic() + _EXIT_TIMEOUT_S
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline_s:
        time.sleep(_INTERVAL_S)
        quiet = 0 if expected_callbacks()[1] > 0 or _foreign_thread_runs() else quiet + 1
