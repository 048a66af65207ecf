# SPDX-License-Identifier: Apache-2.0
"""The verdict on production jobs that others have recorded and analysed; see tests/data/published."""

from pathlib import Path

import pytest

PUBLISHED = Path(__file__).resolve().parents[1] / "data" / "published"
# S of these ten steps, by the simulator of the study: sums of result-*.json's step_t_nodelay / step_t_noblk.
STUDY = {"slow_worker": 1.959, "uneven_batches": 1.544, "long_stage": 1.183}


@pytest.fixture(params=sorted(STUDY))
def job(request, cep):
    return request.param, cep.summary(PUBLISHED / f"{request.param}.jsonl.zst")["verdict"]


def test_a_replay_of_rows_alone_finds_the_slowdown_that_the_study_found(job):
    name, verdict = job
    assert verdict["replay"]["holds"]
    assert verdict["replay"]["slowdown"] == pytest.approx(STUDY[name], rel=0.02)


def test_the_cause_that_the_study_found_is_named_and_no_other_rank(job):
    name, verdict = job
    assert not verdict["abstained"]
    cause = verdict["causes"][0]
    named = [one["rank"] for one in verdict["stragglers"]]
    if name == "slow_worker":
        assert (cause["kind"], cause["ranks"]) == ("ranks", [0]) and named == [0]
        assert verdict["headline"].startswith("Rank 0 (node0) is slow in backward")
        assert cause["slowdown"] == pytest.approx(1.97, rel=0.03)
    else:
        assert cause["kind"] == {"uneven_batches": "micro_batches", "long_stage": "stage"}[name]
        assert named == [] and verdict["groups"] == []


def test_a_stage_that_only_waits_has_no_more_work(job):
    name, verdict = job
    imbalance = verdict["stage_imbalance"]
    assert (imbalance and imbalance["stage"]) == {"slow_worker": None, "uneven_batches": 1, "long_stage": 3}[name]


def test_what_ranks_that_were_not_recorded_can_cost_is_said(cep, job):
    name, verdict = job
    unseen_ms = verdict["replay"]["unseen_ms"]
    if name == "long_stage":
        assert unseen_ms == 0, "all ranks were recorded"
    else:
        assert 0 < unseen_ms < 0.1 * verdict["replay"]["observed_ms"]
    text = cep("summarize", PUBLISHED / f"{name}.jsonl.zst").stdout
    assert (b"ranks that were not recorded" in text) == (name != "long_stage")
