# SPDX-License-Identifier: Apache-2.0
"""instrument(): which phases of a training loop become rows."""

import gc
import sys
import types
import warnings
import weakref
from collections import Counter, OrderedDict

import cep
import pytest
from conftest import end_ns

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep.torch._instrument import _has_two_steps, follow_device_of  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

pytest_plugins = ("training_jobs",)

PHASES = ["forward", "backward", "optimizer"]


def names(files, rank=0):
    return [row["name"] for row in files.spans(rank=rank)]


def instrumented(trainer, profiler, **options):
    return cep.torch.instrument(profiler, trainer.model, trainer.optimizer, **options)


def test_a_step_is_forward_backward_and_optimizer_in_this_order(files, profiler, trainer):
    with instrumented(trainer, profiler):
        trainer.train()
    rows = sorted(files.spans(), key=lambda row: row["start_ns"])
    assert [row["name"] for row in rows] == PHASES
    assert {row["kind"] for row in rows} == {"compute"}
    assert all(end_ns(before) <= after["start_ns"] for before, after in zip(rows, rows[1:]))


def test_hooks_run_no_python_on_steps_that_are_not_recorded(tmp_path, trainer):
    called = []

    def note(frame, event, argument):
        if event == "call" and "/cep/" in frame.f_code.co_filename:
            called.append(frame.f_code.co_name)

    with cep.Profiler(tmp_path, record_every_n_steps=2, backend="host") as profiler:
        with instrumented(trainer, profiler, memory=False):
            for step in (0, 1):
                profiler.step(step)
                called.clear()
                sys.setprofile(note)
                trainer.model(trainer.batch)
                sys.setprofile(None)
                assert bool(called) == (step == 0), called


def test_each_of_several_optimizers_is_timed(files, profiler, trainer):
    first, second = (torch.optim.SGD(layer.parameters(), lr=0.1) for layer in (trainer.model[0], trainer.model[2]))
    with cep.torch.instrument(profiler, trainer.model, [first, second]):
        trainer.loss().backward()
        first.step()
        second.step()
    assert [row["seq"] for row in files.spans("optimizer")] == [0, 1]


def test_a_checkpointed_model_itself_is_not_forward_twice(files, profiler, trainer):
    with instrumented(trainer, profiler):
        checkpoint(trainer.model, trainer.batch, use_reentrant=False).pow(2).mean().backward()
    assert sorted(names(files)) == ["backward", "forward"]


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_model_that_is_checkpointed_late_is_not_forward_twice(files, profiler, trainer, reentrant):
    batch = trainer.batch.requires_grad_()
    with instrumented(trainer, profiler):
        for _ in range(20):
            trainer.model(batch)
        checkpoint(trainer.model, batch, use_reentrant=reentrant).pow(2).mean().backward()
    found = Counter(names(files))
    assert (found["forward"], found["forward_no_grad"]) == ((20, 1) if reentrant else (21, 0))


class Failing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.fails = True

    def forward(self, batch):
        if self.fails:
            raise KeyError("missing")
        return self.weight * batch


def test_a_forward_that_raises_is_marked_and_the_next_one_is_not(files, profiler, make_trainer):
    trainer = make_trainer(model=Failing())
    with instrumented(trainer, profiler):
        with pytest.raises(KeyError):
            trainer.train()
        trainer.model.fails = False
        trainer.train()
    failed, good = files.spans("forward")
    assert failed["error"] in ("KeyError", "NotFinished") and "error" not in good
    assert sorted(names(files)) == sorted(["forward", *PHASES])


class FailingGradient(torch.autograd.Function):
    fails = True

    @staticmethod
    def forward(context, tensor):
        return tensor.clone()

    @staticmethod
    def backward(context, gradient):
        if FailingGradient.fails:
            raise ArithmeticError("no gradient")
        return gradient


def test_a_backward_that_raises_is_marked_and_the_next_one_is_not(files, profiler, trainer):
    with instrumented(trainer, profiler):
        for fails in (True, False):
            profiler.step(0 if fails else 1)
            FailingGradient.fails = fails
            loss = trainer.model(FailingGradient.apply(trainer.batch.requires_grad_())).sum()
            if fails:
                with pytest.raises(ArithmeticError):
                    loss.backward()
            else:
                loss.backward()
                trainer.optimizer.step()
    failed, good = files.spans("backward")
    assert failed["error"] == "NotFinished" and failed["step"] == 0
    assert "error" not in good and good["step"] == 1


