# SPDX-License-Identifier: Apache-2.0
"""cep run: scripts that do not know of cep, recorded unchanged."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import STAND_INS, WITHOUT_COMPILER, path_with

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plain_training.py"
PHASES = ["data_load", "host_to_device", "forward", "backward", "optimizer"]
NO_STEP = "no training step was seen"


class Run:
    """Runs a command under the launcher, which writes to the test's folder."""

    def __init__(self, folder, command):
        self.folder = folder
        self.environment = {
            "CEP_COMMAND": str(command),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": path_with(WITHOUT_COMPILER),
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


def names_of_step(files, step, rank=0):
    rows = [row for row in files.spans(rank=rank) if row["step"] == step]
    return [row["name"] for row in sorted(rows, key=lambda row: (row["start_ns"], row["depth"]))]


def steps_of(files, name, rank=0):
    return sorted(row["step"] for row in files.spans(name, rank))


# A whole training.


def test_a_plain_loop_is_recorded_and_its_results_and_output_stay(run, files, command, with_torch):
    arguments = ["--epochs", "2", "--samples", "320"]
    plain = subprocess.run([sys.executable, EXAMPLE, *arguments], capture_output=True, text=True, check=True)
    out, err = run(sys.executable, EXAMPLE, *arguments)
    assert out == plain.stdout
    assert "cep run: the verdict of" in err and "training_step" in err
    assert steps_of(files, "training_step") == list(range(1, 20))
    for step in range(1, 20):
        assert names_of_step(files, step)[:6] == ["training_step", *PHASES]
    assert {row["depth"] for row in files.spans("training_step")} == {0}
    assert not [row for row in files.spans() if "error" in row]
    # Evaluation is in no step.
    assert {row["depth"] for row in files.spans("forward_no_grad")} == {0}


def test_every_nth_step_is_recorded(run, files, with_torch):
    run(sys.executable, EXAMPLE, "--samples", "640", "--epochs", "1", options=("--every", "5", "--no-summary"))
    assert steps_of(files, "training_step") == [1, 6, 11, 16]
    assert steps_of(files, "forward") == [1, 6, 11, 16]


def test_settings_are_left_out_where_the_option_says_so(run, files, with_torch):
    script = (EXAMPLE, "--samples", "96", "--epochs", "1")
    run(sys.executable, *script, options=("--no-summary",))
    run(sys.executable, *script, options=("--no-summary", "--no-settings"))
    first, *_, last = files.typed("run")
    assert "torch" in first["meta"]["settings"] or "cores" in first["meta"]["settings"]
    assert "settings" not in last.get("meta", {})


def test_accumulated_batches_are_one_step(run, files, with_torch):
    run(sys.executable, EXAMPLE, "--samples", "384", "--epochs", "1", "--accumulate", "4")
    assert steps_of(files, "training_step") == [1, 2]
    for step in (1, 2):
        assert names_of_step(files, step)[:18] == ["training_step", *PHASES[:4] * 4, "optimizer"]


def test_workers_of_a_loader_have_no_profiler(run, files, with_torch):
    out, err = run(sys.executable, EXAMPLE, "--samples", "320", "--workers", "2")
    assert [path.name for path in files.directory.iterdir()] == ["cuda_events_rank_0.jsonl"]
    assert len({row["attempt"] for row in files.typed("run")}) == 1
    assert steps_of(files, "data_load") == list(range(1, 20))
    assert "failed" not in err and "not instrumented" not in err


SPAWNED_WORKERS = """
import torch
from torch.utils.data import DataLoader

def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader([torch.ones(4)] * 8, 2, num_workers=1, multiprocessing_context="spawn")
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""


def test_nor_have_workers_that_are_spawned(run, files, with_torch):
    run.script(SPAWNED_WORKERS)
    assert len({row["attempt"] for row in files.typed("run")}) == 1
    assert steps_of(files, "training_step") == [1, 2, 3]


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


def test_the_ranks_of_a_ddp_job_are_recorded_with_their_collectives(run, files, command, tmp_path, with_torch):
    script = run.write(DDP)
    (tmp_path / "launch.py").write_text(LAUNCH)
    launch = [tmp_path / "launch.py", script, 2, tmp_path]
    plain = subprocess.run(list(map(str, [sys.executable, *launch])), capture_output=True, text=True, check=True)
    (tmp_path / "meeting_point").unlink(missing_ok=True)
    out, err = run(sys.executable, *launch)
    assert sorted(out.splitlines()) == sorted(plain.stdout.splitlines())
    assert "2 ranks" in err
    for rank in range(2):
        row = files.typed("run", rank)[-1]
        assert (row["rank"], row["world_size"]) == (rank, 2)
        assert steps_of(files, "training_step", rank) == list(range(1, 10))
        reductions = [row for row in files.spans(rank=rank) if row["kind"] == "comm"]
        assert {row["name"] for row in reductions} >= {"all_reduce"}
        # What DDP reduces in a backward, and the script's own.
        assert all(sum(row["step"] == step for row in reductions) == 2 for step in range(1, 10))
    matched = [{(row["group"], row["coll"]) for row in files.spans(rank=rank) if "coll" in row} for rank in range(2)]
    assert matched[0] == matched[1]


SPAWNED_RANKS = """
import sys
import torch
import torch.distributed as dist

def train(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/spawned", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.utils.data.DataLoader([torch.ones(4)] * 12, 2):
        model(batch).sum().backward()
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (sys.argv[1],), nprocs=2)
"""


def test_ranks_that_the_script_spawns_are_recorded(run, files, tmp_path, command, with_torch):
    _, err = run.script(SPAWNED_RANKS, tmp_path)
    assert "2 ranks on 1 host" in err
    for rank in range(2):
        assert steps_of(files, "training_step", rank) == [1, 2, 3, 4, 5]
        assert files.typed("run", rank)[0]["world_size"] == 2


ONE_AHEAD = """
import torch
def ahead(loader):
    batches = iter(loader)
    current = next(batches)
    for following in batches:
        yield current
        current = following
    yield current

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader([torch.ones(4)] * 12, 2)
for epoch in range(2):
    for batch in ahead(loader):
        model(batch).sum().backward()
        optimizer.step()
"""


def test_a_loader_that_is_read_one_batch_ahead(run, files, with_torch):
    run.script(ONE_AHEAD)
    assert steps_of(files, "training_step") == list(range(1, 12))
    for name in ("forward", "backward", "optimizer"):
        assert steps_of(files, name) == list(range(1, 12))


NO_LOADER = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.1)
for _ in range(5):
    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        return loss
    {step}
"""


@pytest.mark.parametrize(
    "optimizer, step", [("SGD", "closure(); optimizer.step()"), ("LBFGS", "optimizer.step(closure)")]
)
def test_without_a_loader_a_forward_after_the_optimizer_begins_a_step(
    run, files, with_torch, optimizer, step
):
    run.script(NO_LOADER.format(optimizer=optimizer, step=step))
    assert steps_of(files, "training_step") == [1, 2, 3, 4]
    for number in range(1, 5):
        assert names_of_step(files, number)[:3] == ["training_step", "forward", "backward"]


# A step that is one CUDA graph: PyTorch calls no forward, and there is no loader. A stand-in for a GPU's graph.
GRAPH = """
import torch

class Graph:
    def replay(self):
        loss = (weight * 2).sum()
        weight.grad = torch.autograd.grad(loss, weight)[0]

torch.cuda.CUDAGraph = Graph
weight = torch.nn.Parameter(torch.ones(4))
optimizers = [torch.optim.SGD([weight], lr=0.1) for _ in range({optimizers})]
graph = torch.cuda.CUDAGraph()
for optimizer in optimizers:  # the first step, which shows what is trained
    graph.replay()
    optimizer.step()
for step in range(12):
    graph.replay()
    for optimizer in optimizers[: {stepping}]:
        optimizer.step()
"""


@pytest.mark.parametrize("optimizers", [1, 2])
def test_a_step_that_is_a_cuda_graph_ends_with_its_optimizers(run, files, with_torch, optimizers):
    run.script(GRAPH.format(optimizers=optimizers, stepping=optimizers))
    first = optimizers  # what is before are steps too
    assert steps_of(files, "training_step")[-12:] == list(range(first, first + 12))
    for step in range(first, first + 12):
        assert names_of_step(files, step) == ["training_step", "graph_replay", *["optimizer"] * optimizers]
    assert not [row for row in files.spans() if "error" in row]


def test_a_training_whose_optimizer_is_in_the_graph_is_told_what_to_call(run, with_torch):
    _, err = run.script(GRAPH.format(optimizers=1, stepping=0))
    assert "12 replays of CUDA graphs" in err and "call its step()" in err


TWO_OPTIMIZERS = """
import sys, torch
from torch.utils.data import DataLoader
first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
optimizers = [torch.optim.Adam(model.parameters()) for model in (first, second)]
data = [torch.randn(4) for _ in range(12)]
for batch in DataLoader(data, 2) if sys.argv[1] == "loader" else torch.stack(data).split(2):
    for model, optimizer in zip((first, second), optimizers):
        optimizer.zero_grad()
        second(first(batch)).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("data", ["loader", "list"])
def test_two_optimizers_that_step_on_one_batch_are_one_step(run, files, with_torch, data):
    run.script(TWO_OPTIMIZERS, data)
    names = names_of_step(files, 3)
    assert names.count("training_step") == 1 and names.count("optimizer") == 2 and names.count("backward") == 2


INNER_MODEL = """
import torch
class Agent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
agent = Agent()
optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader([torch.ones(4)] * 12, 2):
    agent.policy(batch).sum().backward()
    optimizer.step()
"""


def test_a_model_inside_of_one_that_is_never_called_is_found(run, files, with_torch):
    run.script(INNER_MODEL)
    assert steps_of(files, "forward") == [2, 3, 4, 5]
    assert steps_of(files, "backward") == [2, 3, 4, 5]


LIGHTNING = """
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
lightning.Trainer(sys.argv[1], max_steps=6).fit(Module(), loader)
"""


def test_lightning_gets_its_callback(run, files, tmp_path, with_torch):
    run.script(LIGHTNING, tmp_path, PYTHONPATH=path_with(WITHOUT_COMPILER, STAND_INS))
    assert steps_of(files, "training_step") == [1, 2, 3, 4, 5]
    for step in range(1, 6):
        assert sorted(names_of_step(files, step)) == sorted(["training_step", *PHASES])


ACCELERATE = """
import torch
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=2)
model = torch.nn.Linear(4, 1)
data = [torch.ones(4)] * 24
model, optimizer, loader, test = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.1),
    torch.utils.data.DataLoader(data, 2), torch.utils.data.DataLoader(data[:4], 2))
