# SPDX-License-Identifier: Apache-2.0
"""What `cep simulate` wrote."""

import json
from collections import defaultdict

import numpy as np

FAULT = {"rank": 3, "phase": "forward", "slowdown": 1.5}
QUIET = {"noise": 0, "host_noise": 0, "transfer_noise": 0}


class Simulation:
    """What a directory of simulated files holds."""

    def __init__(self, folder):
        self.folder = folder
        self.truth = json.loads((folder / "truth.json").read_text())
        self.rows = []
        for path in sorted(folder.glob("cuda_events_rank_*.jsonl")):
            self.rows += [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        self.spans = [row for row in self.rows if "type" not in row]
        self.runs = {row["rank"]: row for row in self.rows if row.get("type") == "run"}

    def durations(self, name):
        """Milliseconds by rank and step, summed over a step."""
        sums = defaultdict(float)
        for span in self.spans:
            if span["name"] == name:
                sums[span["rank"], span["step"]] += span["duration_ms"]
        ranks = sorted({rank for rank, _ in sums})
        steps = sorted({step for _, step in sums})
        return np.array([[sums[rank, step] for step in steps] for rank in ranks])

    def true_start_ns(self, span):
        """The start of a span from the start of the job, by a clock that is right."""
        clock = {clock["host"]: clock for clock in self.truth["clocks"]}[self.runs[span["rank"]]["host"]]
        return (span["start_ns"] - self.truth["start_unix_ns"] - clock["offset_ns"]) / (1 + clock["drift_ppm"] * 1e-6)

    def job_ms(self):
        return max(self.true_start_ns(span) * 1e-6 + span["duration_ms"] for span in self.spans)

    def collectives(self):
        groups = defaultdict(list)
        for span in self.spans:
            if "coll" in span:
                groups[span["group"], span["coll"]].append(span)
        return groups

    def contents(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}
