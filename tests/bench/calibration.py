#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the verdict of `cep summarize` names a rank of a healthy job, and how often it finds a fault.

    CEP_COMMAND=build/tools/cep python3 tests/bench/calibration.py [--healthy N] [--power N] [--jobs N] [--check]

Healthy jobs are of several kinds of noise; each job is 8 ranks by 200 steps unless its kind says otherwise. Beside the
verdict stand three rules in common use: a rank is slow in a phase if its mean is more than 2 standard deviations above the
mean over ranks; if it is more than 1.1 times that mean; if the best rank's median is less than 0.75 of its own.
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
from array_jobs import PHASES, write_job

GAP = "gap"  # in no phase
RULES = ("z > 2", "> 1.1 × mean", "best/own < 0.75")


def gaussian(rng, shape):
    return rng.standard_normal(shape)


def autoregressive(correlation):
    def noise(rng, shape):
        own = rng.standard_normal(shape) * math.sqrt(1 - correlation**2)
        own[:, 0] = rng.standard_normal(shape[0])
        for step in range(1, shape[1]):
            own[:, step] += correlation * own[:, step - 1]
        return own
    return noise


def slow_and_fast(rng, shape):
    return (autoregressive(0.98)(rng, shape) + gaussian(rng, shape)) / math.sqrt(2)


def heavy(rng, shape):
    return np.clip(rng.standard_t(2.5, shape) / 2, -20, 60)


def skewed(rng, shape):
    return rng.lognormal(0, 1, shape) - math.exp(0.5)


def healthy_times(kind, rng, *, ranks=8, steps=200, size=None):
    """Milliseconds by phase, rank and step. ``size``: the noise, of a phase's time."""
    size = size or rng.choice([0.005, 0.02, 0.05])
    noise = {"AR(1) 0.8": autoregressive(0.8), "AR(1) 0.95": autoregressive(0.95), "AR(1) 0.98": autoregressive(0.98),
             "slow drift and noise": slow_and_fast, "heavy tails": heavy, "skewed": skewed}.get(kind, gaussian)
    own = {name: ms * np.maximum(0.2, 1 + size * noise(rng, (ranks, steps))) for name, (_, ms) in PHASES.items()}
    if kind == "garbage collection":  # of each rank by itself, one or a few steps long
        for rank in range(ranks):
            for step in np.flatnonzero(rng.random(steps) < 0.015):
                own["forward"][rank, step:step + rng.integers(1, 4)] += 25 * rng.uniform(0.5, 1.5)
    if kind == "checkpoints":
        own["forward"][:, 25::50] += 300 * rng.uniform(0.9, 1.1, (ranks, len(range(25, steps, 50))))
    if kind == "all vary together":
        for name in own:
            own[name] *= np.maximum(0.3, 1 + 0.1 * rng.standard_normal(steps))
    if kind == "±5 % that costs nothing":  # what a rank is slower by in one phase, it is faster by in the next
        factors = rng.uniform(-0.05, 0.05, (ranks, 1))
        own["forward"] += 30 * factors
        own["backward"] -= 30 * factors
    if kind == "untimed gaps":
        own[GAP] = 3 * rng.lognormal(0, 0.5, (ranks, steps))
    if kind == "now and then on random ranks":
        there = rng.random((ranks, steps)) < rng.choice([0.005, 0.02, 0.1, 0.5, 0.8])
        own["logging"] = np.where(there, rng.choice([3, 10, 40]) * rng.lognormal(0, 0.3, (ranks, steps)), np.nan)
    if kind == "phases of their own":  # the same work under other names
        for rank in range(ranks):
            own[f"layer_{rank}"] = np.full((ranks, steps), np.nan)
            own[f"layer_{rank}"][rank] = 20 * np.maximum(0.2, 1 + size * noise(rng, steps))
    return own


KINDS = ("independent", "AR(1) 0.8", "AR(1) 0.95", "AR(1) 0.98", "slow drift and noise", "heavy tails", "skewed",
         "garbage collection", "checkpoints", "all vary together", "±5 % that costs nothing", "untimed gaps",
         "now and then on random ranks", "phases of their own")
