# SPDX-License-Identifier: Apache-2.0
"""What the hooks of PyTorch are made of: classes of the extension module, in C. Its source, which has their documentation, is
beside the package, in native/. Without the module there are no hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from .._binding import native, why_missing


def why_no_hooks() -> Optional[str]:
    """What a user is told who has no hooks; None where there are."""
    if native is not None:
        return None
    return (
        f"cep's extension module is missing ({why_missing}), and PyTorch's hooks need it: install cep's wheel, or build cep where "
        "Python's headers are (python3-dev, python3-devel)"
    )


def need_hooks() -> None:
    """Raises an ImportError where there are no hooks."""
    why = why_no_hooks()
    if why is not None:
        raise ImportError(why)


if TYPE_CHECKING:
    from .._profiler import Profiler
    from .._region import Region

    Error = type[BaseException]

    class Indices:
        def take(self, step: int, count: int = 1) -> int: ...

    class SideStream:
        def __init__(
            self, device: int, stream: Any, calls: tuple[Any, ...], on_device: bool, waits_on_host: bool
        ) -> None: ...

    class AsyncSpan:
        def __init__(self, like: Region, side: Optional[SideStream], attributes: tuple[Any, ...]) -> None: ...
        def __call__(self, future: Any = None) -> None: ...
        def fail(self, error: Error) -> None: ...
        def end_with_works(self, works: Sequence[Any], tensors: Optional[Sequence[Any]]) -> None: ...

    class OpenSpans:
        def __init__(self, region: Region, not_finished: Error) -> None: ...
        def __bool__(self) -> bool: ...
        def begin(self, key: Optional[int]) -> None: ...
        def end(self, key: Optional[int], error: Optional[Error] = None) -> None: ...
        def abandon(self) -> None: ...

    class BackwardCalls:
        after: Optional[Callable[[], None]]

        def __init__(self, profiler: Profiler, phase: OpenSpans, queue_callback: Callable[[Any], None]) -> None: ...
        def watch(self, output: Any) -> None: ...
        def unwatch(self) -> None: ...
        def abandon(self) -> None: ...

    class ForwardCalls:
        after: Optional[Callable[[Any], None]]

        def __init__(
            self, model: Any, forward: OpenSpans, no_grad: OpenSpans, backward: BackwardCalls, *calls: Callable[[], int]
        ) -> None: ...
        def turn(self, on: Optional[bool]) -> bool: ...
        def announce(self, before: Optional[Callable[[], None]]) -> None: ...
        def abandon(self) -> None: ...

    class BucketTimer:
        _running: int

        def __init__(self, *given: Any) -> None: ...

    BucketFunction: Any
    TimedFunction: Callable[..., Any]

    def connect_torch(*given: Any) -> None: ...
    def end_done_spans(profiler: Profiler) -> None: ...
    def expected_callbacks() -> tuple[bool, int]: ...

elif native is not None:
    from .._native import (
        AsyncSpan, BackwardCalls, BucketFunction, BucketTimer, ForwardCalls, Indices, OpenSpans, SideStream, TimedFunction,
        connect_torch, end_done_spans, expected_callbacks,
    )  # fmt: skip
else:

    class _Missing:
        """A base of classes that nobody can make an object of."""

        def __init__(self, *_: Any) -> None:
            need_hooks()

    AsyncSpan = BackwardCalls = BucketTimer = ForwardCalls = Indices = OpenSpans = SideStream = _Missing
    BucketFunction = TimedFunction = end_done_spans = _Missing

    def connect_torch(*_: Any) -> None:
        pass

    def expected_callbacks() -> tuple[bool, int]:
        return False, 0


class NotFinished(Exception):
    """The ``error`` of a row whose phase began and has no end that was seen, because the code in it raised."""


class Phase(OpenSpans):
    """The open spans of one region that hooks begin and end, at most one for each key (a thread, or None for the process)."""

    __slots__ = ()

    def __init__(self, region: Region) -> None:
        super().__init__(region, NotFinished)
