#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training of several processes over gloo that times itself twice: by CudaEventProfiler, and by a stopwatch.

    stopwatch_training.py DIRECTORY PROCESSES STRIDE

Writes rank files, and the stopwatch of each rank as DIRECTORY/stopwatch_<rank>.json.
"""

import json
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from cep.compat import CudaEventProfiler

STEPS = 41
METRICS_EVERY = 4


class Stopwatch:
    """Times what a profiler records, just inside of its region and just outside of it. What the profiler says lies
    between the two, however the machine schedules the process."""

    def __init__(self, profiler):
        self.profiler = profiler
        self.inside_ns, self.outside_ns = Counter(), Counter()
        self.first, self.last = None, None  # the outer and inner times of the first begin and of the last end

    @contextmanager
    def record(self, name, step):
        before_ns = time.monotonic_ns()
        with self.profiler.record(name, step=step):
            begin_ns = time.monotonic_ns()
            yield
            end_ns = time.monotonic_ns()
        after_ns = time.monotonic_ns()
        if self.profiler.should_record(step):
            self.inside_ns[name] += end_ns - begin_ns
            self.outside_ns[name] += after_ns - before_ns
            self.first = self.first or (before_ns, begin_ns)
            self.last = (end_ns, after_ns)

    def said(self):
        return {"least_elapsed_ns": self.last[0] - self.first[1], "most_elapsed_ns": self.last[1] - self.first[0],
                "inside_ns": self.inside_ns, "outside_ns": self.outside_ns}


def numbers(count):
    """Something that takes a host's time."""
    return sum(i * i for i in range(count))


def train(rank, directory, world_size, stride):
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=world_size)
    config = {"record_every_n_steps": stride, "backend": "host"}
    profiler = CudaEventProfiler(True, directory / "cuda_event_profiler", rank, config)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.ones(64, 512)
    watch = Stopwatch(profiler)
    dist.barrier()
    for step in range(STEPS):
        with watch.record("host_to_device", step):
            inputs = batch.clone() + numbers(20_000) % 2
        with watch.record("training_step", step):
            model(inputs).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        if step % METRICS_EVERY == 0:
            with watch.record("training_metrics", step):
                numbers(300_000)
        profiler.maybe_flush(step)
        numbers(50_000)  # in no phase
    profiler.close()
    (directory / f"stopwatch_{rank}.json").write_text(json.dumps(watch.said()))
    dist.destroy_process_group()


def main():
    directory, world_size, stride = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    # Forked, so that PyTorch is imported once.
    processes.start_processes(train, (directory, world_size, stride), nprocs=world_size, start_method="fork")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
