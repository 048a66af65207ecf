# SPDX-License-Identifier: Apache-2.0
"""A data-parallel training that random jobs are variants of."""

import random

from generator import Maker
from rows import MS

MOST_ROWS = 5000  # of a job
META = {"tokens_per_step": 100_000, "flops_per_step": 4e13, "peak_flops": 9.894e14}


class Training(Maker):
    """A data-parallel training whose shape is in its fields. A step is: loader, copy to the device, forward, backward,
    gradient reduction, optimizer."""

    least_steps, most_steps = 20, 400
    most_ranks = 8
    layouts = ("enclosed", "bare")

    def __init__(self, seed, **fixed):
        rng = random.Random(f"{type(self).__name__}/{seed}")
        ranks = fixed.pop("ranks", None) or rng.choice([one for one in (1, 2, 2, 4, 4, 8) if one <= self.most_ranks])
        super().__init__(ranks, rng.random(), **META)
        self.rng = rng
        for line in self.lines:
            line.rng = rng
        self.layout = rng.choice(self.layouts)
        self.data, self.copy = rng.randrange(1, 5) * MS, rng.choice([0, 0, rng.randrange(1, 4) * MS])
        self.forward, self.backward = rng.randrange(8, 40) * MS, rng.randrange(15, 80) * MS
        self.reduce, self.optimizer = rng.randrange(1, 20) * MS, rng.randrange(1, 6) * MS
        self.micro_batches = rng.choice([1, 1, 2, 4])
        self.slow_rank = rng.choice([None, rng.randrange(ranks)])
        self.tensor_parallel = rng.random() < 0.25
        rows = 8 + 2 * self.micro_batches
        self.steps = rng.randrange(self.least_steps, max(self.least_steps + 1,
                                                         min(self.most_steps, MOST_ROWS // ranks // rows)))
        for key, value in fixed.items():
            setattr(self, key, value)
        self.set_up()

    def set_up(self):
        """Prepares what the shape needs."""

    def make(self):
        self.begin_run(self.rng.randrange(0, 4000) * MS)
        for step in range(self.steps):
            self.train(step)
        return self.finish(self.job(type(self).__name__))

    def finish(self, job):
        return job

    def train(self, step):
        starts = self.begin(step)
        self.work(step)
        self.end(step, starts)
        self.after(step)

    def begin(self, step):
        starts = []
        for line in self.lines:
            line.begin_step(step)
            starts.append(line.now)
            if self.layout == "enclosed":
                line.idle(20_000, "uncovered")  # before the first phase, which is on the host
        return starts

    def end(self, step, starts):
        if self.layout == "enclosed":
            for line, start_ns in zip(self.lines, starts):
                line.row("training_step", "step", start_ns, line.now, depth=0)

    def after(self, step):
        """After the step's rows."""

    def work(self, step):
        for line in self.lines:
            self.load(line, step)
            if self.copy:
                line.phase("host_to_device", "data", self.jitter(self.copy), "host_to_device", lag_ns=30_000)
            self.before_forward(line, step)
        for _ in range(self.micro_batches):
            for line in self.lines:
                line.phase("forward", "compute", self.own(line, self.forward), "compute")
            self.go_back(step)
        self.collective("all_reduce", self.jitter(self.reduce))
        for line in self.lines:
            line.phase("optimizer", "compute", self.jitter(self.optimizer), "compute")
            self.before_end(line, step)

    def own(self, line, ns):
        factor = 1.3 if line.rows.rank == self.slow_rank else 1.0
        return self.jitter(ns * factor / self.micro_batches)

    def load(self, line, step):
        line.host("data_load", "data", self.jitter(self.data), "data")

    def before_forward(self, line, step):
        pass

    def before_end(self, line, step):
        pass

    def go_back(self, step):
        if not self.tensor_parallel:
            for line in self.lines:
                line.phase("backward", "compute", self.own(line, self.backward), "compute")
            return
        # A collective on the stream of the phase that it is in blocks it.
        starts = [line.now for line in self.lines]
        for line in self.lines:
            half = self.own(line, self.backward) // 2
            line.idle(half, "compute")
        self.collective("all_reduce_tp", self.jitter(self.reduce // 4 + 1000), group="tensor", depth=2)
        for line, start_ns in zip(self.lines, starts):
            line.idle(self.own(line, self.backward) // 2, "compute")
            line.row("backward", "compute", start_ns, line.now)
