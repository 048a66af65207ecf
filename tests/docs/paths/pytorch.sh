#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A person with a PyTorch loop: adds two lines, runs three processes, finds the rank with slow data, looks at a page.
# needs: torch
# says: rank 1 ( | data_load | less time in B
set -eu

cat >train.py <<'PROGRAM'
import os
import sys
import time

import torch
import torch.distributed as dist

import cep

dist.init_process_group("gloo")
torch.set_num_threads(1)
slow = dist.get_rank() == int(sys.argv[2])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(128, 128))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def batches():
    for _ in range(50):
        time.sleep(0.06 if slow else 0.02)
        yield torch.randn(16, 128)


with cep.Profiler(sys.argv[1], record_every_n_steps=1) as prof:
    for batch in cep.torch.trace_training(batches(), model, optimizer, prof):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
PROGRAM

torchrun --standalone --nproc_per_node 3 train.py before 1
cep check before
cep summarize before
cep report -o before.html before
grep -q "rank 1 (" before.html

# Mended:
torchrun --standalone --nproc_per_node 3 train.py after -1
cep summarize after
cep compare before after
