# SPDX-License-Identifier: Apache-2.0
"""What an instrumented model costs on steps that are not recorded, beside the same loop with the model as it was.

    PYTHONPATH=bindings/python CEP_LIBRARY=build/lib/libcep.so.0 python3 tests/bench/off_steps.py [--device cuda]

First table: a step is profiler.step(), as many forwards as the model has parts, and optimizer.step(); the model and the
optimizer do next to nothing, so that only the calls are timed. A step has as many all-reduces, too. Second table: a step is
the forward and the backward of a DistributedDataParallel of tiny buckets, with the communication hooks that there are.
Process groups are of one rank: gloo, or NCCL with --device cuda. Prints the median over paired blocks and its quartiles, in
µs of the trainer's thread. Asserts nothing.
"""

import argparse
import contextlib
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

import cep
import cep.torch

STEPS, ROUNDS = 300, 40
DDP_STEPS, BUCKETS = 50, 24
NEVER = 1_000_000


class Nothing(torch.optim.SGD):
    def step(self, closure=None):
        return None


class Parts(torch.nn.Module):
    def __init__(self, count):
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Identity() for _ in range(count))
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, batch):
        for part in self.parts:
            batch = part(batch)
        return batch


class Product(torch.nn.Module):
    """One parameter for each bucket."""

    def __init__(self, count):
        super().__init__()
        self.factors = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(16)) for _ in range(count))

    def forward(self, batch):
        for factor in self.factors:
            batch = batch * factor
        return batch


def block_us(profiler, model, optimizer, collectives, device):
    batch = torch.zeros(1, device=device)
    begin = time.perf_counter()
    for step in range(STEPS):
        profiler.step(step)
        model(batch)
        for _ in range(collectives):
            dist.all_reduce(batch)
        optimizer.step()
    return (time.perf_counter() - begin) / STEPS * 1e6


def backward_us(profiler, model, device):
    batch = torch.ones(16, device=device)
    begin = time.perf_counter()
    for step in range(DDP_STEPS):
        profiler.step(step)
        model(batch).sum().backward()
    spent_s = time.perf_counter() - begin
    if device.type == "cuda":
        torch.cuda.synchronize()
    return spent_s / DDP_STEPS * 1e6


def with_quartiles(added):
    low, _, high = statistics.quantiles(added, n=4)
    return f"{statistics.median(added):+.2f} [{low:+.2f}, {high:+.2f}]"


def measure(folder, parts, collectives, device):
    model = Parts(parts).to(device)
    optimizer = Nothing(model.parameters(), lr=0.1)
    bare, added = [], []
    with cep.Profiler(folder, start_step=NEVER) as profiler:
        for _ in range(ROUNDS):
            before = block_us(profiler, model, optimizer, collectives, device)
            with cep.torch.instrument(profiler, model, optimizer):
                instrumented = block_us(profiler, model, optimizer, collectives, device)
            after = block_us(profiler, model, optimizer, collectives, device)
            bare.append(before)
            added.append(instrumented - (before + after) / 2)
    print(f"| {parts:5} | {collectives:3} | {statistics.median(bare):9.2f} | {with_quartiles(added)} |")


def new_ddp(device):
    model = DistributedDataParallel(Product(BUCKETS).to(device), bucket_cap_mb=1e-5)
    for _ in range(3):  # DDP arranges its buckets after the first backward
        model(torch.ones(16, device=device)).sum().backward()
    return model


def measure_ddp(folder, device):
    dist._DEFAULT_FIRST_BUCKET_BYTES = 8
    plain = new_ddp(device)
    with cep.Profiler(folder, start_step=NEVER) as profiler, contextlib.ExitStack() as stack:
        models = {
            "instrument(), ddp_buckets=False": new_ddp(device),
            "instrument(), ddp_buckets=True": new_ddp(device),
            "PyTorch's allreduce_hook, no cep": new_ddp(device),
            "no hook, no cep: what chance adds": plain,
        }
        whole, buckets, others, _ = models.values()
        stack.enter_context(cep.torch.instrument(profiler, whole, None, ddp_buckets=False))
        stack.enter_context(cep.torch.instrument(profiler, buckets, None))
        others.register_comm_hook(None, allreduce_hook)
        for name, model in models.items():
            bare, added = [], []
            for _ in range(ROUNDS):
                before = backward_us(profiler, plain, device)
                with_hook = backward_us(profiler, model, device)
                after = backward_us(profiler, plain, device)
                bare.append(before)
                added.append((with_hook - (before + after) / 2) / BUCKETS)
            print(f"| {name:33} | {statistics.median(bare):9.2f} | {with_quartiles(added)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    device = torch.device(parser.parse_args().device)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        print("| parts | all-reduces | µs a step | added by instrument() |")
        print("|---|---|---|---|")
        for number, (parts, collectives) in enumerate(((1, 0), (10, 0), (1000, 0), (10, 20))):
            measure(f"{folder}/{number}", parts, collectives, device)
        print(f"\n| communication hook of {BUCKETS} buckets | µs a step without | added for each bucket |")
        print("|---|---|---|")
        measure_ddp(f"{folder}/ddp", device)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
