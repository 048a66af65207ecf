# SPDX-License-Identifier: Apache-2.0
"""A training with Lightning, recorded with cep. cep needs only the callback.

    python3 torch_lightning.py --output-dir output
    torchrun --nproc_per_node 2 torch_lightning.py --output-dir output
    cep summarize output

A small causal transformer with made-up data, on GPUs if there is one for each local rank, else on CPUs.
"""

import argparse
import os

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, Dataset

from cep.integrations.lightning import CepCallback

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


class LanguageModel(LightningModule):
    """A small causal transformer."""

    def __init__(self, width, layers=2, heads=4):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.logits = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1))

    def training_step(self, batch, batch_index):
        logits = self.logits(self.layers(self.tokens(batch[:, :-1]), mask=self.mask))
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    options = arguments()
    torch.manual_seed(0)
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    on_gpu = torch.cuda.device_count() >= local_ranks
    trainer = Trainer(
        max_steps=options.steps,
        accumulate_grad_batches=options.accumulate,
        accelerator="gpu" if on_gpu else "cpu",
        devices=local_ranks,
        num_nodes=int(os.environ.get("WORLD_SIZE", 1)) // local_ranks,
        strategy="ddp" if "WORLD_SIZE" in os.environ else "auto",
        default_root_dir=options.output_dir,
        callbacks=[CepCallback(record_every_n_steps=options.record_every_n_steps)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(Progressions(), options.batch_size, shuffle=True, num_workers=1, pin_memory=on_gpu)
    trainer.fit(LanguageModel(options.width), loader)
    if trainer.is_global_zero:
        print(f"{trainer.global_step} steps on {trainer.world_size} ranks")


if __name__ == "__main__":
    main()
