# SPDX-License-Identifier: Apache-2.0
"""Replaces Lightning: a Trainer that calls its profiler and its callbacks in the order of the real one."""

import contextlib

import torch


class Callback:
    def __getattr__(self, name):
        if name.startswith("on_"):
            return lambda *args: None
        raise AttributeError(name)


class Profiler:
    def start(self, action_name):
        pass

    def stop(self, action_name):
        pass

    @contextlib.contextmanager
    def profile(self, action_name):
        try:
            self.start(action_name)
            yield action_name
        finally:
            self.stop(action_name)


class Strategy:
    def __init__(self, module):
        self.model = module

    def batch_to_device(self, batch):
        return batch.to("cpu")

    def training_step(self, batch):
        return self.model.training_step(batch)


class Trainer:
    def __init__(self, output_dir, max_steps, accumulate=1, callbacks=(), validate=False):
        self.default_root_dir = output_dir
        self.max_steps, self.accumulate, self.validate = max_steps, accumulate, validate
        self.callbacks = list(callbacks)
        self.profiler = Profiler()
        self.global_step = 0
        self.training = self.sanity_checking = False

    def tell(self, event, *others):
        with self.profiler.profile(f"[Callback]Some.on_{event}"):
            for callback in self.callbacks:
                getattr(callback, f"on_{event}")(self, self.lightning_module, *others)

    def call(self, hook, *args):
        with self.profiler.profile(f"[Strategy]Strategy.{hook}"):
            return getattr(self.strategy, hook)(*args)

    def fetch(self, iterator, action):
        with self.profiler.profile(action):
            return next(iterator)

    def fit(self, module, loader):
        self.lightning_module = module
        module.automatic_optimization = True
        self.strategy = Strategy(module)
        self.optimizers = [torch.optim.SGD(module.parameters(), lr=1e-3)]
        self.sanity_checking = True
        self.evaluate(loader)
        self.sanity_checking, self.training = False, True
        iterator = iter(loader)
        self.tell("train_start")
        for index in range(self.max_steps * self.accumulate):
            self.train_batch(iterator, index)
        self.tell("train_end")

    def train_batch(self, iterator, index):
        batch = self.call("batch_to_device", self.fetch(iterator, "[_TrainingEpochLoop].train_dataloader_next"))
        self.tell("train_batch_start", batch, index)
        if (index + 1) % self.accumulate:
            self.closure(batch)
        else:
            self.optimizers[0].step(closure=lambda: self.closure(batch))
            self.optimizers[0].zero_grad()
            self.global_step += 1
        self.tell("train_batch_end", None, batch, index)
        if self.validate:
            self.training = False
            self.evaluate([batch])
            self.tell("save_checkpoint", {})
            self.training = True

    def closure(self, batch):
        loss = self.call("training_step", batch) / self.accumulate
        self.tell("before_backward", loss)
        with self.profiler.profile("[Strategy]Strategy.backward"):
            loss.backward()
        self.tell("after_backward")
        self.tell("before_optimizer_step", self.optimizers[0])
        return loss

    def evaluate(self, loader):
        for batch in loader:
            self.call("batch_to_device", batch)
        self.tell("validation_end")


class LightningModule(torch.nn.Module):
    pass
