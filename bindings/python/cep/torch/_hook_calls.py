# SPDX-License-Identifier: Apache-2.0
"""What hooks call on recorded steps, plainly. The extension module has the same classes in C, which are in use where it is;
its source, which says more about them, is in native/, beside the package."""

from __future__ import annotations

import threading
from threading import get_ident
from typing import Any, Callable, Optional, Sequence

from .._attributes import Attributes
from .._binding import native
from .._region import Region
from .._streams import HOST_ADDRESS
from ._steps import step_listeners

_given: dict[str, Any] = {}


def connect_torch(note_failure: Any, not_finished: Any, unmeasured: Any, keep: Any, tensor: Any, tensors_in: Any) -> None:
    _given.update(
        failure=note_failure, not_finished=not_finished, unmeasured=unmeasured, keep=keep, tensor=tensor, tensors_in=tensors_in
    )


class Indices:
    """The indices of a group's collectives."""

    def __init__(self) -> None:
        self._step, self._next, self._lock = -1, 0, threading.Lock()

    def take(self, step: int, count: int = 1) -> int:
        with self._lock:
            if step != self._step:
                self._step, self._next = step, max(self._next, step * 1_000_000)
            self._next += count
            return self._next - count


class SideStream:
    """A stream that waits for collectives."""

    def __init__(self, device: int, stream: Any, calls: tuple[Any, ...], on_device: bool, waits_on_host: bool) -> None:
        self.stream, self._device, self.on_device, self.waits_on_host = stream, device, on_device, waits_on_host
        _, self._current, self._identify, self._record, self._wait, self._waiter, self._use, self._get, self._set = calls
        self._lock = threading.Lock()

    def enter(self) -> Any:
        current = self._current(self._device)
        with self._lock:
            self._record(current)
            self._wait(self._waiter)
        return current

    def wait(self, works: Sequence[Any], current: Any) -> Optional[type[BaseException]]:
        error, device = None, self._get()
        self._use(*self._identify(self.stream))
        try:
            for work in works:
                work.wait()
        except Exception as failure:  # the collective has failed; the trainer's own wait raises it
            error = type(failure)
        finally:
            self._use(*self._identify(current))
            if device != self._device:
                self._set(device)
        return error


_unended: set[AsyncSpan] = set()
_expected: set[int] = set()
_ever_expected: list[bool] = []


class AsyncSpan:
    """The span of an asynchronous collective."""

    def __init__(self, like: Region, side: Optional[SideStream], attributes: tuple[Any, ...]) -> None:
        self._side, self._current, self.future = side, side and side.enter(), None
        self.profiler = like._profiler
        address = HOST_ADDRESS if side is None else int(side.stream.cuda_stream)
        handle: Any = like._handle
        self._region = Region(like._profiler, like.name, handle and handle.value, address, Attributes(*attributes))
        self._begun = [self._region._begin()]  # taken by the one that ends it: pop() is atomic

    def __del__(self) -> None:
        _expected.discard(id(self))

    def __call__(self, future: Any = None) -> None:
        self._end(None, None if self._side is None else self.profiler._current_stream())

    def _end(self, error: Optional[type[BaseException]], on_stream: Optional[int] = None) -> None:
        try:
            span, stream = self._begun.pop()
        except IndexError:  # it has ended
            return
        _unended.discard(self)
        self.future = None
        self._region._end(span, stream if on_stream is None else on_stream, error)

    def fail(self, error: type[BaseException]) -> None:
        self._end(error)

    def end_with_works(self, works: Sequence[Any], tensors: Optional[Sequence[Any]]) -> None:
        if self._side is None or not self._side.on_device:
            try:
                future = works[0].get_future()
            except Exception:  # gloo's messages have none
                future = None
            self.end_with(future)
        elif self._side.waits_on_host:
            self.fail(_given["unmeasured"])
        else:
            self._end(self._side.wait(works, self._current))
            for work in works if tensors else ():
                _given["keep"](work, tensors, self._side.stream)

    def end_with(self, future: Any) -> None:
        if future is None:
            self.fail(_given["unmeasured"])
        elif self._side is not None and future.done():
            self._end(self._side.wait([future], self._current))  # it holds the events of the running work
        else:
            if self._side is None:
                self.future = future
                _unended.add(self)
                _watch_steps(self.profiler)
            _expected.add(id(self))
            _ever_expected[:] = [True]
            future.add_done_callback(self)


def _watch_steps(profiler: Any) -> None:
    def on_step(step: int, recorded: bool) -> bool:
        end_done_spans(profiler)
        return any(span.profiler is profiler for span in _unended)

    if profiler.__dict__.setdefault("_ends_spans", on_step) is on_step:
        step_listeners(profiler).add(on_step)


def end_done_spans(profiler: Any) -> None:
    for span in list(_unended):
        future: Any = span.future
        if span.profiler is profiler and future is not None and future.done():
            span()


def expected_callbacks() -> tuple[bool, int]:
    return bool(_ever_expected), len(_expected)


class BucketTimer:
    """Only the extension times buckets: see times_buckets."""

    _running: int
    _operator: Any

    def __init__(self, *_: Any) -> None:
        raise NotImplementedError


class BucketFunction(BucketTimer):
    pass


