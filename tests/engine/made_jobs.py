# SPDX-License-Identifier: Apache-2.0
"""Made-up jobs whose truth is known: what waits for what, and what steps take with a fault and without it.

The same job is run twice, with its fault and without, so that what the fault costs is known exactly.
"""

import functools
import math
import random
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from program import BACK, COMM, HOST, MAIN, RECV, SEND, Program, schedule
from rank_files import START_NS, write_rank

TRANSFER_MS = 0.3  # of the shape recv_blocks


@dataclass
class Fault:
    """``kind``: rank, host, alone, stage, micro_batches, jitter, transfers, link, loader or none. ``factor``: how much
    longer; of micro_batches and jitter, the sigma of the logarithm; of loader, and of alone, which is a phase that only
    these ranks have, milliseconds."""

    kind: str = "none"
    factor: float = 1.0
    ranks: tuple = ()
    phases: tuple = ("forward", "backward")
    share: float = 1.0  # of the steps
    every: int = 1  # steps, of loader and alone
    first: int = 0  # step, of link


class Machine(Program):
    """Operations whose own time is a function of the step, or the same in each, and their rows. A collective is named by
    its group, its number in a step, and how many of the group are in a step."""

    def __init__(self, ranks):
        super().__init__(ranks, joins_streams=True)
        self.own, self.spans = [], []

    def add(self, rank, stream, own, waits=(), collective=None, launched=None):
        self.own.append(own if callable(own) else lambda _: own)
        return self.op(rank, stream, "", 0.0, waits, (), collective, launched)

    def span(self, name, kind, first, last=None, depth=1, collective=None):
        """A row from the start of one operation to the end of another."""
        self.spans.append((name, kind, first, first if last is None else last, depth, collective))

    def do(self, name, kind, rank, stream, own, waits=(), collective=None, launched=None):
        made = self.add(rank, stream, own, waits, collective, launched)
        self.span(name, kind, made, collective=collective)
        return made

    def times(self, steps):
        return super().run(np.array([[own(step) for own in self.own] for step in range(steps)]))

    def rank_rows(self, starts, ends):
        """By rank."""
        rows, ended = defaultdict(list), [0.0] * self.ranks
        ranks = np.array([op.rank for op in self.ops])
        ended_by_rank = np.array([ends[:, ranks == rank].max(axis=1) for rank in range(self.ranks)]).T.tolist()
        starts, ends = starts.tolist(), ends.tolist()
        for step in range(len(starts)):
            began, ended = ended, ended_by_rank[step]
            counts = defaultdict(int)
            for name, kind, first, last, depth, collective in self.spans:
                op = self.ops[first]
                if ends[step][last] > starts[step][first]:
                    seq = counts[op.rank, name]
                    counts[op.rank, name] += 1
                    rows[op.rank].append(row_of(step, name, kind, op, starts[step][first], ends[step][last], depth, seq,
                                                collective))
            for rank in range(self.ranks):
                op = self.ops[self.last[rank, MAIN]]
                rows[rank].append(row_of(step, "training_step", "step", op, began[rank], ended[rank], 0, 0, None))
        return rows


def row_of(step, name, kind, op, start, end, depth, seq, collective):
    row = {"name": name, "step": step, "rank": op.rank, "duration_ms": round(end - start, 6),
           "start_ns": START_NS + round(start * 1e6), "kind": kind, "seq": seq, "depth": depth,
           "clock": "host" if op.stream is HOST else "gpu"}
    if op.stream is not HOST:
        row["stream"] = op.stream
    if collective is not None:
        group, number, of_step = collective
        row["group"], row["coll"] = group, step * of_step + number
    return row


@dataclass
class Shape:
    """``kind``: ddp, blocking, fsdp, accumulation, pipeline, recv_blocks or tensor."""

    kind: str = "ddp"
    dp: int = 8
    pp: int = 1
    tp: int = 1
    micro_batches: int = 1
    chunks: int = 1
    steps: int = 20
    seed: int = 1
    noise: float = 0.01
    ranks_per_host: int = 8
    stage_work: tuple = ()
    forward_ms: float = 2.0
    layers: int = 6  # of fsdp
    tensor_layers: int = 4  # of tensor
    transfer_ms: float = 1.0
    silent_waits: bool = False  # ranks of a stage wait for each other before they reduce, and no row shows it
    sends: bool = True  # of recv_blocks: have rows

    @property
    def ranks(self):
        return self.dp * self.pp * self.tp

    def place(self, rank):
        """(tp, dp, pp)"""
        return rank % self.tp, rank // self.tp % self.dp, rank // (self.tp * self.dp)


