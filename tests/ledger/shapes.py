# SPDX-License-Identifier: Apache-2.0
"""Random jobs of many shapes, each from a seed."""

from generator import sampled, with_clocks_apart, without_files, without_rows
from rows import MS
from training import Training


class Steady(Training):
    pass


class Stalls(Training):
    """Some steps take longer in one of their phases, on all ranks or one."""

    def set_up(self):
        self.share = self.rng.uniform(0.02, 0.4)
        self.stall = self.rng.randrange(20, 500) * MS
        self.where = self.rng.choice(["data", "rank", "comm", "synthetic"])

    def train(self, step):
        self.stalls = self.rng.random() < self.share
        self.victim = self.rng.choice(self.lines)
        self.usual = self.reduce
        if self.stalls and self.where == "comm":
            self.reduce += self.stall
        super().train(step)
        self.reduce = self.usual

    def load(self, line, step):
        more = self.stall if self.stalls and self.where == "data" else 0
        line.host("data_load", "data", self.jitter(self.data) + more, "data")

    def before_forward(self, line, step):
        if not self.stalls or line is not self.victim:
            return
        if self.where == "rank":  # in no phase; the device is not waiting for its host
            line.idle(self.stall, "uncovered")
            self.launched_early(line)
        elif self.where == "synthetic":
            line.host("synthetic_straggler", "host", self.stall, "host")

    def launched_early(self, line):
        line.phase("zero_grad", "compute", MS, "compute", lag_ns=self.stall + 5 * MS)


class BetweenSteps(Training):
    layouts = ("enclosed", "bare")

    def set_up(self):
        self.gap = self.rng.randrange(1, 200) * MS
        self.sigma = self.rng.choice([0.01, 0.5])

    def after(self, step):
        if step < self.steps - 1:
            for line in self.lines:
                line.idle(self.jitter(self.gap, self.sigma), "between")


class HiddenLoader(Training):
    """A loader's thread works beside a busy device."""

    def set_up(self):
        self.layout = self.rng.choice(["enclosed", "bare"])
        self.data = 0

    def load(self, line, step):
        line.phase("zero_grad", "compute", self.jitter(2 * MS), "compute")

    def before_end(self, line, step):
        begin = line.iterations[-1].pieces
        lasted = sum(begin.values())
        start_ns = line.now - lasted + 20_000 + self.rng.randrange(100_000, 1 * MS)
        end_ns = line.now - self.rng.randrange(100_000, 1 * MS)
        line.row("next_batch", "data", start_ns, end_ns, clock="host", depth=0)
        middle = (start_ns + end_ns) // 2
        line.row("copy_to_device", "memory", middle, min(end_ns, middle + 5 * MS), stream=7)


class Siblings(Training):
    """No span encloses a step: host_to_device, training_step and training_metrics stand side by side."""

    def set_up(self):
        self.metrics = self.rng.randrange(0, 30) * MS
        self.loader = self.rng.random() < 0.3
        self.layout = "bare"

    def work(self, step):
        for line in self.lines:
            line.host("host_to_device", "data", self.jitter(self.data), "host_to_device", depth=0)
            own_ns = self.own(line, self.forward + self.backward) * self.micro_batches
            span = line.phase("training_step", "step", own_ns, "compute", depth=0)
            if self.loader:  # another thread's span is nobody's child
                line.row("next_batch", "data", span.start_ns + MS, span.end_ns - MS, clock="host", depth=0)
        self.collective("all_reduce", self.jitter(self.reduce), depth=0)
        for line in self.lines:
            if self.metrics:
                line.host("training_metrics", "host", self.jitter(self.metrics), "logging", depth=0)


