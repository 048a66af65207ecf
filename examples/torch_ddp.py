# SPDX-License-Identifier: Apache-2.0
"""A PyTorch DistributedDataParallel training, instrumented with cep.

    python3 torch_ddp.py --nproc 2 --output-dir output       # starts the processes itself
    torchrun --nproc_per_node 2 torch_ddp.py --output-dir output
    cep summarize output

It uses nccl on GPUs if there is one for each local rank, else gloo on CPUs. cep needs only the lines with `prof`.
"""

import argparse
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import cep

CHECKPOINT_EVERY_N_STEPS = 10
VOCABULARY = 64
CONTEXT = 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nproc", type=int, default=2, help="processes to start if no launcher did")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=8, help="sequences a rank and step")
    parser.add_argument("--width", type=int, default=64, help="of the model")
    parser.add_argument("--workers", type=int, default=1, help="loader processes of each rank")
    parser.add_argument("--output-dir", default="output")
    parser.add_argument("--backend", choices=("auto", "host"), default="auto", help="clock of the profiler")
    parser.add_argument("--record-every-n-steps", type=int, default=1)
    parser.add_argument("--checkpoint", help="a file to save to every 10th step, and to continue from")
    parser.add_argument("--slow-rank", type=int, default=-1, help="a rank with slow data loading; -1: none")
    parser.add_argument("--slow-ms", type=float, default=50.0, help="what that adds to each of its steps, in ms")
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
        self.positions = nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.logits = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1))

    def forward(self, tokens):
        return self.logits(self.layers(self.tokens(tokens) + self.positions, mask=self.mask))


class Gradients:
    """Copies all gradients of a model to one buffer, so that one collective carries them, and back."""

    def __init__(self, parameters):
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]

    def flatten(self):
        return torch.cat([parameter.grad.reshape(-1) for parameter in self.parameters])

    def unflatten(self, flat):
        start = 0
        for parameter in self.parameters:
            parameter.grad.copy_(flat[start : start + parameter.numel()].view_as(parameter))
            start += parameter.numel()


def endless(loader, sampler):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def load_checkpoint(path, model, optimizer):
    """The first step to do: the one after the checkpoint, if there is one."""
    if path is None or not os.path.exists(path):
        return 0
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"] + 1


def save_checkpoint(path, model, optimizer, step):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{path}.new")
    os.replace(f"{path}.new", path)  # a job that ends here leaves the old one


def device_of_this_rank():
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    if torch.cuda.is_available() and torch.cuda.device_count() >= local_ranks:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.set_num_threads(1)
    return torch.device("cpu")


def train(options, prof, device):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    on_gpu = device.type == "cuda"
    model = LanguageModel(options.width).to(device)
    model = DistributedDataParallel(model, device_ids=[device.index] if on_gpu else None)
    gradients = Gradients(model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    dataset = Progressions()
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(
        dataset, options.batch_size, sampler=sampler, num_workers=options.workers, pin_memory=on_gpu, drop_last=True
    )
    batches = endless(loader, sampler)

    tokens = options.batch_size * CONTEXT
    parameters = sum(parameter.numel() for parameter in gradients.parameters)
    prof.set_meta(dp=rank, tokens_per_step=tokens * ranks, flops_per_step=6.0 * parameters * tokens)

    loss = torch.zeros(())
    for step in range(load_checkpoint(options.checkpoint, model, optimizer), options.steps):
        prof.step(step)
        with prof.region("training_step"):
            # Waiting for a batch is host time: cep.HOST times it on the host clock.
            with prof.region("data_load", stream=cep.HOST):
                batch = next(batches)
                if rank == options.slow_rank:
                    time.sleep(options.slow_ms / 1000)
            with prof.region("host_to_device"):
                batch = batch.to(device, non_blocking=True)
                inputs, targets = batch[:, :-1], batch[:, 1:]
            # DDP would run its all-reduces in the backward, where a rank that waits looks like a rank that computes.
            # no_sync() keeps them out: the gradients are reduced below, in a phase of communication only.
            with model.no_sync():
                with prof.region("forward"):
                    loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
                with prof.region("backward"):
                    optimizer.zero_grad()
                    loss.backward()
                    flat = gradients.flatten()
            # group and coll identify the collective, so that its times on all ranks can be compared. On a GPU the
            # current stream waits for the collective, so the span on that stream lasts as long as the collective.
            with prof.region("all_reduce", group="dp", coll=step, bytes=flat.numel() * flat.element_size()):
                dist.all_reduce(flat)
            with prof.region("optimizer"):
                gradients.unflatten(flat.div_(ranks))
                optimizer.step()
        with prof.region("training_metrics"):
            if prof.recording:
                prof.counter("loss", loss.item())
        if options.checkpoint and rank == 0 and (step + 1) % CHECKPOINT_EVERY_N_STEPS == 0:
            with prof.region("save_checkpoint", stream=cep.HOST):
                save_checkpoint(options.checkpoint, model, optimizer, step)
    return loss.item()


def run_rank(options, init_method="env://"):
    device = device_of_this_rank()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=init_method,
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )
    with cep.Profiler(
        options.output_dir, backend=options.backend, record_every_n_steps=options.record_every_n_steps
    ) as prof:
        loss = train(options, prof, device)
    if dist.get_rank() == 0:
        print(f"{options.steps} steps on {dist.get_world_size()} {device.type} ranks, last loss {loss:.3f}")
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
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = f"file://{folder}/meeting_point"
        multiprocessing.spawn(run_spawned, (options, meeting_point), nprocs=options.nproc)


if __name__ == "__main__":
    main()
