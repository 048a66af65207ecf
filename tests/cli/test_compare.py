# SPDX-License-Identifier: Apache-2.0
"""cep compare: every figure computed again from the rows, each test by counting all orders of the values."""

import csv
import io
import json
import math
import os
import random
import shutil

import numpy as np
import pytest
from conftest import Job, attempt_rows, span_row
from rank_statistics import approximate_p, exact_p, holm, u_of

ALPHA = 0.05


@pytest.fixture
def compare(cep):
    def run(*arguments, **more):
        return json.loads(cep("compare", "--json", *arguments, **more).stdout)
    return run


def plain_rows(series, rank=0, kind="compute", first_step=0):
    """Rows with the keys that every profiler writes. `series`: for each phase, its time in each step."""
    return [{"name": name, "step": first_step + step, "rank": rank, "duration_ms": value, "kind": kind}
            for name, values in series.items() for step, value in enumerate(values)]


def write(tmp_path, name, series, **more):
    Job(tmp_path / name).write(0, plain_rows(series, **more))
    return name


def phase_of(report, name):
    return next(phase for phase in report["phases"] if phase["name"] == name)


def blocks_of(values, block_steps):
    count = len(values) // block_steps
    ends = [len(values) * i // count for i in range(count + 1)]
    return [float(np.median(values[ends[i]:ends[i + 1]])) for i in range(count)]


def random_series(rng, steps, typical=10.0, noise=0.05):
    return [round(typical * rng.uniform(1 - noise, 1 + noise), 6) for _ in range(steps)]


# ---- the test, the shift and their intervals


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("steps_a, steps_b", [(5, 5), (6, 7), (8, 6)])
def test_p_is_that_of_all_orders(compare, tmp_path, seed, steps_a, steps_b):
    rng = random.Random(seed)
    a, b = random_series(rng, steps_a), random_series(rng, steps_b, typical=10.3)
    report = compare("--block", 1, write(tmp_path, "a", {"f": a}), write(tmp_path, "b", {"f": b}))
    test = phase_of(report, "f")["test"]
    assert test["exact"] and test["u"] == u_of(a, b)
    assert test["p"] == pytest.approx(exact_p(a, b), rel=1e-12)
    assert test["rank_biserial"] == pytest.approx(2 * u_of(a, b) / (steps_a * steps_b) - 1)


@pytest.mark.parametrize("seed", range(4))
def test_shift_and_its_interval_are_what_the_test_does_not_reject(compare, tmp_path, seed):
    rng = random.Random(100 + seed)
    a, b = random_series(rng, 6), random_series(rng, 7, typical=10.2)
    report = compare("--block", 1, write(tmp_path, "a", {"f": a}), write(tmp_path, "b", {"f": b}))
    phase = phase_of(report, "f")
    low, high = phase["test"]["shift_interval_ms"]
    assert phase["test"]["shift_ms"] == pytest.approx(np.median([y - x for x in a for y in b]), rel=1e-12)
    step = 1e-7  # smaller than any two differences are apart
    for inside, outside in ((low + step, low - step), (high - step, high + step)):
        assert exact_p(a, [y - inside for y in b]) > ALPHA
        assert exact_p(a, [y - outside for y in b]) <= ALPHA
    assert phase["change"] == pytest.approx(phase["test"]["shift_ms"] / np.median(a), rel=1e-12)
    assert phase["change_interval"] == pytest.approx([low / np.median(a), high / np.median(a)], rel=1e-12)


@pytest.mark.parametrize("decimals, steps", [(1, 30), (6, 60)])
def test_with_ties_or_many_blocks_p_is_the_corrected_approximation(compare, tmp_path, decimals, steps):
    rng = random.Random(5)
    a = [round(value, decimals) for value in random_series(rng, steps)]
    b = [round(value, decimals) for value in random_series(rng, steps + 3, typical=10.1)]
    report = compare("--block", 1, write(tmp_path, "a", {"f": a}), write(tmp_path, "b", {"f": b}))
    test = phase_of(report, "f")["test"]
    assert not test["exact"] and test["u"] == u_of(a, b)
    assert test["p"] == pytest.approx(approximate_p(a, b), rel=1e-9)
    n, m = len(a), len(b)
    end = math.floor(n * m / 2 - 1.959963984540054 * math.sqrt(n * m * (n + m + 1) / 12))
    differences = sorted(y - x for x in a for y in b)
    assert test["shift_interval_ms"] == pytest.approx([differences[end - 1], differences[-end]], abs=1e-12)


def test_exact_and_approximate_p_meet_at_fifty_blocks(compare, tmp_path):
    rng = random.Random(6)
    a, b = random_series(rng, 50), random_series(rng, 50, typical=10.12)
    report = compare("--block", 1, write(tmp_path, "a", {"f": a}), write(tmp_path, "b", {"f": b}))
    test = phase_of(report, "f")["test"]
    assert test["exact"] and test["p"] == pytest.approx(approximate_p(a, b), rel=0.03)


def test_equal_jobs_do_not_differ(compare, tmp_path):
    a = write(tmp_path, "a", {"f": [7.0] * 40})
    phase = phase_of(compare("--block", 1, a, a), "f")
    assert (phase["finding"], phase["test"]["p"], phase["change"]) == ("same", 1, 0)


def test_holm_corrects_the_phases_and_not_the_step(compare, tmp_path):
    rng = random.Random(8)
    a = {f"p{i}": random_series(rng, 12) for i in range(6)}
    b = {f"p{i}": random_series(rng, 12, typical=10 + 0.08 * i) for i in range(6)}
    report = compare("--block", 1, write(tmp_path, "a", a), write(tmp_path, "b", b))
    p_values = [phase["test"]["p"] for phase in report["phases"]]
    assert [phase["test"]["corrected_p"] for phase in report["phases"]] == pytest.approx(holm(p_values))
    assert report["step"]["test"]["corrected_p"] == report["step"]["test"]["p"]
    findings = {phase["finding"] for phase in report["phases"]}
    assert findings == {"same", "slower"}
    for phase in report["phases"]:
        assert (phase["finding"] == "slower") == (phase["test"]["corrected_p"] <= ALPHA)


@pytest.mark.parametrize("block", [1, 3, 7])
def test_blocks_are_medians_of_steps_and_none_is_left_out(compare, tmp_path, block):
    rng = random.Random(9)
    a, b = random_series(rng, 52), random_series(rng, 61, typical=10.1)
    report = compare("--block", block, write(tmp_path, "a", {"f": a}), write(tmp_path, "b", {"f": b}))
    phase = phase_of(report, "f")
    blocks_a, blocks_b = blocks_of(a, block), blocks_of(b, block)
    assert phase["block_steps"] == block
    assert (phase["a"]["blocks"], phase["b"]["blocks"]) == (len(blocks_a), len(blocks_b))
    assert phase["test"]["u"] == u_of(blocks_a, blocks_b)


def test_too_few_blocks_are_too_little_to_tell(compare, cep, tmp_path):
    rng = random.Random(10)
    a = write(tmp_path, "a", {"f": random_series(rng, 19)})
    b = write(tmp_path, "b", {"f": random_series(rng, 25, typical=20)})
    report = compare("--block", 4, a, b)
    phase = phase_of(report, "f")
    assert (phase["finding"], phase["test"], phase["change"]) == ("undecided", None, None)
    assert phase["reason"] == "4 and 6 blocks of 4 recorded steps; each job needs 5: record more steps"
    assert report["headline"].startswith("Step times cannot be compared: 4 and 6 blocks")
    assert "?" in cep("compare", "--block", 4, a, b).stdout.decode()
    cep("compare", "--fail-on", "undecided", "--block", 4, a, b, status=1)
    cep("compare", "--fail-on", "regression", "--block", 4, a, b)
    assert phase_of(compare("--block", 3, a, b), "f")["finding"] == "slower"


# ---- medians


@pytest.mark.parametrize("steps", [6, 7, 20, 41])
def test_interval_of_the_median_is_the_sign_tests(compare, tmp_path, steps):
    rng = random.Random(steps)
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


def test_five_steps_have_no_interval(compare, tmp_path):
    a = write(tmp_path, "a", {"f": [1.0, 2.0, 3.0, 4.0, 5.0]})
    assert phase_of(compare("--block", 1, a, a), "f")["a"]["median_interval_ms"] is None


def test_a_step_of_a_phase_is_the_median_over_ranks_of_all_its_spans(compare, tmp_path):
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
        expected.append(np.median(totals))
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


def test_the_step_is_its_own_span(compare, four_ranks):
    report = compare("job", "job")
    steps = [row for row in four_ranks.spans() if row["name"] == "training_step"]
    medians = [np.median([row["duration_ms"] for row in steps if row["step"] == step]) for step in range(30)]
    assert report["step"]["name"] == "training_step" and not report["a"]["step_is_a_sum"]
    assert report["step"]["a"]["median_ms"] == pytest.approx(np.median(medians), rel=1e-12)
    assert "training_step" not in {phase["name"] for phase in report["phases"]}


def test_without_step_spans_the_step_is_the_sum_of_outermost_phases(compare, tmp_path, cep):
    rows = []
    for step in range(20):
        rows += [span_row(0, step, "outer", 10.0 + step, 10**18, depth=0),
                 span_row(0, step, "inner", 5.0, 10**18, depth=1),
                 span_row(0, step, "last", 2.0, 10**18, depth=0)]
    Job(tmp_path / "a").write(0, rows)
    report = compare("a", "a")
    assert report["a"]["step_is_a_sum"] and report["step"]["a"]["median_ms"] == pytest.approx(12.0 + 9.5)
    assert "sum of its outermost phases" in cep("compare", "a", "a").stdout.decode()


def test_a_span_of_a_step_is_not_compared_with_a_sum(compare, tmp_path):
    rng = random.Random(14)
    Job(tmp_path / "a").write(0, attempt_rows(0, range(20), rng=rng))
    Job(tmp_path / "b").write(0, [r for r in attempt_rows(0, range(20), rng=rng) if r.get("name") != "training_step"])
    report = compare("a", "b")
    assert (report["step"]["finding"], report["step"]["reason"]) == (
        "undecided", "only one of the jobs has spans of whole steps")


def test_shares_are_of_the_medians(compare, four_ranks):
    report = compare("job", "job")
    for phase in report["phases"]:
        assert phase["a"]["share"] == pytest.approx(phase["a"]["median_ms"] / report["step"]["a"]["median_ms"])


# ---- what is said


def two_jobs(tmp_path, factors, steps=60, seed=20):
    """Two jobs of four ranks; B's phases take `factors` times as long."""
    for name, slow in (("a", None), ("b", factors)):
        rng = random.Random(f"{name}{seed}")
        for rank in range(4):
            Job(tmp_path / name).write(rank, attempt_rows(rank, range(steps), rng=rng, world_size=4, slow=slow))
    return "a", "b"


def test_a_slower_phase_is_named_with_its_share(compare, cep, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.1})
    report = compare(a, b)
    backward = phase_of(report, "backward")
    assert (report["step"]["finding"], backward["finding"]) == ("slower", "slower")
    assert backward["change"] == pytest.approx(0.1, abs=0.02)
    assert {phase["finding"] for phase in report["phases"] if phase is not backward} == {"same"}
    shares = [100 * backward[side]["share"] for side in "ab"]
    assert f"share of the step from {shares[0]:.1f} % to {shares[1]:.1f} %" in report["headline"]
    low, high = report["step"]["change_interval"]
    change = report["step"]["change"]
    assert report["headline"].startswith(f"Steps take {100 * change:.1f} % more time in B (")
    assert f"; 95 % interval {100 * low:.1f} % to {100 * high:.1f} %)." in report["headline"]
    text = cep("compare", a, b).stdout.decode()
    headline, _, because = text.splitlines()[:3]
    assert f"{headline} {because.removeprefix('because').strip()}" == report["headline"]
    assert next(line for line in text.splitlines() if line.startswith("forward")).split("%")[2].split()[0] == "~"


