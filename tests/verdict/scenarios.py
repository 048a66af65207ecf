# SPDX-License-Identifier: Apache-2.0
"""Scenarios: made-up jobs whose faults are known, and what a right verdict on each says."""

from __future__ import annotations

import itertools
from dataclasses import dataclass


@dataclass(frozen=True)
class Scenario:
    """One job for ``cep simulate``.

    ``faults`` are its --fault objects, ``events`` its --event objects, ``settings`` its options. ``expect`` is
    "stragglers" (those of the faults, and no others), "group" (most ranks are slow, or one of two), "none" (a healthy
    job), or "abstain" (nobody can know).
    """

    name: str
    settings: dict[str, object]
    faults: tuple[dict, ...] = ()
    events: tuple[dict, ...] = ()
    expect: str = "stragglers"
    group: str = ""
    seeds: int = 1
    bound: str | None = None
    change_step: int | None = None
    stage: int | None = None


LAYOUTS = {
    "dp8": {"ranks": 8},
    "dp64": {"ranks": 64},
    "dp16pp4": {"ranks": 64, "pp": 4, "micro_batches": 4},
    "dp16tp4": {"ranks": 64, "tp": 4},
}
STEPS = {"steps": 1000, "record_every": 10}
PATTERNS = {
    "persistent": {},
    "window": {"pattern": "window", "first_step": 300, "last_step": 690},
    "intermittent": {"pattern": "intermittent", "fraction": 0.3},
    "flapping": {"pattern": "flapping", "fraction": 0.5, "period_steps": 200},
    "drift": {"pattern": "drift"},
}


def _fault(phase: str, slowdown: float, pattern: str, rank: int) -> dict:
    return {"rank": rank, "phase": phase, "slowdown": slowdown, **PATTERNS[pattern]}


def single_faults(seeds: int) -> list[Scenario]:
    """One slow rank: every layout, pattern, phase, size and noise, where it costs its steps at least 5 %."""
    scenarios = []
    sizes = {"forward": (1.2, 1.5, 3.0), "backward": (1.1, 1.3, 2.0), "data_load": (3.0, 8.0), "host_to_device": (8.0,),
             "compute": (1.08, 1.4)}
    for (layout, options), noise, pattern, (phase, slowdowns) in itertools.product(
        LAYOUTS.items(), (0.005, 0.01, 0.02), PATTERNS, sizes.items()
    ):
        for slowdown in slowdowns:
            if pattern == "drift" and slowdown < 1.3:
                continue  # too little of it to see it grow
            name = f"{layout} {phase} x{slowdown} {pattern} noise {noise:.1%}"
            scenarios.append(
                Scenario(name, {**options, **STEPS, "noise": noise}, (_fault(phase, slowdown, pattern, 5),),
                         group=f"one rank, {pattern}", seeds=seeds)
            )
    return scenarios


def several_faults(seeds: int) -> list[Scenario]:
    base = {"ranks": 32, **STEPS}
    hosts = {"ranks": 32, "ranks_per_host": 4, **STEPS}
    return [
        Scenario("two ranks", base, (_fault("forward", 1.5, "persistent", 3), _fault("backward", 1.4, "window", 20)),
                 group="several ranks", seeds=seeds),
        Scenario("three ranks", base,
                 (_fault("forward", 1.3, "persistent", 3), _fault("data_load", 8, "intermittent", 9),
                  _fault("backward", 1.3, "window", 20)), group="several ranks", seeds=seeds),
        Scenario("slow host", hosts, ({"host": 2, "phase": "compute", "slowdown": 1.2},), group="slow host",
                 seeds=seeds),
        Scenario("slow host of two", {"ranks": 8, "ranks_per_host": 4, **STEPS},
                 ({"host": 1, "phase": "backward", "slowdown": 1.3},), group="slow host", seeds=seeds),
        Scenario("slow storage on a host", hosts, ({"host": 5, "phase": "data_load", "slowdown": 6},),
                 group="slow host", seeds=seeds),
    ]


