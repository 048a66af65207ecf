#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings the rank files of a large job together with many processes. Each merges its share of them into one file.

    srun -n 16 python3 merge_shares.py output/cuda_event_profiler merged
    mpirun -n 16 python3 merge_shares.py output/cuda_event_profiler merged
    sbatch --array=0-15 --wrap "python3 merge_shares.py output/cuda_event_profiler merged"
    python3 merge_shares.py output/cuda_event_profiler merged --dask                       # workers on this machine
    python3 merge_shares.py output/cuda_event_profiler merged --dask tcp://SCHEDULER:8786  # those of a cluster

    cep summarize 'merged/part_*_of_16.jsonl.zst'

No process waits for another, and none needs an MPI library: they share only the list of files. Every command of cep reads
the merged files. Workers of Dask need the command cep, and see the directories under the same names.
"""

import os
import subprocess
import sys
from pathlib import Path

# Launchers set these variables to a process's number and to the number of processes. A task of a job array has srun's too.
LAUNCHERS = (
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
NOTHING_READABLE = 3


def find_place():
    for number, count in LAUNCHERS:
        if number in os.environ and count in os.environ:
            return int(os.environ[number]), int(os.environ[count])
    return 0, 1


def merge_share(files, folder, number, count):
    merged = folder / f"part_{number}_of_{count}.jsonl.zst"
    merged.unlink(missing_ok=True)
    share = "".join(f"{file}\n" for file in files[number::count])
    if not share:
        return 0
    command = ["cep", "merge", "-o", str(merged), "--files-from", "-"]
    done = subprocess.run(command, input=share, text=True, check=False)
    # Where nothing of the share is readable, there is no file, and the summary names the ranks as missing.
    return 0 if done.returncode == NOTHING_READABLE else done.returncode


def merge_with_dask(files, folder, scheduler):
    from dask.distributed import Client

    cluster = {"address": scheduler} if scheduler else {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with Client(**cluster) as client:
        count = len(client.scheduler_info()["workers"])
        return max(client.gather([client.submit(merge_share, files, folder, number, count) for number in range(count)]))


def main(directory, folder, *dask):
    files = sorted(Path(directory).resolve().glob("cuda_events_rank_*.jsonl*"))
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if dask:
        return merge_with_dask(files, folder, *dask[1:] or [None])
    return merge_share(files, folder, *find_place())


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[3:4] not in ([], ["--dask"]):
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY MERGED [--dask [SCHEDULER]]")
    sys.exit(main(*sys.argv[1:]))
