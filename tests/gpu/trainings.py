# SPDX-License-Identifier: Apache-2.0
"""Small real trainings with one thing wrong with them, for verdict_runs.py: DistributedDataParallel, FSDP2, DDP that
accumulates micro-batches of one length or of different lengths, a pipeline of stages (1F1B) of our own and one of
torch.distributed.pipelining, and experts to which tokens are routed. All have the same blocks, and on each rank a Fault,
which can be taken away and put back between steps."""

import contextlib
import math
import os
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cep.torch

SLOW_RANK = min(2, int(os.environ.get("WORLD_SIZE", 3)) - 1)
MICRO_BATCHES = 4
# The share of --slow-ms that a rank has, where it is not all of it on SLOW_RANK.
SHARES = {"small": {SLOW_RANK: 0.25}, "two": {1: 0.6, SLOW_RANK: 1.0}}


class Fault:
    """What is wrong with this rank in one case."""

    def __init__(self, case, options, rank, device):
        self.case, self.options, self.rank, self.device = case, options, rank, device
        self.present = True
        self.step = 0
        first, last = options.first_recorded, options.first_recorded + options.steps
        self.window = range(first + (last - first) // 3, first + 2 * (last - first) // 3)
        chance = random.Random(7)
        self.random_steps = {step for step in range(last) if chance.random() < 0.3}
        self.share = SHARES.get(case, {SLOW_RANK: 1.0}).get(rank, 0.0)
        self.work = DeviceWork(options, device) if device.type == "cuda" else None

    def _share_of(self, phase):
        """The share of --slow-ms in this phase of this step."""
        if self.case == "stage":  # half as much work again, for the last stage; without the fault, for all
            stages = dist.get_world_size() // 2
            last = self.rank // 2 == stages - 1
            return 0.5 * (last if self.present else 1 / stages) * (phase in ("forward", "backward"))
        if not self.present or self.case in ("none", "lengths", "layers", "tokens"):
            return 0
        if self.case == "harmless":
            return float(phase == ("data" if self.rank == SLOW_RANK else "forward"))
        if self.case == "window":
            return self.share * (phase == "forward" and self.step in self.window)
        if self.case == "intermittent":
            return self.share * (phase == "data" and self.step in self.random_steps)
        slow_phase = "forward" if self.case in ("small", "two", "worker") else self.case
        return self.share * (phase == slow_phase)

    def on_device(self, phase, part=1.0):
        """Keeps the device busy; `part`: of what the phase has."""
        ms = self.options.slow_ms * self._share_of(phase) * part
        if ms == 0:
            return
        if self.work is not None:
            self.work.run(ms)
        else:
            time.sleep(ms * 1e-3)

    def on_host(self):
        """As a slow data loader."""
        time.sleep(self.options.slow_ms * self._share_of("data") * 1e-3)


class DeviceWork:
    """Matrix products that keep a device busy and warm. A device that only waits would leave the others more power."""

    SIZE = 2048

    def __init__(self, options, device):
        make = torch.zeros if options.zeros else torch.randn
        self.matrix = make(self.SIZE, self.SIZE, device=device, dtype=torch.bfloat16) / self.SIZE**0.5
        self.result = torch.empty_like(self.matrix)
        self._run(200)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self._run(200)
        end.record()
        end.synchronize()
        self.products_per_ms = 200 / begin.elapsed_time(end)

    def _run(self, products):
        with torch.no_grad():
            for _ in range(products):
                torch.mm(self.matrix, self.matrix, out=self.result)

    def run(self, ms):
        self._run(round(ms * self.products_per_ms))


class SlowBackward(torch.autograd.Function):
    """Its input; slow in backward."""

    @staticmethod
    def forward(context, tensor, fault, part):
        context.fault, context.part = fault, part
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context, gradient):
        context.fault.on_device("backward", context.part)
        return gradient, None, None


class Block(nn.Module):
    def __init__(self, width, fault, part):
        super().__init__()
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)
        self.fault, self.part = fault, part

    def forward(self, hidden):
        self.fault.on_device("forward", self.part)
        hidden = SlowBackward.apply(hidden, self.fault, self.part)
        return hidden + self.down(torch.relu(self.up(hidden)))


def blocks(options, fault, device, count, phase_calls=1):
    """A model of `count` blocks. `phase_calls`: how often a phase runs in a step; the fault is spread over all of them."""
    torch.manual_seed(0)
    part = 1 / count / phase_calls
    made = nn.Sequential(*[Block(options.width, fault, part).to(options.type) for _ in range(count)])
    if options.zeros:
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.zero_()
    return made


