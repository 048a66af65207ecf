# SPDX-License-Identifier: Apache-2.0
"""cep trace: which ranks and steps it shows, the size of the trace, and inputs of every kind."""

import gzip

import pytest
from conftest import START_NS, line_of, run_row, span_row
from trace_events import Trace, collective_rows, flows_of, trace, tracks_of


# What is shown.

@pytest.fixture
def many_ranks(job):
    """Eight ranks; 5 works longest and 3 shortest, while steps are equally long."""
    for rank in range(8):
        work_ms = {5: 80.0, 3: 20.0}.get(rank, 50.0 + rank / 10)
        rows = [run_row(rank, world_size=8)]
        for step in range(0, 700, 10):
            start_ns = START_NS + step * 10**8
            rows += [span_row(rank, step, "forward", work_ms, start_ns),
                     span_row(rank, step, "all_reduce", 90.0 - work_ms, start_ns + int(work_ms * 1e6), kind="comm"),
                     span_row(rank, step, "training_step", 90.0, start_ns, kind="step", depth=0)]
        job.write(rank, rows)
    return job


def test_the_default_is_three_ranks_and_fifty_steps(cep, many_ranks):
    done = cep("trace", "job")
    found = Trace(done.stdout)
    ranks = found.ranks()
    assert {3, 5} < ranks and len(ranks) == 3
    assert found.steps() == set(range(200, 700, 10))
    assert done.stderr.count(b"\n") == 1
    for words in (b"5 of 8 ranks", b"steps 0 to 199", b"--ranks", b"--steps", b"--all"):
        assert words in done.stderr


def test_a_rank_that_stopped_before_these_steps_is_not_chosen(cep, many_ranks):
    many_ranks.write(8, [span_row(8, step, "training_step", 900.0, START_NS + step * 10**8, kind="step")
                         for step in range(0, 200, 10)])
    ranks, steps = trace_size(cep)
    assert {3, 5} < ranks and 8 not in ranks and steps == set(range(200, 700, 10))


def test_nothing_to_show_is_said(cep, four_ranks):
    done = cep("trace", "--ranks", "99", "--steps", "0:9", "job")
    assert Trace(done.stdout).events == [] and b"no spans among the rows that were asked for" in done.stderr


def test_ranks_and_steps_are_chosen(cep, many_ranks):
    done = cep("trace", "--ranks", "1,6-7", "--steps", "10:30", "job")
    found = Trace(done.stdout)
    assert (found.ranks(), found.steps(), done.stderr) == ({1, 6, 7}, {10, 20, 30}, b"")
    assert trace_size(cep, "--ranks", "1,6-7") == ({1, 6, 7}, set(range(200, 700, 10)))
    ranks, steps = trace_size(cep, "--steps", ":40")
    assert {3, 5} < ranks and len(ranks) == 3 and steps == {0, 10, 20, 30, 40}


def trace_size(cep, *arguments):
    found = Trace(cep("trace", *arguments, "job").stdout)
    return found.ranks(), found.steps()


def test_all_is_all(cep, many_ranks):
    done = cep("trace", "--all", "job")
    assert len(Trace(done.stdout).slices) == len(many_ranks.spans())
    assert done.stderr == b""
    assert trace_size(cep, "--all", "--steps", "300:") == (set(range(8)), set(range(300, 700, 10)))


def test_phases_are_chosen(trace, many_ranks):
    assert {e["name"] for e in trace("--phases", "forward", "job").slices} == {"forward"}


def test_a_small_job_is_shown_whole(cep, resumed):
    done = cep("trace", "--steps", "30:", "job")
    assert Trace(done.stdout).ranks() == {0, 1} and done.stderr == b""


def test_standard_input_gives_the_same_trace(cep, many_ranks):
    rows = b"".join(many_ranks.path(rank).read_bytes() for rank in range(8))
    piped = cep("trace", "-", stdin=rows)
    named = cep("trace", "job")
    assert (piped.stdout, piped.stderr) == (named.stdout, named.stderr)


@pytest.mark.parametrize("max_bytes", [1000, 1500, 3000, 20_000, 100_000])
def test_the_size_stays_within_its_limit(cep, job, max_bytes):
    for rank in range(4):
        job.write(rank, collective_rows(rank, steps=range(40)))
    done = cep("trace", "--all", "--max-bytes", max_bytes, "job")
    assert len(done.stdout) <= max_bytes
    found = Trace(done.stdout)
    whole = Trace(cep("trace", "--all", "job").stdout)
    assert len(found.slices) < len(whole.slices) == 320
    assert found.slices == whole.slices[:len(found.slices)]
    assert all([e["ph"] for e in events][0] == "s" and [e["ph"] for e in events][-1] == "f" for events in flows_of(found))
    assert f"the last {320 - len(found.slices)} of 320 rows".encode() in done.stderr and b"--max-bytes" in done.stderr


# Files.

def test_gz_and_zst_are_compressed(cep, four_ranks, tmp_path):
    plain = cep("trace", "job").stdout
    cep("trace", "-o", "t.json.gz", "job")
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()) == plain
    cep("trace", "-o", "t.json.zst", "job")
    assert (tmp_path / "t.json.zst").read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    cep("trace", "-o", "t.json", "job")
    assert (tmp_path / "t.json").read_bytes() == plain


def test_rows_without_a_start_are_counted(cep, job):
    job.write(0, [{"duration_ms": 1, "name": "f", "rank": 0, "step": step} for step in range(3)])
    done = cep("trace", "job")
    assert Trace(done.stdout).events == []
    assert b"3 rows without start_ns" in done.stderr
    job.write(0, [span_row(0, 9, "f", 1.0, START_NS)])
    done = cep("trace", "job")
    assert len(Trace(done.stdout).slices) == 1 and b"3 rows without start_ns" in done.stderr


def test_damage_is_located_and_the_rest_is_shown(cep, four_ranks):
    with open(four_ranks.path(1), "ab") as file:
        file.write(b'bad\n{}\n[1]\n\x00\x00\n{"name":1}\n' + line_of(span_row(1, 29, "last", 1.0, START_NS)).encode())
    done = cep("trace", "--all", "job")
    assert len(Trace(done.stdout).slices) == len(four_ranks.spans()) + 1
    assert b"cuda_events_rank_1.jsonl" in done.stderr
    cep("trace", "--all", "--strict", "job", status=4)


def test_a_missing_rank_is_named(cep, four_ranks):
    four_ranks.path(2).unlink()
    assert b"rank 2" in cep("trace", "job").stderr


def test_too_many_overlapping_spans_are_counted(cep, job):
    job.write(0, [span_row(0, 1, "f", 1.0 + i, START_NS + i) for i in range(300)])
    done = cep("trace", "job")
    found = Trace(done.stdout)
    assert len(found.slices) == len(tracks_of(found)) == 256
    assert b"44 rows for which there were too many tracks" in done.stderr
