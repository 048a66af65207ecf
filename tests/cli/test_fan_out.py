# SPDX-License-Identifier: Apache-2.0
"""Summaries made by many processes, as a cluster would start them, are those of one."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import attempt_rows

EXAMPLES = Path(__file__).parents[2] / "examples"
OUTPUTS = ([], ["--json"], ["--csv"], ["--by", "rank"])


@pytest.fixture
def ten_ranks(job):
    rng = random.Random(17)
    for rank in range(10):
        slow = {"forward": 2.0} if rank == 7 else None
        tail = b'{"cut' if rank == 3 else b""
        job.write(rank, attempt_rows(rank, range(20), rng=rng, world_size=12, slow=slow), tail=tail)
    job.write(4, attempt_rows(4, range(15, 25), rng=rng, world_size=12, attempt=2))
    job.path(10).write_bytes(b"nothing but garbage\n")
    return job


@pytest.fixture
def environment(cep, tmp_path):
    """The command under test as `cep`, and no trace of a launcher around the tests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "cep").symlink_to(cep.program)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMI_", "SLURM_"))}
    return {**kept, "PATH": f"{folder}:{kept['PATH']}"}


def assert_same(cep, partials):
    for output in OUTPUTS:
        whole = cep("summarize", *output, "job")
        parts = cep("summarize", *output, partials)
        assert (parts.stdout, parts.stderr) == (whole.stdout, whole.stderr)
    assert b"1 file cut off, 1 row skipped" in cep("summarize", partials).stderr


@pytest.mark.parametrize("processes", [4, 13])
def test_processes_of_mpirun(cep, ten_ranks, environment, tmp_path, processes):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is missing")
    # Open MPI looks for ssh even where there is no other host.
    environment["OMPI_MCA_plm_rsh_agent"] = "true"
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    subprocess.run(["mpirun", *as_root, "--oversubscribe", "-n", str(processes), sys.executable,
                    EXAMPLES / "mpi_summarize.py", "job", "partials"], cwd=tmp_path, env=environment, timeout=240, check=True)
    assert len(list((tmp_path / "partials").iterdir())) == min(processes, 11)
    assert_same(cep, f"partials/part_*_of_{processes}.partial.zst")


def test_tasks_of_srun(cep, ten_ranks, environment, tmp_path):
    for task in range(3):
        subprocess.run([sys.executable, EXAMPLES / "mpi_summarize.py", "job", "partials"], cwd=tmp_path, timeout=60,
                       env={**environment, "SLURM_PROCID": str(task), "SLURM_NTASKS": "3"}, check=True)
    assert_same(cep, "partials/part_*_of_3.partial.zst")


def test_tasks_of_a_slurm_array(cep, ten_ranks, environment, tmp_path):
    for task in range(13):
        subprocess.run(["sh", EXAMPLES / "slurm_summarize.sh", "job", "partials"], cwd=tmp_path, timeout=60,
                       env={**environment, "SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": "13"}, check=True)
    assert_same(cep, "partials/*.partial.zst")


def test_a_loop_over_nodes_in_a_shell(cep, ten_ranks, environment, tmp_path):
    """As with ssh: each node has some of the files on a disk of its own, and sends its partial through a pipe."""
    nodes = [tmp_path / f"node{number}" for number in range(3)]
    for node in nodes:
        node.mkdir()
    for rank in range(11):
        shutil.copy(ten_ranks.path(rank), nodes[rank % 3])
    script = "for node in node0 node1 node2; do cep summarize --save - $node >$node.partial & done; wait"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, timeout=60, check=True)
    for output in OUTPUTS:
        assert cep("summarize", *output, "node*.partial").stdout == cep("summarize", *output, "job").stdout
