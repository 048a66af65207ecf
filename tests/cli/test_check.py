# SPDX-License-Identifier: Apache-2.0
import random

from conftest import START_NS, attempt_rows, run_row, span_row, stats_row


def codes(report, file=None):
    findings = report["findings"] if file is None else report["files"][file]["findings"]
    return {finding["code"]: finding for finding in findings}


def test_good_files_are_fine(cep, four_ranks):
    report = cep.check("--strict", "job")
    assert (report["schema"], report["severity"], report["complete"]) == ("cep.check/1", "fine", True)
    assert [file["severity"] for file in report["files"]] == ["fine"] * 4
    text = cep("check", "job").stdout.decode()
    assert text.rstrip().endswith("verdict: complete")
    assert sum("cuda_events_rank_" in line for line in text.splitlines()) == 4


def test_rows_are_counted_by_type(cep, job):
    job.write(0, [run_row(0), span_row(0, 1, "f", 1.0, START_NS + 1), span_row(0, 2, "f", 1.0, START_NS + 2),
                  {"type": "counter", "name": "m", "step": 1, "rank": 0, "value": 1}, {"type": "new"}, stats_row(0, 2)])
    file = cep.check("job")["files"][0]
    assert file["rows_by_type"] == {"span": 2, "run": 1, "stats": 1, "counter": 1, "mark": 0, "open": 0, "unknown": 1}
    assert "unknown_type" in codes(cep.check("job"), 0)


def test_bad_rows_are_located(cep, four_ranks):
    with open(four_ranks.path(1), "ab") as file:
        file.write(b"bad\n{}\n")
    lines = len(four_ranks.path(1).read_bytes().splitlines())
    report = cep.check("job")
    assert report["files"][1]["damages"] == [{"line": lines - 1, "why": "not valid JSON"}, {"line": lines, "why": "no rank"}]
    assert report["severity"] == "damaged"
    assert f"cuda_events_rank_1.jsonl:{lines}: no rank" in cep("check", "job").stdout.decode()


def test_resumption_is_told(cep, resumed):
    report = cep.check("--strict", "job")
    assert report["severity"] == "note"
    assert codes(report, 0)["resumed"]["message"] == "resumed at step 40 in attempt 2, 20 steps done again"
    assert [a["repeated_steps"] for a in report["files"][0]["attempts"]] == [0, 20]


def test_resumption_is_told_of_a_merged_file(cep, resumed):
    cep("merge", "-o", "all.jsonl", "job")
    report = cep.check("all.jsonl")
    assert codes(report, 0)["resumed"]["message"] == "resumed at step 40 in attempt 2, 20 steps done again"


def test_resumption_without_run_rows_is_suspected(cep, job):
    job.write(0, [{"duration_ms": 1, "name": "f", "rank": 0, "step": step} for step in [*range(10), *range(5, 15)]])
    finding = codes(cep.check("job"), 0)["steps_back"]
    assert finding["line"] == 11
    assert finding["message"].startswith("steps go back from 9 to 5")


def test_a_span_that_is_written_late_takes_no_step_back(cep, job):
    rows = [span_row(0, step, "f", 1.0, START_NS + 10 * step) for step in (0, 1, 3, 4, 2, 5)]
    job.write(0, [run_row(0), *rows])
    assert "steps_back" not in codes(cep.check("job"), 0)


def test_a_clock_that_was_set_back_is_told(cep, job):
    hours_ns = 3600 * 10**9
    rows = [span_row(0, step, "f", 1.0, START_NS + 10 * step - (20 * hours_ns if step >= 3 else 0)) for step in range(6)]
    job.write(0, [run_row(0), *rows])
    report = cep.check("job")
    finding = codes(report, 0)["clock_back"]
    assert finding["line"] == 5
    assert "rank 0 goes back by 72,000 s" in finding["message"]
    assert "steps_back" not in codes(report, 0)


def test_steps_that_go_back_within_an_attempt_are_told(cep, job):
    rows = [span_row(0, step, "f", 1.0, START_NS + 10 * n) for n, step in enumerate((0, 1, 3, 4, 2, 5))]
    job.write(0, [run_row(0), *rows])
    finding = codes(cep.check("job"), 0)["steps_back"]
    assert finding["line"] == 6
    assert finding["message"] == "steps go back from 4 to 2 within an attempt"


def test_missing_steps_are_named_against_the_configured_stride(cep, job):
    config = {"record_every_n_steps": 10, "start_step": 0}
    steps = [0, 10, 20, 50, 60]
    job.write(0, [run_row(0, config=config), *(span_row(0, s, "f", 1.0, START_NS + s) for s in steps)])
    file = cep.check("job")["files"][0]
    assert (file["stride"], file["missing_steps"]) == (10, [30, 40])
    assert codes(cep.check("job"), 0)["step_gaps"]["severity"] == "note"


