# SPDX-License-Identifier: Apache-2.0
"""The rows of made jobs: spans, runs and marks of each rank, written as rank files. Times are whole nanoseconds."""

from dataclasses import dataclass, field
from typing import Optional

from rank_files import MS, START_NS, gpu_run_row, line_of, write_lines  # noqa: F401

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
        return line_of(gpu_run_row(self.rank, world_size=world_size, attempt=run.attempt, local_rank=self.rank,
                                   start_unix_ns=run.start_ns + self.shift_ns, stride=stride, **run.meta))


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
        for rows in self.ranks:
            write_lines(folder, rows.rank, rows.lines(self.world_size, self.stride))
        return folder