def test_a_faster_job_is_told_by_how_much_less_it_takes(compare, tmp_path):
    a, b = two_jobs(tmp_path, {"forward": 0.8, "backward": 0.9})
    report = compare(a, b)
    low, high = report["step"]["change_interval"]
    assert report["step"]["finding"] == "faster"
    assert report["headline"].startswith(f"Steps take {-100 * report['step']['change']:.1f} % less time in B (")
    assert f"; 95 % interval {-100 * high:.1f} % to {-100 * low:.1f} %)." in report["headline"]
    swapped = compare(b, a)
    assert swapped["step"]["finding"] == "slower"
    assert swapped["step"]["test"]["shift_ms"] == pytest.approx(-report["step"]["test"]["shift_ms"])


def test_jobs_that_do_not_differ_are_told_so(compare, tmp_path):
    report = compare(*two_jobs(tmp_path, {}))
    assert report["headline"].startswith("The step time did not change significantly: ")
    assert "No phase changed significantly." in report["headline"]


def test_smaller_changes_than_the_threshold_are_none(compare, cep, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.05})
    free, bound = compare(a, b), compare("--threshold", "10%", a, b)
    assert phase_of(free, "backward")["finding"] == "slower"
    backward = phase_of(bound, "backward")
    assert (backward["finding"], backward["below_threshold"], bound["threshold"]) == ("same", True, 0.1)
    assert "below the threshold of 10.0 %" in bound["headline"]
    cep("compare", "--fail-on", "regression", a, b, status=1)
    cep("compare", "--fail-on", "regression", "--threshold", "10", a, b)


