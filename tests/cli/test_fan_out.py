# SPDX-License-Identifier: Apache-2.0
"""Rank files that many processes merged, as a cluster would start them, give what the files themselves give."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import START_NS, attempt_rows, stats_row

EXAMPLES = Path(__file__).parents[2] / "examples"
LAST_NS = START_NS + 2 * 10**13  # behind all other rows of the first attempt
COUNTS_OF_FILES = ("files", "bytes", "rows", "truncated_files", "unreadable_files", "skipped_rows")


@pytest.fixture
def ten_ranks(job):
    """Restarts, loss, marks and open spans; of twelve ranks one file is cut off, one holds garbage, one is missing."""
    rng = random.Random(17)
    for rank in range(10):
        slow = {"forward": 2.0} if rank == 7 else None
        tail = b'{"cut' if rank == 3 else b""
        job.write(rank, attempt_rows(rank, range(20), rng=rng, world_size=12, slow=slow), tail=tail)
    job.write(4, attempt_rows(4, range(15, 25), rng=rng, world_size=12, attempt=2))
    job.write(2, [{"type": "open", "name": "backward", "step": 30, "rank": 2, "start_ns": LAST_NS, "elapsed_ms": 812.25,
                   "kind": "compute", "clock": "gpu"},
                  {"type": "mark", "name": "checkpoint", "step": 19, "rank": 2, "start_ns": LAST_NS},
                  stats_row(2, 30, start_ns=LAST_NS, recorded=900, abandoned=3, dropped={"ring": 7, "slots": 0, "pool": 1})])
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


def summary_of(cep, *arguments):
    summary = cep.summary(*arguments)
    for count in COUNTS_OF_FILES:
        del summary["inputs"][count]
    summary["ledger"]["phases"].sort(key=lambda phase: phase["name"])
    return summary


def assert_same(cep, merged):
    for options in ([], ["--by", "rank"], ["--attempt", "all"]):
        assert summary_of(cep, *options, merged) == summary_of(cep, *options, "job")
    assert b"10 of 12 ranks" in cep("summarize", merged).stderr


@pytest.mark.parametrize("processes", [4, 13])
def test_processes_of_mpirun(cep, ten_ranks, environment, tmp_path, processes):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is missing")
    # Open MPI looks for ssh even where there is no other host.
    environment["OMPI_MCA_plm_rsh_agent"] = "true"
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = ["mpirun", *as_root, "--oversubscribe", "-n", str(processes), sys.executable, EXAMPLES / "merge_shares.py"]
    status = -signal.SIGSEGV
    for _ in range(3):  # mpirun itself can crash where it reads what the processes write (Open MPI 4.1.4)
        if status == -signal.SIGSEGV:
            shutil.rmtree(tmp_path / "merged", ignore_errors=True)
            status = subprocess.run([*command, "job", "merged"], cwd=tmp_path, env=environment, timeout=240).returncode
    assert status == 0
    assert len(list((tmp_path / "merged").iterdir())) == min(processes, 10)
    assert_same(cep, f"merged/part_*_of_{processes}.jsonl.zst")


def test_tasks_of_srun(cep, ten_ranks, environment, tmp_path):
    for task in range(3):
        subprocess.run([sys.executable, EXAMPLES / "merge_shares.py", "job", "merged"], cwd=tmp_path, timeout=60,
                       env={**environment, "SLURM_PROCID": str(task), "SLURM_NTASKS": "3"}, check=True)
    assert_same(cep, "merged/part_*_of_3.jsonl.zst")


def test_tasks_of_a_slurm_array(cep, ten_ranks, environment, tmp_path):
    for task in range(13):
        variables = {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": "13", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
        subprocess.run([sys.executable, EXAMPLES / "merge_shares.py", "job", "merged"], cwd=tmp_path, timeout=60,
                       env={**environment, **variables}, check=True)
    assert_same(cep, "merged/part_*_of_13.jsonl.zst")


def test_a_loop_over_nodes_in_a_shell(cep, ten_ranks, environment, tmp_path):
    """As with ssh: each node has some of the files on a disk of its own, and sends its rows through a pipe."""
    nodes = [tmp_path / f"node{number}" for number in range(3)]
    for node in nodes:
        node.mkdir()
    for rank in range(11):
        shutil.copy(ten_ranks.path(rank), nodes[rank % 3])
    script = "for node in node0 node1 node2; do cep merge $node >$node.jsonl & done; wait"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, timeout=60, check=True)
    assert_same(cep, "node?.jsonl")


@pytest.fixture
def nodes(cep):
    """A simulated job of 16 ranks, and what its nodes send."""
    fault = {"rank": 11, "phase": "backward", "slowdown": 1.3}
    cep("simulate", "-o", "job", "--ranks", 16, "--steps", 120, "--record-every", 1, "--fault", json.dumps(fault))
    for node in range(4):
        files = [f"job/cuda_events_rank_{rank}.jsonl" for rank in range(4 * node, 4 * node + 4)]
        cep("merge", "-o", f"node{node}.jsonl.zst", *files)


def test_the_files_of_nodes_are_whole(cep, nodes):
    found = cep.check("node*.jsonl.zst")
    assert found["ranks_seen"] == 16 and found["missing_ranks"] == []
    assert [file["ranks"] for file in found["files"]] == [list(range(first, first + 4)) for first in (0, 4, 8, 12)]
    of_files = [{key: row[key] for key in ("severity", "code", "message")} for row in cep.check("job")["findings"]]
    assert [{key: row[key] for key in ("severity", "code", "message")} for row in found["findings"]] == of_files


def test_collectives_of_nodes_are_matched(cep, nodes):
    merged, files = (json.loads(cep("comm", "--json", inputs).stdout) for inputs in ("node*.jsonl.zst", "job"))
    assert [model["name"] for model in merged["models"]] == [model["name"] for model in files["models"]] != []
    for one, other in zip(merged["models"], files["models"]):
        assert (one["ranks"], one["spans"], one["collectives"]) == (other["ranks"], other["spans"], other["collectives"])
        assert one["wait_fraction"] == pytest.approx(other["wait_fraction"]) and one["fit"] == pytest.approx(other["fit"])


def test_the_page_of_nodes_is_that_of_the_files(cep, nodes):
    merged, files = (cep("report", inputs).stdout.decode() for inputs in ("node*.jsonl.zst", "job"))
    headline = re.compile(r"Rank 11 \(node\d+\) is slow in backward[^<]*")
    assert headline.search(merged).group() == headline.search(files).group()


def test_saving_a_part_of_a_summary_says_what_to_use(cep, nodes):
    done = cep("summarize", "--save", "part", "job", status=2)
    assert done.stdout == b""
    said, hint = done.stderr.splitlines()
    assert b"cep merge -o node.jsonl.zst" in said and b"one cep summarize" in said and hint.startswith(b"Try ")
