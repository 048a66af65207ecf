# SPDX-License-Identifier: Apache-2.0
"""A host that runs ahead of its device, as that of a trainer that reads no loss: what it does before the device comes to the
step is hidden by earlier steps, of which sampled files have no rows. The truth is the same job with even loaders."""

import random

import pytest
from conftest import START_NS, run_row, span_row

RANKS = 4
STEPS = 300
AHEAD = 2  # steps that the device has to do when the host begins one
WORK_MS = {"forward": 10.0, "backward": 20.0, "optimizer": 3.0}
LAUNCH_MS, EVEN_LOAD_MS, TRANSFER_MS = 0.1, 0.3, 2.0


class Training:
    """``load_ms(rank, step)``: of its loader."""

    def __init__(self, load_ms, stride=1, bare=False):
        self.load_ms, self.stride, self.bare, self.rng = load_ms, stride, bare, random.Random(5)
        self.rows = {rank: [] for rank in range(RANKS)}
        self.ends = [[1.0] * RANKS]  # of the device, by step, in ms
        self.host = [1.0] * RANKS
        for step in range(STEPS):
            self.train(step)

    @property
    def step_ms(self):
        return (max(self.ends[-1]) - 1.0) / STEPS

    def train(self, step):
        launches, begins, arrived = [], [], []
        for rank in range(RANKS):
            launch = max(self.host[rank], self.ends[max(0, step - AHEAD)][rank])
            loaded = launch + self.load_ms(rank, step)
            self.host[rank] = loaded + LAUNCH_MS
            begin = max(launch + 0.01, self.ends[-1][rank])
            now = max(begin, loaded + 0.01)
            self.add(rank, step, "data_load", launch, loaded, kind="data", clock="host")
            for name in ("forward", "backward"):
                end = now + WORK_MS[name] * self.rng.gauss(1, 0.003)
                self.on_device(rank, step, name, now, end, loaded)
                now = end
            launches.append(launch)
            begins.append(begin)
            arrived.append(now)
        together = max(arrived) + TRANSFER_MS
        for rank in range(RANKS):
            end = together + WORK_MS["optimizer"]
            self.on_device(rank, step, "all_reduce", arrived[rank], together, self.host[rank], kind="comm", group="dp", coll=step)
            self.on_device(rank, step, "optimizer", together, end, self.host[rank])
            if not self.bare:
                self.on_device(rank, step, "training_step", begins[rank], end, launches[rank], kind="step", depth=0)
        self.ends.append([together + WORK_MS["optimizer"]] * RANKS)

    def on_device(self, rank, step, name, begin, end, launch, **more):
        lag_ms = round(begin - min(begin - 0.01, launch), 6)
        self.add(rank, step, name, begin, end, **{"clock": "gpu", "lag_ms": lag_ms, "stream": 0, **more})

    def add(self, rank, step, name, begin, end, **more):
        if step % self.stride == 0:
            row = span_row(rank, step, name, round(end - begin, 6), START_NS + round(begin * 1e6), **more)
            self.rows[rank].append(row)

    def summary(self, cep, job, ranks=RANKS):
        config = {"start_step": 0, "end_step": None, "record_every_n_steps": self.stride, "ranks": None}
        for rank in range(ranks):
            job.write(rank, [run_row(rank, world_size=ranks, backend="cuda", config=config), *self.rows[rank]])
        return cep.summary(job.folder)


def even(rank, step):
    return EVEN_LOAD_MS


def share_of(summary, piece):
    return sum(one["share"] for one in summary["ledger"]["pieces"] if one["piece"] == piece)


