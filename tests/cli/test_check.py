# SPDX-License-Identifier: Apache-2.0
import csv
import gzip
import io
import random

import pytest
from conftest import START_NS, attempt_rows, run_row, span_row, stats_row


def codes(report, file=None):
    findings = report["findings"] if file is None else report["files"][file]["findings"]
    return {finding["code"]: finding for finding in findings}


def test_good_files_are_fine(cep, four_ranks):
    report = cep.check("--strict", "job")
    assert (report["schema"], report["severity"], report["complete"]) == ("cep.check/1", "fine", True)
    assert [file["severity"] for file in report["files"]] == ["fine"] * 4
    text = cep("check", "job").stdout.decode()
    assert text.startswith("Complete: 4 files of 4 ranks, nothing wrong.\n")
    assert sum("cuda_events_rank_" in line for line in text.splitlines()) == 4


def lines_of_files(text):
    return [line.split() for line in text.splitlines() if "cuda_events_rank_" in line or " files  " in line]


def test_many_fine_files_are_one_line_for_people(cep, job):
    for rank in range(20):
        job.write(rank, attempt_rows(rank, range(20), rng=random.Random(rank), world_size=20))
    (joined,) = lines_of_files(cep("check", "job").stdout.decode())
    report = cep.check("job")
    assert joined[:3] == ["20", "files", "fine"]
    assert joined[3] == f"{report['inputs']['rows']:,}" and joined[4:7] == ["0", "to", "19"]
    assert len(report["files"]) == 20
    assert len(cep("check", "--csv", "job").stdout.splitlines()) == 21


def test_files_with_findings_have_a_line_before_that_of_the_fine_ones(cep, job):
    for rank in range(12):
        job.write(rank, attempt_rows(rank, range(20), rng=random.Random(rank), world_size=12))
    with open(job.path(7), "ab") as file:
        file.write(b"bad\n")
    damaged, joined = lines_of_files(cep("check", "job", status=4).stdout.decode().split("damaged rows")[0])
    assert damaged[0].endswith("rank_7.jsonl") and joined[:3] == ["11", "files", "fine"]


def test_eight_fine_files_have_a_line_each(cep, job):
    for rank in range(8):
        job.write(rank, attempt_rows(rank, range(20), rng=random.Random(rank), world_size=8))
    assert len(lines_of_files(cep("check", "job").stdout.decode())) == 8


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
    assert f"cuda_events_rank_1.jsonl:{lines}: no rank" in cep("check", "job", status=4).stdout.decode()


def test_a_file_that_was_appended_to_itself_is_told(cep, job):
    job.write(0, [run_row(0, world_size=2)])
    job.write(1, [run_row(1, world_size=2),
                  *(span_row(1, step, "f", 1.0, START_NS + 10**6 * step) for step in range(4000))])
    data = job.path(1).read_bytes()
    job.path(1).write_bytes(data + data)
    report = cep.check("job")
    assert report["severity"] == "damaged"
    message = codes(report, 1)["repeated_rows"]["message"]
    count = int(message.removeprefix("about ").split(" rows")[0].replace(",", ""))
    assert 3200 < count < 4800
    assert codes(report, 1)["repeated_rows"]["line"] > len(data.splitlines())
    assert "repeated rows: these rows count twice" in cep("check", "job", status=4).stdout.decode()


def test_forty_rows_twice_are_told(cep, four_ranks):
    lines = four_ranks.path(2).read_bytes().splitlines(keepends=True)
    four_ranks.path(2).write_bytes(b"".join([*lines[:70], *lines[30:70], *lines[70:]]))
    report = cep.check("job")
    assert set(codes(report, 2)) == {"repeated_rows"} and codes(report, 0) == {}


def test_spans_that_are_alike_are_not_the_same(cep, job):
    rows = [span_row(0, step, "f", 1.0, START_NS + 10**6 * step, seq=seq) for step in range(200) for seq in range(3)]
    rows += [{"name": "g", "step": step, "rank": 0, "duration_ms": 1.0} for step in range(200) for _ in range(3)]
    job.write(0, [run_row(0), *rows, run_row(0, attempt=2), *rows])
    assert "repeated_rows" not in codes(cep.check("job"), 0)


