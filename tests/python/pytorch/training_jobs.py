# SPDX-License-Identifier: Apache-2.0
"""What the tests of cep.torch share, as a plugin of pytest: jobs of several processes over gloo, and training steps
small enough for a CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PREAMBLE = """
import os, sys, warnings
import torch, torch.distributed as dist
import cep, cep.torch
torch.set_num_threads(1)
torch.manual_seed(0)
folder, rank, ranks = sys.argv[1], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting_point", rank=rank, world_size=ranks)
"""


class Job:
    """Runs the same Python text as several processes that share a gloo process group."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def start(self, ranks, text):
        script = self.folder / "job.py"
        script.write_text(PREAMBLE + text)
        return [
            subprocess.Popen(
                [sys.executable, str(script), str(self.folder)],
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]

    def run(self, ranks, text, expected=None):
        """The ranks' standard outputs. Each process has to end with its expected status (0)."""
        processes = self.start(ranks, text)
        try:
            results = [process.communicate(timeout=150) for process in processes]
        finally:
            for process in processes:
                process.kill()
        for rank, (process, (out, err)) in enumerate(zip(processes, results)):
            assert process.returncode == (expected or {}).get(rank, 0), f"rank {rank}: {out}{err}"
        return [out for out, _ in results]


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


class Trainer:
    """A model, an optimizer and steps of them."""

    def __init__(self, model=None, optimizer=None):
        import torch

        torch.manual_seed(0)
        self.model = model or torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        self.optimizer = optimizer or torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.batch = torch.randn(3, 4)

    def loss(self):
        return self.model(self.batch).pow(2).mean()

    def train(self):
        self.loss().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


@pytest.fixture
def trainer():
    return Trainer()


@pytest.fixture
def make_trainer():
    return Trainer


def steps_in_trace(path):
    """The numbers of the steps that record_function("step_<number>") left in a Chrome trace, in their order."""
    trace = json.loads(path.read_text())
    events = trace if isinstance(trace, list) else trace["traceEvents"]  # a list from a PyTorch without Kineto
    names = {event["name"]: event["ts"] for event in events if str(event.get("name")).startswith("step_")}
    return [int(name[5:]) for name in sorted(names, key=names.get)]
