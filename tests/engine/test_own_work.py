# SPDX-License-Identifier: Apache-2.0
"""The own work of each rank in each phase, as the page of `cep report` shows it, against what the rank did."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jobs import Simulated, kinds

sys.path.append(str(Path(__file__).resolve().parents[1] / "cli"))
from report_pages import Page, by_rank  # noqa: E402

MOST_ERROR = 0.03  # of the phase
# No row shows how much work it is: communication follows on communication from the first launch on, in all steps of the
# ranks that are seen. It is at most what is said.
UNSEEN = ("constant slack", "slow rank not chosen")
# Beside a step of 30 s the page shows all others as the shortest that it has a colour for.
UNREADABLE = ("ddp slow rank, long start-up",)
# A phase that waits for its host has no work that is its own: what the page shows is 5 % less to 24 % more than the device does.
ALL = {kind.name: kind for kind in kinds()
       if "full" in kind.layouts and kind.shape != "hosted" and kind.name not in UNREADABLE}


def own_work(page, phase):
    """By rank and step; of a phase that waits for nobody the time that it takes."""
    measures = {one["measure"] for one in page["layers"] if one["phase"] == phase}
    return by_rank(page, phase, "own work" if "own work" in measures else "as recorded")


def errors(simulated, page):
    """By phase and rank: by how much of it the mean is off, without steps that are no training."""
    steps = [step for step in page["steps"]["first"] if step not in simulated.kind.beside]
    found = {}
    for phase in {row.name for row in simulated.program.rows if row.kind == "compute"}:
        for rank, values in own_work(page, phase).items():
            said = dict(zip(page["steps"]["first"], values))
            known = [step for step in steps if said[step] is not None]
            truth = simulated.work_ms(rank, phase)[known].mean()
            found[phase, rank] = np.mean([said[step] for step in known]) / truth - 1
    return found


@pytest.fixture
def errors_of(tmp_path):
    def run(name, layout):
        simulated = Simulated(ALL[name], 1)
        simulated.write(tmp_path / "job", layout)
        subprocess.run([os.environ["CEP_COMMAND"], "report", "-o", "page.html", *simulated.kind.options, "job"],
                       check=True, capture_output=True, cwd=tmp_path)
        found = errors(simulated, Page((tmp_path / "page.html").read_bytes()).model())
        assert len(found) > 1
        return found
    return run


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNSEEN])
def test_own_work_is_what_a_rank_does_without_waiting(errors_of, name):
    assert {at: error for at, error in errors_of(name, "full").items() if abs(error) > MOST_ERROR} == {}


@pytest.mark.parametrize("name", ["ddp slow rank", "pauses of random ranks", "stops, and a rank is slow"])
def test_rows_that_are_lost_leave_it(errors_of, name):
    assert {at: error for at, error in errors_of(name, "lost").items() if abs(error) > MOST_ERROR} == {}


@pytest.mark.parametrize("name", UNSEEN)
def test_where_no_row_shows_it_own_work_is_not_too_small(errors_of, name):
    assert min(errors_of(name, "full").values()) > -MOST_ERROR
