# SPDX-License-Identifier: Apache-2.0
"""A directory is used again: what is judged is one run, the latest, and what is left out is said first."""

import json
import re

import pytest
from conftest import START_NS, Job, run_row, span_row, stats_row

HOUR_S = 3600
SECOND_NS = 10**9


def start_rows(rank, steps, *, run_id, at_s=0, world_size=4, attempt=1, extra_ms=0.0, longest_ms=0.0, host="node0", pid=7,
               clock_s=0, recording_ns=0):
    """One start of one rank. Its own work takes `extra_ms` longer, and `longest_ms` that of the slowest rank."""
    begin_ns = START_NS + int((at_s + clock_s) * SECOND_NS)
    rows = [run_row(rank, world_size=world_size, run_id=run_id, attempt=attempt, start_unix_ns=begin_ns, host=host, pid=pid)]
    for number, step in enumerate(steps):
        at_ns = begin_ns + SECOND_NS + int(number * (60 + longest_ms) * 1e6)
        first_ns = at_ns
        for name, kind, ms in (("data_load", "data", 4.0 + extra_ms), ("forward", "compute", 15.0), ("backward", "compute", 30.0)):
            ms *= 1 + 0.001 * ((7 * rank + 3 * step) % 5)
            rows.append(span_row(rank, step, name, ms, at_ns, kind=kind))
            at_ns += int(ms * 1e6)
        end_ns = first_ns + int((50.0 + longest_ms) * 1e6)
        rows.append(span_row(rank, step, "all_reduce", (end_ns - at_ns) / 1e6, at_ns, kind="comm", group="dp", coll=number,
                             bytes=2**20))
        rows.append(span_row(rank, step, "training_step", (end_ns - first_ns) / 1e6, first_ns, kind="step", depth=0))
    rows.append(stats_row(rank, steps[-1], attempt=attempt, start_ns=begin_ns + 2000 * SECOND_NS))
    return rows


def write_run(job, ranks, steps, *, slow=None, **start):
    extra_ms = slow or {}
    for rank in ranks:
        job.write(rank, start_rows(rank, steps, extra_ms=extra_ms.get(rank, 0), longest_ms=max(extra_ms.values(), default=0),
                                   **{"world_size": len(ranks), **start}))


def old_of_more_ranks(job):
    write_run(job, range(4), range(40), run_id="old", slow={3: 90.0})


def old_of_more_steps(job):
    write_run(job, range(2), range(90), run_id="old", slow={1: 20.0})


def old_of_many_ranks(job):
    write_run(job, range(41), range(10), run_id="old", slow={40: 70.0})


OLD = {"more ranks": old_of_more_ranks, "more steps": old_of_more_steps, "many ranks": old_of_many_ranks}


@pytest.fixture(params=OLD)
def reused(request, tmp_path):
    """`job` has an older run, too; `clean` has not."""
    job, clean = Job(tmp_path / "job"), Job(tmp_path / "clean")
    OLD[request.param](job)
    for folder in (job, clean):
        write_run(folder, range(2), range(30), run_id="new", at_s=HOUR_S)
    return job


def figures(summary):
    """All but the size of the files, and what is said about other runs."""
    for key in ("bytes", "run", "runs_left_out", "other_runs"):
        del summary["inputs"][key]
    return summary


def assert_says_so(done):
    assert b"run new; left out: old (" in done.stderr and b"--run old" in done.stderr


def test_a_summary_is_of_the_latest_run(cep, reused):
    done = cep("summarize", "--json", "job")
    found, clean = json.loads(done.stdout), cep.summary("clean")
    assert found["inputs"]["run"] == "new" and found["inputs"]["runs_left_out"] == 1
    assert [run["run"] for run in found["inputs"]["other_runs"]] == ["old"]
    assert figures(found) == figures(clean)
    assert found["verdict"]["stragglers"] == [] and found["inputs"]["ranks_expected"] == 2
    assert_says_so(done)


def test_text_and_markdown_begin_with_what_is_left_out(cep, reused):
    for options in ([], ["--markdown"]):
        said = [line for line in cep("summarize", *options, "job").stdout.decode().splitlines() if "left out" in line]
        text = cep("summarize", *options, "job").stdout.decode().splitlines()
        assert text.index(said[0]) <= 2
        assert re.match(r"run new; left out: old \(\d+ ranks, started 2025-11-21 04:40:00 UTC\); -*run old chooses it",
                        said[0].replace("\\", ""))


