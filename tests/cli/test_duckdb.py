# SPDX-License-Identifier: Apache-2.0
"""The queries of examples/duckdb answer as the command does."""

import gzip
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import attempt_rows

RUNNER = Path(__file__).parent / "duckdb" / "run_sql.mjs"
EXAMPLES = Path(__file__).parents[2] / "examples" / "duckdb"
SKIPPED = 77
EXACT_KEYS = {"phases": ("name", "count", "ranks", "min_ms", "max_ms"), "slowest_ranks": ("name", "slowest_rank"),
              "steps": ("step", "name", "max_ms")}


def run_sql(*arguments):
    return subprocess.run(["node", RUNNER, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module", autouse=True)
def duckdb():
    if shutil.which("node") is None:
        pytest.skip("node is missing")
    done = run_sql("", "/dev/null", "/dev/null")
    if done.returncode == SKIPPED:
        pytest.skip(done.stderr.strip())


def answer(job, question):
    done = run_sql(f"{job.folder}/cuda_events_rank_*.jsonl*", EXAMPLES / "spans.sql", EXAMPLES / f"{question}.sql")
    assert done.returncode == 0, done.stderr
    whole_numbers = ("count", "ranks", "slowest_rank", "step", "longest_rank")
    return [{key: int(value) if key in whole_numbers else value for key, value in row.items()}
            for row in json.loads(done.stdout)]


@pytest.fixture
def large_job(job):
    """16 ranks of 60 steps, one resumed, one slow, one cut off, one with a NUL-filled tail, one compressed."""
    rng = random.Random(41)
    for rank in range(16):
        slow = {"backward": 1.4} if rank == 11 else None
        tail = {3: b'{"name":"forw', 5: b"\0" * 5000}.get(rank, b"")
        job.write(rank, attempt_rows(rank, range(60), rng=rng, world_size=16, slow=slow), tail=tail)
    job.write(7, attempt_rows(7, range(40, 70), rng=rng, world_size=16, attempt=2))
    packed = job.path(2).with_name(job.path(2).name + ".gz")
    packed.write_bytes(gzip.compress(job.path(2).read_bytes()))
    job.path(2).unlink()
    return job


def assert_same(of_duckdb, of_cep, question):
    assert of_duckdb.keys() <= of_cep.keys()
    for key, value in of_duckdb.items():
        expected = of_cep[key]
        assert value == (expected if key in EXACT_KEYS[question] else pytest.approx(expected, rel=1e-12)), key


@pytest.mark.parametrize("question", ["phases", "slowest_ranks"])
def test_phases_agree(cep, large_job, question):
    # Without the verdict, the slowest rank is by the spans; with it, by what a rank does itself in a step.
    more = ["--no-verdict"] if question == "slowest_ranks" else []
    phases = {phase["name"]: phase for phase in cep.summary("--attempt", "all", *more, "job")["phases"]}
    rows = answer(large_job, question)
    assert {row["name"] for row in rows} == set(phases)
    assert len(rows) == len(phases) == 4
    for row in rows:
        assert_same(row, phases[row["name"]], question)
    assert phases["backward"]["slowest_rank"] == 11


def test_longest_spans_of_each_step_agree(cep, large_job):
    groups = cep.summary("--attempt", "all", "--by", "step:1", "job")["groups"]
    expected = {(group["first_step"], group["name"]): group["max_ms"] for group in groups}
    rows = answer(large_job, "steps")
    assert {(row["step"], row["name"]): row["max_ms"] for row in rows} == expected
    assert len(rows) == 70 * 4
    longest = max(large_job.spans(), key=lambda span: span["duration_ms"])
    assert {"step": longest["step"], "name": longest["name"], "max_ms": longest["duration_ms"],
            "longest_rank": longest["rank"]} in rows


def test_readme_names_each_query(tmp_path):
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}`" in readme for path in EXAMPLES.glob("*.sql"))