def test_spans_of_ranks_that_start_some_nanoseconds_apart_are_not_the_same(cep, job):
    for rank in range(8):
        starts = (START_NS + 10**6 * step - rank for step in range(200))
        job.write(rank, [run_row(rank, world_size=8),
                         *(span_row(rank, step, "f", 1.0, start, seq=0) for step, start in enumerate(starts))])
    cep("merge", "-o", "all.jsonl", "job")
    assert "repeated_rows" not in codes(cep.check("all.jsonl"), 0)


def test_resumption_is_told(cep, resumed):
    report = cep.check("--strict", "job")
    assert report["severity"] == "note"
    assert codes(report, 0)["resumed"]["message"] == "resumed at step 40 in attempt 2, 20 steps done again"
    assert [a["repeated_steps"] for a in report["files"][0]["attempts"]] == [0, 20]


def test_resumption_is_told_of_a_merged_file(cep, resumed):
    cep("merge", "-o", "all.jsonl", "job")
    report = cep.check("all.jsonl")
    assert codes(report, 0)["resumed"]["message"] == "resumed at step 40 in attempt 2, 20 steps done again"


def test_a_span_that_is_written_late_takes_no_step_back(cep, job):
    rows = [span_row(0, step, "f", 1.0, START_NS + 10 * step) for step in (0, 1, 3, 4, 2, 5)]
    job.write(0, [run_row(0), *rows])
    assert "steps_back" not in codes(cep.check("job"), 0)


HOURS_NS = 3600 * 10**9
FINDINGS = {  # code, line and message of one finding, and the rows that have it
    "clock set back": ("clock_back", 5, "rank 0 goes back by 72,000 s", [run_row(0), *(
        span_row(0, step, "f", 1.0, START_NS + 10 * step - (20 * HOURS_NS if step >= 3 else 0)) for step in range(6))]),
    "steps back": ("steps_back", 6, "steps go back from 4 to 2 within an attempt", [run_row(0), *(
        span_row(0, step, "f", 1.0, START_NS + 10 * n) for n, step in enumerate((0, 1, 3, 4, 2, 5)))]),
    "two processes of one attempt": ("interleaved", 3, "", [
        run_row(0, pid=1), span_row(0, 1, "f", 1.0, START_NS + 10), run_row(0, pid=2)]),
    "counts that shrink": ("interleaved", 3, "", [run_row(0), stats_row(0, 1, recorded=50), stats_row(0, 1, recorded=20)]),
    "open span": ("open_span", 2, "backward of step 4 never ended", [
        run_row(0), {"type": "open", "name": "backward", "step": 4, "rank": 0, "start_ns": START_NS + 1, "elapsed_ms": 5.0,
                     "kind": "compute", "clock": "host"}]),
    "bad clock": ("clock_error", None, "5.000 ms", [
        run_row(0, clock_error_ns=5_000_000), span_row(0, 1, "f", 1.0, START_NS + 1)]),
    "newer schema": ("schema", None, "", [run_row(0, schema=2), span_row(0, 1, "f", 1.0, START_NS + 1)]),
    "starts back in a step": ("starts_back", 4, "", [run_row(0), *(
        span_row(0, 1, "f", 1.0, START_NS + start_ms * 10**6, seq=seq, stream=1)
        for seq, start_ms in enumerate((0, 50, 20, 60)))]),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_what_is_odd_is_told_once_with_its_line(cep, job, case):
    code, line, message, rows = FINDINGS[case]
    job.write(0, rows)
    found = codes(cep.check("job"), 0)
    assert line in (None, found[code]["line"]) and message in found[code]["message"]
    assert not {"clock_back", "steps_back", "starts_back", "interleaved"} & (set(found) - {code})


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


def test_the_advice_on_loss_is_of_its_cause(cep, job):
    dropped = {"ring": 0, "slots": 0, "pool": 0, "file": 2, "io": 0, "meta": 0}
    job.write(0, [run_row(0), span_row(0, 1, "f", 1.0, START_NS + 1), stats_row(0, 1, dropped=dropped)])
    text = cep("check", "--lenient", "job").stdout.decode()
    assert "lost rows, file limit: a larger max_file_bytes" in text and "ring_capacity" not in text


def test_a_file_that_is_too_compressed_is_not_called_cut_off(cep, four_ranks):
    path = four_ranks.path(1)
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes() + b" " * 80_000_000, 9))
    path.unlink()
    text = cep("check", "--lenient", "job").stdout.decode()
    assert "not read to its end" in text and "it decompresses to over 100 times its size" in text and "cut off" not in text


