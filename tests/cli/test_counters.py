# SPDX-License-Identifier: Apache-2.0
"""Counters in a summary: over all ranks; and what those of memory say."""

import pytest
from conftest import START_NS, run_row, span_row

GB = 10**9
ALLOCATED, RESERVED = "memory.allocated_bytes", "memory.reserved_bytes"


def counter_row(rank, step, name, value):
    return {"type": "counter", "name": name, "step": step, "rank": rank, "value": value, "start_ns": START_NS + step}


def rank_rows(rank, values, *, first_step=0, **run):
    """`values`: by name, of each step."""
    rows = [run_row(rank, world_size=4, **run)]
    for i in range(max(map(len, values.values()))):
        step = first_step + i
        rows.append(span_row(rank, step, "forward", 10.0, START_NS + (step + 1) * 10**9))
        rows += [counter_row(rank, step, name, steps[i]) for name, steps in values.items() if i < len(steps)]
    return rows


@pytest.fixture
def four_ranks_memory(job):
    """Rank 3 has more, and more of it unused; rank 1 had most in its first step."""
    for rank, (allocated, reserved) in enumerate([([50, 56, 50], [60, 62, 62]), ([58, 50, 52], [64, 64, 65]),
                                                  ([50, 54, 51], [61, 61, 61]), ([70, 72, 48], [80, 96, 96])]):
        job.write(rank, rank_rows(rank, {ALLOCATED: [n * GB for n in allocated], RESERVED: [n * GB for n in reserved],
                                         "loss": [3.5, 2.5, -1.25 - rank]}))
    return job


def test_every_counter_over_the_ranks(cep, four_ranks_memory):
    counters = {counter["name"]: counter for counter in cep.summary("job")["counters"]}
    assert sorted(counters) == ["loss", ALLOCATED, RESERVED]
    assert counters["loss"]["max"] == {"ranks": 4, "median": 3.5, "max": 3.5, "max_rank": 0}
    assert counters["loss"]["last"] == {"ranks": 4, "median": -2.75, "max": -1.25, "max_rank": 0}
    assert counters[ALLOCATED]["max"] == {"ranks": 4, "median": 57 * GB, "max": 72 * GB, "max_rank": 3}


def test_memory_of_the_median_rank_and_of_the_one_that_has_most(cep, four_ranks_memory):
    memory = cep.summary("job")["memory"]
    assert memory["peak_allocated_bytes"] == {"ranks": 4, "median": 57 * GB, "max": 72 * GB, "max_rank": 3}
    assert memory["peak_reserved_bytes"] == {"ranks": 4, "median": 63.5 * GB, "max": 96 * GB, "max_rank": 3}
    unused = sorted([1 - 50 / 62, 1 - 52 / 65, 1 - 51 / 61, 1 - 48 / 96])
    assert memory["fragmentation"]["median"] == pytest.approx((unused[1] + unused[2]) / 2, rel=1e-12)
    assert (memory["fragmentation"]["max"], memory["fragmentation"]["max_rank"]) == (0.5, 3)
    text = cep("summarize", "job").stdout.decode()
    (line,) = [line for line in text.splitlines() if line.startswith("memory")]
    assert line.split() == ("memory at most 57.0 GB allocated (rank 3: 72.0 GB), 63.5 GB reserved (rank 3: 96.0 GB) on the "
                            "median rank; 19.7 % of what is reserved is unused (rank 3: 50.0 %)").split()


def test_a_peak_that_the_allocator_saw_between_the_steps_counts(cep, job):
    for rank in range(2):
        job.write(rank, rank_rows(rank, {ALLOCATED: [5 * GB], "memory.peak_allocated_bytes": [9 * GB],
                                         "memory.alloc_retries": [2 + rank]}))
    memory = cep.summary("job")["memory"]
    assert memory["peak_allocated_bytes"]["median"] == 9 * GB
    assert memory["peak_reserved_bytes"] is None and memory["fragmentation"] is None
    assert memory["alloc_retries"] == 5
    assert "5 allocations freed the cache and tried again" in cep("summarize", "job").stdout.decode()


