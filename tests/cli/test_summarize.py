# SPDX-License-Identifier: Apache-2.0
"""Every number of a summary, computed again with NumPy from the rows."""

import csv
import io
import json
import random

import numpy as np
import pytest
from conftest import START_NS, attempt_rows, run_row, span_row, stats_row
from ledger_reference import kept_steps, recorded_ms, work_ms


def expected_phase(spans, name):
    of_phase = [row for row in spans if row["name"] == name]
    values = np.array([row["duration_ms"] for row in of_phase], dtype=float)
    p50, p90, p99 = np.percentile(values, [50, 90, 99])
    return {
        "count": len(values), "ranks": len({row["rank"] for row in of_phase}), "mean_ms": values.mean(),
        "sd_ms": values.std(ddof=1) if len(values) > 1 else None, "p50_ms": p50, "p90_ms": p90, "p99_ms": p99,
        "min_ms": values.min(), "max_ms": values.max(), "total_ms": values.sum(),
    }


def assert_phases(summary, spans):
    """But for shares, and what compares ranks."""
    assert {phase["name"] for phase in summary["phases"]} == {row["name"] for row in spans}
    for phase in summary["phases"]:
        for key, value in expected_phase(spans, phase["name"]).items():
            assert phase[key] == (value if value is None else pytest.approx(value, rel=1e-12)), (phase["name"], key)


def test_no_rank_is_the_slowest_where_all_are_alike(cep, job):
    for rank in range(2):
        spans = [span_row(rank, step, "forward", 10.0 + 0.04 * rank, START_NS + step * 10**8) for step in range(20)]
        job.write(rank, [run_row(rank, world_size=2), *spans])
    (line,) = [line for line in cep("summarize", "job").stdout.decode().splitlines() if line.startswith("forward ")]
    assert line.split()[-2:] == ["-", "1.00"]


def test_a_step_that_did_not_finish_has_no_duration(cep, job):
    """As the last one of a script that `cep run` records: its row ends with the script."""
    for rank, forward_ms in enumerate((1.0, 21.0)):
        spans = []
        for step in range(40):
            at_ns = START_NS + step * 30 * 10**6
            wait_ms = 22.0 - forward_ms
            last = {"error": "NotFinished"} if step == 39 else {}
            spans += [
                span_row(rank, step, "forward", forward_ms, at_ns, kind="compute", depth=1),
                span_row(rank, step, "all_reduce", wait_ms, at_ns + int(forward_ms * 1e6), kind="comm", group="world", coll=step,
                         depth=1),
                span_row(rank, step, "training_step", 700.0 if last else 23.0, at_ns, kind="step", depth=0, **last),
            ]  # fmt: skip
        job.write(rank, [run_row(rank, world_size=2), *spans])
    summary = cep.summary("job")
    assert phase_of(summary, "training_step")["max_ms"] == 23.0 and phase_of(summary, "forward")["count"] == 80
    assert summary["verdict"]["job_slowdown"] == pytest.approx(30 / 10, rel=0.02)


@pytest.mark.parametrize("phases", [("forward", "forward"), ("all_reduce", "forward"), ("all_reduce", "all_reduce")])
def test_a_phase_in_whose_middle_a_script_ends_counts_nowhere(cep, job, phases):
    """By rank, the phase of the last step in which it ends; rank 1 is slow in all others."""
    for rank, (forward_ms, last_phase) in enumerate(zip((2.0, 22.0), phases)):
        spans = []
        for step in range(40):
            at_ns = START_NS + step * 30 * 10**6
            rows = [("forward", at_ns, forward_ms, {"kind": "compute", "depth": 1}),
                    ("all_reduce", at_ns + int(forward_ms * 1e6), 23.0 - forward_ms,
                     {"kind": "comm", "group": "world", "coll": step, "depth": 1}),
                    ("training_step", at_ns, 24.0, {"kind": "step", "depth": 0})]  # fmt: skip
            for name, start_ns, ms, more in rows:
                ends = step == 39 and name in (last_phase, "training_step")
                if step < 39 or ends or (name, last_phase) == ("forward", "all_reduce"):
                    spans.append(span_row(rank, step, name, 700.0 if ends else ms, start_ns, **more,
                                          **({"error": "NotFinished"} if ends else {})))
        job.write(rank, [run_row(rank, world_size=2), *spans])
    summary = cep.summary("job")
    ended = [phases.count(name) for name in ("forward", "all_reduce")]
    assert phase_of(summary, "forward")["count"] == 80 - ended[0] and phase_of(summary, "forward")["max_ms"] == 22.0
    assert phase_of(summary, "all_reduce")["count"] == 78 and phase_of(summary, "all_reduce")["max_ms"] == 21.0
    verdict = summary["verdict"]
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"]) == ([1], "forward")
    assert verdict["job_slowdown"] == pytest.approx(30 / 10, rel=0.05)
    assert verdict["events"]["unmarked_steps"] == [] and verdict["changes"] == []


