# SPDX-License-Identifier: Apache-2.0
"""The benchmark of `cep run` still finds what cep has put into a trainer: a round of each."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TITLES = ["not recorded, µs", "recorded, µs", "every 10th step, % of 5 ms"]
WITHOUT_COMPILER = str(Path(__file__).parents[1] / "python" / "without_compiler")  # it takes longest to import
TRAINERS = ["gan", "transformer", "lightning", "transformers"]


@pytest.mark.skipif(find_spec("torch") is None, reason="no torch")
def test_a_round_of_each_trainer_comes_to_its_end():
    command = [sys.executable, str(Path(__file__).with_name("cep_run.py")), "--rounds", "1", "--warm-up", "10"]
    path = os.pathsep.join([WITHOUT_COMPILER, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(":")[0].strip() for line in done.stdout.splitlines() if ":" in line]
    there = [name for name in TRAINERS if name in ("gan", "transformer") or find_spec(name)]
    assert [line for line in lines if line not in TITLES] == TRAINERS
    assert [line for line in lines if line in TITLES] == TITLES * len(there)