def hard_conditions(seeds: int) -> list[Scenario]:
    """Faults under noise, loss, skewed clocks, overlap and other layouts."""
    fault = (_fault("backward", 1.3, "persistent", 5),)
    window = (_fault("forward", 1.5, "window", 5),)
    base = {"ranks": 32, **STEPS}
    variants = {
        "noise 5 %": {"noise": 0.05},
        "10 % of rows missing": {"drop_fraction": 0.1},
        "30 % of rows missing": {"drop_fraction": 0.3},
        "50 % of rows missing": {"drop_fraction": 0.5},
        "clocks 50 ms apart": {"clock_skew_ms": 50, "clock_drift_ppm": 20, "ranks_per_host": 4},
        "overlapped buckets": {"overlap": 0.5},
        "ranks differ by 1 %": {"rank_spread": 0.01},
        "correlated noise": {"noise_correlation": 0.7},
        "another rank missing": {"missing_ranks": "9"},
        "spikes": {"spike_fraction": 0.01, "spike_ms": 20},
        "all vary together": {"step_noise": 0.1},
        "tp 4, pp 2": {"tp": 4, "pp": 2},
        "pp 4, uneven stages": {"pp": 4, "stage_weights": "1.2,1,1,1.1"},
        "every step": {"record_every": 1, "steps": 200},
        "plain groups": {"tp": 4, "plain_groups": True},
    }
    scenarios = []
    for name, options in variants.items():
        for kind, faults in (("persistent", fault), ("window", window)):
            if name == "every step" and kind == "window":
                faults = ({**window[0], "first_step": 60, "last_step": 140},)
            scenarios.append(Scenario(f"{name}, {kind}", {**base, **options}, faults, group="hard conditions",
                                      seeds=seeds))
    return scenarios


def known_slowdowns(seeds: int) -> list[Scenario]:
    """Jobs that one slow rank makes 1.16, 1.40 and 2.03 times as long: those of a published study of what-if estimates."""
    return [Scenario(f"job slowdown {slowdown}", {"ranks": 16, **STEPS}, ({"rank": 3, "phase": "backward",
                     "excess_ms": 103.4 * (slowdown - 1)},), group="known slowdowns", seeds=seeds)
            for slowdown in (1.16, 1.40, 2.03)]


def large_jobs(seeds: int) -> list[Scenario]:
    steps = {"steps": 400, "record_every": 10}
    return [
        Scenario("512 ranks, tp 8, pp 4", {"ranks": 512, "tp": 8, "pp": 4, "micro_batches": 4, **steps},
                 (_fault("forward", 1.3, "persistent", 77),), group="large jobs", seeds=seeds),
        Scenario("1,024 ranks", {"ranks": 1024, **steps}, (_fault("backward", 1.2, "persistent", 700),),
                 group="large jobs", seeds=seeds),
        Scenario("4,096 ranks", {"ranks": 4096, **steps}, (_fault("forward", 1.4, "persistent", 4000),),
                 group="large jobs", seeds=seeds),
        Scenario("4,096 healthy ranks", {"ranks": 4096, **steps}, expect="none", group="healthy, large", seeds=seeds),
    ]


