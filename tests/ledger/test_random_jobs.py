# SPDX-License-Identifier: Apache-2.0
"""The ledger of hundreds of random jobs, against the time that they were made of."""

import pytest
from comparison import compare_jobs, summary_of
from shapes import SHAPES, BehindHost, Mixed, random_jobs


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_the_ledger_is_what_the_job_was_made_of(shape):
    compared = list(compare_jobs(random_jobs([shape])))
    assert compared
    assert {one.name: one.wrong() for one in compared if one.wrong()} == {}


def test_time_in_which_the_step_before_goes_on_is_covered(tmp_path):
    job, *_ = random_jobs([BehindHost])
    assert summary_of(job.write(tmp_path / "job"))["verdict"]["uncovered_ms"] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("seed", (6, 18, 26, 46))
def test_what_a_rank_costs_at_most_leaves_out_steps_in_which_another_comes_as_late(seed, tmp_path):
    def step_ms(slow_rank):
        training = Mixed(seed, slow_rank=slow_rank, ranks=8)
        job = training.make()
        steps = [sum(one.pieces.values()) for one in training.lines[0].iterations][1:]
        return job, sum(steps) / len(steps)

    (job, slow_ms), (_, usual_ms) = step_ms(1), step_ms(None)
    verdict = summary_of(job.write(tmp_path / "job"))["verdict"]
    assert "up to" in verdict["headline"]
    assert 100 * (1 - 1 / verdict["job_slowdown"]) == pytest.approx(100 * (1 - usual_ms / slow_ms), abs=5)
