# SPDX-License-Identifier: Apache-2.0
"""What the verdict says where rows of collectives, phases, steps or runs are missing on some ranks, or match nobody's."""

import json
import re

import numpy as np
import pytest
from array_jobs import own_times, write_job
from conftest import names_of, verdict_naming, verdict_of
from made_jobs import Fault, Shape, make, write_files
from test_verdict_cases import judged


def edited(folder, ranks, edit):
    """Replaces each line of these ranks' files by those that ``edit`` returns."""
    for path in (folder / f"cuda_events_rank_{rank}.jsonl" for rank in ranks):
        lines = [made for line in path.read_text().splitlines() for made in edit(json.loads(line))]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def without(name):
    return lambda row: [row] if row.get("name") != name else []


def numbered_otherwise(by):
    return lambda row: [{**row, "coll": row["coll"] + by} if "coll" in row else row]


@pytest.mark.parametrize("ranks", [3, 4, 8])
def test_what_a_slow_rank_costs_is_not_known_where_its_collectives_match_those_of_no_other(cep, tmp_path, ranks):
    own = own_times(ranks, 60)
    own["forward"][-1] += 20
    write_job(tmp_path / "job", own)
    edited(tmp_path / "job", [ranks - 1], numbered_otherwise(7))
    verdict = verdict_naming(cep, (ranks - 1, "forward", "persistent"))
    assert (verdict["job_slowdown"], verdict["stragglers"][0]["cost_share"]) == (None, None)
    assert "less time" not in verdict["headline"]


def test_equal_ranks_are_no_slow_ones_though_their_collectives_are_not_matched(cep, tmp_path):
    write_job(tmp_path / "job", own_times(4, 60), transfer_ms=20)
    for rank in range(4):
        edited(tmp_path / "job", [rank], numbered_otherwise(100 * rank))
    assert verdict_of(cep)["headline"].startswith("No straggler: no rank is slower than its peers")


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("silent", [-1, 0])
def test_where_a_rank_has_no_collectives_nobody_knows_who_waits(cep, tmp_path, ranks, silent):
    own = own_times(ranks, 60)
    own["forward"][-1] += 20
    write_job(tmp_path / "job", own)
    edited(tmp_path / "job", [silent % ranks], without("all_reduce"))
    reason = f"rank {silent % ranks} has no rows of collectives, and others have: who waits is not known"
    assert verdict_of(cep)["reason"] == reason


@pytest.mark.parametrize("ranks", [2, 8])
def test_a_phase_of_one_rank_may_be_what_others_do_in_no_phase(cep, tmp_path, ranks):
    write_job(tmp_path / "job", own_times(ranks, 60))
    edited(tmp_path / "job", range(1, ranks), without("forward"))
    verdict = verdict_of(cep)
    assert re.match(r"forward takes \d+\.\d+ ms on rank 0, and rank(s 1–7 do| 1 does) not have it", verdict["reason"])
    assert verdict["reason"].endswith(" may wait for that, or do it too, where no row shows it")


def test_what_a_rank_costs_that_is_slow_in_time_that_no_phase_covers_too_is_all_of_it(cep, tmp_path):
    own = own_times(4, 60)
    own["forward"][3] += 10
    own["backward"][3] += 20
    step_ms = write_job(tmp_path / "job", own)
    edited(tmp_path / "job", range(4), without("forward"))
    verdict = verdict_of(cep)
    assert (names_of(verdict), verdict["stragglers"][0]["also"]) == ([(3, "backward", "persistent")], ["uncovered"])
    assert verdict["job_slowdown"] == pytest.approx(np.mean(step_ms) / (np.mean(step_ms) - 30), rel=0.01)


def test_of_two_ranks_one_may_wait_in_time_that_no_phase_covers(cep, tmp_path):
    own = own_times(2, 60)
    own["forward"][1] += 20
    before = np.full((2, 60), [[20.0], [0.0]])
    verdict = judged(cep, tmp_path, own, before=before)
    assert verdict["abstained"] and verdict["groups"] == [] and verdict["harmless"] == []
    assert verdict["reason"].startswith("forward takes 49.99 ms on rank 1, 29.97 ms on rank 0 (1.67 times as long)")
    assert verdict["reason"].endswith("but rank 0 takes as long in all: it may wait for that, or do it too, where no row shows it")
    assert any(line.startswith("others may wait for this where no row shows it: forward") for line in verdict["evidence"])
    assert not any(line.startswith("nobody waits") for line in verdict["evidence"])


def test_ranks_that_do_more_of_one_phase_and_less_of_another_wait_for_nobody(cep, tmp_path):
    own = own_times(2, 60)
    own["forward"][1] += 20
    own["backward"][0] += 20
    verdict = judged(cep, tmp_path, own)
    assert verdict["headline"] == "No straggler: neither rank keeps the other waiting."
    assert any(line.startswith("nobody waits for this: backward takes 79.97 ms on rank 0") for line in verdict["evidence"])


def test_a_collective_that_one_rank_has_no_row_of_may_be_waiting(cep, tmp_path):
    own = own_times(2, 60)
    own["forward"][1] += 20
    write_job(tmp_path / "job", own)

    def with_short_one(row):
        start_ns = row["start_ns"] + round(row["duration_ms"] * 1e6)
        return [row, {**row, "coll": row["coll"] + 1000, "start_ns": start_ns, "duration_ms": 0.05}] if "coll" in row else [row]

    edited(tmp_path / "job", range(2), with_short_one)
    edited(tmp_path / "job", [1], lambda row: [] if row.get("coll", 1000) < 1000 else [row])
    reason = verdict_of(cep)["reason"]
    assert re.fullmatch(r"[\d.]+ % of a step is in collectives that could not be matched between ranks", reason)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_of_other_steps_is_compared_with_nobody(cep, tmp_path, ranks):
    own = own_times(ranks, 60)
    own["forward"][-1] += 20
    write_job(tmp_path / "job", own)
    edited(tmp_path / "job", range(ranks), lambda row: [{**row, "step": 2 * row["step"] + (row["rank"] == ranks - 1)}])
    odd = "ranks 0, 1 were" if ranks == 2 else "rank 3 was"
    assert verdict_of(cep)["reason"] == f"{odd} recorded in other steps than the others"


def test_a_rank_of_a_pipeline_whose_stage_is_not_said_is_not_slow_now_and_then_if_it_is_so_always(cep, tmp_path):
    shape = Shape(kind="pipeline", dp=4, pp=4, micro_batches=8, steps=60)
    make(write_files(tmp_path / "job"), shape, Fault("rank", 1.4, (5,)))
    edited(tmp_path / "job", [5], lambda row: [] if row.get("type") == "run" else [row])
    assert verdict_of(cep)["headline"].startswith("Rank 5 is slow in backward, in 100 % of the steps. ")
