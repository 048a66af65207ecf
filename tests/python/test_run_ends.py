# SPDX-License-Identifier: Apache-2.0
"""cep run: how scripts end, what is told, where rank files go, and the arguments of the launcher."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import path_with
from launched import DDP, EXAMPLE, LAUNCH, NO_STEP, run, steps_of, with_torch

# Scripts that end otherwise, or are none of cep's.

FAILS = """
import itertools, os, signal, sys, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def has_rows():
    path = os.environ["CEP_DIRECTORY"] + "/cuda_events_rank_0.jsonl"
    return os.path.exists(path) and '"step":10,' in open(path).read()

for number in itertools.count():
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if number >= 20 and ({at_once} or has_rows()):
        {end}
"""


@pytest.mark.parametrize("end, status", [
    ("sys.exit(3)", 3),
    ("raise ValueError('a bad batch')", 1),
    ("os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
    ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
], ids=("exit", "exception", "SIGTERM", "SIGKILL"))
def test_the_status_of_the_script_is_kept_and_its_rows_are_there(run, files, command, with_torch, end, status):
    # Rows are written every 10 steps, by a thread of its own, and those after the last time go with a killed process.
    _, err = run.script(FAILS.format(end=end, at_once="kill" not in end), status=status)
    assert "cep run: the verdict of" in err
    if "kill" in end:  # the last line may be a part of one
        path = files.directory / "cuda_events_rank_0.jsonl"
        path.write_text(path.read_text().rpartition("\n")[0] + "\n")
    assert set(range(1, 10)) <= set(steps_of(files, "training_step"))
    if "raise" in end:
        assert "ValueError: a bad batch" in err


WAITS = """
import signal, sys
signal.signal(signal.{name}, lambda number, frame: sys.exit(40 + number))
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_signals_are_passed_on(run, name):
    number = getattr(signal, name)
    process = run.start(sys.executable, run.write(WAITS.format(name=name)))
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 40 + number


# As srun and container runtimes: the processes have the environment, and not the launcher's folder of records.
ELSEWHERE = "import os, subprocess, sys; os.environ['CEP_RUN_RECORDS'] = '/nowhere'; subprocess.run(sys.argv[1:], check=True)"


# As DeepSpeed's launcher on other hosts, which forwards variables of Python's and NCCL's.
FORWARDS_PYTHONS = """
import os, subprocess, sys
kept = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "NCCL", "PATH"))}
subprocess.run(sys.argv[1:], env={**kept, **dict(word.split("=") for word in os.environ.get("FILE", "").split())}, check=True)
"""


def test_rows_of_processes_elsewhere_are_found(run, files, command, with_torch):
    _, err = run(sys.executable, "-c", ELSEWHERE, sys.executable, EXAMPLE, "--samples", "320", "--epochs", "1")
    assert steps_of(files, "training_step") == list(range(1, 10))
    assert "written by processes on other hosts or in containers: 1" in err
    assert NO_STEP not in err and "cep run: the verdict of" in err


def test_a_launcher_that_forwards_no_variables_of_ceps_is_named(run, files, with_torch):
    script = (sys.executable, EXAMPLE, "--samples", "64", "--epochs", "1")
    _, err = run(sys.executable, "-c", FORWARDS_PYTHONS, *script)
    assert NO_STEP in err and "CEP_*" in err and "-E, -I or -S" in err
    # Its file of variables to forward, .deepspeed_env, is the remedy.
    names = ("CEP_RUN_RECORDS", "CEP_DIRECTORY", "CEP_RECORD_EVERY_N_STEPS", "CEP_LIBRARY", "CEP_BINDING")
    forward = "import os, sys; os.environ['FILE'] = ' '.join(f'{n}={os.environ[n]}' for n in %r); os.execv(%r, %r)"
    again = [sys.executable, "-c", FORWARDS_PYTHONS, *map(str, script)]
    _, err = run(sys.executable, "-c", forward % (names, sys.executable, again))
    assert NO_STEP not in err and steps_of(files, "training_step")


def test_a_run_that_is_started_again_is_one_rank(run, with_torch):
    twice = "import subprocess, sys; [subprocess.run(sys.argv[1:], check=True) for _ in range(2)]"
    script = (sys.executable, EXAMPLE, "--samples", "64", "--epochs", "1")
    _, err = run(sys.executable, "-c", twice, *script, options=("--every", "1", "--no-summary"))
    assert "1 rank recorded" in err


