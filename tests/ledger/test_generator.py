# SPDX-License-Identifier: Apache-2.0
"""The generator checked by itself: what its rows say, instant by instant, is what its account says."""

import pytest
from shapes import SHAPES, random_jobs
from truth import truth_of


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: shape.__name__)
def jobs(request):
    return [(job, truth_of(job)) for job in random_jobs([request.param])]


def test_rows_and_account_agree_to_the_nanosecond(jobs):
    for job, truth in jobs:
        for rank, account in zip(truth.ranks, job.closed_form or []):
            assert {piece: ns for piece, ns in rank.pieces.items() if ns} == dict(account), (job.name, rank.rank)


def test_pieces_add_up_to_the_elapsed_time(jobs):
    for _, truth in jobs:
        for rank in truth.ranks:
            assert sum(rank.pieces.values()) == rank.elapsed_ns


def test_most_shapes_have_an_account():
    with_account = [job for job in random_jobs(seeds=[0]) if job.closed_form is not None]
    assert len(with_account) >= 15
