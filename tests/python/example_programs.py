# SPDX-License-Identifier: Apache-2.0
"""Runs the programs in examples/ and the cep command, and reads what they write."""

import json
import subprocess
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(*command, cwd=None):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=cwd, timeout=240)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def steps_of(files, name, rank=0):
    return [row["step"] for row in files.spans(name, rank)]


def phases_of_a_summary(command, directory):
    return {phase["name"]: phase for phase in json.loads(run(command, "summarize", "--json", directory))["phases"]}
