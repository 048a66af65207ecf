# SPDX-License-Identifier: Apache-2.0
"""The rows of a step in each mode in which PyTorch runs one, and in each way in which a model is instrumented."""

from collections import Counter
from pathlib import Path

import pytest
from conftest import RankFiles, needs_torch

needs_torch()

pytest_plugins = ("training_jobs",)

RECORDED_STEPS = (0, 2)
ONCE = {"forward": 1, "backward": 1, "optimizer": 1}
TWICE = {"forward": 2, "backward": 2, "optimizer": 1}
WAYS = ("module", "DDP", "Accelerate")
# Accelerate's steps end with an optimizer's step.
WITHOUT_ACCELERATE = WAYS[:-1]
# DistributedDataParallel does not support torch.autograd.grad().
WITHOUT_DDP = ("module", "Accelerate")

# A mode of training_modes.py; the rows of a module's step; how often DDP averages gradients in it; the ways.
TABLE = [
    ("plain", ONCE, 1, WAYS),
    ("accumulation, no_sync", TWICE, 1, WAYS),
    ("several backwards, retain_graph", {**ONCE, "backward": 2}, 1, WAYS),
    ("several forwards first", TWICE, 1, WAYS),
    ("autograd.grad", ONCE, 0, WITHOUT_DDP),
    ("closure", ONCE, 1, WAYS),
    ("autocast, GradScaler disabled", ONCE, 1, WAYS),
    ("inference_mode", {"forward_no_grad": 1}, 0, WITHOUT_ACCELERATE),
    ("evaluation between steps", {**ONCE, "forward_no_grad": 1}, 1, WAYS),
    ("two threads", TWICE, 2, WAYS),
    ("persistent workers", {**TWICE, "data_load": 3}, 2, WAYS),  # the third wait finds the end of the data
    ("a forward without a backward", {"forward": 1}, 0, WITHOUT_ACCELERATE),
    ("checkpoint, reentrant", ONCE, 1, WAYS),
    ("checkpoint, not reentrant", ONCE, 1, WAYS),
    ("a module that calls itself", ONCE, 1, WAYS),
]


def expected_rows(rows, averages, way):
    added = {
        "DDP": {"all_reduce": averages},
        "Accelerate": {"training_step": 1},
    }
    return +Counter({**rows, **added.get(way, {})})


@pytest.mark.parametrize("mode, rows, averages, ways", TABLE, ids=[line[0] for line in TABLE])
def test_a_step_has_the_rows_of_its_mode(job, tmp_path, mode, rows, averages, ways):
    job.run(1, f"""
sys.path.insert(0, {str(Path(__file__).parent)!r})
import training_modes
training_modes.train_in_all_ways(folder, {mode!r}, {ways!r}, wait_for_ends)
""")
    for way in ways:
        spans = RankFiles(tmp_path / way).spans()
        assert not [row for row in spans if "error" in row], way
        found = {step: Counter(row["name"] for row in spans if row["step"] == step) for step in range(4)}
        expected = expected_rows(rows, averages, way)
        due = {step: expected if step in RECORDED_STEPS else Counter() for step in range(4)}
        if (mode, way) == ("persistent workers", "Accelerate"):  # its first step begins with the first forward
            due[0] = expected + Counter({"data_load": 1})
        assert found == due, way
