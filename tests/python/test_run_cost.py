# SPDX-License-Identifier: Apache-2.0
"""What `cep run` does on steps that it does not record: as good as nothing, and it counts them right all the same. And what
it does on those that it records.

Times are measured by tests/bench/cep_run.py. Here calls of the package's Python functions are counted.
"""

import os
import subprocess
import sys

import pytest
from conftest import needs_torch

needs_torch()

MOST_CALLS = {"gan": 0, "accumulating": 0, "lightning": 7, "transformers": 4}
# With all steps recorded, and every second one: then hooks go on and off.
MOST_CALLS_RECORDED = {1: {"gan": 1, "accumulating": 1, "lightning": 8}, 2: {"gan": 2.5, "accumulating": 2.5, "lightning": 7.5}}
OF_MEMORY = 0.5  # on a slow machine, whose 20 steps take long: it is looked at once a second

COUNTING = """
import contextlib, os, sys, tempfile, warnings
import torch

warnings.simplefilter("ignore")
calls = 0


def count(frame, event, argument):
    global calls
    calls += event == "call" and f"{os.sep}cep{os.sep}" in frame.f_code.co_filename


class Batches(torch.utils.data.IterableDataset):
    def __init__(self, batch, batches_per_step):
        self.batch, self.first, self.last = batch, 40 * batches_per_step, 60 * batches_per_step

    def __iter__(self):
        for number in range(self.last + 2):
            if number == self.first:
                sys.setprofile(count)
            if number == self.last:
                sys.setprofile(None)
                print(calls / 20, file=open(sys.argv[1], "w"))
            yield self.batch


def loader_of(batch, batches_per_step=1):
    return torch.utils.data.DataLoader(Batches(batch, batches_per_step), batch_size=None)


def layers():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))


def in_ddp(model):
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", f"file://{tempfile.mkdtemp()}/store", rank=0, world_size=1)
    return torch.nn.parallel.DistributedDataParallel(model)
"""

GAN = """
generator, critic = in_ddp(layers()), in_ddp(layers())
optimizers = [torch.optim.Adam(model.parameters()) for model in (generator, critic)]
for real in loader_of(torch.randn(2, 4)):
    real = real.to("cpu")
    made = generator(torch.randn(2, 4))
    for model, optimizer in zip((critic, generator), reversed(optimizers)):
        optimizer.zero_grad()
        (critic(made.detach()) - critic(real) if model is critic else -critic(made)).mean().backward()
        optimizer.step()
"""
ACCUMULATING = """
model = in_ddp(layers())
optimizer = torch.optim.AdamW(model.parameters())
for number, batch in enumerate(loader_of(torch.randn(2, 4), 4), start=1):
    with contextlib.nullcontext() if number % 4 == 0 else model.no_sync():
        model(batch).mean().backward()
    if number % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
LIGHTNING = """
from lightning.pytorch import LightningModule, Trainer

class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = layers()

    def training_step(self, batch):
        return self.layers(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
Trainer(accelerator="cpu", devices=1, max_epochs=1, default_root_dir=sys.argv[2], **quiet).fit(
    Module(), loader_of(torch.randn(2, 4))
)
"""
TRANSFORMERS = """
import transformers

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, x, labels=None):
        return {"loss": self.layers(x).square().mean()}

arguments = transformers.TrainingArguments(
    sys.argv[2], max_steps=62, per_device_train_batch_size=1, report_to=[], disable_tqdm=True, save_strategy="no",
    logging_strategy="no", use_cpu=True,
)
transformers.Trainer(Model(), arguments, train_dataset=Batches({"x": torch.randn(4), "labels": torch.zeros(1)}, 1)).train()
"""
TRAINERS = {"gan": GAN, "accumulating": ACCUMULATING, "lightning": LIGHTNING, "transformers": TRANSFORMERS}


def run_script(folder, text, *arguments, every, **variables):
    script = folder / "script.py"
    script.write_text(text)
    options = ["--no-summary", "-o", str(folder), "--every", str(every)]
    command = [sys.executable, "-m", "cep.run", *options, "--", sys.executable, str(script), *map(str, arguments)]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def calls_in_a_step(folder, trainer, every):
    if trainer in ("lightning", "transformers"):
        pytest.importorskip(trainer)
    run_script(folder, COUNTING + TRAINERS[trainer], folder / "calls", folder, every=every)
    return float((folder / "calls").read_text())


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_step_that_is_not_recorded_makes_few_calls(tmp_path, trainer):
    assert calls_in_a_step(tmp_path, trainer, every=10**9) <= MOST_CALLS[trainer]


@pytest.mark.parametrize("every", MOST_CALLS_RECORDED)
@pytest.mark.parametrize("trainer", MOST_CALLS_RECORDED[1])
def test_a_step_that_is_recorded_makes_no_more_calls_than_it_did(tmp_path, trainer, every):
    assert calls_in_a_step(tmp_path, trainer, every) <= MOST_CALLS_RECORDED[every][trainer] + OF_MEMORY


EPOCHS = """
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
watched = torch.utils.data.DataLoader(torch.randn(12, 4), batch_size=4)
for epoch in range(5):
    {new_loader}
    for batch in loader:
        model(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for batch in watched:
            model(batch)
    {late_optimizer}
print("done")
"""
NEW = "loader = torch.utils.data.DataLoader(torch.randn(28, 4), batch_size=4)"
OLD = "loader = watched if epoch else torch.utils.data.DataLoader(torch.randn(28, 4), batch_size=4)"
LATE = "optimizer = torch.optim.SGD(model.parameters(), 1e-3)"


@pytest.mark.parametrize(
    ("new_loader", "late_optimizer", "steps"),
    [(NEW, "", 35), (NEW, LATE, 35), (OLD, "", 19)],
    ids=["a new loader in each epoch", "and a new optimizer", "data of an evaluation become those of the training"],
)
def test_steps_between_recorded_ones_are_counted(files, tmp_path, new_loader, late_optimizer, steps):
    script = EPOCHS.format(new_loader=new_loader, late_optimizer=late_optimizer)
    run_script(tmp_path, script, every=4)
    recorded = [row["step"] for row in files.spans("training_step") if "error" not in row]
    assert recorded == list(range(1, steps, 4))
    for name in ("forward", "backward"):
        assert [row["step"] for row in files.spans(name)] == recorded, name


@pytest.mark.parametrize("window, expected", [((6, 99), [6, 10]), ((2, 7), [2, 6]), ((5, 5), [5])], ids=str)
def test_steps_are_recorded_in_the_window_only(files, tmp_path, window, expected):
    first, last = map(str, window)
    script = EPOCHS.format(new_loader=NEW, late_optimizer="").replace("range(5)", "range(2)")
    run_script(tmp_path, script, every=4, CEP_START_STEP=first, CEP_END_STEP=last)
    assert [row["step"] for row in files.spans("training_step") if "error" not in row] == expected


COMPILED = """
import torch
from torch._dynamo.utils import counters

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)


@torch.compile(backend="eager", fullgraph=True)
def loss_of(batch):
    return model(batch.to("cpu", non_blocking=True)).to(torch.float64).sum()


for batch in torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=2):
    loss_of(batch).backward()
    optimizer.step()
    optimizer.zero_grad()
print(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))
"""


def test_a_copy_inside_of_a_compiled_function_is_compiled_once(tmp_path, with_compiler):
    assert run_script(tmp_path, COMPILED, every=4).stdout.split() == ["1", "0"]
