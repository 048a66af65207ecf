# SPDX-License-Identifier: Apache-2.0
"""Made-up jobs whose truth is known: what waits for what, and what steps take with a fault and without it.

A job is made of operations on streams. An operation starts when those before it on its stream and those that it waits
for have ended; the members of a collective end together. The same job is run twice, with its fault and without, so that
what the fault costs is known exactly. Nothing here is shared with the replay in the command.
"""

import json
import math
import random
from collections import defaultdict, deque
from dataclasses import dataclass, field

START_NS = 1_763_700_000_000_000_000
MAIN, COMM, RECV, FORTH, BACK, HOST = 1, 2, 3, 4, 5, None


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


class Op:
    __slots__ = ("rank", "own", "waits", "launched", "members", "transfer", "start", "end", "open", "next")

    def __init__(self, rank, own, waits):
        self.rank, self.own, self.waits = rank, own, list(waits)
        self.launched = None  # (operation, share of its own work)
        self.members, self.transfer = None, 0.0
        self.start = self.end = None
        self.next = []


class Machine:
    """Runs operations step by step and keeps their rows."""

    def __init__(self, ranks, seed=1):
        self.ranks, self.seed = ranks, seed
        self.now = [0.0] * ranks
        self.rows = defaultdict(list)
        self.step_number = -1

    def begin_step(self):
        self.step_number += 1
        self.ops, self.last, self.collectives, self.spans = [], {}, {}, []
        self.counts = defaultdict(int)

    def chance(self, *key):
        return random.Random(f"{self.seed}/{self.step_number}/{key}")

    def op(self, rank, stream, own, waits=(), collective=None, launched=None):
        made = Op(rank, own, waits)
        before = self.last.get((rank, stream))
        if before is not None:
            made.waits.append(before)
        self.last[rank, stream] = made
        made.launched = launched
        if collective is not None:
            made.members = self.collectives.setdefault(collective, [])
            made.members.append(made)
        self.ops.append(made)
        return made

    def span(self, name, kind, stream, first, last=None, depth=1, collective=None):
        """A row from the start of one operation to the end of another."""
        seq = self.counts[first.rank, name]
        self.counts[first.rank, name] += 1
        self.spans.append((name, kind, stream, first, last or first, depth, seq, collective))

    def run(self, name, kind, rank, stream, own, waits=(), collective=None, launched=None):
        made = self.op(rank, stream, own, waits, collective, launched)
        self.span(name, kind, stream, made, collective=collective)
        return made

    def end_step(self):
        ready = deque()
        for op in self.ops:
            before = op.waits + ([op.launched[0]] if op.launched else [])
            op.open = len(before)
            for other in op.waits:
                other.next.append((op, "end"))
            if op.launched:
                op.launched[0].next.append((op, "start"))
            if op.open == 0:
                ready.append(op)
        while ready:
            self._start(ready.popleft(), ready)
        assert all(op.end is not None for op in self.ops), "the job waits for itself"
        ends = list(self.now)
        for op in self.ops:
            ends[op.rank] = max(ends[op.rank], op.end)
        for name, kind, stream, first, last, depth, seq, collective in self.spans:
            self._row(name, kind, stream, first.rank, first.start, last.end, depth, seq, collective)
        for rank in range(self.ranks):
            self._row("training_step", "step", MAIN, rank, self.now[rank], ends[rank], 0, 0, None)
        self.now = ends

    def _start(self, op, ready):
        op.start = max([self.now[op.rank]] + [other.end for other in op.waits])
        if op.launched:
            op.start = max(op.start, op.launched[0].start + op.launched[1] * op.launched[0].own)
        self._tell(op, "start", ready)
        if op.members is None:
            self._end(op, op.start + op.own, ready)
        elif all(member.start is not None for member in op.members):
            end = max(member.start for member in op.members) + max(member.own for member in op.members)
            for member in op.members:
                self._end(member, end, ready)

    def _end(self, op, end, ready):
        op.end = end
        self._tell(op, "end", ready)

    def _tell(self, op, what, ready):
        for other, waits_for in op.next:
            if waits_for == what:
                other.open -= 1
                if other.open == 0:
                    ready.append(other)

    def _row(self, name, kind, stream, rank, start, end, depth, seq, collective):
        row = {"name": name, "step": self.step_number, "rank": rank, "duration_ms": round(end - start, 6),
               "start_ns": START_NS + round(start * 1e6), "kind": kind, "seq": seq, "depth": depth,
               "clock": "host" if stream is HOST else "gpu"}
        if stream is not HOST:
            row["stream"] = stream
        if collective is not None:
            row["group"], row["coll"] = collective
        self.rows[rank].append(row)

    def mean_step_ms(self):
        return sum(self.now) / self.ranks / (self.step_number + 1)