def test_fail_on_regression_is_for_slower_and_not_for_faster(cep, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.1})
    assert cep("compare", "--fail-on", "regression", a, b, status=1).stdout.startswith(b"Steps take ")
    cep("compare", "--fail-on", "step-regression,undecided", a, b, status=1)
    cep("compare", "--fail-on", "undecided", "--fail-on", "step-regression", a, b, status=1)
    cep("compare", "--fail-on", "regression", b, a)
    cep("compare", a, b)


def test_step_regression_leaves_phases_that_do_not_show_alone(cep, tmp_path):
    a, b = two_jobs(tmp_path, {"data_load": 1.05})
    cep("compare", "--fail-on", "regression", a, b, status=1)
    cep("compare", "--fail-on", "step-regression", "--threshold", "1%", a, b)


def test_phases_of_one_job_only_are_named_and_not_tested(compare, cep, tmp_path):
    rng = random.Random(22)
    a = write(tmp_path, "a", {"both": random_series(rng, 20), "old": random_series(rng, 20)})
    b = write(tmp_path, "b", {"both": random_series(rng, 20), "new": random_series(rng, 20)})
    report = compare(a, b)
    assert {p["name"]: p["finding"] for p in report["phases"]} == {"both": "same", "old": "only_a", "new": "only_b"}
    assert phase_of(report, "old")["b"] is None and phase_of(report, "new")["test"] is None
    text = cep("compare", a, b).stdout.decode()
    assert "only in A" in text and "only in B" in text