def test_the_phase_that_needs_most_memory_is_named(cep, job):
    for rank in range(2):
        job.write(rank, rank_rows(rank, {ALLOCATED: [5 * GB], "memory.peak_bytes.forward": [7 * GB, 6 * GB],
                                         "memory.peak_bytes.backward": [8 * GB, (8 + rank) * GB]}))
    assert cep.summary("job")["memory"]["peak_phase"] == "backward"
    assert b"of the phases, backward has most (9.0 GB)" in cep("summarize", "job").stdout


@pytest.mark.parametrize("reserved, retries, is_short", [(76, 0, True), (70, 0, False), (40, 1, True)])
def test_short_memory_gets_advice(cep, job, reserved, retries, is_short):
    for rank in range(2):
        job.write(rank, rank_rows(rank, {RESERVED: [(reserved - 9 * (1 - rank)) * GB], "memory.device_bytes": [80 * GB],
                                         "memory.alloc_retries": [retries]}))
    used = cep.summary("job")["memory"]["used"]
    assert (used["max"], used["max_rank"], used["ranks"]) == (pytest.approx(reserved / 80), 1, 2)
    text = cep("summarize", "job").stdout.decode()
    assert f"{100 * reserved / 80:.0f} % of the device reserved on rank 1" in text
    assert ("memory is short: recompute activations" in text) == is_short


def test_headroom_is_what_the_fullest_rank_never_reserved(cep, job):
    for rank in range(2):
        job.write(rank, rank_rows(rank, {RESERVED: [(60 + 10 * rank) * GB], "memory.device_bytes": [80 * GB]}))
    memory = cep.summary("job")["memory"]
    assert (memory["headroom"], memory["is_short"], memory["next"]) == (pytest.approx(0.125), False, None)
    assert "88 % of the device reserved on rank 1, 12 % headroom" in cep("summarize", "job").stdout.decode()


def test_a_snapshot_beside_a_rank_file_is_named(cep, job, tmp_path):
    for rank in range(2):
        job.write(rank, rank_rows(rank, {"loss": [1.0]}))
    assert cep.summary("job")["oom_snapshots"] == []
    (rank_file,) = tmp_path.rglob("cuda_events_rank_1.jsonl")
    (rank_file.parent / "cuda_memory_rank_1.pickle").write_bytes(b"x")
    (rank_file.parent / "cuda_memory_rank_7.pickle").write_bytes(b"of a rank that is not there")
    (path,) = cep.summary("job")["oom_snapshots"]
    assert path.endswith("/cuda_memory_rank_1.pickle")
    text = cep("summarize", "job").stdout.decode()
    assert f"a rank ran out of memory: {path}" in text and "what held the memory: " in text


def test_the_last_step_is_that_of_the_last_attempt(cep, job):
    job.write(0, rank_rows(0, {"loss": [5.0, 4.0, 3.0]}) + rank_rows(0, {"loss": [2.0]}, first_step=1, attempt=2))
    (counter,) = cep.summary("job")["counters"]
    assert (counter["last"]["max"], counter["max"]["max"]) == (2.0, 5.0)


def test_without_counters_there_is_no_memory(cep, job):
    job.write(0, [run_row(0, world_size=1), span_row(0, 0, "forward", 1.0, START_NS)])
    summary = cep.summary("job")
    assert summary["memory"] is None and summary["counters"] == []
    assert "memory" not in cep("summarize", "job").stdout.decode()


def test_steps_and_ranks_that_were_not_asked_for_do_not_count(cep, four_ranks_memory):
    memory = cep.summary("--steps", "0:1", "--ranks", "0-2", "job")["memory"]
    assert memory["peak_allocated_bytes"] == {"ranks": 3, "median": 56 * GB, "max": 58 * GB, "max_rank": 1}