@functools.lru_cache(maxsize=1 << 18)
def gauss_of(seed):
    """Making a generator takes most of the time; a job with its fault and without has the same noise."""
    return random.Random(seed).gauss(0, 1)


class Work:
    """How long operations take, by step."""

    def __init__(self, shape, fault, machine, without):
        self.shape, self.fault, self.machine, self.without = shape, fault, machine, without

    def chance(self, step, *key):
        return random.Random(self.seed_of(step, *key))

    def seed_of(self, step, *key):
        return f"{self.shape.seed}/{step}/{key}"

    def of(self, rank, phase, base_ms, *which):
        """``which``: which micro-batch and part; the first is what forward and backward share."""
        stage_ms = self.stage_factor(self.shape.place(rank)[2])

        def own(step):
            noise = self.shape.noise * gauss_of(self.seed_of(step, "noise", rank, phase, which))
            return self.with_fault(step, rank, phase, which, base_ms * math.exp(noise) * stage_ms)
        return own

    def with_fault(self, step, rank, phase, which, work):
        fault = self.fault
        if phase == "data_load" and fault.kind == "loader" and not self.without:
            return work + (fault.factor if self.is_hit(step) else 0.0)
        if phase not in fault.phases:
            return work
        if fault.kind in ("micro_batches", "jitter"):
            dp = self.shape.place(rank)[1]
            key = (dp, which[0]) if fault.kind == "micro_batches" else (rank, phase, which)
            mean = math.exp(fault.factor**2 / 2)
            return work * (mean if self.without else math.exp(fault.factor * gauss_of(self.seed_of(step, "fault", key))))
        hit = fault.kind in ("rank", "host") and rank in fault.ranks and not self.without
        return work * fault.factor if hit and self.chance(step, "when").random() < fault.share else work

    def is_hit(self, step):
        return step % self.fault.every == self.fault.every // 2

    def load(self, rank, base_ms):
        """The data, and what the rank alone does on its host then."""
        load = self.machine.do("data_load", "data", rank, HOST, self.of(rank, "data_load", base_ms, 0))
        if self.fault.kind != "alone" or rank not in self.fault.ranks or self.without:
            return load
        return self.machine.do("synthetic_straggler", "other", rank, HOST,
                               lambda step: self.fault.factor if self.is_hit(step) else 0.0, [load])

    def stage_factor(self, pp):
        factors = self.shape.stage_work or (1.0,) * self.shape.pp
        if self.fault.kind == "stage":
            factors = factors[:-1] + (self.fault.factor,)
            if self.without:
                return sum(factors) / len(factors)
        return factors[pp]

    def link(self, rank, base_ms):
        """A transfer over the links of a rank."""
        is_slow = self.fault.kind == "link" and rank in self.fault.ranks and not self.without
        return lambda step: base_ms * (self.fault.factor if is_slow and step >= self.fault.first else 1.0)

    def transfer(self, base_ms, *which):
        if self.fault.kind != "transfers" or self.without:
            return base_ms
        return lambda step: base_ms * (self.fault.factor if self.chance(step, "link", which).random() < 0.2 else 1.0)


def data_parallel(shape, machine, work):
    """Forward and backward of each micro-batch; gradients are reduced in buckets that the last backward launches. It
    ends with them where the kind is blocking."""
    blocking = shape.kind == "blocking"
    for rank in range(shape.ranks):
        load = work.load(rank, 2.0)
        before = [load]
        for micro in range(shape.micro_batches):
            forward = machine.do("forward", "compute", rank, MAIN,
                                  work.of(rank, "forward", 10 * shape.forward_ms, micro), before)
            last = micro == shape.micro_batches - 1
            backward = machine.add(rank, MAIN, work.of(rank, "backward", 20 * shape.forward_ms, micro), [forward])
            before = [backward]
            reduced = []
            for bucket in range(4 if last else 0):
                collective = ("dp", bucket, 4)
                reduced.append(machine.do(
                    "all_reduce", "comm", rank, COMM, work.transfer(4 * shape.transfer_ms, bucket), [],
                    collective, (backward, (bucket + 1) / 4)))
            if last and blocking:
                joined = machine.add(rank, MAIN, 0.0, [backward] + reduced)
                machine.span("backward", "compute", backward, joined)
            else:
                machine.span("backward", "compute", backward)
        machine.do("optimizer", "compute", rank, MAIN, work.of(rank, "optimizer", 4.0, 0), reduced)


