# SPDX-License-Identifier: Apache-2.0
"""Replaces Transformers: a Trainer that calls its callbacks in the order of the real one."""

import types

import torch
from accelerate import Accelerator

EVENTS = ("train_begin", "step_begin", "pre_optimizer_step", "optimizer_step", "substep_end", "step_end", "log",
          "evaluate", "save", "train_end")  # fmt: skip


class TrainerCallback:
    pass


for event in EVENTS:
    setattr(TrainerCallback, f"on_{event}", lambda self, args, state, control, **others: None)


class Trainer:
    def __init__(self, model, output_dir, loader, eval_loader=None, max_steps=1, accumulate=1, callbacks=()):
        self.model = self.model_wrapped = model
        self.args = types.SimpleNamespace(output_dir=output_dir)
        self.state = types.SimpleNamespace(global_step=0)
        self.accelerator = Accelerator()
        self.max_steps, self.accumulate = max_steps, accumulate
        self.callbacks = list(callbacks)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        loaders = [loader] if eval_loader is None else [loader, eval_loader]
        _, self.optimizer, self.loader, *self.eval_loaders = self.accelerator.prepare(model, optimizer, *loaders)

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def tell(self, event, **others):
        for callback in self.callbacks:
            told = {"model": self.model, "optimizer": self.optimizer, "train_dataloader": self.loader, **others}
            getattr(callback, f"on_{event}")(self.args, self.state, None, **told)

    def train(self, first_step=0):
        self.state.global_step = first_step
        self.tell("train_begin")
        iterator = iter(self.loader)
        for _ in range(self.max_steps):
            batches = [next(iterator) for _ in range(self.accumulate)]
            self.tell("step_begin")
            for index, batch in enumerate(batches):
                loss = self.model(batch).square().mean()
                self.accelerator.backward(loss)
                if index + 1 < len(batches):
                    self.tell("substep_end")
            self.tell("pre_optimizer_step")
            self.optimizer.step()
            self.tell("optimizer_step")
            self.model.zero_grad()
            self.state.global_step += 1
            self.tell("step_end")
            self.tell("log", logs={"loss": float(loss), "learning_rate": 1e-3, "grad_norm": float("nan")})
            self.evaluate()
            self.tell("save")
        self.tell("train_end")

    def evaluate(self):
        for loader in self.eval_loaders:
            with torch.no_grad():
                for batch in loader:
                    self.model(batch)
            self.tell("evaluate", metrics={})
