# SPDX-License-Identifier: Apache-2.0
"""The ledger does not depend on how the same rows come in."""

import random

import pytest
from comparison import Comparison, run_cep, summary_of
from shapes import (Checkpoints, HiddenLoader, LostRows, Pipeline, Restart, RestartsThatCompile, Sampled, SampledRestart,
                    WarmUp)

SHAPES = (Checkpoints, HiddenLoader, LostRows, Pipeline, RestartsThatCompile, Sampled, WarmUp)


def ledger_of(job, *options):
    """Phases that the rows have in another order are listed in another order."""
    ledger = summary_of(job, *options)["ledger"]
    return {**ledger, "phases": sorted(ledger["phases"], key=lambda one: one["name"])}


@pytest.fixture(params=SHAPES, ids=lambda shape: shape.__name__)
def written(request, tmp_path):
    folder = request.param(1).make().write(tmp_path / "job")
    return folder, ledger_of(folder)


def test_a_merged_file_has_the_ledger_of_its_parts(written):
    folder, ledger = written
    merged = folder.parent / "merged.jsonl.zst"
    run_cep("merge", "-o", merged, folder)
    assert ledger_of(merged) == ledger


def test_rows_in_another_order_have_the_same_ledger(written):
    """Threads and streams end in any order. A row stays behind the run row of its attempt."""
    folder, ledger = written
    shuffle = random.Random(5).shuffle
    for path in folder.iterdir():
        parts = []
        for line in path.read_text().splitlines():
            if '"type"' in line or not parts:
                parts.append([])
            parts[-1].append(line)
        lines = []
        for first, *others in parts:
            shuffle(others)
            lines += [first, *others]
        path.write_text("\n".join(lines) + "\n")
    assert ledger_of(folder) == ledger


@pytest.mark.parametrize("shape", [Restart, RestartsThatCompile, SampledRestart], ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_steps_done_again_are_a_piece_of_their_own_whichever_attempts_count(tmp_path, shape, seed):
    """Two attempts' rows of one step are no step that lasts from the first attempt to the second."""
    job = shape(seed).make()
    folder = job.write(tmp_path / "job")
    ledger = ledger_of(folder, "--attempt", "all")
    assert Comparison(job, ledger).wrong() == []
    assert sum(one["ms"] for one in ledger["pieces"] if one["piece"] == "redone") > 0
    assert ledger == ledger_of(folder)
