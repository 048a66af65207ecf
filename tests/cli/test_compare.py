# SPDX-License-Identifier: Apache-2.0
"""cep compare: every figure computed again from the rows."""

import math
import random

import numpy as np
import pytest
from compared_jobs import ALPHA, back_to_back, compare, phase_of, random_series, write
from conftest import Job, attempt_rows, span_row
from mean_statistics import compare_means, holm, u_of


# ---- the change of the mean and its interval


def heavy_series(rng, steps, typical=10.0):
    return [round(typical * rng.lognormvariate(0, 1), 6) for _ in range(steps)]


def wandering_series(rng, steps, typical=10.0):
    values, level = [], 0.0
    for _ in range(steps):
        level = 0.8 * level + rng.gauss(0, 0.03)
        values.append(round(typical * math.exp(level), 6))
    return values


@pytest.mark.parametrize("make", [random_series, heavy_series, wandering_series])
@pytest.mark.parametrize("steps_a, steps_b, block", [(5, 6, 0), (40, 31, 0), (300, 200, 0), (60, 52, 7)])
def test_change_interval_and_p_are_those_of_a_second_computation(compare, tmp_path, make, steps_a, steps_b, block):
    rng = random.Random(steps_a)
    a, b = make(rng, steps_a), make(rng, steps_b, typical=10.4)
    options = ("--block", block) if block else ()
    report = compare(*options, write(tmp_path, "a", {"f": a}), write(tmp_path, "b", {"f": b}))
    phase = phase_of(report, "f")
    change, low, high, p = compare_means(a, b, block)
    assert phase["change"] == pytest.approx(change, rel=1e-9)
    assert phase["change_interval"] == pytest.approx([low, high], rel=1e-6)
    assert phase["test"]["p"] == pytest.approx(p, rel=1e-6)
    assert phase["test"]["shift_ms"] == pytest.approx(np.mean(b) - np.mean(a), rel=1e-9)
    assert phase["test"]["shift_interval_ms"] == pytest.approx([low * np.mean(a), high * np.mean(a)], rel=1e-6)
    assert phase["test"]["u"] == u_of(a, b)
    assert phase["test"]["rank_biserial"] == pytest.approx(2 * u_of(a, b) / (steps_a * steps_b) - 1)
    if block:
        assert (phase["block_steps"], phase["a"]["blocks"], phase["b"]["blocks"]) == (7, 9, 8)


def test_rare_stalls_count(compare, cep, tmp_path):
    """One of 8 ranks late by 60 ms in 15 of 100 steps: the median does not show it."""
    late = {step: 60.0 for step in range(3, 100, 7)} | {50: 60.0}
    series = {"a": {}, "b": late}
    for name, added in series.items():
        rng = random.Random(name)
        rows = {rank: [] for rank in range(8)}
        now_ns = 10**18
        for step in range(100):
            base, stall = rng.gauss(44, 0.2), added.get(step, 0)
            for rank in rows:
                own = base + (stall if rank == 3 else 0)
                rows[rank] += [span_row(rank, step, "forward", own, now_ns),
                               span_row(rank, step, "all_reduce", base + stall + 1 - own, now_ns + int(own * 1e6),
                                        kind="comm", group="dp", coll=step)]
            now_ns += int((base + stall + 1) * 1e6)
        for rank in rows:
            Job(tmp_path / name).write(rank, rows[rank])
    report = compare("a", "b")
    assert report["step"]["finding"] == "slower"
    assert report["step"]["change"] == pytest.approx(0.15 * 60 / 45, abs=0.005)
    assert abs(report["step"]["b"]["median_ms"] / report["step"]["a"]["median_ms"] - 1) < 0.01
    assert report["step"]["b"]["p99_ms"] > 100
    assert "in A none; in B 15 of 100 (3, 10, 17, 24 and 11 more) add " in report["headline"]
    pieces = {piece["piece"]: piece["difference_ms"] for piece in report["pieces"]}
    assert sum(pieces.values()) == pytest.approx(report["step"]["test"]["shift_ms"], rel=1e-9)
    assert pieces["waiting"] == pytest.approx(9 * 7 / 8, abs=0.1)
    assert " a step come from: waiting for other ranks +7." in report["headline"]
    cep("compare", "--fail-on", "regression", "a", "b", status=1)


