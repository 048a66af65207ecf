# SPDX-License-Identifier: Apache-2.0
"""cep run: scripts that do not know of cep, recorded unchanged."""

import subprocess
import sys

import pytest
from conftest import LIGHTNING_MODULE, STAND_INS, path_with
from launched import DDP, EXAMPLE, LAUNCH, run, steps_of, with_torch

PHASES = ["data_load", "host_to_device", "forward", "backward", "optimizer"]


def names_of_step(files, step, rank=0):
    rows = [row for row in files.spans(rank=rank) if row["step"] == step]
    return [row["name"] for row in sorted(rows, key=lambda row: (row["start_ns"], row["depth"]))]


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
    assert "cores" in files.typed("run")[0]["meta"]["settings"]
    # Evaluation is in no step.
    assert {row["depth"] for row in files.spans("forward_no_grad")} == {0}


def test_settings_are_left_out_where_the_option_says_so(run, files, with_torch):
    run(sys.executable, EXAMPLE, "--samples", "96", "--epochs", "1", options=("--no-summary", "--no-settings"))
    assert not any("settings" in row.get("meta", {}) for row in files.typed("run"))


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


COPIES = """
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in torch.utils.data.DataLoader([torch.ones(4)] * 8, 2):
    for copy in (
        lambda: batch.to("cpu"),
        lambda: batch.to(dtype=torch.float64, device="cpu"),
        lambda: batch.to(batch),
        lambda: batch.to(torch.float64),
        lambda: batch.to("nowhere"),
        lambda: torch.Tensor.to(),
    ):
        try:
            copy()
        except Exception as error:
            print(type(error).__name__, str(error).splitlines()[0])
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_copies_to_a_device_are_recorded_and_fail_as_without_cep(run, files, with_torch):
    plain = subprocess.run([sys.executable, "-c", COPIES], capture_output=True, text=True, check=True)
    out, _ = run.script(COPIES)
    assert out == plain.stdout and "TypeError" in out
    copies = [row for row in files.spans("host_to_device") if row["step"] == 2]
    assert [(row["bytes"], row.get("error")) for row in sorted(copies, key=lambda row: row["seq"])] == [
        (32, None), (32, None), (32, None), (32, "RuntimeError"),
    ]  # fmt: skip


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


@pytest.mark.parametrize("optimizer, step", [("SGD", "closure(); optimizer.step()"), ("LBFGS", "optimizer.step(closure)")])
def test_without_a_loader_a_forward_after_the_optimizer_begins_a_step(run, files, with_torch, optimizer, step):
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


def test_lightning_gets_its_callback(run, files, tmp_path, with_torch):
    train = "lightning.Trainer(sys.argv[1], max_steps=6).fit(Module(), loader)\n"
    run.script(LIGHTNING_MODULE + train, tmp_path, PYTHONPATH=path_with(STAND_INS))
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
    run.script(script, tmp_path, PYTHONPATH=path_with(STAND_INS))
    whole = {row["step"]: row for row in files.spans("training_step") if "error" not in row}
    assert set(range(1, 5)) <= set(whole)
    for step in range(1, 5):
        names = names_of_step(files, step)
        assert [names.count(name) for name in ("forward", "backward", "optimizer")] == [2, 2, 1]
        assert {"data_load", "host_to_device"} <= set(names)
    # Those of the evaluation are in no step.
    assert all(row["depth"] == 0 for row in files.spans("forward_no_grad"))