def figures_of(text):
    """Of any output, without the size of the files and what is said about other runs."""
    if text.startswith("{") and '"inputs"' in text:
        report = figures(json.loads(text))
        report["files"] = [{**file, "path": None, "bytes": None} for file in report.get("files", [])]
        return report
    if page := re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S):
        return page[1]
    return [line for line in text.splitlines() if not line.startswith(("cep_input_bytes", "cep_runs_left_out"))]


@pytest.mark.parametrize("arguments", [
    ["summarize", "--csv"], *(["summarize", "--json", "--by", grouping] for grouping in ("rank", "host", "step:10")),
    ["metrics"], ["comm", "--json"], ["check", "--json"], ["trace"], ["trace", "--all"], ["report"]], ids=" ".join)
def test_what_a_command_says_is_of_the_latest_run(cep, reused, arguments):
    done = cep(*arguments, "job")
    assert figures_of(done.stdout.decode()) == figures_of(cep(*arguments, "clean").stdout.decode()) != []
    assert_says_so(done)


def test_every_way_to_say_it_begins_with_what_is_left_out(cep, reused):
    assert b"\ncep_runs_left_out 1\n" in cep("metrics", "job").stdout
    assert b"run new; left out: old (" in cep("report", "job").stdout
    for command in ("comm", "check"):
        assert json.loads(cep(command, "--json", "job").stdout)["inputs"]["run"] == "new"
        assert cep(command, "job").stdout.startswith(b"run new; left out: old")


def test_each_side_of_a_comparison_is_one_run(cep, reused):
    found = json.loads(cep("compare", "--json", "job", "clean").stdout)
    clean = json.loads(cep("compare", "--json", "clean", "clean").stdout)
    assert (found["step"], found["phases"]) == (clean["step"], clean["phases"])
    assert found["a"]["run"] == "new" and found["b"]["run"] is None
    assert b"A: run new; left out: old" in cep("compare", "job", "clean").stdout
    both = json.loads(cep("compare", "--json", "--run-a", "old", "job", "job").stdout)
    assert (both["a"]["run"], both["b"]["run"]) == ("old", "new")
    assert both["step"]["change"] < -0.2


def test_jobs_of_several_sizes_name_a_command_that_chooses_another_run(cep, reused):
    said = cep("compare", "--scaling", "job", "clean").stderr
    assert b"; cep merge --run old chooses it\n" in said
    cep("merge", "--run", "old", "-o", "old.jsonl.zst", "job")
    assert b"left out" not in cep("compare", "--scaling", "old.jsonl.zst", "clean").stderr


def test_a_merge_keeps_all_rows_and_says_so(cep, reused):
    done = cep("merge", "job")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == len(reused.rows)
    assert b"rows of 2 runs" in done.stderr and b"--run latest" in done.stderr
    assert cep.merged("--run", "latest", "job") == cep.merged("clean")


def test_a_merged_file_has_its_latest_run_judged(cep, reused):
    cep("merge", "-o", "both.jsonl.zst", "job")
    merged, clean = figures(cep.summary("both.jsonl.zst")), figures(cep.summary("clean"))
    assert merged["inputs"].pop("files") == 1 and clean["inputs"].pop("files") == 2
    for summary in (merged, clean):
        summary["ledger"]["phases"].sort(key=lambda phase: phase["name"])
    assert merged == clean


def test_another_run_is_chosen_by_its_name(cep, reused, tmp_path):
    found = cep.summary("--run", "old", "job")
    assert found["inputs"]["run"] == "old" and found["window"] != cep.summary("job")["window"]
    assert [run["run_id"] for run in found["runs"]] == ["old"]
    assert cep.summary("--run", "new", "job") == cep.summary("--run", "latest", "job") == cep.summary("job")
    together = cep.summary("--run", "all", "job")
    assert {run["run_id"] for run in together["runs"]} == {"old", "new"} and together["inputs"]["runs_left_out"] == 0
    done = cep("summarize", "--run", "other", "job", status=2)
    assert done.stdout == b"" and b"no run 'other' in the inputs; they have new, old" in done.stderr


