# SPDX-License-Identifier: Apache-2.0
"""The cost of DDP's communication hook for a training step, compared with PyTorch's own hook in Python.

    torchrun --standalone --nproc_per_node 2 tests/bench/ddp_hook.py

The models have equal layers with one bucket each, so that the cost of a bucket follows from their number. Each round runs
a block of steps of each arm, in a random order. A block is compared with the mean of the round's two blocks without a hook.

    no hook        DDP's default, in C++
    PyTorch's      torch.distributed.algorithms.ddp_comm_hooks.default_hooks.allreduce_hook
    unrecorded     cep.torch.instrument_ddp(), on unrecorded steps
    recorded       the same on recorded steps
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import cep
import cep.torch

BARE, BARE_AGAIN, PYTORCHS, UNRECORDED, RECORDED = "no hook", "no hook again", "PyTorch's", "unrecorded", "recorded"
FIRST_RECORDED = 1 << 40
# Width, layers and sequences of a host-bound step and of a device-bound one.
SHAPES = {"host-bound": (512, 24, 64), "device-bound": (2048, 24, 32768)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--block-steps", type=int, default=10)
    return parser.parse_args()


def model_of(width, layers, device):
    torch.manual_seed(0)
    blocks = [layer for _ in range(layers) for layer in (nn.Linear(width, width, bias=False), nn.ReLU())]
    model = nn.Sequential(*blocks).to(device, torch.bfloat16)
    bucket_mb = width * width * 2 / (1 << 20)
    return DistributedDataParallel(model, device_ids=[device.index], bucket_cap_mb=bucket_mb)


def block_ms(model, batch, prof, first_step, steps):
    """The mean time of a step in a block of steps."""
    torch.cuda.synchronize()
    dist.barrier()
    begin = time.perf_counter()
    for step in range(first_step, first_step + steps):
        prof.step(step)
        model(batch).pow(2).mean().backward()
        model.zero_grad()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / steps * 1e3


def measure(shape, options, device, directory):
    """The time of the bare step in ms, and the difference of each arm to it."""
    width, layers, sequences = shape
    batch = torch.randn(sequences, width, device=device, dtype=torch.bfloat16)
    prof = cep.Profiler(directory, start_step=FIRST_RECORDED, record_every_n_steps=1, flush_every_n_steps=10)
    off = cep.Profiler(directory, enable=False)
    bare, pytorchs, timed = (model_of(width, layers, device) for _ in range(3))
    pytorchs.register_comm_hook(None, default_hooks.allreduce_hook)
    cep.torch.instrument_ddp(prof, timed)
    arms = {
        BARE: (bare, off, 0),
        BARE_AGAIN: (bare, off, 0),
        PYTORCHS: (pytorchs, off, 0),
        UNRECORDED: (timed, prof, 0),
        RECORDED: (timed, prof, FIRST_RECORDED),
    }
    chance = random.Random(0)
    differences, bare_ms = {name: [] for name in arms}, []
    for number in range(options.rounds + 1):
        order = list(arms)
        chance.shuffle(order)
        times = {name: block_ms(arms[name][0], batch, *arms[name][1:], options.block_steps) for name in order}
        if number == 0:
            continue  # the buckets are made anew after the first backward
        bare_ms.append(times[BARE])
        differences[BARE_AGAIN].append(times[BARE_AGAIN] - times[BARE])
        for name in (PYTORCHS, UNRECORDED, RECORDED):
            differences[name].append(times[name] - (times[BARE] + times[BARE_AGAIN]) / 2)
    prof.close()
    del differences[BARE]
    return statistics.median(bare_ms), differences


def report(title, layers, bare_ms, differences):
    print(f"\n{title}: {bare_ms:.3f} ms a step, {layers} buckets")
    print(f"{'':<15} {'us a step':>10} {'quartiles':>20} {'us a bucket':>12} {'of a step':>10}")
    for name, values in differences.items():
        middle = statistics.median(values) * 1e3
        low, _, high = statistics.quantiles(values, n=4)
        spread = f"[{low * 1e3:+.1f}, {high * 1e3:+.1f}]"
        print(f"{name:<15} {middle:>+10.1f} {spread:>20} {middle / layers:>+12.2f} {middle / bare_ms / 10:>+9.2f} %")


def main():
    options = arguments()
    if "LOCAL_RANK" not in os.environ or torch.cuda.device_count() < int(os.environ["LOCAL_WORLD_SIZE"]):
        print("ddp_hook.py: skipped: torchrun and a GPU for each rank are needed", file=sys.stderr)
        return 77
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    with tempfile.TemporaryDirectory() as directory:
        for title, shape in SHAPES.items():
            found = measure(shape, options, device, directory)
            if dist.get_rank() == 0:
                report(title, shape[1], *found)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
