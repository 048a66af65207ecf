# SPDX-License-Identifier: Apache-2.0
"""The command under test, and a small writer of rank files."""

import functools
import json
import os
import pathlib
import random
import re
import subprocess

import pytest
from both_builds import run_command
from rank_files import START_NS, line_of, rank_path, run_row
from simulation import Simulation

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commands_of_source():
    """The list that the build makes the command from."""
    (names,) = re.findall(r"^commands = \[(.*)\]$", (ROOT / "man/meson.build").read_text(), re.MULTILINE)
    return re.findall(r"'(\w+)'", names)


COMMANDS = commands_of_source()
READERS = [command for command in COMMANDS if command not in ("run", "simulate", "completion")]  # of input files
ROW_READERS = [command for command in READERS if command not in ("compare", "kernels")]  # two jobs, and traces


@functools.cache
def options_of(command):
    text = subprocess.run([os.environ["CEP_COMMAND"], command, "--help"], capture_output=True, text=True, check=True).stdout
    return {name for names in re.findall(r"^  (?:(-\w), )?(--[\w-]+)", text, re.MULTILINE) for name in names if name}


def readers_with(option):
    return [command for command in READERS if option in options_of(command)]


def inputs_of(command, traces="traces"):
    """What a command needs to be named."""
    return {"compare": ["job", "job"], "kernels": [traces]}.get(command, ["job"])


def span_row(rank, step, name, duration_ms, start_ns, **more):
    row = {
        "name": name, "step": step, "rank": rank, "duration_ms": duration_ms, "start_ns": start_ns, "host_ms": 0.25,
        "kind": "compute", "clock": "host", "seq": 0, "depth": 1,
    }
    row.update(more)
    return row


def stats_row(rank, step, *, attempt=1, start_ns=START_NS, **more):
    row = {
        "type": "stats", "rank": rank, "step": step, "attempt": attempt, "start_ns": start_ns, "recorded": 100,
        "written": 100, "dropped": {"ring": 0, "slots": 0, "pool": 0, "file": 0, "io": 0, "meta": 0},
        "capture_skipped": 0, "cuda_errors": 0, "abandoned": 0, "open": 0, "self_ms": 0.5,
    }
    row.update(more)
    return row


PHASES = (("data_load", "data", 3.0), ("forward", "compute", 10.0), ("backward", "compute", 20.0))


def attempt_rows(rank, steps, *, rng, world_size=1, attempt=1, run_id="run-a", slow=None):
    """The rows of one attempt of one rank, as the library writes them: the step span ends last."""
    begin_ns = START_NS + attempt * 10**13
    rows = [run_row(rank, world_size=world_size, attempt=attempt, run_id=run_id, start_unix_ns=begin_ns)]
    for number, step in enumerate(steps):
        now_ns = begin_ns + (number + 1) * 10**9
        total_ms = 0.0
        for name, kind, typical_ms in PHASES:
            duration_ms = round(typical_ms * rng.uniform(0.9, 1.1) * (slow or {}).get(name, 1.0), 6)
            rows.append(span_row(rank, step, name, duration_ms, now_ns + int(total_ms * 1e6), kind=kind))
            total_ms += duration_ms
        rows.append(span_row(rank, step, "training_step", round(total_ms + 0.5, 6), now_ns - 1000, kind="step", depth=0))
    rows.append(stats_row(rank, steps[-1], attempt=attempt, start_ns=begin_ns + 10**12))
    return rows


class Job:
    """A folder of rank files that a test fills."""

    def __init__(self, folder):
        self.folder = folder
        self.rows = []

    def path(self, rank):
        return rank_path(self.folder, rank)

    def write(self, rank, rows, *, tail=b""):
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.path(rank), "ab") as file:
            file.write(b"".join(line_of(row).encode() + b"\n" for row in rows) + tail)
        self.rows += rows
        return self

    def spans(self):
        return [row for row in self.rows if "type" not in row]


class Command:
    def __init__(self, folder):
        self.program = os.environ["CEP_COMMAND"]
        self.folder = folder

    def __call__(self, *arguments, status=0, stdin=b"", env=None):
        done = run_command(arguments, input=stdin, cwd=self.folder, env={**os.environ, **(env or {})})
        assert done.returncode == status, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done

    def summary(self, *arguments, **more):
        return json.loads(self("summarize", "--json", *arguments, **more).stdout)

    def check(self, *arguments, **more):
        """What the files hold, whatever the status that it gives."""
        lenient = () if "--strict" in arguments or "status" in more else ("--lenient",)
        return json.loads(self("check", "--json", *lenient, *arguments, **more).stdout)

    def merged(self, *arguments, **more):
        return self("merge", *arguments, **more).stdout


def verdict_of(cep, *arguments):
    return cep.summary(*arguments, "job")["verdict"]


def names_of(verdict):
    return [(one["rank"], one["phase"], one["pattern"]) for one in verdict["stragglers"]]


def verdict_naming(cep, *stragglers):
    """The verdict, which names these and nobody else."""
    verdict = verdict_of(cep)
    assert names_of(verdict) == [*stragglers]
    return verdict


@pytest.fixture
def cep(tmp_path):
    return Command(tmp_path)


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path / "job")


@pytest.fixture
def four_ranks(job):
    """Four ranks, 30 steps, rank 2 slow in backward."""
    rng = random.Random(7)
    for rank in range(4):
        slow = {"backward": 1.5} if rank == 2 else None
        job.write(rank, attempt_rows(rank, range(30), rng=rng, world_size=4, slow=slow))
    return job


@pytest.fixture
def resumed(job):
    """Two ranks that stopped after step 59 and resumed at step 40."""
    rng = random.Random(11)
    for rank in range(2):
        job.write(rank, attempt_rows(rank, range(60), rng=rng, world_size=2))
        job.write(rank, attempt_rows(rank, range(40, 80), rng=rng, world_size=2, attempt=2))
    return job


def as_rows(text):
    return json.loads(b"[" + b",".join(text.splitlines()) + b"]")


@pytest.fixture
def simulate(cep, tmp_path):
    def run(name, *arguments, faults=(), events=(), **settings):
        """`settings`: of a scenario, those that are no options."""
        more = [text for fault in faults for text in ("--fault", json.dumps(fault))]
        more += [text for event in events for text in ("--event", json.dumps(event))]
        usual = [("--steps", 100), ("--record-every", 1)]
        more += [part for option in usual if option[0] not in arguments for part in option]
        if settings:
            (tmp_path / "scenario.json").write_text(json.dumps(settings))
            more += ["--scenario", "scenario.json"]
        cep("simulate", "-o", name, *arguments, *more)
        return Simulation(tmp_path / name)
    return run
