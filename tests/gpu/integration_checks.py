# SPDX-License-Identifier: Apache-2.0
"""What torch_integration.py checks of the rows of its trainings, on rank 0."""

import collections
import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path

SLOW_RANK = 1
PHASES = ("data_load", "host_to_device", "forward", "backward", "optimizer")


def rows_of(folder, rank):
    path = Path(folder) / "cuda_event_profiler" / f"cuda_events_rank_{rank}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def spans_of(rows):
    return [row for row in rows if "type" not in row]


def collectives_of(rows):
    found = {(row["group"], row["coll"]): row for row in spans_of(rows) if "coll" in row}
    assert len(found) == sum("coll" in row for row in spans_of(rows)), "an index is given twice"
    return found


def check_collectives(report, title, every_rank, clock, names):
    by_rank = [collectives_of(rows) for rows in every_rank]
    same = all(one.keys() == by_rank[0].keys() for one in by_rank)
    report.check(f"{title}: all ranks have the same (group, coll)", same, f"{len(by_rank[0])} of them")
    agree = same and all(
        len({(one[key]["name"], one[key].get("bytes"), one[key]["step"]) for one in by_rank}) == 1 for key in by_rank[0]
    )
    report.check(f"{title}: op, bytes and step of each agree", agree, ", ".join(sorted(names)))
    rows = [row for one in by_rank for row in one.values()]
    found = {row["name"] for row in rows}
    report.check(f"{title}: the collectives are {', '.join(sorted(names))}", found == names, ", ".join(sorted(found)))
    report.check(f"{title}: timed on the {clock} clock", {row["clock"] for row in rows} == {clock})
    positive = all(row["duration_ms"] > 0 and "error" not in row for row in rows)
    report.check(f"{title}: each lasts longer than nothing, without an error", positive)
    report_waiting(report, title, by_rank)


def report_waiting(report, title, by_rank):
    """Transfer is the least of the ranks' durations of a collective; the rest of each is waiting."""
    waits = [0.0] * len(by_rank)
    transfer_ms = 0.0
    for key in by_rank[0]:
        durations = [one[key]["duration_ms"] for one in by_rank if key in one]
        transfer_ms += min(durations)
        for rank, duration in enumerate(durations):
            waits[rank] += duration - min(durations)
    text = f"waits {', '.join(f'{wait:.1f}' for wait in waits)} ms; transfer {transfer_ms:.1f} ms"
    report.check(f"{title}: the slow rank {SLOW_RANK} waits least", min(waits) == waits[SLOW_RANK], text)


def check_phases(report, title, every_rank, steps):
    for name in PHASES:
        found = [{row["step"] for row in spans_of(rows) if row["name"] == name} for rows in every_rank]
        report.check(f"{title}: {name} in each recorded step on all ranks", all(one == set(steps) for one in found))


def check_buckets_in_backward(report, every_rank):
    inside = outside = 0
    for rows in every_rank:
        backward = {row["step"]: row for row in spans_of(rows) if row["name"] == "backward"}
        for row in collectives_of(rows).values():
            if row["name"] == "barrier":
                continue
            whole = backward[row["step"]]
            late_ns = row["start_ns"] + row["duration_ms"] * 1e6 - whole["start_ns"] - whole["duration_ms"] * 1e6
            within = row["start_ns"] >= whole["start_ns"] - 1e5 and late_ns <= 1e5
            inside, outside = inside + within, outside + (not within)
    text = f"{inside} in, {outside} out"
    report.check("DDP: buckets are reduced within the backward (to 0.1 ms)", outside == 0, text)


def check_buckets(report, rows, steps):
    """Of steps after those in which DDP makes its buckets anew."""
    rows = sorted((row for row in spans_of(rows) if row["name"] == "all_reduce" and row["step"] in steps), key=lambda row: row["start_ns"])
    sizes = {tuple(row["bytes"] for row in rows if row["step"] == step) for step in steps}
    report.check("buckets: as many rows, of as many bytes, in each step", len(sizes) == 1 and sizes != {()}, str(sizes))
    apart_ns = [after["start_ns"] - row["start_ns"] - row["duration_ms"] * 1e6 for row, after in zip(rows, rows[1:])]
    report.check("buckets: one behind the other, without an error", min(apart_ns) > -2e4 and not any("error" in row for row in rows))


