# SPDX-License-Identifier: Apache-2.0
"""The verdict on trainings of real GPUs, with a straggler that was planted or none."""

from pathlib import Path

import pytest

TRAININGS = Path(__file__).resolve().parents[1] / "data" / "trainings"
PLANTED = {
    "forward": ("forward", "persistent"),
    "backward": ("backward", "persistent"),
    "data": ("data_load", "persistent"),
    "window": ("forward", "window"),
    "intermittent": ("data_load", "intermittent"),
}


def names():
    return sorted(path.name.split(".")[0] for path in TRAININGS.glob("*.zst"))


def test_there_are_trainings_of_both_kinds():
    assert {name.split("_")[0] for name in names()} == {"ddp", "fsdp"}
    assert {name.split("_")[1] for name in names()} == {*PLANTED, "none"}


@pytest.mark.parametrize("name", names())
def test_what_was_planted_is_named_and_nothing_else(cep, name):
    verdict = cep.summary(TRAININGS / f"{name}.jsonl.zst")["verdict"]
    assert not verdict["abstained"]
    found = [(s["rank"], s["phase"], s["pattern"]) for s in verdict["stragglers"]]
    planted = PLANTED.get(name.split("_")[1])
    assert found == ([(2, *planted)] if planted else [])
    assert verdict["changes"] == [], "the others are faster while they wait, as GPUs at their power limit are"
    if name.endswith("window"):
        assert (verdict["stragglers"][0]["first_step"], verdict["stragglers"][0]["last_step"]) == (40, 79)
