# SPDX-License-Identifier: Apache-2.0
"""`cep run` on scripts, for its tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plain_training.py"
NO_STEP = "no training step was seen"


class Run:
    """Runs a command under the launcher, which writes to the test's folder."""

    def __init__(self, folder, command):
        self.folder = folder
        self.environment = {
            "CEP_COMMAND": str(command),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def start(self, *command, options=("--every", "1"), **variables):
        launcher = [sys.executable, "-m", "cep.run", "-o", str(self.folder), *options, "--", *map(str, command)]
        return subprocess.Popen(
            launcher,
            env={**os.environ, **self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *command, status=0, **options):
        process = self.start(*command, **options)
        try:
            out, err = process.communicate(timeout=200)
        finally:
            process.kill()
        assert process.returncode == status, err
        return out, err

    def script(self, text, *arguments, **options):
        return self(sys.executable, self.write(text), *arguments, **options)

    def write(self, text):
        path = self.folder / "script.py"
        path.write_text(text)
        return path


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path, Path(os.environ.get("TEST_CEP_COMMAND", "cep")))


@pytest.fixture
def with_torch():
    pytest.importorskip("torch", reason="no torch")


def steps_of(files, name, rank=0):
    return sorted(row["step"] for row in files.spans(name, rank))


# Runs its first argument as as many processes as the second says, as a launcher does.
LAUNCH = """
import os, subprocess, sys
ranks = int(sys.argv[2])
variables = [{"RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(ranks)} for r in range(ranks)]
jobs = [subprocess.Popen([sys.executable, sys.argv[1], *sys.argv[3:]], env={**os.environ, **own}) for own in variables]
sys.exit(max([job.wait() for job in jobs]))
"""
DDP = """
import os, sys, torch, torch.distributed as dist
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/meeting_point", rank=rank, world_size=ranks)
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)))
optimizer = torch.optim.Adam(model.parameters())
for batch in torch.utils.data.DataLoader([torch.randn(8) for _ in range(40)], 4):
    loss = model(batch.to("cpu")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(loss.detach())
print(f"{rank}: {loss.item()!r}\\n", end="")
dist.destroy_process_group()
"""
