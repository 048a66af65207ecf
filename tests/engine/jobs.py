# SPDX-License-Identifier: Apache-2.0
"""Jobs whose truth is known: a shape, a fault, and what a step would take without it."""

import shutil
from dataclasses import dataclass, field, replace

import numpy as np
import shapes
from faults import Fault, usual_durations, with_fault, without_fault
from layouts import LAYOUTS, Writer

STEPS = 100


@dataclass(frozen=True)
class Kind:
    """``named``: ranks that may be named; others are innocent. ``saving``: whether what the fault costs is a saving that
    an answer should say, and not that of steps with checkpoints or of the whole job. ``beside``: by step, what is no
    training: (phase, ms) that all ranks take longer."""

    name: str
    shape: str
    arguments: dict
    fault: Fault = Fault()
    noise: dict = field(default_factory=dict)
    steps: int = STEPS
    named: tuple = ()
    kept_ranks: tuple = ()  # of the layout half
    stops: dict = field(default_factory=dict)
    beside: dict = field(default_factory=dict)
    marks: tuple = ()  # steps behind which all ranks set one
    layouts: tuple = LAYOUTS
    options: tuple = ()  # of the command


def slow(ranks, factor, **more):
    return Fault("slow", tuple(ranks), factor=factor, **more)


def slow_and_healthy():
    return [
        Kind("healthy ddp", "ddp", {}),
        Kind("healthy fsdp", "fsdp", {}),
        Kind("healthy tensor", "tensor", {}),
        Kind("healthy pipeline", "pipeline", {}),
        Kind("healthy experts", "experts", {}),
        Kind("healthy accumulation", "ddp", {"micro_batches": 4}),
        Kind("ddp slow rank", "ddp", {}, slow([3], 1.25), named=(3,)),
        Kind("ddp slow rank, not joined", "ddp", {"joined": False}, slow([3], 1.25), named=(3,)),
        Kind("ddp slow optimizer now and then", "ddp", {}, slow([5], 4.0, phases=("optimizer",), share=0.2), named=(5,)),
        Kind("ddp slow rank, long start-up", "ddp", {}, slow([3], 1.25), named=(3,), beside={0: ("forward", 30_000.0)},
             layouts=("full", "no_coll", "lean", "lost", "clocks")),
        Kind("ddp slow rank, long last step", "ddp", {}, slow([3], 1.25, row="finish"), named=(3,), beside={99: ("extra", 3_000.0)},
             layouts=("full", "enclosed", "no_coll", "lean", "lost", "clocks")),
        Kind("ddp slow rank, checkpoints of all", "ddp", {}, slow([3], 1.25, row="checkpoint"), named=(3,),
             beside={20: ("extra", 3_000.0), 60: ("extra", 3_000.0)}, layouts=("full", "enclosed", "no_depth", "no_coll", "lost", "clocks")),
        Kind("ddp slow rank, marked checkpoints of all", "ddp", {}, slow([3], 1.25), named=(3,), marks=(20, 60),
             beside={20: ("extra", 3_000.0), 60: ("extra", 3_000.0)}, layouts=("full", "enclosed", "no_depth", "no_coll", "clocks")),
        Kind("ddp slow loader", "ddp", {}, slow([2], 6.0, phases=("data_load",)), named=(2,)),
        Kind("ddp slow from the middle", "ddp", {}, slow([3], 1.3, first=50), named=(3,)),
        Kind("ddp of two, slow by turns", "ddp", {"ranks": 2}, slow([1], 1.2, stretch=15), named=(1,),
             layouts=("full", "enclosed", "no_coll", "lean", "lost", "clocks")),
        Kind("fsdp slow rank", "fsdp", {}, slow([6], 1.2), named=(6,)),
        Kind("tensor slow rank", "tensor", {}, slow([6], 1.25), named=(6,)),
        Kind("tensor slow rank, left at different times", "tensor", {"leave_ms": 2.0}, slow([6], 1.25), named=(6,)),
        Kind("tensor rank at half speed, left at different times", "tensor", {"leave_ms": 2.0}, slow([1], 1.5), named=(1,),
             layouts=("full", "lean")),
        Kind("tensor slow link", "tensor", {"dp": 4, "tp": 4}, Fault("link", factor=4.0, group="tp2"),
             named=(8, 9, 10, 11), kept_ranks=(0, 1, 4, 5, 8, 9, 12, 13)),
        Kind("tensor slow link, two groups", "tensor", {}, Fault("link", factor=4.0, group="tp1")),
        Kind("pipeline slow rank", "pipeline", {"dp": 4}, slow([5], 1.4), named=(5,),
             kept_ranks=(0, 1, 4, 5, 8, 9, 12, 13)),
        Kind("pipeline slow rank, stages unsaid", "pipeline", {"dp": 4, "said": False}, slow([5], 1.4), named=(5,),
             kept_ranks=(0, 1, 4, 5, 8, 9, 12, 13)),
        Kind("experts slow rank", "experts", {},
             slow([2], 1.4, phases=("attention_forward", "attention_backward")), named=(2,)),
        Kind("accumulation slow rank", "ddp", {"micro_batches": 4}, slow([1], 1.3), named=(1,)),
    ]


