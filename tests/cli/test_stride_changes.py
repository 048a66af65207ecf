# SPDX-License-Identifier: Apache-2.0
"""The library lengthens its stride to keep its cost below a bound: what the command says, and what it makes of it."""

import json
import random

import pytest
from conftest import START_NS, attempt_rows

RANKS = 4
STEPS = 400


def stride_row(rank, step, before, after, percent=0.1):
    return {
        "type": "mark", "name": "cep_stride", "step": step, "rank": rank, "start_ns": START_NS, "from": before,
        "to": after, "cost_percent": 0.31, "max_overhead_percent": percent,
    }  # fmt: skip


def lengthened(rows, rank, changes):
    """The rows that a rank writes whose stride changes after these steps, from 1."""
    said, stride, kept = [], 1, []
    changes = dict(changes)
    for row in rows:
        step = row.get("step")
        is_measured = row.get("type") not in ("run", "stats")
        for at in [at for at in changes if is_measured and step > at]:
            said.append(stride_row(rank, at, stride, changes[at]))
            kept.append(said[-1])
            stride = changes.pop(at)
        if not is_measured or step % stride == 0:
            kept.append(row)
    return kept


def write_job(job, changes):
    """A job of a few ranks; `changes` by rank: {step: stride}."""
    for rank in range(RANKS):
        rows = attempt_rows(rank, range(STEPS), rng=random.Random(rank), world_size=RANKS)
        job.write(rank, lengthened(rows, rank, changes.get(rank, {})))


def lines_of(cep):
    lines = cep("summarize", "job").stdout.decode().splitlines()
    return [line[line.index("the stride was"):] for line in lines if "the stride was" in line]


def marks_of(cep):
    return [mark["name"] for mark in cep.summary("job")["marks"]]


def test_the_summary_says_where_the_stride_was_lengthened(cep, job):
    write_job(job, {rank: {120: 4} for rank in range(RANKS)})
    assert lines_of(cep) == ["the stride was lengthened from 1 to 4 at step 120 to keep below 0.1 %"]
    (change,) = cep.summary("job")["stride_changes"]
    assert (change["from"], change["to"], change["max_overhead_percent"]) == (1, 4, 0.1)
    assert (change["steps"], change["ranks"]) == ([120], [0, 1, 2, 3])


def test_ranks_that_differ_are_named(cep, job):
    write_job(job, {0: {100: 2}, 1: {110: 2}, 3: {120: 8}})
    assert lines_of(cep) == [
        "the stride was lengthened from 1 to 2 at steps 100 to 110 to keep below 0.1 % on ranks 0, 1",
        "the stride was lengthened from 1 to 8 at step 120 to keep below 0.1 % on rank 3",
    ]
    changes = [(change["to"], change["steps"], change["ranks"]) for change in cep.summary("job")["stride_changes"]]
    assert changes == [(2, [100, 110], [0, 1]), (8, [120], [3])]


def test_where_only_a_later_change_is_left_it_is_called_shorter(cep, job):
    for rank in range(RANKS):
        rows = attempt_rows(rank, range(0, STEPS, 4), rng=random.Random(rank), world_size=RANKS)
        job.write(rank, [*rows[:-1], stride_row(rank, 300, 4, 2), rows[-1]])
    assert lines_of(cep) == ["the stride was shortened from 4 to 2 at step 300, as cep cost far less than 0.1 %"]


def test_a_stride_that_came_back_is_not_said(cep, job):
    write_job(job, {0: {100: 4, 200: 2, 300: 1}})
    assert cep.summary("job")["stride_changes"] == []


def test_each_of_many_changes_counts(cep, job):
    write_job(job, {0: {100: 2, 150: 4, 200: 8, 250: 4, 300: 2}})
    (change,) = cep.summary("job")["stride_changes"]
    assert (change["from"], change["to"], change["steps"]) == (1, 2, [300])


def test_the_change_is_no_mark_of_the_trainer(cep, job):
    write_job(job, {0: {100: 4}})
    assert marks_of(cep) == []
    job.write(0, [{"type": "mark", "name": "cep_stride", "step": 7, "rank": 0, "start_ns": START_NS}])
    assert marks_of(cep) == ["cep_stride"]


def test_steps_that_were_left_out_are_neither_missing_nor_an_early_end(cep, job):
    write_job(job, {0: {100: 4}, 1: {150: 4, 250: 8}})
    text = json.dumps(cep.check("job"))
    assert '"stride_changed"' in text and '"step_gaps"' not in text and '"early_end"' not in text


def test_a_step_that_the_longest_stride_should_have_is_missing(cep, job):
    rows = attempt_rows(0, range(STEPS), rng=random.Random(0))
    kept = [row for row in lengthened(rows, 0, {100: 4}) if row.get("step") != 200 or "type" in row]
    job.write(0, kept)
    (file,) = cep.check("job")["files"]
    assert file["missing_steps"] == [200]


@pytest.mark.parametrize("changes", ({5: {100: 8}}, {1: {100: 4}, 5: {120: 8}, 6: {100: 4, 200: 2}}))
def test_the_verdict_compares_the_steps_that_all_ranks_have(cep, tmp_path, changes):
    fault = {"rank": 5, "phase": "backward", "slowdown": 1.2}
    cep("simulate", "-o", "job", "--ranks", 8, "--steps", STEPS, "--record-every", 1, "--fault", json.dumps(fault))
    expected = cep.summary("job")["verdict"]
    for rank, of_rank in changes.items():
        path = tmp_path / "job" / f"cuda_events_rank_{rank}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row) + "\n" for row in lengthened(rows, rank, of_rank)))
    found = cep.summary("job")["verdict"]
    assert [straggler["rank"] for straggler in found["stragglers"]] == [5]
    assert found["job_slowdown"] == pytest.approx(expected["job_slowdown"], rel=0.01)
