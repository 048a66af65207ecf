# SPDX-License-Identifier: Apache-2.0
"""What the trainers share: a log, a place for a fault, devices, data and models."""

import hashlib
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WIDTH = 64
BATCH = 8


class Log:
    """The losses and times that a trainer prints, and where its model is slow."""

    def __init__(self, options):
        self.options, self.losses, self.times_s = options, [], []

    def step(self, loss):
        self.losses.append(float(loss))
        self.times_s.append(time.perf_counter())

    @property
    def steps(self):
        return len(self.losses)

    @property
    def is_over(self):
        return self.steps >= self.options.steps

    def write(self, *models):
        digest = hashlib.sha256()
        for model in models:
            for name, value in sorted(model.state_dict().items()):
                if hasattr(value, "to_local"):  # gloo crashes where it gathers a GPU's shards (PyTorch 2.11)
                    value = value.to_local()
                if isinstance(value, torch.Tensor):
                    digest.update(name.encode() + value.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
        durations_ms = [1e3 * (end - begin) for begin, end in zip(self.times_s, self.times_s[1:])]
        result = {"weights": digest.hexdigest(), "losses": self.losses, "durations_ms": durations_ms}
        (self.options.results / f"rank_{rank()}.json").write_text(json.dumps(result))


class Slow(nn.Module):
    """Its input. The planted fault: one rank's forward takes longer from a step on."""

    log = None

    def forward(self, hidden):
        options = self.log.options
        if options.slow_rank == rank() and self.log.steps >= options.slow_from and not is_capturing(hidden):
            if hidden.is_cuda:
                torch.cuda._sleep(int(options.slow_ms * 1.7e6))  # cycles, at some 1.7 GHz
            else:
                time.sleep(options.slow_ms * 1e-3)
        return hidden


def is_capturing(tensor):
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def rank():
    return int(os.environ.get("RANK", 0))


def world_size():
    return int(os.environ.get("WORLD_SIZE", 1))


def gpus():
    """How many there are, if each rank has one of its own; else all share the first."""
    return torch.cuda.device_count()


def the_device():
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % gpus())


def set_up(device):
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" and gpus() >= world_size() else "gloo")


def in_ddp(model, device, **options):
    return DDP(model.to(device), device_ids=[device.index] if device.type == "cuda" else None, **options)


class Pairs(Dataset):
    def __init__(self, count=4096):
        chance = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(count, WIDTH, generator=chance)
        self.labels = torch.randint(0, 10, (count,), generator=chance)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, at):
        return self.inputs[at], self.labels[at]


def pairs_loader(device, **options):
    data = Pairs()
    return DataLoader(data, BATCH, sampler=DistributedSampler(data), pin_memory=device.type == "cuda", **options)


def classifier():
    return nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), Slow(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.slow = Slow()

    def forward(self, hidden):
        shape = (*hidden.shape[:2], 4, WIDTH // 4)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.attend(self.norms[0](hidden)).chunk(3, dim=-1))
        mixed = (q @ k.transpose(-2, -1) * shape[-1] ** -0.5).softmax(-1) @ v
        hidden = hidden + self.project(mixed.transpose(1, 2).reshape(hidden.shape))
        return self.slow(hidden + self.mlp(self.norms[1](hidden)))


class GPT(nn.Module):
    def __init__(self, layers=2, vocabulary=96, checkpointing=False):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)
        self.blocks, self.checkpointing = nn.ModuleList(Block() for _ in range(layers)), checkpointing

    def forward(self, tokens, targets):
        hidden = self.tokens(tokens)
        for block in self.blocks:
            if self.checkpointing:
                hidden = torch.utils.checkpoint.checkpoint(block, hidden, use_reentrant=False)
            else:
                hidden = block(hidden)
        logits = self.head(hidden)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def text_batch(data, device):
    starts = torch.randint(len(data) - 33, (BATCH,))
    x = torch.stack([data[start : start + 32] for start in starts])
    y = torch.stack([data[start + 1 : start + 33] for start in starts])
    if device.type == "cuda":
        return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    return x.to(device), y.to(device)
