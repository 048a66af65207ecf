#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the 95 % interval of `cep compare` holds the true change, and how often it sees a change that is none.

    CEP_COMMAND=build/tools/cep python3 tests/bench/compare_rates.py [--pairs N] [--jobs N] [--only TEXT] [--check]

Each pair is two jobs of one rank whose step times are of the same kind, made here by their definitions. Without a
change, an interval that leaves 0 out is a false alarm; the interval ought to do so in 5 % of the pairs. The second table
is of pairs with a change: how often it is found, and how often the interval holds it.
"""

from __future__ import annotations

import concurrent.futures
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from simulated_jobs import COMMAND, parser_of
import numpy as np
from faults import ar1
from rank_files import START_NS, write_lines

STEPS = (5, 10, 50, 200, 1000)


def normal(rng, steps):
    return 100 * (1 + 0.05 * rng.standard_normal(steps))


def lognormal(rng, steps):
    return 100 * rng.lognormal(0, 1, steps)


def autoregressive(correlation):
    return lambda rng, steps: 100 * np.exp(0.05 * ar1(rng, steps, 1, 1.0, correlation)[:, 0])


def mixture(factor, chance):
    return lambda rng, steps: (100 * (1 + 0.02 * rng.standard_normal(steps))
                               * np.where(rng.random(steps) < chance, factor, 1))


def checkpoints(period, more_ms):
    """From any step on."""
    return lambda rng, steps: (100 * (1 + 0.02 * rng.standard_normal(steps))
                               + more_ms * ((np.arange(steps) + rng.integers(period)) % period == 0))


def stalls(chance, more_ms):
    return lambda rng, steps: 100 * (1 + 0.02 * rng.standard_normal(steps)) + more_ms * (rng.random(steps) < chance)


def daily(period, size):
    """A slow wave from any point on."""
    return lambda rng, steps: (100 * (1 + 0.02 * rng.standard_normal(steps))
                               * (1 + size * np.sin(2 * np.pi * (np.arange(steps) / period + rng.random()))))


KINDS = {
    "independent, normal, 5 %": normal,
    "independent, lognormal": lognormal,
    "AR(1) 0.5": autoregressive(0.5),
    "AR(1) 0.8": autoregressive(0.8),
    "AR(1) 0.9": autoregressive(0.9),
    "AR(1) 0.95": autoregressive(0.95),
    "1.4 times longer in 30 %": mixture(1.4, 0.3),
    "2 times longer in 10 %": mixture(2, 0.1),
    "1 s more every 10th step": checkpoints(10, 1000),
    "3 s more in 0.75 %": stalls(0.0075, 3000),
    "wave of 500 steps, 5 %": daily(500, 0.05),
}
# Kind before, kind after, true change of the mean.
CHANGES = {
    "all steps 3 % longer": (normal, lambda rng, steps: 1.03 * normal(rng, steps), 0.03),
    "the same, AR(1) 0.5": (autoregressive(0.5), lambda rng, steps: 1.03 * autoregressive(0.5)(rng, steps), 0.03),
    "1.4 times longer in 30 %": (mixture(1, 0), mixture(1.4, 0.3), 0.12),
    "2 times longer in 10 %": (mixture(1, 0), mixture(2, 0.1), 0.1),
    "60 ms more in 15 %": (stalls(0, 0), stalls(0.15, 60), 0.09),
    "300 ms more every 4th step": (stalls(0, 0), checkpoints(4, 300), 0.75),
    "1 s more every 10th step": (stalls(0, 0), checkpoints(10, 1000), 1.0),
    "that checkpoint in half the time": (checkpoints(10, 1000), checkpoints(10, 500), -0.25),
    "2 % longer beside that checkpoint": (checkpoints(10, 1000), lambda rng, steps: 1.02 * checkpoints(10, 1000)(rng, steps), 0.02),
    "3 s more in 0.75 %": (stalls(0, 0), stalls(0.0075, 3000), 0.225),
    "3 s more in 3 %": (stalls(0, 0), stalls(0.03, 3000), 0.9),
}


def write_job(folder, step_ms):
    """A phase; of steps over 140 ms the first 120 ms, and a checkpoint for the rest, which is no start-up."""
    starts = START_NS + np.rint(np.concatenate([[0.0], np.cumsum(step_ms)]) * 1e6).astype(np.int64)
    lines = []
    for step, (ms, start) in enumerate(zip(step_ms, starts)):
        more = ms - 120 if ms > 140 else 0.0
        rest = f'"step":{step},"rank":0'
        lines.append(f'{{"name":"forward","duration_ms":{ms - more:.6f},"start_ns":{start},"kind":"compute",{rest}}}')
        if more:
            start += round((ms - more) * 1e6)
            lines.append(f'{{"name":"save","duration_ms":{more:.6f},"start_ns":{start},"kind":"other",{rest}}}')
    write_lines(folder, 0, lines)


def compare(before, after):
    with tempfile.TemporaryDirectory() as folder:
        for name, step_ms in (("a", before), ("b", after)):
            write_job(Path(folder) / name, step_ms)
        done = subprocess.run([COMMAND, "compare", "--json", "a", "b"], cwd=folder, capture_output=True, check=True)
    return json.loads(done.stdout)["step"]


def rates(pool, kind, steps, pairs):
    """(share of pairs in which a change was seen, share in which the interval holds the true one, its median width)"""
    before, after, truth = kind

    def one(pair):
        rng = np.random.default_rng([pair, steps])
        step = compare(before(rng, steps), after(rng, steps))
        low, high = step["change_interval"]
        return step["finding"] != "same", low <= truth <= high, high - low
    seen, held, widths = zip(*pool.map(one, range(pairs)))
    return np.mean(seen), np.mean(held), np.median(widths)


def table(title, kinds, cells, only):
    print(f"\n{title}\n")
    print("| " + " | ".join([title.split(":")[0], *(f"{steps} steps" for steps in STEPS)]) + " |")
    print("|---" * (len(STEPS) + 1) + "|")
    for name, kind in kinds.items():
        if only in name:
            print(f"| {name} | " + " | ".join(cells(kind, steps) for steps in STEPS) + " |", flush=True)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--pairs", type=int, default=400, help="of jobs for each cell")
    parser.add_argument("--check", action="store_true",
                        help="exit with status 1 where false alarms are more than 7 %% beyond chance, from 50 steps on")
    options = parser.parse_args()
    worst = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        def false_alarms(kind, steps):
            seen, _, width = rates(pool, (kind, kind, 0.0), steps, options.pairs)
            is_promised = steps >= 50 and kind not in (KINDS["AR(1) 0.9"], KINDS["AR(1) 0.95"],
                                                      KINDS["wave of 500 steps, 5 %"])
            if is_promised:
                worst.append(seen)
            return f"{100 * seen:.1f} % (±{50 * width:.2g})"

        def found(kind, steps):
            seen, held, _ = rates(pool, kind, steps, options.pairs)
            return f"{100 * seen:.0f} % ({100 * held:.0f})"
        table("no change: false alarms, nominally 5 %, and half the median interval in %", KINDS, false_alarms, options.only)
        table("change: how often it is found, and how often the interval holds it", CHANGES, found, options.only)
    limit = 0.07 + 3 * math.sqrt(0.07 * 0.93 / options.pairs)
    print(f"\nfalse alarms from 50 steps on, but for AR(1) from 0.9 on and waves: at most {100 * max(worst, default=0):.1f} %")
    return 1 if options.check and max(worst, default=0) > limit else 0


if __name__ == "__main__":
    sys.exit(main())