def uneven():
    """Work that is spread over stages and experts."""
    return [
        Kind("uneven pipeline", "pipeline", {}, Fault("stages", weights=(1.0, 1.0, 1.0, 1.8)),
             named=(6, 7), kept_ranks=(0, 2, 4, 6)),
        Kind("uneven pipeline of two", "pipeline", {"dp": 1, "pp": 2},
             Fault("stages", weights=(0.5, 1.5)), named=(1,), kept_ranks=(0, 1)),
        Kind("uneven pipeline of two, unsaid", "pipeline", {"dp": 1, "pp": 2, "said": False},
             Fault("stages", weights=(0.5, 1.5)), named=(1,), kept_ranks=(0, 1)),
        Kind("routed experts", "experts", {},
             Fault("routed", phases=("expert_forward", "expert_backward"), weights=(1, 1, 1, 3, 1, 1, 1, 1)),
             named=(3,), kept_ranks=(1, 3, 5, 7)),
        Kind("routed experts of two", "experts", {"ranks": 2},
             Fault("routed", phases=("expert_forward", "expert_backward"), weights=(0.4, 1.6)),
             named=(1,), kept_ranks=(0, 1)),
        Kind("experts routed at random", "experts", {},
             Fault("random_routing", phases=("expert_forward", "expert_backward"), sigma=0.15),
             layouts=tuple(one for one in LAYOUTS if one != "sampled")),  # whose 20 steps have another mean
    ]


def now_and_then():
    """In some steps, or of some ranks."""
    return [
        Kind("checkpoint of rank 0, timed", "ddp", {}, Fault("every", (0,), every=50, ms=1000.0, row="checkpoint"),
             steps=200, named=(0,)),
        Kind("checkpoint of rank 0, untimed", "ddp", {}, Fault("every", (0,), every=50, ms=1000.0), steps=200, named=(0,)),
        Kind("evaluation of rank 0, timed", "fsdp", {}, Fault("every", (0,), every=50, ms=1500.0, row="evaluation"),
             steps=200, named=(0,)),
        Kind("pauses of random ranks", "ddp", {}, Fault("pauses", share=0.02, ms=60.0)),
        Kind("pauses of random ranks, fsdp", "fsdp", {}, Fault("pauses", share=0.02, ms=60.0), named=()),
        Kind("pauses of random ranks, some lost", "ddp", {}, Fault("pauses", share=0.02, ms=60.0), layouts=("lost",)),
        Kind("rank stops recording", "ddp", {}, stops={2: 49}),
        Kind("middle rank of a pipeline stops", "pipeline", {"dp": 4}, stops={6: 49},
             kept_ranks=(0, 1, 4, 6, 8, 9, 12, 13)),
        Kind("stops, and a rank is slow", "ddp", {}, slow([3], 1.25), named=(3,), stops={6: 49}, kept_ranks=(1, 3, 6, 7)),
        Kind("constant slack", "ddp", {"transfer_ms": 14.0, "backward_ms": 40.0},
             Fault("shift", (3,), ms=3.0)),
        Kind("everyone slower", "ddp", {}, Fault("slower", first=60, factor=1.15)),
        Kind("slow rank not chosen", "ddp", {"ranks": 16}, slow([13], 1.25), kept_ranks=tuple(range(8)),
             options=("--ranks", "0-7"), layouts=("full", "enclosed", "no_coll", "lean", "half", "lost")),
    ]