class Training:
    """A rank's model and optimizer. step() runs one training step; what differs is in run()."""

    meta = None

    def __init__(self, options, fault, device):
        self.options, self.fault, self.device = options, fault, device
        with torch_device(device):
            self.model = self.build()
        self.called = self.model  # what is instrumented
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        batch = (torch.zeros if options.zeros else torch.randn)(options.batch_size, options.width, dtype=options.type)
        self.batch = batch.pin_memory() if device.type == "cuda" else batch

    def batches(self, count):
        for _ in range(count):
            self.fault.on_host()
            yield self.batch

    def steps(self, prof, first, count):
        fault = self.fault
        fault.step = first
        for step, batch in enumerate(cep.torch.iterate(prof, self.batches(count), first_step=first), first):
            with prof.region("training_step", kind="step"):
                batch = cep.torch.to_device(prof, batch, self.device)
                fault.step = step
                self.run(batch, step)
                self.optimizer.step()
                self.optimizer.zero_grad()
            self.settle()
            fault.step = step + 1  # the loader makes the next step's batch before that step is told

    def settle(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def run(self, batch, step):
        self.model(batch).float().pow(2).mean().backward()


class DDP(Training):
    def build(self):
        model = blocks(self.options, self.fault, self.device, self.options.layers)
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=ids, bucket_cap_mb=100)