SHAPES = {"4 ranks": {"ranks": 4}, "2 ranks": {"ranks": 2}, "32 ranks": {"ranks": 32}, "40 steps": {"steps": 40},
          "1,000 steps": {"steps": 1000}}


def found_by_rules(own):
    found = {rule: set() for rule in RULES}
    for times in (times for name, times in own.items() if name != GAP and not np.isnan(times).any()):
        means, medians = times.mean(axis=1), np.median(times, axis=1)
        mean, deviation = means.mean(), means.std()
        for rank in range(len(means)):
            if deviation > 0 and (means[rank] - mean) / deviation > 2:
                found["z > 2"].add(rank)
            if means[rank] > 1.1 * mean:
                found["> 1.1 × mean"].add(rank)
            if medians.min() / medians[rank] < 0.75:
                found["best/own < 0.75"].add(rank)
    return found


def verdict_on(own):
    with tempfile.TemporaryDirectory() as folder:
        phases = {name: times for name, times in own.items() if name != GAP}
        kinds = {name: PHASES.get(name, ("other",))[0] for name in phases}
        write_job(Path(folder), phases, kinds=kinds, before=own.get(GAP), step_spans=False)
        answer = subprocess.run([COMMAND, "summarize", "--json", "-j", "1", folder], check=True,
                                capture_output=True)
    return json.loads(answer.stdout)["verdict"]


def named_by(verdict):
    named = {one["rank"] for one in verdict["stragglers"]}
    for group in verdict["groups"]:
        named |= set(group["slow_ranks"])
    return named


def judge_healthy(task):
    kind, shape, seed = task
    own = healthy_times(kind, np.random.default_rng([seed, KINDS.index(kind)]), **SHAPES.get(shape, {}))
    verdict = verdict_on(own)
    alarm = bool(named_by(verdict) or verdict["late_rank"])
    return (kind, shape), alarm, verdict["abstained"], [bool(ranks) for ranks in found_by_rules(own).values()], (
        f"{kind}, {shape}, seed {seed}: {verdict['headline']}" if alarm or verdict["abstained"] else "")


