# SPDX-License-Identifier: Apache-2.0
"""The integrations with stand-ins that make the frameworks' calls in order, for machines without the frameworks."""

import sys
from pathlib import Path

import pytest

import cep

pytest.importorskip("torch")

from framework_rows import FRAMEWORKS, problems_of  # noqa: E402  # after the check that there is torch

STAND_INS = Path(__file__).parent / "stand_ins"

COMMON = """
import torch
from torch.utils.data import DataLoader
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
loader = DataLoader(torch.randn(256, 32), batch_size=4)
other_loader = DataLoader(torch.randn(8, 32), batch_size=4)
"""


def forget_frameworks():
    for name in list(sys.modules):
        if name.split(".")[0] in FRAMEWORKS or name.startswith("cep.integrations."):
            del sys.modules[name]


@pytest.fixture
def run_script(tmp_path, monkeypatch):
    """Runs a script with the stand-ins as the frameworks."""
    monkeypatch.syspath_prepend(str(STAND_INS))
    forget_frameworks()
    yield lambda text: exec(COMMON + text, {"cep": cep, "output": str(tmp_path), "__name__": "script"})
    forget_frameworks()


ACCELERATE = """
import cep.integrations.accelerate
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps={batches})
prepared, optimizer, batches, other_batches = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=1e-3), loader, other_loader)
original = optimizer.step.__func__
with cep.Profiler(output, record_every_n_steps={stride}, enable={enable}) as prof:
    with cep.integrations.accelerate.instrument(prof, accelerator, prepared, optimizer, batches, first_step={first}):
        for batch in batches:
            with accelerator.accumulate(prepared):
                accelerator.backward(prepared(batch).square().mean())
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.batches == {steps} * {batches}:
                break
            prepared.eval()
            with torch.no_grad():
                for other in other_batches:
                    prepared(other)
            prepared.train()
from accelerate import data_loader
assert not hasattr(data_loader.send_to_device, "__wrapped__")
assert optimizer.step.__func__ is original
assert "__iter__" not in vars(loader)
assert not prepared._forward_pre_hooks
"""

TRANSFORMERS = """
from cep.integrations.transformers import CepCallback, instrument
from transformers import Trainer
trainer = Trainer(model, output, loader, other_loader, max_steps={steps}, accumulate={batches})
callback = instrument(trainer, record_every_n_steps={stride}, enable={enable})
trainer.train(first_step={first})
assert not callback.profiler.enabled, "closed at the end"
assert not model._forward_pre_hooks and "__iter__" not in vars(loader)
"""

LIGHTNING = """
from cep.integrations.lightning import CepCallback
from lightning.pytorch import LightningModule, Trainer
class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = model
    def training_step(self, batch):
        return self.inner(batch).square().mean()
callback = CepCallback(record_every_n_steps={stride}, enable={enable})
trainer = Trainer(output, max_steps={steps}, accumulate={batches}, callbacks=[callback], validate=True)
trainer.global_step = {first}
trainer.fit(Module(), loader)
assert not callback.profiler.enabled, "closed at the end"
assert not vars(trainer.profiler)
"""

LOOPS = pytest.mark.parametrize("loop", [ACCELERATE, TRANSFORMERS, LIGHTNING], ids=["accelerate", "transformers", "lightning"])


def filled(loop, *, steps=9, batches=1, stride=1, first=0, enable=True):
    return loop.format(steps=steps, batches=batches, stride=stride, first=first, enable=enable)


@LOOPS
def test_every_phase_of_every_step(run_script, tmp_path, loop):
    run_script(filled(loop))
    assert problems_of(tmp_path, ranks=1, steps=range(9)) == []


@LOOPS
def test_only_sampled_steps_are_recorded(run_script, tmp_path, loop):
    run_script(filled(loop, stride=4))
    assert problems_of(tmp_path, ranks=1, steps=[0, 4, 8]) == []


