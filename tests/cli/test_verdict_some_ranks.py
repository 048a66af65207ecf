# SPDX-License-Identifier: Apache-2.0
"""Phases that only some ranks have: on the others they take no time."""

import json

import numpy as np
import pytest
from array_jobs import PHASES, own_times, write_job
from conftest import line_of, names_of, run_row, verdict_naming, verdict_of

TRANSFER_MS = 2.0
KINDS = {name: kind for name, (kind, _) in PHASES.items()}


def absent(ranks=8, steps=120):
    return np.full((ranks, steps), np.nan)


def job_with(folder, more, *, ranks=8, steps=120, kind="other", **options):
    """``more``: phases to milliseconds by rank and step, in front of the collective. Returns the time of each step, and
    what it would be without those."""
    own = own_times(ranks, steps, **({"noise": options.pop("noise")} if "noise" in options else {}))
    step_ms = write_job(folder, {**own, **more}, kinds={**KINDS, **{name: kind for name in more}}, **options)
    return step_ms, sum(own.values()).max(axis=0) + TRANSFER_MS


def only(rank, ms, *, ranks=8, steps=120, where=slice(None)):
    times = absent(ranks, steps)
    times[rank, where] = ms
    return times


@pytest.mark.parametrize("options", [{}, {"step_spans": False}, {"stride": 10}, {"stride": 10, "step_spans": False},
                                     {"ranks": 4}, {"ranks": 3}, {"noise": 0.05}])
def test_a_phase_that_one_rank_has_is_its_own_work(cep, tmp_path, options):
    ranks = options.get("ranks", 8)
    step_ms, without_ms = job_with(tmp_path / "job", {"synthetic_straggler": only(0, 20.0, ranks=ranks)}, **options)
    verdict = verdict_naming(cep, (0, "synthetic_straggler", "persistent"))
    assert verdict["headline"].startswith("Rank 0 is slow in synthetic_straggler, in nearly every step. Without it, ")
    (straggler,) = verdict["stragglers"]
    assert straggler["excess_ms"] == pytest.approx(20, abs=0.01)
    assert straggler["slowdown"] is None, "over nothing"
    assert straggler["waiters_median_wait_ms"] == pytest.approx(20, abs=5 if "noise" in options else 0.5)
    assert verdict["job_slowdown"] == pytest.approx(step_ms.mean() / without_ms.mean(), rel=0.01)
    assert straggler["cost_share"] == pytest.approx(1 - without_ms.mean() / step_ms.mean(), rel=0.05)
    (cause,) = (cause for cause in verdict["causes"] if cause["kind"] == "ranks")
    assert (cause["ranks"], cause["phase"], cause["stage"]) == ([0], "synthetic_straggler", None)
    assert cause["cost_ms"] == pytest.approx((step_ms - without_ms).mean(), rel=0.05)
    assert not verdict["abstained"] and verdict["late_rank"] is None and verdict["groups"] == []
    (line,) = (line for line in verdict["evidence"] if line.startswith("rank 0"))
    assert line.startswith("rank 0: synthetic_straggler takes 20.00 ms a step, and its peers do not have it, in nearly "
                           "every step; meanwhile the others wait ")
    cep("summarize", "--fail-on", "straggler", "job", status=1)


def test_a_rank_that_is_recorded_from_the_middle_on_hides_nothing(cep, tmp_path):
    job_with(tmp_path / "job", {"synthetic_straggler": only(0, 20.0)})
    path = tmp_path / "job" / "cuda_events_rank_1.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True)
                            if json.loads(line).get("step", 60) >= 60))
    assert names_of(verdict_of(cep)) == [(0, "synthetic_straggler", "persistent")]


