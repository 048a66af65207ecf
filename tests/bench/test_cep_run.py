# SPDX-License-Identifier: Apache-2.0
"""The benchmark of `cep run` still finds what cep has put into a trainer: two rounds of each."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.distributed.pipelining", reason="no torch 2.4")
SECONDS = 120


@pytest.mark.parametrize("trainer", ["gan", "transformer", "lightning", "transformers"])
def test_two_rounds_come_to_their_end(trainer):
    if trainer in ("lightning", "transformers"):
        pytest.importorskip(trainer)
    command = [sys.executable, str(Path(__file__).with_name("cep_run.py")), "--rounds", "2", "--trainers", trainer]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0].strip() for line in done.stdout.splitlines() if ": at most" in line] == [
        "not recorded, µs", "recorded, µs", "every 10th step, % of 5 ms",
    ]  # fmt: skip
