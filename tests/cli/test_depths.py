# SPDX-License-Identifier: Apache-2.0
"""Rows that do not say how deep spans are have the depths that their times show."""

import json
import subprocess
from pathlib import Path

import pytest

RECORDINGS = sorted((Path(__file__).resolve().parents[1] / "data" / "trainings").glob("*.zst"))


def write_without_depths(recording, path):
    text = subprocess.run(["zstd", "-dc", recording], check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
        row.pop("depth", None)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def facts(verdict):
    slow = [(one["rank"], one["phase"], one["pattern"], one["first_step"], one["last_step"])
            for one in verdict["stragglers"]]
    causes = [(one["kind"], one["ranks"]) for one in verdict["causes"]]
    return slow, verdict["harmless"], causes, verdict["abstained"], verdict["bound"], verdict["changes"]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_a_recording_without_depths_has_the_same_verdict(cep, tmp_path, recording):
    write_without_depths(recording, tmp_path / "rows.jsonl")
    said = cep.summary(recording)["verdict"]
    found = cep.summary("rows.jsonl")["verdict"]
    assert facts(found) == facts(said)
    assert found["job_slowdown"] == pytest.approx(said["job_slowdown"], abs=0.001)
    assert found["headline"].split(". ")[0] == said["headline"].split(". ")[0]
