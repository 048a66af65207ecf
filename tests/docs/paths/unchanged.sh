#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A person with somebody else's script: cep in front of the command that starts it, and the script as it is.
# needs: torch, cep run
# says: rank 1 ( | data_load
set -eu

cat >train.py <<'PROGRAM'
import os
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 60 * 8

    def __getitem__(self, index):
        time.sleep(0.006 if os.environ["RANK"] == "1" else 0.0005)
        return torch.full((128,), index / 480)


dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(128, 128))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Slow(), batch_size=8):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
if dist.get_rank() == 0:
    print("trained")
dist.destroy_process_group()
PROGRAM
cp train.py as_it_was.py

cep run -o output --every 1 -- torchrun --standalone --nproc_per_node 3 train.py >stdout
[ "$(cat stdout)" = trained ]
cmp train.py as_it_was.py
cep check output
cep summarize output

# The script's exit status is the command's.
status=0
cep run -o failed -- python3 -c 'raise SystemExit(3)' || status=$?
[ "$status" = 3 ]
