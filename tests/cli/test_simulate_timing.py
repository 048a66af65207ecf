# SPDX-License-Identifier: Apache-2.0
"""Times of simulated jobs: collectives, clocks, noise, pipelines."""

import numpy as np
import pytest
from simulation import FAULT, QUIET


@pytest.mark.parametrize("layout", [("--overlap", 0.7), ("--tp", 2), ("--pp", 2), ("--tp", 2, "--pp", 2)])
def test_all_ranks_leave_a_collective_at_once(simulate, layout):
    job = simulate("job", "--ranks", 8, "--ranks-per-host", 2, "--steps", 20, *layout, clock_skew_ms=500,
                   clock_drift_ppm=50)
    offsets = [clock["offset_ns"] for clock in job.truth["clocks"]]
    assert len(offsets) == 4 and 1e8 < np.ptp(offsets) < 1e9
    assert any(abs(clock["drift_ppm"]) > 5 for clock in job.truth["clocks"])
    sizes = set()
    for spans in job.collectives().values():
        ends = [job.true_start_ns(span) + span["duration_ms"] * 1e6 for span in spans]
        sizes.add(len(spans))
        assert np.ptp(ends) < 3, spans
    assert 1 not in sizes


def test_last_to_come_waits_for_the_transfer_only(simulate):
    job = simulate("job", transfer_noise=0)
    transfer = job.truth["transfers"][0]
    found = set()
    for spans in job.collectives().values():
        size = spans[0]["bytes"]
        found.add(size)
        expected_ms = transfer["alpha_us"] * 1e-3 + size / transfer["beta_gb_per_s"] * 1e-6
        assert min(span["duration_ms"] for span in spans) == pytest.approx(expected_ms, abs=2e-6)
    assert sorted(found) == transfer["bytes"] and len(found) == 3


def test_hidden_collectives_make_backward_equally_long_to_its_end(simulate):
    hidden = simulate("hidden", hidden_collectives=True, faults=[FAULT])
    shown = simulate("shown", faults=[FAULT])
    assert {span["kind"] for span in hidden.spans} == {"step", "compute", "data"}
    assert hidden.job_ms() == pytest.approx(shown.job_ms(), abs=1e-3)
    assert np.all(hidden.durations("backward").argmin(axis=0) == 3)


def test_noise_is_as_asked(simulate):
    steps = ("--steps", 2000, "--ranks", 4, "--record-every", 1)
    logs = np.log(simulate("job", "--noise", 0.04, *steps, host_noise=0).durations("backward"))
    assert np.std(logs, axis=1) == pytest.approx(0.04, rel=0.06)
    assert np.abs(np.corrcoef(logs) - np.eye(4)).max() < 0.1
    assert np.exp(logs).mean() == pytest.approx(59, rel=0.003)


def test_noise_of_hosts_and_steps_is_common(simulate):
    job = simulate("job", "--steps", 800, "--ranks", 4, "--ranks-per-host", 2, "--noise", 0, host_noise=0.03,
                   step_noise=0.04)
    logs = np.log(job.durations("forward"))
    assert np.allclose(logs[0], logs[1]) and np.allclose(logs[2], logs[3])
    assert np.std(logs[0]) == pytest.approx(0.05, rel=0.1)
    assert np.std(logs[0] - logs[2]) == pytest.approx(0.03 * np.sqrt(2), rel=0.1)


def test_noise_may_be_correlated_in_time(simulate):
    job = simulate("job", "--steps", 2000, "--ranks", 2, "--noise", 0.03, noise_correlation=0.8)
    logs = np.log(job.durations("forward"))
    for series in logs:
        assert np.corrcoef(series[:-1], series[1:])[0, 1] == pytest.approx(0.8, abs=0.06)
        assert np.std(series) == pytest.approx(0.03, rel=0.15)


def test_ranks_may_differ_for_good(simulate):
    means = simulate("job", "--ranks", 256, "--steps", 2, **QUIET, rank_spread=0.05).durations("forward").mean(axis=1)
    assert np.std(np.log(means)) == pytest.approx(0.05, rel=0.2)


def test_spikes(simulate):
    quiet = simulate("quiet", **QUIET, launch_ms=0)
    job = simulate("job", **QUIET, launch_ms=0, spike_fraction=0.2, spike_ms=40)
    phases = ("data_load", "host_to_device", "forward", "backward", "optimizer")
    excess = sum(job.durations(phase) - quiet.durations(phase) for phase in phases)
    assert np.mean(excess > 1) == pytest.approx(0.2, abs=0.05)
    assert excess[excess > 1].mean() == pytest.approx(40, rel=0.1)


@pytest.mark.parametrize("stages, micro_batches", [(4, 4), (4, 8), (2, 6)])
def test_pipeline_bubble(simulate, stages, micro_batches):
    job = simulate("job", "--ranks", stages, "--pp", stages, "--micro-batches", micro_batches, "--steps", 3, **QUIET,
                   latency_us=0, activation_mb=0.001, launch_ms=0)
    expected = (stages - 1) / (micro_batches + stages - 1)
    busy = job.durations("forward") + job.durations("backward")
    passes = [span for span in job.spans if span["name"] in ("forward", "backward") and span["step"] == 1]
    whole = max(s["start_ns"] * 1e-6 + s["duration_ms"] for s in passes) - min(s["start_ns"] * 1e-6 for s in passes)
    assert 1 - busy[:, 1].mean() / whole == pytest.approx(expected, abs=0.005)
    assert job.truth["bubble_fraction"] == pytest.approx(expected)


def test_stage_weights(simulate):
    job = simulate("job", "--ranks", 4, "--pp", 2, "--steps", 3, **QUIET, stage_weights=[1, 1.5])
    forward = job.durations("forward").mean(axis=1)
    assert forward[2:] / forward[:2] == pytest.approx(1.5, rel=1e-3)


def test_slow_host_program_leaves_the_device_idle(simulate):
    job = simulate("job", **QUIET, launch_ms=80)
    lags = [span["lag_ms"] for span in job.spans if span["name"] in ("forward", "backward")]
    assert max(lags) < 0.1
    assert simulate("usual", **QUIET).durations("training_step").mean() < 0.5 * job.durations("training_step").mean()


def test_shares_of_phases(simulate):
    job = simulate("job", "--phases", "forward=0.5,backward=1", "--step-ms", 10, **QUIET, launch_ms=0)
    assert job.durations("forward").mean() == pytest.approx(5, abs=0.01)
    assert job.durations("backward").mean() == pytest.approx(10, abs=0.01)
    assert job.durations("optimizer").mean() == pytest.approx(0.8, abs=0.01)