class FSDP(Training):
    def build(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model = blocks(self.options, self.fault, self.device, self.options.layers)
        mesh = init_device_mesh(self.device.type, (dist.get_world_size(),))
        for module in (*model, model):
            fully_shard(module, mesh=mesh)
        return model


class Accumulation(DDP):
    """Micro-batches, whose gradients are reduced after the last."""

    def build(self):
        model = blocks(self.options, self.fault, self.device, self.options.layers, MICRO_BATCHES)
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=ids, bucket_cap_mb=100)

    def lengths_of(self, step):
        return [self.options.batch_size // MICRO_BATCHES] * MICRO_BATCHES

    def run(self, batch, step):
        for number, length in enumerate(self.lengths_of(step), 1):
            with contextlib.nullcontext() if number == MICRO_BATCHES else self.model.no_sync():
                self.model(batch[:length]).float().pow(2).mean().backward()


class Lengths(Accumulation):
    """Micro-batches of random lengths. Without the fault all are as long as these are on average."""

    def __init__(self, options, fault, device):
        unit = max(1, options.batch_size // 64)  # rows; lengths are multiples of it
        chance = random.Random(11)
        draw = lambda: max(1, min(32, round(14 * math.exp(chance.gauss(0, 0.5)))))  # noqa: E731
        last = options.first_recorded + options.steps
        drawn = [[[draw() for _ in range(MICRO_BATCHES)] for _ in range(dist.get_world_size())] for _ in range(last)]
        self.lengths = [[unit * rows for rows in step[dist.get_rank()]] for step in drawn]
        recorded = [rows for step in drawn[options.first_recorded :] for rank in step for rows in rank]
        self.mean = round(unit * sum(recorded) / len(recorded))
        super().__init__(options, fault, device)

    def lengths_of(self, step):
        return self.lengths[step] if self.fault.present else [self.mean] * MICRO_BATCHES


class Schedule(Training):
    """A stage on each rank, by torch.distributed.pipelining. With the fault the last stage has more of the layers."""

    def __init__(self, options, fault, device):
        super().__init__(options, fault, device)
        self.called = self.model[0]

    def build(self):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        rank, stages, layers = dist.get_rank(), dist.get_world_size(), self.options.layers
        few = max(1, layers // (2 * stages))
        loaded = layers - few * (stages - 1) if rank == stages - 1 else few
        models, self.schedules = nn.ModuleList(), []
        for count in (loaded, layers // stages):
            model = blocks(self.options, self.fault, self.device, count)
            stage = PipelineStage(model, rank, stages, self.device)
            models.append(model)
            self.schedules.append(Schedule1F1B(stage, 2 * MICRO_BATCHES, lambda out, _: out.float().pow(2).mean()))
        self.is_first, self.is_last, self.meta = rank == 0, rank == stages - 1, {"pp": rank}
        return models

    def run(self, batch, step):
        schedule = self.schedules[0 if self.fault.present else 1]
        schedule.step(*([batch] if self.is_first else []), **({"target": batch} if self.is_last else {}))


class AllToAll(torch.autograd.Function):
    """So many rows to each rank, and back again in backward."""

    @staticmethod
    def forward(context, tensor, sent, received):
        context.sent, context.received = sent, received
        result = tensor.new_empty(sum(received), tensor.shape[1])
        dist.all_to_all_single(result, tensor.contiguous(), received, sent)
        return result

    @staticmethod
    def backward(context, gradient):
        return AllToAll.apply(gradient, context.received, context.sent), None, None


class Routed(nn.Module):
    """Layers whose tokens go to the expert of some rank, and come back. With the fault the last rank's gets four times as many."""

    def __init__(self, options, fault, device):
        super().__init__()
        self.fault = fault
        self.experts = blocks(options, fault, device, max(1, options.layers // 2))
        self.dense = nn.Linear(options.width, options.width).to(options.type)

    def forward(self, hidden):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        weights = [4 if to == ranks - 1 and self.fault.present else 1 for to in range(ranks)]
        sent = [len(hidden) * weight // sum(weights) for weight in weights]
        sent[0] += len(hidden) - sum(sent)
        hidden = self.dense(hidden)
        for expert in self.experts:
            tokens = expert(AllToAll.apply(hidden, sent, [sent[rank]] * ranks))
            hidden = hidden + AllToAll.apply(tokens, [sent[rank]] * ranks, sent)
        return hidden


class Experts(Training):
    def build(self):
        return Routed(self.options, self.fault, self.device)

    def run(self, batch, step):
        super().run(batch, step)
        for parameter in self.model.dense.parameters():
            dist.all_reduce(parameter.grad)


class Pipeline(Training):
    """Stages of two ranks each, the replicas; one forward, one backward (1F1B), as Megatron-LM orders the messages."""

    def __init__(self, options, fault, device):
        world, rank = dist.get_world_size(), dist.get_rank()
        self.stages, self.stage, self.replica = world // 2, rank // 2, rank % 2
        groups = [dist.new_group([2 * stage, 2 * stage + 1]) for stage in range(self.stages)]
        self.replicas = groups[self.stage]
        self.before = rank - 2 if self.stage > 0 else None
        self.after = rank + 2 if self.stage + 1 < self.stages else None
        self.meta = {"pp": self.stage, "dp": self.replica}
        super().__init__(options, fault, device)

    def build(self):
        return blocks(self.options, self.fault, self.device, max(1, self.options.layers // self.stages),
                      2 * MICRO_BATCHES)

    def exchange(self, *messages):
        """Sends and receives what has a partner, as one batch. `messages`: (tensor or None to receive, partner)."""
        operations, received = [], []
        for tensor, partner in messages:
            if partner is None:
                received.append(None)
                continue
            receives = tensor is None
            if receives:
                rows = self.options.batch_size // (2 * MICRO_BATCHES)
                tensor = torch.empty(rows, self.options.width, dtype=self.options.type, device=self.device)
            operations.append(dist.P2POp(dist.irecv if receives else dist.isend, tensor, partner))
            received.append(tensor if receives else None)
        for work in dist.batch_isend_irecv(operations) if operations else ():
            work.wait()
        return received

    def forward(self, hidden):
        hidden.requires_grad_(self.before is not None)
        result = self.model(hidden)
        if self.after is None:
            result = result.float().pow(2).mean()
        self.waiting.append((hidden, result))
        return result.detach()

    def backward(self, gradient):
        hidden, result = self.waiting.pop(0)
        result.backward(gradient)
        return hidden.grad

    def run(self, batch, step):
        count = 2 * MICRO_BATCHES
        inputs = iter(batch.chunk(count))
        self.waiting = []
        next_input = lambda got: next(inputs) if self.before is None else got  # noqa: E731
        ahead = min(count, self.stages - 1 - self.stage)
        for _ in range(ahead):
            (got,) = self.exchange((None, self.before))
            self.exchange((self.forward(next_input(got)), self.after))
        if ahead < count:
            (got,) = self.exchange((None, self.before))
        for number in range(count - ahead):
            result = self.forward(next_input(got))
            _, gradient = self.exchange((result, self.after), (None, self.after))
            gradient = self.backward(gradient)
            if number + 1 < count - ahead:
                _, got = self.exchange((gradient, self.before), (None, self.before))
            else:
                self.exchange((gradient, self.before))
        for _ in range(ahead):
            (gradient,) = self.exchange((None, self.after))
            self.exchange((self.backward(gradient), self.before))
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad, group=self.replicas)


TRAININGS = {"ddp": DDP, "fsdp": FSDP, "accumulation": Accumulation, "lengths": Lengths, "pipeline": Pipeline,
             "schedule": Schedule, "experts": Experts}  # fmt: skip


@contextlib.contextmanager
def torch_device(device):
    """New parameters are made on the device, where this PyTorch can."""
    with device if hasattr(device, "__enter__") else contextlib.nullcontext():
        yield
