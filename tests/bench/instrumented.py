# SPDX-License-Identifier: Apache-2.0
"""What cep.torch.instrument() costs the steps of a DDP or FSDP2 training on GPUs, part by part.

    torchrun --standalone --nproc_per_node 4 tests/bench/instrumented.py --kind fsdp --seconds 120

Each round runs a block of steps of each arm, in a random order, and compares it with the mean of the round's two blocks
without cep:

    off            no profiler
    regions        a region for the step, the loader's wait and the copy to the device
    phases         also forward, backward and optimizer, by instrument(collectives=False)
    collectives    regions, and a row for each collective, by instrument_collectives()
    everything     instrument(): phases and collectives
    every tenth    everything, on every tenth step
    event pairs    two events of PyTorch around each collective, read after the block: the least that timing them can cost

Prints two differences of each arm, with the 95 % interval of the median: of the wall clock a step, in per cent, and of the
time in which the host queues forward and backward, in µs a step. The second is that of the slowest rank. Where the host is
ahead of the device, only the first matters.
"""

import argparse
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from resampling import interval

import cep
import cep.torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

from trainings import DDP, FSDP, Fault  # noqa: E402  # from the folder above

KINDS = {"ddp": DDP, "fsdp": FSDP}
ARMS = ("off", "off again", "regions", "phases", "collectives", "everything", "every tenth", "event pairs")
COLLECTIVES = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor")
WARM_UP = 3


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, default="fsdp")
    parser.add_argument("--arms", default=",".join(ARMS), help="off and off again always run")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--block-steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=8192)
    options = parser.parse_args()
    options.type, options.zeros, options.slow_ms = torch.bfloat16, False, 8.0
    options.first_recorded, options.steps = 0, 1
    options.arms = [arm for arm in ARMS if arm in ARMS[:2] or arm in options.arms.split(",")]
    return options


@contextlib.contextmanager
def event_pairs():
    """Times each collective with a pair of events, which are made once."""
    pairs, used, originals = [], [0], {}

    def timed(function):
        def call(*args, **kwargs):
            if used[0] == len(pairs):
                pairs.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
            begin, end = pairs[used[0]]
            used[0] += 1
            begin.record()
            result = function(*args, **kwargs)
            end.record()
            return result

        return call

    for name in COLLECTIVES:
        originals[name] = getattr(dist, name)
        setattr(dist, name, timed(originals[name]))
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(dist, name, function)
        for begin, end in pairs[: used[0]]:
            begin.elapsed_time(end)


@contextlib.contextmanager
def arm_of(name, training, directory):
    """Yields the profiler of a block's steps."""
    with contextlib.ExitStack() as stack:
        if name in ("off", "off again", "event pairs"):
            prof = cep.Profiler(enable=False)
            if name == "event pairs":
                stack.enter_context(event_pairs())
        else:
            stride = 10 if name == "every tenth" else 1
            prof = stack.enter_context(cep.Profiler(directory, record_every_n_steps=stride, flush_every_n_steps=1000))
            if name == "collectives":
                stack.enter_context(cep.torch.instrument_collectives(prof))
            elif name != "regions":
                whole = name != "phases"
                stack.enter_context(cep.torch.instrument(prof, training.model, training.optimizer, collectives=whole))
        yield prof


def block_ms(name, training, steps, directory):
    """Milliseconds a step, after some steps that are not timed: of the wall clock, and of the host until all is queued."""
    queue, spent = type(training).run, [0.0]

    def run(batch, step):
        begin = time.perf_counter()
        queue(training, batch, step)
        spent[0] += time.perf_counter() - begin

    training.run = run
    with arm_of(name, training, directory) as prof:
        training.steps(prof, 0, WARM_UP)
        training.settle()
        dist.barrier()
        training.settle()
        spent[0] = 0.0
        begin = time.perf_counter()
        training.steps(prof, WARM_UP, steps)
        training.settle()
        wall = time.perf_counter() - begin
    longest = torch.tensor([spent[0]], device=training.device)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return wall * 1e3 / steps, longest.item() * 1e3 / steps


def measure(options, device, directory):
    training = KINDS[options.kind](options, Fault("none", options, dist.get_rank(), device), device)
    chance = random.Random(0)
    off_ms, differences = [], {name: ([], []) for name in options.arms[1:]}
    begin = time.monotonic()
    goes_on = torch.ones(1, device=device)
    first = True
    while first or goes_on.item():
        order = list(options.arms)
        chance.shuffle(order)
        times = {name: block_ms(name, training, options.block_steps, directory) for name in order}
        if not first:  # the first round warms up
            both = [statistics.mean(pair) for pair in zip(times["off"], times["off again"])]
            off_ms.append(both)
            for name, (wall, host) in differences.items():
                off = times["off"] if name == "off again" else both
                wall.append(100 * (times[name][0] / off[0] - 1))
                host.append(1e3 * (times[name][1] - off[1]))
        first = False
        goes_on.fill_(time.monotonic() - begin < options.seconds)
        dist.broadcast(goes_on, 0)
    return off_ms, differences


def main():
    options = arguments()
    if "LOCAL_RANK" not in os.environ or torch.cuda.device_count() < int(os.environ["LOCAL_WORLD_SIZE"]):
        print("instrumented.py: skipped: torchrun and a GPU for each rank are needed", file=sys.stderr)
        return 77
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    with tempfile.TemporaryDirectory() as directory:
        off_ms, differences = measure(options, device, directory)
    if dist.get_rank() == 0:
        rounds = f"{len(off_ms)} rounds of {options.block_steps} steps"
        wall, host = (statistics.median(column) for column in zip(*off_ms))
        print(f"\n{options.kind}: {wall:.2f} ms a step, {host:.2f} of them to queue it, {rounds}\n")
        print("| | wall clock, % of a step | host, µs a step |\n|---|---|---|")
        for name, (walls, hosts) in differences.items():
            middle, low, high = interval(walls)
            of_host = "{:+.0f} [{:+.0f}, {:+.0f}]".format(*interval(hosts))
            print(f"| {name} | {middle:+.2f} [{low:+.2f}, {high:+.2f}] | {of_host} |")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