def test_a_phase_of_one_rank_of_a_pipeline_stage(cep, tmp_path):
    places = {rank: run_row(rank, world_size=8, pp=rank // 4, dp=rank % 4) for rank in range(8)}
    job_with(tmp_path / "job", {"synthetic_straggler": only(5, 20.0)}, run=lambda rank: line_of(places[rank]))
    verdict = verdict_naming(cep, (5, "synthetic_straggler", "persistent"))
    assert [(cause["kind"], cause["ranks"]) for cause in verdict["causes"]] == [("ranks", [5])]


def test_of_two_ranks_one_has_a_phase(cep, tmp_path):
    step_ms, without_ms = job_with(tmp_path / "job", {"synthetic_straggler": only(0, 20.0, ranks=2)}, ranks=2)
    verdict = verdict_of(cep)
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"]) == ([0], "synthetic_straggler")
    assert verdict["headline"].startswith("Rank 1 waits 2")
    assert " a step for rank 0: synthetic_straggler takes 20.00 ms on rank 0, and rank 1 does not have it, in nearly " in (
        verdict["headline"])
    assert verdict["job_slowdown"] == pytest.approx(step_ms.mean() / without_ms.mean(), rel=0.01)
    cep("summarize", "--fail-on", "straggler", "job", status=1)


def test_a_phase_that_one_rank_has_in_a_window(cep, tmp_path):
    step_ms, without_ms = job_with(tmp_path / "job", {"synthetic_straggler": only(3, 20.0, where=slice(40, 80))})
    verdict = verdict_naming(cep, (3, "synthetic_straggler", "window"))
    (straggler,) = verdict["stragglers"]
    assert (straggler["first_step"], straggler["last_step"]) == (40, 79)
    assert straggler["cost_share"] == pytest.approx(1 - without_ms.sum() / step_ms.sum(), rel=0.05)


def test_a_phase_that_one_rank_has_now_and_then(cep, tmp_path):
    where = np.random.default_rng(3).random(120) < 0.3
    step_ms, without_ms = job_with(tmp_path / "job", {"synthetic_straggler": only(5, 20.0, where=where)})
    verdict = verdict_naming(cep, (5, "synthetic_straggler", "intermittent"))
    (straggler,) = verdict["stragglers"]
    assert straggler["step_fraction"] == pytest.approx(where.mean(), abs=0.01)
    assert straggler["cost_share"] == pytest.approx(1 - without_ms.sum() / step_ms.sum(), rel=0.05)


def test_a_phase_that_two_of_eight_ranks_have(cep, tmp_path):
    times = only(2, 20.0)
    times[6] = 12.0
    step_ms, without_ms = job_with(tmp_path / "job", {"synthetic_straggler": times})
    verdict = verdict_of(cep)
    assert sorted(names_of(verdict)) == [(2, "synthetic_straggler", "persistent"),
                                                       (6, "synthetic_straggler", "persistent")]
    assert verdict["job_slowdown"] == pytest.approx(step_ms.mean() / without_ms.mean(), rel=0.01)
    cep("summarize", "--fail-on", "straggler", "job", status=1)


@pytest.mark.parametrize("options", [{}, {"step_spans": False}, {"ranks": 4}, {"ranks": 3, "step_spans": False},
                                     {"stride": 10}])
def test_checkpoints_of_one_rank_in_every_nth_step(cep, tmp_path, options):
    ranks = options.get("ranks", 8)
    every = 50 // options.get("stride", 1)
    steps = 8 * every
    times = only(0, 1000.0, ranks=ranks, steps=steps, where=slice(every - 1, None, every))
    step_ms, without_ms = job_with(tmp_path / "job", {"save_checkpoint": times}, steps=steps, **options)
    verdict = verdict_naming(cep, (0, "save_checkpoint", "intermittent"))
    (straggler,) = verdict["stragglers"]
    numbers = [step * options.get("stride", 1) for step in range(steps)][every - 1::every]
    assert (straggler["first_step"], straggler["last_step"]) == (numbers[0], numbers[-1])
    assert straggler["step_fraction"] == pytest.approx(1 / every, rel=0.01)
    assert straggler["cost_share"] == pytest.approx(1 - without_ms.sum() / step_ms.sum(), rel=0.01)
    assert straggler["every_steps"] == 50
    when = "5 recorded steps" if "stride" in options else "50 steps"
    assert verdict["headline"].startswith(f"Rank 0 is slow in save_checkpoint, every {when}, in steps {numbers[0]} to "
                                          f"{numbers[-1]}. Without it, ")
    assert verdict["events"]["unmarked_steps"] == []
    cep("summarize", "--fail-on", "straggler", "job", status=1)


@pytest.mark.parametrize("steps, lost, collective", [(300, 0.3, True), (120, 0, False)], ids=["rows lost", "no collectives"])
def test_a_phase_of_one_rank_is_named_where_less_was_recorded(cep, tmp_path, steps, lost, collective):
    job_with(tmp_path / "job", {"synthetic_straggler": only(0, 20.0, steps=steps)}, steps=steps, collective=collective)
    lose_rows(tmp_path / "job", lost)
    verdict = verdict_naming(cep, (0, "synthetic_straggler", "persistent"))


def keep_only(folder, keys):
    for path in folder.iterdir():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("\n".join(json.dumps({key: row[key] for key in keys}) for row in rows) + "\n")


def add_communication_beside_work(folder):
    """Rows without starts do not say beside what it ran."""
    rng = np.random.default_rng(7)
    for path in folder.iterdir():
        lines = []
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row["name"] in ("forward", "backward"):
                lines.append(json.dumps({**row, "name": "all_gather", "duration_ms": rng.uniform(1, 5)}))
            lines.append(line)
        path.write_text("\n".join(lines) + "\n")


FOUR_KEYS = ("name", "step", "rank", "duration_ms")


@pytest.mark.parametrize("step_spans", [True, False])
def test_a_phase_of_one_rank_in_rows_of_four_keys(cep, tmp_path, step_spans):
    step_ms, without_ms = job_with(tmp_path / "job", {"synthetic_straggler": only(0, 20.0)}, step_spans=step_spans)
    keep_only(tmp_path / "job", FOUR_KEYS)
    verdict = verdict_naming(cep, (0, "synthetic_straggler", "persistent"))
    assert verdict["job_slowdown"] == pytest.approx(step_ms.mean() / without_ms.mean(), rel=0.01)
    assert not verdict["slowdown_is_bound"] and "Without it, steps would take 17 % less time" in verdict["headline"]
    cep("summarize", "--fail-on", "straggler", "job", status=1)


def test_with_communication_beside_work_rows_of_four_keys_give_a_bound(cep, tmp_path):
    step_ms, without_ms = job_with(tmp_path / "job", {"synthetic_straggler": only(0, 20.0)}, step_spans=False)
    keep_only(tmp_path / "job", FOUR_KEYS)
    add_communication_beside_work(tmp_path / "job")
    verdict = verdict_naming(cep, (0, "synthetic_straggler", "persistent"))
    assert verdict["job_slowdown"] == pytest.approx(step_ms.mean() / without_ms.mean(), rel=0.02)
    assert verdict["slowdown_is_bound"] and "steps would take up to " in verdict["headline"]
    done = cep("summarize", "--fail-on", "straggler", "job", status=1)
    assert "the saving is a bound, as the steps cannot be replayed: spans have no start times" in done.stdout.decode()


def job_with_long_steps(folder, **options):
    """The phase takes 2 ms in most steps and 100 ms in some, so its median tells little."""
    extra = only(0, np.where(np.random.default_rng(4).random(120) < 0.2, 100.0, 2.0))
    times = job_with(folder, {"synthetic_straggler": extra}, **options)
    keep_only(folder, FOUR_KEYS)
    return times


def test_a_saving_is_exact_where_a_few_steps_cost_most(cep, tmp_path):
    step_ms, without_ms = job_with_long_steps(tmp_path / "job")
    verdict = verdict_of(cep)
    assert not verdict["slowdown_is_bound"]
    assert verdict["job_slowdown"] == pytest.approx(step_ms.mean() / without_ms.mean(), rel=0.01)


def test_a_bound_is_no_less_than_the_truth_where_a_few_steps_cost_most(cep, tmp_path):
    step_ms, without_ms = job_with_long_steps(tmp_path / "job", step_spans=False)
    add_communication_beside_work(tmp_path / "job")
    verdict = verdict_of(cep)
    assert "steps would take up to " in verdict["headline"]
    assert verdict["job_slowdown"] >= 0.99 * step_ms.mean() / without_ms.mean()


@pytest.mark.parametrize("flat", [False, True])
def test_a_phase_of_one_rank_beside_the_step(cep, tmp_path, flat):
    """As trainers write whose step is one phase beside others."""
    noise = np.random.default_rng(2)
    usual = {"host_to_device": ("memory", 1.0), "training_step": ("step", 40.0), "training_metrics": ("host", 10.0)}
    own = {name: ms * (1 + 0.01 * noise.standard_normal((8, 120))) for name, (_, ms) in usual.items()}
    own = {"host_to_device": own["host_to_device"], "synthetic_straggler": only(0, 20.0), **own}
    write_job(tmp_path / "job", own, step_spans=False,
              kinds={"synthetic_straggler": "other", **{name: kind for name, (kind, _) in usual.items()}})
    if flat:
        keep_only(tmp_path / "job", ("name", "step", "rank", "duration_ms"))
    assert names_of(verdict_of(cep)) == [(0, "synthetic_straggler", "persistent")]
    cep("summarize", "--fail-on", "straggler", "job", status=1)


@pytest.mark.parametrize("phase, ms", [("training_metrics", 550.0), ("save_checkpoint", 200.0)])
@pytest.mark.parametrize("of_all", [True, False])
def test_a_straggler_in_a_phase_of_the_host_that_takes_most_of_a_step(cep, tmp_path, phase, ms, of_all):
    times = ms * (1 + 0.005 * np.random.default_rng(4).standard_normal((8, 120))) if of_all else absent()
    times[3] = 1.2 * ms if of_all else ms
    step_ms, _ = job_with(tmp_path / "job", {phase: times}, kind="host")
    verdict = verdict_naming(cep, (3, phase, "persistent"))
    excess_ms = 0.2 * ms if of_all else ms
    assert verdict["stragglers"][0]["cost_share"] == pytest.approx(excess_ms / step_ms.mean(), rel=0.1)
    cep("summarize", "--fail-on", "straggler", "job", status=1)


# Healthy jobs.


def lose_rows(folder, share, kinds=None):
    chance = np.random.default_rng(5)
    for path in folder.iterdir():
        lines = path.read_text().splitlines()
        kept = [line for line in lines if chance.random() >= share or (kinds and json.loads(line)["kind"] not in kinds)]
        path.write_text("\n".join(kept) + "\n")


def assert_nobody_is_named(cep):
    verdict = verdict_of(cep)
    assert names_of(verdict) == [] and verdict["groups"] == []
    assert verdict["late_rank"] is None, verdict["headline"]
    cep("summarize", "--fail-on", "straggler", "job", status=0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.7])
def test_what_random_ranks_do_in_random_steps_is_no_straggler(cep, tmp_path, share, ranks, seed):
    chance = np.random.default_rng([seed, ranks])
    times = np.where(chance.random((ranks, 200)) < share, 5.0, np.nan)
    job_with(tmp_path / "job", {"logging": times}, ranks=ranks, steps=200)
    assert_nobody_is_named(cep)


def test_what_ranks_do_in_turns_is_no_straggler(cep, tmp_path):
    times = absent(steps=160)
    times[np.arange(160) % 8, np.arange(160)] = 30.0
    job_with(tmp_path / "job", {"logging": times}, steps=160)
    assert_nobody_is_named(cep)


def test_what_a_rank_alone_does_in_no_time_is_no_straggler(cep, tmp_path):
    job_with(tmp_path / "job", {"logging": only(0, 0.02)})
    assert_nobody_is_named(cep)


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("kinds", [None, ("compute",), ("data", "compute")])
def test_lost_rows_are_no_straggler(cep, tmp_path, share, kinds):
    job_with(tmp_path / "job", {}, steps=200)
    lose_rows(tmp_path / "job", share, kinds)
    assert_nobody_is_named(cep)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_rank_whose_device_lost_all_of_its_rows_is_no_straggler_nor_are_its_peers(cep, tmp_path, ranks):
    job_with(tmp_path / "job", {}, ranks=ranks)
    path = tmp_path / "job" / "cuda_events_rank_1.jsonl"
    lines = [line for line in path.read_text().splitlines() if '"compute"' not in line and '"comm"' not in line]
    path.write_text("\n".join(lines) + "\n")
    assert_nobody_is_named(cep)


@pytest.mark.parametrize("collective", [True, False])
@pytest.mark.parametrize("own_names", ["each rank", "rank 0", "halves"])
def test_work_that_ranks_do_under_names_of_their_own_is_no_straggler(cep, tmp_path, own_names, collective):
    """As much on each: a part of the model, a loader that reads for others, stages that no run row names."""
    name_of = {"each rank": lambda rank: f"layer_{rank}", "rank 0": lambda rank: "receive" if rank else "read",
               "halves": lambda rank: "loss" if rank < 4 else "embedding"}[own_names]
    more = {}
    for rank in range(8):
        more.setdefault(name_of(rank), absent())[rank] = 20.0 * (
            1 + 0.01 * np.random.default_rng(rank).standard_normal(120))
    job_with(tmp_path / "job", more, kind="compute", collective=collective)
    assert_nobody_is_named(cep)
