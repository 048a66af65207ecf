# SPDX-License-Identifier: Apache-2.0
"""Recorded steps by their definitions: how long they are, what each rank does in them, and what is seen of a phase."""

from collections import defaultdict

import numpy as np
from conftest import START_NS

MASK = 2**64 - 1
PRECEDENCE = {"compute": 0, "comm": 1, "data": 2}  # the first is seen, where several are at once
APART_NS = 10**13  # between attempts, see conftest.attempt_rows()


def step_of(row):
    """The rank, the attempt and the step."""
    return row["rank"], (row.get("start_ns", START_NS) - START_NS) // APART_NS, row["step"]


def end_ns(row):
    return row["start_ns"] + round(row["duration_ms"] * 1e6)


def by_step(spans):
    steps = defaultdict(list)
    for row in spans:
        steps[step_of(row)].append(row)
    return steps


def iteration_ms(spans):
    """By rank, attempt and step: from its first row to that of the next step; of the last one, to its last row."""
    steps = sorted(by_step(spans).items())
    firsts = [min(row["start_ns"] for row in rows) for _, rows in steps]
    times = {}
    for i, (key, rows) in enumerate(steps):
        is_last = i + 1 == len(steps) or steps[i + 1][0][:2] != key[:2]
        times[key] = ((max(map(end_ns, rows)) if is_last else firsts[i + 1]) - firsts[i]) * 1e-6
    return times


def recorded_ms(spans, counted=None):
    """The time of the steps of `counted`, which are some of the spans."""
    times = iteration_ms(spans)
    return sum(times[key] for key in by_step(spans if counted is None else counted))


def work_ms(spans, name):
    """By rank: what it does of a phase in a step that has it, mean over steps. Of phases that wait for no one."""
    of_steps = defaultdict(list)
    for (rank, *_), rows in by_step(row for row in spans if row["name"] == name).items():
        of_steps[rank].append(sum(row["duration_ms"] for row in rows))
    return {rank: np.mean(times) for rank, times in of_steps.items()}


def visible_ms(spans):
    """By name: the time of some phases in which none hides them. Of those of one kind, the first to begin is seen."""
    spans = sorted((row for row in spans if row["kind"] in PRECEDENCE),
                   key=lambda row: (PRECEDENCE[row["kind"]], row["start_ns"]))
    edges = np.unique([edge for row in spans for edge in (row["start_ns"], end_ns(row))])
    seen = np.full(len(edges), -1)
    for i, row in reversed(list(enumerate(spans))):
        seen[np.searchsorted(edges, row["start_ns"]):np.searchsorted(edges, end_ns(row))] = i
    times = defaultdict(float)
    for i, length_ns in zip(seen[:-1], np.diff(edges)):
        if i >= 0:
            times[spans[i]["name"]] += length_ns * 1e-6
    return times


def mixed(number):
    """The finaliser of SplitMix64."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31


def kept_steps(steps, count):
    """So many steps that are chosen by a hash of their number."""
    return set(sorted(steps, key=lambda step: mixed(step & MASK))[:count])
