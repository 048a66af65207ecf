# SPDX-License-Identifier: Apache-2.0
"""The worked example of cep-verdict(7): its figures are what the command computes."""

import json

from conftest import START_NS, run_row, span_row

OWN_MS = {"data_load": ("data", 2.0), "forward": ("compute", 30.0), "backward": ("compute", 60.0)}
TRANSFER_MS = 8.0
SLOW_RANK, SLOW_FORWARD_MS = 2, 45.0
STEP_MS = 2.0 + SLOW_FORWARD_MS + 60.0 + TRANSFER_MS


def example_rows(rank):
    rows = [run_row(rank, world_size=4)]
    for step in range(40):
        begin_ns = START_NS + int((step + 1) * STEP_MS * 1e6)
        at_ms = 0.0
        for name, (kind, duration_ms) in OWN_MS.items():
            if name == "forward" and rank == SLOW_RANK:
                duration_ms = SLOW_FORWARD_MS
            rows.append(span_row(rank, step, name, duration_ms, begin_ns + int(at_ms * 1e6), kind=kind, clock="gpu"))
            at_ms += duration_ms
        rows.append(span_row(rank, step, "all_reduce", STEP_MS - at_ms, begin_ns + int(at_ms * 1e6), kind="comm",
                             clock="gpu", group="dp", coll=step))
        rows.append(span_row(rank, step, "training_step", STEP_MS, begin_ns, kind="step", clock="gpu", depth=0))
    return rows


def test_the_figures_of_the_manual_are_what_the_command_computes(job, cep):
    for rank in range(4):
        job.write(rank, example_rows(rank))
    summary = json.loads(cep("summarize", "--json", job.folder).stdout)
    verdict = summary["verdict"]
    (straggler,) = verdict["stragglers"]
    assert (straggler["rank"], straggler["phase"], straggler["pattern"]) == (2, "forward", "persistent")
    assert straggler["slowdown"] == 1.5
    assert straggler["excess_ms"] == 15
    assert straggler["waiters_median_wait_ms"] == 15
    assert verdict["step_ms"] == 115
    assert verdict["job_slowdown"] == 115 / 100
    slowest = {phase["name"]: phase["slowest_rank"] for phase in summary["phases"]}
    assert slowest["forward"] == 2
    assert slowest["all_reduce"] != 2
