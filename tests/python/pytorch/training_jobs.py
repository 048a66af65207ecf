# SPDX-License-Identifier: Apache-2.0
"""What the tests of cep.torch share, as a plugin of pytest: jobs of several processes over gloo, and training steps
small enough for a CPU."""

import json
import os
import select
import signal
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

def wait_for_ends(prof):
    # Threads of gloo end the spans of asynchronous collectives, maybe after those who wait for the results go on.
    while prof.stats.open_spans > 0:
        os.sched_yield()
"""

ENDING = """
if dist.is_initialized():
    dist.destroy_process_group()
"""


class RankServer:
    """The process that starts the ranks of all jobs of a pytest run: see rank_server.py."""

    def __init__(self):
        self._process = None

    def run(self, job, timeout_s):
        """The exit statuses of the ranks of a job; where they take too long, all are killed."""
        if self._process is None:
            self._start()
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answered, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        if not answered:
            self.stop()
            pytest.fail(f"the job did not end within {timeout_s} s")
        return json.loads(self._process.stdout.readline())

    def _start(self):
        # A session of its own, so that its ranks can be killed with it.
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("rank_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def stop(self):
        if self._process is None:
            return
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._process = None


@pytest.fixture(scope="session")
def rank_server():
    server = RankServer()
    yield server
    server.stop()


class Job:
    """Runs the same Python text as several processes that share a gloo process group."""

    def __init__(self, folder, server):
        self.folder = Path(folder)
        self.server = server

    def run(self, ranks, text, expected=None, ending=ENDING):
        """The ranks' standard outputs. Each process has to end with its expected status (0)."""
        script = self.folder / "job.py"
        script.write_text(PREAMBLE + text + ending)
        own = [{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)} for rank in range(ranks)]
        job = {
            "script": str(script),
            "arguments": [str(self.folder)],
            "outputs": str(self.folder),
            "environments": [{**os.environ, **variables} for variables in own],
        }
        statuses = self.server.run(job, timeout_s=150)
        outputs = [(self.folder / f"out_{rank}").read_text() for rank in range(ranks)]
        for rank, status in enumerate(statuses):
            errors = (self.folder / f"err_{rank}").read_text()
            assert status == (expected or {}).get(rank, 0), f"rank {rank}: {outputs[rank]}{errors}"
        return outputs


@pytest.fixture
def job(tmp_path, rank_server):
    return Job(tmp_path, rank_server)


@pytest.fixture
def job_with_compiler(tmp_path, with_compiler):
    server = RankServer()
    yield Job(tmp_path, server)
    server.stop()


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
