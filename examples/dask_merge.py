#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings the rank files of a large job together with the workers of Dask. Each merges shares of them into files.

    python3 dask_merge.py output/cuda_event_profiler merged                      # workers on this machine
    python3 dask_merge.py output/cuda_event_profiler merged tcp://SCHEDULER:8786  # those of a cluster
    cep summarize 'merged/*.jsonl.zst'

The workers need the command cep, and see the directories under the same names.
"""

import subprocess
import sys
from pathlib import Path

from dask.distributed import Client

NOTHING_READABLE = 3


def merge_share(files, merged):
    merged.unlink(missing_ok=True)
    command = ["cep", "merge", "-o", str(merged), "--files-from", "-"]
    done = subprocess.run(command, input="".join(f"{file}\n" for file in files), text=True, check=False)
    # Where nothing of the share is readable, there is no file, and the summary names the ranks as missing.
    return 0 if done.returncode == NOTHING_READABLE else done.returncode


def main(directory, folder, scheduler=None):
    files = sorted(Path(directory).resolve().glob("cuda_events_rank_*.jsonl*"))
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with Client(scheduler) if scheduler else Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        count = min(len(files), len(client.scheduler_info()["workers"]))
        parts = [folder / f"part_{number}_of_{count}.jsonl.zst" for number in range(count)]
        shares = [files[number::count] for number in range(count)]
        return max(client.gather(client.map(merge_share, shares, parts)), default=0)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY MERGED [SCHEDULER]")
    sys.exit(main(*sys.argv[1:]))
