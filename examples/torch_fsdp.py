# SPDX-License-Identifier: Apache-2.0
"""A PyTorch FSDP2 (fully_shard) training, instrumented with cep.

    python3 torch_fsdp.py --output-dir output                  # a process for each GPU
    torchrun --nproc_per_node 4 torch_fsdp.py --output-dir output
    cep summarize output

It needs PyTorch 2.6 or later and a GPU for each local rank; otherwise it prints a message and ends with status 77. cep
needs only the lines with `prof`.

How the slow rank is found: FSDP gathers each layer's parameters inside the forward and the backward, and scatters its
gradients inside the backward. There a rank that waits looks like a rank that computes, and whichever rank is slow,
forward and backward are about equally long on all ranks. So the rows of these phases name the collectives that they
contain (`"hides"`), and another collective, which every rank enters with its own batch, is a phase of its own. The rank
that waits least in it is the one that the others wait for.
"""

import argparse
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import cep

NEEDED_VERSION = (2, 6)
if tuple(int(part) for part in torch.__version__.split(".")[:2]) < NEEDED_VERSION:
    print(f"torch_fsdp.py: skipped: PyTorch {torch.__version__} has no fully_shard; 2.6 or later has", file=sys.stderr)
    sys.exit(77)

from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402  (old versions fail to import)

VOCABULARY = 256
CONTEXT = 256
PADDING = -100  # cross_entropy ignores these targets


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nproc", type=int, default=torch.cuda.device_count(), help="processes to start")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=8, help="sequences a rank and step")
    parser.add_argument("--width", type=int, default=512, help="of the model")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1, help="loader processes of each rank")
    parser.add_argument("--output-dir", default="output")
    parser.add_argument("--record-every-n-steps", type=int, default=1)
    parser.add_argument("--slow-rank", type=int, default=-1, help="a rank with slow data loading; -1: none")
    parser.add_argument("--slow-ms", type=float, default=50.0, help="what that adds to each of its steps, in ms")
    return parser.parse_args()


class Progressions(Dataset):
    """Sequences with a start, a stride and a length: the next token can be learned from the last two."""

    def __len__(self):
        return 8192

    def __getitem__(self, index):
        start, stride = index % VOCABULARY, 1 + index // VOCABULARY % 7
        sequence = (start + stride * torch.arange(CONTEXT + 1)) % VOCABULARY
        targets = sequence[1:].clone()
        targets[CONTEXT - index % (CONTEXT // 2) :] = PADDING
        return sequence[:-1], targets


class LanguageModel(nn.Module):
    """A small causal transformer."""

    def __init__(self, width, layers, heads=8):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.logits = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1))

    def forward(self, tokens):
        hidden = self.tokens(tokens) + self.positions
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask.to(hidden.dtype))
        return self.logits(hidden)


def sharded_model(options, device):
    """Shards each layer, so that each is gathered, computed and freed separately, and then the rest of the model."""
    model = LanguageModel(options.width, options.layers).to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=precision)
    fully_shard(model, mp_policy=precision)
    return model, parameters


def endless(loader, sampler):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def train(options, prof, device):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model, parameters = sharded_model(options, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    dataset = Progressions()
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(
        dataset, options.batch_size, sampler=sampler, num_workers=options.workers, pin_memory=True, drop_last=True
    )
    batches = endless(loader, sampler)

    tokens = options.batch_size * CONTEXT
    prof.set_meta(dp=rank, tokens_per_step=tokens * ranks, flops_per_step=6.0 * parameters * tokens)
    # Regions with metadata are made once. Each of their rows names the collectives that the phase hides.
    forward = prof.region("forward", meta={"hides": ["all_gather"]})
    backward = prof.region("backward", meta={"hides": ["all_gather", "reduce_scatter"]})

    for step in range(options.steps):
        prof.step(step)
        with prof.region("training_step"):
            # Waiting for a batch is host time: cep.HOST times it on the host clock.
            with prof.region("data_load", stream=cep.HOST):
                inputs, targets = next(batches)
                if rank == options.slow_rank:
                    time.sleep(options.slow_ms / 1000)
            with prof.region("host_to_device"):
                inputs = inputs.to(device, non_blocking=True)
                targets = targets.to(device, non_blocking=True)
            # The number of tokens on all ranks, by which the loss is divided. Every rank enters this collective before
            # FSDP's hidden ones. group and coll identify it, so that its times on all ranks can be compared.
            with prof.region("all_reduce", group="dp", coll=step, bytes=8):
                count = (targets != PADDING).sum()
                dist.all_reduce(count)
            with forward:
                logits = model(inputs).flatten(0, 1).float()
                loss = nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=PADDING, reduction="sum")
                loss = loss * (ranks / count)  # FSDP takes the mean of the ranks' gradients
            with backward:
                loss.backward()
            with prof.region("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
        with prof.region("training_metrics"):
            if prof.recording:
                prof.counter("loss", loss.item())
    return loss.item()


def run_rank(options, init_method="env://"):
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.device_count() <= local_rank:
        print(f"torch_fsdp.py: skipped: local rank {local_rank} has no GPU of its own", file=sys.stderr)
        sys.exit(77)
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl",
        init_method=init_method,
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        device_id=device,
    )
    with cep.Profiler(options.output_dir, record_every_n_steps=options.record_every_n_steps) as prof:
        loss = train(options, prof, device)
    if dist.get_rank() == 0:
        print(f"{options.steps} steps on {dist.get_world_size()} ranks, last loss {loss:.3f}")
    dist.destroy_process_group()


def run_spawned(rank, options, init_method):
    """One process of torch.multiprocessing, with the variables that torchrun would set."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(options.nproc))
    run_rank(options, init_method)


def main():
    options = arguments()
    if "RANK" in os.environ:
        run_rank(options)
        return
    if torch.cuda.device_count() < max(1, options.nproc):
        print("torch_fsdp.py: skipped: a GPU for each process is needed", file=sys.stderr)
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = f"file://{folder}/meeting_point"
        multiprocessing.spawn(run_spawned, (options, meeting_point), nprocs=options.nproc)


if __name__ == "__main__":
    main()
