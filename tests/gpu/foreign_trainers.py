# SPDX-License-Identifier: Apache-2.0
"""Trainers that know nothing of cep, alone and under `cep run`: same results, cost, steps seen, verdict.

    python3 tests/gpu/foreign_trainers.py                         # as many ranks as there are GPUs, with NCCL; without one: 2, gloo
    python3 tests/gpu/foreign_trainers.py --nproc 2               # on one GPU: 2 ranks share it, with gloo
    python3 tests/gpu/foreign_trainers.py --only nanogpt ppo --steps 100 --json table.json

The trainers are those of the folder foreign. Each is run four times: alone, alone again, under `cep run`, and under `cep run` with
a fault: the last of several ranks is slow, or the only one is slow from the middle on. A line for each says

    results   whether weights and losses of all ranks are the same bits as alone; "vary" where they are not alone either
    cost      of the median step, under `cep run`; in parentheses how far the two runs alone are apart
    steps     that have rows on each rank, of those that could be seen: all but the first of an optimizer
    verdict   of the fault: whether the rank, or the step from which it is slow, is named

cep must be importable (an installed wheel, or PYTHONPATH, CEP_LIBRARY, CEP_BINDING and CEP_COMMAND). Its status is 1 if a
trainer's results, steps or verdict are wrong.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

TRAIN = Path(__file__).parent / "foreign" / "train.py"
TRAINERS = ("ddp_series", "imagenet", "dcgan", "nanogpt", "fsdp2", "ppo", "by_hand", "cuda_graph", "lightning", "fabric",
            "transformers", "accelerate")  # fmt: skip
NEEDS = {"lightning": "lightning", "fabric": "lightning", "transformers": "transformers", "accelerate": "accelerate"}
TIMEOUT_S = 150
UNSEEN = 1  # an optimizer's first step shows what it trains


class Failure(Exception):
    """A trainer did not run."""


def start(trainer, folder, options, *fault, under=()):
    """Runs a trainer into a new folder. Returns the results of its ranks."""
    folder.mkdir(parents=True)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", options.nproc]
    words = [TRAIN, trainer, "--steps", options.steps, "--results", folder, *fault]
    command = [str(word) for word in (*under, sys.executable, *launcher, *words)]
    environment = {"OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TOKENIZERS_PARALLELISM": "false",
                   "OMPI_MCA_plm": "isolated", **os.environ}  # fmt: skip
    with open(folder / "log", "w+") as log:
        try:
            status = subprocess.run(command, stdout=log, stderr=log, timeout=TIMEOUT_S, env=environment).returncode
        except subprocess.TimeoutExpired:
            status = f"none after {TIMEOUT_S} s"
        log.seek(0)
        if status != 0:
            raise Failure(f"status {status}: {log.read()[-600:]}")
    return [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in range(options.nproc)]


def under_cep(folder, options):
    return [sys.executable, "-m", "cep.run", "--no-summary", "-o", folder, "--every", options.every, "--"]


def bits(results):
    return [(rank["weights"], rank["losses"]) for rank in results]


def step_ms(results):
    """The median of the later steps; of the rank that has the longest."""
    return max(statistics.median(rank["durations_ms"][len(rank["durations_ms"]) // 4 :]) for rank in results)


def steps_seen(folder):
    """By rank: how many steps have rows of a forward, an optimizer, or a replay."""
    phases, seen = ("forward", "optimizer", "graph_replay"), []
    for path in sorted((folder / "cuda_event_profiler").glob("cuda_events_rank_*.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        seen.append(len({row["step"] for row in rows if "type" not in row and row["name"] in phases}))
    return seen


def verdict(trainer, folder, options):
    """Runs a trainer with a fault. Returns whether it is named, and the headline or what changed."""
    slow, middle = options.nproc - 1, options.steps // 2
    fault = ["--slow-rank", slow, "--slow-ms", options.slow_ms, "--slow-from", middle if slow == 0 else 0]
    trained = len(start(trainer, folder, options, *fault, under=under_cep(folder, options))[0]["durations_ms"]) + 1
    command = [options.command, "summarize", "--json", folder / "cuda_event_profiler"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise Failure(f"cep summarize: status {done.returncode}: {done.stderr[-600:]}")
    found = json.loads(done.stdout)["verdict"]
    if slow == 0:
        before = max(0, steps_seen(folder)[0] - trained)  # optimizers' steps before the training, as to capture a graph
        near = [change for change in found["changes"] if abs(change["step"] - before - middle) <= 2]
        return bool(near), (near and found["evidence"] or [found["headline"]])[0]
    ranks = [one["rank"] for one in found["stragglers"]] + [rank for group in found["groups"] for rank in group["slow_ranks"]]
    return set(ranks) == {slow}, found["headline"]


def judge(trainer, folder, options):
    """The cells of a trainer's line, and whether all is right."""
    alone = start(trainer, folder / "alone", options)
    again = start(trainer, folder / "again", options)
    profiled = start(trainer, folder / "cep", options, under=under_cep(folder / "cep", options))
    is_same, varies = bits(alone) == bits(profiled), bits(alone) != bits(again)
    base_ms, noise_ms = (step_ms(alone) + step_ms(again)) / 2, abs(step_ms(alone) - step_ms(again))
    trained = len(profiled[0]["durations_ms"]) + 1
    seen, expected = steps_seen(folder / "cep"), (trained - UNSEEN + options.every - 1) // options.every
    is_named, words = verdict(trainer, folder / "fault", options)
    are_all_seen = len(seen) == options.nproc and min(seen) >= expected
    cells = {
        "results": "same" if is_same else "vary" if varies else "DIFFER",
        "step_ms": round(base_ms, 3),
        "added_ms": round(step_ms(profiled) - base_ms, 3),
        "noise_ms": round(noise_ms, 3),
        "steps": f"{'/'.join(map(str, seen)) or 'none'} of {expected}",
        "verdict": ("" if is_named else "WRONG: ") + words,
    }
    return cells, (is_same or varies) and are_all_seen and is_named