def _guarded(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        _given["failure"](error)
        return None


class BackwardCalls:
    """The backward of models."""

    def __init__(self, profiler: Any, phase: Any, queue_callback: Callable[[Any], None]) -> None:
        self._profiler, self._phase, self._queue, self._sync = profiler, phase, queue_callback, None
        self._leaf_hooks: dict[int, Any] = {}
        self._running = threading.Lock()  # from the first gradient to the end
        self.after: Optional[Callable[[], None]] = None

    @property
    def is_running(self) -> bool:
        return self._running.locked()

    def __call__(self, gradient: Any) -> None:
        if self._profiler._recording and self._running.acquire(blocking=False):
            _guarded(self._begin)

    def _begin(self) -> None:
        self._phase.begin(None)
        self._queue(lambda: _guarded(self._queue_last))

    def _queue_last(self) -> None:
        sync: Any = self._sync
        if sync is not None:
            sync.begin()
        self._queue(lambda: _guarded(self._finish, None))

    def _finish(self, error: Any) -> None:
        try:
            self._end_sync(error)
            end_done_spans(self._profiler)
            self._phase.end(None, error)
            if self.after is not None:
                self.after()
            self._remove_leaf_hooks()
        finally:
            if self._running.locked():
                self._running.release()

    def _end_sync(self, error: Any) -> None:
        sync, self._sync = self._sync, None
        if sync is not None:
            sync.end(error)

    def _remove_leaf_hooks(self) -> None:
        while self._leaf_hooks:
            self._leaf_hooks.popitem()[1].remove()

    def abandon(self) -> None:
        end_done_spans(self._profiler)
        self.finish_abandoned()

    def finish_abandoned(self) -> None:
        if self.is_running:
            _guarded(self._finish, _given["not_finished"])

    def watch(self, output: Any, sync: Any = None) -> None:
        if sync is not None:
            self._sync = sync
            sync.watch()
        for tensor in [output] if isinstance(output, _given["tensor"]) else _given["tensors_in"](output):
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(self)
            elif tensor.requires_grad and id(tensor) not in self._leaf_hooks:
                self._leaf_hooks[id(tensor)] = tensor.register_hook(self)

    def unwatch(self) -> None:
        self._end_sync(_given["not_finished"])
        self._remove_leaf_hooks()


class _TimedForward:
    """What takes the place of a model's call. A copy of it, with a model, is nothing."""

    def __init__(self, owner: ForwardCalls, original: Callable[..., Any]) -> None:
        self.owner, self._original = owner, original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        owner = self.owner
        if owner.before is not None:
            _guarded(owner.before)
        phase = _guarded(owner.begin)
        if phase is None:
            return self._original(*args, **kwargs)
        try:
            output = self._original(*args, **kwargs)
        except BaseException as error:
            _guarded(owner.end, phase, None, type(error))
            raise
        _guarded(owner.end, phase, output, None)
        return output

    def __reduce__(self) -> Any:
        return type(None), ()


class ForwardCalls:
    """The forwards of a model."""

    def __init__(
        self, model: Any, forward: Any, no_grad: Any, backward: BackwardCalls, graph_task: Any, is_grad_enabled: Any
    ) -> None:
        self._model, self._forward, self._no_grad, self._backward = model, forward, no_grad, backward
        self._graph_task, self._is_grad_enabled = graph_task, is_grad_enabled
        self.sync: Any = None
        self.after: Optional[Callable[[Any], None]] = None
        self.before: Optional[Callable[[], None]] = None
        self._is_on = self.is_placed = False
        self.beside: Any = None  # what was in the place before

    def __bool__(self) -> bool:
        return bool(self._forward) or bool(self._no_grad)

    def turn(self, on: bool) -> None:
        self._is_on = on
        self._follow()

    def announce(self, before: Optional[Callable[[], None]]) -> None:
        self.before = before
        self._follow()

    def _follow(self) -> None:
        is_wanted, attributes = self._is_on or self.before is not None, vars(self._model)
        there = attributes.get("_compiled_call_impl")
        if is_wanted and not self.is_placed:
            self.beside = there
            attributes["_compiled_call_impl"] = _TimedForward(self, there or self._model._call_impl)
        elif not is_wanted and isinstance(there, _TimedForward) and there.owner is self:
            beside = self.beside
            while isinstance(beside, _TimedForward) and not beside.owner.is_placed:
                beside = beside.owner.beside
            if beside is None:
                del attributes["_compiled_call_impl"]
            else:
                attributes["_compiled_call_impl"] = beside
        self.is_placed = is_wanted

    def begin(self) -> Any:
        if not self._is_on or not self._backward._profiler._recording or self._graph_task() != -1:
            return None
        self._backward.finish_abandoned()
        thread = get_ident()
        if self._forward.is_open(thread) or self._no_grad.is_open(thread):
            return None
        phase = self._forward if self._is_grad_enabled() else self._no_grad
        phase.begin(thread)
        return phase

    def end(self, phase: Any, output: Any, error: Optional[type[BaseException]]) -> None:
        if not phase.is_open(get_ident()):  # abandoned
            return
        phase.end(get_ident(), error)
        if error is not None or phase is not self._forward:
            return
        self._backward.watch(output, self.sync if self.sync is not None and self.sync.is_due() else None)
        if self.after is not None:
            self.after(output)

    def abandon(self) -> None:
        for phase in (self._forward, self._no_grad):
            phase.end(get_ident(), _given["not_finished"])
        self._backward.abandon()


times_buckets = native is not None
"""Whether there is a BucketTimer."""

if native is not None:
    for _name in (
        "AsyncSpan", "BackwardCalls", "BucketFunction", "BucketTimer", "ForwardCalls", "Indices", "SideStream", "connect_torch",
        "end_done_spans", "expected_callbacks",
    ):  # fmt: skip
        globals()[_name] = getattr(native, _name)
