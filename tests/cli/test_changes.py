# SPDX-License-Identifier: Apache-2.0
"""Changes that every rank has: what cep summarize says of steps, stairs, ramps, bursts and more long steps."""

import json

import numpy as np
import pytest
from array_jobs import own_times, write_job
from faults import ar1

STEPS = 400


@pytest.fixture
def changed(cep, tmp_path):
    """The verdict on 4 ranks whose steps take `levels` times as long."""
    def run(levels, *arguments, status=0, noise=0.02, seed=1):
        everyone = np.exp(noise * np.random.default_rng(seed).standard_normal(STEPS)) * levels
        own = {name: ms * everyone for name, ms in own_times(4, STEPS, noise=0.001).items()}
        write_job(tmp_path / "job", own)
        return json.loads(cep("summarize", "--json", *arguments, "job", status=status).stdout)["verdict"]
    return run


def when(first, last=None, factor=1.3):
    levels = np.ones(STEPS)
    levels[first:last] = factor
    return levels


def test_every_fourth_step_twice_as_long_is_a_change_of_the_mean(changed):
    levels = np.where((np.arange(STEPS) >= 200) & (np.arange(STEPS) % 4 == 0), 2.0, 1.0)
    verdict = changed(levels, "--fail-on", "change", status=1)
    (change,) = verdict["changes"]
    assert (change["shape"], change["of"]) == ("step", "mean") and change["step"] == pytest.approx(200, abs=4)
    assert change["after_ms"] / change["before_ms"] == pytest.approx(1.25, abs=0.02)
    assert (change["long_share_before"], change["long_share_after"]) == (0, pytest.approx(0.25, abs=0.01))
    assert "25 % of the steps are long, and the mean step takes 2" in verdict["headline"]


def test_a_ramp_is_said_with_its_total(changed):
    levels = 1 + 0.3 * np.clip((np.arange(STEPS) - 100) / 200, 0, 1)
    verdict = changed(levels)
    (change,) = verdict["changes"]
    assert change["shape"] == "ramp" and change["after_ms"] / change["before_ms"] == pytest.approx(1.3, abs=0.03)
    assert change["step"] == pytest.approx(100, abs=20) and change["last_step"] == pytest.approx(300, abs=20)
    assert "steps grow steadily from step" in verdict["headline"]
    assert any("everyone's step grows steadily from" in line for line in verdict["evidence"])


def test_one_rank_has_no_everyone(cep, tmp_path):
    own = {name: ms * when(200) for name, ms in own_times(1, STEPS, noise=0.01).items()}
    write_job(tmp_path / "job", own)
    verdict = json.loads(cep("summarize", "--json", "job").stdout)["verdict"]
    assert any(line.startswith("from step 200 on a step takes") for line in verdict["evidence"])
    assert verdict["headline"].startswith("One rank, bound by compute: ")
    assert verdict["headline"].endswith(". But every step from 200 on takes 29 % longer.")


def test_stairs_are_one_change_with_their_total(changed):
    verdict = changed(1.05 ** (np.arange(STEPS) // 80), noise=0.01)
    (change,) = verdict["changes"]
    assert (change["shape"], change["stairs"]) == ("stair", 4)
    assert change["after_ms"] / change["before_ms"] == pytest.approx(1.05**4, abs=0.02)
    assert "in 4 stairs from step" in verdict["headline"]


def test_a_burst_ends(changed):
    verdict = changed(when(150, 190))
    (change,) = verdict["changes"]
    assert (change["shape"], change["step"], change["last_step"]) == ("burst", 150, 189)
    assert "every step from 150 until 189 takes" in verdict["headline"]
    assert any("in steps 150 to 189 everyone's step takes" in line for line in verdict["evidence"])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("factor", (1.6, 3.0))
def test_a_sudden_change_shows_in_a_short_series_that_wanders(cep, tmp_path, factor, seed):
    """As of a trainer that its host bounds, and that a slow GPU bounds from a step on. No long-run variance is to be had of so
    few steps; but none of them is far from the one before it."""
    wandering = np.exp(0.04 * ar1(np.random.default_rng(seed), 60, 1, 1.0, 0.9)[:, 0])
    levels = np.where(np.arange(60) < 30, wandering, factor)
    write_job(tmp_path / "job", {name: ms * levels for name, ms in own_times(1, 60, noise=0.001).items()})
    (change,) = json.loads(cep("summarize", "--json", "job").stdout)["verdict"]["changes"]
    assert (change["shape"], change["step"]) == ("step", 30)
    assert change["after_ms"] / change["before_ms"] == pytest.approx(factor / np.median(wandering[:30]), rel=0.02)


def test_faster_steps_are_no_finding_of_fail_on(changed):
    (change,) = changed(when(200, None, 0.9), "--fail-on", "change")["changes"]
    assert change["after_ms"] < change["before_ms"]


def test_the_drift_of_one_rank_is_not_everyones(cep, tmp_path):
    own = own_times(8, STEPS, noise=0.02)
    own["backward"][3] *= 1 + 0.5 * np.clip((np.arange(STEPS) - 100) / 200, 0, 1)
    write_job(tmp_path / "job", own)
    verdict = json.loads(cep("summarize", "--json", "job").stdout)["verdict"]
    assert [straggler["rank"] for straggler in verdict["stragglers"]] == [3]
    assert verdict["changes"] == []
