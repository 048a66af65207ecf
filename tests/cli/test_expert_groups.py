# SPDX-License-Identifier: Apache-2.0
"""Experts on the ranks of one axis, all of whose groups have the name of that axis. In Megatron's layout `dp` counts all ranks
that share no data, those of one group of experts too: no coordinates tell these groups apart. The truth is the same job whose
groups have names of their own."""

import json
import random

import pytest
from conftest import START_NS, Job, run_row, span_row

EXPERTS, DATA, STEPS = 4, 8, 100


class Training:
    def __init__(self, job, tp, *, same_name, nested=True):
        self.ranks, self.tp, self.same_name, self.nested = DATA * tp, tp, same_name, nested
        self.slow, self.rng, self.now = 2 * tp, random.Random(3), [1.0] * DATA * tp
        config = {"start_step": 0, "end_step": None, "record_every_n_steps": 1, "ranks": None}
        self.rows = [[run_row(rank, world_size=self.ranks, backend="cuda", config=config, **self.place(rank))]
                     for rank in range(self.ranks)]
        for step in range(STEPS):
            self.work(step, "forward", 10.0)
            self.exchange(step, "dispatch", 2 * step)
            self.work(step, "experts", 8.0, slower_ms=10.0)
            self.exchange(step, "combine", 2 * step + 1)
            self.work(step, "backward", 20.0)
            for tensor in range(tp):
                group = "dp" if same_name and nested else f"dp_all{tensor}"
                self.collective(step, "all_reduce", group, step, range(tensor, self.ranks, tp), 2.0, stream=2)
        for rank, rows in enumerate(self.rows):
            job.write(rank, rows)

    def place(self, rank):
        data = rank // self.tp
        return {"tp": rank % self.tp, "ep": data % EXPERTS, "dp": data if self.nested else data // EXPERTS}

    def span(self, rank, step, name, ms, **more):
        self.rows[rank].append(span_row(rank, step, name, round(ms, 6), START_NS + round(self.now[rank] * 1e6), clock="gpu",
                                        lag_ms=5.0, **more))
        self.now[rank] += ms

    def work(self, step, name, ms, slower_ms=0.0):
        for rank in range(self.ranks):
            self.span(rank, step, name, (ms + slower_ms * (rank == self.slow)) * self.rng.gauss(1, 0.01), kind="compute", stream=0)

    def exchange(self, step, name, number):
        for first in range(0, DATA, EXPERTS):
            for tensor in range(self.tp):
                members = [(first + expert) * self.tp + tensor for expert in range(EXPERTS)]
                group = "ep" if self.same_name else f"ep.tp{tensor}.of{first}"
                self.collective(step, name, group, number, members, 1.0, stream=1)

    def collective(self, step, name, group, number, members, ms, stream):
        end = max(self.now[rank] for rank in members) + ms
        for rank in members:
            self.span(rank, step, name, end - self.now[rank], kind="comm", group=group, coll=number, stream=stream)


@pytest.mark.parametrize("tp, nested", [(1, True), (2, True), (2, False)])
def test_groups_of_experts_are_told_apart_though_one_name_stands_for_all(cep, tmp_path, tp, nested):
    said = []
    for same_name in (False, True):
        job = Job(tmp_path / f"job{same_name}")
        Training(job, tp, same_name=same_name, nested=nested)
        summary = cep.summary(job.folder)["verdict"]
        assert [(one["rank"], one["phase"]) for one in summary["stragglers"]] == [(2 * tp, "experts")]
        said.append(summary["job_slowdown"])
        report = json.loads(cep("comm", "--json", job.folder).stdout)
        assert next(one for one in report["models"] if one["name"] == "combine")["ranks"] == EXPERTS
    assert said[1] == pytest.approx(said[0], abs=0.002)
