# SPDX-License-Identifier: Apache-2.0
"""What cep itself took of the steps, from the estimate in the stats rows."""

import pytest
from conftest import START_NS, run_row, span_row, stats_row


def write_job(job, trainer_ms):
    """Ranks of ten steps of 20 ms each; `trainer_ms` by rank, None for a library that does not say."""
    for rank, ms in enumerate(trainer_ms):
        steps = [span_row(rank, step, "training_step", 20.0, START_NS + step * 10**9, kind="step") for step in range(10)]
        more = {} if ms is None else {"trainer_ms": ms}
        job.write(rank, [run_row(rank, world_size=len(trainer_ms)), *steps, stats_row(rank, 9, **more)])


def line_of(cep):
    return [line.split(maxsplit=1)[1] for line in cep("summarize", "job").stdout.decode().splitlines()
            if line.startswith("cost")]


def test_the_cost_of_the_median_rank_and_of_the_one_that_pays_most(cep, job):
    write_job(job, [0.4, 0.2, 0.6, 4.0, 0.5])
    cost = cep.summary("job")["own_cost"]
    assert cost["median_share"] == pytest.approx(0.0025)
    assert (cost["largest_share"], cost["largest_rank"]) == (pytest.approx(0.02), 3)
    assert line_of(cep) == ["cep took 0.25 % of the recorded steps on the median rank, 2 % on rank 3"]


def test_one_figure_is_enough_where_ranks_are_alike(cep, job):
    write_job(job, [0.6, 0.62])
    assert line_of(cep) == ["cep took 0.3 % of the recorded steps"]


def test_nothing_is_said_without_the_estimate_or_for_some_steps_only(cep, job):
    write_job(job, [None, None])
    assert cep.summary("job")["own_cost"] is None and line_of(cep) == []
    write_job(job, [0.4, 0.4])
    assert cep.summary("--steps", "3:5", "job")["own_cost"] is None
