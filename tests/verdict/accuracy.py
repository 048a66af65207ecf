#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the verdict is right: runs scenarios of `cep simulate` through `cep summarize` and prints a table.

    CEP_COMMAND=build/tools/cep python3 tests/verdict/accuracy.py [--seeds N] [--only TEXT] [--jobs N] [--wrong] [--check]

Beside the verdict it shows three rules in common use, on the same files: a rank is slow in a phase if its mean is more
than 2 standard deviations above the mean over ranks; if it is more than 1.1 times that mean; if the best rank's median
is less than 0.75 of its own.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field

from scenarios import Scenario, all_scenarios

LOCAL_KINDS = ("compute", "data", "memory", "host", "other")
COMPUTE = ("forward", "backward", "optimizer")
LEAST_COST = 1.05  # of the steps that a fault touches


@dataclass
class Outcome:
    scenario: Scenario
    seed: int
    counts: bool = True  # the fault costs its steps enough to be asked for
    ranks_right: bool = False
    phase_right: bool = False
    pattern_right: bool = False
    edges_right: bool | None = None
    false_alarm: bool = False
    abstained: bool = False
    extra_right: bool | None = None  # bound, change or stage
    what_if: tuple[float, float] | None = None  # said, true
    rules: dict[str, bool] = field(default_factory=dict)
    said: str = ""


def options_of(scenario: Scenario, seed: int) -> list[str]:
    options = ["--seed", str(seed)]
    for key, value in scenario.settings.items():
        name = "--" + key.replace("_", "-")
        options += [name] if value is True else [name, str(value)]
    for fault in scenario.faults:
        options += ["--fault", json.dumps(fault)]
    for event in scenario.events:
        options += ["--event", json.dumps(event)]
    return options


def ranks_of(fault: dict, scenario: Scenario) -> set[int]:
    if "host" in fault:
        width = int(scenario.settings.get("ranks_per_host", 8))
        return set(range(fault["host"] * width, (fault["host"] + 1) * width))
    return {fault["rank"]}


def phases_of(fault: dict) -> tuple[str, ...]:
    return COMPUTE if fault["phase"] == "compute" else (fault["phase"],)


def pattern_is_right(fault: dict, found: dict) -> bool:
    wanted = fault.get("pattern", "persistent")
    if wanted == "drift":
        return found["grows"] and found["pattern"] != "intermittent"
    return found["pattern"] == ("intermittent" if wanted == "flapping" else wanted)


