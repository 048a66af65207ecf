# SPDX-License-Identifier: Apache-2.0
"""What instrumentation leaves in other people's models, optimizers and modules: nothing, and it never raises there."""

import copy
import io
import pickle
import subprocess
import sys
import warnings

import cep
import pytest

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep._life import patch  # noqa: E402
from cep.torch import hook_failures  # noqa: E402
from torch.optim.swa_utils import AveragedModel  # noqa: E402

pytest_plugins = ("training_jobs",)


def names(files):
    return [row["name"] for row in files.spans()]


# ---- Copies


def test_a_copy_of_an_instrumented_model_works_and_is_not_instrumented(files, profiler, trainer):
    with cep.torch.instrument(profiler, trainer.model, trainer.optimizer):
        for twin in (copy.deepcopy(trainer.model), AveragedModel(trainer.model)):
            assert torch.equal(twin(trainer.batch), twin(trainer.batch))
        copy.deepcopy(trainer.optimizer).step()
    assert names(files) == []


def test_a_saved_model_is_loaded_where_there_is_no_cep(profiler, tmp_path, trainer):
    with cep.torch.instrument(profiler, trainer.model, trainer.optimizer):
        torch.save(trainer.model, tmp_path / "model.pt")
        pickle.dump(trainer.model, io.BytesIO())
    load = f"""
import sys
sys.modules["cep"] = None
import torch
model = torch.load({str(tmp_path / "model.pt")!r}, weights_only=False)
assert model(torch.ones(3, {trainer.batch.shape[1]})) is not None
"""
    subprocess.run([sys.executable, "-c", load], check=True)


def test_a_ddp_model_with_timed_buckets_can_be_copied(job):
    job.run(1, """
import copy, pickle
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    prof.step(0)
    with cep.torch.instrument(prof, model, None):
        twins = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for twin in twins:
        torch.nn.init.zeros_(twin.module.weight)
        torch.nn.init.ones_(twin.module.bias)
        output = twin(torch.ones(2, 4))
        assert output.eq(1).all(), output  # its own, not the first model's
        output.sum().backward()
""")


class Interrupted(torch.nn.Module):
    """Its output is such that whoever looks for tensors in it is interrupted."""

    class Output:
        def values(self):
            raise KeyboardInterrupt

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self):
        return self.Output()


def test_what_ends_the_program_in_a_hook_reaches_the_trainer(profiler):
    model = Interrupted()
    with cep.torch.instrument(profiler, model, None):
        with pytest.raises(KeyboardInterrupt):
            model()
    assert hook_failures() == 0


def test_nothing_leaks_in_a_training_loop(job):
    job.run(1, """
import gc, sys
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)

def train(prof, steps):
    for _ in range(steps):
        prof.step()
        model(torch.ones(2, 4)).sum().backward()
        numbers = torch.ones(8)
        dist.all_reduce(numbers, async_op=True).wait()
        dist.all_gather([torch.empty(8)], numbers)
        dist.all_reduce(numbers, async_op=True)  # nobody waits for it
        optimizer.step()
        optimizer.zero_grad()
    gc.collect()
    return sys.getallocatedblocks()

with cep.Profiler(folder, record_every_n_steps=2) as prof, cep.torch.instrument(prof, model, optimizer):
    before = train(prof, 100)
    grown = train(prof, 1000) - before
    assert grown < 300, grown
""")


# ---- Hooks come off


def hooks_of(model):
    """The hooks of a model, and what stands in the place of its compiled call."""
    replaced = vars(model).get("_compiled_call_impl")
    return [*model._forward_pre_hooks.values(), *model._forward_hooks.values(), *([replaced] if replaced else [])]


def test_a_step_that_is_not_recorded_has_no_hooks(files, tmp_path, trainer):
    before = trainer.optimizer.step
    with cep.Profiler(tmp_path, record_every_n_steps=2) as profiler:
        with cep.torch.instrument(profiler, trainer.model, trainer.optimizer):
            for step in range(4):
                profiler.step(step)
                assert bool(hooks_of(trainer.model)) == (step % 2 == 0)
                assert trainer.optimizer.step == before
                trainer.train()
        assert hooks_of(trainer.model) == []
    assert [(row["step"], row["name"]) for row in files.spans()] == [
        (step, name) for step in (0, 2) for name in ("forward", "backward", "optimizer")
    ]


def test_a_closed_profiler_has_left_the_model_and_the_collectives(tmp_path, trainer, job):
    step = trainer.optimizer.step
    profiler = cep.Profiler(tmp_path / "one")
    profiler.step(0)
    cep.torch.instrument(profiler, trainer.model, trainer.optimizer)
    assert hooks_of(trainer.model) != []
    profiler.close()
    assert hooks_of(trainer.model) == [] and trainer.optimizer.step == step and profiler._listeners == ()
    job.run(1, """
import inspect
inner = inspect.unwrap(dist.all_reduce)
original, prof = inner.__code__, cep.Profiler(folder + "/job")
prof.step(0)
cep.torch.instrument_collectives(prof)
assert inner.__code__ is not original
prof.close()
assert inner.__code__ is original
""")


class ReturnsItsParameter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, batch):
        return self.weight


def test_a_model_that_returns_a_parameter_gathers_no_hooks(files, profiler, make_trainer):
    trainer = make_trainer(model=ReturnsItsParameter())
    with cep.torch.instrument(profiler, trainer.model, trainer.optimizer):
        for _ in range(5):
            trainer.model(trainer.batch).sum().backward()
            trainer.model(trainer.batch)  # without a backward
            trainer.optimizer.step()
        assert len(trainer.model.weight._backward_hooks) <= 1
    assert not trainer.model.weight._backward_hooks
    assert len(files.spans("backward")) == 5


