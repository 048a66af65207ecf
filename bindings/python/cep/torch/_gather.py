# SPDX-License-Identifier: Apache-2.0
"""gather(): a live summary of all ranks, over a process group of its own, and the slow rank in it."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import math
import threading
import weakref
from statistics import median
from typing import Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

from .._life import Handle
from .._errors import warn
from .._own_rows import Background, OwnRows, OwnSpan
from .._profiler import Profiler
from ._operations import resolve_group
from ._pytorch import ProcessGroup, dist, distributed_is_initialized, torch

_FLUSH_TIMEOUT_S = 1.0
_EXIT_TIMEOUT_S = 10.0
_BACKLOG = 4  # rounds that may wait for a rank that is late
DEFAULT_PHASES = ("data_load", "host_to_device", "forward", "backward", "optimizer")

# A difference between ranks counts if it exceeds this share of the step, this many deviations between ranks, and this
# time.
_RELATIVE_FLOOR = 0.05
_DEVIATIONS = 3.0
_ABSOLUTE_FLOOR_MS = 0.1


Measurement = Sequence[float]
"""One rank's recorded steps since the last summary: how many, the first, the last, and the mean times per step, in ms,
of the collectives and of each phase. NaN: nothing was timed."""


class PhaseSummary(NamedTuple):
    """One phase over the ranks."""

    median_ms: float
    slowest_rank: int
    slowest_ms: float

    @property
    def slowdown(self) -> float:
        """The slowest rank's time over the median."""
        return self.slowest_ms / self.median_ms if self.median_ms > 0 else 1.0


class Summary(NamedTuple):
    """The ranks' phases since the last summary, and the rank that the others wait for."""

    first_step: int
    last_step: int
    ranks: int
    """Ranks with timings."""
    phases: Mapping[str, PhaseSummary]
    """By name. All collectives together are "comm"."""
    straggler: Optional[int]
    """The rank that the others wait for; None if there is none or it cannot be known."""
    phase: Optional[str]
    """The phase in which the straggler loses the time; None if no phase shows it."""
    wait_ms: float
    """How long the others typically wait for it in a step."""
    reason: str
    """The reason, as a sentence."""

    def __str__(self) -> str:
        table = "; ".join(
            f"{name} {phase.median_ms:.3g} ms, slowest rank {phase.slowest_rank} ({phase.slowdown:.2f} x)"
            for name, phase in self.phases.items()
        )
        return f"steps {self.first_step}-{self.last_step}, {self.ranks} ranks: {self.reason}. {table}"


OnSummary = Optional[Callable[[Summary], None]]
Times = Mapping[int, float]


def _excess_ms(times: Times, rank: int) -> float:
    """How much longer a rank takes than the others typically do."""
    others = [time for other, time in times.items() if other != rank]
    return times[rank] - median(others) if others and rank in times else 0.0


def _floor_ms(step_ms: float, others: Sequence[float]) -> float:
    center = median(others)
    # Median absolute deviation, scaled to the standard deviation of a normal distribution.
    deviation_ms = 1.4826 * median(abs(value - center) for value in others)
    return max(_RELATIVE_FLOOR * step_ms, _DEVIATIONS * deviation_ms, _ABSOLUTE_FLOOR_MS)


_Verdict = tuple[Optional[int], Optional[str], float, str]  # the last members of a Summary


def _verdict_from_waits(comm: Times, phases: Mapping[str, Times], step_ms: float) -> _Verdict:
    """The straggler reaches the collectives last, and so waits least in them."""
    least = min(comm, key=lambda rank: comm[rank])
    others = [time for rank, time in comm.items() if rank != least]
    wait_ms = median(others) - comm[least]
    if wait_ms < _floor_ms(step_ms, others):
        return None, None, 0.0, "no rank makes the others wait"
    excesses = {name: _excess_ms(times, least) for name, times in phases.items()}
    phase = max(excesses, key=lambda name: excesses[name], default=None)
    if phase is None or excesses[phase] < wait_ms / 2:
        why, phase = "it loses that time in backward, or where nothing is timed", None
    else:
        why = f"its {phase} takes {excesses[phase]:.3g} ms longer"
    return least, phase, wait_ms, f"the others wait {wait_ms:.3g} ms a step for rank {least}: {why}"


def _verdict_from_phases(phases: Mapping[str, Times], step_ms: float) -> _Verdict:
    """Without timed collectives it is not known which ranks wait. This only names a phase in which a rank is slow."""
    for name, times in phases.items():
        slowest = max(times, key=lambda rank: times[rank])
        others = [time for rank, time in times.items() if rank != slowest]
        if others and _excess_ms(times, slowest) > _floor_ms(step_ms, others):
            reason = f"rank {slowest} is slow in {name}; no collectives are timed, so it is not known which ranks wait"
            return None, name, 0.0, reason
    return None, None, 0.0, "no collectives are timed, so it is not known which ranks wait"


