# SPDX-License-Identifier: Apache-2.0
"""What an instrumented model costs on steps that are not recorded, beside the same loop with the model as it was.

    PYTHONPATH=bindings/python CEP_LIBRARY=build/lib/libcep.so.0 python3 tests/bench/off_steps.py

A step is prof.step(), as many forwards as the model has parts, and optimizer.step(); the model and the optimizer do next to
nothing, so that only the calls are timed. With process groups (gloo, one rank) a step has as many all-reduces, too. Prints
the median over paired blocks and its quartiles, in µs a step. Asserts nothing.
"""

import statistics
import tempfile
import time

import torch
import torch.distributed as dist

import cep
import cep.torch

STEPS, ROUNDS = 300, 40


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


def block_us(profiler, model, optimizer, collectives, first_step):
    batch = torch.zeros(1)
    begin = time.perf_counter()
    for step in range(first_step, first_step + STEPS):
        profiler.step(step)
        model(batch)
        for _ in range(collectives):
            dist.all_reduce(batch)
        optimizer.step()
    return (time.perf_counter() - begin) / STEPS * 1e6


def measure(folder, parts, collectives):
    model = Parts(parts)
    optimizer = Nothing(model.parameters(), lr=0.1)
    bare, added = [], []
    with cep.Profiler(folder, start_step=1_000_000) as profiler:
        for _ in range(ROUNDS):
            before = block_us(profiler, model, optimizer, collectives, 0)
            with cep.torch.instrument(model, optimizer, profiler):
                instrumented = block_us(profiler, model, optimizer, collectives, 0)
            after = block_us(profiler, model, optimizer, collectives, 0)
            bare.append(before)
            added.append(instrumented - (before + after) / 2)
    low, middle, high = statistics.quantiles(added, n=4)
    print(f"| {parts:5} | {collectives:3} | {statistics.median(bare):9.2f} | {middle:+.2f} [{low:+.2f}, {high:+.2f}] |")


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        print("| parts | all-reduces | µs a step | added by instrument() |")
        print("|---|---|---|---|")
        for number, (parts, collectives) in enumerate(((1, 0), (10, 0), (1000, 0), (10, 20))):
            measure(f"{folder}/{number}", parts, collectives)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