def healthy(seeds: int) -> list[Scenario]:
    variants = {
        "quiet": {"noise": 0.005},
        "usual": {},
        "noise 5 %": {"noise": 0.05},
        "correlated noise": {"noise_correlation": 0.8, "noise": 0.03},
        "all vary together": {"step_noise": 0.1},
        "hosts vary": {"host_noise": 0.02, "ranks_per_host": 8},
        "ranks differ by 1 %": {"rank_spread": 0.01},
        "spikes": {"spike_fraction": 0.02, "spike_ms": 30},
        "clocks apart": {"clock_skew_ms": 100, "ranks_per_host": 4},
        "30 % of rows missing": {"drop_fraction": 0.3},
        "uneven stages": {"pp": 4, "stage_weights": "1.3,1,1,1.2"},
        "tp 4": {"tp": 4},
        "overlap": {"overlap": 0.6},
        "every step": {"record_every": 1, "steps": 300},
    }
    base = {"ranks": 32, **STEPS}
    scenarios = [Scenario(name, {**base, **options}, expect="none", group="healthy", seeds=seeds)
                 for name, options in variants.items()]
    scenarios.append(Scenario("8 ranks", {"ranks": 8, **STEPS}, expect="none", group="healthy", seeds=seeds))
    scenarios.append(Scenario("everyone slower from step 500", base, events=({"type": "slowdown_all", "step": 500,
                              "slowdown": 1.1},), expect="none", group="healthy", seeds=seeds, change_step=500))
    scenarios.append(Scenario("checkpoints", base, events=({"type": "checkpoint", "every_steps": 100},), expect="none",
                              group="healthy", seeds=seeds))
    return scenarios


def undecidable(seeds: int) -> list[Scenario]:
    fault = (_fault("backward", 1.4, "persistent", 3),)
    return [
        Scenario("hidden collectives", {"ranks": 16, **STEPS, "hidden_collectives": True}, fault, expect="abstain",
                 group="undecidable", seeds=seeds),
        Scenario("hidden collectives, healthy", {"ranks": 16, **STEPS, "hidden_collectives": True}, expect="abstain",
                 group="undecidable", seeds=seeds),
        Scenario("the slow rank is missing", {"ranks": 16, **STEPS, "missing_ranks": "3"}, fault, expect="abstain",
                 group="undecidable", seeds=seeds),
        Scenario("two ranks", {"ranks": 2, **STEPS}, ({**fault[0], "rank": 1},), expect="group", group="two groups",
                 seeds=seeds),
        Scenario("five of eight ranks", {"ranks": 8, **STEPS},
                 tuple(_fault("forward", 1.5, "persistent", rank) for rank in range(5)), expect="group",
                 group="two groups", seeds=seeds),
        Scenario("five steps", {"ranks": 16, "steps": 50, "record_every": 10}, fault, expect="abstain",
                 group="undecidable", seeds=seeds),
        Scenario("80 % of rows missing", {"ranks": 16, **STEPS, "drop_fraction": 0.8}, fault, expect="abstain",
                 group="undecidable", seeds=seeds),
        Scenario("one rank a stage", {"ranks": 4, "pp": 4, **STEPS}, fault, expect="abstain", group="undecidable",
                 seeds=seeds),
    ]


def bounds(seeds: int) -> list[Scenario]:
    base = {"ranks": 8, **STEPS}
    return [
        Scenario("compute", base, expect="none", group="bound", seeds=seeds, bound="compute"),
        Scenario("comm", {**base, "gradient_mb": 20000}, expect="none", group="bound", seeds=seeds, bound="comm"),
        Scenario("data", {**base, "phases": "data_load=0.6,forward=0.1,backward=0.2,optimizer=0.05"}, expect="none",
                 group="bound", seeds=seeds, bound="data"),
        Scenario("host", {**base, "launch_ms": 80}, expect="none", group="bound", seeds=seeds, bound="host"),
        Scenario("slow stage", {"ranks": 16, "pp": 4, **STEPS, "stage_weights": "1,1,1.4,1"}, expect="none",
                 group="bound", seeds=seeds, stage=2),
    ]


def all_scenarios(seeds: int, faults_seeds: int | None = None) -> list[Scenario]:
    faults_seeds = seeds if faults_seeds is None else faults_seeds
    return [*single_faults(faults_seeds), *several_faults(seeds), *hard_conditions(seeds), *healthy(seeds),
            *undecidable(seeds), *bounds(seeds), *known_slowdowns(seeds), *large_jobs(1)]
