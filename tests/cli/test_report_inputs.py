# SPDX-License-Identifier: Apache-2.0
"""cep report on names, jobs and files of every kind: what a page says of little, much and damaged."""

import json
import os
import re
import subprocess
import threading

import pytest
from both_builds import programs
from conftest import START_NS, run_row, span_row
from report_pages import SECTIONS, SVG, Page, by_rank, decode, is_near, layer_of, report, slow_job

# Names from files

HOSTILE = ["<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", '"onload="alert(1)', "'><b>", "&lt;&amp;", "]]>",
           "a\u202eb\u2066c", "\u0007\u001b[31m", "--><!--", "\ufffe\uffff"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(report, cep, job, name):
    for rank in range(3):
        rows = [run_row(rank, world_size=3, host=name)]
        for step in range(12):
            start_ns = START_NS + step * 10**9
            rows += [span_row(rank, step, name, 5.0 + rank, start_ns),
                     span_row(rank, step, "x" + name, 2.0, start_ns + 6_000_000, kind="comm", group=name, coll=step, bytes=100 + step),
                     span_row(rank, step, "training_step", 9.0, start_ns, kind="step", depth=0),
                     {"type": "mark", "name": name, "step": step, "rank": rank, "start_ns": start_ns},
                     {"type": "counter", "name": f"memory.{name}_bytes", "step": step, "rank": rank, "value": 5, "start_ns": start_ns}]
        job.write(rank, rows)
    page = report("--compare", "job", "job")
    plain = report("--compare", "job", "job")
    assert page.data == plain.data
    tags = {tag for tag, _ in page.elements}
    assert tags <= {"html", "head", "meta", "title", "style", "body", "svg", "defs", "pattern", "rect", "path", "header", "h1", "h2", "h3",
                    "p", "main", "section", "div", "ul", "li", "nav", "a", "figure", "figcaption", "desc", "text", "image", "circle",
                    "g", "span", "small", "b", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "footer", "script"}
    assert {attribute for _, attributes in page.elements for attribute in attributes if attribute.startswith("on")} == set()
    assert all(attributes == {} or attributes == {"type": "application/json", "id": "cep-data"} for attributes, _ in page.scripts)
    page.svgs()
    for letter in "\u202e\u2066\u0007\u001b":
        assert letter not in page.text
    names = [layer["phase"] for layer in page.model()["layers"]]
    if name.isprintable() and "\u202e" not in name:
        assert name in names
        assert name in page.contents["phases"]


# Large jobs

def test_a_file_is_no_larger_than_asked(report, cep, simulate, tmp_path):
    simulate("sim", "--ranks", 48, "--steps", 80)
    whole = report("sim")
    for limit in (len(whole.data) * 4 // 5, len(whole.data) * 9 // 10):
        done = cep("report", "-o", "small.html", "--max-bytes", limit, "sim")
        small = Page((tmp_path / "small.html").read_bytes())
        assert len(small.data) <= limit
        assert small.sections() == SECTIONS
        assert b"heat" in done.stderr or b"left out" in done.stderr
    message = cep("report", "-o", "none.html", "--max-bytes", 1000, "sim", status=2).stderr
    assert b"--max-bytes" in message
    assert not (tmp_path / "none.html").exists()


def flat_job(job, ranks, steps, slow_cell):
    for rank in range(ranks):
        job.write(rank, [{"name": "training_step", "step": step, "rank": rank, "kind": "step",
                          "duration_ms": 500.0 if (rank, step) == slow_cell else 100.0 + (rank * 7 + step * 3) % 5}
                         for step in range(steps)])
    return job


def test_one_slow_cell_of_a_big_job_stays_visible(report, job):
    flat_job(job, 600, 20, (577, 13))
    model = report("job").model()
    values = decode(model, layer_of(model, "training_step"))
    assert len(values) == 512
    (row, column), = [(row, column) for row, line in enumerate(values) for column, value in enumerate(line) if value > 400]
    assert (model["rows"]["label"][row], column) == ("577", 13), "it is slow enough for a row of its own"
    assert sum("–" in label for label in model["rows"]["label"]) > 80, "others share rows"


def test_more_durations_than_are_kept_make_a_heat_map_of_some_steps(report, simulate):
    sim = simulate("sim", "--ranks", 8, "--steps", 400)
    page = report("--max-samples", 1000, "sim")
    model = page.model()
    steps = model["steps"]["first"]
    assert 10 < len(steps) < 100 and f"{len(steps)} of 400 steps, chosen by a hash" in page.text
    values, truth = by_rank(model, "forward"), sim.durations("forward")
    for rank in range(8):
        assert is_near(values[rank], [truth[rank][step] for step in steps], layer_of(model, "forward"))
    assert "breakdown" not in page.empty_sections()


def test_a_merged_file_gives_the_same_heat_map(cep, report, simulate):
    simulate("sim", "--ranks", 4, "--steps", 20, "--micro-batches", 4)
    cep("merge", "-o", "merged.jsonl", "sim")
    for more in ([], ["--max-samples", "200"]):
        apart, merged = (report(*more, path).model() for path in ("sim", "merged.jsonl"))
        assert apart["layers"] == merged["layers"]


# What is missing is said.

def test_a_job_of_one_rank_and_one_step(report, job):
    job.write(0, [span_row(0, 1, "forward", 5.0, START_NS)])
    page = report("job")
    assert page.sections() == SECTIONS
    assert {"heat", "waits", "whatif", "comm", "memory"} <= set(page.empty_sections())
    assert 'id="cep-data"' not in page.text, "a heat map of one rank says nothing"


def test_one_rank_is_compared_with_nobody(report, simulate):
    simulate("sim", "--ranks", 1, "--steps", 60)
    page = report("sim")
    empty = page.empty_sections()
    assert empty["heat"].startswith("One rank has no others") and empty["waits"] == "One rank has no others to wait for."
    for words in ("Line: median rank", "wide band", "What is joined", "others wait", "own work"):
        assert words not in page.contents["bands"] + page.contents["timeline"] + page.contents["breakdown"], words
    assert "To keep the file small" not in page.text


def test_a_step_span_beside_the_other_phases_is_a_phase(report, job):
    """As trainers time them: a copy, then the training step, then the metrics."""
    phases = [("host_to_device", "data", 1.2), ("training_step", "step", 3.6), ("training_metrics", "host", 10.2)]
    for rank in range(4):
        rows, now = [], START_NS
        for step in range(40):
            for name, kind, ms in phases:
                rows.append(span_row(rank, step, name, ms, now, kind=kind, depth=0))
                now += round(ms * 1e6)
        job.write(rank, rows)
    page = report("job")
    assert "training_step: median 3.600\u00a0ms" in page.contents["bands"]
    assert "whole step: median 15.00\u00a0ms" in page.contents["bands"]
    assert [name for name, *_ in phases[1:]] == [name for name in ("training_step", "training_metrics") if name in page.contents["timeline"]]
    assert page.empty_sections()["whatif"].startswith("No communication could be matched"), "not what 0 % of it would replay to"


def test_dots_that_lie_together_share_a_name(report, simulate):
    simulate("sim", "--ranks", 16, "--pp", 4, "--steps", 60, stage_weights=[1, 1, 1.35, 1])
    names = [text for text in report("sim").pictures()["waits-map"].iter(f"{SVG}text") if "bad" in text.get("class")]
    assert 0 < len(names) < 4 and all(text.text.startswith("rank") for text in names)
    places = [(float(text.get("x")), float(text.get("y"))) for text in names]
    assert not any(abs(x - other_x) < 60 and abs(y - other_y) < 12
                   for at, (x, y) in enumerate(places) for other_x, other_y in places[:at]), places


def test_operations_in_one_picture_have_different_colours(report, simulate):
    simulate("sim", "--ranks", 16, "--pp", 4, "--steps", 60)
    picture = report("sim").pictures()["comm-fit"]
    colours = [rect.get("class") for rect in picture.iter(f"{SVG}rect") if rect.get("class").startswith("part")]
    assert len(colours) == 2 and len(set(colours)) == 2, colours


def test_what_gains_nothing_says_so(report, slow_job):
    values = {label: value for label, _, value in report("sim").tracks("whatif")}
    assert values["without uneven transfers"] == "no difference", values
    assert values["without uneven ranks"].startswith("-")


def test_rows_without_start_times_steps_and_collectives(report, job):
    for rank in range(4):
        job.write(rank, [{"name": "forward", "step": step, "rank": rank, "duration_ms": 5.0} for step in range(30)])
    empty = report("job").empty_sections()
    assert "start times" in empty["timeline"]
    assert empty["comm"] == "No communication is timed."
    assert "counter" in empty["memory"]


@pytest.mark.parametrize("durations", [[0.0], [1e-300, 1e300], [0.0, 1e308], [1e-6, 3.0, 1e9]])
def test_extreme_times_make_a_page(report, job, durations):
    for rank in range(3):
        rows = []
        for step in range(12):
            duration_ms = durations[(rank + step) % len(durations)]
            start_ns = [-2**63 + 1, 0, 2**62][rank] + step
            rows += [span_row(rank, step, "forward", duration_ms, start_ns),
                     span_row(rank, step, "all_reduce", duration_ms, start_ns, kind="comm", coll=step, group="dp", bytes=2**62),
                     span_row(rank, step, "training_step", duration_ms, start_ns, kind="step", depth=0)]
        job.write(rank, rows)
    page = report("job")
    assert page.sections() == SECTIONS
    page.svgs()
    for what in ("nan", "inf"):
        assert f'="{what}' not in page.text and f" {what}" not in "".join(re.findall(r' d="[^"]*"', page.text))


def test_missing_ranks_are_named(report, simulate):
    simulate("sim", "--ranks", 6, "--steps", 20, missing_ranks=[2, 4])
    page = report("sim")
    assert "4 of 6 ranks" in page.text
    assert "No rows of ranks 2, 4." in page.contents["heat"]


def test_only_some_phases(report, slow_job):
    page = report("--phases", "forward", "sim")
    assert "breakdown" not in page.empty_sections()
    assert "heat" not in page.empty_sections()


def test_a_job_without_spans(report, job):
    job.write(0, [run_row(0)])
    page = report("job")
    assert {"heat", "bands", "waits", "breakdown", "timeline"} <= set(page.empty_sections())


def test_damaged_files_make_a_page(report, four_ranks):
    four_ranks.write(0, [], tail=b'{"name":"forw')
    four_ranks.write(1, [], tail=b"nonsense\n")
    page = report("job")
    assert "rank" in page.contents["verdict"].lower()
    assert "1 file cut off" in page.text and "1 row skipped" in page.text


def test_steps_that_a_rank_did_not_record_have_no_own_work(report, simulate):
    sim = simulate("sim", "--ranks", 6, "--steps", 40)
    path = sim.folder / "cuda_events_rank_2.jsonl"
    rows = [row for row in path.read_text().splitlines() if '"step":' not in row or json.loads(row).get("step", 0) < 25]
    path.write_text("\n".join(rows) + "\n")
    model = report("sim").model()
    for measure in ("own work", "waiting for other ranks", "as recorded", "own work beyond the median"):
        values = by_rank(model, "training_step", measure)
        assert [value is None for value in values[2]] == [step >= 25 for step in range(40)]
        assert None not in values[3]


def test_standard_input_is_read_once(cep, slow_job, tmp_path):
    merged = cep.merged("sim")
    page = Page(cep("report", "-", stdin=merged).stdout)
    assert not {"comm", "heat"} & set(page.empty_sections())


def test_a_named_pipe_is_read_once(cep, slow_job, tmp_path):
    """Who opens it again waits for a writer that does not come."""
    pipe = tmp_path / "job.jsonl"
    merged = cep.merged("sim")
    os.mkfifo(pipe)
    for program in programs():
        writer = threading.Thread(target=pipe.write_bytes, args=(merged,), daemon=True)
        writer.start()
        done = subprocess.run([program, "report", pipe], capture_output=True, timeout=120, check=True)
        writer.join()
        assert not {"comm", "heat"} & set(Page(done.stdout).empty_sections())


# The command

def test_it_says_what_it_wrote(cep, slow_job, tmp_path):
    done = cep("report", "-o", "report.html", "sim")
    assert done.stdout == b""
    assert b"wrote report.html" in done.stderr and b"at most 8.4 MB" in done.stderr
    assert (tmp_path / "report.html").read_bytes() == cep("report", "sim").stdout


def test_exit_statuses(cep, job, four_ranks, tmp_path):
    (tmp_path / "empty").mkdir()
    assert b"no rows" in cep("report", "-o", "r.html", "empty", status=3).stderr
    assert not (tmp_path / "r.html").exists()
    cep("report", "-o", "r.html", status=2)
    assert b"in A" in cep("report", "-o", "r.html", "--compare", "empty", "job", status=3).stderr
    cep("report", "-o", "r.html", "--compare", "-", "-", status=2)
    assert not (tmp_path / "r.html").exists()
    cep("report", "-o", "no/such/folder/r.html", "job", status=5)
    four_ranks.write(0, [], tail=b'{"name":"forw')
    cep("report", "-o", "r.html", "--strict", "job", status=4)
    assert (tmp_path / "r.html").exists()
