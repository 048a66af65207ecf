# SPDX-License-Identifier: Apache-2.0
"""Rows that are missing or odd on one rank, on its peers, on another, or on all. What happened is the same."""

import json

import numpy as np
from jobs import Simulated, kinds
from rank_files import line_of, rank_path, write_lines

JOBS = ("healthy ddp", "healthy fsdp", "healthy tensor", "healthy pipeline", "healthy experts", "healthy accumulation",
        "ddp slow rank", "ddp slow rank, not joined", "ddp slow loader", "ddp slow from the middle", "fsdp slow rank",
        "tensor slow rank", "pipeline slow rank", "experts slow rank", "accumulation slow rank", "uneven pipeline",
        "routed experts")
SCOPES = {"": lambda rank, one: True, " of one rank": lambda rank, one: rank == one,
          " of its peers": lambda rank, one: rank != one, " of another rank": lambda rank, one: rank == one ^ 1}


NOT_RECORDED = set(np.random.default_rng(0).permutation(100)[:50])


def without(*keys):
    return lambda row, rng: {key: value for key, value in row.items() if key not in keys}


def changed(key, change):
    return lambda row, rng: {**row, key: change(row[key])} if key in row else row


def dropped(condition):
    return lambda row, rng: None if condition(row, rng) else row


EDITS = {
    "no rows of collectives": dropped(lambda row, rng: row.get("kind") == "comm"),
    "no row of the first collective of a step": dropped(lambda row, rng: row.get("kind") == "comm" and row["seq"] == 0),
    "no run row": dropped(lambda row, rng: row.get("type") == "run"),
    "half of the steps": dropped(lambda row, rng: row.get("step", 0) in NOT_RECORDED),
    "second half of the steps": dropped(lambda row, rng: "step" in row and row["step"] < 50),
    "30 % of the rows lost": dropped(lambda row, rng: rng.random() < 0.3),
    "no coll": without("coll"),
    "other coll": changed("coll", lambda coll: coll + 7),
    "no group": without("group"),
    "other group": changed("group", lambda group: group + "b"),
    "no stream": without("stream", "device"),
    "no kind": without("kind"),
    "no start": without("start_ns"),
    "a clock an hour off": changed("start_ns", lambda ns: ns + 3600 * 10**9),
    "no host times": without("host_ms", "lag_ms", "depth"),
}


class DamagedJob:
    def __init__(self, name, folder):
        kind, = (kind for kind in kinds() if kind.name == name)
        self.simulated, self.folder = Simulated(kind, 0), folder
        self.simulated.write(folder, "full")
        self.lines = [rank_path(folder, rank).read_text(encoding="utf-8").splitlines()
                      for rank in range(self.simulated.program.ranks)]
        self.rows = [list(map(json.loads, lines)) for lines in self.lines]
        self.one = kind.named[0] if kind.named else 1

    def edits(self):
        """By name: all that change these rows, those above and each phase without rows."""
        phases = {row["name"] for row in self.rows[self.one] if "duration_ms" in row and row.get("kind") != "comm"}
        gone = {f"no {phase}": dropped(lambda row, rng, phase=phase: row.get("name") == phase) for phase in sorted(phases)}
        return {**EDITS, **gone}

    def names(self):
        return [edit + scope for edit in self.edits() for scope in SCOPES]

    def write(self, name):
        (edit, is_in_scope), = ((edit, is_in_scope) for of, edit in self.edits().items()
                                for scope, is_in_scope in SCOPES.items() if of + scope == name)
        rng = np.random.default_rng(1)
        for rank, lines in enumerate(self.lines):
            if is_in_scope(rank, self.one):
                lines = [line_of(row) for row in (edit(row, rng) for row in self.rows[rank]) if row]
            write_lines(self.folder, rank, lines)