def check_memory(report, every_rank, steps):
    for rows in every_rank:
        counters = collections.defaultdict(dict)
        for row in rows:
            if row.get("type") == "counter":
                counters[row["name"]][row["step"]] = row["value"]
        allocated, reserved = counters["memory.allocated_bytes"], counters["memory.reserved_bytes"]
        seen = list(allocated)
        sane = seen[:1] == steps[:1] and set(seen) <= set(steps) and all(0 < allocated[step] <= reserved[step] for step in seen)
        if not sane:
            break
    report.check("DDP: memory counters from the first recorded step on, allocated <= reserved", sane, f"{len(counters)} counters")


def check_no_loss(report, title, every_rank):
    stats = [[row for row in rows if row.get("type") == "stats"][-1] for rows in every_rank]
    causes = ("capture_skipped", "cuda_errors", "abandoned", "open")
    lost = sum(sum(one["dropped"].values()) + sum(one[cause] for cause in causes) for one in stats)
    report.check(f"{title}: nothing lost, left open or failed", lost == 0)


def check_async(report, rows, truth_ms, elements):
    found = [row["duration_ms"] for row in spans_of(rows)]
    ratio = statistics.median(found[3:]) / statistics.median(truth_ms[3:])
    text = f"{statistics.median(found[3:]):.3f} ms, by events {statistics.median(truth_ms[3:]):.3f} ms"
    report.check(f"async all_reduce of {elements * 4 >> 20} MiB is measured (0.8 to 1.05)", 0.8 <= ratio <= 1.05, text)


def check_messages(report, every_rank):
    by_rank = [collectives_of([row for row in rows if row.get("name") == "send_recv"]) for rows in every_rank]
    same = all(one.keys() == other.keys() and len(one) == 20 for one, other in zip(by_rank[::2], by_rank[1::2]))
    report.check("batches: both ranks of a pair have the same (group, coll)", same, f"{len(by_rank[0])} of them")
    apart_ms = [
        (row["start_ns"] - other[key]["start_ns"]) / 1e6 + row["duration_ms"] - other[key]["duration_ms"]
        for one, other in zip(by_rank[::2], by_rank[1::2])
        for key, row in one.items()
        if key in other
    ]
    middle_ms = statistics.median(map(abs, apart_ms))
    report.check("batches: both ranks end together (0.1 ms)", middle_ms < 0.1, f"{middle_ms:.3f} ms apart (median)")
    waits_ms = [row["duration_ms"] for row in by_rank[0].values() if row["bytes"] == 1 << 22]
    report.check("batches: a rank waits for the other (5 ms)", statistics.median(waits_ms) > 5,
                 f"{statistics.median(waits_ms):.3f} ms (median)")


def check_verdict(report, title, folder):
    command = os.environ.get("TEST_CEP_COMMAND") or shutil.which("cep")
    if not command:
        report.note(f"{title}: no cep command found", "")
        return
    done = subprocess.run([command, "summarize", "--json", str(folder)], capture_output=True, text=True)
    summary = json.loads(done.stdout) if done.returncode == 0 else None
    if summary is None:
        report.note(f"{title}: cep summarize gave no verdict", done.stderr.strip()[-200:])
        return
    verdict = summary["verdict"]
    named = [(one["rank"], one["phase"]) for one in verdict["stragglers"]]
    named += [(group["typical"]["rank"], group["typical"]["phase"]) for group in verdict["groups"]]  # of two ranks, one
    right = bool(named) and named[0][0] == SLOW_RANK
    report.check(f"{title}: cep summarize names rank {SLOW_RANK} first", right, str(named))


def check_traces(report, folder, complaints):
    found = sorted(path.name for path in Path(folder).glob("*"))
    traces = [name for name in found if name.endswith("_trace.json")]
    listed = [f"rank_{rank}_trace.json" for rank in (0, SLOW_RANK)]
    report.check("build_profiler: a trace of each listed rank", traces == listed, ", ".join(found))
    written = "written" if "summary.md" in found else "; ".join(complaints) or "not written"
    report.note("build_profiler: summary.md", written)


def check_summary(report, summary):
    text = str(summary)[:110] if summary else "none"
    right = summary is not None and (summary.straggler, summary.phase) == (SLOW_RANK, "data_load")
    report.check(f"gather: the live summary names rank {SLOW_RANK} and data_load", right, text)
