# SPDX-License-Identifier: Apache-2.0
"""Writes rank files, for all tests that make rows of their own."""

import json

START_NS = 1_763_700_000_000_000_000
MS = 1_000_000
line_of = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def rank_path(folder, rank):
    return folder / f"cuda_events_rank_{rank}.jsonl"


def write_lines(folder, rank, lines):
    folder.mkdir(parents=True, exist_ok=True)
    rank_path(folder, rank).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def write_rank(folder, rank, rows):
    write_lines(folder, rank, map(line_of, rows))


def run_row(rank, *, world_size=1, run_id="run-a", attempt=1, start_unix_ns=START_NS, **more):
    """As the library writes it on the host's clock. ``more``: other keys, and other values."""
    return {
        "type": "run", "schema": 1, "run_id": run_id, "attempt": attempt, "rank": rank, "world_size": world_size,
        "local_rank": 0, "host": f"node{rank // 4}", "pid": 1000 * attempt + rank, "backend": "host", "device_name": None,
        "device_uuid": None, "driver_version": None, "library_version": "0.1.0", "start_unix_ns": start_unix_ns,
        "clock_error_ns": 500, "config": {"start_step": 0, "end_step": None, "record_every_n_steps": 1, "ranks": None},
        **more,
    }


def gpu_run_row(rank, *, stride=1, **more):
    """As the library writes it where there is a GPU."""
    return run_row(rank, **{
        "local_rank": rank % 4, "backend": "cuda", "device_name": "device", "device_uuid": f"GPU-{rank}",
        "driver_version": 13000, "clock_error_ns": 2000,
        "config": {"start_step": 0, "end_step": None, "record_every_n_steps": stride, "ranks": None}, **more})
