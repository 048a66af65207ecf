# SPDX-License-Identifier: Apache-2.0
"""Real trainings with a planted straggler, each judged by `cep summarize`: DDP and FSDP2, with one rank slowed in its
forward, its backward, its data loading, in a window of steps, now and then, and not at all; by a little; beside another
slow rank; and where nobody waits for it, as the others have as much more to do.

GPUs at their power limit are not equally fast. So beside each training stands what the model's forward takes on each rank
alone, measured at the same time on all and without cep, relative to the median rank. A rank that is slower by that
measure may be named, too: in a training without a planted straggler, and only such a one.

    torchrun --standalone --nproc-per-node 4 tests/gpu/verdict_runs.py --output-dir runs

Takes about a minute a round. Prints the verdict on each beside what was planted, and ends with status 1 if one is wrong,
77 where there is nothing to run on. The rank files of wrong verdicts stay in the output directory, as FILES.tar each;
with --keep those of all.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("verdict_runs.py: skipped: no PyTorch", file=sys.stderr)
    sys.exit(77)
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cep
import cep.torch

SLOW_RANK = 2
REALLY_SLOWER = 1.02  # than the median rank
CASES = {
    "none": dict(phases=(), pattern=None),
    "forward": dict(phases=("forward",), pattern="persistent"),
    "backward": dict(phases=("backward",), pattern="persistent"),
    "data": dict(phases=("data_load",), pattern="persistent"),
    "window": dict(phases=("forward",), pattern="window"),
    "intermittent": dict(phases=("data_load", "forward"), pattern="intermittent"),
    "small": dict(phases=("forward",), pattern="persistent"),
    "two": dict(phases=("forward",), pattern="persistent", ranks={1, SLOW_RANK}),
    "harmless": dict(phases=(), pattern=None),
}
# What a rank's share of --slow-ms is, where not all of it is on SLOW_RANK.
SHARES = {"small": {SLOW_RANK: 0.25}, "two": {1: 0.6, SLOW_RANK: 1.0}}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output-dir", default="verdict_runs")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=16384)
    parser.add_argument("--slow-ms", type=float, default=12.0)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--kinds", default="ddp,fsdp")
    parser.add_argument("--no-buckets", action="store_true", help="one row for all buckets of DDP, and no hook")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="the rank files of right verdicts too")
    return parser.parse_args()


class Slowness:
    """What is wrong with one rank in one case."""

    def __init__(self, case, options, rank):
        self.case, self.options = case, options
        self.rank = rank
        self.share = SHARES.get(case, {SLOW_RANK: 1.0}).get(rank, 0.0) if case != "none" else 0.0
        self.window = range(options.steps // 3, 2 * options.steps // 3)
        chance = random.Random(7)
        self.random_steps = {step for step in range(options.steps) if chance.random() < 0.3}
        self.step = 0
        # Cycles of torch.cuda._sleep in a millisecond, measured once.
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        torch.cuda._sleep(50_000_000)
        end.record()
        end.synchronize()
        self.cycles_per_ms = 50_000_000 / begin.elapsed_time(end)

    def is_slow(self, phase):
        if self.case == "harmless":
            return phase == ("data" if self.rank == SLOW_RANK else "forward")
        if self.share == 0:
            return False
        if self.case in ("small", "two"):
            return phase == "forward"
        if self.case == "window":
            return phase == "forward" and self.step in self.window
        if self.case == "intermittent":
            return phase == "data" and self.step in self.random_steps
        return phase == self.case

    def on_device(self, phase, share=1.0):
        if self.is_slow(phase):
            own_share = self.share or 1.0  # of the others, in the harmless case
            torch.cuda._sleep(int(self.options.slow_ms * own_share * share * self.cycles_per_ms))


class SlowBackward(torch.autograd.Function):
    """Its input; slow in backward."""

    @staticmethod
    def forward(context, tensor, slowness, share):
        context.slowness, context.share = slowness, share
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context, gradient):
        context.slowness.on_device("backward", context.share)
        return gradient, None, None


class Block(nn.Module):
    def __init__(self, width, slowness, share):
        super().__init__()
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)
        self.slowness, self.share = slowness, share

    def forward(self, hidden):
        self.slowness.on_device("forward", self.share)
        hidden = SlowBackward.apply(hidden, self.slowness, self.share)
        return hidden + self.down(torch.relu(self.up(hidden)))


def batches(options, slowness):
    batch = torch.randn(options.batch_size, options.width, dtype=torch.bfloat16).pin_memory()
    for _ in range(options.steps):
        if slowness.is_slow("data"):
            time.sleep(options.slow_ms * 1e-3)
        yield batch


def build(kind, options, slowness, device):
    torch.manual_seed(0)
    blocks = [Block(options.width, slowness, 1 / options.layers) for _ in range(options.layers)]
    model = nn.Sequential(*blocks).to(device, torch.bfloat16)
    if kind == "ddp":
        return DistributedDataParallel(model, device_ids=[device.index], bucket_cap_mb=100)
    from torch.distributed.fsdp import fully_shard

    for block in model:
        fully_shard(block)
    fully_shard(model)
    return model


def train(kind, case, options, directory):
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    slowness = Slowness(case, options, dist.get_rank())
    model = build(kind, options, slowness, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    prof = cep.Profiler(str(directory), start_step=10, record_every_n_steps=1, flush_every_n_steps=50)
    with prof, cep.torch.instrument(model, optimizer, prof, ddp_buckets=not options.no_buckets, memory=False):
        for step, batch in enumerate(cep.torch.iterate(prof, batches(options, slowness), first_step=0)):
            slowness.step = step + 1  # the loader makes the next step's batch before that step is told
            with prof.region("training_step", kind="step"):
                batch = cep.torch.to_device(prof, batch, device)
                slowness.step = step
                model(batch).float().pow(2).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            torch.cuda.synchronize()
            slowness.step = step + 1
    del model, optimizer
    torch.cuda.empty_cache()


def own_slowness(options, device, passes=25):
    """What a forward takes on each rank without any communication, all at the same time; relative to the median."""
    healthy = Slowness("none", options, rank=0)
    model = nn.Sequential(*[Block(options.width, healthy, 0) for _ in range(options.layers)]).to(device, torch.bfloat16)
    batch = torch.randn(options.batch_size, options.width, device=device, dtype=torch.bfloat16)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    dist.barrier()
    with torch.no_grad():
        for number in range(2 * passes):
            if number == passes:
                begin.record()
            model(batch)
    end.record()
    end.synchronize()
    times = [None] * dist.get_world_size()
    dist.all_gather_object(times, begin.elapsed_time(end))
    return [time_ms / statistics.median(times) for time_ms in times]


def judge(directory, case, slowness):
    answer = subprocess.run([os.environ.get("CEP_COMMAND", "cep"), "summarize", "--json", str(directory)], check=True,
                            capture_output=True, text=True)
    verdict = json.loads(answer.stdout)["verdict"]
    wanted = CASES[case]
    found = verdict["stragglers"]
    if not wanted["phases"]:
        return not verdict["abstained"] and all(slowness[one["rank"]] >= REALLY_SLOWER for one in found), verdict
    right = ({one["rank"] for one in found} == wanted.get("ranks", {SLOW_RANK})
             and all(one["phase"] in wanted["phases"] and one["pattern"] == wanted["pattern"] for one in found))
    return right, verdict


def run_and_judge(kind, case, options, name):
    """Whether the verdict on one training is right: on rank 0; None on the others."""
    directory = Path(options.output_dir) / name
    is_judge = dist.get_rank() == 0
    if is_judge:
        shutil.rmtree(directory, ignore_errors=True)
    slowness = own_slowness(options, torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    train(kind, case, options, directory)
    dist.barrier()
    if not is_judge:
        return None
    right, verdict = judge(directory, case, slowness)
    alone = " ".join(f"{ratio:.3f}" for ratio in slowness)
    print(f"{'PASS' if right else 'FAIL'}  {name:<20} [{alone}] {verdict['headline']}", flush=True)
    if options.keep or not right:
        shutil.make_archive(str(directory), "tar", directory)
    shutil.rmtree(directory)
    return right


def main():
    if not torch.cuda.is_available() or torch.cuda.device_count() < int(os.environ.get("WORLD_SIZE", "1")):
        print("verdict_runs.py: skipped: no GPU for each rank", file=sys.stderr)
        return 77
    options = arguments()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    right = [
        run_and_judge(kind, case, options, f"{kind}_{case}_{number}")
        for number in range(options.rounds)
        for kind in options.kinds.split(",")
        for case in options.cases.split(",")
    ]
    dist.barrier()
    dist.destroy_process_group()
    return 1 if False in right else 0


if __name__ == "__main__":
    sys.exit(main())
