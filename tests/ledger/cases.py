# SPDX-License-Identifier: Apache-2.0
"""Named jobs whose figures follow by arithmetic from a base step of 103 ms: data 2, forward 30, backward 60, all_reduce
8, optimizer 3 ms, the device never idle. Each case says what it costs beside that, and what the ledger must say."""

from dataclasses import dataclass, field
from typing import Callable, Optional

from generator import Maker, sampled
from rank_files import MS, write_rank

TOKENS = 100_000
PEAK_FLOPS = 1e15
FLOPS = 0.4 * PEAK_FLOPS * 0.103  # 40 % of the peak in a base step
IDLE_MS = 101 * 0.56 / 0.44
COMMON = {"tokens_per_step": TOKENS, "flops_per_step": FLOPS, "peak_flops": PEAK_FLOPS}


@dataclass
class Case:
    """``shares``: of the elapsed time, by piece. ``first``: piece and phase of the largest loss."""

    name: str
    make: Callable
    step_ms: float
    shares: dict = field(default_factory=dict)
    steps: int = 200
    first: Optional[tuple] = None
    bound: Optional[str] = None

    def __str__(self):
        return self.name


class Base(Maker):
    """``extra(maker, line, step)`` comes after the optimizer, inside of the step."""

    def __init__(self, ranks=4, *, data=2.0, forward=30.0, encloses=True, extra=None, beside=None, pause=0.0,
                 gap=None, meta=COMMON):
        super().__init__(ranks, ranks, **meta)
        self.data, self.forward, self.encloses, self.extra = data, forward, encloses, extra
        self.beside, self.pause, self.gap = beside, pause, gap
        self.begin_run()

    def ns(self, ms):
        return self.jitter(ms * MS, 0.002)

    def run(self, steps, stride=1):
        for step in range(steps):
            self.train(step)
            if step < steps - 1 and self.pause:
                for line in self.lines:
                    line.idle(self.ns(self.pause), "between")
        job = self.job("case")
        return sampled(job, stride) if stride > 1 else job

    def train(self, step):
        starts = [line.now for line in self.lines]
        for line in self.lines:
            line.begin_step(step)
            self.load(line, step)
            self.compute(line, "forward", self.value(self.forward, line, step))
            self.compute(line, "backward", 60)
        if comm_ms := self.comm_ms(step):
            self.collective("all_reduce", self.ns(comm_ms))
        for line, start_ns in zip(self.lines, starts):
            self.compute(line, "optimizer", 3)
            if self.beside:
                self.beside(line, start_ns)
            if self.extra:
                self.extra(self, line, step)
            if self.encloses:
                line.row("training_step", "step", start_ns, line.now, depth=0)

    @staticmethod
    def value(of, line, step):
        return of(line.rows.rank, step) if callable(of) else of

    def load(self, line, step):
        if data_ms := self.value(self.data, line, step):
            line.host("data_load", "data", self.ns(data_ms), "data")

    def compute(self, line, name, ms):
        more = {}
        if self.gap:
            gap_ns, lag_ns = self.gap
            line.idle(gap_ns, "host_late")
            more = {"lag_ns": lag_ns}
        line.phase(name, "compute", self.ns(ms), "compute", **more)

    def comm_ms(self, step):
        return 8


def host_phase(name, ms, piece, *, kind="host", every=1, at=0, ranks=None):
    def spend(maker, line, step):
        if step % every == at and (ranks is None or line.rows.rank in ranks):
            line.host(name, kind, maker.ns(ms), piece)
    return spend


class Accumulation(Base):
    def comm_ms(self, step):
        return 300 if step % 4 == 3 else 0


class Siblings(Maker):
    """Phases side by side, each (name, kind, ms, piece)."""

    def __init__(self, *phases, loader=False, meta=COMMON):
        super().__init__(4, 4, **meta)
        self.phases, self.loader = phases, loader
        self.begin_run()

    def run(self, steps):
        for step in range(steps):
            for line in self.lines:
                line.begin_step(step)
                for name, kind, ms, piece in self.phases:
                    clock = "gpu" if kind == "step" else "host"
                    span = line.phase(name, kind, self.jitter(ms * MS, 0.002), piece, clock=clock, depth=0)
                    if self.loader and kind == "step":
                        line.row("next_batch", "data", span.start_ns + MS, span.end_ns - MS, clock="host", depth=0)
        return self.job("siblings")


def loader_beside(ms):
    return lambda line, start_ns: line.row("next_batch", "data", start_ns + MS, start_ns + (1 + ms) * MS, clock="host",
                                           depth=0)


def copy_beside(name, ms, kind):
    return lambda line, start_ns: line.row(name, kind, start_ns + 5 * MS, start_ns + (5 + ms) * MS, stream=9)


def late_device(lag_ns):
    """56 % idle: the device waits before each of its three compute phases; they and all_reduce take 101 ms."""
    return Base(data=0, gap=(round(IDLE_MS / 3 * MS), lag_ns)).run(100)


TRAINERS = (("host_to_device", "data", 1.2, "host_to_device"), ("training_step", "step", 3.6, "compute"),
            ("training_metrics", "host", 10.2, "logging"))
