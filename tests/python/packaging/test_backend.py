# SPDX-License-Identifier: Apache-2.0
"""What the build backend has Meson build for a wheel: what goes into it, and nothing else, which an old C library may lack."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BACKEND = Path(__file__).resolve().parents[3] / "bindings" / "python" / "build_backend"
FOLDER = Path(os.environ.get("TEST_BUILD_DIRECTORY", ""))
MESON = shutil.which("meson")

# It answers of this build, says what it was asked to do, and ends where the built files would be installed.
STAND_IN = """#!/bin/sh
[ "$1" = introspect ] && exec "{meson}" introspect --targets "{folder}"
echo "$@" >> "{log}"
[ "$1" != install ]
"""


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Meson's commands while a wheel is built where nothing is built yet: the words of each, but for the first."""
    if MESON is None or not (FOLDER / "tools").is_dir():
        pytest.skip("no meson, or the cep command is no part of this build")
    if importlib.util.find_spec("tomllib") is None and importlib.util.find_spec("tomli") is None:
        pytest.skip("no TOML parser")
    log, stand_in = tmp_path / "log", tmp_path / "bin" / "meson"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN.format(meson=MESON, folder=FOLDER, log=log))
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent), prepend=os.pathsep)
    program = "import backend, sys; backend.build_wheel(sys.argv[1], {'build-dir': sys.argv[2]})"
    words = [sys.executable, "-c", program, tmp_path, tmp_path / "build"]
    ended = subprocess.run(words, cwd=BACKEND, capture_output=True, text=True)
    assert "meson failed" in ended.stderr, ended.stderr  # at the installation
    return {line.split()[0]: line.split()[1:] for line in log.read_text().splitlines()}


def test_builds_the_targets_that_are_packed_and_no_others(commands):
    listed = subprocess.run([MESON, "introspect", "--targets", FOLDER], capture_output=True, text=True, check=True)
    packed = {f"{one['name']}:{one['type'].replace(' ', '_')}" for one in json.loads(listed.stdout) if one["installed"]}
    named = commands["compile"]
    assert named[0] == "-C"
    assert set(named[2:]) == packed  # none is all targets


def test_configures_no_tests_and_no_other_languages(commands):
    assert {"-Dtests=disabled", "-Drust=disabled", "-Djulia=disabled"} <= set(commands["setup"])