def edges_are_right(fault: dict, found: dict, stride: int) -> bool:
    slack = max(stride, 0.05 * (fault["last_step"] - fault["first_step"] + 1))
    first = -(-fault["first_step"] // stride) * stride
    last = fault["last_step"] // stride * stride
    return abs(found["first_step"] - first) <= slack and abs(found["last_step"] - last) <= slack


def rules_in_use(groups: list[dict]) -> dict[str, set[int]]:
    phases = defaultdict(list)
    for group in groups:
        if group["kind"] in LOCAL_KINDS:
            phases[group["name"]].append(group)
    slow: dict[str, set[int]] = {"z > 2": set(), "> 1.1 × mean": set(), "best/own < 0.75": set()}
    for rows in phases.values():
        means = [row["mean_ms"] for row in rows]
        mean, deviation = statistics.fmean(means), statistics.pstdev(means)
        best = min(row["p50_ms"] for row in rows)
        for row in rows:
            if deviation > 0 and (row["mean_ms"] - mean) / deviation > 2:
                slow["z > 2"].add(row["rank"])
            if row["mean_ms"] > 1.1 * mean:
                slow["> 1.1 × mean"].add(row["rank"])
            if row["p50_ms"] > 0 and best / row["p50_ms"] < 0.75:
                slow["best/own < 0.75"].add(row["rank"])
    return slow


def judge_extra(scenario: Scenario, verdict: dict) -> bool | None:
    if scenario.bound is not None:
        return verdict["bound"] == scenario.bound
    if scenario.stage is not None:
        return verdict["stage_imbalance"] is not None and verdict["stage_imbalance"]["stage"] == scenario.stage
    if scenario.change_step is not None:
        return len(verdict["changes"]) == 1 and abs(verdict["changes"][0]["step"] - scenario.change_step) <= 20
    return None


def judge_faults(outcome: Outcome, verdict: dict, truth: dict) -> None:
    scenario = outcome.scenario
    found = {straggler["rank"]: straggler for straggler in verdict["stragglers"]}
    wanted = {rank: fault for fault in scenario.faults for rank in ranks_of(fault, scenario)}
    # Of several faults, one hides part of another.
    outcome.counts = len(wanted) > 1 or truth["faults"][0]["touched_step_slowdown"] >= LEAST_COST
    outcome.ranks_right = set(found) == set(wanted)
    common = [(wanted[rank], found[rank]) for rank in wanted if rank in found]
    outcome.phase_right = outcome.ranks_right and all(f["phase"] in phases_of(w) for w, f in common)
    outcome.pattern_right = outcome.ranks_right and all(pattern_is_right(w, f) for w, f in common)
    stride = int(scenario.settings.get("record_every", 10))
    windows = [(w, f) for w, f in common if w.get("pattern") == "window"]
    if windows:
        outcome.edges_right = all(edges_are_right(w, f, stride) for w, f in windows)
    if outcome.ranks_right and verdict["job_slowdown"]:
        outcome.what_if = (verdict["job_slowdown"], truth["job_slowdown"])


def run(scenario: Scenario, seed: int) -> Outcome:
    cep = os.environ["CEP_COMMAND"]
    outcome = Outcome(scenario, seed)
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([cep, "simulate", "-o", directory, "--threads", "1", *options_of(scenario, seed)], check=True,
                       capture_output=True)
        with open(os.path.join(directory, "truth.json"), encoding="utf-8") as file:
            truth = json.load(file)
        answer = subprocess.run([cep, "summarize", "--json", "--by", "rank", "-j", "1", directory], check=True,
                                capture_output=True, text=True)
    summary = json.loads(answer.stdout)
    verdict = summary["verdict"]
    found = {straggler["rank"] for straggler in verdict["stragglers"]}
    wanted = {rank for fault in scenario.faults for rank in ranks_of(fault, scenario)}
    outcome.said = verdict["headline"]
    # Who says both readings leaves open what nobody can know.
    outcome.abstained = verdict["abstained"] or "it has more work, or its rank" in verdict["headline"]
    outcome.false_alarm = bool(found - wanted)
    for rule, ranks in rules_in_use(summary["groups"]).items():
        outcome.rules[rule] = ranks == wanted
    outcome.extra_right = judge_extra(scenario, verdict)
    if scenario.expect == "group":
        outcome.ranks_right = [set(group["slow_ranks"]) for group in verdict["groups"]] == [wanted]
    if scenario.expect == "stragglers":
        judge_faults(outcome, verdict, truth)
    return outcome


def is_right(outcome: Outcome) -> bool:
    if outcome.scenario.expect == "abstain":
        return outcome.abstained
    if outcome.scenario.expect == "group":
        return outcome.ranks_right
    if outcome.extra_right is False:
        return False
    if outcome.scenario.expect == "none":
        return not outcome.false_alarm
    return outcome.ranks_right and outcome.phase_right and outcome.pattern_right and outcome.edges_right is not False


def share(values: list[bool]) -> str:
    return f"{100 * sum(values) / len(values):.1f} %" if values else "-"


def print_table(outcomes: list[Outcome]) -> None:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.counts:
            groups[outcome.scenario.group].append(outcome)
    rules = list(outcomes[0].rules)
    headings = ["group", "jobs", "ranks", "phase", "pattern", "edges", "alarm", "abstains", "other", *rules]
    rows = []
    for name, members in groups.items():
        expect = members[0].scenario.expect
        faults = expect in ("stragglers", "group")
        rows.append([
            name, str(len(members)),
            share([o.ranks_right for o in members]) if faults else "-",
            share([o.phase_right for o in members]) if expect == "stragglers" else "-",
            share([o.pattern_right for o in members]) if expect == "stragglers" else "-",
            share([o.edges_right for o in members if o.edges_right is not None]),
            share([o.false_alarm for o in members]),
            share([o.abstained for o in members]),
            share([o.extra_right for o in members if o.extra_right is not None]),
            *(share([o.rules[rule] for o in members]) if expect != "abstain" else "-" for rule in rules),
        ])
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    for row in [headings, *rows]:
        print("  ".join(cell.ljust(widths[i]) if i == 0 else cell.rjust(widths[i]) for i, cell in enumerate(row)))
    print("\nranks: exactly the slow ones are named; phase, pattern: right too; edges: windows within 5 % of their length;")
    print("alarm: a rank is named that is not slow; other: bound, change point or stage; then the rules in common use,")
    print("which name ranks only. Jobs whose fault costs less than 5 % of the steps that it touches are left out.")


def print_what_if(outcomes: list[Outcome]) -> None:
    pairs = [o.what_if for o in outcomes if o.what_if and o.counts]
    if not pairs:
        return
    errors = sorted(abs(said / true - 1) for said, true in pairs)
    print(f"\nwhat-if: {len(pairs)} job slowdowns from {min(t for _, t in pairs):.2f} to {max(t for _, t in pairs):.2f}; "
          f"error of the estimate: median {100 * statistics.median(errors):.2f} %, "
          f"p90 {100 * errors[int(0.9 * (len(errors) - 1))]:.2f} %, maximum {100 * errors[-1]:.2f} %")


def print_known_slowdowns(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.scenario.group == "known slowdowns" and outcome.what_if and outcome.seed == 1:
            print(f"what-if: {outcome.scenario.name}: true {outcome.what_if[1]:.3f}, said {outcome.what_if[0]:.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fault-seeds", type=int, help="of the scenarios with one slow rank (as --seeds)")
    parser.add_argument("--only", default="", help="scenarios whose group or name has this in it")
    parser.add_argument("--every", type=int, default=1, help="only every Nth scenario with one slow rank")
    parser.add_argument("--most-ranks", type=int, default=1 << 20, help="leaves larger jobs out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--wrong", action="store_true", help="show each job whose verdict is not right")
    parser.add_argument("--check", action="store_true", help="exit with 1 if the targets are missed")
    arguments = parser.parse_args()
    scenarios = [s for s in all_scenarios(arguments.seeds, arguments.fault_seeds)
                 if (arguments.only in s.group or arguments.only in s.name)
                 and int(s.settings["ranks"]) <= arguments.most_ranks]
    of_one_rank = [s for s in scenarios if s.group.startswith("one rank")]
    left_out = {s.name for i, s in enumerate(of_one_rank) if i % arguments.every}
    scenarios = [s for s in scenarios if s.name not in left_out]
    tasks = [(s, seed) for s in scenarios for seed in range(1, s.seeds + 1)]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = list(pool.map(lambda task: run(*task), tasks))
    print_table(outcomes)
    print_what_if(outcomes)
    print_known_slowdowns(outcomes)
    wrong = [o for o in outcomes if o.counts and not is_right(o)]
    if arguments.wrong:
        for outcome in wrong:
            print(f"\n{outcome.scenario.group}: {outcome.scenario.name}, seed {outcome.seed}\n    {outcome.said}"
                  f" other={outcome.extra_right} edges={outcome.edges_right} pattern={outcome.pattern_right}")
        for outcome in outcomes:
            if outcome.counts and outcome.what_if and abs(outcome.what_if[0] / outcome.what_if[1] - 1) > 0.05:
                print(f"\nwhat-if of {outcome.scenario.name}: {outcome.what_if[0]:.3f}, true {outcome.what_if[1]:.3f}")
    return check(outcomes) if arguments.check else 0


def check(outcomes: list[Outcome]) -> int:
    faults = [o for o in outcomes if o.counts and o.scenario.expect == "stragglers"
              and o.scenario.group.startswith("one rank")]
    healthy = [o for o in outcomes if o.scenario.expect == "none"]
    unknown = [o for o in outcomes if o.scenario.expect == "abstain"]
    targets = [
        ("rank and phase right", [o.phase_right for o in faults], 0.99),
        ("pattern right", [o.pattern_right for o in faults], 0.95),
        ("window edges right", [o.edges_right for o in faults if o.edges_right is not None], 0.95),
        ("no false alarm", [not o.false_alarm for o in healthy], 0.99),
        ("groups right", [o.ranks_right for o in outcomes if o.scenario.expect == "group"], 1.0),
        ("abstains where nobody can know", [o.abstained for o in unknown], 1.0),
    ]
    missed = 0
    for name, values, least in targets:
        reached = sum(values) / len(values) if values else 1.0
        missed += reached < least
        print(f"{'ok    ' if reached >= least else 'MISSED'}  {name}: {100 * reached:.1f} % of {len(values)} "
              f"(target {100 * least:.0f} %)")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