def test_a_script_without_pytorch_is_left_alone(run, files):
    text = "import sys\nprint('torch' in sys.modules, 'cep' in sys.modules, [p for p in sys.path if '_startup' in p])"
    out, err = run.script(text)
    assert out == "False False []\n"
    assert err.count("cep run:") == 1 and NO_STEP in err
    assert not files.directory.exists()


def test_a_script_that_trains_nothing_is_told(run, with_torch):
    _, err = run.script("import torch\nprint(torch.nn.Linear(4, 4)(torch.ones(1, 4)).shape)")
    assert err.count("cep run:") == 1 and NO_STEP in err


def test_too_few_steps_for_the_stride_are_told(run, with_torch):
    _, err = run(sys.executable, EXAMPLE, "--epochs", "1", "--samples", "32", options=("--no-summary",))
    assert "no step of 1 was recorded; --every 1" in err


OWN = """
import sys, torch, cep
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with cep.Profiler(sys.argv[1] + "/own", record_every_n_steps=1) as prof:
    for batch in cep.torch.trace_training(prof, [torch.ones(2, 4)] * 8, model, optimizer):
        model(batch).sum().backward()
        optimizer.step()
"""


def test_a_script_that_uses_cep_itself_is_not_instrumented_again(run, tmp_path, command, with_torch):
    _, err = run.script(OWN, tmp_path)
    assert err.count("uses cep itself") == 1
    assert f"the verdict of {tmp_path}/own/cuda_event_profiler" in err
    assert not (tmp_path / "cuda_event_profiler").exists()
    rows = (tmp_path / "own/cuda_event_profiler/cuda_events_rank_0.jsonl").read_text().splitlines()
    assert sum('"name":"forward"' in row for row in rows) == 8


