# SPDX-License-Identifier: Apache-2.0
"""A training loop with Accelerate, recorded with cep. cep needs only the two `with` lines in main().

    python3 torch_accelerate.py --output-dir output
    torchrun --nproc_per_node 2 torch_accelerate.py --output-dir output
    cep summarize output

A small causal transformer with made-up data, on GPUs if there is one for each local rank, else on CPUs.
"""

import argparse
import itertools
import os

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

import cep
import cep.integrations.accelerate

VOCABULARY = 64
CONTEXT = 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=8, help="sequences a rank and micro-batch")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches a step")
    parser.add_argument("--width", type=int, default=64, help="of the model")
    parser.add_argument("--output-dir", default="output")
    parser.add_argument("--record-every-n-steps", type=int, default=1)
    return parser.parse_args()


class Progressions(Dataset):
    """Sequences with a start and a stride: the next token can be learned from the last two."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        start, stride = index % VOCABULARY, 1 + index // VOCABULARY % 7
        return (start + stride * torch.arange(CONTEXT + 1)) % VOCABULARY


class LanguageModel(nn.Module):
    """A small causal transformer."""

    def __init__(self, width, layers=2, heads=4):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.logits = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1))

    def forward(self, tokens):
        return self.logits(self.layers(self.tokens(tokens), mask=self.mask))


def endless(loader):
    while True:
        yield from loader


def train(accelerator, model, optimizer, loader, options):
    for batch in itertools.islice(endless(loader), options.steps * options.accumulate):
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    return loss.item()


def main():
    options = arguments()
    torch.manual_seed(0)
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    on_gpu = torch.cuda.device_count() >= local_ranks
    accelerator = Accelerator(cpu=not on_gpu, gradient_accumulation_steps=options.accumulate)
    model = LanguageModel(options.width)
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        DataLoader(Progressions(), options.batch_size, shuffle=True, num_workers=1, pin_memory=on_gpu),
    )
    with cep.Profiler(options.output_dir, record_every_n_steps=options.record_every_n_steps) as prof:
        with cep.integrations.accelerate.instrument(prof, accelerator, model, optimizer, loader):
            loss = train(accelerator, model, optimizer, loader, options)
    accelerator.print(f"{options.steps} steps on {accelerator.num_processes} ranks, last loss {loss:.3f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
