# SPDX-License-Identifier: Apache-2.0
"""The ledger of a real training of four processes, against the stopwatch in its script."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from comparison import summary_of
from stopwatch_training import STEPS

SCRIPT = Path(__file__).with_name("stopwatch_training.py")
RANKS = 4
PIECES = {"host_to_device": "host_to_device", "training_step": "compute", "training_metrics": "logging"}


@pytest.fixture(scope="module", params=[1, 5], ids=["every_step", "every_5th_step"])
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, SCRIPT, folder, str(RANKS), str(request.param)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    watches = [json.loads((folder / f"stopwatch_{rank}.json").read_text()) for rank in range(RANKS)]
    return request.param, watches, summary_of(folder / "cuda_event_profiler")["ledger"]


def test_elapsed_time_is_that_of_the_stopwatch(trained):
    _, watches, ledger = trained
    assert [one["rank"] for one in ledger["ranks"]] == list(range(RANKS))
    for rank, watch in zip(ledger["ranks"], watches):
        assert watch["least_elapsed_ns"] <= rank["elapsed_ns"] <= watch["most_elapsed_ns"]
        assert sum(rank["pieces_ns"].values()) == rank["elapsed_ns"]


def test_the_time_of_a_step_is_that_of_the_stopwatch(trained):
    stride, watches, ledger = trained
    steps = (STEPS - 1) // stride * stride + 1
    assert ledger["steps"] == steps
    least_ms, most_ms = (sum(one[limit] for one in watches) / RANKS / 1e6 / steps
                         for limit in ("least_elapsed_ns", "most_elapsed_ns"))
    assert least_ms <= ledger["run"]["step_ms"] <= most_ms


def test_each_phase_has_what_the_stopwatch_timed(trained):
    stride, watches, ledger = trained
    if stride > 1:
        return  # the stopwatch did not time what was not recorded
    for rank, watch in zip(ledger["ranks"], watches):
        pieces = dict(rank["pieces_ns"])
        startup_ns = pieces.pop("startup", 0)  # of slow first steps: their compute and what is in no phase
        for phase, piece in PIECES.items():
            slack_ns = startup_ns if piece == "compute" else 0
            assert watch["inside_ns"][phase] - slack_ns <= pieces.pop(piece) <= watch["outside_ns"][phase]
        least_ns = watch["least_elapsed_ns"] - sum(watch["outside_ns"].values())
        most_ns = watch["most_elapsed_ns"] - sum(watch["inside_ns"].values())
        assert least_ns - startup_ns <= sum(pieces.values()) <= most_ns


def test_training_step_is_a_phase_beside_the_others(trained):
    _, _, ledger = trained
    assert {one["name"]: one["piece"] for one in ledger["phases"]} == PIECES