@dataclass
class Shape:
    """``kind``: ddp, blocking, fsdp, accumulation, pipeline or tensor."""

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
    layers: int = 6
    transfer_ms: float = 1.0
    silent_waits: bool = False  # ranks of a stage wait for each other before they reduce, and no row shows it

    @property
    def ranks(self):
        return self.dp * self.pp * self.tp

    def place(self, rank):
        """(tp, dp, pp)"""
        return rank % self.tp, rank // self.tp % self.dp, rank // (self.tp * self.dp)


class Work:
    """How long operations take."""

    def __init__(self, shape, fault, machine, without):
        self.shape, self.fault, self.machine, self.without = shape, fault, machine, without

    def of(self, rank, phase, base_ms, *which):
        """``which``: which micro-batch and part; the first is what forward and backward share."""
        shape, fault = self.shape, self.fault
        work = base_ms * math.exp(shape.noise * self.machine.chance("noise", rank, phase, which).gauss(0, 1))
        _, dp, pp = shape.place(rank)
        work *= self.stage_factor(pp)
        if phase == "data_load" and fault.kind == "loader" and not self.without:
            return work + (fault.factor if self.machine.step_number % fault.every == fault.every // 2 else 0.0)
        if phase not in fault.phases:
            return work
        if fault.kind in ("micro_batches", "jitter"):
            key = (dp, which[0]) if fault.kind == "micro_batches" else (rank, phase, which)
            even = math.exp(fault.factor**2 / 2)
            return work * (even if self.without else
                           math.exp(fault.factor * self.machine.chance("fault", key).gauss(0, 1)))
        hit = fault.kind in ("rank", "host") and rank in fault.ranks and not self.without
        if hit and self.machine.chance("when").random() < fault.share:
            work *= fault.factor
        return work

    def load(self, rank, base_ms):
        """The data, and what the rank alone does on its host then."""
        load = self.machine.run("data_load", "data", rank, HOST, self.of(rank, "data_load", base_ms, 0))
        fault, step = self.fault, self.machine.step_number
        if fault.kind != "alone" or rank not in fault.ranks or step % fault.every != fault.every // 2 or self.without:
            return load
        return self.machine.run("synthetic_straggler", "other", rank, HOST, fault.factor, [load])

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
        return base_ms * (self.fault.factor if is_slow else 1.0)

    def transfer(self, base_ms, *which):
        if self.fault.kind != "transfers" or self.without:
            return base_ms
        return base_ms * (self.fault.factor if self.machine.chance("link", which).random() < 0.2 else 1.0)


def data_parallel(shape, machine, work):
    """Forward and backward of each micro-batch; gradients are reduced in buckets that the last backward launches. It
    ends with them where the kind is blocking."""
    blocking = shape.kind == "blocking"
    for rank in range(shape.ranks):
        load = work.load(rank, 2.0)
        before = [load]
        for micro in range(shape.micro_batches):
            forward = machine.run("forward", "compute", rank, MAIN,
                                  work.of(rank, "forward", 10 * shape.forward_ms, micro), before)
            last = micro == shape.micro_batches - 1
            backward = machine.op(rank, MAIN, work.of(rank, "backward", 20 * shape.forward_ms, micro), [forward])
            before = [backward]
            reduced = []
            for bucket in range(4 if last else 0):
                collective = ("dp", machine.step_number * 4 + bucket)
                reduced.append(machine.run(
                    "all_reduce", "comm", rank, COMM, work.transfer(4 * shape.transfer_ms, bucket), [],
                    collective, (backward, (bucket + 1) / 4)))
            if last and blocking:
                joined = machine.op(rank, MAIN, 0.0, [backward] + reduced)
                machine.span("backward", "compute", MAIN, backward, joined)
            else:
                machine.span("backward", "compute", MAIN, backward)
        machine.run("optimizer", "compute", rank, MAIN, work.of(rank, "optimizer", 4.0, 0), reduced)


def fully_sharded(shape, machine, work):
    """Layers whose weights are gathered two ahead, and whose gradients are scattered."""
    for rank in range(shape.ranks):
        load = work.load(rank, 1.0)
        forward, backward, count = [], [], machine.step_number * 3 * shape.layers
        for layer in range(shape.layers):
            gather = machine.run("all_gather", "comm", rank, COMM, work.transfer(1.5 * shape.transfer_ms, layer),
                                 [forward[layer - 2] if layer > 1 else load], ("dp", count + layer))
            forward.append(machine.run("layer_forward", "compute", rank, MAIN,
                                       work.of(rank, "forward", 2 * shape.forward_ms, 0, layer), [gather, load]))
        for layer in range(shape.layers):
            gather = machine.run("all_gather", "comm", rank, COMM,
                                 work.transfer(1.5 * shape.transfer_ms, layer + shape.layers),
                                 [backward[layer - 2] if layer > 1 else forward[-1]],
                                 ("dp", count + shape.layers + layer))
            backward.append(machine.run("layer_backward", "compute", rank, MAIN,
                                        work.of(rank, "backward", 4 * shape.forward_ms, 0, layer), [gather]))
            scattered = machine.run("reduce_scatter", "comm", rank, RECV, shape.transfer_ms, [backward[-1]],
                                    ("shards", count + 2 * shape.layers + layer))
        machine.run("optimizer", "compute", rank, MAIN, work.of(rank, "optimizer", 2.0, 0), [scattered])


def schedule(shape, stage):
    """(backward, chunk, micro-batch) in the order of one forward, one backward, interleaved where there are chunks."""
    pp, chunks = shape.pp, shape.chunks
    total = shape.micro_batches * chunks

    def task(number, backward):
        chunk = number % (pp * chunks) // pp if chunks > 1 else 0
        micro = number // (pp * chunks) * pp + number % pp if chunks > 1 else number
        return backward, chunks - 1 - chunk if backward else chunk, micro

    ahead = min(total, (pp - stage - 1) * 2 + (chunks - 1) * pp if chunks > 1 else pp - stage - 1)
    tasks = [task(number, False) for number in range(ahead)]
    for number in range(total - ahead):
        tasks += [task(number + ahead, False), task(number, True)]
    return tasks + [task(number, True) for number in range(total - ahead, total)]


def pipeline(shape, machine, work):
    last = shape.pp - 1
    tasks, ops = {}, {}
    for rank in range(shape.ranks):
        tp, dp, stage = shape.place(rank)
        load = work.load(rank, 1.0)
        before = load
        for backward, chunk, micro in schedule(shape, stage):
            phase = "backward" if backward else "forward"
            base = shape.forward_ms * (2 if backward else 1) / shape.chunks * 2
            made = machine.run(phase, "compute", rank, MAIN, work.of(rank, phase, base, micro, chunk), [load])
            tasks[dp, tp, stage, backward, chunk, micro] = made, before
            before = made
        ops[rank] = before
    for rank in range(shape.ranks):
        tp, dp, stage = shape.place(rank)
        for backward, chunk, micro in schedule(shape, stage):
            step = 1 if backward else -1
            source, of_chunk = stage + step, chunk
            if not 0 <= source <= last:
                source, of_chunk = (0, chunk + 1) if backward else (last, chunk - 1)
            if not 0 <= of_chunk < shape.chunks:
                continue
            received, before = tasks[dp, tp, stage, backward, chunk, micro]
            sent, _ = tasks[dp, tp, source, backward, of_chunk, micro]
            if source == stage:
                received.waits.append(sent)
                continue
            number = ((machine.step_number * 2 + backward) * shape.chunks + chunk) * shape.micro_batches + micro
            collective = (f"pp{dp}.{tp}.{min(stage, source)}-{max(stage, source)}", number)
            recv = machine.run("recv", "comm", rank, RECV, 0.1, [before], collective)
            received.waits.append(recv)
            send = machine.op(sent.rank, None, 0.1, [sent], collective)
            machine.sends.append((sent, send, BACK if backward else FORTH, collective))
    finish_sends(machine)
    for rank in range(shape.ranks):
        tp, dp, stage = shape.place(rank)
        if shape.silent_waits:
            machine.op(rank, COMM, 0.0, [ops[rank]], (f"silent{tp}.{stage}", machine.step_number))
        reduced = machine.run("all_reduce", "comm", rank, COMM, work.transfer(3 * shape.transfer_ms, stage),
                              [ops[rank]], (f"dp{tp}.{stage}", machine.step_number))
        machine.run("optimizer", "compute", rank, MAIN, work.of(rank, "optimizer", 2.0, 0), [reduced])


def finish_sends(machine):
    """Sends come on their streams in the order in which what they send was made."""
    place = {op: number for number, op in enumerate(machine.ops)}
    last = {}
    for sent, send, stream, collective in sorted(machine.sends, key=lambda made: place[made[0]]):
        send.waits = [sent] + ([last[send.rank, stream]] if (send.rank, stream) in last else [])
        last[send.rank, stream] = send
        machine.span("send", "comm", stream, send, collective=collective)


def tensor_parallel(shape, machine, work):
    """Layers that each end in an all-reduce of the tensor-parallel ranks, inside of forward and backward."""
    for rank in range(shape.ranks):
        tp, dp, _ = shape.place(rank)
        load = work.load(rank, 1.0)
        for number, (phase, factor) in enumerate((("forward", 1), ("backward", 2))):
            first = None
            for layer in range(4):
                piece = machine.op(rank, MAIN, work.of(rank, phase, 4 * factor * shape.forward_ms, 0, layer), [load])
                collective = (f"tp{dp}", (machine.step_number * 2 + number) * 4 + layer)
                reduce = machine.op(rank, MAIN, work.link(rank, 0.3 * shape.transfer_ms), [], collective)
                machine.span("all_reduce", "comm", MAIN, reduce, depth=2, collective=collective)
                first = first or piece
            machine.span(phase, "compute", MAIN, first, reduce)
        reduced = machine.run("all_reduce", "comm", rank, COMM, work.transfer(3 * shape.transfer_ms, 0), [reduce],
                              (f"dp{tp}", machine.step_number))
        machine.run("optimizer", "compute", rank, MAIN, work.of(rank, "optimizer", 2.0, 0), [reduced])


LAYOUTS = {"ddp": data_parallel, "blocking": data_parallel, "accumulation": data_parallel, "fsdp": fully_sharded,
           "pipeline": pipeline, "tensor": tensor_parallel}


def run(shape, fault, without=False):
    machine = Machine(shape.ranks, shape.seed)
    work = Work(shape, fault, machine, without)
    for _ in range(shape.steps):
        machine.begin_step()
        machine.sends = []
        LAYOUTS[shape.kind](shape, machine, work)
        machine.end_step()
    return machine


@dataclass
class Damage:
    """What the rows lack."""

    lost: float = 0.0  # share of the rows
    skew_ms: float = 0.0  # of the clocks of hosts
    step_rows: bool = True
    places: bool = True  # in run rows
    seed: int = field(default=7)


@dataclass
class Truth:
    step_ms: float
    without_ms: float

    @property
    def slowdown(self):
        return self.step_ms / self.without_ms


def make(write, shape, fault, damage=None):
    """Calls ``write(rank, rows)`` for each rank, and returns the truth."""
    damage = damage or Damage()
    machine = run(shape, fault)
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
        for row in machine.rows[rank]:
            if (row["kind"] == "step" and not damage.step_rows) or chance.random() < damage.lost:
                continue
            rows.append(dict(row, start_ns=row["start_ns"] + offsets_ns[host]))
        write(rank, rows)
    if fault.kind == "none":
        return Truth(machine.mean_step_ms(), machine.mean_step_ms())
    return Truth(machine.mean_step_ms(), run(shape, fault, without=True).mean_step_ms())


def write_files(folder):
    """A ``write`` for make() that writes rank files."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(rank, rows):
        text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        (folder / f"cuda_events_rank_{rank}.jsonl").write_text(text)

    return write
