# SPDX-License-Identifier: Apache-2.0
"""Modes in which PyTorch runs a training step, and ways in which a model is instrumented, for test_modes.py and for
tests/gpu/instrument_modes.py, which moves them to a GPU."""

import contextlib
import sys
import threading
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

import cep
import cep.torch

STEPS, STRIDE = 4, 2
RECORDED = range(0, STEPS, STRIDE)
DEVICE = torch.device("cpu")
STAND_INS = Path(__file__).resolve().parents[1] / "integrations" / "stand_ins"


class Net(nn.Module):
    use_reentrant = None  # of activation checkpointing; None: without

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, batch):
        for layer in self.layers:
            if self.use_reentrant is None:
                batch = torch.relu(layer(batch))
            else:
                batch = checkpoint(layer, batch, use_reentrant=self.use_reentrant)
        return batch


class Reentrant(Net):
    use_reentrant = True


class NotReentrant(Net):
    use_reentrant = False


class CallsItself(Net):
    def forward(self, batch, depth=2):
        return super().forward(batch) if depth == 0 else self(batch, depth - 1)


def new_batch():
    return torch.ones(2, 8, device=DEVICE, requires_grad=True)


# ---- Modes. Each makes a function that runs one step.


def updating(find_gradients):
    """The mode whose steps find the gradients in this way, and move the weights by them."""

    def mode(model, optimizer, profiler):
        def step():
            find_gradients(model)
            optimizer.step()
            optimizer.zero_grad()

        return step

    return mode


@updating
def plain(model):
    model(new_batch()).sum().backward()


@updating
def accumulated(model):
    with model.no_sync() if hasattr(model, "no_sync") else contextlib.nullcontext():
        model(new_batch()).sum().backward()
    model(new_batch()).sum().backward()


@updating
def retained(model):
    output = model(new_batch())
    output.sum().backward(retain_graph=True)
    output.mean().backward()


@updating
def both_losses_after_both_forwards(model):
    losses = [model(new_batch()).sum(), model(new_batch()).mean()]
    for loss in losses:
        loss.backward()


def gradients_by_autograd_grad(model, optimizer, profiler):
    def step():
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(model(new_batch()).sum(), parameters)
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        optimizer.step()

    return step


def with_closure(model, optimizer, profiler):
    def closure():
        optimizer.zero_grad()
        loss = model(new_batch()).sum()
        loss.backward()
        return loss

    return lambda: optimizer.step(closure)


def scaled(model, optimizer, profiler):
    scaler = torch.cuda.amp.GradScaler(enabled=False)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(new_batch()).float().sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return step


def inferred(model, optimizer, profiler):
    def step():
        with torch.inference_mode():
            model(torch.ones(2, 8, device=DEVICE))

    return step


def evaluated_between(model, optimizer, profiler):
    train = plain(model, optimizer, profiler)

    def step():
        train()
        model.eval()
        with torch.no_grad():
            model(torch.ones(2, 8))
        model.train()

    return step


@updating
def in_threads(model):
    threads = [threading.Thread(target=lambda: model(new_batch()).sum().backward()) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()


def from_persistent_workers(model, optimizer, profiler):
    loader = DataLoader(torch.ones(4, 8), batch_size=2, num_workers=1, persistent_workers=True)

    def step():
        for batch in cep.torch.iterate(profiler, loader):
            model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def never_stepped(model, optimizer, profiler):
    def step():
        model(new_batch())  # its output is dropped

    return step


MODES = {
    "plain": (Net, plain),
    "accumulation, no_sync": (Net, accumulated),
    "several backwards, retain_graph": (Net, retained),
    "several forwards first": (Net, both_losses_after_both_forwards),
    "autograd.grad": (Net, gradients_by_autograd_grad),
    "closure": (Net, with_closure),
    "autocast, GradScaler disabled": (Net, scaled),
    "inference_mode": (Net, inferred),
    "evaluation between steps": (Net, evaluated_between),
    "two threads": (Net, in_threads),
    "persistent workers": (Net, from_persistent_workers),
    "a forward without a backward": (Net, never_stepped),
    "checkpoint, reentrant": (Reentrant, plain),
    "checkpoint, not reentrant": (NotReentrant, plain),
    "a module that calls itself": (CallsItself, plain),
}


# ---- Ways. Each instruments a model and runs its steps.


def of_a_module(model, mode, profiler):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with cep.torch.instrument(profiler, model, optimizer):
        run_step = mode(model, optimizer, profiler)
        for step in range(STEPS):
            profiler.step(step)
            run_step()


def of_ddp(model, mode, profiler):
    of_a_module(DistributedDataParallel(model), mode, profiler)


def of_accelerate(model, mode, profiler):
    sys.path.insert(0, str(STAND_INS))
    import cep.integrations.accelerate
    from accelerate import Accelerator

    accelerator = Accelerator()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    with cep.integrations.accelerate.instrument(profiler, accelerator, model, optimizer):
        run_step = mode(model, optimizer, profiler)
        for _ in range(STEPS):
            run_step()


WAYS = {
    "module": of_a_module,
    "DDP": of_ddp,
    "Accelerate": of_accelerate,
}


def train(mode, way, folder, enable, wait_for_ends):
    """The weights after a training."""
    torch.manual_seed(0)
    make, run = MODES[mode]
    model = make()
    with cep.Profiler(folder, record_every_n_steps=STRIDE, enable=enable) as profiler:
        WAYS[way](model, run, profiler)
        wait_for_ends(profiler)
    return [parameter.detach() for parameter in model.parameters()]


def train_in_all_ways(folder, mode, ways, wait_for_ends):
    """Trains without cep and with it in each way, into folders of the ways' names, and compares the weights."""
    for way in ways:
        plain_weights = train(mode, way, f"{folder}/{way}", enable=False, wait_for_ends=wait_for_ends)
        weights = train(mode, way, f"{folder}/{way}", enable=True, wait_for_ends=wait_for_ends)
        assert all(map(torch.equal, plain_weights, weights)), f"{way}: other weights than without cep"
    assert cep.torch.hook_failures() == 0
