# SPDX-License-Identifier: Apache-2.0
"""python -m cep where the package carries no command: it is looked for on PATH."""

import os
import subprocess
import sys


def run_module(path):
    environment = {**os.environ, "PATH": str(path)}
    return subprocess.run([sys.executable, "-m", "cep", "--version"], env=environment, capture_output=True, text=True)


def test_the_command_on_path_is_run(command):
    result = run_module(command.parent)
    assert (result.returncode, result.stdout[:4]) == (0, "cep ")


def test_a_script_of_that_name_is_not_taken_for_the_command(command, tmp_path):
    script = tmp_path / "cep"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -m cep \"$@\"\n")
    script.chmod(0o755)
    result = run_module(f"{tmp_path}:{command.parent}")
    assert (result.returncode, result.stdout[:4]) == (0, "cep ")


def test_no_command_is_said(tmp_path):
    result = run_module(tmp_path)
    assert result.returncode == 1 and "none on PATH" in result.stderr