def test_standard_input_that_has_several_runs_is_refused(cep, reused):
    rows = b"".join(path.read_bytes() for path in sorted(reused.folder.iterdir()))
    done = cep("summarize", "-", stdin=rows, status=2)
    assert done.stdout == b"" and b"standard input has rows of several runs" in done.stderr
    assert json.loads(cep("summarize", "--json", "--run", "all", "-", stdin=rows).stdout)["runs"]


def test_files_of_two_runs_in_two_directories(cep, tmp_path):
    write_run(Job(tmp_path / "two" / "a"), range(8), range(30), run_id="a", slow={5: 80.0})
    write_run(Job(tmp_path / "two" / "b"), range(8), range(30), run_id="b", at_s=HOUR_S)
    found = cep.check("two/a", "two/b")
    assert found["inputs"]["run"] == "b" and len(found["files"]) == 8 and found["ranks_seen"] == 8
    summary = cep.summary("two/a", "two/b")
    assert figures(summary) == figures(cep.summary("two/b"))
    assert summary["superseded_rows" if "superseded_rows" in summary else "inputs"]["superseded_rows"] == 0


def test_a_rank_without_a_file_is_missing_though_an_older_file_lies_there(cep, job):
    write_run(job, range(4), range(20), run_id="old")
    write_run(job, range(3), range(20), run_id="new", at_s=HOUR_S, world_size=4)
    assert cep.summary("job")["inputs"]["missing_ranks"] == [3]
    assert cep.check("job")["missing_ranks"] == [3]
    assert b"cep_ranks_missing 1\n" in cep("metrics", "job").stdout
    for command in ("summarize", "comm", "trace", "metrics", "check"):
        cep(command, "--strict", "job", status=4)


# What is one run

def runs_of(cep):
    inputs = cep.summary("job")["inputs"]
    return inputs["ranks_seen"], inputs["runs_left_out"]


LAUNCHER = "node0-411-90210"  # as the library names the process that started the trainer


@pytest.mark.parametrize("run_id", ["exp-7", "12345", LAUNCHER], ids=["set by the user", "Slurm", "torchrun without an id"])
def test_a_job_that_resumes_is_one_run(cep, job, run_id):
    write_run(job, range(4), range(30), run_id=run_id)
    write_run(job, range(4), range(20, 50), run_id=run_id, at_s=HOUR_S, attempt=2, pid=8)
    summary = cep.summary("job")
    assert runs_of(cep) == (4, 0) and summary["window"]["steps"] == 50
    assert [run["attempt"] for run in summary["runs"]] == [1, 2] and summary["inputs"]["superseded_rows"] > 0
    assert cep.check("job")["inputs"]["runs_left_out"] == 0


def test_a_requeued_job_goes_on_on_other_hosts_from_the_start(cep, job):
    write_run(job, range(4), range(30), run_id="12345", host="node0")
    write_run(job, range(4), range(10), run_id="12345", at_s=HOUR_S, attempt=2, pid=8, host="node7")
    assert runs_of(cep) == (4, 0) and cep.summary("job")["window"]["steps"] == 30


def test_a_rank_that_restarted_alone_is_of_the_same_run(cep, job):
    write_run(job, range(4), range(30), run_id="exp")
    job.write(2, start_rows(2, range(20, 30), run_id="exp", at_s=HOUR_S, attempt=2))
    assert runs_of(cep) == (4, 0)


def test_a_shell_that_starts_the_program_again_starts_another_run(cep, job):
    """Its id is that of the first run: the shell started both."""
    write_run(job, range(1), range(60), run_id=LAUNCHER, slow={0: 50.0})
    write_run(job, range(1), range(20), run_id=LAUNCHER, at_s=60, attempt=2, pid=8)
    summary = cep.summary("job")
    assert runs_of(cep) == (1, 1) and summary["window"]["last_step"] == 19
    assert summary["inputs"]["run"] == LAUNCHER + "#2"
    assert cep.summary("--run", LAUNCHER + "#1", "job")["window"]["last_step"] == 59
    assert cep.summary("--run", LAUNCHER, "job") == summary