def assert_slowest(summary, spans):
    """By own work, which is kept in single precision."""
    for phase in summary["phases"]:
        own_ms = work_ms(spans, phase["name"])
        slowest = max(sorted(own_ms), key=lambda rank: own_ms[rank])
        assert phase["slowest_rank"] == slowest, phase["name"]
        skew = own_ms[slowest] / np.median(list(own_ms.values()))
        assert phase["skew"] == pytest.approx(skew, rel=1e-6), phase["name"]


def assert_shares(summary, spans, counted):
    """For phases that nothing hides. Some of their rows may count; but a step ends where any other begins."""
    whole_ms = recorded_ms(spans, counted)
    for phase in summary["phases"]:
        total_ms = sum(row["duration_ms"] for row in counted if row["name"] == phase["name"])
        assert phase["share"] == pytest.approx(total_ms / whole_ms, rel=1e-6), phase["name"]


def assert_table(summary, spans, counted=None):
    counted = spans if counted is None else counted
    assert_phases(summary, counted)
    assert_slowest(summary, counted)
    assert_shares(summary, spans, counted)


def phase_of(summary, name):
    return next(phase for phase in summary["phases"] if phase["name"] == name)


def without_files(summary):
    return {**summary, "inputs": {**summary["inputs"], "files": 0, "bytes": 0}}


def last_attempt(spans):
    return [row for row in spans if (row["start_ns"] < START_NS + 2 * 10**13) == (row["step"] < 40)]


def test_statistics_agree_with_numpy(cep, four_ranks):
    summary = cep.summary("job")
    assert_table(summary, four_ranks.spans())
    assert phase_of(summary, "backward")["slowest_rank"] == 2
    assert phase_of(summary, "backward")["skew"] > 1.3


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 100, 101])
def test_percentiles_agree_with_numpy_for_any_count(cep, job, count):
    rng = random.Random(count)
    job.write(0, [span_row(0, s, "f", round(rng.expovariate(0.1), 6), START_NS + s) for s in range(count)])
    summary = cep.summary("job")
    assert_phases(summary, job.spans())
    assert_slowest(summary, job.spans())


def test_share_is_of_all_recorded_time(cep, job):
    """Also that of ranks and steps without a step span; a step goes on until the next one begins."""
    at = [START_NS + ms * 10**6 for ms in (0, 200, 600)]
    job.write(0, [span_row(0, 1, "step", 100.0, at[0], kind="step", depth=0), span_row(0, 1, "f", 25.0, at[0]),
                  span_row(0, 2, "f", 300.0, at[1]), span_row(0, 3, "g", 50.0, at[2])])
    job.write(1, [span_row(1, 1, "f", 150.0, at[0])])
    summary = cep.summary("job")
    assert_shares(summary, job.spans(), job.spans())
    assert phase_of(summary, "f")["share"] == pytest.approx((25 + 300 + 150) / (650 + 150))


def test_share_is_without_what_is_hidden(cep, job):
    job.write(0, [span_row(0, 1, "f", 30.0, START_NS, depth=0), span_row(0, 1, "inner", 20.0, START_NS, depth=1),
                  span_row(0, 1, "load", 40.0, START_NS, depth=0, kind="data")])
    summary = cep.summary("job")
    assert {phase["name"]: phase["share"] for phase in summary["phases"]} == {
        "f": pytest.approx(0.75), "inner": 0, "load": pytest.approx(0.25)}


def test_share_of_chosen_phases_needs_step_spans_among_them(cep, four_ranks):
    assert phase_of(cep.summary("--phases", "forward", "job"), "forward")["share"] is None
    with_steps = cep.summary("--phases", "forward,training_step", "job")
    assert phase_of(with_steps, "forward")["share"] == phase_of(cep.summary("job"), "forward")["share"]


