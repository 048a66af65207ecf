# SPDX-License-Identifier: Apache-2.0
"""The profiler of one process."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
import weakref
from ctypes import byref, c_void_p, sizeof
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, TypeVar, Union, cast

from . import _ffi
from ._attributes import HOST, Attributes, Meta, Stream, StreamSource, attributes_struct, meta_text, name_bytes
from ._attributes import stream_address, whole_number
from ._binding import ProfilerCalls
from ._errors import EINVAL, ETIMEDOUT, error_for, warn
from ._life import CLOSE_TIMEOUT_S, EarlySpans, Handle, Removal, close_at_end_of_worker, close_handle, discard
from ._life import milliseconds, open_profilers, undo_all
from ._options import Config, PathText, Sampling, add_to_meta, kind_number, one_directory, options_struct
from ._options import rank_and_size, rank_file, rank_in_job, read_settings, run_under_cep_run, settings_are_wanted
from ._region import Region, TimedIterable

Function = TypeVar("Function", bound=Callable[..., Any])
Item = TypeVar("Item")
Part = TypeVar("Part")
Self = TypeVar("Self", bound="Profiler")
Listener = Callable[[bool], Optional[bool]]
"""Called with whether the step that begins is recorded, on the thread that called step(). Returns whether it has to be called
at the next step too, whatever step that is."""

_FIND_IT = -1  # CEP_FIND_IT
_listeners_lock = threading.Lock()


def _takes_settings(options: _ffi.Options) -> bool:
    """Other layouts have no run row: there the facts of the run stand in each row."""
    return options.layout == _ffi.LAYOUTS["full"] and settings_are_wanted()


def _complete(options: _ffi.Options) -> None:
    """Sets what nobody has set and libcep cannot find: see rank_in_job()."""
    if not options.enable:
        return
    if options.rank == _FIND_IT:
        rank = rank_in_job()
        options.rank = _FIND_IT if rank is None else rank
        if options.world_size == _FIND_IT and rank is not None:
            options.world_size = max(rank_and_size()[1], rank + 1)
    if _takes_settings(options):
        options.meta = add_to_meta(options.meta)
    run = run_under_cep_run()
    if not options.run_id and run is not None:
        options.run_id = run.encode()


class Profiler(ProfilerCalls, Handle):
    """Times the phases of one process of a job; writes them to
    ``<output_dir>/cuda_event_profiler/cuda_events_rank_<rank>.jsonl``.

    A profiler made by this constructor is on, unless ``enable=False``, or ``config`` or the environment
    (``CEP_ENABLE=0``, or the file that ``CEP_CONFIG`` names) sets ``enable`` to false. Profiler.from_env() makes one
    that is off unless the environment turns it on. A profiler that is off accepts every call, makes no file and no
    directory, starts no thread, and makes no CUDA call.

    The value of an option comes from the first of these that sets it: the argument here, ``config``, ``CEP_<OPTION>``,
    ``CEP_CONFIG``, the default.

    Thread-safe: all methods may be called from any number of threads at once. After os.fork() the child's copy is
    silently off. When the interpreter exits normally, finished rows are written even without close(). The end of a
    ``with`` block closes the profiler, and warns of failures.

    Args:
        output_dir: The trainer's output directory; the rank file goes into ``cuda_event_profiler`` in it, as with ``-o`` of
            ``cep run``. None: the configuration sets the directory, else it is ``./cuda_event_profiler``.
        enable: True or False overrules every configuration.
        rank: This process's rank; by default that of PyTorch's process group, if there is one already, else the one that
            the launcher (torchrun, Slurm, Open MPI, PMI) set, else 0.
        world_size: Number of ranks in the job; by default from there too, else 1.
        local_rank: Rank within the host; by default from the launcher too, else 0.
        start_step: First step of the window, inclusive. Default 0.
        end_step: Last step of the window, inclusive. Default: none.
        record_every_n_steps: Stride within the window, from start_step. Default 10.
        flush_every_n_steps: Rows are written at steps divisible by this. Default 10.
        ranks: The ranks to profile; on others the profiler is off. Default: all.
        layout: "full" (default); "flat" for span rows with the four core keys only; or "spans" for span rows with all
            of their keys, and their metadata at top level.
        max_file_bytes: Rows beyond this size of the file are dropped and counted. Default 0: no limit.
        ring_capacity: Finished spans a thread can hold before they are written. Default 4096.
        pool_limit: CUDA events in flight. Default 16384.
        backend: "auto" (default): CUDA events if there is a CUDA context, else the host clock; "host": the host clock.
        run_id: Identifies the run on all its ranks; by default taken from the launcher, else generated.
        meta: Facts about this rank, as for set_meta().
        max_overhead_percent: Records fewer steps rather than take more of the trainer's time in libcep, in percent of
            it: the stride is multiplied by a power of two. Default 0: no bound.
        capture_range: Steps for ``nsys profile --capture-range=cudaProfilerApi``, such as "100-104", or "100-104@0,8" on
            some ranks. Default: none.
        directory: The rank file's directory itself, as CEP_DIRECTORY, instead of output_dir. Both are an error, unless they
            mean the same.
        config: Options by name: a mapping, JSON text, or the path of a JSON file, or of a YAML file if pyyaml is there. A
            trainer's whole configuration will do, where a section of it has ``enable_cuda_event_profiler`` and
            ``cuda_event_profiler_config``.

    Raises:
        OptionError: A value, here or in the configuration, is invalid, or ``WORLD_SIZE`` is more than 1 and nothing says
            which rank this is. The message names it. Nothing is left open.
        Error: The directory or the file cannot be made or written.
    """

    _device: Optional[int] = None
    """The CUDA device of all spans, where it is not the current one."""

    def __init__(
        self,
        output_dir: Optional[PathText] = None,
        *,
        enable: Optional[bool] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        local_rank: Optional[int] = None,
        start_step: Optional[int] = None,
        end_step: Optional[int] = None,
        record_every_n_steps: Optional[int] = None,
        flush_every_n_steps: Optional[int] = None,
        ranks: Optional[Sequence[int]] = None,
        layout: Optional[str] = None,
        max_file_bytes: Optional[int] = None,
        ring_capacity: Optional[int] = None,
        pool_limit: Optional[int] = None,
        backend: Optional[str] = None,
        run_id: Optional[str] = None,
        meta: Optional[Meta] = None,
        max_overhead_percent: Optional[float] = None,
        capture_range: Optional[str] = None,
        directory: Optional[PathText] = None,
        config: Optional[Config] = None,
    ) -> None:
        directory = one_directory(output_dir, directory)
        explicit = {name: value for name, value in locals().items() if name not in ("self", "output_dir", "config")}
        self._open(on_by_default=True, config=config, explicit=explicit)

    @classmethod
    def from_env(cls: type[Self]) -> Self:
        """A profiler that the environment alone configures: off unless ``CEP_ENABLE`` or ``CEP_CONFIG`` turns it on.

        Raises:
            OptionError: A variable's value is invalid. The message names it.
            Error: The directory or the file cannot be made or written.
        """
        profiler = cls.__new__(cls)
        profiler._open(on_by_default=False, config=None, explicit={})
        return profiler

    def _open(self, *, on_by_default: bool, config: Optional[Config], explicit: Mapping[str, Any]) -> None:
        self._handle = c_void_p()
        with options_struct(on_by_default=on_by_default, config=config, explicit=explicit) as options:
            _complete(options)
            _ffi.check(_ffi.open_profiler(byref(options), byref(self._handle)))
            self._rank: int = _ffi.rank(self._handle)
            self._path = rank_file(options, self._rank)
            self._sampling = Sampling(
                options.start_step, options.end_step, options.record_every_n_steps, options.flush_every_n_steps
            )
            on_host = options.backend == _ffi.BACKENDS["host"]
            self._added_settings: Optional[dict[str, Any]] = {} if _takes_settings(options) else None
        self._has_unwritten_settings = self._has_device_bytes = False
        self._native_regions: dict[str, Optional[int]] = {}
        self._early = EarlySpans()
        self._enter_early, self._leave_early = self._early.enter, self._early.leave
        self._attach(self._handle.value or 0, [], {}, on_host, self._sampling)
        self._parts: dict[Any, Any] = {}
        self._at_close: list[Removal] = []  # called once the profiler is closed, the last one first
        self._enabled = self._has_file = bool(_ffi.enabled(self._handle))
        open_profilers.add(self)
        self._finalizer = weakref.finalize(self, close_handle, self._handle, self._recording)
        if self._enabled:
            close_at_end_of_worker(self._handle, self._recording)

    # ---- State ------------------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        """A copy, deep or pickled, is off: two profilers cannot write one file, and another process has its own."""
        return type(self)._off, ()

    @classmethod
    def _off(cls: type[Self]) -> Self:
        profiler = cls.__new__(cls)
        profiler._open(on_by_default=False, config=None, explicit={"enable": False})
        return profiler

    def _end(self) -> None:
        """Closes. Failures are warnings: a profiler must not end a job that has done its work."""
        try:
            if not self.close():
                warn("not everything was written within the timeout")
        except Exception as failure:
            warn(str(failure))

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> bool:
        """Ends recording, writes finished rows and an ``open`` row for each unfinished span, and closes the file.
        Calling it again does nothing.

        Args:
            timeout: Longest wait in seconds. 0 does not wait for unfinished device work.

        Returns:
            True; False if device work or the file was not done in time. Then stats counts what was lost.

        Raises:
            OptionError: The timeout is negative.
            Error: Rows could not be written.
        """
        timeout_ms = milliseconds(timeout)
        with contextlib.suppress(Exception):  # a setting is not worth a failure
            self.add_settings({})
        self._turn_off()
        try:
            return self._done_in_time(_ffi.close(self._handle, timeout_ms))
        finally:
            undo_all(self._at_close)

    def flush(self, timeout: float = CLOSE_TIMEOUT_S) -> bool:
        """Writes everything that was finished before the call. Needed only if another program reads the file now.

        Args:
            timeout: Longest wait in seconds; 0 asks for the writing and does not wait.

        Returns:
            True; False if it was not done in time.

        Raises:
            OptionError: The timeout is negative.
            Error: Rows could not be written.
        """
        return self._done_in_time(_ffi.flush(self._handle, milliseconds(timeout)))

    @staticmethod
    def _done_in_time(code: int) -> bool:
        if code == ETIMEDOUT:
            return False
        _ffi.check(code)
        return True

    def _turn_off(self) -> None:
        """At the end, and in a forked child, whose calls libcep ignores anyway: this saves making them."""
        self._finalizer.detach()
        self._enabled = False
        self._recording.clear()

    def _part(self, kind: Callable[[Profiler], Part]) -> Part:
        """The only object of a kind that belongs to this profiler, made at the first call."""
        part: Part = self._parts.get(kind) or self._parts.setdefault(kind, kind(self))
        return part

    def _listen(self, listener: Listener) -> None:
        """Has step() call a listener, once, where recording begins or ends. Other steps cost nothing unless a listener
        asks for them."""
        with _listeners_lock:
            if listener not in self._listeners:
                self._listeners, self._wants_steps = (*self._listeners, listener), True

    def _stop_listening(self, listener: Listener) -> None:
        with _listeners_lock:
            self._listeners = tuple(other for other in self._listeners if other != listener)

    def _turn_with_steps(self, turn: Listener) -> Removal:
        """Has something be on during recorded steps, from now on: until the profiler is closed, or the returned
        function is called, which turns it off."""

        def stop() -> None:
            discard(self._at_close, stop)
            self._stop_listening(turn)
            turn(False)

        self._at_close.append(stop)
        self._listen(turn)
        turn(bool(self._recording))
        return stop

    @property
    def enabled(self) -> bool:
        """Whether this process is profiled: on, its rank listed, not closed, not a forked child."""
        return self._enabled

    @property
    def path(self) -> Optional[Path]:
        """The rank file; None if the profiler was off from the start."""
        return self._path if self._has_file else None

    @property
    def rank(self) -> int:
        """This process's rank, from the options or the launcher."""
        return self._rank

    @property
    def stats(self) -> _ffi.Stats:
        """The counts so far. All are 0 when off. They are no consistent snapshot while other threads record."""
        struct = _ffi.StatsStruct(struct_size=sizeof(_ffi.StatsStruct))
        _ffi.check(_ffi.get_stats(self._handle, byref(struct)))
        return _ffi.Stats(*(getattr(struct, field) for field in _ffi.Stats._fields))

    def add_settings(self, settings: Mapping[str, Any]) -> None:
        """Adds settings to those of the run row that cep read when the profiler was opened: what a trainer was told, for
        ``cep summarize`` to advise on and for ``cep compare`` to compare. With ``CEP_SETTINGS=0``, or a layout
        without run rows, it does nothing.

        Args:
            settings: Texts, numbers and truth values by name. A name that is given again replaces its old value.

        Raises:
            Error: With those that are there already they would take more than 65536 bytes. None is added.
        """
        self._note_settings(settings)
        if self._has_unwritten_settings and self._enabled:
            self._has_unwritten_settings = False
            self.set_meta({"settings": {**read_settings(), **(self._added_settings or {})}})

    def _note_settings(self, settings: Mapping[str, Any]) -> None:
        """Adds settings to the run row that add_settings() writes next, or close()."""
        added = self._added_settings
        if added is not None and any(added.get(name) != value for name, value in settings.items()):
            added.update(settings)
            self._has_unwritten_settings = True

    def set_meta(self, meta: Optional[Meta] = None, **facts: Any) -> None:
        """Adds facts about this rank to its ``run`` row.

        Known keys: ``dp``, ``tp``, ``pp``, ``ep``, ``cp`` (this rank's parallel coordinates);
        ``flops_per_step`` (of this rank's model), ``hardware_flops_per_step`` (with recomputation), ``peak_flops``
        (FLOP/s of this rank's device), ``tokens_per_step`` (of the whole job). Other keys go under ``meta``.

        Args:
            meta: A mapping, or a JSON object's text.
            **facts: The same, as keywords.

        Raises:
            OptionError: A value cannot be written as JSON, or the value of a known key has the wrong type.
        """
        for given in (meta, facts):
            if given:
                _ffi.check(_ffi.set_meta(self._handle, meta_text(given)))

    # ---- Steps and regions: see ProfilerCalls -----------------------------------------------------------

    if TYPE_CHECKING:

        def region(
            self, name: str, kind: Optional[str] = None, stream: Stream = None, bytes: Optional[int] = None,
            flops: Optional[float] = None, group: Optional[str] = None, coll: Optional[int] = None, meta: Optional[Meta] = None,
        ) -> Region: ...  # fmt: skip
        def _set_stream_source(self, source: StreamSource) -> None: ...
        def _set_device(self, exchange_device: Callable[[int], int], device: int) -> None: ...

    @property
    def recording(self) -> bool:
        """Whether what begins now is recorded: the current step is sampled, and the profiler is on."""
        return bool(self._recording)

    def _move_early(self, has_number: bool) -> None:
        """After the first step has begun. A pass of the loop before it was that step, if the loop has no numbers."""
        if self._early.move_to(self) and not has_number:
            self.step()

    def _make_region(self, name: str, kind: Optional[str], stream: Stream, *attributes: Any) -> Region:
        """Makes what region() returns. Keeps it if it has no attributes."""
        handle = self._native_region(name, kind)
        address = stream_address(stream)
        given = Attributes(*attributes)
        first: Region = self._regions.setdefault(name, Region(self, name, handle, None, None))
        if given != Attributes():
            return Region(self, name, handle, address, given)
        if address is None:
            return first
        region = Region(self, name, handle, address, None)
        region._next, first._next = first._next, region
        return region

    def _native_region(self, name: str, kind: Optional[str]) -> Optional[int]:
        """The library's region of this name, looked up once. None if the profiler is off; libcep accepts that."""
        number = 0 if kind is None else kind_number(kind)
        if isinstance(name, str) and name in self._native_regions:
            return self._native_regions[name]
        address = _ffi.region_get(self._handle, name_bytes(name), number)
        if not address and self._enabled:
            raise error_for(EINVAL, _ffi.last_message(EINVAL))
        return self._native_regions.setdefault(name, address or None)

    def iterate(
        self, name: str, iterable: Iterable[Item], *, kind: Optional[str] = None, first_step: Optional[int] = None
    ) -> TimedIterable[Item]:
        """Iterates over a loader, timing each wait for the next item on the host clock.

        Without ``first_step``, a wait belongs to the step that was current when it began, the first one to the first step:
        call step() at the end of the loop's body, or pass ``first_step`` and let the iteration call step() before each item.

        Args:
            name: The region's name ("data_load").
            iterable: The loader. The result has a length if the loader has.
            kind: As for region().
            first_step: The step of the first item; each further item is one step later.
        """
        return TimedIterable(self, self.region(name, kind, HOST), iterable, first_step)

    def add_span(
        self, name: str, start_ns: int, duration_ns: int, *, kind: Optional[str] = None, bytes: Optional[int] = None,
        flops: Optional[float] = None, group: Optional[str] = None, coll: Optional[int] = None, meta: Optional[Meta] = None,
    ) -> None:  # fmt: skip
        """Adds a span that was timed elsewhere to the current step, if the step is recorded: cep_record(3).

        Args:
            name: As for region().
            start_ns: Its start as UNIX time in nanoseconds (time.time_ns()); 0: now minus duration_ns.
            duration_ns: Its length in nanoseconds.
            kind: As for region(); so are bytes, flops, group, coll and meta.

        Raises:
            OptionError: A value is invalid. Checked only on recorded steps.
        """
        if not self._recording:
            return
        handle = self._native_region(name, kind)
        start_ns = whole_number("start_ns", start_ns, 0)
        duration_ns = whole_number("duration_ns", duration_ns, 0)
        struct = attributes_struct(Attributes(bytes, flops, group, coll, meta))
        _ffi.check(_ffi.record(handle, start_ns, duration_ns, byref(struct)))

    def counter(self, name: str, value: Union[int, float]) -> None:
        """Records a value (memory allocated, loss, queue length) in the current step, if the step is recorded.

        Args:
            name: As for region(); by custom with its unit: "memory.allocated_bytes".
            value: A finite number.

        Raises:
            OptionError: The name is invalid, or the value is NaN or infinite. Checked only on recorded steps.
        """
        if self._recording:
            _ffi.check(_ffi.counter(self._handle, name_bytes(name), float(value)))

    def mark(self, name: str, meta: Optional[Meta] = None) -> None:
        """Records that something happened in the current step (checkpoint, evaluation, restart), sampled or not.

        Args:
            name: As for region().
            meta: A mapping or a JSON object's text.

        Raises:
            OptionError: The name or meta is invalid.
        """
        if self._enabled:
            if self._library_step != self._step:
                self._set_library_step()
            _ffi.check(_ffi.mark(self._handle, name_bytes(name), None if meta is None else meta_text(meta)))


def profiler_first(function: Function) -> Function:
    """For functions whose first argument is the profiler: they also take it by name, and where it stood before 0.3, with a
    warning; until 1.0."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "profiler" in kwargs:
            return function(kwargs.pop("profiler"), *args, **kwargs)
        at = next((index for index, given in enumerate(args) if isinstance(given, Profiler)), 0)
        if at > 0:
            message = f"cep: {function.__name__}(): the profiler is the first argument since 0.3"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            args = (args[at], *args[:at], *args[at + 1 :])
        return function(*args, **kwargs)

    return cast(Function, call)