for batch in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(batch).sum())
        optimizer.step()
        optimizer.zero_grad()
model.eval()
for batch in test:
    model(batch)
"""

TRANSFORMERS = """
import sys, torch
from transformers import Trainer
data = [torch.ones(4)] * 24
loader, test = torch.utils.data.DataLoader(data, 2), torch.utils.data.DataLoader(data[:4], 2)
Trainer(torch.nn.Linear(4, 1), sys.argv[1], loader, test, max_steps=6, accumulate=2).train()
"""


@pytest.mark.parametrize("script", [ACCELERATE, TRANSFORMERS], ids=("Accelerate", "Transformers"))
def test_loops_of_frameworks_are_recorded(run, files, tmp_path, with_torch, script):
    run.script(script, tmp_path, PYTHONPATH=path_with(WITHOUT_COMPILER, STAND_INS))
    whole = {row["step"]: row for row in files.spans("training_step") if "error" not in row}
    assert set(range(1, 5)) <= set(whole)
    for step in range(1, 5):
        names = names_of_step(files, step)
        assert [names.count(name) for name in ("forward", "backward", "optimizer")] == [2, 2, 1]
        assert {"data_load", "host_to_device"} <= set(names)
    # Those of the evaluation are in no step.
    assert all(row["depth"] == 0 for row in files.spans("forward_no_grad"))


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


@pytest.mark.parametrize(
    "end, status",
    [
        ("sys.exit(3)", 3),
        ("raise ValueError('a bad batch')", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    ],
    ids=("exit", "exception", "SIGTERM", "SIGKILL"),
)
def test_the_status_of_the_script_is_kept_and_its_rows_are_there(run, files, command, with_torch, end, status):
    # Rows are written every 10 steps, by a thread of its own, and those after the last time go with a killed process.
    _, err = run.script(FAILS.format(end=end, at_once="kill" not in end), status=status)
    assert "cep run: the verdict of" in err
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


UNWRAPPED = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.optim.SGD.step = torch.optim.SGD.step.__wrapped__  # as torch.compile of PyTorch 2.1 and 2.2 does it
for batch in torch.utils.data.DataLoader([torch.ones(4)] * 12, 2):
    model(batch).sum().backward()
    optimizer.step()
"""