def test_another_sitecustomize_still_runs(run, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = __file__\n")
    out, _ = run.script("import sitecustomize\nprint(mine, sitecustomize.__file__)", PYTHONPATH=path_with(tmp_path / "site"))
    assert out.split() == [str(tmp_path / "site" / "sitecustomize.py")] * 2


def test_a_profiler_that_cannot_be_opened_does_not_end_the_script(run, with_torch):
    out, err = run(sys.executable, EXAMPLE, "--samples", "64", CEP_FLUSH_EVERY_N_STEPS="0", PYTHONWARNINGS="error")
    assert out.startswith("epoch 0")
    assert err.count("flush_every_n_steps") == 1


def test_rows_that_cannot_be_written_at_the_end_are_told(run, with_torch):
    ending = "__import__('cep')._ffi.close = lambda *_: -4; break"  # CEP_EIO
    _, err = run.script(FAILS.format(end=ending, at_once=True))
    assert "rank 0 is no longer instrumented: Error: " in err


def test_warnings_as_errors_reach_no_script(run, files, with_torch):
    run(sys.executable, "-W", "error", EXAMPLE, "--samples", "160", "--epochs", "1")
    assert steps_of(files, "training_step") == [1, 2, 3, 4]


def test_a_rank_file_that_is_missing_here_is_told(run, tmp_path, with_torch):
    _, err = run.script(FAILS.format(end="break", at_once=True), RANK="1", WORLD_SIZE="4")
    assert f"1 of 4 rank files are here; once all are in one place: cep summarize {tmp_path}" in err


def test_ranks_that_are_not_listed_are_not_missed(run, files, tmp_path, command, with_torch):
    script = run.write(DDP)
    (tmp_path / "launch.py").write_text(LAUNCH)
    _, err = run(sys.executable, tmp_path / "launch.py", script, 2, tmp_path, CEP_RANKS="0")
    assert "cep run: the verdict of" in err
    assert [path.name for path in files.directory.iterdir()] == ["cuda_events_rank_0.jsonl"]


def test_a_profiler_that_is_off_is_told(run, with_torch):
    _, err = run(sys.executable, EXAMPLE, "--samples", "64", CEP_ENABLE="0")
    assert err == "cep run: cep is off in each process that trained (CEP_ENABLE, CEP_RANKS), so nothing was recorded\n"


# Where rank files go.


def run_in(folder, run, *command, **variables):
    """Without -o, in a folder."""
    words = [sys.executable, "-m", "cep.run", "--every", "1", *map(str, command)]
    where = {name: value for name, value in os.environ.items() if not name.startswith(("CEP_DIR", "SLURM_", "PMIX_"))}
    return subprocess.run(words, cwd=folder, env={**where, **run.environment, **variables}, capture_output=True, text=True)


def test_each_run_has_a_directory_of_its_own_and_latest_is_the_last(run, tmp_path, command, with_torch):
    for samples in (320, 192):
        done = run_in(tmp_path, run, sys.executable, EXAMPLE, "--samples", samples)
        assert done.returncode == 0, done.stderr
        last = (tmp_path / "cep_runs" / "latest").resolve()
        assert f"the verdict of {last}" in done.stderr and "left out" not in done.stderr
    runs = [path for path in (tmp_path / "cep_runs").iterdir() if not path.is_symlink()]
    assert len(runs) == 2 and last == max(runs, key=lambda path: path.stat().st_mtime)
    rows = [len(list(path.rglob("cuda_events_rank_0.jsonl"))) for path in runs]
    assert rows == [1, 1]
    shown = subprocess.run([str(command), "summarize", "--json", str(tmp_path / "cep_runs" / "latest")], capture_output=True)
    assert shown.returncode == 0


def test_the_verdict_of_a_directory_that_is_used_again_is_of_the_last_run(run, with_torch):
    for samples in (320, 192):
        _, err = run(sys.executable, EXAMPLE, "--samples", samples)
    assert "left out: " in err and "--run " in err


@pytest.mark.parametrize("variables, name", [
    ({"SLURM_JOB_ID": "71", "SLURM_STEP_ID": "2", "SLURM_NTASKS": "4"}, "slurm-71.2"),
    ({"PMIX_NAMESPACE": "prterun-host-9@1"}, "mpi-prterun-host-9-1"),
])
def test_launchers_of_one_job_choose_the_same_directory(run, tmp_path, variables, name):
    told = run.write("import os; print(os.environ['CEP_DIRECTORY'])")
    for _ in range(2):
        done = run_in(tmp_path, run, sys.executable, told, **variables)
        assert done.stdout == str(tmp_path / "cep_runs" / name / "cuda_event_profiler") + "\n"
    assert os.readlink(tmp_path / "cep_runs" / "latest") == name


# The launcher's own arguments.


@pytest.mark.parametrize("arguments, status", [(["--every", "0", "true"], 2), ([], 2), (["--", "no-such-program"], 127)])
def test_wrong_arguments_are_told(tmp_path, arguments, status):
    done = subprocess.run([sys.executable, "-m", "cep.run", *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == status and done.stderr.startswith("cep run: ")
    assert done.stderr.count("cep run:") == 1 and done.stderr.endswith("Try 'cep run --help'.\n") == (status == 2)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_is_named_as_by_the_other_commands(tmp_path):
    done = subprocess.run([sys.executable, "-m", "cep.run", "--nope", "true"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "cep run: there is no option '--nope'\nTry 'cep run --help'.\n"


def test_the_command_becomes_the_launcher(command, tmp_path):
    where = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = [command, "run", "-o", tmp_path, "sh", "-c", "exit 5"]
    done = subprocess.run(list(map(str, words)), env=where, capture_output=True, text=True)
    assert done.returncode == 5
    assert done.stderr == "cep run: the command failed with status 5 before a training step was seen\n"


def test_the_command_tells_that_the_package_is_missing(command, tmp_path):
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    (tmp_path / "cep.py").write_text("raise ImportError('no cep here')\n")
    done = subprocess.run([str(command), "run", "true"], env=without, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "cep run: the Python package cep is needed, and the python3 on PATH cannot import it: no cep here\n"


def test_two_directories_that_differ_are_refused(run, tmp_path):
    _, err = run.script("print(1)", status=2, CEP_DIRECTORY=str(tmp_path / "elsewhere"))
    assert "set one of the two" in err and "Traceback" not in err
    out, _ = run.script("print(1)", CEP_DIRECTORY=str(tmp_path / "cuda_event_profiler"))
    assert out == "1\n"
