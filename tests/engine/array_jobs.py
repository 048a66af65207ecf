# SPDX-License-Identifier: Apache-2.0
"""Rank files of jobs whose times are arrays: each rank does its phases one after the other, then all meet in a collective."""

import numpy as np
from rank_files import START_NS, write_lines

PHASES = {"data_load": ("data", 4.0), "forward": ("compute", 30.0), "backward": ("compute", 60.0)}


def own_times(ranks, steps, phases=None, noise=0.01, rng=None):
    """Milliseconds by phase, each an array by rank and step, with independent normal noise."""
    rng = rng or np.random.default_rng(1)
    return {name: ms * (1 + noise * rng.standard_normal((ranks, steps))) for name, (_, ms) in (phases or PHASES).items()}


def write_job(folder, own, *, kinds=None, before=None, transfer_ms=2.0, collective=True, step_spans=True, group="dp",
              run=None, first_step=0, stride=1):
    """``own``: see own_times(); NaN where the rank does not do the phase. ``before``: milliseconds by rank and step in no
    phase, before the first one; "outside" of the step span if ``step_spans`` is "late", else inside of it. ``stride``:
    between the numbers of steps; those in between take the median. Returns the time of each step."""
    kinds = kinds or {name: kind for name, (kind, _) in PHASES.items()}
    names = list(own)
    rows = np.stack([own[name] for name in names])  # by phase, rank, step
    stacked = np.nan_to_num(rows)
    ranks, steps = stacked.shape[1:]
    numbers = range(first_step, first_step + stride * steps, stride)
    gap = np.zeros((ranks, steps)) if before is None else before
    arrival = gap + stacked.sum(axis=0)
    step_ms = arrival.max(axis=0) + transfer_ms if collective else arrival.max(axis=0)
    not_recorded_ms = (stride - 1) * (np.median(step_ms) + 0.1)
    begin = np.concatenate([[0.0], np.cumsum(step_ms[:-1] + 0.1 + not_recorded_ms)])
    for rank in range(ranks):
        starts = np.rint((begin + gap[rank] + np.concatenate([np.zeros((1, steps)), np.cumsum(stacked[:, rank], axis=0)]))
                         * 1e6).astype(np.int64) + START_NS
        lines = []
        if run is not None:
            lines.append(run(rank))
        columns = []
        for i, name in enumerate(names):
            rest = f'"rank":{rank},"kind":"{kinds[name]}","clock":"gpu","depth":1,"name":"{name}"'
            columns.append([f'{{"step":{step},"duration_ms":{ms:.4f},"start_ns":{ns},{rest}}}' if ms == ms else None
                            for step, ms, ns in zip(numbers, rows[i, rank].tolist(), starts[i].tolist())])
        if collective:
            rest = f'"rank":{rank},"kind":"comm","clock":"gpu","depth":1,"name":"all_reduce","group":"{group}"'
            waits = (step_ms - arrival[rank]).tolist()
            columns.append([f'{{"step":{step},"duration_ms":{ms:.4f},"start_ns":{ns},"coll":{step},{rest}}}'
                            for step, ms, ns in zip(numbers, waits, starts[-1].tolist())])
        if step_spans:
            late = gap[rank] if step_spans == "late" else np.zeros(steps)
            whole = zip((step_ms - late).tolist(), (np.rint((begin + late) * 1e6).astype(np.int64) + START_NS).tolist())
            rest = f'"rank":{rank},"kind":"step","clock":"gpu","depth":0,"name":"training_step"'
            columns.append([f'{{"step":{step},"duration_ms":{ms:.4f},"start_ns":{ns},{rest}}}'
                            for step, (ms, ns) in zip(numbers, whole)])
        lines += [line for step in zip(*columns) for line in step if line is not None]
        write_lines(folder, rank, lines)
    return step_ms