def test_backward_lasts_until_callbacks_that_others_queued_are_done(files, profiler, trainer):
    """DDP and FSDP wait for their collectives in callbacks that they queue in the backward."""
    queue = torch.autograd.Variable._execution_engine.queue_callback
    region = profiler.region("waiting_for_collectives")

    def wait():
        with region:
            pass

    with instrumented(trainer, profiler):
        loss = trainer.loss()
        trainer.model[0].weight.register_hook(lambda gradient: queue(wait))
        loss.backward()
    backward, waiting = files.span("backward"), files.span("waiting_for_collectives")
    assert backward["start_ns"] <= waiting["start_ns"] and end_ns(waiting) <= end_ns(backward)


def test_a_closures_forward_and_backward_are_not_optimizer_time(files, profiler, trainer):
    def closure():
        trainer.optimizer.zero_grad()
        loss = trainer.loss()
        loss.backward()
        return loss

    with instrumented(trainer, profiler):
        assert trainer.optimizer.step(closure).requires_grad
        trainer.optimizer.step(closure=closure)
    rows = sorted(files.spans(), key=lambda row: row["start_ns"])
    assert [row["name"] for row in rows] == PHASES * 2
    assert all(end_ns(before) <= after["start_ns"] for before, after in zip(rows, rows[1:]))


def test_a_learning_rate_scheduler_made_before_or_after_still_works(files, profiler, trainer, recwarn):
    before = torch.optim.lr_scheduler.StepLR(trainer.optimizer, 1, gamma=0.5)
    with instrumented(trainer, profiler):
        after = torch.optim.lr_scheduler.StepLR(trainer.optimizer, 1, gamma=0.5)
        trainer.train()
        before.step()
        after.step()
    profiler.close()
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.025)
    assert not [one for one in recwarn if "lr_scheduler" in str(one.message)]
    assert len(files.spans("optimizer")) == 1


def test_a_closure_that_raises_leaves_no_optimizer_time(files, profiler, trainer):
    def closure():
        raise OverflowError("loss")

    with instrumented(trainer, profiler):
        with pytest.raises(OverflowError):
            trainer.optimizer.step(closure)
        trainer.train()
    assert [row.get("error") for row in files.spans("optimizer")] == [None]


def test_the_wrappers_of_frameworks_are_seen_through(files, profiler, trainer):
    class Wrapper:
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self):
            self.optimizer.step()

    wrapper = Wrapper(trainer.optimizer)
    with cep.torch.instrument(profiler, trainer.model, wrapper):
        wrapper.step()
    assert names(files) == ["optimizer"]


class HookedOptimizer:
    """An optimizer with the hooks that PyTorch's have: hooks get step()'s arguments, itself first, and one before may return
    others."""

    def __init__(self):
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = OrderedDict(), OrderedDict()

    def step(self, *args, **kwargs):
        args = (self, *args)
        for hook in self._optimizer_step_pre_hooks.values():
            args, kwargs = hook(self, args, kwargs) or (args, kwargs)
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        result = closure() if closure else None
        for hook in self._optimizer_step_post_hooks.values():
            hook(self, args, kwargs)
        return result


def test_an_optimizers_own_hooks_are_used_where_it_has_them(files, profiler, trainer):
    optimizer = HookedOptimizer()

    def closure():
        loss = trainer.loss()
        loss.backward()
        return "loss"

    with cep.torch.instrument(profiler, trainer.model, optimizer):
        assert len(optimizer._optimizer_step_pre_hooks) == len(optimizer._optimizer_step_post_hooks) == 1
        assert "step" not in vars(optimizer)
        optimizer.step()
        assert optimizer.step(closure) == "loss" == optimizer.step(closure=closure)
    profiler.close()
    assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks
    assert names(files) == ["optimizer", *PHASES, *PHASES]


FORMS = {
    "mapping": lambda tensor: {"logits": tensor},
    "nested": lambda tensor: (None, [tensor]),
    "tensor": lambda tensor: tensor,
}


@pytest.mark.parametrize("pack", FORMS.values(), ids=FORMS)
def test_the_backward_is_found_in_any_form_of_output(files, profiler, trainer, pack):
    class Packing(torch.nn.Module):
        def forward(self, batch):
            self.output = pack(trainer.model(batch))
            return self.output

    packing = Packing()
    with cep.torch.instrument(profiler, packing, None):
        packing(trainer.batch)
        tensors = list(cep.torch._instrument.tensors_in(packing.output))
        tensors[0].sum().backward()
    assert names(files) == ["forward", "backward"]