def test_missing_steps_are_named_against_the_inferred_stride(cep, job):
    steps = [0, 5, 10, 15, 25, 30]
    job.write(0, [{"duration_ms": 1, "name": "f", "rank": 0, "step": s} for s in steps])
    file = cep.check("job")["files"][0]
    assert (file["stride"], file["missing_steps"]) == (5, [20])


def test_enormous_gaps_are_counted_not_listed(cep, job):
    steps = [0, 1, 2, 10**18]
    job.write(0, [{"duration_ms": 1, "name": "f", "rank": 0, "step": s} for s in steps])
    file = cep.check("job")["files"][0]
    assert file["missing_steps_count"] == 10**18 - 3
    assert len(file["missing_steps"]) == 1000


def test_two_processes_in_one_file(cep, job):
    first = run_row(0, run_id="a", pid=1)
    second = run_row(0, run_id="b", pid=2, start_unix_ns=START_NS + 5)
    job.write(0, [first, span_row(0, 1, "f", 1.0, START_NS + 10), second, span_row(0, 1, "f", 1.0, START_NS + 11),
                  first, span_row(0, 2, "f", 1.0, START_NS + 12)])
    report = cep.check("job")
    assert codes(report, 0)["interleaved"]["line"] == 5
    assert report["severity"] == "damaged"


def test_two_processes_of_the_same_run_and_attempt(cep, job):
    job.write(0, [run_row(0, pid=1), span_row(0, 1, "f", 1.0, START_NS + 10), run_row(0, pid=2)])
    assert codes(cep.check("job"), 0)["interleaved"]["line"] == 3


def test_counts_that_shrink_come_from_two_processes(cep, job):
    job.write(0, [run_row(0), stats_row(0, 1, recorded=50), stats_row(0, 1, recorded=20)])
    assert codes(cep.check("job"), 0)["interleaved"]["line"] == 3


def test_run_row_repeated_by_its_own_process_is_fine(cep, job):
    rows = attempt_rows(0, range(5), rng=random.Random(1))
    job.write(0, [*rows[:5], rows[0], *rows[5:]])
    assert cep.check("job")["severity"] == "fine"


def test_loss_makes_a_file_incomplete(cep, job):
    dropped = {"ring": 3, "slots": 0, "pool": 0, "file": 0, "io": 0, "meta": 0}
    job.write(0, [run_row(0), span_row(0, 1, "f", 1.0, START_NS + 1), stats_row(0, 1, dropped=dropped)])
    report = cep.check("--strict", "job", status=4)
    assert codes(report, 0)["loss"]["message"] == "lost: 3 dropped (ring full 3)"
    assert report["severity"] == "incomplete"


def test_open_spans_are_located(cep, job):
    job.write(0, [run_row(0), {"type": "open", "name": "backward", "step": 4, "rank": 0, "start_ns": START_NS + 1,
                               "elapsed_ms": 5.0, "kind": "compute", "clock": "host"}])
    finding = codes(cep.check("job"), 0)["open_span"]
    assert (finding["message"], finding["line"]) == ("backward of step 4 never ended", 2)


def test_missing_ranks_are_named(cep, four_ranks):
    four_ranks.path(1).unlink()
    report = cep.check("job")
    assert codes(report)["missing_ranks"]["message"] == "missing rank 1 of 4"
    assert report["complete"] is False


def test_ranks_that_end_early_are_named(cep, job):
    for rank, last in ((0, 20), (1, 20), (2, 12)):
        job.write(rank, attempt_rows(rank, range(last + 1), rng=random.Random(rank), world_size=3))
    assert codes(cep.check("job"))["early_end"]["message"] == "a rank ends before step 20: 2 (the first at step 12)"


def test_the_same_run_in_two_files_is_named(cep, four_ranks, tmp_path):
    (tmp_path / "copy.jsonl").write_bytes(four_ranks.path(1).read_bytes())
    report = cep.check("job", "copy.jsonl")
    message = codes(report)["repeated_rank"]["message"]
    assert "rank 1" in message and "copy.jsonl" in message and "cuda_events_rank_1.jsonl" in message


def test_a_bad_clock_is_noted(cep, job):
    job.write(0, [run_row(0, clock_error_ns=5_000_000), span_row(0, 1, "f", 1.0, START_NS + 1)])
    assert "5.000 ms" in codes(cep.check("job"), 0)["clock_error"]["message"]


def test_a_newer_schema_is_noted(cep, job):
    job.write(0, [run_row(0, schema=2), span_row(0, 1, "f", 1.0, START_NS + 1)])
    assert "schema" in codes(cep.check("job"), 0)


def test_an_empty_file_is_noted(cep, four_ranks):
    four_ranks.path(3).write_bytes(b"")
    report = cep.check("job")
    assert codes(report, 3)["empty"]["severity"] == "note"
    assert report["missing_ranks"] == [3]


def test_nothing_to_check(cep):
    assert b"nowhere" in cep("check", "nowhere", status=3).stderr