def line_of(trainer, folder, options):
    """A trainer's line, and PASS, FAIL or SKIP."""
    module = NEEDS.get(trainer)
    if module is not None and importlib.util.find_spec(module) is None:
        return "SKIP", {"remark": "not installed"}
    if trainer == "cuda_graph" and torch.cuda.device_count() < 1:
        return "SKIP", {"remark": "needs a GPU"}
    try:
        cells, is_right = judge(trainer, folder, options)
    except (Failure, OSError, LookupError, ValueError) as failure:
        return "FAIL", {"remark": str(failure)}
    return ("PASS" if is_right else "FAIL"), cells


def text_of(trainer, result, cells):
    if "remark" in cells:
        return f"{result}  {trainer:12}  {cells['remark']}"
    cost = f"{cells['step_ms']:.2f} ms {cells['added_ms']:+.2f} ({cells['noise_ms']:.2f})"
    return f"{result}  {trainer:12}  {cells['results']:6}  {cost:24}  {cells['steps']:14}  {cells['verdict']}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nproc", type=int, default=torch.cuda.device_count() or 2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=1, help="record every Nth step")
    parser.add_argument("--slow-ms", type=float, default=20)
    parser.add_argument("--only", nargs="+", choices=TRAINERS, default=TRAINERS)
    parser.add_argument("--folder", type=Path, help="a new folder, which keeps the files")
    parser.add_argument("--json", type=Path, help="writes the table there")
    parser.add_argument("--command", default=os.environ.get("CEP_COMMAND") or shutil.which("cep"), help="the command cep")
    options = parser.parse_args()
    if options.command is None:
        parser.error("no command cep: set CEP_COMMAND")
    return options


def main():
    options = arguments()
    print(f"torch {torch.__version__}, {torch.cuda.device_count()} GPUs, {options.nproc} ranks, {options.steps} steps", flush=True)
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        for trainer in options.only:
            result, cells = line_of(trainer, (options.folder or Path(folder)).absolute() / trainer, options)
            table[trainer] = {"result": result, **cells}
            print(text_of(trainer, result, cells), flush=True)
            if options.json:
                options.json.write_text(json.dumps(table, indent=1) + "\n")
    return int(any(row["result"] == "FAIL" for row in table.values()))


if __name__ == "__main__":
    sys.exit(main())
