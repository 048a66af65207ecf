# SPDX-License-Identifier: Apache-2.0
"""Jobs with more durations than are kept: verdict and percentiles are of whole steps that a hash of their number chooses."""

import functools
import html
import json
import re
from collections import Counter

import numpy as np
import pytest
from array_jobs import own_times, write_job
from conftest import as_rows, line_of, names_of, run_row
from ledger_reference import by_step, end_ns, kept_steps, visible_ms

RANKS, STEPS = 8, 4000
BUDGET = 25_000  # of 160,000 durations, 5 a step: 1 step of 8 is kept


def verdict_of(cep, *arguments):
    return cep.summary("--max-samples", BUDGET, *arguments, "job")["verdict"]


@pytest.fixture
def own():
    return own_times(RANKS, STEPS)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A healthy job, and one with a slow rank."""
    folder, own = tmp_path_factory.mktemp("written"), own_times(RANKS, STEPS)
    write_job(folder / "healthy", own)
    own["forward"][5] *= 1.2
    write_job(folder / "slow", own)
    return folder


@pytest.fixture
def healthy(tmp_path, written):
    (tmp_path / "job").symlink_to(written / "healthy")


@pytest.fixture
def slow(tmp_path, written):
    (tmp_path / "job").symlink_to(written / "slow")


def gpu_hours(own, rank):
    """That all ranks lose to this one."""
    work = sum(own.values())
    return np.maximum(0, work[rank] - np.delete(work, rank, axis=0).max(axis=0)).sum() * RANKS / 3.6e6


def test_a_slow_rank_is_found_and_sums_are_of_all_steps(cep, slow):
    verdict = verdict_of(cep)
    assert names_of(verdict) == [(5, "forward", "persistent")]
    assert verdict["all_steps"] == STEPS and 256 <= verdict["steps_used"] <= BUDGET / RANKS / 5
    exact = cep.summary("job")["verdict"]
    assert exact["steps_used"] == exact["all_steps"] == STEPS
    assert verdict["gpu_hours_lost"] == pytest.approx(exact["gpu_hours_lost"], rel=0.02)
    assert verdict["job_slowdown"] == pytest.approx(exact["job_slowdown"], rel=0.005)
    assert verdict["replay"]["slowdown"] == pytest.approx(exact["replay"]["slowdown"], rel=0.01)
    assert [cause["ranks"] for cause in verdict["causes"]][:1] == [[5]]


def test_the_steps_used_are_said(cep, healthy):
    verdict = verdict_of(cep)
    text = cep("summarize", "--max-samples", BUDGET, "job").stdout.decode()
    assert f"the verdict is from {verdict['steps_used']} of the 4,000 steps, chosen by a hash of their number" in text
    assert "chosen by a hash" not in cep("summarize", "job").stdout.decode()


def test_a_fault_in_every_second_step_is_found(cep, tmp_path, own):
    own["backward"][3, 1::2] *= 1.3
    write_job(tmp_path / "job", own)
    verdict = verdict_of(cep)
    assert names_of(verdict) == [(3, "backward", "intermittent")]
    assert verdict["stragglers"][0]["step_fraction"] == pytest.approx(0.5, abs=0.07)
    assert verdict["gpu_hours_lost"] == pytest.approx(gpu_hours(own, 3), rel=0.15)


@pytest.mark.parametrize("period", [3, 4, 8, 10, 16, 64])
def test_no_period_is_kept_always_or_never(cep, tmp_path, own, period):
    own["forward"][2, ::period] += 60
    write_job(tmp_path / "job", own)
    verdict = verdict_of(cep)
    assert [one["rank"] for one in verdict["stragglers"]] == [2]
    assert verdict["stragglers"][0]["step_fraction"] == pytest.approx(1 / period, rel=0.4)


def test_a_window_keeps_its_steps(cep, tmp_path, own):
    own["forward"][6, 1600:1900] *= 1.6
    write_job(tmp_path / "job", own)
    verdict = verdict_of(cep)
    assert names_of(verdict) == [(6, "forward", "window")]
    (straggler,) = verdict["stragglers"]
    assert 1600 <= straggler["first_step"] < 1650 and 1850 < straggler["last_step"] < 1900
    assert verdict["gpu_hours_lost"] == pytest.approx(gpu_hours(own, 6), rel=0.3)


def test_a_healthy_job_stays_healthy(cep, healthy):
    verdict = verdict_of(cep)
    assert verdict["stragglers"] == [] and not verdict["abstained"] and verdict["changes"] == []


def test_a_change_of_all_ranks_is_found_where_it_is(cep, tmp_path, own):
    own["backward"][:, 2500:] *= 1.2
    write_job(tmp_path / "job", own)
    (change,) = verdict_of(cep)["changes"]
    assert 2500 <= change["step"] < 2540 and change["phase"] == "backward"


@functools.lru_cache(maxsize=1)  # reading a job takes longer than the commands
def rows_of(folder):
    return [row for path in folder.iterdir() for row in as_rows(path.read_bytes())]


def durations_ms(folder, name, kept):
    rows = rows_of(folder.resolve())
    return np.array([row["duration_ms"] for row in rows if row.get("name") == name and row["step"] in kept])


def expected_shares(folder, kept):
    """For steps that are kept. One goes on until the next begins, or to its last row where that one is not kept."""
    steps = by_step(row for row in rows_of(folder.resolve()) if row["step"] in kept)
    firsts = {key: min(row["start_ns"] for row in of_step) for key, of_step in steps.items()}
    whole_ms, total_ms = 0.0, Counter()
    for (*rank, step), of_step in steps.items():
        next_ns = firsts.get((*rank, step + 1)) or max(map(end_ns, of_step))
        whole_ms += (next_ns - firsts[*rank, step]) * 1e-6
        total_ms.update(visible_ms(of_step))
        total_ms["training_step"] += sum(row["duration_ms"] for row in of_step if row["kind"] == "step")
    return {name: ms / whole_ms for name, ms in total_ms.items()}


@pytest.mark.parametrize("limit", [(), ("--max-samples", BUDGET)])
def test_shares_are_of_the_steps_that_are_kept(cep, tmp_path, slow, limit):
    summary = cep.summary(*limit, "job")
    kept = kept_steps(range(STEPS), summary["ledger"]["recorded_steps"])
    assert len(kept) == STEPS if not limit else 256 <= len(kept) < STEPS / 4
    expected = expected_shares(tmp_path / "job", kept)
    for phase in summary["phases"]:
        assert phase["share"] == pytest.approx(expected[phase["name"]], rel=1e-6)


def test_sums_of_tables_are_of_all_rows_and_percentiles_of_the_steps_that_are_kept(cep, tmp_path, slow):
    rough, exact = (cep.summary(*arguments, "job") for arguments in (("--max-samples", BUDGET), ()))
    assert rough["approximate"] and not exact["approximate"]
    for one, other in zip(rough["phases"], exact["phases"], strict=True):
        for key in ("name", "count", "ranks", "min_ms", "max_ms"):
            assert one[key] == other[key]
        for key in ("total_ms", "mean_ms"):  # sums in another order
            assert one[key] == pytest.approx(other[key], rel=1e-12)
        of_kept = durations_ms(tmp_path / "job", one["name"], kept_steps(range(STEPS), rough["ledger"]["recorded_steps"]))
        for key, q in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99)):
            assert one[key] == pytest.approx(np.quantile(of_kept, q), rel=1e-12)
        deviations = np.square(of_kept - one["mean_ms"])
        assert one["sd_ms"] == pytest.approx(np.sqrt(deviations.sum() / (len(of_kept) - 1)), rel=1e-9)
    assert {phase["name"]: phase["slowest_rank"] for phase in rough["phases"]}["forward"] == 5


def test_sums_of_comm_metrics_and_report_are_of_all_rows(cep, tmp_path, healthy):
    def figures(*arguments):
        comm = json.loads(cep("comm", "--json", *arguments, "job").stdout)
        (model,) = comm["models"]
        cep("report", "-o", "page.html", *arguments, "job")
        page = html.unescape(re.sub(r"<[^>]*>", " ", (tmp_path / "page.html").read_text()))
        metrics = cep("metrics", *arguments, "job").stdout.decode()
        sums = re.findall(r"^(cep_phase_seconds_(?:sum|count)\{.*\}) (\S+)$", metrics, re.MULTILINE)
        compute = float(re.search(r"\bcompute\s+([\d.]+)\s(?:s|min)\b", page)[1])
        return {"comm": (model["total_ms"], model["spans"]), "metrics": {key: float(value) for key, value in sums},
                "estimates": (model["wait_of_step"], compute)}

    exact, rough = figures(), figures("--max-samples", BUDGET)
    assert rough["comm"] == pytest.approx(exact["comm"], rel=1e-12) and len(exact["metrics"]) >= 10
    assert rough["metrics"] == pytest.approx(exact["metrics"], rel=1e-12)
    assert rough["estimates"] == pytest.approx(exact["estimates"], rel=0.1)


def test_a_phase_of_no_step_that_is_kept_has_sums_and_no_percentiles(cep, tmp_path, own):
    write_job(tmp_path / "job", own)
    kept = kept_steps(range(STEPS), cep.summary("--max-samples", BUDGET, "job")["ledger"]["recorded_steps"])
    step = next(step for step in range(1, STEPS) if step not in kept)
    with (tmp_path / "job" / "cuda_events_rank_3.jsonl").open("ab") as file:
        file.write(line_of({"name": "rare", "step": step, "rank": 3, "duration_ms": 7.5}).encode())
    (rare,) = (phase for phase in cep.summary("--max-samples", BUDGET, "job")["phases"] if phase["name"] == "rare")
    assert (rare["count"], rare["mean_ms"], rare["max_ms"], rare["p50_ms"], rare["p99_ms"]) == (1, 7.5, 7.5, None, None)
    for options in ([], ["--csv"], ["--markdown"], ["--by", "rank"]):
        text = cep("summarize", "--max-samples", BUDGET, *options, "job").stdout.decode()
        assert "nan" not in text.lower()
    assert b"percentiles are of whole steps, chosen by a hash" in cep("summarize", "--max-samples", BUDGET, "job").stdout


def test_however_it_is_read_the_same_steps_are_kept(cep, tmp_path, slow):
    limit = ("--max-samples", str(BUDGET))
    files = [f"job/cuda_events_rank_{rank}.jsonl" for rank in range(RANKS)]
    whole = cep("summarize", "--json", *limit, "job").stdout
    for count in (1, 2, 7):
        assert cep("summarize", "--json", *limit, "-j", count, *reversed(files)).stdout == whole
    rows = b"".join((tmp_path / name).read_bytes() for name in files)
    joined = cep.summary(*limit, "-", stdin=rows)
    assert joined["verdict"] == cep.summary(*limit, "job")["verdict"]


def test_steps_that_a_later_attempt_repeated_count_once(cep, tmp_path, own):
    own["forward"][5, 2000:] *= 1.2  # after the restart from step 2,000
    write_job(tmp_path / "job", {name: ms[:, :3000] for name, ms in own.items()},
              run=lambda rank: line_of(run_row(rank, world_size=RANKS)))
    slow = {name: ms[:, 2000:] for name, ms in own.items()}
    write_job(tmp_path / "second", slow, first_step=2000,
              run=lambda rank: line_of(run_row(rank, world_size=RANKS, attempt=2)))
    for rank in range(RANKS):
        name = f"cuda_events_rank_{rank}.jsonl"
        with (tmp_path / "job" / name).open("ab") as file:
            file.write((tmp_path / "second" / name).read_bytes())
    summary = cep.summary("--max-samples", BUDGET, "job")
    assert summary["verdict"]["all_steps"] == STEPS
    (straggler,) = summary["verdict"]["stragglers"]
    assert (straggler["rank"], straggler["pattern"]) == (5, "window")
    assert 2000 <= straggler["first_step"] < 2040


def test_thousands_of_ranks_keep_a_few_hundred_steps(cep, tmp_path):
    """Where the budget would leave fewer than 256 steps, four times as many durations are kept."""
    own = own_times(64, 600, {"forward": ("compute", 30.0)})
    own["forward"][40] *= 1.2
    write_job(tmp_path / "job", own)
    durations = 64 * 600 * 3
    verdict = cep.summary("--max-samples", durations // 4 + 1, "job")["verdict"]
    assert verdict["steps_used"] >= 256 and [one["rank"] for one in verdict["stragglers"]] == [40]
    few = cep.summary("--max-samples", durations // 16, "job")["verdict"]
    assert 64 < few["steps_used"] < 256 and [one["rank"] for one in few["stragglers"]] == [40]


def test_too_few_steps_give_no_verdict(cep, tmp_path):
    write_job(tmp_path / "job", own_times(8, 100))
    verdict = cep.summary("--max-samples", 50, "job")["verdict"]
    assert verdict["abstained"] and verdict["reason"] == "there are more durations than were kept"