def launch(job, number, steps, *, at_s, ids, world_size=4, ranks=range(4), clocks_s=(0, 0)):
    for rank in ranks:
        job.write(rank, start_rows(rank, steps, run_id=ids(rank), at_s=at_s, attempt=number, world_size=world_size,
                                   host=f"node{rank // 2}", clock_s=clocks_s[rank // 2]))


def test_ids_of_hosts_are_one_run_and_clocks_may_be_a_second_apart(cep, job):
    launch(job, 1, range(40), at_s=0, ids=lambda rank: f"node{rank // 2}-10-{rank // 2}", clocks_s=(0, 1))
    launch(job, 2, range(20), at_s=300, ids=lambda rank: f"node{rank // 2}-20-{rank // 2}", clocks_s=(0, 1))
    summary = cep.summary("job")
    assert runs_of(cep) == (4, 1) and summary["window"]["last_step"] == 19
    assert summary["inputs"]["missing_ranks"] == [] and summary["inputs"]["other_runs"][0]["ranks"] == 4


def test_a_run_of_several_ids_resumes_as_one(cep, job):
    for number, (first, at_s) in enumerate(((0, 0), (25, 300), (20, 600)), 1):
        launch(job, number, range(first, first + 30), at_s=at_s, clocks_s=(0, 1),
               ids=lambda rank: f"node{rank // 2}-10-{rank // 2}")
    assert runs_of(cep) == (4, 0) and cep.summary("job")["window"]["last_step"] == 54


@pytest.mark.parametrize("pause_s", [8, 50, 4000])
def test_ids_of_ranks_are_one_run_however_soon_the_next_one_begins(cep, job, pause_s):
    launch(job, 1, range(40), at_s=0, ids=lambda rank: f"first-{rank}", ranks=range(3))
    launch(job, 2, range(20), at_s=pause_s, ids=lambda rank: f"second-{rank}")
    assert runs_of(cep) == (4, 1)
    assert cep.summary("--run", "first-2", "job")["inputs"]["missing_ranks"] == [3]


def test_files_without_run_rows_are_one_run(cep, job):
    for rank in range(4):
        rows = start_rows(rank, range(20), run_id="x")
        job.write(rank, [row for row in rows if "type" not in row])
    assert runs_of(cep) == (4, 0)


def test_rows_of_another_profiler_before_the_run_are_left_out(cep, job):
    for rank in range(4):
        job.write(rank, [{"name": "forward", "step": step, "rank": rank, "duration_ms": 99.0} for step in range(50)])
    write_run(job, range(4), range(20), run_id="new")
    summary = cep.summary("job")
    assert summary["window"]["last_step"] == 19 and summary["inputs"]["other_runs"][0]["run"] == "none"
    assert cep.summary("--run", "none", "job")["window"]["last_step"] == 49
    assert b"left out: rows of no run (4 ranks); --run none chooses it" in cep("summarize", "job").stderr


def test_rows_before_any_run_row_are_left_out_where_the_first_of_them_has_no_step(cep, job):
    old = start_rows(0, range(20), run_id="old", world_size=1)[1:]
    new = start_rows(0, range(20), run_id="new", world_size=1, at_s=HOUR_S)
    job.write(0, [stats_row(0, 0, start_ns=START_NS), *old, *new])
    assert b"run new; left out: rows of no run (1 rank)" in cep("summarize", "job").stderr


def test_a_file_that_lost_its_first_rows_is_of_the_run(cep, job):
    write_run(job, range(4), range(20), run_id="new")
    lines = job.path(3).read_bytes().splitlines(keepends=True)
    job.path(3).write_bytes(b"".join(lines[6:]))
    assert runs_of(cep) == (4, 0)


def test_the_latest_run_is_the_one_that_started_last(cep, job):
    write_run(job, range(2), range(20), run_id="a")
    write_run(job, range(2), range(20), run_id="b", at_s=HOUR_S)
    write_run(job, range(2), range(15, 30), run_id="a", at_s=2 * HOUR_S, attempt=2)
    summary = cep.summary("job")
    assert summary["inputs"]["run"] == "a" and summary["window"]["steps"] == 30
