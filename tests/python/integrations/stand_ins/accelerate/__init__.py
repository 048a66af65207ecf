# SPDX-License-Identifier: Apache-2.0
"""Replaces Accelerate: makes the calls that cep hooks into, in the order in which Accelerate makes them."""

import contextlib

import torch

from .data_loader import DataLoaderShard


class AcceleratedOptimizer(torch.optim.Optimizer):
    def __init__(self, optimizer, accelerator):
        self.optimizer = optimizer
        self.accelerator = accelerator

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def step(self, closure=None):
        if self.accelerator.sync_gradients:
            self.optimizer.step(closure)

    def zero_grad(self, set_to_none=None):
        if self.accelerator.sync_gradients:
            self.optimizer.zero_grad()


class Accelerator:
    def __init__(self, gradient_accumulation_steps=1):
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.sync_gradients = True
        self.batches = 0

    def prepare(self, model, optimizer, *loaders):
        shards = [DataLoaderShard(loader, torch.device("cpu")) for loader in loaders]
        return (model, AcceleratedOptimizer(optimizer, self), *shards)

    @contextlib.contextmanager
    def accumulate(self, model):
        self.batches += 1
        self.sync_gradients = self.batches % self.gradient_accumulation_steps == 0
        yield

    def backward(self, loss):
        (loss / self.gradient_accumulation_steps).backward()
