#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often `cep summarize` says that everyone got slower where nothing changed, and how often it finds what did.

    CEP_COMMAND=build/tools/cep python3 tests/bench/change_rates.py [--series N] [--jobs N] [--only TEXT] [--check]

Each job is 4 ranks with the same step times, made here by their definitions: 400 steps unless the line says otherwise.
The first table is of stationary series, in which every change that is said is a false alarm; at most 1 in 100 is stated.
The second is of changes with the truth by construction: how many are found, and of these how many have the right shape,
place (within a twentieth of the steps, of a ramp its middle) and total (within a third). The third is of lasting changes by
their size in standard errors: of the difference of the two means, with the correlation that the series has.
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
from array_jobs import write_job
from faults import ar1

STEPS = 400
STATED_ALARMS = 0.01
STATED_ERRORS = 8  # standard errors of a lasting change of which 9 of 10 are found
PHASES = {"forward": ("compute", 1 / 3), "backward": ("compute", 2 / 3)}


def noise(rng, steps, size=0.02):
    return np.exp(size * rng.standard_normal(steps))


def autoregressive(rng, steps, correlation, size=0.03):
    return np.exp(size * ar1(rng, steps, 1, 1.0, correlation)[:, 0])


def short(correlation, steps):
    return lambda rng, _: autoregressive(rng, steps, correlation)


def mixture(factor, chance):
    return lambda rng, steps: noise(rng, steps) * np.where(rng.random(steps) < chance, factor, 1)


def every(period, factor, length=1):
    """From any step on, so many steps in a row."""
    return lambda rng, steps: noise(rng, steps) * np.where((np.arange(steps) + rng.integers(period)) % period < length,
                                                           factor, 1)


def daily(rng, steps):
    """A wave of 3 to 8 periods."""
    phase = 2 * np.pi * (np.arange(steps) / steps * rng.uniform(3, 8) + rng.random())
    return noise(rng, steps) * (1 + 0.05 * np.sin(phase))


def heavy(rng, steps):
    return np.maximum(0.5, 1 + 0.02 * rng.standard_t(2.5, steps))


def stalls(rng, steps):
    return noise(rng, steps) + 0.3 * rng.pareto(1.5, steps) * (rng.random(steps) < 0.05)


def warm_up(rng, steps):
    return noise(rng, steps) * (1 + rng.uniform(0.5, 3) * np.exp(-np.arange(steps) / rng.uniform(2, 8)))


STATIONARY = {
    "independent, 2 %": noise,
    "independent, 10 %": lambda rng, steps: noise(rng, steps, 0.1),
    "1.4 times longer in 30 %": mixture(1.4, 0.3),
    "2 times longer in 30 %": mixture(2, 0.3),
    "1.3 times longer in 20 %": mixture(1.3, 0.2),
    "1.2 times longer in 50 %": mixture(1.2, 0.5),
    "AR(1) 0.8": lambda rng, steps: autoregressive(rng, steps, 0.8),
    "AR(1) 0.9": lambda rng, steps: autoregressive(rng, steps, 0.9),
    "AR(1) 0.95": lambda rng, steps: autoregressive(rng, steps, 0.95),
    **{f"AR(1) {correlation}, {steps} steps": short(correlation, steps)
       for correlation in (0.8, 0.9, 0.95) for steps in (20, 40, 60)},
    "daily cycle of 5 %": daily,
    "every 10th step 1.5 times": every(10, 1.5),
    "every 100th step 10 times": every(100, 10),
    "evaluation: 10 steps of 100 twice": every(100, 2, 10),
    "heavy tails": heavy,
    "stalls": stalls,
    "warm-up": warm_up,
}


def from_step(first, factor, last=None):
    def levels(steps):
        level = np.ones(steps)
        level[first:last] = factor
        return level
    return levels


def often(first, period, factor):
    def levels(steps):
        at = np.arange(steps)
        return np.where((at >= first) & (at % period == 0), factor, 1)
    return levels


def ramp(first, last, factor):
    return lambda steps: 1 + (factor - 1) * np.clip((np.arange(steps) - first) / (last - first), 0, 1)


