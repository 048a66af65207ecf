# SPDX-License-Identifier: Apache-2.0
"""The rows of made jobs: spans, runs and marks of each rank, written as rank files. Times are whole nanoseconds."""

import json
from dataclasses import dataclass, field
from typing import Optional

START_NS = 1_763_700_000_000_000_000
MS = 1_000_000
SECOND = 1_000_000_000


@dataclass(slots=True)
class Span:
    name: str
    kind: str
    step: int
    start_ns: int
    end_ns: int
    clock: str = "gpu"
    attempt: int = 1
    depth: int = 1
    seq: int = 0
    stream: Optional[int] = 1
    lag_ns: Optional[int] = None
    host_ns: int = 200_000
    group: Optional[str] = None
    coll: Optional[int] = None
    nbytes: Optional[int] = None
    paced: bool = False  # its length is that of the host's work that launches it

    def line(self, rank, shift_ns):
        parts = [
            f'{{"name":"{self.name}","step":{self.step},"rank":{rank}'
            f',"duration_ms":{ms_text(self.end_ns - self.start_ns)},"start_ns":{self.start_ns + shift_ns}'
            f',"host_ms":{ms_text(self.host_ns)}'
        ]
        if self.lag_ns is not None:
            parts.append(f'"lag_ms":{ms_text(self.lag_ns)}')
        parts.append(f'"kind":"{self.kind}","clock":"{self.clock}","seq":{self.seq},"depth":{self.depth}')
        if self.clock == "gpu":
            parts.append(f'"device":0,"stream":{self.stream}')
        if self.nbytes is not None:
            parts.append(f'"bytes":{self.nbytes}')
        if self.coll is not None:
            parts.append(f'"group":"{self.group}","coll":{self.coll}')
        return ",".join(parts) + "}"


def ms_text(ns):
    """Milliseconds with all digits of the nanoseconds."""
    return f"{ns // MS}.{ns % MS:06d}"


@dataclass
class Run:
    start_ns: int
    attempt: int = 1
    meta: dict = field(default_factory=dict)


@dataclass
class RankRows:
    rank: int
    runs: list = field(default_factory=list)
    spans: list = field(default_factory=list)
    shift_ns: int = 0  # of the host's clock

    def lines(self, world_size, stride):
        """A run row before the rows of its attempt; spans in the order in which they end."""
        for attempt, spans in by_attempt(self.spans, self.runs):
            for run in self.runs:
                if run.attempt == attempt:
                    yield self.run_line(run, world_size, stride)
            for span in sorted(spans, key=lambda one: one.end_ns):
                yield span.line(self.rank, self.shift_ns)

    def run_line(self, run, world_size, stride):
        return json.dumps({
            "type": "run", "schema": 1, "run_id": "made", "attempt": run.attempt, "rank": self.rank,
            "world_size": world_size, "local_rank": self.rank, "host": f"node{self.rank // 4}",
            "pid": 1000 * run.attempt + self.rank, "backend": "cuda", "device_name": "made device",
            "device_uuid": f"GPU-{self.rank}", "driver_version": 13000, "library_version": "0.1.0",
            "start_unix_ns": run.start_ns + self.shift_ns, "clock_error_ns": 2000,
            "config": {"start_step": 0, "end_step": None, "record_every_n_steps": stride, "ranks": None},
            **run.meta,
        })


def by_attempt(spans, runs):
    attempts = sorted({span.attempt for span in spans} | {run.attempt for run in runs})
    return [(attempt, [span for span in spans if span.attempt == attempt]) for attempt in attempts]


@dataclass
class Job:
    """``closed_form``: for each rank the nanoseconds of each piece, where the generator knows them without its rows."""

    name: str
    ranks: list
    world_size: int
    stride: int = 1
    tokens_per_step: Optional[float] = None
    flops_per_step: Optional[float] = None
    peak_flops: Optional[float] = None
    closed_form: Optional[list] = None
    whole: Optional["Job"] = None  # the job with all rows, of which these are some
    damaged: bool = False

    def write(self, folder):
        folder.mkdir(parents=True)
        for rows in self.ranks:
            text = "\n".join(rows.lines(self.world_size, self.stride)) + "\n"
            (folder / f"cuda_events_rank_{rows.rank}.jsonl").write_text(text)
        return folder
