#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings the rank files of a large job together with many processes. Each merges its share of them into one file.

    mpirun -n 4 python3 mpi_merge.py output/cuda_event_profiler merged
    cep summarize 'merged/part_*_of_4.jsonl.zst'

Under Slurm, use `srun -n 4` instead of `mpirun -n 4`. No process waits for another, and none needs an MPI library: they
share only the list of files. Every command of cep reads the merged files.
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


def main(directory, folder):
    number, count = find_place()
    files = sorted(Path(directory).glob("cuda_events_rank_*.jsonl*"))
    share = files[number::count]
    merged = Path(folder) / f"part_{number}_of_{count}.jsonl.zst"
    merged.parent.mkdir(parents=True, exist_ok=True)
    merged.unlink(missing_ok=True)
    if not share:
        return 0
    command = ["cep", "merge", "-o", str(merged), "--files-from", "-"]
    done = subprocess.run(command, input="".join(f"{file}\n" for file in share), text=True, check=False)
    # Where nothing of the share is readable, there is no file, and the summary names the ranks as missing.
    return 0 if done.returncode == NOTHING_READABLE else done.returncode


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY MERGED")
    sys.exit(main(*sys.argv[1:]))