def stairs(count, rise):
    return lambda steps: (1 + rise) ** np.minimum(np.arange(steps) * (count + 1) // steps, count).astype(float)


# Levels by step, the shape that is to be said, its place, and the total: what the mean grows by.
CHANGES = {
    "every 4th step twice as long from 200 on": (often(200, 4, 2), "step", 200, 0.25),
    "every 5th step 1.45 times from 200 on": (often(200, 5, 1.45), "step", 200, 0.09),
    "30 % of steps 1.4 times from 200 on": (None, "step", 200, 0.12),
    "all steps 10 % longer from 120 on": (from_step(120, 1.1), "step", 120, 0.1),
    "all steps 5 % shorter from 250 on": (from_step(250, 0.95), "step", 250, -0.05),
    "ramp to +30 % from 100 to 300": (ramp(100, 300, 1.3), "ramp", 200, 0.3),
    "ramp to +30 % over all steps": (ramp(0, STEPS, 1.3), "ramp", 200, 0.3),
    "four stairs of 5 %": (stairs(4, 0.05), "stair", 80, 1.05**4 - 1),
    "three stairs of 10 %": (stairs(3, 0.1), "stair", 100, 1.1**3 - 1),
    "burst: 40 steps 30 % longer": (from_step(150, 1.3, 190), "burst", 150, 0.3),
    "burst: 15 steps twice as long": (from_step(300, 2, 315), "burst", 300, 1.0),
}


def changing(name, rng, steps):
    levels = CHANGES[name][0]
    if levels is None:
        return noise(rng, steps) * np.where((np.arange(steps) >= 200) & (rng.random(steps) < 0.3), 1.4, 1)
    return noise(rng, steps) * levels(steps)


def changes_of(step_ms):
    """The changes that are said of a job with these step times."""
    own = {name: np.broadcast_to(100 * share * step_ms, (4, len(step_ms))) for name, (_, share) in PHASES.items()}
    kinds = {name: kind for name, (kind, _) in PHASES.items()}
    with tempfile.TemporaryDirectory() as folder:
        write_job(Path(folder) / "job", own, kinds=kinds, transfer_ms=1.0)
        done = subprocess.run([COMMAND, "summarize", "--json", "job"], cwd=folder, capture_output=True, check=True)
    return json.loads(done.stdout)["verdict"]["changes"]


def total_of(change):
    return change["after_ms"] / change["before_ms"] - 1


def place_of(change):
    return (change["step"] + change["last_step"]) / 2 if change.get("shape") == "ramp" else change["step"]


def check_change(changes, expected, steps):
    """(found, one line, right shape, right place, right total)"""
    _, shape, place, total = expected
    same_sign = [change for change in changes if total_of(change) * total > 0]
    if not same_sign:
        return False, False, False, False, False
    best = max(same_sign, key=lambda change: abs(total_of(change)))
    return (True, len(changes) == 1, best.get("shape") == shape, abs(place_of(best) - place) <= steps / 20,
            abs(total_of(best) - total) <= abs(total) / 3)


def percent(values):
    return f"{100 * np.mean(values):.1f} %"


def alarm_table(pool, options):
    print("| nothing changes | jobs | alarms | stated, at most |\n|---|---|---|---|")
    worst = 0.0
    for name, make in STATIONARY.items():
        if options.only not in name:
            continue

        def one(seed):
            return bool(changes_of(make(np.random.default_rng([seed, 1]), STEPS)))
        alarms = list(pool.map(one, range(options.series)))
        worst = max(worst, np.mean(alarms))
        print(f"| {name} | {options.series} | {percent(alarms)} | {100 * STATED_ALARMS:.0f} % |", flush=True)
    return worst


def change_table(pool, options):
    print("\n| change | jobs | found | said as one | right shape | right place | right total |\n|---|---|---|---|---|---|---|")
    least = 1.0
    for name, expected in CHANGES.items():
        if options.only not in name:
            continue

        def one(seed):
            return check_change(changes_of(changing(name, np.random.default_rng([seed, 2]), STEPS)), expected, STEPS)
        results = np.array(list(pool.map(one, range(options.series))))
        least = min(least, results[:, 0].mean())
        print(f"| {name} | {options.series} | " + " | ".join(percent(column) for column in results.T) + " |", flush=True)
    return least


POWER = {"independent": (lambda rng, steps: noise(rng, steps, 0.05), 0.05, 0.0),
         "AR(1) 0.5": (lambda rng, steps: autoregressive(rng, steps, 0.5, 0.05), 0.05, 0.5),
         "AR(1) 0.8": (lambda rng, steps: autoregressive(rng, steps, 0.8, 0.05), 0.05, 0.8),
         "1.4 times longer in 30 %": (mixture(1.4, 0.3), 0.4 / 1.12 * math.sqrt(0.3 * 0.7), 0.0)}


def power_table(pool, options):
    errors = (5, 6, 7, 8, 9, 10, 12)
    print("\n| all steps from 200 on longer by | " + " | ".join(f"{error} errors" for error in errors) + " |")
    print("|---" * (len(errors) + 1) + "|")
    least = 1.0
    for name, (make, size, correlation) in POWER.items():
        if options.only not in name:
            continue
        row = []
        for error in errors:
            of_mean = size * math.sqrt((1 + correlation) / (1 - correlation)) * math.sqrt(4 / STEPS)

            def one(seed):
                step_ms = make(np.random.default_rng([seed, 3]), STEPS)
                step_ms[STEPS // 2:] *= math.exp(error * of_mean)
                return any(total_of(change) > 0 for change in changes_of(step_ms))
            found = np.mean(list(pool.map(one, range(options.series))))
            row.append(found)
            if error == STATED_ERRORS:
                least = min(least, found)
        print(f"| {name} | " + " | ".join(percent(found) for found in row) + " |", flush=True)
    return least


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--series", type=int, default=200, help="jobs of each kind")
    parser.add_argument("--check", action="store_true",
                        help="exit with status 1 where there are more alarms than stated and chance, or less is found")
    options = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        alarms = alarm_table(pool, options)
        found = min(change_table(pool, options), power_table(pool, options))
    chance = 3 * math.sqrt(STATED_ALARMS * (1 - STATED_ALARMS) / options.series)
    is_wrong = alarms > STATED_ALARMS + chance or found < 0.9 - 3 * math.sqrt(0.9 * 0.1 / options.series)
    return 1 if options.check and is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
