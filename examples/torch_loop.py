# SPDX-License-Identifier: Apache-2.0
"""A plain PyTorch training, of which one line instruments everything.

    python3 torch_loop.py --output-dir output
    torchrun --nproc_per_node 2 torch_loop.py --output-dir output
    cep summarize output

It uses nccl on GPUs if there is one for each local rank, else gloo on CPUs. cep needs only the lines with `prof`.
"""

import argparse
import os

import cep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=32, help="samples a rank and step")
    parser.add_argument("--width", type=int, default=128, help="of the model")
    parser.add_argument("--output-dir", default="output")
    parser.add_argument("--record-every-n-steps", type=int, default=1)
    return parser.parse_args()


def device_of_this_rank():
    if torch.cuda.is_available() and torch.cuda.device_count() > int(os.environ.get("LOCAL_RANK", 0)):
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
        return device
    torch.set_num_threads(1)
    return torch.device("cpu")


def main():
    options = arguments()
    device = device_of_this_rank()
    torch.manual_seed(0)
    width = options.width
    model = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1)).to(device)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        model = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(options.steps * options.batch_size, width)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    loader = DataLoader(data, options.batch_size, pin_memory=device.type == "cuda")

    with cep.Profiler(options.output_dir, record_every_n_steps=options.record_every_n_steps) as prof:
        for inputs, targets in cep.torch.trace_training(prof, loader, model, optimizer, device=device):
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    print(f"{options.steps} steps, last loss {loss.item():.3f}")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
