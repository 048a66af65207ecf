#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `cep summarize` with a published study, on the three production traces that came with it.

"Understanding Stragglers in Large Model Training Using What-if Analysis" (2025) has an artifact with traces of pipeline
jobs (trace-*.parquet), and what the authors' simulator finds in each (result-*.json, mw-*.json, ms-*.json). That
simulator knows the operations of the trainer. cep is given rows only: names, times, and which collective each row is
part of. Needs pyarrow or duckdb for Parquet files; reads trace-*.jsonl with the same columns without them.

    python3 tests/bench/published_traces.py DATA               # a table
    python3 tests/bench/published_traces.py DATA --write OUT   # the rank files, in a folder for each trace
"""

import argparse
import collections
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

BASE_NS = 1_700_000_000_000_000_000
STREAMS = {"forward-send": 2, "forward-recv": 3, "backward-send": 4, "backward-recv": 5,
           "grads-reduce-scatter": 6, "params-all-gather": 6}
COLUMNS = ("rank", "dp_rank", "stage", "step", "optype", "start_ts", "duration", "seq_id")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder `data` of the artifact")
    parser.add_argument("--cep", default=os.environ.get("CEP_COMMAND", "build/tools/cep"), help="the command")
    parser.add_argument("--write", type=Path, help="write the rank files here, and stop")
    parser.add_argument("--steps", type=int, help="take the first N recorded steps")
    return parser.parse_args()


def read_trace(data, name):
    lines = data / f"trace-{name}.jsonl"
    if lines.exists():
        with open(lines, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    path = data / f"trace-{name}.parquet"
    try:
        import pyarrow.parquet
        return pyarrow.parquet.read_table(path, columns=list(COLUMNS)).to_pylist()
    except ImportError:
        import duckdb
        return [dict(zip(COLUMNS, row))
                for row in duckdb.sql(f"SELECT {', '.join(COLUMNS)} FROM '{path}'").fetchall()]


def read_world_size(data, name):
    return int(re.search(r"world_size: (\d+)", (data / f"meta-{name}.yaml").read_text()).group(1))


def group_of(operation, stage, replica):
    """The communicator of an operation; None for work that needs no other rank that was recorded."""
    if operation.startswith("forward-") and operation != "forward-compute":
        sender = stage if operation.endswith("send") else stage - 1
        return f"forward/{replica}/{sender}"
    if operation.startswith("backward-") and operation != "backward-compute":
        sender = stage if operation.endswith("send") else stage + 1
        return f"backward/{replica}/{sender}"
    return {"grads-reduce-scatter": f"data/{stage}", "params-all-gather": f"data/{stage}",
            "embedding-grads-all-reduce": f"embedding/{replica}", "optimizer-clip-main-grad": "world"}.get(operation)


def write_rank_files(rows, name, world_size, folder, most_steps):
    """One rank file for each rank. The times of a trace begin anew in each step; here steps follow each other."""
    folder.mkdir(parents=True, exist_ok=True)
    by_step = collections.defaultdict(list)
    for row in rows:
        by_step[row["step"]].append(row)
    places = {row["rank"]: (row["dp_rank"], row["stage"]) for row in rows}
    files = {rank: open(folder / f"cuda_events_rank_{rank}.jsonl", "w", encoding="utf-8") for rank in sorted(places)}
    for rank, file in files.items():
        replica, stage = places[rank]
        file.write(json.dumps({"type": "run", "schema": 1, "run_id": name, "attempt": 1, "rank": rank,
                               "world_size": world_size, "local_rank": rank % 8, "host": f"node{rank // 8}",
                               "dp": replica, "pp": stage}) + "\n")
    begin_ns = BASE_NS
    collectives = collections.Counter()
    for step in sorted(by_step)[:most_steps]:
        numbers = collections.Counter()
        for row in sorted(by_step[step], key=lambda row: (row["rank"], row["start_ts"], row["seq_id"])):
            operation, rank = row["optype"], row["rank"]
            if operation == "gc":  # of no length
                continue
            group = group_of(operation, row["stage"], row["dp_rank"])
            span = {"name": operation.replace("-compute", ""), "step": step, "rank": rank,
                    "duration_ms": round(1e3 * row["duration"], 4),
                    "start_ns": begin_ns + round(1e9 * row["start_ts"]), "kind": "comm" if group else "compute",
                    "seq": numbers[rank, operation], "device": 0, "stream": STREAMS.get(operation, 1)}
            numbers[rank, operation] += 1
            if group:
                span |= {"group": group, "coll": collectives[rank, group]}
                collectives[rank, group] += 1
            files[rank].write(json.dumps(span, separators=(",", ":")) + "\n")
        begin_ns += round(1e9 * max(row["start_ts"] + row["duration"] for row in by_step[step]))
    for file in files.values():
        file.close()


def main():
    arguments = parse_arguments()
    names = sorted(path.name[len("meta-"):-len(".yaml")] for path in arguments.data.glob("meta-*.yaml"))
    print("| trace | S | study | M_W | study | M_S of the largest stage | study, of the last stage | replayed / observed |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    headlines = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            folder = (arguments.write or Path(scratch)) / name
            write_rank_files(read_trace(arguments.data, name), name, read_world_size(arguments.data, name), folder,
                             arguments.steps)
            if arguments.write:
                continue
            output = subprocess.run([arguments.cep, "summarize", "--json", folder], check=True, capture_output=True)
            verdict = json.loads(output.stdout)["verdict"]
            replay = verdict["replay"]
            study = json.loads((arguments.data / f"result-{name}.json").read_text())
            workers = json.loads((arguments.data / f"mw-{name}.json").read_text())["Mw"]
            last_stage = json.loads((arguments.data / f"ms-{name}.json").read_text())["Ms"]
            print(f"| {name} | {replay['slowdown']:.3f} | {study['blocking_slowdown']:.3f} "
                  f"| {replay['slowest_ranks_share']:.3f} | {workers:.3f} | {replay['slowest_stage_share']:.3f} "
                  f"| {last_stage:.3f} | {1 + replay['error']:.4f} |")
            headlines.append(f"{name}: {verdict['headline']}")
    print("\n" + "\n".join(headlines))


if __name__ == "__main__":
    main()
