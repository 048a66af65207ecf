# SPDX-License-Identifier: Apache-2.0
"""gather(): a live summary of all ranks, over a process group of its own."""

from __future__ import annotations

import atexit
import datetime
import math
import threading
import weakref
from typing import Callable, Iterable, Optional, Sequence

from .._background import Background
from .._handle import Handle
from .._messages import warn
from .._own_rows import OwnRows, OwnSpan
from .._profiler import Profiler
from ._groups import resolve_group
from ._pytorch import ProcessGroup, Tensor, dist, distributed_is_initialized, torch
from ._steps import add_listener, remove_listener
from ._summary import DEFAULT_PHASES, Measurement, Summary, summarize

_FLUSH_TIMEOUT_S = 1.0
_EXIT_TIMEOUT_S = 10.0
_BACKLOG = 4  # rounds that may wait for a rank that is late
_NAN = math.nan


def measure(spans: Iterable[OwnSpan], phases: Sequence[str]) -> Measurement:
    """The mean times per recorded step of one rank's spans."""
    totals: dict[str, float] = {}
    collectives, steps = [], set()
    for span in spans:
        steps.add(span.step)
        if span.kind == "comm":
            collectives.append(span)
        else:
            totals[span.name] = totals.get(span.name, 0.0) + span.duration_ms
    count = len(steps)
    means = tuple(totals[name] / count if name in totals else _NAN for name in phases)
    comm_ms = _open_ms(collectives) / count if collectives else _NAN
    return Measurement(count, min(steps, default=0), max(steps, default=0), comm_ms, means)


def _open_ms(spans: Iterable[OwnSpan]) -> float:
    """How long at least one of the spans was open: collectives that wait for one late rank wait beside each other."""
    open_ms, until_ns = 0.0, 0
    for span in sorted(spans, key=lambda span: span.start_ns):
        end_ns = span.start_ns + round(span.duration_ms * 1e6)
        has_start = span.start_ns > 0
        open_ms += max(0, end_ns - max(span.start_ns, until_ns)) / 1e6 if has_start else span.duration_ms
        until_ns = max(until_ns, end_ns) if has_start else until_ns
    return open_ms


def to_tensor(measured: Measurement) -> Tensor:
    fixed = (measured.steps, measured.first_step, measured.last_step, measured.comm_ms)
    tensor: Tensor = torch.tensor([*fixed, *measured.phases_ms], dtype=torch.float64, device="cpu")
    return tensor


def from_tensor(tensor: Tensor) -> Measurement:
    steps, first, last, comm_ms, *phases = tensor.tolist()
    return Measurement(int(steps), int(first), int(last), comm_ms, tuple(phases))


class Gather(Handle):
    """What gather() returns. Thread-safe."""

    def __init__(
        self,
        profiler: Profiler,
        every_n_recorded_steps: int,
        phases: Sequence[str],
        on_summary: Optional[Callable[[Summary], None]],
        group: Optional[ProcessGroup],
    ) -> None:
        self.summary: Optional[Summary] = None
        """The latest summary, the same on all ranks; None before the first."""
        self.failure: Optional[str] = None
        """Why there will be no more summaries; None while all is well."""
        self._profiler = profiler
        self._every = every_n_recorded_steps
        self._phases = tuple(phases)
        self._on_summary = on_summary
        self._group = group
        self._ranks: list[int] = [] if group is None else dist.get_process_group_ranks(group)
        self._rows = None if profiler.path is None else OwnRows(profiler.path)
        self.rank: int = profiler.rank if group is None else dist.get_rank()
        """This process's rank in the job."""
        self._recorded_steps = 0
        self._unpolled: Optional[Summary] = None
        self._rounds: Optional[Background] = None
        if group is not None:
            self._rounds = Background("cep-gather", self._exchange, _BACKLOG)
            add_listener(profiler, self._on_step)
            atexit.register(_end_at_exit, self._rounds.thread, weakref.ref(self), weakref.ref(group))

    def poll(self) -> Optional[Summary]:
        """The latest summary if poll() has not returned it yet, else None. For trainers that log it on their own
        thread. Never waits."""
        unpolled, self._unpolled = self._unpolled, None
        return unpolled

    def close(self) -> None:
        """Ends the summaries on this rank. Never waits. Calling it again does nothing. Call it on all ranks at the same
        step, or the others give up after the timeout."""
        if self._group is not None:
            self._end_thread()

    _end = close

    def _on_step(self, recorded: bool) -> bool:
        """Runs on the trainer's thread: counts steps, and wakes the background thread. A rank that is off counts them too."""
        if not self._profiler._sampling.records(self._profiler._step) or self.failure is not None:
            return True
        self._recorded_steps += 1
        # One step late, so that the rows of the step before have had the time of a step to be written.
        if self._recorded_steps % self._every == 1 % self._every and self._recorded_steps > 1:
            if self._rounds is not None and not self._rounds.ask():
                self._give_up(f"{_BACKLOG} rounds wait for a rank that does not answer")
        return True

    def _end_thread(self) -> None:
        """Ends the background thread after the rounds that wait already: the other ranks expect this one in them."""
        remove_listener(self._profiler, self._on_step)
        if self._rounds is not None:
            self._rounds.end()

    def _exchange(self, _: object) -> None:
        """Runs on the background thread."""
        try:
            if self.failure is None:
                self._gather()
        except Exception as error:
            self._give_up(f"{type(error).__name__}: {error}")

    def _gather(self) -> None:
        mine = to_tensor(self._measure())
        all_ranks = [torch.empty_like(mine) for _ in self._ranks]
        # The group's own method, which nothing wraps: this is no collective of the trainer's, and gets no row.
        self._group.allgather([all_ranks], [mine]).wait()  # type: ignore[union-attr]
        summary = summarize(dict(zip(self._ranks, map(from_tensor, all_ranks))), self._phases)
        if summary is None:
            return
        self.summary = self._unpolled = summary
        if self._on_summary is not None and self.rank == self._ranks[0]:
            self._on_summary(summary)

    def _measure(self) -> Measurement:
        if self._rows is None:
            return measure((), self._phases)
        if self._profiler.enabled:
            self._profiler.flush(_FLUSH_TIMEOUT_S)
        return measure(self._rows.read(), self._phases)

    def _give_up(self, why: str) -> None:
        if self.failure is None:
            self.failure = why
            self._end_thread()
            warn(f"no more live summaries: {why}")


