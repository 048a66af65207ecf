# SPDX-License-Identifier: Apache-2.0
"""Trainings as people write them, without a word of cep: run one under `cep run` or alone. foreign_trainers.py does both.

    torchrun --nproc_per_node 2 train.py nanogpt --steps 40 --results FOLDER [--slow-rank 1 --slow-ms 20 --slow-from 0]

Each leaves FOLDER/rank_<r>.json: a hash of all its weights, its losses, and the time of each of its steps. With
--slow-rank, one rank's model is slow from a step on.
"""

import argparse
import gc
from pathlib import Path

import framework_trainers as frameworks
import pytorch_trainers as pytorch
import torch
import torch.distributed as dist
from common import Log, Slow, rank, set_up, the_device

PYTORCH = (pytorch.ddp_series, pytorch.imagenet, pytorch.dcgan, pytorch.nanogpt, pytorch.fsdp2, pytorch.ppo, pytorch.by_hand,
           pytorch.cuda_graph)  # fmt: skip
FRAMEWORKS = (frameworks.lightning, frameworks.fabric, frameworks.transformers, frameworks.accelerate)
TRAINERS = {train.__name__: train for train in (*PYTORCH, *FRAMEWORKS)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trainer", choices=tuple(TRAINERS))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--slow-rank", type=int)
    parser.add_argument("--slow-ms", type=float, default=20)
    parser.add_argument("--slow-from", type=int, default=0)
    options = parser.parse_args()
    Slow.log = log = Log(options)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(rank())
    device = the_device()
    if TRAINERS[options.trainer] in PYTORCH:  # the frameworks make their own process groups
        set_up(device)
    log.write(*TRAINERS[options.trainer](log, device))
    gc.collect()  # sharded models keep their process group, whose threads must not outlive the interpreter
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
