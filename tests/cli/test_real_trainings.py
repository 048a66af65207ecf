# SPDX-License-Identifier: Apache-2.0
"""The verdict on trainings of real GPUs, with a straggler that was planted or none."""

import json
import random
import re
import statistics
import subprocess
from pathlib import Path

import pytest

TRAININGS = Path(__file__).resolve().parents[1] / "data" / "trainings"
# By case: the stragglers as (rank, phase, pattern), and the slow ranks that nobody waits for.
PLANTED = {
    "none": ([], []),
    "forward": ([(2, "forward", "persistent")], []),
    "backward": ([(2, "backward", "persistent")], []),
    "data": ([(2, "data_load", "persistent")], []),
    "window": ([(2, "forward", "window")], []),
    "intermittent": ([(2, "data_load", "intermittent")], []),
    "small": ([(2, "forward", "persistent")], []),
    "two": ([(2, "forward", "persistent"), (1, "forward", "persistent")], []),
    "harmless": ([], [(2, "data_load", "persistent")]),
    # Under FSDP each layer waits for all ranks: rank 2 is waited for at the first layer, and waits at the others.
    "fsdp_harmless": ([(2, "data_load", "persistent")], []),
}
# What the verdict does not see yet.
MISSED = {
    "fsdp_two": "of two slow ranks under FSDP it takes the second one for slow now and then",
}


# The kind of the first cause, and what steps took less without it: measured, in % of a step; None where it was not.
CAUSES = {
    "ddp_lengths": ("micro_batches", 14.2),
    "pipeline_stage": ("stage", None),
    "fsdp_backward": ("ranks", 13.7),
}


def names():
    every = sorted(path.name.split(".")[0] for path in TRAININGS.glob("*.zst"))
    return [name for name in every if name.split("_")[1] in PLANTED]


def facts(stragglers):
    return [(one["rank"], one["phase"], one["pattern"]) for one in stragglers]


def test_there_are_trainings_of_both_kinds():
    assert {name.split("_")[0] for name in names()} == {"ddp", "fsdp"}
    assert {name.split("_")[1] for name in names()} == {case for case in PLANTED if "_" not in case}


def waiting_ms(cep, name):
    """Of a mean rank in a step."""
    ledger = cep.summary(TRAININGS / f"{name}.jsonl.zst")["ledger"]
    return next(one["ms"] for one in ledger["pieces"] if one["piece"] == "waiting") / ledger["steps"]


def test_the_ledger_has_what_three_ranks_wait_for_a_loader_beside_their_work(cep):
    """In `fsdp_data` the loader of one of four ranks takes 12 ms longer."""
    assert waiting_ms(cep, "fsdp_data") - waiting_ms(cep, "fsdp_none") == pytest.approx(12 * 3 / 4, abs=1)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.xfail(reason=MISSED[name], strict=True)) if name in MISSED else name
    for name in names()])
def test_what_was_planted_is_named_and_nothing_else(cep, name):
    verdict = cep.summary(TRAININGS / f"{name}.jsonl.zst")["verdict"]
    assert not verdict["abstained"]
    stragglers, harmless = PLANTED.get(name) or PLANTED[name.split("_")[1]]
    assert facts(verdict["stragglers"]) == stragglers
    if harmless:
        assert facts(verdict["harmless"]) == harmless
    assert verdict["changes"] == [], "the others are faster while they wait, as GPUs at their power limit are"
    if name.endswith("window"):
        assert (verdict["stragglers"][0]["first_step"], verdict["stragglers"][0]["last_step"]) == (40, 79)
    if name.endswith("late_hosts"):
        assert (verdict["stragglers"][0]["first_step"], verdict["stragglers"][0]["last_step"]) == (60, 89)
    if name.endswith("small"):
        assert verdict["stragglers"][0]["excess_ms"] == pytest.approx(3, abs=1)


def step_ms(name):
    """The median time from the start of a step on rank 0 to that of the next."""
    text = subprocess.run(["zstd", "-dc", TRAININGS / f"{name}.jsonl.zst"], check=True, capture_output=True).stdout
    rows = [json.loads(line) for line in text.splitlines() if b'"training_step"' in line]
    starts = {row["step"]: row["start_ns"] for row in rows if row["rank"] == 0}
    return statistics.median((starts[step + 1] - starts[step]) * 1e-6 for step in starts if step + 1 in starts)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_late_data_costs_time_although_the_others_have_more_to_do_only_under_fsdp(kind):
    alone = step_ms(f"{kind}_data") - step_ms(f"{kind}_none")
    on_top = step_ms(f"{kind}_harmless") - step_ms(f"{kind}_forward")
    assert alone > 5
    if kind == "ddp":
        assert on_top < 0.2 * alone
    else:
        assert on_top > 0.8 * alone


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_named_and_costs_what_was_measured(cep, name):
    verdict = cep.summary(TRAININGS / f"{name}.jsonl.zst")["verdict"]
    kind, measured = CAUSES[name]
    assert verdict["replay"]["holds"]
    assert verdict["causes"][0]["kind"] == kind
    if measured is not None:
        assert 100 * verdict["causes"][0]["cost_ms"] / verdict["replay"]["observed_ms"] == pytest.approx(measured, abs=3)


