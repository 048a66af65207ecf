# SPDX-License-Identifier: Apache-2.0
"""How long each operation takes in each step: noise, which the seed decides, and a fault, which can be left out."""

from dataclasses import dataclass

import numpy as np
from program import LAUNCH

COMM_WORDS = ("all_", "grad_all", "reduce_", "send", "recv")


@dataclass(frozen=True)
class Fault:
    """``kind``:
    slow: work in ``phases`` of ``ranks`` takes ``factor`` times as long, in a ``share`` of the steps or from ``first`` on, and
    in turns half as much longer, for ``stretch`` steps on average;
    every: ``ranks`` do something of ``ms`` more at the end of one of ``every`` steps, in a row named ``row`` or in none;
    pauses: any rank stops for ``ms`` now and then, in a ``share`` of the steps of all ranks;
    stages, routed: work that is spread by ``weights`` over stages or ranks; without the fault it is spread evenly;
    random_routing: work in ``phases`` is spread over the ranks at random, by factors whose logarithm varies by ``sigma``;
    link: transfers of ``group`` take ``factor`` times as long;
    shift: ranks work ``ms`` less in the first piece of backward and more in the next, which overlaps with a transfer;
    slower: everyone takes ``factor`` times as long from ``first`` on;
    host_pauses: the hosts of ``ranks`` pause for ``ms`` on average, each in a ``share`` of the steps."""

    kind: str = "none"
    ranks: tuple = ()
    phases: tuple = ("forward", "backward")
    factor: float = 1.0
    share: float = 1.0
    first: int = 0
    stretch: int = 0
    every: int = 1
    ms: float = 0.0
    row: str = ""
    weights: tuple = ()
    sigma: float = 0.0
    group: str = ""


def is_comm(phase):
    return phase.startswith(COMM_WORDS)


def ar1(rng, steps, columns, sigma, correlation):
    """Values with the standard deviation sigma of which neighbours are correlated."""
    shocks = rng.normal(0, sigma * np.sqrt(1 - correlation**2), (steps, columns))
    values = np.empty((steps, columns))
    values[0] = rng.normal(0, sigma, columns)
    for step in range(1, steps):
        values[step] = correlation * values[step - 1] + shocks[step]
    return values


def pause_host(program, rng, rank, share, ms, made):
    """In a ``share`` of the steps some launch takes longer, by ``ms`` on average."""
    ops = [i for i, op in enumerate(program.ops) if op.rank == rank and op.phase == LAUNCH]
    hit = np.flatnonzero(rng.random(len(made)) < share)
    made[hit, rng.choice(ops, len(hit))] += ms * rng.uniform(0.5, 1.5, len(hit))


def usual_durations(program, steps, seed, noise=0.01, slow_noise=0.0, common_noise=0.0, host_noise=0.0,
                    host_pauses=(0.0, 0.0, 0.0)):
    """``slow_noise`` of each rank and ``common_noise`` of all have a correlation of 0.95 between steps. ``host_noise``:
    of each launch. ``host_pauses``: in which share of the steps the host of a rank pauses, and for how long on average; and
    in which share more that of rank 0 does."""
    rng = np.random.default_rng(seed)
    base = np.array([op.ms for op in program.ops])
    sigma = np.array([0.003 if is_comm(op.phase) else host_noise if op.phase == LAUNCH else noise for op in program.ops])
    factors = 1 + sigma * rng.normal(0, 1, (steps, len(base)))
    local = np.array([not is_comm(op.phase) for op in program.ops])
    ranks = np.array([op.rank for op in program.ops])
    by_rank = ar1(rng, steps, program.ranks, slow_noise, 0.95)[:, ranks] if slow_noise else 0
    common = ar1(rng, steps, 1, common_noise, 0.95) if common_noise else 0
    made = base * np.maximum(0.2, factors + local * (by_rank + common))
    share, ms, more = host_pauses
    for rank in range(program.ranks if share else 0):
        pause_host(program, rng, rank, share + (more if rank == 0 else 0), ms, made)
    return made


def with_fault(program, durations, fault, seed):
    rng = np.random.default_rng([seed, 1])
    steps = len(durations)
    made = durations.copy()
    number = np.arange(steps)
    if fault.kind == "slow":
        hit = (rng.random(steps) < fault.share) & (number >= fault.first)
        ops = [i for i, op in enumerate(program.ops) if op.rank in fault.ranks and op.phase in fault.phases]
        halved = np.cumsum(rng.random(steps) < 1 / fault.stretch) % 2 if fault.stretch else np.zeros(steps)
        made[np.ix_(hit, ops)] *= 1 + ((fault.factor - 1) * (1 - halved / 2))[hit, None]
    elif fault.kind == "every":
        ops = [i for i, op in enumerate(program.ops) if op.rank in fault.ranks and op.phase == "extra"]
        made[np.ix_(number % fault.every == fault.every // 2, ops)] += fault.ms
    elif fault.kind == "pauses":
        for rank in range(program.ranks):
            ops = [i for i, op in enumerate(program.ops) if op.rank == rank and op.phase in fault.phases]
            for step in number[rng.random(steps) < fault.share]:
                made[step, ops[int(rng.integers(len(ops)))]] += fault.ms
    elif fault.kind in ("stages", "routed"):
        for i, op in enumerate(program.ops):
            if op.phase in fault.phases:
                made[:, i] *= fault.weights[op.part[0] if fault.kind == "stages" else op.rank]
    elif fault.kind == "random_routing":
        factors = rng.lognormal(0, fault.sigma, (steps, program.ranks))
        factors /= factors.mean(axis=1, keepdims=True)
        for i, op in enumerate(program.ops):
            if op.phase in fault.phases:
                made[:, i] *= factors[:, op.rank]
    elif fault.kind == "link":
        ops = [i for i, op in enumerate(program.ops) if op.meeting and op.meeting[0] == fault.group]
        made[:, ops] *= fault.factor
    elif fault.kind == "shift":
        for i, op in enumerate(program.ops):
            if op.rank in fault.ranks and op.phase == "backward" and op.part[-1] in (1, 2):
                made[:, i] += fault.ms if op.part[-1] == 1 else -fault.ms
    elif fault.kind == "host_pauses":
        for rank in fault.ranks:
            pause_host(program, rng, rank, fault.share, fault.ms, made)
    elif fault.kind == "slower":
        ops = [i for i, op in enumerate(program.ops) if op.phase in fault.phases]
        made[np.ix_(number >= fault.first, ops)] *= fault.factor
    return made


def without_fault(program, durations, fault):
    """What the same work would take: conserved work is spread evenly, all else is as it was without the fault."""
    made = durations.copy()
    if fault.kind in ("stages", "routed"):
        mean = sum(fault.weights) / len(fault.weights)
        ops = [i for i, op in enumerate(program.ops) if op.phase in fault.phases]
        made[:, ops] *= mean
    return made
