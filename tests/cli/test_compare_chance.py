# SPDX-License-Identifier: Apache-2.0
"""cep compare over many jobs: how often it sees what is not there, and how often it misses what is."""

import json

import numpy as np
import pytest
from compared_jobs import ALPHA, compare  # noqa: F401
from faults import ar1
from rank_files import write_lines

PHASES = 250  # of one job, each with noise of its own: as many comparisons in one run


def write_job(folder, rng, steps, correlation, *, phases=PHASES, change=0.0):
    times_ms = 10 * (1 + change) * np.exp(ar1(rng, steps, phases, 0.02, correlation))
    write_lines(folder, 0, (f'{{"name":"p{phase}","step":{step},"rank":0,"duration_ms":{value:.6f},"kind":"compute"}}'
                            for phase, values in enumerate(times_ms.T.tolist()) for step, value in enumerate(values)))


def two_jobs(tmp_path, seed, steps, correlation, *, phases=PHASES, **more):
    rng = np.random.default_rng(seed)
    write_job(tmp_path / "a", rng, steps, correlation, phases=phases)
    write_job(tmp_path / "b", rng, steps, correlation, phases=phases, **more)
    return "a", "b"


def false_positives(report):
    """The share of all comparisons that, each by itself, would be told as a change."""
    return sum(phase["test"] is not None and phase["test"]["p"] <= ALPHA for phase in report["phases"]) / PHASES


@pytest.mark.parametrize("seed, steps", [(1, 40), (2, 100), (3, 400), (4, 1000)])
def test_without_a_change_one_in_twenty_is_called_one(compare, tmp_path, seed, steps):
    report = compare(*two_jobs(tmp_path, seed, steps, 0.0))
    assert all(phase["test"] for phase in report["phases"])
    assert 0.02 <= false_positives(report) <= 0.09  # 4 standard deviations of 250 chances of 5 %


@pytest.mark.parametrize("seed, steps, correlation", [
    (5, 100, 0.3), (6, 300, 0.3), (7, 100, 0.6), (8, 300, 0.6), (9, 1000, 0.6), (10, 300, 0.9), (11, 1000, 0.9)])
def test_steps_that_are_alike_are_not_called_changes_more_often(compare, tmp_path, seed, steps, correlation):
    assert false_positives(compare(*two_jobs(tmp_path, seed, steps, correlation))) <= 0.10


def test_after_holm_a_whole_table_is_rarely_wrong(cep, tmp_path):
    """Jobs with six phases each: the share of tables with any phase called changed."""
    tables = wrong = 0
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        jobs = [f"{seed}/{name}" for name in two_jobs(folder, 100 + seed, 120, 0.3)]
        for first in range(0, 240, 6):
            chosen = ",".join(f"p{phase}" for phase in range(first, first + 6))
            report = json.loads(cep("compare", "--json", "--phases", chosen, *jobs).stdout)
            tables += 1
            wrong += any(phase["finding"] != "same" for phase in report["phases"])
    assert tables == 120 and wrong / tables <= 0.13  # 4 standard deviations above 5 %


@pytest.mark.parametrize("seed, steps, correlation", [(20, 100, 0.0), (21, 100, 0.3), (22, 300, 0.6)])
def test_a_change_of_3_percent_is_found(compare, tmp_path, seed, steps, correlation):
    report = compare(*two_jobs(tmp_path, seed, steps, correlation, change=0.03))
    found = [phase for phase in report["phases"] if phase["test"] and phase["test"]["p"] <= ALPHA]
    assert len(found) >= 0.95 * PHASES
    assert all(phase["change"] > 0 for phase in found)
    within = sum(phase["change_interval"][0] <= 0.03 <= phase["change_interval"][1] for phase in found)
    assert within >= 0.88 * len(found)


@pytest.mark.parametrize("seed, steps, correlation", [(30, 100, 0.0), (31, 300, 0.3), (32, 1000, 0.6)])
def test_intervals_hold_the_truth(compare, tmp_path, seed, steps, correlation):
    report = compare(*two_jobs(tmp_path, seed, steps, correlation))
    medians = [p["a"]["median_interval_ms"] for p in report["phases"]]
    assert sum(low <= 10 <= high for low, high in medians) >= 0.91 * PHASES
    changes = [phase["change_interval"] for phase in report["phases"]]
    assert sum(low <= 0 <= high for low, high in changes) >= 0.90 * PHASES


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.8])
def test_the_time_of_correlation_is_found(compare, tmp_path, correlation):
    report = compare(*two_jobs(tmp_path, 40, 2000, correlation, phases=80))
    times = [phase["correlation_steps"] for phase in report["phases"]]
    assert np.median(times) == pytest.approx((1 + correlation) / (1 - correlation), rel=0.15)


def simulate(cep, name, seed, *more):
    (cep.folder / "scenario.json").write_text('{"step_noise": 0.01, "noise_correlation": 0.5}')
    cep("simulate", "-o", name, "--scenario", "scenario.json", "--ranks", 8, "--steps", 1500, "--seed", seed, "--noise", 0.02, *more)
    return name


def test_jobs_that_differ_by_their_noise_only_are_the_same(cep, compare):
    jobs = [simulate(cep, f"job{seed}", seed) for seed in range(20)]
    told = [compare(a, b)["step"]["finding"] != "same" for a, b in zip(jobs[::2], jobs[1::2])]
    assert sum(told) <= 2  # of 10; three or more have a chance of 1 %


@pytest.mark.parametrize("seed", range(4))
def test_what_simulate_made_slower_is_named(cep, compare, seed):
    before = simulate(cep, "before", seed)
    slower = '{"type":"slowdown_all","step":0,"slowdown":1.03,"phase":"backward"}'
    after = simulate(cep, "after", 100 + seed, "--event", slower)
    report = compare(before, after)
    findings = {phase["name"]: phase["finding"] for phase in report["phases"]}
    assert (report["step"]["finding"], findings["backward"]) == ("slower", "slower")
    assert (findings["forward"], findings["optimizer"]) == ("same", "same")
    backward = next(phase for phase in report["phases"] if phase["name"] == "backward")
    assert backward["change"] == pytest.approx(0.03, abs=0.01)