def test_the_stage_with_more_work_is_named(cep):
    cause = cep.summary(TRAININGS / "pipeline_stage.jsonl.zst")["verdict"]["causes"][0]
    assert (cause["stage"], cause["ranks"]) == (1, [2, 3])


def test_a_large_cause_is_named_where_the_replay_is_not_exact(cep, tmp_path):
    """Each last backward lasts up to 5 ms longer than anything explains, so the replay is off by more than 1 %."""
    chance = random.Random(1)
    cep("merge", "-o", "rows.jsonl", TRAININGS / "ddp_lengths.jsonl.zst")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        if row.get("name") == "backward" and "type" not in row and row["seq"] == 3:
            row["duration_ms"] += chance.uniform(0, 5)
    (tmp_path / "longer.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    verdict = cep.summary("longer.jsonl")["verdict"]
    assert not verdict["replay"]["holds"]
    assert verdict["headline"].startswith("Micro-batches are uneven") and "take about" in verdict["headline"]


def test_what_a_slow_rank_costs_is_about_what_the_others_wait_for_it(cep):
    """Alone a step takes 20 ms less. Busy hosts notice up to 5 ms late that a collective is over."""
    verdict = cep.summary(TRAININGS / "gloo_lightning.jsonl.zst")["verdict"]
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"]) == ([1], "forward")
    assert 100 * (1 - 1 / verdict["job_slowdown"]) == pytest.approx(55.6, abs=5)


@pytest.mark.parametrize("name, measured", [("fsdp_hidden_waits", 15.1), ("fsdp_turns_hosts", 9.7), ("fsdp_turns_forward", 13.0)])
def test_a_slow_rank_costs_what_the_others_wait_as_far_as_their_hosts_are_ahead(cep, name, measured):
    """Rank 0 waits inside of its work, and behind it. Devices are idle for late hosts for longer than is saved."""
    verdict = cep.summary(TRAININGS / f"{name}.jsonl.zst")["verdict"]
    assert verdict["replay"]["holds"] and verdict["groups"][0]["slow_ranks"] == [1]
    said = 100 * (1 - 1 / verdict["job_slowdown"])
    assert said == pytest.approx(measured, abs=5) and "would take about" in verdict["headline"]


def test_the_bound_is_what_the_rank_waits_that_waits_least(cep, tmp_path):
    """A third rank does as rank 0 does, but each collective of it begins a tenth earlier: it waits longer."""
    cep("merge", "-o", "rows.jsonl", TRAININGS / "fsdp_turns_varying.jsonl.zst")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    third = [dict(row, rank=2) for row in rows if row["rank"] == 0]
    for row in third:
        if row.get("kind") == "comm":
            earlier_ms = 0.1 * row["duration_ms"]
            row.update(duration_ms=row["duration_ms"] + earlier_ms, start_ns=row["start_ns"] - round(earlier_ms * 1e6))
    (tmp_path / "three.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows + third))
    of_two, of_three = (cep.summary(name)["verdict"]["job_slowdown"] for name in ("rows.jsonl", "three.jsonl"))
    assert of_three == pytest.approx(of_two, abs=0.005)


def test_what_peers_gain_by_waiting_makes_the_saving_a_bound(cep):
    """At their power limit GPUs that wait run faster: 21 % are said where 15.4 were measured."""
    verdict = cep.summary(TRAININGS / "accumulation_rested.jsonl.zst")["verdict"]
    assert verdict["replay"]["holds"] and verdict["groups"][0]["slow_ranks"] == [1]
    assert verdict["slowdown_is_bound"] and "steps would take up to 2" in verdict["headline"]


@pytest.mark.parametrize("name, measured", [("ddp_data_rested", 10.7), ("accumulation_rested", 15.4)])
def test_what_is_saved_by_gpus_at_their_power_limit_is_between_two_figures(cep, name, measured):
    """They all wait while one loads data, and nothing tells that they run faster then."""
    file = TRAININGS / f"{name}.jsonl.zst"
    verdict = cep.summary(file)["verdict"]
    (least,) = re.findall(r"at their power limit run slower once they wait less; the saving is then (\S+) % at least",
                          cep("summarize", file).stdout.decode())
    assert float(least) <= measured <= 100 * (1 - 1 / verdict["job_slowdown"])


@pytest.mark.parametrize("name, measured, error", [("fsdp_turns_varying", 6.9, 1.6), ("fsdp_turns_stretches", 9.8, 2.2)])
def test_a_slow_rank_is_named_though_it_is_slow_in_stretches_by_different_amounts(cep, name, measured, error):
    """Forward takes 1 to 6 ms more on rank 1 in each step, in stretches of 20 to 40 steps."""
    verdict = cep.summary(TRAININGS / f"{name}.jsonl.zst")["verdict"]
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"], group["typical"]["pattern"]) == ([1], "forward", "persistent")
    assert group["typical"]["confidence"] >= 0.9999
    said = 100 * (1 - 1 / verdict["job_slowdown"])
    words, most = ("up to", 100) if name == "fsdp_turns_varying" else ("about", measured + error + 5)
    assert measured - error <= said <= most and f"would take {words}" in verdict["headline"]


def test_a_slow_rank_for_which_another_waits_inside_of_its_work_is_priced_though_rows_are_lost(cep, tmp_path):
    chance = random.Random(1)
    cep("merge", "-o", "rows.jsonl", TRAININGS / "fsdp_hidden_waits.jsonl.zst")
    rows = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "fewer.jsonl").write_text("".join(row for row in rows if '"type"' in row or chance.random() >= 0.02))
    verdict = cep.summary("fewer.jsonl")["verdict"]
    assert verdict["headline"].startswith("Rank 0 waits ")
    assert verdict["groups"][0]["slow_ranks"] == [1]
    assert 100 * (1 - 1 / verdict["job_slowdown"]) == pytest.approx(15.1, abs=5)


def test_a_slow_rank_is_named_though_start_up_comes_behind_usual_steps(cep):
    """In the third step, which sets up communication, rank 1 seems to wait longer than rank 0 does in all of the others."""
    summary = cep.summary(TRAININGS / "cuda_graph_late_start.jsonl.zst")
    (group,) = summary["verdict"]["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"], group["typical"]["pattern"]) == ([1], "uncovered", "persistent")
    assert 100 * (1 - 1 / summary["verdict"]["job_slowdown"]) == pytest.approx(93.2, abs=2)
    assert summary["ledger"]["steady"]["step_ms"] == pytest.approx(18.1, rel=0.05)


