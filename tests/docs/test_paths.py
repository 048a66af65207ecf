# SPDX-License-Identifier: Apache-2.0
"""What people do with cep, from an empty folder to a verdict: each script in paths/, with the words that its head promises."""

import re
from pathlib import Path

import pytest
from scene import Scene

PATHS = sorted((Path(__file__).parent / "paths").glob("*.sh"))


def head(path: Path, name: str, separator: str) -> list[str]:
    (values,) = re.findall(rf"^# {name}: (.*)$", path.read_text(encoding="utf-8"), flags=re.M)
    return [value.strip() for value in values.split(separator)]


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_path(path, tmp_path):
    scene = Scene(tmp_path)
    missing = [what for what in head(path, "needs", ",") if scene.lacks(what)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here")
    done = scene.run(["sh", str(path)])
    assert done.returncode == 0, f"status {done.returncode}:\n{done.stdout}"
    for text in head(path, "says", "|"):
        assert text in done.stdout, f"no “{text}” in:\n{done.stdout}"