def test_no_interval_is_impossible(compare, tmp_path):
    """Heavy tails: nothing takes less than no time."""
    rng = random.Random(3)
    a = write(tmp_path, "a", {f"p{i}": [round(rng.lognormvariate(0, 3), 6) for _ in range(12)] for i in range(40)})
    b = write(tmp_path, "b", {f"p{i}": [round(rng.lognormvariate(0, 3), 6) for _ in range(12)] for i in range(40)})
    for phase in compare(a, b)["phases"]:
        low, high = phase["change_interval"]
        assert -1 < low <= phase["change"] <= high
        for side in "ab":
            low, high = phase[side]["mean_interval_ms"]
            assert 0 < low <= phase[side]["mean_ms"] <= high


def test_a_phase_of_some_steps_counts_as_zero_in_the_others(compare, tmp_path):
    """all_reduce in every 4th step: 300 ms there are 75 ms a step."""
    for name, ms in (("a", 300.0), ("b", 330.0)):
        rng = random.Random(name)
        rows = []
        for step in range(80):
            rows.append(span_row(0, step, "forward", rng.gauss(90, 0.5), 10**18 + step * 10**9))
            if step % 4 == 3:
                rows.append(span_row(0, step, "all_reduce", rng.gauss(ms, 1), 10**18 + step * 10**9 + 5 * 10**8, kind="comm"))
        Job(tmp_path / name).write(0, rows)
    report = compare("a", "b")
    phase = phase_of(report, "all_reduce")
    assert (phase["finding"], phase["a"]["steps"]) == ("slower", 20)
    assert [phase[side]["mean_ms"] for side in "ab"] == pytest.approx([75, 82.5], rel=0.01)
    assert [phase[side]["median_ms"] for side in "ab"] == pytest.approx([300, 330], rel=0.01)
    assert phase["change_interval"][0] > 0.08 and phase["change_interval"][1] < 0.12
    assert "all_reduce, in 20 of 80 steps of A and 20 of 80 of B: " in report["headline"]


# ---- the work of a step


def job_with_work(tmp_path, name, ms, ranks=2, steps=60, **work):
    rng = random.Random(name)
    for rank in range(ranks):
        run = {"type": "run", "schema": 1, "run_id": name, "attempt": 1, "rank": rank, "world_size": ranks,
               "start_unix_ns": 10**18, **work}
        Job(tmp_path / name).write(rank, back_to_back([run] + [
            span_row(rank, step, "forward", rng.gauss(ms, ms / 100), 10**18 + step * 10**9) for step in range(steps)]))
    return name


def test_twice_the_tokens_in_less_than_twice_the_time_is_no_regression(compare, cep, tmp_path):
    a = job_with_work(tmp_path, "a", 100, tokens_per_step=8192)
    b = job_with_work(tmp_path, "b", 145.2, tokens_per_step=16384)
    report = compare(a, b)
    assert (report["per"], report["factor"], report["of_devices"]) == ("token", 0.5, False)
    assert report["step"]["finding"] == "faster"
    assert report["step"]["change"] == pytest.approx(0.726 - 1, abs=0.005)
    assert report["headline"].startswith("A token takes 27.")
    assert "% more tokens/s. B has twice the tokens a step (8,192 → 16,384), and its steps take 45." in report["headline"]
    cep("compare", "--fail-on", "regression", a, b)
    cep("compare", "--fail-on", "regression", b, a, status=1)


def test_twice_the_ranks_pay_twice_for_a_step(compare, tmp_path):
    a = job_with_work(tmp_path, "a", 100, tokens_per_step=8192)
    b = job_with_work(tmp_path, "b", 60, ranks=4, tokens_per_step=8192)
    report = compare(a, b)
    assert (report["per"], report["of_devices"], report["step"]["finding"]) == ("token", True, "slower")
    assert report["step"]["change"] == pytest.approx(0.2, abs=0.01)
    assert report["headline"].startswith("A token takes ") and "% more device time in B" in report["headline"]
    assert "B has twice the ranks (2 → 4), and its steps take " in report["headline"]


def test_without_tokens_the_work_is_flops(compare, tmp_path):
    a = job_with_work(tmp_path, "a", 100, flops_per_step=1e15)
    b = job_with_work(tmp_path, "b", 200, flops_per_step=2e15)
    report = compare(a, b)
    assert (report["per"], report["a"]["flops_per_step"], report["step"]["finding"]) == ("FLOP", 2e15, "same")
    assert report["headline"].startswith("The time for a FLOP did not change significantly: ")


