# SPDX-License-Identifier: Apache-2.0
"""cep compare: what it says of two jobs, in which form, and of which inputs."""

import csv
import io
import os
import random

import pytest
from compared_jobs import compare, phase_of, random_series, two_jobs, write
from conftest import Job, attempt_rows


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
    headline, because = text.split("\n\n")[:2]
    assert f"{headline} {'; '.join(line[10:] for line in because.splitlines())}." == report["headline"]
    assert " ~ [" in next(line for line in text.splitlines() if line.startswith("forward"))


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
    assert "no phase changed significantly" in report["headline"]


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
    assert "stragglers: none in A, rank 5 in forward in B" in report["headline"]
    assert "Stragglers" not in compare("slow", "slow")["headline"]


def test_a_new_bound_is_named(cep, compare):
    common = ("--ranks", 8, "--steps", 1500)
    cep("simulate", "-o", "before", "--seed", 1, *common)
    cep("simulate", "-o", "after", "--seed", 2, "--bandwidth-gb-per-s", 1, *common)
    report = compare("before", "after")
    assert (report["a"]["bound"], report["b"]["bound"]) == ("compute", "comm")
    assert "the bound changed from compute to comm" in report["headline"]


# ---- inputs and outputs


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
        assert float(row["b_mean_ms"]) == change["b"]["mean_ms"]
        assert float(row["b_p99_ms"]) == change["b"]["p99_ms"]
        assert float(row["change"]) == change["change"]
        assert float(row["p"]) == change["test"]["p"]
        assert [float(row["b_low_ms"]), float(row["b_high_ms"])] == change["b"]["median_interval_ms"]


def test_markdown_begins_with_the_sentence(compare, cep, tmp_path):
    a, b = two_jobs(tmp_path, {"backward": 1.1})
    text = cep("compare", "--markdown", a, b).stdout.decode()
    sentence, _ = compare(a, b)["headline"].split(". ", 1)
    assert text.startswith(f"# Comparison\n\n**{sentence}.**\n")
    assert "| phase | kind | A | B | change | p | typical | share |" in text


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