FAULTS = {"every step": lambda steps, rng: np.ones(steps, bool), "a quarter, in a row":
          lambda steps, rng: (np.arange(steps) >= steps // 2) & (np.arange(steps) < steps // 2 + steps // 4),
          "a quarter, at random": lambda steps, rng: rng.random(steps) < 0.25}
POWER_NOISE = {"independent 1 %": ("independent", 0.01), "independent 5 %": ("independent", 0.05),
               "AR(1) 0.95 2 %": ("AR(1) 0.95", 0.02), "heavy tails 2 %": ("heavy tails", 0.02)}
SIZES = (0.02, 0.03, 0.05, 0.1, 0.2)  # of a step
POWER_STEPS = (50, 200, 800)


def judge_fault(task):
    noise, fault, steps, size, seed = task
    rng = np.random.default_rng([seed, steps, round(1000 * size), list(POWER_NOISE).index(noise)])
    kind, noise_size = POWER_NOISE[noise]
    own = healthy_times(kind, rng, steps=steps, size=noise_size)
    own["backward"][5] += FAULTS[fault](steps, rng) * size * sum(ms for _, ms in PHASES.values())
    verdict = verdict_on(own)
    return (noise, fault, steps, size), named_by(verdict) == {5}, [ranks == {5} for ranks in found_by_rules(own).values()]


def upper_bound(found, jobs):
    """The upper limit of a rate, with 95 % confidence (Clopper and Pearson)."""
    low, high = found / jobs, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        tail = sum(math.exp(math.lgamma(jobs + 1) - math.lgamma(i + 1) - math.lgamma(jobs - i + 1) + i * math.log(middle)
                            + (jobs - i) * math.log1p(-middle)) for i in range(found + 1)) if middle < 1 else 0
        low, high = (middle, high) if tail > 0.05 else (low, middle)
    return high


def run(pool, judge, tasks):
    return list(pool.map(judge, tasks, chunksize=8))


def measure_healthy(pool, count, first_seed, only, wrong):
    weights = [(kind, "8 ranks, 200 steps", 6) for kind in KINDS] + [(kind, shape, 1) for shape in SHAPES for kind in KINDS]
    all_weights = sum(weight for *_, weight in weights)
    tasks = [(kind, shape, first_seed + i) for kind, shape, weight in weights
             for i in range(max(1, count * weight // all_weights)) if only in f"{kind}, {shape}"]
    rows = {}
    for (kind, shape), alarm, abstained, rules, text in run(pool, judge_healthy, tasks):
        for name in (kind if shape not in SHAPES else shape, "all"):
            row = rows.setdefault(name, [0, 0, 0, *(0 for _ in RULES)])
            for i, value in enumerate([1, alarm, abstained, *rules]):
                row[i] += value
        if wrong and text:
            print(text)
    print("| noise | jobs | false alarms | rate, at most | abstains | " + " | ".join(RULES) + " |")
    print("|---|" + "---:|" * (4 + len(RULES)))
    rows["all"] = rows.pop("all")
    for name, (jobs, alarms, abstained, *rules) in rows.items():
        shares = " | ".join(f"{100 * rule / jobs:.0f} %" for rule in rules)
        print(f"| {name} | {jobs:,} | {alarms} | {100 * upper_bound(alarms, jobs):.2f} % | {abstained} | {shares} |")
    return rows["all"]


def measure_power(pool, count):
    tasks = [(noise, fault, steps, size, seed) for noise in POWER_NOISE for fault in FAULTS for steps in POWER_STEPS
             for size in SIZES for seed in range(count)]
    cells, of_rules = {}, {}
    for key, found, rules in run(pool, judge_fault, tasks):
        cells.setdefault(key, []).append(found)
        of_rules.setdefault((key[1], key[3]), []).append(rules)
    heads = [f"{100 * size:.0f} %" for size in SIZES]
    print("\n| noise | slow in | steps | " + " | ".join(heads) + " |\n|---|---|---:|" + "---:|" * len(SIZES))
    for noise in POWER_NOISE:
        for fault in FAULTS:
            for steps in POWER_STEPS:
                shares = [100 * np.mean(cells[noise, fault, steps, size]) for size in SIZES]
                print(f"| {noise} | {fault} | {steps} | " + " | ".join(f"{share:.0f} %" for share in shares) + " |")
    print("\n| rule | slow in | " + " | ".join(heads) + " |\n|---|---|" + "---:|" * len(SIZES))
    for i, rule in enumerate(RULES):
        for fault in FAULTS:
            shares = [100 * np.mean([rules[i] for rules in of_rules[fault, size]]) for size in SIZES]
            print(f"| {rule} | {fault} | " + " | ".join(f"{share:.0f} %" for share in shares) + " |")
    return cells


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--healthy", type=int, default=10000, help="healthy jobs in all (%(default)s)")
    parser.add_argument("--power", type=int, default=20, help="jobs for each cell of the power curve (%(default)s)")
    parser.add_argument("--first-seed", type=int, default=0, help="of the healthy jobs (%(default)s)")
    parser.add_argument("--wrong", action="store_true", help="show the headline of each healthy job with an alarm")
    parser.add_argument("--check", action="store_true",
                        help="exit with 1 if over one healthy job in a thousand, and one, has an alarm, or a fault of 10 %% "
                        "and more in little noise is missed")
    arguments = parser.parse_args()
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        jobs, alarms, *_ = measure_healthy(pool, arguments.healthy, arguments.first_seed, arguments.only, arguments.wrong)
        cells = measure_power(pool, arguments.power) if arguments.power else {}
    if not arguments.check:
        return 0
    limit = 1 + jobs // 1000
    missed = [key for key, found in cells.items() if key[0] == "independent 1 %" and key[3] >= 0.1 and not all(found)]
    print(f"\n{alarms} false alarms in {jobs} jobs (at most {limit}); faults of 10 % and more missed: {missed or 'none'}")
    return 1 if alarms > limit or missed else 0


if __name__ == "__main__":
    sys.exit(main())