def test_what_makes_jobs_hard_to_compare_is_noted(compare, tmp_path):
    rng = random.Random(23)
    Job(tmp_path / "a").write(0, attempt_rows(0, range(20), rng=rng))
    for rank in range(2):
        Job(tmp_path / "b").write(rank, attempt_rows(rank, range(20), rng=rng, world_size=2))
    assert compare("a", "b")["notes"] == ["A has 1 rank and B 2 ranks"]


def test_a_phase_that_takes_no_time_has_no_relative_change(compare, tmp_path):
    a = write(tmp_path, "a", {"f": [0.0] * 20, "g": [1.0] * 20})
    b = write(tmp_path, "b", {"f": [1.0] * 20, "g": [1.0] * 20})
    phase = phase_of(compare(a, b), "f")
    assert (phase["finding"], phase["change"], phase["test"]["shift_ms"]) == ("slower", None, 1)


def test_a_new_straggler_is_named(cep, compare):
    common = ("--ranks", 8, "--steps", 1500, "--noise", 0.01)
    cep("simulate", "-o", "healthy", "--seed", 1, *common)
    cep("simulate", "-o", "slow", "--seed", 2, "--fault", '{"rank": 5, "phase": "forward", "slowdown": 1.4}', *common)
    report = compare("healthy", "slow")
    assert (report["a"]["stragglers"], report["b"]["stragglers"]) == ([], ["rank 5 in forward"])
    assert "Stragglers: none in A, rank 5 in forward in B." in report["headline"]
    assert "Stragglers" not in compare("slow", "slow")["headline"]