def _end_at_exit(thread: threading.Thread, gather: weakref.ref[Gather], group: weakref.ref[ProcessGroup]) -> None:
    """Waits for the background thread, then for gloo's, which let go of the tensors of a round a little after its wait.
    A thread that needs the interpreter while that ends would abort the process."""
    alive = gather()
    if alive is not None:
        alive.close()
    thread.join(_EXIT_TIMEOUT_S)
    own = group()
    if thread.is_alive() or own is None:
        return
    if alive is not None:
        alive._group = None
    try:
        dist.destroy_process_group(own)
    except Exception:  # the trainer has destroyed all groups; this one's threads end with the last reference
        pass


def _own_group(ranks: Optional[Sequence[int]], timeout_s: float) -> Optional[ProcessGroup]:
    """A gloo group, which runs nothing on a GPU and so cannot delay the trainer there. None on ranks outside it."""
    chosen = None if ranks is None else sorted(set(ranks))
    timeout = datetime.timedelta(seconds=timeout_s)
    return resolve_group(dist.new_group(chosen, timeout=timeout, backend="gloo"))


def gather(
    profiler: Profiler,
    every_n_recorded_steps: int = 10,
    *,
    phases: Sequence[str] = DEFAULT_PHASES,
    on_summary: Optional[Callable[[Summary], None]] = None,
    ranks: Optional[Sequence[int]] = None,
    timeout_s: float = 60.0,
) -> Gather:
    """Summarises the timings of all ranks while the job runs, so that rank 0 can log which rank is slow::

        live = cep.torch.gather(prof, on_summary=print)

    Every ``every_n_recorded_steps`` recorded steps, each rank reads its own timings back from its file (the newest 256
    KiB at most), and one all_gather of a few numbers turns them into a Summary: the median and the slowest rank of each
    phase, and the rank that the others wait for, which is the one that waits least in the collectives. That is a first
    hint. ``cep summarize`` compares each collective on its own, and finds patterns over the whole run.

    All of this runs on a background thread, over a gloo group of its own. The trainer's thread only counts steps and
    never waits. If a rank dies or is late, the summaries on the other ranks end with a warning, after the timeout at
    the latest, and the job goes on. A process that exits during a round waits for it, for ten seconds at most.

    This is a collective call: every rank of the job has to call it at the same place, with the same sampling options
    and arguments, even if its profiler is off. It waits once, for the new group.

    Args:
        profiler: The profiler. Each call of its step() is a step here.
        every_n_recorded_steps: At least 1.
        phases: The names of phases to summarise. Their spans in a step are added up. All collectives are "comm".
        on_summary: Called with each summary on the first of the ranks, on the background thread. If it raises, the
            summaries end.
        ranks: The ranks to summarise. None: all. The other ranks call gather() too, and get no summary. gloo connects
            every pair of ranks, so choose a part of them in a job of thousands.
        timeout_s: How long a round waits for a rank before it is given up, in seconds.

    Returns:
        A Gather: ``summary``, ``poll()``, ``failure``, ``close()``; a context manager that calls close(). If there is
        no process group, it never has a summary. If its own group cannot be made, ``failure`` tells why.
    """
    if every_n_recorded_steps < 1:
        raise ValueError(f"every_n_recorded_steps: at least 1 is needed, not {every_n_recorded_steps!r}")
    own, failure = None, None
    if distributed_is_initialized():
        try:
            own = _own_group(ranks, timeout_s)
        except Exception as error:
            failure = f"no process group: {error}"
    made = Gather(profiler, every_n_recorded_steps, phases, on_summary, own)
    if failure is not None:
        made._give_up(failure)
    return made