HALVES = (("data_load", "data", 20, "data"), ("training_step", "step", 20, "compute"))
STALLED_STEPS = {0, 133, 266}

CASES = (
    Case("checkpoint_inside_every_10th_step",
         lambda: Base(extra=host_phase("save_checkpoint", 1000, "checkpoint", every=10, at=9)).run(200),
         step_ms=203, shares={"checkpoint": 100 / 203, "compute": 93 / 203, "data": 2 / 203, "transfer": 8 / 203},
         first=("checkpoint", "save_checkpoint")),
    Case("100_ms_between_all_step_spans",
         lambda: Base(pause=100).run(200),
         step_ms=103 + 100 * 199 / 200, shares={"between": 0.4913, "compute": 0.4592}, first=("between", None)),
    Case("checkpoint_in_the_recorded_steps",
         lambda: Base(extra=host_phase("save_checkpoint", 1000, "checkpoint", every=10, at=0)).run(400, stride=10),
         step_ms=103 + 1000 * 40 / 391, steps=391),
    Case("checkpoint_in_steps_that_are_not_recorded",
         lambda: Base(extra=host_phase("save_checkpoint", 1000, "checkpoint", every=10, at=5)).run(400, stride=10),
         step_ms=103 + 1000 * 39 / 391, steps=391),
    Case("data_stalls_in_30_percent_of_steps",
         lambda: Base(data=lambda rank, step: 402 if step * 7 % 10 < 3 else 2).run(200),
         step_ms=223, shares={"data": 122 / 223, "compute": 93 / 223}, first=("data", "data_load")),
    Case("reduction_of_300_ms_every_4th_step",
         lambda: Accumulation().run(200),
         step_ms=170, shares={"transfer": 75 / 170, "compute": 93 / 170}, first=("transfer", "all_reduce")),
    Case("stall_of_3_s_at_epoch_starts",
         lambda: Base(data=lambda rank, step: 3002 if step in STALLED_STEPS else 2).run(400),
         step_ms=103 + 9000 / 400, steps=400, shares={"data": (2 + 22.5) / 125.5, "compute": 93 / 125.5},
         first=("data", "data_load")),
    Case("sibling_phases_of_a_trainer",
         lambda: Siblings(*TRAINERS).run(200),
         step_ms=15, shares={"logging": 0.68, "compute": 0.24, "host_to_device": 0.08},
         first=("logging", "training_metrics")),
    Case("sibling_phases_beside_a_loader_thread",
         lambda: Siblings(*TRAINERS, loader=True).run(200),
         step_ms=15, shares={"logging": 0.68, "compute": 0.24, "host_to_device": 0.08},
         first=("logging", "training_metrics")),
    Case("data_beside_training_step",
         lambda: Siblings(*HALVES, meta={**COMMON, "flops_per_step": 0.494 * PEAK_FLOPS * 0.02}).run(200),
         step_ms=40, shares={"data": 0.5, "compute": 0.5}, first=("data", "data_load")),
    Case("loader_thread_beside_a_busy_device",
         lambda: Base(data=0, beside=loader_beside(95)).run(200),
         step_ms=101, shares={"data": 0, "compute": 93 / 101}, bound="compute"),
    Case("hidden_copy_to_the_device",
         lambda: Base(beside=copy_beside("copy_to_device", 50, "memory")).run(200),
         step_ms=103, shares={"host_to_device": 0, "memory": 0, "data": 2 / 103, "compute": 93 / 103}, bound="compute"),
    Case("hidden_offload",
         lambda: Base(beside=copy_beside("offload_activations", 70, "memory")).run(200),
         step_ms=103, shares={"memory": 0, "data": 2 / 103, "compute": 93 / 103}, bound="compute"),
    Case("synchronised_between_phases",
         lambda: Base(gap=(30_000, 15_000)).run(200),
         step_ms=103.09, shares={"compute": 93 / 103.09, "host_late": 0.09 / 103.09}, bound="compute"),
    Case("lag_below_a_twentieth_ms",
         lambda: late_device(45_000), steps=100,
         step_ms=101 + IDLE_MS, shares={"host_late": 0.56, "compute": 93 / 101 * 0.44}, first=("host_late", None)),
    Case("lag_above_a_twentieth_ms",
         lambda: late_device(55_000), steps=100,
         step_ms=101 + IDLE_MS, shares={"host_late": 0.56, "compute": 93 / 101 * 0.44}, first=("host_late", None)),
    Case("metrics_of_85_percent",
         lambda: Base(extra=host_phase("training_metrics", 583.67, "logging")).run(100), steps=100,
         step_ms=686.67, shares={"logging": 0.85}, first=("logging", "training_metrics")),
    Case("checkpoint_of_67_percent",
         lambda: Base(extra=host_phase("save_checkpoint", 209.12, "checkpoint")).run(100), steps=100,
         step_ms=312.12, shares={"checkpoint": 0.67}, first=("checkpoint", "save_checkpoint")),
)


def flat_file(folder, steps, phases):
    """Rows as trainers' own profilers write them: four keys, in the order in which spans end."""
    for rank in range(2):
        write_rank(folder, rank, [{"duration_ms": ms, "name": name, "rank": rank, "step": step}
                                  for step in range(steps) for name, ms in phases])
    return folder
