# SPDX-License-Identifier: Apache-2.0
"""--by: the table of each rank, host and window of steps, computed again with NumPy from the rows."""

import csv
import io
import json
import random
from collections import defaultdict

import numpy as np
import pytest
from conftest import START_NS, attempt_rows, run_row, span_row
from ledger_reference import kept_steps, recorded_ms, work_ms


def window_key(width):
    return lambda row: (row["step"] // width * width, row["step"] // width * width + width - 1)


# How --by is spelt, the group of a row, and the keys of a group in the output.
GROUPINGS = {
    "rank": (lambda row: (row["rank"], f"node{row['rank'] // 4}"), ("rank", "host")),
    "host": (lambda row: (f"node{row['rank'] // 4}",), ("host",)),
    "step:7": (window_key(7), ("first_step", "last_step")),
    "step:100": (window_key(100), ("first_step", "last_step")),
    "step:1": (window_key(1), ("first_step", "last_step")),
}


@pytest.fixture
def six_ranks(job):
    rng = random.Random(31)
    for rank in range(6):
        slow = {"forward": 3.0} if rank == 4 else None
        job.write(rank, attempt_rows(rank, range(20 + rank), rng=rng, world_size=6, slow=slow))
    return job


def expected_groups(spans, key_of, keys):
    durations = defaultdict(list)
    for row in spans:
        durations[key_of(row), row["name"]].append(row)
    medians, compared = defaultdict(list), defaultdict(dict)
    for (key, name), rows in durations.items():
        medians[name].append(np.median([row["duration_ms"] for row in rows]))
        own_ms = work_ms(spans, name)[key[0]] if keys[0] == "rank" else np.mean([row["duration_ms"] for row in rows])
        compared[name][key] = own_ms
    expected = {}
    for (key, name), rows in durations.items():
        values = np.array([row["duration_ms"] for row in rows])
        by_rank = defaultdict(list)
        for row in rows:
            by_rank[row["rank"]].append(row["duration_ms"])
        rank_means = {rank: np.mean(v) for rank, v in by_rank.items()}
        slowest = max(sorted(rank_means), key=lambda rank: rank_means[rank])
        # Nothing hides a phase of this job.
        of_group = [row for row in spans if key_of(row) == key]
        share = None if len(keys) == 2 and keys[0] == "first_step" else values.sum() / recorded_ms(spans, of_group)
        p50, p90, p99 = np.percentile(values, [50, 90, 99])
        expected[(*key, name)] = {
            **dict(zip(keys, key)), "count": len(values), "ranks": len(by_rank), "mean_ms": values.mean(),
            "sd_ms": values.std(ddof=1) if len(values) > 1 else None, "p50_ms": p50,
            "p90_ms": p90, "p99_ms": p99, "min_ms": values.min(), "max_ms": values.max(), "total_ms": values.sum(),
            "share": share, "slowest_rank": slowest,
            "skew": rank_means[slowest] / np.median(list(rank_means.values())),
            "excess_ms": compared[name][key] - np.median(list(compared[name].values())),
            "median_ratio": p50 / np.median(medians[name]),
        }
    return expected


def key_of_group(group, keys):
    return (*(group[key] for key in keys), group["name"])


@pytest.mark.parametrize("by", GROUPINGS)
def test_groups_agree_with_numpy(cep, six_ranks, by):
    key_of, keys = GROUPINGS[by]
    summary = cep.summary("--by", by, "job")
    expected = expected_groups(six_ranks.spans(), key_of, keys)
    assert summary["by"] == by
    assert {key_of_group(group, keys) for group in summary["groups"]} == set(expected)
    assert len(summary["groups"]) == len(expected)
    for group in summary["groups"]:
        for key, value in expected[key_of_group(group, keys)].items():
            # Own work is kept in single precision. An excess is a difference of two such times.
            abs_error = 1e-6 * group["mean_ms"] if by == "rank" and key == "excess_ms" else 1e-12
            exact = value is None or isinstance(value, str)
            rel = 1e-6 if key == "share" else 1e-12
            assert group[key] == (value if exact else pytest.approx(value, rel=rel, abs=abs_error)), key


def test_shares_are_of_what_is_seen_on_the_rank(cep, job):
    """Rank 1 loads data beside its device; rank 0 waits for it."""
    for rank, begin_ms in ((0, 0), (1, 30)):
        rows = [run_row(rank, world_size=2)]
        for step in range(10):
            at_ns = START_NS + step * 100_000_000
            rows.append(span_row(rank, step, "load", 20.0, kind="data", clock="host", thread=7,
                                 start_ns=at_ns + begin_ms * 1_000_000))
            rows.append(span_row(rank, step, "forward", 80.0, kind="compute", start_ns=at_ns + 20_000_000))
        job.write(rank, rows)
    groups = cep.summary("--by", "rank", "job")["groups"]
    assert {(group["rank"], group["name"]): group["share"] for group in groups} == {
        (0, "load"): pytest.approx(0.2), (0, "forward"): pytest.approx(0.8),
        (1, "load"): pytest.approx(0, abs=1e-9), (1, "forward"): pytest.approx(80 / 98)}


@pytest.mark.parametrize("by", GROUPINGS)
def test_csv_has_all_the_groups_of_json(cep, six_ranks, by):
    groups = cep.summary("--by", by, "job")["groups"]
    text = cep("summarize", "--csv", "--by", by, "--limit", "1", "job").stdout.decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(groups)
    for row, group in zip(rows, groups):
        assert list(row) == list(group)
        assert list(row)[list(row).index("mean_ms") + 1] == "sd_ms"
        assert row == {key: str(value) if isinstance(value, str) else row[key] for key, value in group.items()}
        assert [float(row[k]) if row[k] else None for k, v in group.items() if not isinstance(v, str)] == [
            v for v in group.values() if not isinstance(v, str)]


def test_groups_come_in_the_order_of_the_group(cep, six_ranks):
    groups = cep.summary("--by", "rank", "job")["groups"]
    assert [group["rank"] for group in groups] == [rank for rank in range(6) for _ in range(4)]
    assert [group["name"] for group in groups[:4]] == ["training_step", "backward", "forward", "data_load"]


def test_phases_of_the_whole_are_the_same_with_groups(cep, six_ranks):
    plain = cep.summary("job")
    assert (plain["by"], plain["groups"]) == ("phase", [])
    for by in GROUPINGS:
        assert cep.summary("--by", by, "job")["phases"] == plain["phases"]
    assert cep("summarize", "--by", "phase", "job").stdout == cep("summarize", "job").stdout


def table_of(text):
    return text.split("\n\n")[-1].splitlines()


def test_text_shows_the_highest_excess_first(cep, six_ranks):
    lines = table_of(cep("summarize", "--by", "rank", "job").stdout.decode())
    assert lines[0].split()[:3] == ["rank", "host", "phase"]
    assert {(line.split()[0], line.split()[2]) for line in lines[1:3]} == {("4", "forward"), ("4", "training_step")}
    assert len(lines) == 1 + 6 * 4


@pytest.mark.parametrize("output", [[], ["--markdown"]])
def test_limit_says_how_many_lines_are_not_shown(cep, six_ranks, output):
    text = cep("summarize", "--no-verdict", "--by", "rank", "--limit", "3", *output, "job").stdout.decode()
    assert text.endswith("… 21 lines with a smaller excess not shown; --limit 0 shows all\n")
    assert sum("node" in line and "phase" not in line for line in text.splitlines()) == 3
    whole = cep("summarize", "--no-verdict", "--by", "rank", "--limit", "0", *output, "job").stdout.decode()
    assert "not shown" not in whole
    assert sum("node" in line and "phase" not in line for line in whole.splitlines()) == 24


def test_forty_lines_are_shown_by_default(cep, job):
    for rank in range(41):
        job.write(rank, [span_row(rank, 1, "f", 1.0 + rank, START_NS)])
    lines = table_of(cep("summarize", "--by", "rank", "job").stdout.decode())
    assert len(lines) == 1 + 40 + 1
    assert lines[-1].startswith("… 1 line ")
    assert [line.split()[0] for line in lines[1:-1]] == [str(rank) for rank in range(40, 0, -1)]


def test_windows_stay_in_the_order_of_time(cep, job):
    for step in range(50):
        job.write(0, [span_row(0, step, "f", 9.0 if step in (12, 37) else 1.0, START_NS + step)])
    lines = table_of(cep("summarize", "--by", "step:1", "--limit", "2", "job").stdout.decode())
    assert [line.split()[0] for line in lines[1:-1]] == ["12", "37"]


def test_windows_are_aligned_to_multiples_even_below_zero(cep, job):
    job.write(0, [span_row(0, step, "f", 1.0, START_NS) for step in (-101, -100, -1, 0, 99, 100, 250)])
    groups = cep.summary("--by", "step:100", "job")["groups"]
    assert [(g["first_step"], g["last_step"], g["count"]) for g in groups] == [
        (-200, -101, 1), (-100, -1, 2), (0, 99, 2), (100, 199, 1), (200, 299, 1)]


def test_windows_at_the_ends_of_integers(cep, job):
    job.write(0, [span_row(0, step, "f", 1.0, START_NS) for step in (-2**63, 2**63 - 1)])
    groups = cep.summary("--by", "step:1000", "job")["groups"]
    assert [(g["first_step"], g["last_step"]) for g in groups] == [
        (-2**63, -2**63 + 999), ((2**63 - 1) // 1000 * 1000, 2**63 - 1)]


def test_repeated_steps_count_once_in_their_group(cep, resumed):
    groups = cep.summary("--by", "step:20", "job")["groups"]
    assert {group["count"] for group in groups} == {2 * 20}


def test_a_rank_that_moved_counts_on_both_hosts(cep, job):
    job.write(0, [run_row(0, host="old"), span_row(0, 1, "f", 1.0, START_NS + 1),
                  run_row(0, host="new", attempt=2, start_unix_ns=START_NS + 10**12),
                  span_row(0, 2, "f", 3.0, START_NS + 2 * 10**12)])
    by_host = cep.summary("--by", "host", "job")["groups"]
    assert {group["host"]: group["mean_ms"] for group in by_host} == {"old": 1.0, "new": 3.0}
    assert [group["host"] for group in cep.summary("--by", "rank", "job")["groups"]] == ["new"]


def test_rows_without_a_host_are_a_group(cep, job):
    job.write(0, [{"duration_ms": 1.5, "name": "f", "rank": 0, "step": 3}])
    assert [group["host"] for group in cep.summary("--by", "host", "job")["groups"]] == [None]
    assert table_of(cep("summarize", "--by", "host", "job").stdout.decode())[1].split()[0] == "-"


def test_beyond_the_budget_percentiles_of_ranks_are_of_the_steps_that_are_kept_and_windows_refused(cep, six_ranks):
    exact = cep.summary("--by", "rank", "job")["groups"]
    summary = cep.summary("--by", "rank", "--max-samples", "60", "job")
    rough = summary["groups"]
    kept = kept_steps(range(25), summary["ledger"]["recorded_steps"])
    assert 1 < len(kept) < 15
    for one, other in zip(exact, rough):
        values = [row["duration_ms"] for row in six_ranks.spans()
                  if (row["rank"], row["name"]) == (one["rank"], one["name"]) and row["step"] in kept]
        assert (one["rank"], one["name"], one["count"], one["max_ms"]) == (
            other["rank"], other["name"], other["count"], other["max_ms"])
        assert other["p50_ms"] == pytest.approx(np.quantile(values, 0.5), rel=1e-9)
    done = cep("summarize", "--by", "step:7", "--max-samples", "10", "job", status=2)
    assert b"--by step:7 needs every duration" in done.stderr


@pytest.mark.parametrize("by", ["step", "step:", "step:0", "step:-5", "step:1.5", "step:9999999999999999999", "node"])
def test_what_is_no_grouping_is_refused(cep, six_ranks, by):
    done = cep("summarize", "--by", by, "job", status=2)
    assert done.stdout == b"" and b"is not one of phase, rank, host and step:N" in done.stderr


def test_filters_hold_for_groups(cep, six_ranks):
    summary = cep.summary("--by", "step:5", "--steps", "5:14", "--ranks", "1-2", "--phases", "forward", "job")
    assert [(g["first_step"], g["name"], g["count"], g["share"]) for g in summary["groups"]] == [
        (5, "forward", 10, None), (10, "forward", 10, None)]


def test_json_of_groups_is_one_object(cep, six_ranks):
    assert json.loads(cep("summarize", "--json", "--by", "host", "job").stdout)["schema"] == "cep.summary/1"
