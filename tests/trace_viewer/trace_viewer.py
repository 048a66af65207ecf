#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what Perfetto's trace processor takes a trace of `cep trace` for with the rows.

    python3 tests/trace_viewer/trace_viewer.py --cep build/tools/cep [DIRECTORY ...]

The trace processor is the WebAssembly of Perfetto's own page; tools/dependencies.sh brings it in, and Node runs it. Without
directories, jobs are simulated, and recordings of real
trainings are read. Slices, their nesting, arguments, counters, marks, arrows and names are compared, and errors of the
import are shown; status 1 if any differs, 77 if the trace processor is missing.
"""

import argparse
import bisect
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

SKIPPED = 77
FOLDER = Path(__file__).parent
PERFETTO = FOLDER / "perfetto"
SHOWN_ELSEWHERE = ("type", "name", "rank", "start_ns", "duration_ms")
AXES = ("dp", "tp", "pp", "cp")

SCENARIOS = {
    "data_parallel": {"ranks": 8, "steps": 30, "events": [{"type": "checkpoint", "step": 10}]},
    "tensor_and_pipeline": {"ranks": 8, "tp": 2, "pp": 2, "steps": 20, "plain_groups": True},
    "overlapping": {"ranks": 4, "steps": 20, "overlap": 0.9, "buckets": 6},
    "skewed_and_lossy": {"ranks": 6, "ranks_per_host": 2, "steps": 20, "clock_skew_ms": 3, "drop_fraction": 0.05,
                         "missing_ranks": [4]},
}

RECORDINGS = [FOLDER.parent / "data" / name for name in ("trainings/pipeline_stage.jsonl.zst",
                                                          "published/slow_worker.jsonl.zst")]


def rows_of(cep, directory):
    merged = subprocess.run([cep, "merge", directory], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return [json.loads(line) for line in merged.stdout.splitlines()]


def nanoseconds(milliseconds):
    return round(milliseconds * 1e6)


def text_of(arguments):
    """The same for numbers that Perfetto does not distinguish: the last bit of a fraction."""
    def twelve_digits(text):
        return float(f"{float(text):.12g}")
    return json.dumps(json.loads(json.dumps(arguments), parse_int=float, parse_float=twelve_digits), sort_keys=True)


class Comparison:
    """Compares one trace with its rows."""

    def __init__(self, rows, trace, found):
        base_ns = int(json.loads(trace)["otherData"]["base_unix_ns"])
        self.start_ns = lambda event: base_ns + nanoseconds(event["start"])
        self.found = found
        self.differences = []
        shifts = self.take_shifts()
        for row in rows:
            of_rank = shifts.get(row.get("rank"), [])
            if "start_ns" in row and of_rank:
                place = bisect.bisect_right(of_rank, (row["start_ns"], float("inf")))
                row["start_ns"] += of_rank[max(0, place - 1)][1]
        self.spans = [row for row in rows if "type" not in row]
        self.other = defaultdict(list)
        for row in rows:
            self.other[row.get("type")].append(row)

    def take_shifts(self):
        """By rank, in order: the start of each slice as it was written, and by what the trace set its clock right. The
        argument that says so is taken out."""
        shifts = defaultdict(list)
        for slice_ in self.found["slices"]:
            start_ns = self.start_ns(slice_)
            written_ns = int(slice_["args"].pop("written_start_ns", start_ns))
            shifts[slice_["pid"]].append((written_ns, start_ns - written_ns))
        return {rank: sorted(of_rank) for rank, of_rank in shifts.items()}

    def expect(self, what, found, wanted):
        found, wanted = Counter(found), Counter(wanted)
        missing, extra = wanted - found, found - wanted
        if missing or extra:
            examples = f"missing {list(missing)[:2]}, not in the rows {list(extra)[:2]}"
            self.differences.append(f"{what}: {missing.total()} missing, {extra.total()} too many; {examples}")
        return wanted.total()

    def slices(self):
        def arguments(row):
            return text_of({key: value for key, value in row.items() if key not in SHOWN_ELSEWHERE})
        return self.expect(
            "slices",
            [(s["pid"], s["name"], self.start_ns(s), nanoseconds(s["duration"]), s["category"],
              text_of(s["args"])) for s in self.found["slices"] if not s["args"].get("open")],
            [(r["rank"], r["name"], r["start_ns"], nanoseconds(r["duration_ms"]), r.get("kind", "other"), arguments(r))
             for r in self.spans])

    def nesting(self):
        """A slice lies in its parent, which is the shortest that it lies in; rows say so by their depths."""
        slices = self.found["slices"]
        depths = 0
        for slice_ in slices:
            if slice_["parent"] is None:
                continue
            parent = slices[slice_["parent"]]
            begin, end = self.start_ns(slice_), self.start_ns(slice_) + nanoseconds(slice_["duration"])
            outer_begin, outer_end = self.start_ns(parent), self.start_ns(parent) + nanoseconds(parent["duration"])
            if not (outer_begin <= begin and end <= outer_end and slice_["tid"] == parent["tid"]):
                self.differences.append(f"nesting: {slice_} is not inside of {parent}")
            depth, outer_depth = slice_["args"].get("depth"), parent["args"].get("depth")
            if None not in (depth, outer_depth):
                depths += 1
                if depth < outer_depth:
                    self.differences.append(f"depth: {slice_} in {parent}")
        self.overlaps()
        return depths

    def overlaps(self):
        """No two slices of a thread overlap partly, and each that lies in another is below it."""
        threads = defaultdict(list)
        for slice_ in self.found["slices"]:
            begin = self.start_ns(slice_)
            threads[slice_["tid"]].append((begin, -begin - nanoseconds(slice_["duration"]), slice_["depth"]))
        for tid, slices in threads.items():
            ends = []
            for begin, minus_end, depth in sorted(slices):
                while ends and (ends[-1] < -minus_end if -minus_end > begin else ends[-1] <= begin):
                    if ends[-1] > begin:
                        self.differences.append(f"thread {tid}: slices overlap at {begin}")
                    ends.pop()
                if depth > len(ends):
                    self.differences.append(f"thread {tid}: at {begin} a slice is at depth {depth}, not {len(ends)}")
                ends.append(-minus_end)

    def counters(self):
        return self.expect(
            "counters",
            [(c["pid"], c["name"], self.start_ns(c), c["value"]) for c in self.found["counters"]],
            [(r["rank"], r["name"], r["start_ns"], r["value"]) for r in self.other["counter"]])

    def marks(self):
        return self.expect(
            "marks", [(m["pid"], m["name"], self.start_ns(m), m["args"].get("step")) for m in self.found["marks"]],
            [(r["rank"], r["name"], r["start_ns"], r["step"]) for r in self.other["mark"]])

    def arrows(self):
        """The members of a collective are joined in the order of their starts, those with one start in any order."""
        axes = {row["rank"]: [row.get(axis) for axis in AXES] for row in self.other["run"]}
        members = defaultdict(list)
        for row in self.spans:
            if "coll" not in row:
                continue
            group = row.get("group")
            place = ()
            if group in AXES:
                place = tuple(value for axis, value in zip(AXES, axes[row["rank"]]) if axis != group)
            members[group, row["coll"], row["step"], place].append((row["start_ns"], row["rank"], row["name"]))
        wanted, ranks_of = [], {}
        for starts in members.values():
            starts.sort(key=lambda member: member[:2])
            for start_ns, rank, name in starts:
                same_start = tuple(other for other_ns, other, _ in starts if other_ns == start_ns)
                ranks_of[start_ns, rank, name] = (start_ns, same_start, name)
            wanted += [(ranks_of[a], ranks_of[b]) for a, b in zip(starts, starts[1:])]
        slices = self.found["slices"]

        def member(place):
            one = self.start_ns(slices[place]), slices[place]["pid"], slices[place]["name"]
            return ranks_of.get(one, one)
        return self.expect("arrows", [(member(f["from"]), member(f["to"])) for f in self.found["flows"]], wanted)

    def names(self):
        hosts = {row["rank"]: row.get("host") for row in self.other["run"]}
        ranks = {row["rank"] for row in self.spans}
        self.expect("processes", [(p["pid"], p["name"], p["sort"]) for p in self.found["processes"]],
                    [(rank, f"rank {rank} ({hosts[rank]})" if hosts.get(rank) else f"rank {rank}", rank) for rank in ranks])
        streams = Counter()
        for slice_ in self.found["slices"]:
            thread = next(t for t in self.found["threads"] if t["tid"] == slice_["tid"])
            stream = slice_["args"].get("stream")
            where = "host clock" if stream is None else f"device {slice_['args']['device']} stream {stream}"
            if thread["name"].split(",")[0] != where:
                self.differences.append(f"thread {thread}: has a span of {where}")
            streams[thread["tid"]] += 1
        return len(streams)

    def run(self):
        counts = {name: getattr(self, name)() for name in ("slices", "nesting", "counters", "marks", "arrows", "names")}
        self.differences += [f"warning: {warning}" for warning in self.found["warnings"]]
        return counts


def compare(cep, directory, folder):
    trace = folder / "trace.json"
    subprocess.run([cep, "trace", "--all", "-o", trace, directory], check=True, stderr=subprocess.DEVNULL)
    # To optimise the WebAssembly would take several times as long as to run it.
    node = ["node", "--liftoff-only", FOLDER / "import_perfetto.mjs", PERFETTO]
    found = subprocess.run([*node, trace], stdout=subprocess.PIPE, check=True).stdout
    comparison = Comparison(rows_of(cep, directory), trace.read_bytes(), json.loads(found))
    counts = comparison.run()
    print(f"{Path(directory).name}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())
          + f"; {len(comparison.differences)} differences")
    for difference in comparison.differences[:10]:
        print("   ", difference)
    return not comparison.differences


def has_viewer():
    if shutil.which("node") is None:
        print("skipped: node is missing")
        return False
    if not (PERFETTO / "trace_processor.wasm").exists():
        print("skipped: Perfetto's trace processor is missing")
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cep", default="cep")
    parser.add_argument("directories", nargs="*")
    arguments = parser.parse_args()
    if not has_viewer():
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        directories = arguments.directories
        for job, scenario in SCENARIOS.items() if not directories else ():
            path = folder / f"{job}.json"
            path.write_text(json.dumps(scenario | {"record_every": 1}))
            subprocess.run([arguments.cep, "simulate", "-o", folder / job, "--scenario", path], check=True,
                           stdout=subprocess.DEVNULL)
        directories = directories or [*(folder / job for job in SCENARIOS), *RECORDINGS]
        results = [compare(arguments.cep, directory, folder) for directory in directories]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
