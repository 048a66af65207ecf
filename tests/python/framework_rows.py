# SPDX-License-Identifier: Apache-2.0
"""Checks of a training's rank files, for any framework. The examples' tests here and on GPUs use them."""

import json
from collections import Counter
from pathlib import Path

STEP_PHASES = ("training_step", "optimizer")
BATCH_PHASES = ("data_load", "host_to_device", "forward", "backward")
FRAMEWORKS = ("accelerate", "lightning", "transformers")


def rows_of(output_dir, rank):
    path = Path(output_dir) / "cuda_event_profiler" / f"cuda_events_rank_{rank}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _problems_of_steps(spans, steps, batches):
    counts = Counter((row["name"], row["step"]) for row in spans)
    for name in (*STEP_PHASES, *BATCH_PHASES):
        found = sorted({row["step"] for row in spans if row["name"] == name})
        if found != list(steps):
            yield f"{name}: in steps {found}, not {list(steps)}"
        expected = 1 if name in STEP_PHASES else batches
        # Loaders fetch one batch ahead: the first step waits for one batch more, the last for one less.
        inner = [step for step in steps if name not in ("data_load", "host_to_device") or 0 < step < max(steps)]
        wrong = {step: counts[name, step] for step in inner if counts[name, step] != expected}
        if wrong:
            yield f"{name}: {expected} expected in each step, not {wrong}"


def _problems_of_nesting(spans):
    """Every phase lies inside its step."""
    whole = {row["step"]: row for row in spans if row["name"] == "training_step"}
    for row in spans:
        step = whole.get(row["step"])
        if step is None or row["clock"] != step["clock"] or row["name"] not in ("optimizer", *BATCH_PHASES):
            continue
        late_ms = (row["start_ns"] - step["start_ns"]) / 1e6 + row["duration_ms"] - step["duration_ms"]
        # Start times are converted from the device's clock to the host's, and are doubles: 0.1 ms allows for that.
        if row["start_ns"] < step["start_ns"] - 100_000 or late_ms > 0.1:
            yield f"{row['name']} of step {row['step']} is not inside its training_step"


def _problems_of_collectives(spans, steps):
    collectives = [row for row in spans if row["kind"] == "comm" and row["name"] == "all_reduce"]
    if sorted({row["step"] for row in collectives}) != list(steps):
        yield f"all_reduce: in steps {sorted({row['step'] for row in collectives})}, not {list(steps)}"
    if any("coll" not in row or "group" not in row or row.get("bytes", 0) <= 0 for row in collectives):
        yield "all_reduce: a row without group, coll or bytes"


def _problems_of_rank(rows, steps, batches, ranks, clock):
    spans = [row for row in rows if "type" not in row]
    yield from _problems_of_steps(spans, steps, batches)
    yield from _problems_of_nesting(spans)
    if ranks > 1:
        yield from _problems_of_collectives(spans, steps)
    wrong = {row["name"] for row in spans if row["name"] in ("forward", "backward") and row["clock"] != clock}
    if wrong:
        yield f"{sorted(wrong)}: not timed on the {clock} clock"
    failed = {row["name"] for row in spans if "error" in row}
    if failed:
        yield f"{sorted(failed)}: marked as failed"
    lost = [row for row in rows if row.get("type") == "stats"][-1]
    if any(lost["dropped"].values()) or lost["abandoned"] or lost["cuda_errors"]:
        yield f"something was lost: {lost}"


def problems_of(output_dir, *, ranks, steps, batches=1, clock="host"):
    """The problems in a training's files; empty if there are none.

    Args:
        output_dir: The training's output directory.
        ranks: The number of ranks.
        steps: The steps that were recorded.
        batches: Micro-batches in a step.
        clock: The clock on which forward and backward are timed.
    """
    return [
        f"rank {rank}: {problem}"
        for rank in range(ranks)
        for problem in _problems_of_rank(rows_of(output_dir, rank), steps, batches, ranks, clock)
    ]
