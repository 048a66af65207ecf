# SPDX-License-Identifier: Apache-2.0
"""What the launcher of a job says, for code that needs it without a profiler. cep_open() reads the same variables."""

from __future__ import annotations

import os

_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def launched_rank() -> int:
    """This process's rank: what torchrun, Slurm, Open MPI or PMI set, else 0."""
    values = (os.environ.get(name, "") for name in _RANK_VARIABLES)
    return next((int(value) for value in values if value.isdecimal()), 0)