def test_rows_of_other_profilers_are_read(cep, job):
    rng = random.Random(5)
    rows = [{"duration_ms": rng.choice([3, 2.5, rng.random()]), "name": n, "rank": 0, "step": s, "loss": 2.5, "tag": "x"}
            for s in range(50) for n in ("forward", "all_reduce", "dataloader")]
    job.write(0, rows)
    summary = cep.summary("job")
    assert_phases(summary, rows)
    assert_slowest(summary, rows)
    assert {p["name"]: (p["kind"], p["clock"]) for p in summary["phases"]} == {
        "forward": ("compute", None), "all_reduce": ("comm", None), "dataloader": ("data", None)}
    assert sum(phase["share"] for phase in summary["phases"]) == pytest.approx(1)
    assert summary["inputs"]["runs"] == 0


def test_window_and_inputs(cep, four_ranks):
    summary = cep.summary("job")
    assert summary["schema"] == "cep.summary/1"
    assert summary["window"] == {"first_step": 0, "last_step": 29, "steps": 30, "stride": 1}
    inputs = summary["inputs"]
    assert (inputs["files"], inputs["rows"]) == (4, len(four_ranks.rows))
    assert inputs["bytes"] == sum(four_ranks.path(rank).stat().st_size for rank in range(4))
    assert (inputs["ranks_seen"], inputs["ranks_expected"], inputs["missing_ranks"]) == (4, 4, [])
    assert (inputs["truncated_files"], inputs["skipped_rows"], inputs["duplicate_rows"], inputs["runs"]) == (0, 0, 0, 1)
    assert [one["rank"] for one in summary["verdict"]["stragglers"]] == [2]
    assert set(summary["efficiency"].values()) == {None}


def test_repeated_steps_count_with_their_last_attempt(cep, resumed):
    summary = cep.summary("job")
    assert_table(summary, resumed.spans(), last_attempt(resumed.spans()))
    assert summary["inputs"]["runs"] == 2
    assert summary["inputs"]["superseded_rows"] == 2 * 20 * 4


def test_all_attempts_count_when_asked(cep, resumed):
    assert_phases(cep.summary("--attempt", "all", "job"), resumed.spans())


def test_one_attempt_counts_when_asked(cep, resumed):
    first = [row for row in resumed.spans() if row["start_ns"] < START_NS + 2 * 10**13]
    assert_table(cep.summary("--attempt", "1", "job"), first)


def test_merged_file_summarizes_as_the_files(cep, resumed, tmp_path):
    cep("merge", "-o", "all.jsonl", "job")
    assert without_files(cep.summary("all.jsonl")) == without_files(cep.summary("job"))


def test_a_step_that_a_shorter_second_attempt_did_not_reach_stays(cep, job):
    rng = random.Random(2)
    job.write(0, attempt_rows(0, range(50), rng=rng))
    job.write(0, attempt_rows(0, range(40, 45), rng=rng, attempt=2))
    summary = cep.summary("job")
    assert phase_of(summary, "forward")["count"] == 50
    assert summary["inputs"]["superseded_rows"] == 5 * 4


def test_run_row_repeated_with_more_metadata_is_no_new_run(cep, job):
    rows = attempt_rows(0, range(10), rng=random.Random(1))
    job.write(0, [*rows[:9], {**rows[0], "flops_per_step": 1e12}, *rows[9:]])
    summary = cep.summary("job")
    assert summary["inputs"]["runs"] == 1
    assert phase_of(summary, "forward")["count"] == 10


def test_the_order_of_the_steps_in_a_file_changes_no_figure(cep, four_ranks):
    """To the last bit: sums are made in the order of the steps."""
    ascending = cep("summarize", "--json", "job").stdout
    for rank in range(4):
        rows = [json.loads(line) for line in four_ranks.path(rank).read_text().splitlines()]
        order = random.Random(rank).sample(range(30), 30)
        rows.sort(key=lambda row: order.index(row["step"]) if row.get("type") is None else 30 if row["type"] == "stats" else -1)
        four_ranks.path(rank).write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    assert cep("summarize", "--json", "job").stdout == ascending


def test_a_copy_of_a_rank_file_is_counted_and_not_counted_twice(cep, four_ranks, tmp_path):
    (tmp_path / "copy.jsonl").write_bytes(four_ranks.path(1).read_bytes())
    summary = cep.summary("job", "copy.jsonl")
    assert_table(summary, four_ranks.spans())
    assert summary["inputs"]["duplicate_rows"] == 30 * 4