def fully_sharded(shape, machine, work):
    """Layers whose weights are gathered two ahead, and whose gradients are scattered."""
    for rank in range(shape.ranks):
        load = work.load(rank, 1.0)
        forward, backward, count = [], [], 3 * shape.layers
        for layer in range(shape.layers):
            gather = machine.do("all_gather", "comm", rank, COMM, work.transfer(1.5 * shape.transfer_ms, layer),
                                 [forward[layer - 2] if layer > 1 else load], ("dp", layer, count))
            forward.append(machine.do("layer_forward", "compute", rank, MAIN,
                                       work.of(rank, "forward", 2 * shape.forward_ms, 0, layer), [gather, load]))
        for layer in range(shape.layers):
            gather = machine.do("all_gather", "comm", rank, COMM,
                                 work.transfer(1.5 * shape.transfer_ms, layer + shape.layers),
                                 [backward[layer - 2] if layer > 1 else forward[-1]],
                                 ("dp", shape.layers + layer, count))
            backward.append(machine.do("layer_backward", "compute", rank, MAIN,
                                        work.of(rank, "backward", 4 * shape.forward_ms, 0, layer), [gather]))
            scattered = machine.do("reduce_scatter", "comm", rank, RECV, shape.transfer_ms, [backward[-1]],
                                    ("shards", 2 * shape.layers + layer, count))
        machine.do("optimizer", "compute", rank, MAIN, work.of(rank, "optimizer", 2.0, 0), [scattered])


def pipeline(shape, machine, work):
    last = shape.pp - 1
    tasks, ops, sends = {}, {}, []
    for rank in range(shape.ranks):
        tp, dp, stage = shape.place(rank)
        load = work.load(rank, 1.0)
        before = load
        for backward, chunk, micro in schedule(stage, shape.pp, shape.micro_batches, shape.chunks):
            phase = "backward" if backward else "forward"
            base = shape.forward_ms * (2 if backward else 1) / shape.chunks * 2
            made = machine.do(phase, "compute", rank, MAIN, work.of(rank, phase, base, micro, chunk), [load])
            tasks[dp, tp, stage, backward, chunk, micro] = made, before
            before = made
        ops[rank] = before
    for rank in range(shape.ranks):
        tp, dp, stage = shape.place(rank)
        for backward, chunk, micro in schedule(stage, shape.pp, shape.micro_batches, shape.chunks):
            step = 1 if backward else -1
            source, of_chunk = stage + step, chunk
            if not 0 <= source <= last:
                source, of_chunk = (0, chunk + 1) if backward else (last, chunk - 1)
            if not 0 <= of_chunk < shape.chunks:
                continue
            received, before = tasks[dp, tp, stage, backward, chunk, micro]
            sent, _ = tasks[dp, tp, source, backward, of_chunk, micro]
            if source == stage:
                machine.ops[received].after.append(sent)
                continue
            number = (backward * shape.chunks + chunk) * shape.micro_batches + micro
            collective = (f"pp{dp}.{tp}.{min(stage, source)}-{max(stage, source)}", number,
                          2 * shape.chunks * shape.micro_batches)
            recv = machine.do("recv", "comm", rank, RECV, 0.1, [before], collective)
            machine.ops[received].after.append(recv)
            sends.append((sent, BACK if backward else SEND, collective))
    for sent, stream, collective in sorted(sends):  # in the order in which what they send was made
        machine.do("send", "comm", machine.ops[sent].rank, stream, 0.1, [sent], collective)
    for rank in range(shape.ranks):
        tp, dp, stage = shape.place(rank)
        if shape.silent_waits:
            machine.add(rank, COMM, 0.0, [ops[rank]], (f"silent{tp}.{stage}", 0, 1))
        reduced = machine.do("all_reduce", "comm", rank, COMM, work.transfer(3 * shape.transfer_ms, stage),
                              [ops[rank]], (f"dp{tp}.{stage}", 0, 1))
        machine.do("optimizer", "compute", rank, MAIN, work.of(rank, "optimizer", 2.0, 0), [reduced])


def pipeline_that_blocks(shape, machine, work):
    """Receives and sends are on the stream of the phases, and a receive lasts until its message is there. All ranks begin
    each step together."""
    computed, received = {}, []
    for rank in range(shape.ranks):
        _, dp, stage = shape.place(rank)
        for backward, _, micro in schedule(stage, shape.pp, shape.micro_batches):
            phase, towards = ("backward", -1) if backward else ("forward", 1)
            if 0 <= stage - towards < shape.pp:
                begin = machine.add(rank, MAIN, 0.0)
                recv = machine.add(rank, MAIN, TRANSFER_MS)
                machine.span(f"recv_{phase[0]}", "comm", begin, recv)
                received.append((recv, (dp, stage - towards, backward, micro)))
            computed[dp, stage, backward, micro] = machine.do(
                phase, "compute", rank, MAIN, work.of(rank, phase, 2 * shape.forward_ms * (1 + backward), micro))
            if shape.sends and 0 <= stage + towards < shape.pp:
                machine.do(f"send_{phase[0]}", "comm", rank, MAIN, TRANSFER_MS)
    for recv, sent in received:
        machine.ops[recv].after.append(computed[sent])
    for rank in range(shape.ranks):
        stage = shape.place(rank)[2]
        if shape.dp > 1:
            machine.do("all_reduce", "comm", rank, MAIN, 2.0, collective=(f"dp{stage}", 0, 1))
        machine.do("optimizer", "compute", rank, MAIN, 3.0)
        machine.add(rank, MAIN, 0.1, collective=("all", 0, 1))


