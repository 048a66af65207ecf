# SPDX-License-Identifier: Apache-2.0
"""A plain PyTorch training, as somebody wrote it who had no profiler in mind.

    python3 plain_training.py
    torchrun --nproc_per_node=2 plain_training.py

It uses nccl on GPUs if there is one for each local rank, else gloo on CPUs.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=1600)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=1, help="batches for each step of the optimizer")
    parser.add_argument("--workers", type=int, default=0, help="processes that load data")
    options = parser.parse_args()

    rank, distributed = int(os.environ.get("LOCAL_RANK", 0)), "RANK" in os.environ
    on_gpu = torch.cuda.device_count() > rank
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 1)).to(device)
    inputs = torch.randn(options.samples, 64)
    training = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    test = DataLoader(TensorDataset(inputs[:64], inputs[:64].sum(1, keepdim=True)), options.batch_size)
    if distributed:
        dist.init_process_group("nccl" if on_gpu else "gloo")
        model = DistributedDataParallel(model, device_ids=[rank] if on_gpu else None)
    sampler = DistributedSampler(training) if distributed else None
    loader = DataLoader(
        training, options.batch_size, shuffle=sampler is None, sampler=sampler, num_workers=options.workers
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=100)

    for epoch in range(options.epochs):
        model.train()
        for number, (batch, targets) in enumerate(loader, 1):
            loss = nn.functional.mse_loss(model(batch.to(device)), targets.to(device))
            loss.backward()
            if number % options.accumulate == 0:
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            errors = [nn.functional.mse_loss(model(batch.to(device)), targets.to(device)).item() for batch, targets in test]
        print(f"epoch {epoch}: loss {loss.item():.6f}, test {sum(errors):.6f}")
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
