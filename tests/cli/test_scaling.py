# SPDX-License-Identifier: Apache-2.0
"""`cep compare --scaling`, on simulated jobs of several sizes."""

import json

import pytest


def simulate(cep, name, ranks):
    cep("simulate", "-o", name, "--ranks", ranks, "--gradient-mb", 400, "--bandwidth-gb-per-s", 10, "--record-every", 1,
        "--steps", 60)


def test_scaling_is_the_work_of_a_rank_and_its_losses_add_up(cep):
    for ranks in (2, 4, 16):
        simulate(cep, f"job{ranks}", ranks)
    report = json.loads(cep("compare", "--scaling", "--json", "job16", "job2", "job4").stdout)
    jobs = report["jobs"]
    assert report["schema"] == "cep.scaling/1" and report["unit"] == "FLOP"
    assert [job["ranks"] for job in jobs] == [2, 4, 16] and jobs[0]["efficiency"] == 1
    for job in jobs[1:]:
        assert job["efficiency"] == pytest.approx(
            jobs[0]["step_ms"] / job["step_ms"], rel=1e-9), "the same FLOPs a rank"
        assert sum(job["lost"].values()) == pytest.approx(1 - job["efficiency"])
        assert max(job["lost"], key=job["lost"].get) == "transfer"
    text = cep("compare", "--scaling", "job16", "job2", "job4").stdout.decode()
    assert "On 16 ranks, a rank does" in text and "most of the difference is transfer, not hidden" in text
    assert "#" * 20 in text


def test_scaling_takes_two_jobs_or_more_and_says_so(cep):
    simulate(cep, "job", 2)
    assert b"unexpected argument 'job'" in cep("compare", "job", "job", "job", status=2).stderr
    assert b"name two jobs or more" in cep("compare", "--scaling", "job", status=2).stderr