def tensor_parallel(shape, machine, work):
    """Layers that each end in an all-reduce of the tensor-parallel ranks, inside of forward and backward."""
    for rank in range(shape.ranks):
        tp, dp, _ = shape.place(rank)
        load = work.load(rank, 1.0)
        for number, (phase, factor) in enumerate((("forward", 1), ("backward", 2))):
            first = None
            for layer in range(shape.tensor_layers):
                piece = machine.add(rank, MAIN, work.of(rank, phase, 4 * factor * shape.forward_ms, 0, layer), [load])
                collective = (f"tp{dp}", number * shape.tensor_layers + layer, 2 * shape.tensor_layers)
                reduce = machine.add(rank, MAIN, work.link(rank, 0.3 * shape.transfer_ms), [], collective)
                machine.span("all_reduce", "comm", reduce, depth=2, collective=collective)
                first = piece if first is None else first
            machine.span(phase, "compute", first, reduce)
        reduced = machine.do("all_reduce", "comm", rank, COMM, work.transfer(3 * shape.transfer_ms, 0), [reduce],
                              (f"dp{tp}", 0, 1))
        machine.do("optimizer", "compute", rank, MAIN, work.of(rank, "optimizer", 2.0, 0), [reduced])


LAYOUTS = {"ddp": data_parallel, "blocking": data_parallel, "accumulation": data_parallel, "fsdp": fully_sharded,
           "pipeline": pipeline, "recv_blocks": pipeline_that_blocks, "tensor": tensor_parallel}


def run(shape, fault, without=False):
    """The operations, their starts and their ends."""
    machine = Machine(shape.ranks)
    LAYOUTS[shape.kind](shape, machine, Work(shape, fault, machine, without))
    return machine, *machine.times(shape.steps)


def mean_step_ms(machine, ends):
    of_ranks = [0.0] * machine.ranks
    for op, end in zip(machine.ops, ends[-1].tolist()):
        of_ranks[op.rank] = max(of_ranks[op.rank], end)
    return sum(of_ranks) / machine.ranks / len(ends)


@dataclass
class Damage:
    """What the rows lack."""

    lost: float = 0.0  # share of the rows
    skew_ms: float = 0.0  # of the clocks of hosts
    step_rows: bool = True
    places: bool = True  # in run rows
    keys: bool = True  # of streams and collectives
    seed: int = field(default=7)


@dataclass
class Truth:
    step_ms: float
    without_ms: float

    @property
    def slowdown(self):
        return self.step_ms / self.without_ms


def make(write, shape, fault=Fault(), damage=None):
    """Calls ``write(rank, rows)`` for each rank, and returns the truth."""
    damage = damage or Damage()
    machine, starts, ends = run(shape, fault)
    rows_of = machine.rank_rows(starts, ends)
    chance = random.Random(damage.seed)
    offsets_ns = [round(chance.uniform(-1, 1) * damage.skew_ms * 1e6) for _ in range(shape.ranks)]
    for rank in range(shape.ranks):
        tp, dp, pp = shape.place(rank)
        host = rank // shape.ranks_per_host
        header = {"type": "run", "schema": 1, "run_id": "made", "attempt": 1, "rank": rank, "world_size": shape.ranks,
                  "host": f"node{host}"}
        if damage.places:
            header.update(dp=dp, tp=tp, pp=pp)
        rows = [header]
        for row in rows_of[rank]:
            if (row["kind"] == "step" and not damage.step_rows) or chance.random() < damage.lost:
                continue
            if not damage.keys:
                row = {key: value for key, value in row.items() if key not in ("stream", "group", "coll")}
            rows.append(dict(row, start_ns=row["start_ns"] + offsets_ns[host]))
        write(rank, rows)
    step_ms = mean_step_ms(machine, ends)
    if fault.kind == "none":
        return Truth(step_ms, step_ms)
    without, _, best = run(shape, fault, without=True)
    return Truth(step_ms, mean_step_ms(without, best))


def write_files(folder):
    """A ``write`` for make() that writes rank files."""
    return lambda rank, rows: write_rank(folder, rank, rows)