@pytest.mark.parametrize("has_hook_before", [False, True])
def test_a_trainers_own_hooks_of_an_output_run_and_are_removed(files, profiler, trainer, has_hook_before):
    seen, handles = [], []
    hook = lambda kind: lambda gradient: seen.append(kind)  # noqa: E731
    if has_hook_before:
        trainer.model.register_forward_hook(lambda *given: handles.append(given[-1].register_hook(hook("first"))))
    with instrumented(trainer, profiler):
        output = trainer.model(torch.ones(2, 4))
        handle, other = output.register_hook(hook("removed")), output.register_hook(hook("last"))
        handle.remove()
        output.sum().backward()
    assert seen == ["first"] * has_hook_before + ["last"] and names(files) == ["forward", "backward"]


def test_the_graph_dies_when_the_trainer_lets_go_of_it(profiler, trainer):
    with instrumented(trainer, profiler):
        output = trainer.model(trainer.batch)
        output.sum().backward()
        node = weakref.ref(output)
        gc.disable()
        try:
            del output
            assert node() is None
        finally:
            gc.enable()


def test_removing_leaves_nothing_behind(files, profiler, trainer):
    step = trainer.optimizer.step
    handle = instrumented(trainer, profiler)
    handle.remove()
    handle.remove()
    trainer.train()
    assert files.spans() == []
    assert not trainer.model._forward_hooks and not trainer.model._forward_pre_hooks
    assert trainer.optimizer.step == step


def test_nothing_is_hooked_where_the_profiler_is_off(tmp_path, trainer):
    with cep.Profiler(tmp_path, enable=False) as profiler, instrumented(trainer, profiler):
        assert not trainer.model._forward_hooks and not trainer.model._forward_pre_hooks


def test_a_prefix_tells_models_apart(files, profiler, make_trainer):
    generator, critic = make_trainer(), make_trainer()
    with instrumented(generator, profiler, prefix="generator."), instrumented(critic, profiler, prefix="critic."):
        generator.train()
        critic.train()
    assert names(files) == [f"{model}.{phase}" for model in ("generator", "critic") for phase in PHASES]


def test_memory_counters_that_fail_are_a_warning_and_the_step_goes_on(files, profiler, trainer, monkeypatch):
    def fail(_):
        raise OSError("no statistics")

    monkeypatch.setattr(cep.torch._memory, "record_memory", fail)
    monkeypatch.setattr(cep.torch._pytorch, "_failures", 0)  # as in a process of its own
    with instrumented(trainer, profiler):
        with pytest.warns(RuntimeWarning, match="no statistics"):
            trainer.train()
        trainer.train()
    assert names(files) == PHASES * 2


class ModelOnGpu:
    """As much of a model on a GPU as a machine without one can have."""

    def __init__(self, device):
        self._parameter = types.SimpleNamespace(is_cuda=True, device=torch.device("cuda", device))

    def parameters(self):
        return iter([self._parameter])


@pytest.fixture
def device_calls(profiler, monkeypatch):
    """What a profiler is told of devices, while GPU 0 is current."""
    told = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", None, raising=False)
    monkeypatch.setattr(type(profiler), "_set_stream_source", lambda _, source: told.append("stream"), raising=False)
    monkeypatch.setattr(type(profiler), "_set_device", lambda _, exchange, device: told.append(device), raising=False)
    return told


@pytest.mark.parametrize("device, told", [(0, []), (1, ["stream", 1])])
def test_spans_are_on_the_gpu_of_the_first_model(profiler, device_calls, device, told):
    follow_device_of(ModelOnGpu(device), profiler)
    follow_device_of(ModelOnGpu(device), profiler)
    assert device_calls == told
    with pytest.warns(RuntimeWarning, match=f"a model is on GPU 2, .* all spans are timed on GPU {device}"):
        follow_device_of(ModelOnGpu(2), profiler)
    assert device_calls == told
    assert profiler._device == device


def test_the_profiler_comes_first_or_by_name_and_where_it_stood_once_with_a_warning(files, profiler, trainer):
    model, optimizer = trainer.model, trainer.optimizer
    for given, named in [((profiler, model, optimizer), {}), ((model, optimizer), {"profiler": profiler})]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cep.torch.instrument(*given, **named).remove()
    with pytest.warns(DeprecationWarning, match="first argument"):
        handle = cep.torch.instrument(model, optimizer, profiler)
    with handle:
        trainer.train()
    assert names(files) == PHASES


def test_only_an_optimizer_with_two_steps_of_its_own_can_be_inside_of_itself():
    class Outer(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    for kind, may_nest in ((torch.optim.Adam, False), (torch.optim.AdamW, False), (Outer, True)):
        kind([torch.nn.Parameter(torch.ones(1))], lr=0.1)  # PyTorch puts its hooks around the step() of the class
        assert _has_two_steps(kind) is may_nest, kind