@LOOPS
def test_gradient_accumulation_is_one_step_of_several_batches(run_script, tmp_path, loop):
    run_script(filled(loop, steps=5, batches=3))
    assert problems_of(tmp_path, ranks=1, steps=range(5), batches=3) == []


@LOOPS
def test_a_resumed_training_goes_on_with_its_steps(run_script, tmp_path, files, loop):
    run_script(filled(loop, first=100))
    assert sorted({row["step"] for row in files.spans("training_step")}) == list(range(100, 109))


@LOOPS
def test_off_changes_nothing(run_script, tmp_path, loop):
    run_script(filled(loop, enable=False))
    assert not (tmp_path / "cuda_event_profiler").exists()


def test_an_instrumentation_that_is_refused_leaves_nothing_behind(run_script, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("refused")

    monkeypatch.setattr(cep.torch, "instrument", refuse)
    before, _, after = filled(ACCELERATE).partition("    with cep.integrations")
    attempt = """    try:
        cep.integrations.accelerate.instrument(prof, accelerator, prepared, optimizer, batches)
    except RuntimeError:
        pass
    else:
        raise AssertionError("not refused")
"""
    run_script(before + attempt + after[after.index("from accelerate import data_loader") :])


def test_a_step_that_the_forward_begins_has_its_forward(run_script, files):
    run_script(filled(ACCELERATE, stride=4).replace("prepared, optimizer, batches, first", "prepared, optimizer, first"))
    found = [(row["step"], row["name"]) for row in files.spans() if row["name"] in ("forward", "backward", "optimizer")]
    assert found == [(step, name) for step in (0, 4, 8) for name in ("forward", "backward", "optimizer")]


def test_a_schedulers_wrapper_of_the_prepared_optimizer_stays(run_script, tmp_path):
    run_script(
        filled(ACCELERATE)
        .replace("original = ", "torch.optim.lr_scheduler.StepLR(optimizer, 1)\nwrapper = vars(optimizer)['step']\n#")
        .replace("assert optimizer.step.__func__ is original", "assert vars(optimizer)['step'] is wrapper")
    )
    assert problems_of(tmp_path, ranks=1, steps=range(9)) == []


@pytest.mark.parametrize("loop", [TRANSFORMERS, LIGHTNING], ids=["transformers", "lightning"])
def test_evaluations_and_checkpoints_are_marks_of_the_step_before(run_script, tmp_path, files, loop):
    run_script(filled(loop, steps=3))
    marks = [(row["name"], row["step"]) for row in files.typed("mark")]
    assert marks == [(name, step) for step in range(3) for name in ("evaluation", "checkpoint")]


def test_losses_are_counters_and_nan_is_left_out(run_script, tmp_path, files):
    run_script(filled(TRANSFORMERS, steps=3))
    assert [(row["name"], row["step"]) for row in files.typed("counter")] == [("loss", step) for step in range(3)]


def test_a_callback_without_its_trainer(run_script, tmp_path):
    run_script(
        filled(TRANSFORMERS).replace("callback = instrument(trainer, ", "callback = CepCallback(").replace(
            "trainer.train(", "trainer.add_callback(callback)\ntrainer.train("
        )
    )
    assert problems_of(tmp_path, ranks=1, steps=range(9)) == []


def test_a_profiler_of_the_callers_is_left_open(run_script, tmp_path):
    run_script(
        "from cep.integrations.transformers import instrument\n"
        "from transformers import Trainer\n"
        "prof = cep.Profiler(output, record_every_n_steps=1)\n"
        "trainer = Trainer(model, 'elsewhere', loader, max_steps=4)\n"
        "instrument(trainer, prof)\n"
        "trainer.train()\n"
        "assert prof.enabled\n"
        "prof.close()\n"
    )
    assert problems_of(tmp_path, ranks=1, steps=range(4)) == []


def test_options_beside_a_profiler_are_a_mistake(run_script):
    with pytest.raises(TypeError, match="record_every_n_steps"):
        run_script(
            "from cep.integrations.transformers import CepCallback\n"
            "CepCallback(cep.Profiler(output), record_every_n_steps=1)\n"
        )