def test_missing_ranks_are_named(cep, four_ranks):
    four_ranks.path(1).unlink()
    report = cep.check("job")
    assert codes(report)["missing_ranks"]["message"] == "missing rank 1 of 4"
    assert report["complete"] is False


def test_ranks_that_end_early_are_named(cep, job):
    for rank, last in ((0, 20), (1, 20), (2, 12)):
        job.write(rank, attempt_rows(rank, range(last + 1), rng=random.Random(rank), world_size=3))
    assert codes(cep.check("job"))["early_end"]["message"] == "a rank ends before step 20: 2 (the first at step 12)"


def test_an_empty_file_is_incomplete(cep, four_ranks):
    four_ranks.path(3).write_bytes(b"")
    report = cep.check("job")
    assert codes(report, 3)["empty"]["severity"] == "incomplete"
    assert report["missing_ranks"] == [3]


def test_an_empty_file_of_a_rank_that_no_other_file_expects_is_incomplete_too(cep, four_ranks):
    four_ranks.path(4).write_bytes(b"")
    done = cep("check", "job", status=4)
    assert done.stdout.startswith(b"Incomplete: 1 of 5 files is incomplete.\n")


@pytest.mark.parametrize("content", [b"hello\n", b"root:x:0:0\n" * 30, b'{"traceEvents":[]}\n', b"[1]\n\xff\xfe\n"])
def test_a_file_that_is_no_rank_file_is_called_that_by_every_command(cep, four_ranks, tmp_path, content):
    (tmp_path / "notes.txt").write_bytes(content)
    why = b"notes.txt: not a rank file: line 1: "
    for command in ("summarize", "merge"):
        said = cep(command, "notes.txt", status=3).stderr
        assert why in said and b"skipped" not in said
    assert why in cep("summarize", "--no-verdict", "job", "notes.txt").stderr
    report = cep.check("job", "notes.txt")
    (file,) = (file for file in report["files"] if file["path"] == "notes.txt")
    assert [finding["code"] for finding in file["findings"]] == ["no_rank_file"]
    assert file["skipped_rows"] == 0 and file["damages"] == []
    assert why in cep("check", "job", "notes.txt", status=4).stdout


def test_a_file_named_like_a_rank_file_has_damaged_rows(cep, four_ranks):
    four_ranks.path(1).write_bytes(b"garbage\n")
    assert "rows_skipped" in codes(cep.check("job"), 1)


def test_nothing_to_check(cep):
    done = cep("check", "nowhere", status=3)
    assert b"nowhere" in done.stderr
    assert done.stdout.startswith(b"Nothing to read: no input is a file that can be read.\n")


# ---- statuses


@pytest.mark.parametrize("damage", [b"bad\n", b'{"cut'])
def test_damaged_and_incomplete_input_has_status_4_unless_lenient(cep, four_ranks, damage):
    with open(four_ranks.path(1), "ab") as file:
        file.write(damage)
    for arguments, status in (((), 4), (("--strict",), 4), (("--lenient",), 0), (("--lenient", "--strict"), 2)):
        cep("check", *arguments, "job", status=status)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"garbage\n" * 20, b"{}\n[]\n", b"\x1f\x8bgarbage", b"\0" * 100])
@pytest.mark.parametrize("option", [(), ("--lenient",), ("--json",)])
def test_no_valid_row_is_nothing_readable(cep, job, content, option):
    job.write(0, [], tail=content)
    done = cep("check", *option, "job", status=3)
    if "--json" not in option:
        assert done.stdout.startswith(b"Nothing to read: ")


def test_an_empty_directory_is_nothing_readable(cep, job):
    job.folder.mkdir()
    cep("check", "job", status=3)


def test_only_unreadable_files_are_nothing_readable(cep, job):
    job.folder.mkdir()
    for rank in range(2):
        job.path(rank).mkdir()  # a directory in place of a rank file
    assert cep("check", job.path(0), job.path(1), "nowhere", status=3).stderr


# ---- how it is shown