def test_equal_jobs_do_not_differ(compare, tmp_path):
    a = write(tmp_path, "a", {"f": [7.0] * 40})
    phase = phase_of(compare("--block", 1, a, a), "f")
    assert (phase["finding"], phase["test"]["p"], phase["change"]) == ("same", 1, 0)
    assert (phase["test"]["u"], phase["test"]["rank_biserial"]) == (40 * 40 / 2, 0)


def test_holm_corrects_the_phases_and_not_the_step(compare, tmp_path):
    rng = random.Random(8)
    a = {f"p{i}": random_series(rng, 30) for i in range(6)}
    b = {f"p{i}": random_series(rng, 30, typical=10 + 0.08 * i) for i in range(6)}
    report = compare("--block", 1, write(tmp_path, "a", a), write(tmp_path, "b", b))
    p_values = [phase["test"]["p"] for phase in report["phases"]]
    assert [phase["test"]["corrected_p"] for phase in report["phases"]] == pytest.approx(holm(p_values))
    assert report["step"]["test"]["corrected_p"] == report["step"]["test"]["p"]
    findings = {phase["finding"] for phase in report["phases"]}
    assert findings == {"same", "slower"}
    for phase in report["phases"]:
        assert (phase["finding"] == "slower") == (phase["test"]["corrected_p"] <= ALPHA)


def test_too_few_steps_are_too_little_to_tell(compare, cep, tmp_path):
    rng = random.Random(10)
    a = write(tmp_path, "a", {"f": random_series(rng, 4)})
    b = write(tmp_path, "b", {"f": random_series(rng, 25, typical=20)})
    report = compare(a, b)
    phase = phase_of(report, "f")
    assert (phase["finding"], phase["test"], phase["change"]) == ("undecided", None, None)
    assert phase["reason"] == "4 and 25 recorded steps; each job needs 5: record more steps"
    assert report["headline"].startswith("Step times cannot be compared: 4 and 25 recorded steps")
    assert "?" in cep("compare", a, b).stdout.decode()
    cep("compare", "--fail-on", "undecided", a, b, status=1)
    cep("compare", "--fail-on", "regression", a, b)
    assert "each job needs 12 for blocks of 4" in compare("--block", 4, a, b)["headline"]


def test_five_steps_have_a_figure_and_a_wide_interval(compare, tmp_path):
    rng = random.Random(11)
    a = write(tmp_path, "a", {"f": random_series(rng, 5)})
    b = write(tmp_path, "b", {"f": random_series(rng, 5, typical=20)})
    report = compare(a, b)
    low, high = report["step"]["change_interval"]
    assert report["step"]["finding"] == "slower" and low < 1 < high and high - low > 0.1
    assert "few steps were recorded: 5 in A, 5 in B" in report["headline"]


# ---- medians


SEEDS_WITHOUT_CORRELATION = {6: 1, 7: 7, 20: 20, 41: 41}


@pytest.mark.parametrize("steps", SEEDS_WITHOUT_CORRELATION)
def test_interval_of_the_median_is_the_sign_tests(compare, tmp_path, steps):
    rng = random.Random(SEEDS_WITHOUT_CORRELATION[steps])
    a = random_series(rng, steps)
    report = compare("--block", 1, write(tmp_path, "a", {"f": a}), write(tmp_path, "b", {"f": a}))
    phase = phase_of(report, "f")
    if phase["correlation_steps"] != 1:
        pytest.fail("the series has to be one without correlation")
    below = 0  # order statistics that are above the median with a chance of at most 2.5 %
    while sum(math.comb(steps, i) for i in range(below + 1)) / 2**steps <= ALPHA / 2:
        below += 1
    assert phase["a"]["median_ms"] == pytest.approx(np.median(a))
    assert phase["a"]["median_interval_ms"] == [sorted(a)[below - 1], sorted(a)[-below]]


def test_a_step_of_a_phase_is_the_mean_over_ranks_of_all_its_spans(compare, tmp_path):
    rng = random.Random(12)
    job = Job(tmp_path / "a")
    expected = []
    rows = {rank: [] for rank in range(5)}
    for step in range(20):
        totals = []
        for rank in range(5):
            spans = random_series(rng, 3)
            rows[rank] += [span_row(rank, step, "micro", value, 10**18 + seq, seq=seq)
                           for seq, value in enumerate(spans)]
            totals.append(sum(spans))
        expected.append(np.mean(totals))
    for rank in range(5):
        job.write(rank, rows[rank])
    phase = phase_of(compare("--block", 1, "a", "a"), "micro")
    assert phase["a"]["median_ms"] == pytest.approx(np.median(expected), rel=1e-12)
    assert phase["a"]["steps"] == 20
    other = compare("--block", 1, "a", write(tmp_path, "b", {"micro": [30.0 + i / 100 for i in range(20)]}))
    assert phase_of(other, "micro")["test"]["u"] == u_of(expected, [30.0 + i / 100 for i in range(20)])