def test_a_rank_that_no_step_contradicts_is_named_though_its_steps_drift(cep):
    """Forward takes 20 ms more in each of 29 steps: 28 at first and 21 at the end, which is that of few independent steps."""
    verdict = cep.summary(TRAININGS / "gloo_imagenet.jsonl.zst")["verdict"]
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"], group["typical"]["pattern"]) == ([1], "forward", "persistent")
    assert 0.95 <= group["typical"]["confidence"] < 0.9999
    assert not any("on any rank" in line for line in verdict["evidence"])
    assert 100 * (1 - 1 / verdict["job_slowdown"]) > 60


def test_a_slow_rank_is_named_though_the_host_that_waits_for_it_changes_its_pace(cep):
    """Forward takes 37 ms on rank 1 in each of 59 steps, and 13, 8 and 13 on rank 0. That changes no step: all take 44 ms."""
    verdict = cep.summary(TRAININGS / "transformers_hosts.jsonl.zst")["verdict"]
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"], group["typical"]["pattern"]) == ([1], "forward", "persistent")
    assert 100 * (1 - 1 / verdict["job_slowdown"]) > 30
    assert verdict["changes"] == []


@pytest.mark.parametrize("clock", ("host", "gpu"))
def test_uneven_routing_is_not_mended_by_taking_it_away(cep, tmp_path, clock):
    """All of the same work stays: measured without the fault, steps took 26 % less time. A GPU's rows of one stream are alike."""
    rows = tmp_path / "rows.jsonl"
    cep("merge", "-o", rows, TRAININGS / "gloo_experts.jsonl.zst")
    rows.write_text(rows.read_text().replace('"clock":"host"', f'"clock":"{clock}"'))
    verdict = cep.summary(rows)["verdict"]
    cause = verdict["causes"][0]
    assert (cause["kind"], cause["ranks"]) == ("routing", [1])
    assert 100 * (1 - 1 / verdict["job_slowdown"]) == pytest.approx(26, abs=5)
    assert "With the same work spread evenly" in verdict["headline"]
