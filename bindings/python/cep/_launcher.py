# SPDX-License-Identifier: Apache-2.0
"""Which rank of which run this process is. cep_open() reads the launchers' variables itself; this is for what they lack:
the rank in PyTorch's process group, and one run for all processes under `cep run`; and what these tell it: lines of JSON, a
file for each process, in a folder."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, Iterator, Optional

from ._errors import EOPTION, OptionError

VARIABLE = "CEP_RUN_RECORDS"
"""The environment variable that names the folder. Where it is set, processes are instrumented."""

_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_SIZE_VARIABLES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def _first_number(names: tuple[str, ...]) -> Optional[int]:
    values = (os.environ.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdecimal()), None)


def _place_in_group() -> Optional[tuple[int, int]]:
    """This process's rank in PyTorch's default process group, and the group's size; None if there is none. Imports
    nothing."""
    dist = sys.modules.get("torch.distributed")
    try:
        if dist is not None and dist.is_available() and dist.is_initialized():
            return int(dist.get_rank()), int(dist.get_world_size())
    except Exception:  # half imported
        pass
    return None


def rank_and_size() -> tuple[Optional[int], int]:
    """This process's rank and the number of ranks, by the process group, else by the launcher. The rank is None where
    neither tells it."""
    found = _place_in_group()
    if found is not None:
        return found
    return _first_number(_RANK_VARIABLES), _first_number(_SIZE_VARIABLES) or 1


def own_rank() -> int:
    """This process's rank by the process group, else by the launcher, else 0."""
    return rank_and_size()[0] or 0


def rank_in_job() -> Optional[int]:
    """This process's rank, for a profiler that was not told; None: 0, in a job of one process.

    Raises:
        OptionError: The launcher says that there are several processes, and nothing says which one this is.
    """
    rank, size = rank_and_size()
    if rank is None and size > 1:
        raise OptionError(
            EOPTION,
            f"rank: WORLD_SIZE is {size}, and nothing says which rank this process is: set RANK, pass rank=, or open the "
            "profiler after torch.distributed.init_process_group() (in Lightning: in a callback)",
        )
    return rank


def run_under_cep_run() -> Optional[str]:
    """The run's name under `cep run`, the same in all its processes; None: libcep finds one, by the launcher."""
    records = os.environ.get(VARIABLE)
    has_id = os.environ.get("TORCHELASTIC_RUN_ID", "none") != "none" or os.environ.get("SLURM_JOB_ID")
    if not records or has_id:
        return None
    namespace = os.environ.get("PMIX_NAMESPACE")  # where mpirun starts a launcher for each rank
    return f"mpi-{namespace}" if namespace else f"{socket.gethostname()}-{os.path.basename(records)}"


def tell(what: str, **facts: Any) -> bool:
    """Adds a record of this process. Returns whether the launcher can see it: the folder is not on other hosts."""
    folder = os.environ.get(VARIABLE, "")
    try:
        with open(Path(folder) / f"{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"what": what, **facts}) + "\n")
        return True
    except OSError:
        return False


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """All records in a folder. A line that was cut off with its process is left out."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue
