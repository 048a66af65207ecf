# SPDX-License-Identifier: Apache-2.0
"""Rows of a regular 1F1B pipeline whose transfers name no group and no number."""

import json

import numpy as np

START_NS = 1_763_700_000_000_000_000
FORWARD_MS, BACKWARD_MS, TRANSFER_MS, OPTIMIZER_MS = 4.0, 8.0, 0.3, 3.0


def one_forward_one_backward(stage, stages, micro_batches):
    warm_up = min(stages - stage - 1, micro_batches)
    order = [("forward", i) for i in range(warm_up)]
    for i in range(micro_batches):
        if warm_up + i < micro_batches:
            order.append(("forward", warm_up + i))
        order.append(("backward", i))
    return order


def run_step(stages, micro_batches, begin_ms, sends, vary):
    """By stage: (name, begin, end) of what it does."""
    orders = [one_forward_one_backward(stage, stages, micro_batches) for stage in range(stages)]
    at, next_of, done = [begin_ms] * stages, [0] * stages, {}
    rows = [[] for _ in range(stages)]

    def add(stage, name, ms, not_before=0.0):
        end = max(at[stage], not_before) + ms
        rows[stage].append((name, at[stage], end))
        at[stage] = end

    while any(place < len(order) for place, order in zip(next_of, orders)):
        for stage, order in enumerate(orders):
            while next_of[stage] < len(order):
                name, number = order[next_of[stage]]
                towards = 1 if name == "forward" else -1
                if 0 <= stage - towards < stages:
                    if (name, number, stage - towards) not in done:
                        break
                    add(stage, f"recv_{name[0]}", TRANSFER_MS, done[name, number, stage - towards])
                add(stage, name, (FORWARD_MS if towards == 1 else BACKWARD_MS) * vary())
                done[name, number, stage] = at[stage]
                if sends and 0 <= stage + towards < stages:
                    add(stage, f"send_{name[0]}", TRANSFER_MS)
                next_of[stage] += 1
    return rows, at


def write_pipeline(folder, *, stages=4, copies=1, micro_batches=8, steps=40, sends=True, said=True, noise=0.02, seed=1):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    lines = {rank: [] for rank in range(stages * copies)}
    for rank, of_rank in lines.items():
        place = {"pp": rank % stages, "dp": rank // stages} if said else {}
        of_rank.append({"type": "run", "schema": 1, "run_id": "p", "attempt": 1, "rank": rank,
                        "world_size": stages * copies, "host": "node0", **place})
    begin_ms = 0.0
    for step in range(steps):
        copies_of = [run_step(stages, micro_batches, begin_ms, sends, lambda: np.exp(noise * rng.standard_normal()))
                     for _ in range(copies)]
        ends = []
        for copy, (rows, at) in enumerate(copies_of):
            for stage in range(stages):
                together = max(other[stage] for _, other in copies_of) + 2.0
                if copies > 1:
                    rows[stage].append(("all_reduce", at[stage], together))
                end = together if copies > 1 else at[stage]
                rows[stage].append(("optimizer", end, end + OPTIMIZER_MS))
                ends.append(end + OPTIMIZER_MS)
                counts = {}
                lines[copy * stages + stage] += [row_of(copy * stages + stage, step, *row, counts) for row in rows[stage]]
        begin_ms = max(ends) + 0.1
    for rank, of_rank in lines.items():
        text = "".join(json.dumps(row) + "\n" for row in of_rank)
        (folder / f"cuda_events_rank_{rank}.jsonl").write_text(text)


def row_of(rank, step, name, begin_ms, end_ms, counts):
    counts[name] = counts.get(name, -1) + 1
    kind = "comm" if name.startswith(("send", "recv", "all_reduce")) else "compute"
    return {"name": name, "kind": kind, "clock": "gpu", "step": step, "rank": rank, "depth": 0, "seq": counts[name],
            "start_ns": START_NS + round(begin_ms * 1e6), "duration_ms": round(end_ms - begin_ms, 6)}
