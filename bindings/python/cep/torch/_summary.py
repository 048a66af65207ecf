# SPDX-License-Identifier: Apache-2.0
"""Finds the slow rank from one measurement of each rank, for gather()."""

from __future__ import annotations

import math
from statistics import median
from typing import Mapping, NamedTuple, Optional, Sequence

DEFAULT_PHASES = ("data_load", "host_to_device", "forward", "backward", "optimizer")

# A difference between ranks counts if it exceeds this share of the step, this many deviations between ranks, and this
# time.
_RELATIVE_FLOOR = 0.05
_DEVIATIONS = 3.0
_ABSOLUTE_FLOOR_MS = 0.1


class Measurement(NamedTuple):
    """One rank's mean times per recorded step since the last summary, in ms. NaN: nothing was timed."""

    steps: int
    first_step: int
    last_step: int
    comm_ms: float
    phases_ms: tuple[float, ...]


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


Times = Mapping[int, float]


def _phase_summary(times: Times) -> PhaseSummary:
    slowest = max(times, key=lambda rank: times[rank])
    return PhaseSummary(median(times.values()), slowest, times[slowest])


def _times_by_rank(measurements: Mapping[int, Measurement], index: Optional[int]) -> Times:
    """The times of the phase with an index, or of the collectives (None), on the ranks that have any."""
    times = {
        rank: (measured.comm_ms if index is None else measured.phases_ms[index]) for rank, measured in measurements.items()
    }
    return {rank: time for rank, time in times.items() if math.isfinite(time)}


def _deviation(values: Sequence[float]) -> float:
    """Median absolute deviation, scaled to the standard deviation of a normal distribution."""
    center = median(values)
    return 1.4826 * median(abs(value - center) for value in values)


def _excess_ms(times: Times, rank: int) -> float:
    """How much longer a rank takes than the others typically do."""
    others = [time for other, time in times.items() if other != rank]
    return times[rank] - median(others) if others and rank in times else 0.0


def _floor_ms(step_ms: float, others: Sequence[float]) -> float:
    return max(_RELATIVE_FLOOR * step_ms, _DEVIATIONS * _deviation(others), _ABSOLUTE_FLOOR_MS)


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
    """The summary of the measurements by rank; None if fewer than two ranks have any. `names`: of Measurement.phases_ms."""
    measured = {rank: one for rank, one in measurements.items() if one.steps > 0}
    if len(measured) < 2:
        return None
    phases = {name: _times_by_rank(measured, index) for index, name in enumerate(names)}
    phases = {name: times for name, times in phases.items() if times}
    comm = _times_by_rank(measured, None)
    step_ms = sum(median(times.values()) for times in phases.values())
    if len(comm) >= 2 and len(comm) == len(measured):
        verdict = _verdict_from_waits(comm, phases, step_ms or median(comm.values()))
    else:
        verdict = _verdict_from_phases(phases, step_ms)
    summaries = {name: _phase_summary(times) for name, times in phases.items()}
    if comm:
        summaries["comm"] = _phase_summary(comm)
    first = min(one.first_step for one in measured.values())
    last = max(one.last_step for one in measured.values())
    return Summary(first, last, len(measured), summaries, *verdict)
