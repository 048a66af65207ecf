# SPDX-License-Identifier: Apache-2.0
"""A program that names phases of its own and has no span of the step, on one GPU. Its host runs two steps ahead of the GPU,
or waits for it in each step. What the loader costs is measured: the time in which the GPU did none of the three phases, by
events of the program's own. Beside that stands the loading that `cep summarize` has in where the time went.

    CEP_COMMAND=build/tools/cep python3 tests/gpu/host_ahead.py [--steps 150]

Prints a table, and ends with status 1 if a share is off by more than 3 points, 77 where there is no GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque

try:
    import torch
except ImportError:
    print("host_ahead.py: skipped: no PyTorch", file=sys.stderr)
    sys.exit(77)

import cep

STEP_MS = 30.0  # of the GPU
MOST_POINTS = 3.0


class Trainer:
    def __init__(self, ahead):
        self.ahead = ahead  # steps
        self.matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) / 64
        self.result = torch.empty_like(self.matrix)
        self.ends = deque()
        self.products(100)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        self.products(300)
        torch.cuda.synchronize()
        self.products_per_ms = 0.3 / (time.perf_counter() - begin)

    def products(self, count):
        for _ in range(count):
            torch.mm(self.matrix, self.matrix, out=self.result)

    def work(self, ms):
        self.products(round(ms * self.products_per_ms))

    def train(self, steps, load_ms, prof):
        """Returns what a step takes, and for how long the GPU works in it, in ms."""
        torch.cuda.synchronize()
        self.ends.clear()
        works = []
        begin = time.perf_counter()
        for step in steps:
            prof.step(step)
            works.append(self.step(prof, load_ms))
        torch.cuda.synchronize()
        took_ms = 1e3 * (time.perf_counter() - begin)
        return took_ms / len(steps), sum(begin.elapsed_time(end) for begin, end in works) / len(steps)

    def step(self, prof, load_ms):
        with prof.region("data_load", kind="data", stream=cep.HOST):
            time.sleep(load_ms * 1e-3)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        with prof.region("forward", kind="compute"):
            self.work(STEP_MS / 3)
        with prof.region("backward", kind="compute"):
            self.work(STEP_MS / 2)
        with prof.region("optimizer", kind="compute"):
            self.work(STEP_MS / 6)
        end.record()
        self.ends.append(end)
        if len(self.ends) > self.ahead:
            self.ends.popleft().synchronize()
        return begin, end


def share_of_loading(folder):
    command = [os.environ.get("CEP_COMMAND", "cep"), "summarize", "--json", folder]
    ledger = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["ledger"]
    return sum(one["share"] for one in ledger["pieces"] if one["piece"] == "data")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("host_ahead.py: skipped: no GPU", file=sys.stderr)
        sys.exit(77)
    wrong = 0
    print("steps ahead  loader, ms  recorded  ms a step  measured, %  said, %")
    for ahead, load_ms in ((2, 15.0), (2, 25.0), (2, 45.0), (0, 15.0)):
        for every in (1, 5):
            trainer = Trainer(ahead)
            trainer.train(range(20), load_ms, cep.Profiler(enable=False))
            with tempfile.TemporaryDirectory(prefix="cep-ahead-") as folder:
                with cep.Profiler(folder, record_every_n_steps=every) as prof:
                    step_ms, work_ms = trainer.train(range(options.steps), load_ms, prof)
                said = 100 * share_of_loading(folder)
            measured = 100 * (1 - work_ms / step_ms)
            is_wrong = abs(said - measured) > MOST_POINTS
            wrong += is_wrong
            text = f"{ahead:11}  {load_ms:10}  {every:8}  {step_ms:9.2f}  {measured:11.1f}  {said:7.1f}"
            print(text + "  WRONG" * is_wrong, flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