def test_copies_inside_a_merged_file_are_not_counted_twice(cep, four_ranks, tmp_path):
    (tmp_path / "copy.jsonl").write_bytes(four_ranks.path(1).read_bytes())
    cep("merge", "-o", "all.jsonl", "job", "copy.jsonl")
    summary = cep.summary("all.jsonl")
    assert_table(summary, four_ranks.spans())
    assert summary["inputs"]["duplicate_rows"] == 30 * 4


def test_equal_rows_without_run_rows_all_count(cep, job):
    job.write(0, [{"duration_ms": 1.5, "name": "f", "rank": 0, "step": 3}] * 4)
    assert phase_of(cep.summary("job"), "f")["count"] == 4


def test_the_same_file_named_twice_is_read_once(cep, four_ranks):
    done = cep("summarize", "--json", "job", four_ranks.path(0))
    assert b"1 file named more than once" in done.stderr
    assert done.stdout == cep("summarize", "--json", "job").stdout


def test_numbers_beyond_double_precision_stay_exact(cep, job):
    big = 2**53 + 1
    job.write(0, [span_row(big, step, "f", 1.0, START_NS) for step in (big, big + 2)])
    summary = cep.summary("job")
    assert (summary["window"]["first_step"], summary["window"]["last_step"]) == (big, big + 2)
    assert summary["window"]["steps"] == 2
    assert summary["phases"][0]["slowest_rank"] == big


def test_loss_is_summed_over_attempts_from_their_last_rows(cep, job):
    def dropped(ring):
        return {"ring": ring, "slots": 1, "pool": 0, "file": 0, "io": 0, "meta": 7}
    job.write(0, [run_row(0), stats_row(0, 1, dropped=dropped(5), recorded=5),
                  stats_row(0, 2, dropped=dropped(10), recorded=9, abandoned=2, cuda_errors=3, capture_skipped=4),
                  run_row(0, attempt=2, start_unix_ns=START_NS + 9), span_row(0, 3, "f", 1.0, START_NS + 10),
                  stats_row(0, 3, attempt=2, start_ns=START_NS + 20, dropped=dropped(100))])
    loss = cep.summary("job")["loss"]
    assert (loss["dropped"], loss["abandoned"], loss["errors"], loss["capture_skipped"]) == (112, 2, 3, 4)
    assert loss["dropped_by_cause"]["ring"] == 110
    assert loss["without_metadata"] == 14
    assert b"112 dropped (ring full 110, too many open 2)" in cep("summarize", "job").stdout


def open_row(name, step, start_ns, elapsed_ms):
    return {"type": "open", "name": name, "step": step, "rank": 0, "start_ns": start_ns, "elapsed_ms": elapsed_ms,
            "kind": "compute", "clock": "host"}


def test_a_span_that_never_ended_is_named(cep, job):
    job.write(0, [run_row(0), open_row("backward", 7, START_NS + 5, 900.0), open_row("backward", 7, START_NS + 5, 1900.0)])
    assert cep.summary("job")["open_spans"] == [
        {"name": "backward", "rank": 0, "step": 7, "attempt": 1, "elapsed_ms": 1900}]
    assert b"backward on rank 0 in step 7 never ended" in cep("summarize", "job").stdout


def test_a_span_that_ended_after_its_open_row_is_not_open(cep, job):
    ended = span_row(0, 7, "backward", 2000.0, START_NS + 400_000, clock="gpu", lag_ms=0.4)
    other = span_row(0, 7, "backward", 1.0, START_NS - 10**9)
    job.write(0, [run_row(0), open_row("backward", 7, START_NS, 900.0), other, ended])
    assert cep.summary("job")["open_spans"] == []


def test_marks_are_listed(cep, job):
    job.write(0, [{"type": "mark", "name": "checkpoint", "step": step, "rank": 0, "start_ns": START_NS} for step in (3, 9)])
    assert cep.summary("job")["marks"] == [{"name": "checkpoint", "count": 2, "ranks": 1, "steps": [3, 9]}]


def test_filters(cep, four_ranks):
    summary = cep.summary("--steps", "10:19", "--ranks", "1-2", "--phases", "forward", "job")
    wanted = [row for row in four_ranks.spans()
              if 10 <= row["step"] <= 19 and row["rank"] in (1, 2) and row["name"] == "forward"]
    assert_phases(summary, wanted)
    assert_slowest(summary, wanted)
    assert (summary["inputs"]["ranks_expected"], summary["inputs"]["missing_ranks"]) == (2, [])