def test_a_new_bound_is_named(cep, compare):
    common = ("--ranks", 8, "--steps", 1500)
    cep("simulate", "-o", "before", "--seed", 1, *common)
    cep("simulate", "-o", "after", "--seed", 2, "--bandwidth-gb-per-s", 1, *common)
    report = compare("before", "after")
    assert (report["a"]["bound"], report["b"]["bound"]) == ("compute", "comm")
    assert "The bound changed from compute to comm." in report["headline"]


# ---- inputs and outputs


def test_saved_summaries_give_the_same(compare, cep, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.1})
    whole = compare(a, b)
    cep("summarize", "--save", "a.partial.zst", a)
    for half in ("0-1", "2-3"):
        cep("summarize", "--ranks", half, "--save", f"b{half}.partial", b)
    saved = compare("a.partial.zst", b)
    assert (saved["step"], saved["phases"]) == (whole["step"], whole["phases"])
    assert saved["a"]["rows"] == whole["a"]["rows"]
    cep("summarize", "--save", "b.partial", b)
    both = compare("a.partial.zst", "b.partial")
    assert (both["step"], both["phases"], both["headline"]) == (whole["step"], whole["phases"], whole["headline"])


def test_what_was_not_asked_for_is_not_compared(compare, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.1})
    report = compare("--steps", "10:39", "--ranks", "0-1", "--phases", "forward,backward", a, b)
    assert (report["a"]["ranks_seen"], report["a"]["steps"], report["a"]["first_step"]) == (2, 30, 10)
    assert {phase["name"] for phase in report["phases"]} == {"forward", "backward"}
    assert report["step"] is None and report["headline"].startswith("The selected spans make no whole steps")


def test_the_last_attempt_of_a_step_counts(compare, cep, resumed, tmp_path):
    merged = compare("job", "job")
    assert merged["a"]["steps"] == 80
    first = compare("--attempt", "1", "job", "job")
    assert (first["a"]["steps"], first["a"]["last_step"]) == (60, 59)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_files_and_threads_makes_no_difference(compare, tmp_path, seed):
    a, b = two_jobs(tmp_path, {"backward": 1.03}, seed=seed)
    assert compare("-j", 1, a, b) == compare("-j", 4, a, b)


def test_standard_input_and_lists_of_files(compare, cep, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.1})
    whole = compare(a, b)
    merged = cep("merge", b).stdout
    assert compare(a, "-", stdin=merged)["phases"] == whole["phases"]
    (tmp_path / "list").write_text("".join(f"{tmp_path}/b/{name}\n" for name in os.listdir(tmp_path / "b")))
    assert compare("--files-from-b", "list", a)["phases"] == whole["phases"]
    assert b"both be standard input" in cep("compare", "-", "-", status=2).stderr