def test_an_optimizer_whose_step_torch_compile_has_unwrapped(run, files, with_torch):
    run.script(UNWRAPPED)
    assert steps_of(files, "optimizer") == [1, 2, 3, 4, 5]


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
    names = ("CEP_RUN_RECORDS", "CEP_DIRECTORY", "CEP_RECORD_EVERY_N_STEPS", "CEP_LIBRARY")
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
    out, _ = run.script(
        "import sitecustomize\nprint(mine, sitecustomize.__file__)", PYTHONPATH=path_with(tmp_path / "site")
    )
    assert out.split() == [str(tmp_path / "site" / "sitecustomize.py")] * 2


def test_a_profiler_that_cannot_be_opened_does_not_end_the_script(run, with_torch):
    out, err = run(sys.executable, EXAMPLE, "--samples", "64", CEP_FLUSH_EVERY_N_STEPS="0", PYTHONWARNINGS="error")
    assert out.startswith("epoch 0")
    assert err.count("flush_every_n_steps") == 1


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


@pytest.mark.parametrize(
    "variables, name",
    [
        ({"SLURM_JOB_ID": "71", "SLURM_STEP_ID": "2", "SLURM_NTASKS": "4"}, "slurm-71.2"),
        ({"PMIX_NAMESPACE": "prterun-host-9@1"}, "mpi-prterun-host-9-1"),
    ],
)
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
    assert done.stderr == (
        "cep run: the Python package cep is needed, and the python3 on PATH cannot import it: no cep here\n"
    )


def test_two_directories_that_differ_are_refused(run, tmp_path):
    _, err = run.script("print(1)", status=2, CEP_DIRECTORY=str(tmp_path / "elsewhere"))
    assert "set one of the two" in err and "Traceback" not in err
    out, _ = run.script("print(1)", CEP_DIRECTORY=str(tmp_path / "cuda_event_profiler"))
    assert out == "1\n"
