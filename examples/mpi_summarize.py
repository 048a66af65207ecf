#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Summarises a large job with many processes. Each writes a partial summary of its share of the rank files.

    mpirun -n 4 python3 mpi_summarize.py output/cuda_event_profiler partials
    cep summarize 'partials/part_*_of_4.partial.zst'

Under Slurm, use `srun -n 4` instead of `mpirun -n 4`. No process waits for another, and none needs an MPI library: they
share only the list of files. The second command prints what `cep summarize output` would.
"""

import os
import subprocess
import sys
from pathlib import Path

# Launchers set these variables to a process's number and to the number of processes.
LAUNCHERS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))
NOTHING_READABLE = 3


def find_place():
    for number, count in LAUNCHERS:
        if number in os.environ and count in os.environ:
            return int(os.environ[number]), int(os.environ[count])
    return 0, 1


def main(directory, partials):
    number, count = find_place()
    files = sorted(Path(directory).glob("cuda_events_rank_*.jsonl*"))
    share = files[number::count]
    partial = Path(partials) / f"part_{number}_of_{count}.partial.zst"
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.unlink(missing_ok=True)
    if not share:
        return 0
    command = ["cep", "summarize", "--save", str(partial), "--files-from", "-"]
    done = subprocess.run(command, input="".join(f"{file}\n" for file in share), text=True, stdout=subprocess.DEVNULL,
                          check=False)
    # A share in which nothing is readable is saved too, and the whole summary reports it.
    return 0 if done.returncode == NOTHING_READABLE else done.returncode


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY PARTIALS")
    sys.exit(main(*sys.argv[1:]))
