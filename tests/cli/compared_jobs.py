# SPDX-License-Identifier: Apache-2.0
"""Pairs of jobs for the tests of cep compare."""

import json
import random

import pytest
from conftest import Job, attempt_rows

ALPHA = 0.05


@pytest.fixture
def compare(cep):
    def run(*arguments, **more):
        return json.loads(cep("compare", "--json", *arguments, **more).stdout)
    return run


def plain_rows(series, rank=0, kind="compute", first_step=0):
    """Rows with the keys that every profiler writes. `series`: for each phase, its time in each step."""
    return [{"name": name, "step": first_step + step, "rank": rank, "duration_ms": value, "kind": kind}
            for name, values in series.items() for step, value in enumerate(values)]


def write(tmp_path, name, series, **more):
    Job(tmp_path / name).write(0, plain_rows(series, **more))
    return name


def phase_of(report, name):
    return next(phase for phase in report["phases"] if phase["name"] == name)


def back_to_back(rows):
    """The rows of one rank, each step moved to where the one before it ended."""
    begin_ns, end_ns = {}, {}
    spans = [row for row in rows if "type" not in row]
    for row in spans:
        begin_ns[row["step"]] = min(begin_ns.get(row["step"], row["start_ns"]), row["start_ns"])
        end_ns[row["step"]] = max(end_ns.get(row["step"], 0), row["start_ns"] + int(row["duration_ms"] * 1e6))
    moved, now_ns = {}, min(begin_ns.values())
    for step in begin_ns:
        moved[step] = now_ns - begin_ns[step]
        now_ns = end_ns[step] + moved[step]
    return [row if "type" in row else {**row, "start_ns": row["start_ns"] + moved[row["step"]]} for row in rows]


def random_series(rng, steps, typical=10.0, noise=0.05):
    return [round(typical * rng.uniform(1 - noise, 1 + noise), 6) for _ in range(steps)]


# ---- what is said


def two_jobs(tmp_path, factors, steps=60, seed=20):
    """Two jobs of four ranks; B's phases take `factors` times as long."""
    for name, slow in (("a", None), ("b", factors)):
        rng = random.Random(f"{name}{seed}")
        for rank in range(4):
            rows = attempt_rows(rank, range(steps), rng=rng, world_size=4, slow=slow)
            Job(tmp_path / name).write(rank, back_to_back(rows))
    return "a", "b"