def hosted_kinds():
    """Hosts launch what their devices do."""
    late = {"host_noise": 0.1, "host_pauses": (0.1, 2.0, 0.05)}
    hosted = {"noise": late, "steps": 150, "layouts": ("full", "enclosed", "no_coll", "per_operation", "clocks")}
    return [
        Kind("hosts, healthy", "hosted", {}, **hosted),
        Kind("hosts, one a little slow", "hosted", {"launch_ms": 1.2}, slow([0], 1.1, phases=("launch",)), **hosted),
        Kind("hosts, one slow", "hosted", {"launch_ms": 1.45}, slow([0], 1.25, phases=("launch",)),
             **{**hosted, "noise": {"host_noise": 0.1}}, named=(0,)),
        Kind("hosts that pause", "hosted", {}, Fault("host_pauses", (0, 0, 1, 2, 3), share=0.05, ms=25.0),
             **{**hosted, "noise": {"host_noise": 0.1}}),
        Kind("hosts, slow rank", "hosted", {}, slow([2], 1.3), named=(2,), **hosted),
        Kind("hosts, slow rank, all gathered ahead", "hosted", {"waits": False}, slow([2], 1.3), named=(2,), **hosted),
        Kind("hosts, slow forward", "hosted", {"launch_ms": 1.2}, slow([2], 1.4, phases=("forward",)), named=(2,), **hosted),
        Kind("hosts, slow backward", "hosted", {}, slow([2], 1.2, phases=("backward",)), named=(2,), **hosted),
        Kind("hosts, slow loader", "hosted", {"launch_ms": 1.6}, slow([2], 7.0, phases=("data_load",)), named=(2,), **hosted),
        Kind("hosts, two slow ranks", "hosted", {}, slow([1, 2], 1.25), named=(1, 2), **hosted),
        Kind("hosts, slow now and then", "hosted", {}, slow([2], 1.5, share=0.3), named=(2,), **hosted),
        Kind("hosts, slow from the middle", "hosted", {}, slow([2], 1.4, first=75), named=(2,), **hosted),
    ]


def kinds():
    """Each with all its layouts."""
    made = slow_and_healthy() + uneven() + now_and_then() + hosted_kinds()
    drift = {"noise": 0.01, "common_noise": 0.02, "slow_noise": 0.005}
    for number in range(6):
        made.append(Kind(f"healthy, AR(1) {number}", ("ddp", "fsdp", "experts")[number % 3], {}, noise=drift, steps=200,
                         layouts=("full", "no_coll", "lean", "sampled")))
    return [replace(kind, kept_ranks=kind.kept_ranks or usual_half(kind)) for kind in made]


def usual_half(kind):
    first = (kind.named[0] if kind.named else 0) % 2
    return tuple(range(first, getattr(shapes, kind.shape)(**kind.arguments).ranks, 2))


class Simulated:
    """A job of a kind, with its fault and without. The truth is the share of the time that the fault costs."""

    def __init__(self, kind, seed):
        self.kind, self.seed = kind, seed
        self.program = getattr(shapes, kind.shape)(**kind.arguments)
        healthy = usual_durations(self.program, kind.steps, seed, **kind.noise)
        for step, (phase, ms) in kind.beside.items():
            first = {op.rank: number for number, op in reversed(list(enumerate(self.program.ops))) if op.phase == phase}
            healthy[step, list(first.values())] += ms
        self.durations = with_fault(self.program, healthy, kind.fault, seed)
        self.starts, self.ends = self.program.run(self.durations)
        _, best = self.program.run(without_fault(self.program, healthy, kind.fault))
        self.step_ms, self.best_ms = self.mean_step_ms(self.ends), self.mean_step_ms(best)
        self.saving = 1 - self.best_ms / self.step_ms

    def mean_step_ms(self, ends):
        lengths_ms = np.diff(ends.max(axis=1), prepend=0)
        return float(np.delete(lengths_ms, list(self.kind.beside)).mean())

    def work_ms(self, rank, phase):
        """What a rank does in a phase without waiting, by step."""
        return self.durations[:, [op.rank == rank and op.phase == phase for op in self.program.ops]].sum(axis=1)

    def write(self, folder, layout):
        if folder.exists():
            shutil.rmtree(folder)
        Writer(self.program, self.starts, self.ends, layout, seed=self.seed, extra_row=self.kind.fault.row,
               kept_ranks=self.kind.kept_ranks, stops=self.kind.stops, marks=self.kind.marks).write(folder)


def said_to_be_lost(kind, layout):
    """Whether the layout leaves out the ranks of the fault, so that no answer can name them."""
    return layout == "half" and not set(kind.named) & set(kind.kept_ranks)
