# SPDX-License-Identifier: Apache-2.0
"""The ledger of hundreds of random jobs, against the time that they were made of."""

import pytest
from comparison import compare_jobs, summary_of
from shapes import SHAPES, BehindHost, random_jobs


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_the_ledger_is_what_the_job_was_made_of(shape):
    compared = list(compare_jobs(random_jobs([shape])))
    assert compared
    assert {one.name: one.wrong() for one in compared if one.wrong()} == {}


def test_time_in_which_the_step_before_goes_on_is_covered(tmp_path):
    job, *_ = random_jobs([BehindHost])
    assert summary_of(job.write(tmp_path / "job"))["verdict"]["uncovered_ms"] == pytest.approx(0, abs=0.01)