class Checkpoints(Training):
    """Every n-th step saves: inside of the step, after it, or on another thread."""

    def set_up(self):
        self.every = self.rng.randrange(2, 15)
        self.at = self.rng.randrange(self.every)
        self.save = self.rng.randrange(50, 1500) * MS
        self.where = self.rng.choice(["inside", "after", "thread"])
        self.name, self.kind = self.rng.choice([("save_checkpoint", "host"), ("ckpt", "other"), ("SaveState", "host")])

    def saves(self, step):
        return step % self.every == self.at

    def before_end(self, line, step):
        if self.where == "inside" and self.saves(step):
            line.host(self.name, self.kind, self.jitter(self.save), "checkpoint")
        if self.where == "thread" and self.saves(step) and step < self.steps - 1:
            end_ns = line.now - self.rng.randrange(1, 3) * MS  # not beyond the last row
            line.row(self.name, self.kind, end_ns - self.hidden_ns(line), end_ns, clock="host", depth=0)

    @staticmethod
    def hidden_ns(line):
        """As long as device work of this step lasts before its end, on the rank."""
        pieces = line.iterations[-1].pieces
        return (pieces["compute"] + pieces["transfer"]) // 2

    def after(self, step):
        if self.where == "after" and self.saves(step):
            for line in self.lines:
                line.host(self.name, self.kind, self.jitter(self.save), "checkpoint", depth=0)


class Evaluation(Training):
    def set_up(self):
        self.every = self.rng.randrange(5, 20)
        self.length = self.rng.randrange(100, 2000) * MS
        self.name, self.kind = self.rng.choice([("evaluation", "host"), ("validate", "other"), ("eval_loop", "host")])
        self.log_every = self.rng.choice([0, 1, 5])

    def after(self, step):
        if step % self.every == self.every - 1:
            for line in self.lines:
                line.host(self.name, self.kind, self.jitter(self.length), "evaluation", depth=0)

    def before_end(self, line, step):
        if self.log_every and step % self.log_every == 0:
            name = self.rng.choice(["wandb_log", "tensorboard_writer", "training_metrics"])
            line.host(name, "host", self.jitter(3 * MS), "logging")


class EvaluationLoop(Evaluation):
    """An evaluation with phases of its own, which look like those of a step."""

    def after(self, step):
        if step % self.every != self.every - 1:
            return
        starts = [line.now for line in self.lines]
        for line in self.lines:
            line.idle(MS, "evaluation")
            for _ in range(3):
                self.inside(line, "data_load", "data", 2 * MS, clock="host")
                self.inside(line, "forward", "compute", self.own(line, self.forward))
        self.collective("all_reduce_metrics", self.jitter(3 * MS), group="metrics", pieces=("evaluation", "evaluation"))
        self.evaluated(starts)

    def evaluated(self, starts):
        for line, start_ns in zip(self.lines, starts):
            line.idle(MS, "evaluation")
            line.row("evaluation", "host", start_ns, line.now, clock="host", depth=0)

    @staticmethod
    def inside(line, name, kind, ns, **more):
        line.phase(name, kind, ns, "evaluation", depth=1, **more)


