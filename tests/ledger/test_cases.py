# SPDX-License-Identifier: Apache-2.0
"""Jobs whose figures follow by arithmetic: the ledger and the verdict must say them."""

import json

import pytest
from cases import CASES, PEAK_FLOPS, TOKENS, TRAINERS, Base, flat_file, host_phase, loader_beside
from comparison import Comparison, TOLERANCE, summary_of
from shapes import Evaluation, Mixed


def nearly(value, tolerance=TOLERANCE):
    return pytest.approx(value, rel=tolerance)


@pytest.fixture(scope="module", params=CASES, ids=str)
def summarized(request, tmp_path_factory):
    job = request.param.make()
    return request.param, job, summary_of(job.write(tmp_path_factory.mktemp("case") / "job"))


def test_the_time_of_a_step_is_what_was_paid(summarized):
    case, job, summary = summarized
    ledger = summary["ledger"]
    assert ledger["steps"] == case.steps
    assert ledger["step_ms"]["mean"] == nearly(case.step_ms)
    assert ledger["run"]["tokens_per_s"] == nearly(TOKENS / case.step_ms * 1000)
    assert ledger["run"]["mfu"] == nearly(job.flops_per_step / PEAK_FLOPS / case.step_ms * 1000)


def test_the_headline_figures_are_those_of_the_ledger(summarized):
    case, _, summary = summarized
    assert summary["efficiency"]["tokens_per_s"] == nearly(TOKENS / case.step_ms * 1000)
    assert summary["efficiency"]["mfu"] == nearly(summary["ledger"]["run"]["mfu"], 1e-6)


def test_the_shares_are_those_of_the_elapsed_time(summarized):
    case, _, summary = summarized
    said = {one["piece"]: one["share"] for one in summary["ledger"]["pieces"]}
    wrong = {piece: (said.get(piece, 0), share) for piece, share in case.shares.items()
             if abs(said.get(piece, 0) - share) > TOLERANCE}
    assert wrong == {}
    if "compute" in case.shares:
        assert summary["ledger"]["goodput"] == pytest.approx(case.shares["compute"], abs=TOLERANCE)


def test_the_sums_are_exact(summarized):
    _, job, summary = summarized
    assert Comparison(job, summary["ledger"]).wrong() == []


def test_the_largest_loss_is_named(summarized):
    case, _, summary = summarized
    if case.first is None:
        return
    loss = summary["ledger"]["losses"][0]
    assert (loss["piece"], loss["phase"]) == case.first
    assert loss["share"] == pytest.approx(case.shares[case.first[0]], abs=2 * TOLERANCE)
    assert loss["what"] and loss["next"]


def test_the_bound_is_that_of_the_device(summarized):
    case, _, summary = summarized
    assert case.bound is None or summary["verdict"]["bound"] == case.bound


def test_a_job_with_a_loss_of_a_known_name_has_a_verdict(summarized):
    _, _, summary = summarized
    said = json.dumps(summary["verdict"])
    assert "too little of a step" not in said and "cannot be inside" not in said


def test_what_recorded_steps_have_beyond_others_is_said(tmp_path):
    for at, recorded_ms, other_ms in ((0, 1103, 103), (5, 103, (351 * 103 + 39_000) / 351)):
        job = Base(extra=host_phase("save_checkpoint", 1000, "checkpoint", every=10, at=at)).run(400, stride=10)
        sampling = summary_of(job.write(tmp_path / str(at)))["ledger"]["sampling"]
        assert sampling["stride"] == 10 and sampling["what"]
        assert sampling["recorded_step_ms"] == nearly(recorded_ms, 0.01)
        assert sampling["other_step_ms"] == nearly(other_ms, 0.01)


def pieces_of(summary):
    return {one["piece"]: one["share"] for one in summary["ledger"]["pieces"]}


@pytest.mark.parametrize("at, piece, saved_ms", [(5, "unrecorded", 39_000), (0, "checkpoint", 40_000)])
def test_checkpoints_are_not_given_to_what_was_recorded_nor_multiplied(tmp_path, at, piece, saved_ms):
    job = Base(extra=host_phase("save_checkpoint", 1000, "checkpoint", every=10, at=at)).run(400, stride=10)
    shares = pieces_of(summary_of(job.write(tmp_path / "job")))
    whole_ms = 391 * 103 + saved_ms
    assert shares[piece] == pytest.approx(saved_ms / whole_ms, abs=0.01)
    assert shares["compute"] == pytest.approx(391 * 93 / whole_ms, abs=0.01)


def test_rows_without_starts_are_told_in_both_readings(tmp_path):
    """The copy may have been inside of training_step: 13.8 ms, or before it: 15 ms. The metrics stand after it."""
    phases = [(name, ms) for name, _, ms, _ in TRAINERS]
    summary = summary_of(flat_file(tmp_path / "job", 100, phases))
    assert sorted(one["step_ms"] for one in summary["ledger"]["readings"]) == nearly([13.8, 15.0])
    assert sum(pieces_of(summary).values()) == pytest.approx(1)
    assert summary["ledger"]["losses"][0]["piece"] == "logging"
    assert 0.67 < pieces_of(summary)["logging"] < 0.75


def test_rows_without_starts_whose_sum_is_more_than_the_step_are_beside_it(tmp_path):
    summary = summary_of(flat_file(tmp_path / "job", 100, [("data_load", 30.0), ("training_step", 20.0)]))
    assert not summary["ledger"]["readings"]
    assert summary["ledger"]["step_ms"]["mean"] == nearly(50)
    assert pieces_of(summary)["data"] == pytest.approx(0.6, abs=0.005)


def mean_iteration_ns(training):
    """Of rank 0, without the first step."""
    lengths = [sum(one.pieces.values()) for one in training.lines[0].iterations]
    return sum(lengths[1:]) / len(lengths[1:])


@pytest.mark.parametrize("ranks, seed", [(2, 3), (4, 2), (4, 4)])
def test_what_is_done_now_and_then_begins_earlier_without_the_slow_rank(tmp_path, ranks, seed):
    """Half as much was said: phases in fewer than half of the steps waited for nothing."""
    slow, healthy = (Mixed(seed, ranks=ranks, slow_rank=rank) for rank in (1, None))
    verdict = summary_of(slow.make().write(tmp_path / "job"))["verdict"]
    healthy.make()
    truth = 1 - mean_iteration_ns(healthy) / mean_iteration_ns(slow)
    assert 100 * (1 - 1 / verdict["job_slowdown"]) == pytest.approx(100 * truth, abs=1)


def test_a_slow_rank_is_named_where_ranks_evaluate_now_and_then(tmp_path):
    verdict = summary_of(Evaluation(13).make().write(tmp_path / "job"))["verdict"]
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"], verdict["late_rank"]) == ([0], "backward", None)


def test_what_a_slow_rank_costs_is_not_hidden_by_a_loader_beside_it(tmp_path):
    slow = Base(data=0, forward=lambda rank, step: 37.5 if rank == 1 else 30, beside=loader_beside(95))
    verdict = summary_of(slow.run(200).write(tmp_path / "job"))["verdict"]
    assert [(one["rank"], one["phase"]) for one in verdict["stragglers"]] == [(1, "forward")]
    assert verdict["job_slowdown"] == pytest.approx(108.5 / 101, abs=0.01)