@pytest.mark.parametrize("bare", (False, True))
@pytest.mark.parametrize("stride", (1, 5))
@pytest.mark.parametrize("ranks", (1, RANKS))
def test_work_of_the_host_that_the_device_hides_is_no_part_of_a_step(cep, job, ranks, stride, bare):
    training = Training(even, stride, bare)
    summary = training.summary(cep, job, ranks)
    assert summary["verdict"]["bound"] == "compute"
    assert share_of(summary, "compute") > 0.9
    assert summary["ledger"]["step_ms"]["mean"] == pytest.approx(training.step_ms, rel=0.01)
    assert summary["ledger"]["step_ms"]["typical"] == pytest.approx(training.step_ms, rel=0.01)


@pytest.mark.parametrize("bare", (False, True))
@pytest.mark.parametrize("stride", (1, 5))
def test_a_slow_loader_that_the_device_hides_is_nobodys_fault(cep, job, stride, bare):
    slow = Training(lambda rank, step: 20.0 if rank == 2 else EVEN_LOAD_MS, stride, bare)
    assert slow.step_ms == pytest.approx(Training(even).step_ms, rel=0.003)
    summary = slow.summary(cep, job)
    assert summary["verdict"]["headline"].startswith("No straggler")


@pytest.mark.parametrize("stride, bare", ((1, False), (5, False), (1, True)))
@pytest.mark.parametrize("load_ms", (45.0, 80.0))
def test_a_loader_that_is_slower_than_the_device_costs_what_is_seen_of_it(cep, job, load_ms, stride, bare):
    slow = Training(lambda rank, step: load_ms if rank == 2 else EVEN_LOAD_MS, stride, bare)
    verdict = slow.summary(cep, job)["verdict"]
    assert [(one["rank"], one["phase"]) for one in verdict["stragglers"]] == [(2, "data_load")]
    saved = 1 - Training(even).step_ms / slow.step_ms
    assert 1 - 1 / verdict["job_slowdown"] == pytest.approx(saved, abs=0.01)


@pytest.mark.parametrize("load_ms", (45.0, 80.0))
def test_without_steps_and_those_before_them_it_is_named_without_a_saving(cep, job, load_ms):
    verdict = Training(lambda rank, step: load_ms if rank == 2 else EVEN_LOAD_MS, 5, bare=True).summary(cep, job)["verdict"]
    assert [(one["rank"], one["phase"]) for one in verdict["stragglers"]] == [(2, "data_load")]
    assert verdict["job_slowdown"] is None
    assert "what that costs is not known" in cep("summarize", job.folder).stdout.decode()


@pytest.mark.parametrize("copy_ms", (0.0, 6.0))
def test_work_of_the_host_that_the_device_waits_for_is_seen_in_steps_without_a_span_of_their_own(cep, job, copy_ms):
    """The host waits for the device at the end of each step. A copy of the batch has no rows."""
    load_ms = 5.0
    rows = [run_row(0, world_size=1, backend="cuda", config={"start_step": 0, "end_step": None, "record_every_n_steps": 1})]
    now = 1.0
    for step in range(100):
        rows.append(span_row(0, step, "data_load", load_ms, START_NS + round(now * 1e6), kind="data", clock="host"))
        now += load_ms + copy_ms + 0.01
        for name, ms in WORK_MS.items():
            rows.append(span_row(0, step, name, ms, START_NS + round(now * 1e6), clock="gpu", lag_ms=copy_ms + 0.01, stream=0))
            now += ms
    job.write(0, rows)
    step_ms = load_ms + copy_ms + sum(WORK_MS.values())
    assert share_of(cep.summary(job.folder), "data") == pytest.approx(load_ms / step_ms, abs=0.002)


def test_a_loader_that_stalls_now_and_then_costs_what_the_device_waits(cep, job):
    slow = Training(lambda rank, step: 150.0 if rank == 2 and step % 10 == 5 else EVEN_LOAD_MS)
    verdict = slow.summary(cep, job)["verdict"]
    assert [(one["rank"], one["phase"]) for one in verdict["stragglers"]] == [(2, "data_load")]
    saved = 1 - Training(even).step_ms / slow.step_ms
    assert 1 - 1 / verdict["job_slowdown"] == pytest.approx(saved, abs=0.01)
