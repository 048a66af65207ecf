# SPDX-License-Identifier: Apache-2.0
"""Examples with numbers that people know from courses and papers: each by the command that says them."""

import json

import pytest
from conftest import START_NS, run_row, span_row

STEPS = 60


def write(job, rank, ranks, spans, step_ms):
    """`spans`: (name, kind, begin, end, stream) in each step, all of which are alike."""
    rows = [run_row(rank, world_size=ranks)]
    for step in range(STEPS):
        begin_ns = START_NS + round(step * step_ms * 1e6)
        for seq, (name, kind, begin, end, stream) in enumerate(spans):
            more = {"group": "dp", "coll": step, "bytes": 10**8} if kind == "comm" else {}
            rows.append(span_row(rank, step, name, end - begin, begin_ns + round(begin * 1e6), kind=kind, clock="gpu",
                                 stream=stream, seq=seq, depth=0 if kind == "step" else 1, **more))
    job.write(rank, rows)


def test_compute_of_15_ms_and_communication_of_20_in_24_hide_55_percent_which_is_73_of_the_possible(cep, job):
    for rank in range(2):
        write(job, rank, 2, [("training_step", "step", 0, 24, 0), ("backward", "compute", 0, 15, 0),
                             ("all_reduce", "comm", 4, 24, 1)], 24)
    efficiency = cep.summary("job")["efficiency"]
    assert (efficiency["comm_ms"], efficiency["exposed_comm_ms"]) == (pytest.approx(20), pytest.approx(9))
    assert efficiency["overlap_efficiency"] == pytest.approx(11 / 20)
    assert efficiency["overlap_of_possible"] == pytest.approx((15 + 20 - 24) / min(15, 20))
    assert round(100 * efficiency["overlap_of_possible"]) == 73


def test_one_of_8_ranks_that_is_50_ms_late_makes_steps_of_15_ms_65_and_costs_77_percent_of_the_throughput(cep, job):
    for rank in range(8):
        late = 50 if rank == 3 else 0
        write(job, rank, 8, [("training_step", "step", 0, 65, 0), ("forward", "compute", 0, 10 + late, 0),
                             ("all_reduce", "comm", 10 + late, 65, 0)], 65)
    summary = cep.summary("job")
    (straggler,) = summary["verdict"]["stragglers"]
    assert (straggler["rank"], straggler["phase"], straggler["pattern"]) == (3, "forward", "persistent")
    assert straggler["excess_ms"] == pytest.approx(50, rel=0.01)
    assert straggler["waiters_median_wait_ms"] == pytest.approx(50, rel=0.01)
    assert summary["ledger"]["run"]["step_ms"] == pytest.approx(65, rel=0.01)
    text = cep("summarize", "job").stdout.decode()
    assert "77 % less time (65.00 → 15.00 ms)" in text


def test_ring_and_tree_take_what_latency_and_bandwidth_say(cep, job):
    """alpha and beta are those of the job: 2 (n-1) messages of n-th parts in a ring, 2 log2 n of all bytes in a tree."""
    alpha_ms, gb_per_s, ranks = 0.05, 20.0, 8
    rows = {rank: [run_row(rank, world_size=ranks)] for rank in range(ranks)}
    sizes = [2**power for power in range(10, 27, 4)]
    for step in range(STEPS):
        begin_ns = START_NS + 10**9 + step * 10**8
        for number, size in enumerate(sizes):
            ms = 2 * (ranks - 1) * alpha_ms + 2 * (ranks - 1) / ranks * size / gb_per_s / 1e6
            for rank in range(ranks):
                rows[rank].append(span_row(rank, step, "all_reduce", ms, begin_ns + number * 10**7, kind="comm", group="dp",
                                           coll=step * len(sizes) + number, seq=number, bytes=size))
    for rank in range(ranks):
        job.write(rank, rows[rank])
    report = json.loads(cep("comm", "--json", "--predict", "64k,64M", "--world", "64", "job").stdout)
    (model,) = report["models"]
    for one in model["predictions"]:
        ring_ms = 2 * 63 * alpha_ms + 2 * 63 / 64 * one["bytes"] / gb_per_s / 1e6
        assert one["ring_ms"] == pytest.approx(ring_ms, rel=0.01), one["bytes"]
    assert [one["faster"] for one in model["predictions"]] == ["tree", "tree"]


def test_gpt3_and_the_bubble_of_four_stages(cep):
    """Said by the calculator; more of it in test_estimate."""
    assert b"its MFU is 11 %" in cep("estimate", "--params", "175e9", "--tokens", "2097152", "--ranks", "1024", "--gpu",
                                     "A100", "--step-ms", "60000").stdout
    assert b"27" in cep("estimate", "--params", "1e9", "--seq", "2048", "--batch", "8", "--pp", "4").stdout