def test_the_verdict_comes_first_and_then_the_reasons(cep, four_ranks):
    with open(four_ranks.path(1), "ab") as file:
        file.write(b"bad\n")
    four_ranks.path(3).unlink()
    lines = cep("check", "job", status=4).stdout.decode().splitlines()
    assert lines[0] == "Damaged: 1 of 3 files is damaged."
    assert lines[2].split(maxsplit=1) == ["because", "incomplete: missing rank 3 of 4"]
    assert lines[3].startswith("next ") and "skipped rows: " in lines[3]


def test_the_worst_files_are_shown_first(cep, four_ranks):
    with open(four_ranks.path(2), "ab") as file:
        file.write(b"bad\n")
    text = cep("check", "--limit", 1, "job", status=4).stdout.decode()
    assert "cuda_events_rank_2.jsonl  damaged" in text and "… 3 files with less to say not shown" in text
    assert "cuda_events_rank_0.jsonl" not in text


def test_csv_has_a_line_for_each_file(cep, four_ranks):
    text = cep("check", "--csv", "job").stdout.decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    files = cep.check("job")["files"]
    assert [(r["path"], int(r["rows"]), int(r["last_step"]), r["severity"]) for r in rows] == [
        (f["path"], f["rows"], f["last_step"], f["severity"]) for f in files]


def test_every_format_goes_to_a_file(cep, four_ranks, tmp_path):
    for name, option in (("c.json", "--json"), ("c.csv", "--csv"), ("c.md", "--markdown")):
        assert cep("check", "-o", name, "job").stdout == b""
        assert (tmp_path / name).read_bytes() == cep("check", option, "job").stdout
    assert (tmp_path / "c.md").read_text().startswith("# Check\n\n**Complete: ")


def test_json_has_the_block_of_inputs(cep, four_ranks):
    inputs = cep.check("job", "nowhere")["inputs"]
    assert (inputs["files"], inputs["unreadable_files"], inputs["ranks_seen"], inputs["ranks_expected"]) == (4, 1, 4, 4)


# ---- order and clocks


def timed(job, starts, **more):
    job.write(0, [run_row(0), *(span_row(0, step, "f", 1.0, start, **more) for step, start in enumerate(starts))])


def test_starts_that_go_back_on_a_stream_are_noted(cep, job):
    timed(job, [START_NS + step * 10**8 - (3 * 10**8 if step in (5, 6) else 0) for step in range(10)], stream=7)
    finding = codes(cep.check("job"), 0)["starts_back"]
    assert (finding["severity"], finding["line"]) == ("note", 7)
    assert finding["message"] == (
        "2 spans of rank 0 start before an earlier span of the same phase and stream, the first by 200.0 ms")


@pytest.mark.parametrize("rows", [
    [dict(step=1, at=10**8, stream=1), dict(step=2, at=0, stream=2)],  # of different streams
    [dict(step=1, at=500_000, stream=1), dict(step=2, at=0, stream=1)],  # within the error of a clock
    [dict(step=2, at=10**8, stream=1), dict(step=1, at=0, stream=1)],  # written late
    [dict(step=1, at=10**8, stream=1, name="inner"), dict(step=1, at=0, stream=1, name="outer")],
])
def test_starts_that_are_in_order_are_fine(cep, job, rows):
    rows = [span_row(0, row["step"], row.get("name", "f"), 1.0, START_NS + row["at"], stream=row["stream"]) for row in rows]
    job.write(0, [run_row(0), *rows])
    assert cep.check("job")["severity"] == "fine"


def test_a_missing_run_row_is_noted(cep, four_ranks):
    path = four_ranks.path(1)
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    report = cep.check("job")
    assert codes(report, 1)["no_run_row"]["severity"] == "note"
    assert "no run row of rank 1" in codes(report, 1)["no_run_row"]["message"]
    assert [file["severity"] for file in report["files"]] == ["fine", "note", "fine", "fine"]


def test_files_of_other_profilers_need_no_run_row(cep, job):
    job.write(0, [{"duration_ms": 1, "name": "f", "rank": 0, "step": step} for step in range(10)])
    assert cep.check("job")["severity"] == "fine"


# ---- many of something


def test_of_many_like_findings_the_first_are_listed(cep, job):
    spans = [span_row(rank, 1, "f", 1.0, START_NS + rank) for rank in range(1, 301)]
    job.write(0, [run_row(0), *spans])
    findings = [f for f in cep.check("job")["files"][0]["findings"] if f["code"] == "other_rank"]
    assert len(findings) == 101 and findings[-1]["message"] == "and 200 more like it"