def test_steps_that_most_ranks_did_not_record_are_left_out(compare, tmp_path):
    job = Job(tmp_path / "a")
    for rank in range(4):
        steps = range(12) if rank == 0 else range(10)
        job.write(rank, [span_row(rank, step, "f", 1.0 + step, 10**18 + step) for step in steps])
    report = compare("a", "a")
    assert phase_of(report, "f")["a"]["steps"] == 10 and report["step"]["a"]["steps"] == 10


def test_a_step_lasts_to_the_next_one_whatever_its_span_says(compare, four_ranks):
    """Steps that begin every second, with spans of some 36 ms."""
    report = compare("job", "job")
    assert report["step"]["name"] == "training_step" and not report["a"]["step_is_a_sum"]
    assert report["step"]["a"]["median_ms"] == pytest.approx(1000, abs=1e-3)
    assert report["step"]["a"]["mean_ms"] == pytest.approx((29 * 1000 + 36) / 30, rel=0.01)
    assert "training_step" not in {phase["name"] for phase in report["phases"]}


def rows_without_step_spans(is_timed=True, more_ms=0.0):
    rows, now_ns = [], 10**18
    for step in range(20):
        outer_ms = 10.0 + step + more_ms
        rows += [span_row(0, step, "outer", outer_ms, now_ns, depth=0),
                 span_row(0, step, "inner", 5.0, now_ns, depth=1),
                 span_row(0, step, "last", 2.0, now_ns + int(outer_ms * 1e6), depth=0)]
        now_ns += int((outer_ms + 2) * 1e6)
    return rows if is_timed else [{key: row[key] for key in row if key != "start_ns"} for row in rows]


@pytest.mark.parametrize("is_timed", [True, False])
def test_without_step_spans_a_step_is_its_outermost_phases(compare, tmp_path, cep, is_timed):
    Job(tmp_path / "a").write(0, rows_without_step_spans(is_timed))
    report = compare("a", "a")
    assert report["a"]["step_is_a_sum"] and report["step"]["a"]["median_ms"] == pytest.approx(12.0 + 9.5)
    assert ("sum of its outermost phases" in cep("compare", "a", "a").stdout.decode()) != is_timed


def test_a_span_of_a_step_is_compared_with_a_sum_only_where_starts_are_known(compare, tmp_path):
    rng = random.Random(14)
    rows = back_to_back(attempt_rows(0, range(20), rng=rng))
    for name, keys in (("timed", ()), ("flat", ("start_ns",))):
        flat = [{key: row[key] for key in row if key not in keys} for row in rows if "type" not in row]
        Job(tmp_path / name).write(0, flat)
        Job(tmp_path / f"{name}_sum").write(0, [row for row in flat if row["name"] != "training_step"])
    report = compare("flat", "flat_sum")
    assert (report["step"]["finding"], report["step"]["reason"]) == (
        "undecided", "only one of the jobs has spans of whole steps")
    assert compare("timed", "timed_sum")["step"]["finding"] == "same"


def test_start_up_is_not_a_cost_of_each_step(compare, cep, tmp_path):
    """The first step compiles for 60 s in B, and not in A."""
    for name, first_ms in (("a", 100.0), ("b", 60_000.0)):
        rng = random.Random(name)
        Job(tmp_path / name).write(0, back_to_back([
            span_row(0, step, "forward", rng.gauss(100, 1) if step else first_ms, 10**18 + step * 10**12)
            for step in range(50)]))
    report = compare("a", "b")
    assert report["step"]["finding"] == "same" and abs(report["step"]["change"]) < 0.02
    assert "are not in these figures: " in cep("compare", "a", "b").stdout.decode()


def test_shares_are_of_the_means(compare, four_ranks):
    report = compare("job", "job")
    for phase in report["phases"]:
        assert phase["a"]["share"] == pytest.approx(phase["a"]["mean_ms"] / report["step"]["a"]["mean_ms"])