def test_a_rank_without_the_phase_asked_for_is_not_missing(cep, job):
    for rank in range(2):
        job.write(rank, [{"duration_ms": 1.5, "name": f"only_on_{rank}", "rank": rank, "step": 3}])
    inputs = cep.summary("--phases", "only_on_0", "job")["inputs"]
    assert (inputs["ranks_seen"], inputs["missing_ranks"]) == (2, [])


def test_ranks_switched_off_by_configuration_are_not_missing(cep, job):
    config = {"record_every_n_steps": 1, "ranks": [0, 5]}
    job.write(0, [run_row(0, world_size=8, config=config), span_row(0, 1, "f", 1.0, START_NS + 1)])
    assert cep.summary("job")["inputs"]["missing_ranks"] == [5]


def test_gaps_between_ranks_are_missing_without_run_rows(cep, job):
    for rank in (0, 3):
        job.write(rank, [{"duration_ms": 1.5, "name": "f", "rank": rank, "step": 3}])
    assert cep.summary("job")["inputs"]["missing_ranks"] == [1, 2]


def test_beyond_the_budget_percentiles_are_of_the_steps_that_are_kept(cep, four_ranks):
    exact = cep.summary("job")
    rough = cep.summary("--max-samples", "50", "job")
    assert (exact["approximate"], rough["approximate"]) == (False, True)
    kept = kept_steps(range(30), rough["ledger"]["recorded_steps"])
    for one, other in zip(exact["phases"], rough["phases"]):
        values = [r["duration_ms"] for r in four_ranks.spans() if r["name"] == one["name"] and r["step"] in kept]
        for key, q in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99)):
            assert other[key] == pytest.approx(np.quantile(values, q), rel=1e-9)
        for key in ("count", "min_ms", "max_ms"):
            assert one[key] == other[key]
        assert one["total_ms"] == pytest.approx(other["total_ms"], rel=1e-12)
    # Own work is known of steps that are kept, and step spans, which have none, of all.
    assert_slowest(rough, [row for row in four_ranks.spans() if row["kind"] == "step" or row["step"] in kept])
    assert b"percentiles are of whole steps" in cep("summarize", "--max-samples", "50", "job").stdout


def test_csv_has_the_numbers_of_json(cep, four_ranks):
    text = cep("summarize", "--csv", "job").stdout.decode()
    assert text.count("\r\n") == text.count("\n") == 5
    for keys in (text, ",".join(cep.summary("job")["phases"][0])):
        assert ",mean_ms,sd_ms,p50_ms," in keys
    for row, phase in zip(csv.DictReader(io.StringIO(text)), cep.summary("job")["phases"]):
        assert {key: phase[key] if key in ("name", "kind", "clock") else float(row[key]) for key in row} == {
            key: phase[key] for key in row}
        assert row["name"] == phase["name"]


def test_csv_quotes_names(cep, job):
    name = 'a "b", c'
    job.write(0, [span_row(0, 1, name, 1.0, START_NS)])
    rows = list(csv.reader(io.StringIO(cep("summarize", "--csv", "job").stdout.decode(), newline="")))
    assert rows[1][0] == name


def test_markdown_is_one_table(cep, job):
    job.write(0, [span_row(0, 1, "a|b", 1.0, START_NS)])
    lines = cep("summarize", "--markdown", "job").stdout.decode().splitlines()
    lines = [line for line in lines if line.startswith("|")]
    assert len(lines) == 3
    assert lines[0].startswith("| phase | kind |") and lines[2].startswith("| a\\|b | compute | host | 1 |")
    assert lines[1].count("|") == lines[0].count("|")


def test_table_columns_line_up(cep, four_ranks):
    lines = cep("summarize", "job").stdout.decode().split("\n\n")[-1].splitlines()
    assert len(lines) == 5
    assert len({len(line) for line in lines}) == 1
    assert " ms" in lines[1] and " %" in lines[1]


def test_control_characters_of_names_do_not_reach_the_terminal(cep, job):
    job.write(0, [span_row(0, 1, "a\x1b[31mb", 1.0, START_NS)])
    assert b"\x1b" not in cep("summarize", "job").stdout


def test_colours_only_where_asked(cep, four_ranks):
    assert b"\x1b[1m" in cep("summarize", "--color", "always", "job").stdout
    assert b"\x1b" not in cep("summarize", "--color", "auto", "job").stdout
    assert b"\x1b" not in cep("summarize", "--color", "never", "job").stdout
