# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: clean environments, scripts run as processes, rank files read back."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
LAUNCHER_PREFIXES = ("CEP_", "SLURM_", "OMPI_", "PMI_", "MPI_", "TORCHELASTIC_")


# Frameworks whose calls come in their order, and do nothing.
STAND_INS = Path(__file__).resolve().parent / "integrations" / "stand_ins"
WITHOUT_COMPILER = Path(__file__).resolve().parent / "without_compiler"
# A module of the stand-in for Lightning, for scripts.
LIGHTNING_MODULE = """
import sys
import torch
import lightning.pytorch as lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch):
        return self.layer(batch).sum()

loader = torch.utils.data.DataLoader([torch.ones(4)] * 20, 2)
"""


def path_with(*folders):
    """PYTHONPATH with these before what it has."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


# Importing PyTorch takes most of the time of the tests' processes: all import half of it, but for those that compile.
PATH_WITH_COMPILER = path_with()
os.environ["PYTHONPATH"] = path_with(WITHOUT_COMPILER)

# These tests are of CPUs, wherever they run; those of GPUs are in tests/gpu.
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def needs_torch():
    """Skips a file of tests where there is no PyTorch. Its processes import it, which takes seconds."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("no torch", allow_module_level=True)


def is_configuration(variable):
    if variable in ("CEP_LIBRARY", "CEP_BINDING"):
        return False
    return variable in LAUNCHER_VARIABLES or variable.startswith(LAUNCHER_PREFIXES)


@pytest.fixture(autouse=True)
def unconfigured_environment(monkeypatch):
    for variable in list(os.environ):
        if is_configuration(variable):
            monkeypatch.delenv(variable)


@pytest.fixture
def with_compiler(monkeypatch):
    """For the test's processes that compile, or import much of the compiler."""
    monkeypatch.setenv("PYTHONPATH", PATH_WITH_COMPILER)


def end_ns(span):
    """Where a span ends, in whole nanoseconds: a double of today's UNIX time has steps of 256."""
    return span["start_ns"] + round(span["duration_ms"] * 1e6)


class RankFiles:
    """The rank files under one output directory. The test's profiler is closed before they are read."""

    def __init__(self, output_dir):
        self.output_dir = Path(output_dir)
        self.directory = self.output_dir / "cuda_event_profiler"
        self.profiler = None

    def rows(self, rank=0):
        if self.profiler is not None:
            self.profiler.close()
        text = (self.directory / f"cuda_events_rank_{rank}.jsonl").read_text(encoding="utf-8")
        assert text.endswith("\n"), "a file consists of whole lines"
        return [json.loads(line) for line in text.splitlines()]

    def typed(self, row_type, rank=0):
        return [row for row in self.rows(rank) if row.get("type") == row_type]

    def spans(self, name=None, rank=0):
        return [row for row in self.rows(rank) if "type" not in row and name in (None, row["name"])]

    def span(self, name, rank=0):
        (row,) = self.spans(name, rank)
        return row


@pytest.fixture
def files(tmp_path):
    return RankFiles(tmp_path)


@pytest.fixture
def files_while_open(tmp_path):
    return RankFiles(tmp_path)


@pytest.fixture
def profiler(tmp_path, files):
    """A profiler that records every step, in step 0."""
    import cep

    profiler = files.profiler = cep.Profiler(tmp_path, record_every_n_steps=1)
    profiler.step(0)
    yield profiler
    profiler.close()


class Scripts:
    """Runs Python text as a process of its own, with the output directory as its only argument."""

    def __init__(self, folder):
        self.folder = folder

    def start(self, text, *arguments, env=None):
        script = self.folder / "script.py"
        script.write_text("import sys, cep\n" + text)
        return subprocess.Popen(
            [sys.executable, str(script), str(self.folder), *map(str, arguments)],
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, text, *arguments, env=None, status=0, timeout=120):
        process = self.start(text, *arguments, env=env)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()  # one that hangs must not outlive its test
        assert process.returncode == status, err
        return out, err


@pytest.fixture
def scripts(tmp_path):
    return Scripts(tmp_path)


@pytest.fixture(scope="session")
def command():
    """The path of the cep command."""
    path = Path(os.environ.get("TEST_CEP_COMMAND", "cep"))
    if not path.exists():
        pytest.skip("the cep command is not built")
    return path
