# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/, run as a user would, and what the cep command says of their files."""

import json
import os
import sys

from example_programs import EXAMPLES, phases_of_a_summary, run, steps_of


def test_ten_lines_of_python(tmp_path, files):
    run(sys.executable, EXAMPLES / "ten_lines.py", tmp_path)
    assert steps_of(files, "forward") == steps_of(files, "optimizer") == list(range(0, 100, 10))


def test_ten_lines_of_c(tmp_path):
    run(os.environ["TEST_TEN_LINES"], cwd=tmp_path)
    text = (tmp_path / "cuda_event_profiler" / "cuda_events_rank_0.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["step"] for row in rows if row.get("name") == "forward"] == list(range(0, 100, 10))


def test_the_quickstart_job_shows_its_slow_rank(tmp_path, files, command):
    run(
        sys.executable,
        EXAMPLES / "quickstart_job.py",
        tmp_path,
        *("--ranks", 4, "--steps", 12, "--slow-rank", 2, "--slow-ms", 400, "--slow-steps", 3, 10),
    )
    for rank in range(4):
        assert steps_of(files, "all_reduce", rank) == list(range(12))
    phases = phases_of_a_summary(command, tmp_path)
    assert phases["data_load"]["slowest_rank"] == 2
    assert phases["data_load"]["max_ms"] >= 400
    assert phases["all_reduce"]["count"] == 48
    run(command, "check", tmp_path)