def test_csv_has_the_figures_of_json(compare, cep, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.1})
    report = compare(a, b)
    text = cep("compare", "--csv", a, b).stdout.decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    changes = [report["step"], *report["phases"]]
    assert [(row["name"], row["level"], row["finding"]) for row in rows] == [
        (change["name"], "phase" if i else "step", change["finding"]) for i, change in enumerate(changes)]
    for row, change in zip(rows, changes):
        assert float(row["a_median_ms"]) == change["a"]["median_ms"]
        assert float(row["change"]) == change["change"]
        assert float(row["p"]) == change["test"]["p"]
        assert [float(row["b_low_ms"]), float(row["b_high_ms"])] == change["b"]["median_interval_ms"]


def test_markdown_begins_with_the_sentence(compare, cep, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.1})
    text = cep("compare", "--markdown", a, b).stdout.decode()
    sentence, _ = compare(a, b)["headline"].split(". ", 1)
    assert text.startswith(f"# Comparison\n\n**{sentence}.**\n")
    assert "| phase | kind | A | B | change | p | share | blocks |" in text


def test_output_files_and_limits_are_those_of_other_commands(cep, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.1})
    cep("compare", "-o", "changes.csv", a, b)
    assert (tmp_path / "changes.csv").read_bytes() == cep("compare", "--csv", a, b).stdout
    text = cep("compare", "--limit", 1, a, b).stdout.decode()
    assert "… 3 shorter phases not shown; --limit 0 shows all" in text


def test_each_job_has_the_block_of_inputs(compare, tmp_path):
    a, b = two_jobs(tmp_path, {})
    os.remove(tmp_path / "b" / "cuda_events_rank_3.jsonl")
    job = compare(a, b)["b"]
    assert list(job)[1:10] == ["files", "bytes", "rows", "ranks_seen", "ranks_expected", "missing_ranks",
                               "truncated_files", "unreadable_files", "skipped_rows"]
    assert (job["ranks_seen"], job["ranks_expected"], job["missing_ranks"]) == (3, 4, [3])


def test_damage_is_told_of_the_job_that_has_it(cep, tmp_path):
    a, b = two_jobs(tmp_path, {})
    with open(tmp_path / "b" / "cuda_events_rank_3.jsonl", "ab") as file:
        file.write(b'{"name":"forward","st')
    done = cep("compare", a, b)
    assert done.stderr.startswith(b"cep compare: B: 1 file cut off")
    cep("compare", "--strict", a, b, status=4)
    os.remove(tmp_path / "b" / "cuda_events_rank_3.jsonl")
    assert b"compare: B: 3 of 4 ranks" in cep("compare", a, b).stderr


def test_beyond_the_budget_nothing_is_guessed(cep, tmp_path):
    a, b = two_jobs(tmp_path, {})
    done = cep("compare", "--max-samples", 100, a, b, status=2)
    assert b"a comparison needs every one" in done.stderr and done.stdout == b""


def test_nothing_readable(cep, tmp_path):
    a, _ = two_jobs(tmp_path, {})
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "b").mkdir()
    assert b"no rows in B" in cep("compare", a, "b", status=3).stderr


@pytest.mark.parametrize("arguments", [
    [], ["job"], ["job", "job", "job"], ["--json", "--csv", "job", "job"], ["--block", "0", "job", "job"],
    ["--threshold", "x", "job", "job"], ["--threshold", "-1%", "job", "job"], ["--fail-on", "bound", "job", "job"],
    ["--attempt", "first", "job", "job"], ["--limit", "-1", "job", "job"], ["--max-samples", "-1", "job", "job"], ["--steps", "9:1", "job", "job"],
])
def test_wrong_usage_has_status_2(cep, four_ranks, arguments):
    done = cep("compare", *arguments, status=2)
    assert done.stdout == b"" and done.stderr.startswith(b"cep")


def test_help_knows_the_command(cep):
    assert "  compare " in cep("--help").stdout.decode()
    assert "  cep compare " in cep("compare", "--help").stdout.decode().split("Examples:")[1]