def summarize(measurements: Mapping[int, Measurement], names: Sequence[str]) -> Optional[Summary]:
    """The summary of the measurements by rank, of phases with these names; None if fewer than two ranks have any."""
    measured = {rank: one for rank, one in measurements.items() if one[0] > 0}
    if len(measured) < 2:
        return None
    times: dict[str, Times] = {}
    for at, name in enumerate(("comm", *names), start=3):
        times[name] = {rank: one[at] for rank, one in measured.items() if math.isfinite(one[at])}
    comm = times.pop("comm")
    phases = {name: found for name, found in times.items() if found}
    step_ms = sum(median(found.values()) for found in phases.values())
    if len(comm) >= 2 and len(comm) == len(measured):
        verdict = _verdict_from_waits(comm, phases, step_ms or median(comm.values()))
    else:
        verdict = _verdict_from_phases(phases, step_ms)
    summaries = {}
    for name, found in (*phases.items(), ("comm", comm)):
        if found:
            slowest = max(found, key=lambda rank: found[rank])
            summaries[name] = PhaseSummary(median(found.values()), slowest, found[slowest])
    first, last = min(one[1] for one in measured.values()), max(one[2] for one in measured.values())
    return Summary(int(first), int(last), len(measured), summaries, *verdict)


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
    means = [totals[name] / count if name in totals else math.nan for name in phases]
    comm_ms = _open_ms(collectives) / count if collectives else math.nan
    return [count, min(steps, default=0), max(steps, default=0), comm_ms, *means]


def _open_ms(spans: Iterable[OwnSpan]) -> float:
    """How long at least one of the spans was open: collectives that wait for one late rank wait beside each other."""
    open_ms, until_ns = 0.0, 0
    for span in sorted(spans, key=lambda span: span.start_ns):
        end_ns = span.start_ns + round(span.duration_ms * 1e6)
        has_start = span.start_ns > 0
        open_ms += max(0, end_ns - max(span.start_ns, until_ns)) / 1e6 if has_start else span.duration_ms
        until_ns = max(until_ns, end_ns) if has_start else until_ns
    return open_ms


class Gather(Handle):
    """What gather() returns. Thread-safe."""

    def __init__(
        self, profiler: Profiler, every: int, phases: Sequence[str], on_summary: OnSummary,
        group: Optional[ProcessGroup],
    ) -> None:  # fmt: skip
        self.summary: Optional[Summary] = None
        """The latest summary, the same on all ranks; None before the first."""
        self.failure: Optional[str] = None
        """Why there will be no more summaries; None while all is well."""
        self._profiler, self._every, self._phases, self._on_summary = profiler, every, tuple(phases), on_summary
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
            profiler._listen(self._on_step)
            atexit.register(_end_at_exit, self._rounds.thread, weakref.ref(self), weakref.ref(group))

    def poll(self) -> Optional[Summary]:
        """The latest summary if poll() has not returned it yet, else None. For trainers that log it on their own
        thread. Never waits."""
        unpolled, self._unpolled = self._unpolled, None
        return unpolled

    def close(self) -> None:
        """Ends the summaries on this rank. Never waits. Calling it again does nothing. Call it on all ranks at the same
        step, or the others give up after the timeout."""
        # The thread ends after the rounds that wait already: the other ranks expect this one in them.
        self._profiler._stop_listening(self._on_step)
        if self._rounds is not None:
            self._rounds.end()

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

    def _exchange(self, _: object) -> None:
        """Runs on the background thread."""
        try:
            if self.failure is None:
                self._gather()
        except Exception as error:
            self._give_up(f"{type(error).__name__}: {error}")

    def _gather(self) -> None:
        if self._rows is not None and self._profiler.enabled:
            self._profiler.flush(_FLUSH_TIMEOUT_S)
        measured = measure(() if self._rows is None else self._rows.read(), self._phases)
        mine = torch.tensor(measured, dtype=torch.float64, device="cpu")
        all_ranks = [torch.empty_like(mine) for _ in self._ranks]
        # The group's own method, which nothing wraps: this is no collective of the trainer's, and gets no row.
        self._group.allgather([all_ranks], [mine]).wait()  # type: ignore[union-attr]
        summary = summarize({rank: one.tolist() for rank, one in zip(self._ranks, all_ranks)}, self._phases)
        if summary is None:
            return
        self.summary = self._unpolled = summary
        if self._on_summary is not None and self.rank == self._ranks[0]:
            self._on_summary(summary)

    def _give_up(self, why: str) -> None:
        if self.failure is None:
            self.failure = why
            self.close()
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
    with contextlib.suppress(Exception):  # the trainer has destroyed all groups; then its threads end by themselves
        dist.destroy_process_group(own)


def gather(
    profiler: Profiler,
    every_n_recorded_steps: int = 10,
    *,
    phases: Sequence[str] = DEFAULT_PHASES,
    on_summary: OnSummary = None,
    ranks: Optional[Sequence[int]] = None,
    timeout_s: float = 60.0,
) -> Gather:
    """Summarises the timings of all ranks while the job runs, so that rank 0 can log which rank is slow::

        live = cep.torch.gather(prof, on_summary=print)

    Every ``every_n_recorded_steps`` recorded steps, each rank reads its own timings back from its file (the newest 256
    KiB at most), and one all_gather of a few numbers turns them into a Summary. That is a first hint; see ``cep
    summarize``.

    All of this runs on a background thread, over a gloo group of its own. The trainer's thread only counts steps. If a
    rank dies or is late, the summaries on the other ranks end with a warning, after the timeout at the latest, and the
    job goes on. A process that exits during a round waits for it, for ten seconds at most.

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
        chosen, timeout = None if ranks is None else sorted(set(ranks)), datetime.timedelta(seconds=timeout_s)
        try:  # gloo runs nothing on a GPU and so cannot delay the trainer there
            own = resolve_group(dist.new_group(chosen, timeout=timeout, backend="gloo"))
        except Exception as error:
            failure = f"no process group: {error}"
    made = Gather(profiler, every_n_recorded_steps, phases, on_summary, own)
    if failure is not None:
        made._give_up(failure)
    return made