class HooksItsOutput(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, batch):
        output = self.weight * batch
        output.register_hook(lambda gradient: gradient * 3)
        return output


@pytest.mark.parametrize("is_recorded", [False, True])
def test_hooks_of_others_on_an_output_change_its_gradient_and_can_be_removed(files, tmp_path, make_trainer, is_recorded):
    trainer = make_trainer(model=HooksItsOutput())
    with cep.Profiler(tmp_path, start_step=0 if is_recorded else 9) as profiler:
        profiler.step(0)
        with cep.torch.instrument(profiler, trainer.model, trainer.optimizer):
            output = trainer.model(torch.ones(4))
            output.register_hook(lambda gradient: gradient * 5)
            output.register_hook(lambda gradient: gradient * 7).remove()
            plain = trainer.model.weight * 2
            plain.register_hook(lambda gradient: gradient * 11)
            (output + plain).sum().backward()
            assert trainer.model.weight.grad.tolist() == [15 + 22] * 4
    assert [row["name"] for row in files.spans()] == ["forward", "backward"] * is_recorded


def test_a_failed_call_leaves_nothing_behind(profiler, trainer, job):
    step = trainer.optimizer.step
    with pytest.raises(cep.OptionError):
        cep.torch.instrument(profiler, trainer.model, trainer.optimizer, prefix="\n")
    assert hooks_of(trainer.model) == [] and trainer.optimizer.step == step
    job.run(1, """
import inspect
inner = inspect.unwrap(dist.all_reduce)
original, model = inner.__code__, torch.nn.Linear(2, 2)
with cep.Profiler(folder + "/job") as prof:
    prof.step(0)
    for optimizers, prefix in (([3], ""), (None, "\\n")):
        try:
            cep.torch.instrument(prof, model, optimizers, prefix=prefix)
        except Exception:
            assert inner.__code__ is original and not model._forward_hooks
        else:
            raise AssertionError("no error")
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2)]
    cep.torch.instrument(prof, model, (optimizer for optimizer in optimizers)).remove()
""")


def test_collectives_are_restored_though_a_profiler_was_closed_without_removal(job):
    job.run(1, """
import inspect
inner = inspect.unwrap(dist.all_reduce)
original = inner.__code__
first, second = cep.Profiler(folder + "/1"), cep.Profiler(folder + "/2")
first.step(0)
cep.torch.instrument_collectives(first)
assert inner.__code__ is not original
first.close()
second.step(0)
held = cep.torch.instrument_collectives(second)
assert inner.__code__ is not original
held.remove()
assert inner.__code__ is original
""")


class Tool:
    def start(self):
        return ["original"]


@pytest.mark.parametrize("order", ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)))
def test_patches_come_off_in_any_order(order):
    tool = Tool()
    removals = [patch(tool, "start", lambda original, name=name: lambda: [name, *original()]) for name in ("a", "b", "c")]
    assert tool.start() == ["c", "b", "a", "original"]
    removed = set()
    for index in order:
        removals[index]()
        removed.add("abc"[index])
        assert tool.start() == [name for name in ("c", "b", "a") if name not in removed] + ["original"]
    assert "start" not in vars(tool)


def test_a_patch_leaves_what_others_have_put_on():
    tool = Tool()
    tool.start = lambda: ["theirs before"]
    remove = patch(tool, "start", lambda original: lambda: ["ours", *original()])
    ours = tool.start
    tool.start = lambda: ["theirs after", *ours()]
    remove()
    assert tool.start() == ["theirs after", "theirs before"]


# ---- Phases


def test_an_optimizer_step_that_raised_is_marked_and_ends_with_the_next_phase(files, profiler, trainer):
    class Fails(torch.optim.SGD):
        fails = True

        def step(self, closure=None):
            if self.fails:
                raise FloatingPointError("overflow")
            return super().step()

    optimizer = Fails(trainer.model.parameters(), lr=0.1)
    with cep.torch.instrument(profiler, trainer.model, optimizer):
        with pytest.raises(FloatingPointError):
            optimizer.step()
        optimizer.fails = False
        optimizer.step()
    failed, good = files.spans("optimizer")
    assert failed["error"] in ("FloatingPointError", "NotFinished") and "error" not in good


def test_a_backward_through_two_models_is_one_row(files, profiler, make_trainer):
    first, second = make_trainer(), make_trainer()
    with cep.torch.instrument(profiler, first.model, first.optimizer):
        with cep.torch.instrument(profiler, second.model, second.optimizer):
            (first.model(first.batch).sum() + second.model(second.batch).sum()).backward()
    assert sorted(names(files)) == ["backward", "forward", "forward"]


# ---- Nothing raises


class Awkward:
    def values(self):
        raise ValueError("no values")


class ReturnsAwkward(torch.nn.Module):
    def forward(self, batch):
        return Awkward()


def test_a_hook_that_fails_is_counted_and_does_not_raise(files, profiler):
    model, before = ReturnsAwkward(), hook_failures()
    with cep.torch.instrument(profiler, model, None), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert isinstance(model(torch.ones(1)), Awkward)
    profiler.close()
    assert hook_failures() == before + 3
    assert names(files) == ["forward"] * 3


def test_a_collective_without_room_for_its_region_runs_all_the_same(job):
    job.run(1, """
warnings.simplefilter("ignore")
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    prof.step(0)
    try:
        for number in range(10_000):
            prof.region(f"region {number}")
    except cep.Error:
        pass
    with cep.torch.instrument_collectives(prof):
        one = torch.ones(1)
        dist.all_reduce(one)
        dist.all_reduce(one, async_op=True).wait()
""")
