# SPDX-License-Identifier: Apache-2.0
"""`cep run` on GPUs: records examples/plain_training.py unchanged, and checks its rows and results.

    python3 tests/gpu/launcher.py --nproc 4

Needs PyTorch with CUDA, the package cep and its command. Prints a line for each check; ends with 1 if one fails.
"""

import argparse
import collections
import json
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plain_training.py"
PHASES = {"data_load", "host_to_device", "forward", "backward", "optimizer"}
failed = False


def check(what, passed, facts=""):
    global failed
    failed |= not passed
    print(f"{'PASS' if passed else 'FAIL'} {what} {facts}", flush=True)


def run(words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=400)


def spans_of(path):
    return [row for row in map(json.loads, path.read_text().splitlines()) if "type" not in row]


def check_rank(rank, path, steps, ranks):
    by_step = collections.defaultdict(list)
    for row in spans_of(path):
        by_step[row["step"]].append(row)
    wrong = []
    for step in range(1, steps):
        rows = by_step[step]
        names = collections.Counter(row["name"] for row in rows)
        whole = [row for row in rows if row["name"] == "training_step"]
        inside = PHASES | ({"all_reduce"} if ranks > 1 else set())
        devices = {row["device"] for row in rows if row["clock"] == "gpu"}
        right = names["training_step"] == 1 and inside <= set(names) and devices == {rank}
        if not right or whole[0]["depth"] != 0 or whole[0]["clock"] != "gpu":
            wrong.append((step, dict(names), devices))
    check(f"rank {rank}: each step has all its phases, on the rank's device", not wrong, wrong[:2] or "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nproc", type=int, default=1)
    options = parser.parse_args()
    samples, batch = 3200, 32
    steps = 2 * samples // batch // options.nproc
    python = [sys.executable]
    if options.nproc > 1:
        python += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={options.nproc}"]
    script = [*python, EXAMPLE, "--samples", samples, "--batch-size", batch, "--workers", 2]
    with tempfile.TemporaryDirectory() as folder:
        plain = run(script)
        recorded = run([sys.executable, "-m", "cep.run", "-o", folder, "--every", 1, "--", *script])
        check("the script ends as without cep", recorded.returncode == plain.returncode == 0)
        same = sorted(recorded.stdout.split()) == sorted(plain.stdout.split())
        check("its output is the same", same, "" if same else f"{recorded.stdout!r}, not {plain.stdout!r}")
        check("there is a verdict", "the verdict of" in recorded.stderr)
        for rank in range(options.nproc):
            path = Path(folder, "cuda_event_profiler", f"cuda_events_rank_{rank}.jsonl")
            check_rank(rank, path, steps, options.nproc)
        print(recorded.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
