# SPDX-License-Identifier: Apache-2.0
"""The ledger of hundreds of random jobs, against the time that they were made of."""

import pytest
from comparison import compare_jobs
from shapes import SHAPES, random_jobs


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_the_ledger_is_what_the_job_was_made_of(shape):
    compared = list(compare_jobs(random_jobs([shape])))
    assert compared
    assert {one.name: one.wrong() for one in compared if one.wrong()} == {}
