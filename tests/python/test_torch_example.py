# SPDX-License-Identifier: Apache-2.0
"""A real PyTorch training on two CPU processes, from the rank files to the summary."""

import importlib.util
import json
import sys

import pytest
from example_programs import EXAMPLES, phases_of_a_summary, run, steps_of


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")
def test_a_torch_ddp_training_goes_through_the_whole_pipeline(tmp_path, files, command):
    out = run(
        sys.executable,
        EXAMPLES / "torch_ddp.py",
        *("--nproc", 2, "--steps", 12, "--output-dir", tmp_path, "--record-every-n-steps", 2),
    )
    assert "12 steps on 2" in out
    phases = ("data_load", "host_to_device", "forward", "backward", "all_reduce", "optimizer")
    for rank in range(2):
        for name in (*phases, "training_step", "training_metrics"):
            assert steps_of(files, name, rank) == [0, 2, 4, 6, 8, 10], name
        assert [row["coll"] for row in files.spans("all_reduce", rank)] == [0, 2, 4, 6, 8, 10]
        assert files.typed("stats", rank)[-1]["recorded"] > 0
    run(command, "merge", "-o", tmp_path / "merged.jsonl", tmp_path)
    merged = [json.loads(line) for line in (tmp_path / "merged.jsonl").read_text().splitlines()]
    spans = [row for row in merged if "type" not in row]
    assert len(spans) == 2 * 6 * 8
    assert [row["step"] for row in spans] == sorted(row["step"] for row in spans)
    summary = phases_of_a_summary(command, tmp_path)
    assert all(summary[name]["count"] == 12 and summary[name]["ranks"] == 2 for name in phases)
    run(command, "check", tmp_path)


def test_a_plain_loop_in_one_line(tmp_path, files):
    run(sys.executable, EXAMPLES / "torch_loop.py", "--output-dir", tmp_path, "--steps", "5")
    names = {row["name"] for row in files.spans()}
    assert names == {"training_step", "data_load", "host_to_device", "forward", "backward", "optimizer"}
    assert {row["step"] for row in files.spans()} == set(range(5))
