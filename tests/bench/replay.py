#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well `cep summarize` knows what makes steps longer: made-up jobs whose truth is known.

    CEP_COMMAND=build/tools/cep python3 tests/bench/replay.py [--seeds N] [--keep FOLDER] [--only WORD]

Prints a line for each job: the slowdown that its fault causes, what the replay says, and whether it names the cause;
then the errors of all jobs. `error` is the difference of the times of a step without the fault, in percent of a step.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "engine"))
from made_jobs import Damage, Fault, Shape, make, write_files  # noqa: E402

SHAPES = {
    "ddp": Shape("ddp"),
    "accumulation": Shape("accumulation", micro_batches=4),
    "blocking": Shape("blocking"),
    "fsdp": Shape("fsdp"),
    "tensor": Shape("tensor", dp=4, tp=4),
    "pipeline": Shape("pipeline", dp=4, pp=4, micro_batches=8),
    "interleaved": Shape("pipeline", dp=4, pp=4, micro_batches=8, chunks=2),
    "pipeline, 2 replicas": Shape("pipeline", dp=2, pp=4, micro_batches=8),
}
FAULTS = {
    "none": Fault("none"),
    "rank": Fault("rank", 1.4, (3,)),
    "two ranks": Fault("rank", 1.5, (1, 6)),
    "sometimes": Fault("rank", 2.0, (3,), share=0.4),
    "data": Fault("rank", 8.0, (3,), phases=("data_load",)),
    "optimizer": Fault("rank", 3.0, (3,), phases=("optimizer",)),
    "host": Fault("host", 1.3, tuple(range(8, 16))),
    "stage": Fault("stage", 1.5),
    "micro-batches": Fault("micro_batches", 0.3),
    "jitter": Fault("jitter", 0.3),
    "transfers": Fault("transfers", 4.0),
}
DAMAGES = {
    "": Damage(),
    "10 % lost": Damage(lost=0.1),
    "clocks apart": Damage(skew_ms=20),
    "no step row": Damage(step_rows=False),
    "no places": Damage(places=False),
}
KINDS = {"none": None, "rank": "ranks", "host": "host", "stage": "stage", "micro_batches": "micro_batches",
         "jitter": "jitter", "transfers": "communication"}


def fits(shape, fault):
    """Jobs that the fault can be in, and in which it can be told from others."""
    if fault.kind == "host":
        return shape.ranks > 8 and shape.pp == 1
    if fault.kind == "stage":
        return shape.pp > 1
    return True


def jobs(seeds):
    for shape_name, shape in SHAPES.items():
        for fault_name, fault in FAULTS.items():
            if not fits(shape, fault):
                continue
            damages = DAMAGES if fault_name in ("none", "rank", "stage", "micro-batches") else {"": Damage()}
            for damage_name, damage in damages.items():
                if damage_name == "no places" and shape.tp > 1:
                    continue
                for seed in range(1, seeds + 1):
                    name = ", ".join(part for part in (shape_name, fault_name, damage_name) if part)
                    made = Shape(**{**vars(shape), "seed": seed})
                    yield f"{name}, seed {seed}", made, fault, Damage(**{**vars(damage), "seed": seed})


def judge(folder):
    command = [os.environ["CEP_COMMAND"], "summarize", "--json", str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["verdict"]


def is_right(fault, verdict):
    causes = verdict["causes"]
    if fault.kind == "none":
        return not verdict["stragglers"] and all(cause["kind"] in ("jitter", "communication") or cause["slowdown"] < 1.03
                                                 for cause in causes)
    if not causes or causes[0]["kind"] != KINDS[fault.kind]:
        return False
    return fault.kind not in ("rank", "host") or tuple(causes[0]["ranks"]) == fault.ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="write the jobs here")
    parser.add_argument("--only", default="", help="jobs whose name has this word")
    options = parser.parse_args()
    errors, right, wrong, replays = [], 0, [], []
    with tempfile.TemporaryDirectory() as scratch:
        for name, shape, fault, damage in jobs(options.seeds):
            if options.only not in name:
                continue
            folder = (options.keep or pathlib.Path(scratch)) / name.replace(" ", "-").replace(",", "")
            truth = make(write_files(folder), shape, fault, damage)
            (folder / "truth.json").write_text(json.dumps({"T": truth.step_ms, "T0": truth.without_ms,
                                                           "kind": fault.kind, "ranks": fault.ranks}))
            verdict = judge(folder)
            cause = verdict["causes"][0] if verdict["causes"] else None
            said = cause["slowdown"] if cause else 1.0
            error = 100 * (1 / said - 1 / truth.slowdown) if fault.kind != "none" else 0.0
            worth = fault.kind == "none" or truth.slowdown > 1.03
            if fault.kind != "none" and worth:
                errors.append(abs(error))
            correct = is_right(fault, verdict)
            if worth:
                right += correct
                if not correct:
                    wrong.append(name)
            replay = verdict["replay"] or {"error": float("nan")}
            replays.append(abs(100 * replay["error"]))
            named = f"{cause['kind']} {cause['ranks'] or ''}"[:40] if cause else "-"
            print(f"{name:48} true {truth.slowdown:.4f} said {said:.4f} error {error:+6.2f} % replay "
                  f"{100 * replay['error']:+.2f} % {'' if correct else 'WRONG' if worth else 'small'} {named}", flush=True)
    errors.sort()
    if errors:
        print(f"{len(errors)} faults of 3 % and more: median error {statistics.median(errors):.2f} %, 95th percentile "
              f"{errors[int(0.95 * (len(errors) - 1))]:.2f} %, largest {errors[-1]:.2f} % of a step")
    print(f"replay as it was: median error {statistics.median(replays):.3f} %, largest {max(replays):.2f} %")
    total = right + len(wrong)
    print(f"cause right in {right} of {total} ({100 * right / total:.1f} %); wrong: {'; '.join(wrong) or 'none'}")


if __name__ == "__main__":
    main()