class Restart(Training):
    """A second attempt begins at the last checkpoint and does some steps again."""

    least_steps = 30

    def make(self):
        self.begin_run(self.rng.randrange(0, 4000) * MS)
        fails_at = self.rng.randrange(self.steps // 2, self.steps - 2)
        resumes_at = self.rng.randrange(self.steps // 4, fails_at)
        for step in range(fails_at):
            self.train(step)
        self.fail()
        for step in range(resumes_at, self.steps):
            self.train(step)
        return self.job(type(self).__name__)

    def fail(self):
        last_ns = max(line.now for line in self.lines)
        lost_ns = self.rng.randrange(1000, 60_000) * MS
        for line in self.lines:
            line.begin_run(self.rng.randrange(100, 3000) * MS, self.meta, lost_ns=last_ns - line.now + lost_ns)
        self.colls.clear()


class RestartsThatCompile(Restart):
    """Three attempts, each with a slow first step; a checkpoint every ten steps."""

    layouts = ("enclosed",)

    def make(self):
        self.begin_run(self.rng.randrange(0, 4000) * MS)
        self.micro_batches = 1
        for first, end in ((0, 47), (40, 63), (60, 95)):
            if first:
                self.fail()
            self.first = first
            for step in range(first, end):
                self.train(step)
        return self.job(type(self).__name__)

    def own(self, line, ns):
        return super().own(line, ns * (6 if line.step == self.first else 1))

    def before_end(self, line, step):
        if step % 10 == 9:
            line.host("save_checkpoint", "host", self.jitter(300 * MS), "checkpoint")


class WarmUp(Training):
    """The first steps compile."""

    def set_up(self):
        self.first = self.rng.randrange(1, max(2, min(8, self.steps // 10 + 1)))
        self.factor = self.rng.uniform(3, 15)

    def own(self, line, ns):
        factor = self.factor if line.step < self.first else 1
        return super().own(line, ns * factor)


class HostLate(Training):
    """The device waits for its host before the forward, or for something else."""

    def set_up(self):
        self.gap = self.rng.randrange(2, 80) * MS
        self.late = self.rng.random() < 0.7
        self.lag = self.rng.choice([10_000, 45_000, 55_000, 200_000, 2 * MS, 20 * MS])
        if self.late and self.lag >= self.gap // 2:
            self.lag = self.gap // 3

    def before_forward(self, line, step):
        gap_ns = self.jitter(self.gap, 0.1)
        lag_ns = self.lag if self.late else gap_ns + self.rng.randrange(100_000, 20 * MS)
        line.idle(gap_ns, "host_late" if self.late else "uncovered")
        line.phase("zero_grad", "compute", self.jitter(MS), "compute", lag_ns=lag_ns)


class HostPaced(Training):
    """The device does each small piece of work as soon as it is launched, and waits for the next."""

    def work(self, step):
        for line in self.lines:
            self.load(line, step)
            for name, length in (("forward", self.forward), ("backward", self.backward)):
                ns = self.own(line, length * self.micro_batches)
                line.phase(name, "compute", ns, "host_late", lag_ns=self.rng.randrange(5_000, 30_000),
                           host_ns=round(ns * self.rng.uniform(0.98, 1.0)), paced=True)
        self.collective("all_reduce", self.jitter(self.reduce))


class OverlappedReduction(Training):
    """Gradients are reduced on a stream of their own, beside the backward and maybe beyond it."""

    def set_up(self):
        self.micro_batches, self.tensor_parallel = 1, False
        self.reduce = round(self.backward * self.rng.choice([0.2, 0.8, 1.5]))

    def work(self, step):
        starts, owns = [], []
        for line in self.lines:
            self.load(line, step)
            line.phase("forward", "compute", self.own(line, self.forward), "compute")
            ns = self.own(line, self.backward)
            span = line.row("backward", "compute", line.now, line.now + ns)
            owns.append(span)
            starts.append(line.now + ns * 2 // 5)
        last_ns, transfer_ns = max(starts), self.jitter(self.reduce)
        end_ns = last_ns + transfer_ns
        if any(abs(end_ns - span.end_ns) < 50_000 for span in owns):
            end_ns += 200_000
        coll = self.colls["world"]
        self.colls["world"] += 1
        for line, start_ns, span in zip(self.lines, starts, owns):
            line.row("all_reduce", "comm", start_ns, end_ns, group="world", coll=coll, stream=2, depth=2)
            line.idle(span.end_ns - line.now, "compute")
            if end_ns > line.now:
                line.idle(max(0, last_ns - line.now), "waiting")
                line.idle(end_ns - line.now, "transfer")
            line.phase("optimizer", "compute", self.jitter(self.optimizer), "compute")


class Streams(Training):
    """Compute on two streams side by side, an offload behind it, host callbacks beside it."""

    def before_forward(self, line, step):
        ns = self.jitter(6 * MS)
        line.row("attention", "compute", line.now, line.now + ns * 2 // 3, stream=1)
        line.row("experts", "compute", line.now + ns // 3, line.now + ns, stream=3)
        line.row("callbacks", "host", line.now + 1000, line.now + ns // 2, clock="host", depth=0)
        line.row("offload_activations", "memory", line.now + ns // 2, line.now + ns + 3 * MS, stream=4)
        line.idle(ns, "compute")
        line.idle(3 * MS, "memory")
        line.host("callbacks", "host", self.jitter(MS), "host")
        line.host("something", "other", self.jitter(MS), "other")


class Mixed(Training):
    """Everything at once: gaps, threads that work beside the steps and across their ends, late hosts, pauses. Only the
    rows tell what such a job is made of."""

    beside = (("next_batch", "data", "host"), ("async_checkpoint", "host", "host"), ("copy_to_device", "memory", "gpu"),
              ("offload", "memory", "gpu"), ("callbacks", "host", "host"), ("wandb_log", "host", "host"),
              ("validate", "other", "host"), ("watch", "other", "host"))

    def set_up(self):
        self.threads = self.rng.sample(self.beside, self.rng.randrange(1, 4))
        self.chance = self.rng.uniform(0.1, 0.9)
        self.pause = self.rng.choice([0, self.rng.randrange(1, 100) * MS])

    def before_forward(self, line, step):
        if self.rng.random() < self.chance:
            gap_ns = self.rng.randrange(1, 30 * MS)
            line.idle(gap_ns, "gap")
            line.phase("zero_grad", "compute", self.jitter(MS), "compute", lag_ns=self.rng.randrange(10_000, 30 * MS))
        for place, (name, kind, clock) in enumerate(self.threads):
            if self.rng.random() < self.chance:
                start_ns = line.now + self.rng.randrange(0, 40 * MS)
                end_ns = start_ns + self.rng.randrange(1000, 120 * MS)
                line.row(name, kind, start_ns, end_ns, clock, depth=0, stream=10 + place if clock == "gpu" else None)

    def before_end(self, line, step):
        if self.rng.random() < self.chance:
            line.host(*self.rng.choice([("callbacks", "host"), ("save_checkpoint", "host"), ("logging", "other")]),
                      self.rng.randrange(1, 50 * MS), "named")

    def after(self, step):
        for line in self.lines:
            if self.pause:
                line.idle(self.jitter(self.pause, 0.5), "gap")

    def finish(self, job):
        job.closed_form = None
        return job


class BehindHost(Training):
    """The host runs ahead: it loads the next batch while the device still computes the step before."""

    def set_up(self):
        self.layout = "bare"
        self.ahead = self.rng.randrange(5, 40) * MS

    def train(self, step):
        for line in self.lines:
            line.begin_step(step)
            load_ns = min(self.jitter(self.data), self.ahead - 2 * MS)
            if step == 0:
                line.host("data_load", "data", load_ns, "data")
            else:
                start_ns = line.now - self.ahead
                line.row("data_load", "data", start_ns, start_ns + load_ns, clock="host")
        for name, length in (("forward", self.forward), ("backward", self.backward)):
            for line in self.lines:
                line.phase(name, "compute", self.own(line, length * self.micro_batches), "compute",
                           lag_ns=self.ahead - MS if step else 50_000)
        self.collective("all_reduce", self.jitter(self.reduce), lag_ns=self.ahead)
        for line in self.lines:
            line.phase("optimizer", "compute", self.jitter(self.optimizer) + self.ahead, "compute", lag_ns=self.ahead)


class Pipeline(Training):
    """Stages that receive, compute and send. The account knows what is computed, and not who was waiting for whom."""

    def set_up(self):
        self.stages = self.rng.choice([2, 2, 4]) if len(self.lines) >= 4 else min(2, len(self.lines))
        self.micro_batches = self.rng.randrange(2, 6)
        self.steps = min(self.steps, 80)

    def place(self, rank):
        return {"pp": rank % self.stages, "dp": rank // self.stages}

    def work(self, step):
        pipelines = [self.lines[i:i + self.stages] for i in range(0, len(self.lines), self.stages)]
        for lines in pipelines:
            self.pass_through(lines, self.forward, "forward")
            self.pass_through(lines[::-1], self.backward, "backward")
        for line in self.lines:
            line.phase("optimizer", "compute", self.jitter(self.optimizer), "compute")

    def pass_through(self, lines, length, name):
        sent = {}
        for micro_batch in range(self.micro_batches):
            for place, line in enumerate(lines):
                if place:
                    self.receive(lines[place - 1], line, sent[micro_batch, place - 1], name)
                line.phase(name, "compute", self.own(line, length), "compute")
                sent[micro_batch, place] = line.now

    def receive(self, sender, line, sent_ns, name):
        group = f"pp-{min(sender.rows.rank, line.rows.rank)}-{max(sender.rows.rank, line.rows.rank)}"
        coll = self.colls[group]
        self.colls[group] += 1
        transfer_ns = self.jitter(MS)
        end_ns = max(sent_ns, line.now) + transfer_ns
        sender.row(f"send_{name}", "comm", sent_ns, end_ns, group=group, coll=coll, stream=5)
        line.row(f"recv_{name}", "comm", line.now, end_ns, group=group, coll=coll, stream=1)
        line.idle(end_ns - line.now, "point to point")

    def finish(self, job):
        job.closed_form = None
        return job


class Sampled(Training):
    """Every n-th step is recorded. A checkpoint may fall on the recorded steps, or on others."""

    least_steps = 40

    def set_up(self):
        self.stride = self.rng.choice([2, 5, 10])
        self.save_at = self.rng.choice([None, 0, self.stride // 2])
        self.save = self.rng.randrange(100, 1000) * MS
        self.gap = self.rng.choice([0, self.rng.randrange(1, 60) * MS])

    def before_end(self, line, step):
        if step % self.stride == self.save_at:
            line.host("save_checkpoint", "host", self.jitter(self.save), "checkpoint")

    def after(self, step):
        for line in self.lines:
            line.idle(self.gap, "between")

    def finish(self, job):
        return sampled(job, self.stride)


class SampledRestart(Restart):
    least_steps = 60

    def make(self):
        return sampled(super().make(), self.rng.choice([2, 5]))


class SampledPipeline(Pipeline):
    def finish(self, job):
        return sampled(super().finish(job), self.rng.choice([2, 5]))


class ClocksApart(Stalls):
    def finish(self, job):
        return with_clocks_apart(job, self.rng)


class LostRows(Checkpoints):
    def finish(self, job):
        return without_rows(job, 0.05, self.rng)


class LostFiles(BetweenSteps):
    def finish(self, job):
        return without_files(job, 0.5, self.rng)


class LostOfRestart(Restart):
    def make(self):
        return without_rows(super().make(), 0.05, self.rng)


class LostOfSampled(Sampled):
    def finish(self, job):
        return without_rows(without_files(sampled(job, self.stride), 0.5, self.rng), 0.05, self.rng)


SHAPES = (Steady, Stalls, BetweenSteps, HiddenLoader, Siblings, Checkpoints, Evaluation, EvaluationLoop, Restart,
          RestartsThatCompile, WarmUp, HostLate, HostPaced, OverlappedReduction, Streams, Mixed, BehindHost, Pipeline,
          Sampled, SampledRestart, SampledPipeline, ClocksApart, LostRows, LostFiles, LostOfRestart, LostOfSampled)
JOBS_OF_A_SHAPE = 14  # 364 jobs


def random_jobs(shapes=SHAPES, seeds=range(JOBS_OF_A_SHAPE)):
    for shape in shapes:
        for seed in seeds:
            job = shape(seed).make()
            job.name = f"{shape.__name__}-{seed}"
            yield job
