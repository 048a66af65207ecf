# SPDX-License-Identifier: Apache-2.0
"""Makes jobs phase by phase, and keeps account of what each nanosecond was spent on while it does.

A line of time for each rank goes from phase to phase. What lies beside it, hidden, is a row that costs nothing. Ranks
come to a collective at their own times and leave it together. The account (closed form) never looks at the rows.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from rows import MS, SECOND, START_NS, Job, RankRows, Run, Span
from truth import STAYS_IN_FIRST_STEPS, count_slow_first


@dataclass
class Iteration:
    attempt: int
    step: int
    pieces: Counter = field(default_factory=Counter)


class Line:
    """One rank: the time that it has come to, its rows, and its account."""

    def __init__(self, rank, rng, start_ns=START_NS):
        self.rows = RankRows(rank)
        self.rng = rng
        self.now = start_ns
        self.host_end = start_ns  # of what the host did last: it launches nothing meanwhile
        self.attempt = 0
        self.outside = Counter()
        self.iterations = []
        self.step = None

    def begin_run(self, startup_ns, meta, *, lost_ns=0):
        """A run row, and ``startup_ns`` until the first step. ``lost_ns``: from the end of the run before."""
        if self.attempt:
            self.outside["restart"] += lost_ns
            self.now += lost_ns
        self.attempt += 1
        self.rows.runs.append(Run(self.now, self.attempt, meta))
        self.now += startup_ns
        self.outside["startup"] += startup_ns

    def begin_step(self, step):
        self.step = step
        self.seqs = Counter()
        self.iterations.append(Iteration(self.attempt, step))

    def charge(self, piece, ns):
        self.iterations[-1].pieces[piece] += ns

    def idle(self, ns, piece):
        self.now += ns
        self.charge(piece, ns)

    def row(self, name, kind, start_ns, end_ns, clock="gpu", **more):
        """A row; it moves no time and charges nothing."""
        span = Span(name, kind, self.step, start_ns, end_ns, clock, self.attempt, seq=self.seqs[name])
        self.seqs[name] += 1
        if clock == "gpu":
            span.lag_ns = min(self.rng.randrange(200_000, 3 * MS), max(0, start_ns - self.host_end))
            span.host_ns = min(span.host_ns, (end_ns - start_ns) // 3)
        else:
            span.stream, span.host_ns = None, end_ns - start_ns
        for key, value in more.items():
            setattr(span, key, value)
        self.rows.spans.append(span)
        return span

    def phase(self, name, kind, ns, piece, **more):
        span = self.row(name, kind, self.now, self.now + ns, **more)
        self.now += ns
        self.charge(piece, ns)
        if span.clock == "host":
            self.host_end = self.now
        return span

    def host(self, name, kind, ns, piece, **more):
        return self.phase(name, kind, ns, piece, clock="host", **more)

    def lengths(self):
        """The time of its iterations, by attempt."""
        return {attempt: [sum(one.pieces.values()) for one in self.iterations if one.attempt == attempt]
                for attempt in range(1, self.attempt + 1)}

    def account(self, slow_first):
        """What each nanosecond was spent on. ``slow_first``: iterations of each attempt that are start-up in part."""
        total, slow, usual = Counter(self.outside), [], []
        for attempt in range(1, self.attempt + 1):
            later = [one.step for one in self.iterations if one.attempt > attempt]
            own = [one for one in self.iterations if one.attempt == attempt]
            for place, one in enumerate(own):
                if later and one.step >= min(later):
                    total["redone"] += sum(one.pieces.values())
                else:
                    total.update(one.pieces)
                    (slow if place < slow_first.get(attempt, 0) else usual).append(one.pieces)
        for pieces in slow:
            for piece, ns in pieces.items():
                if piece not in STAYS_IN_FIRST_STEPS:
                    excess = max(0, ns - sum(one[piece] for one in usual) // len(usual))
                    total[piece] -= excess
                    total["startup"] += excess
        return Counter({piece: ns for piece, ns in total.items() if ns})


class Maker:
    """The ranks of a job, and what they do together."""

    def __init__(self, ranks, seed, **meta):
        self.rng = random.Random(seed)
        self.meta = meta
        self.lines = [Line(rank, self.rng) for rank in range(ranks)]
        self.colls = Counter()

    def jitter(self, ns, sigma=0.01):
        return max(1000, round(ns * self.rng.gauss(1, sigma)))

    def begin_run(self, startup_ns=0, **more):
        for line in self.lines:
            line.begin_run(startup_ns, {**self.meta, **self.place(line.rows.rank)}, **more)

    def place(self, rank):
        return {}

    def collective(self, name, transfer_ns, lines=None, *, group="world", pieces=("waiting", "transfer"), **more):
        """All come at their own times, and leave together when the last one has come and the transfer is done."""
        lines = lines or self.lines
        coll = self.colls[group]
        self.colls[group] += 1
        last_ns = max(line.now for line in lines)
        for line in lines:
            line.row(name, "comm", line.now, last_ns + transfer_ns, group=group, coll=coll,
                     nbytes=transfer_ns * 100, **more)
            line.charge(pieces[0], last_ns - line.now)
            line.charge(pieces[1], transfer_ns)
            line.now = last_ns + transfer_ns

    def accounts(self):
        slow_first = count_slow_first([line.lengths() for line in self.lines])
        return [line.account(slow_first) for line in self.lines]

    def job(self, name, **more):
        return Job(name, [line.rows for line in self.lines], len(self.lines),
                   tokens_per_step=self.meta.get("tokens_per_step"), flops_per_step=self.meta.get("flops_per_step"),
                   peak_flops=self.meta.get("peak_flops"), closed_form=self.accounts(), **more)


def sampled(job, stride):
    """The job as it is recorded at a stride."""
    ranks = [replace(rows, spans=[span for span in rows.spans if span.step % stride == 0]) for rows in job.ranks]
    return replace(job, ranks=ranks, stride=stride, closed_form=None, whole=job)


def without_rows(job, share, rng):
    """A share of all rows is lost, also of run rows."""
    ranks = [replace(rows, spans=[span for span in rows.spans if rng.random() >= share],
                     runs=[run for run in rows.runs if rng.random() >= share]) for rows in job.ranks]
    return replace(job, ranks=[rows for rows in ranks if rows.spans], closed_form=None, whole=job, damaged=True)


def without_files(job, share, rng):
    kept = rng.sample(job.ranks, max(1, round(len(job.ranks) * (1 - share))))
    return replace(job, ranks=sorted(kept, key=lambda rows: rows.rank), closed_form=None, whole=job, damaged=True)


def with_clocks_apart(job, rng):
    """Host clocks that are seconds apart. It changes no length."""
    for rows in job.ranks:
        rows.shift_ns = rng.randrange(-5 * SECOND, 5 * SECOND)
    return job
