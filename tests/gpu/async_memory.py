# SPDX-License-Identifier: Apache-2.0
"""Peak memory of asynchronous collectives whose results are freed at once, on steps that are recorded and on others.

    torchrun --standalone --nproc_per_node 2 tests/gpu/async_memory.py     # one process: no messages

Prints a line for each kind of call with the peaks of both kinds of step, and exits 1 if they differ. The values that are
received are checked, too: memory that was given away too early would hold others.
"""

import argparse
import os
import sys
import tempfile

import torch
import torch.distributed as dist

import cep
import cep.torch

MIB = 1 << 20
STEPS = 6  # every other one is recorded


def all_gathers(size, calls):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    right = torch.ones((), dtype=torch.bool, device="cuda")
    for _ in range(calls):
        mine = torch.full((size // ranks,), rank + 1, dtype=torch.uint8, device="cuda")
        gathered = torch.empty(size, dtype=torch.uint8, device="cuda")
        work = dist.all_gather_into_tensor(gathered, mine, async_op=True)
        del mine
        torch.full((size // ranks,), 99, dtype=torch.uint8, device="cuda")  # takes the place of what was freed too early
        work.wait()
        right &= (gathered[:: max(1, size // 7)] != 99).all() & (gathered[-1] == ranks)
        del gathered, work
    return right


def messages(size, calls):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    following, before = (rank + 1) % ranks, (rank - 1) % ranks
    right = torch.ones((), dtype=torch.bool, device="cuda")
    for _ in range(calls):
        sent = torch.full((size,), rank + 1, dtype=torch.uint8, device="cuda")
        received = torch.empty(size, dtype=torch.uint8, device="cuda")
        operations = [dist.P2POp(dist.isend, sent, following), dist.P2POp(dist.irecv, received, before)]
        works = dist.batch_isend_irecv(operations)
        del sent, operations
        for work in works:
            work.wait()
        right &= received[-1] == before + 1
        del received, works, work
    return right


def peaks(run, size, calls):
    """The peak in MiB of each kind of step, and whether all values were right."""
    peak_mib, all_right = {True: 0, False: 0}, True
    with tempfile.TemporaryDirectory() as folder, cep.Profiler(folder, record_every_n_steps=2) as prof:
        with cep.torch.instrument_collectives(prof):
            for step in range(STEPS):
                torch.cuda.synchronize()
                dist.barrier()
                torch.cuda.reset_peak_memory_stats()
                prof.step(step)
                right = run(size, calls)
                torch.cuda.synchronize()
                peak_mib[prof.recording] = max(peak_mib[prof.recording], torch.cuda.max_memory_allocated() // MIB)
                all_right = all_right and bool(right)
    return peak_mib, all_right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=256, help="of each call")
    parser.add_argument("--calls", type=int, default=24, help="in a step")
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl")
    kinds = {"all_gather": all_gathers, **({"send and receive": messages} if dist.get_world_size() > 1 else {})}
    failed = False
    for name, run in kinds.items():
        peak_mib, right = peaks(run, options.mib * MIB, options.calls)
        if dist.get_rank() == 0:
            print(f"{name}: peak {peak_mib[False]} MiB on steps that are not recorded, {peak_mib[True]} MiB on others;"
                  f" values {'right' if right else 'WRONG'}", flush=True)
        failed = failed or not right or peak_mib[True] != peak_mib[False]
    dist.destroy_process_group()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
