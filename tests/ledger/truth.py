# SPDX-License-Identifier: Apache-2.0
"""Where the time of a made job went, by looking at every instant between two events of its rows.

All begins and ends of a rank's spans cut its time into elementary intervals in which nothing changes. Each of them is
one piece: that of the highest kind of span that covers it; or, in no phase, what its place in the run makes it.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import numpy as np

PRECEDENCE = ("compute", "host_late", "transfer", "waiting", "bubble", "memory", "host_to_device", "data", "host",
              "checkpoint", "evaluation", "logging", "other")
PIECES = ("compute", "transfer", "waiting", "bubble", "memory", "host_to_device", "data", "host", "checkpoint",
          "evaluation", "logging", "other", "host_late", "uncovered", "startup", "between", "restart", "redone",
          "unrecorded")
OUTSIDE_STEPS = ("startup", "restart", "redone")
BESIDE_TRAINING = ("checkpoint", "evaluation")
STAYS_IN_FIRST_STEPS = ("data", "host_to_device", "checkpoint", "evaluation", "logging")

END_TOLERANCE_NS = 20_000  # between the ends of spans that end with the same work
MOST_FIRST_STEPS = 10
FIRST_STEP_FACTOR = 1.5  # of the median iteration
LEAST_STEPS = 8  # fewer do not tell what is usual

WORDS = {
    "host_to_device": ("h2d", "htod", "host to device", "to device"),
    "checkpoint": ("checkpoint", "ckpt", "save"),
    "evaluation": ("eval", "evaluation", "validation", "validate", "test"),
    "logging": ("log", "logging", "metrics", "wandb", "tensorboard"),
    "point_to_point": ("send", "recv", "p2p"),
}


def has_words(name, meaning):
    words = " " + " ".join(re.findall(r"[a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())) + " "
    return any(f" {phrase} " in words for phrase in WORDS[meaning])


def named_piece(name):
    return next((piece for piece in ("checkpoint", "evaluation", "logging") if has_words(name, piece)), None)


def piece_of(span):
    """The piece of a span of any kind but comm, whose pieces depend on the other ranks."""
    if span.kind in ("data", "memory") and has_words(span.name, "host_to_device"):
        return "host_to_device"
    if span.kind in ("host", "other"):
        return named_piece(span.name) or span.kind
    if span.kind == "compute" and span.paced:
        return "host_late"
    return span.kind


@dataclass
class RankTruth:
    rank: int
    elapsed_ns: int
    pieces: Counter
    steps: int
    most: dict  # phase: time in which it ran and nothing above it did
    least: dict  # the same, without time that it shares with other phases of its piece


@dataclass
class Truth:
    ranks: list
    steps: int
    elapsed_ms: float
    paid_step_ms: float
    mean_step_ms: float
    tokens_per_s: float = None
    mfu: float = None
    steady_step_ms: float = None

    def share(self, piece):
        """The share of a piece in the elapsed time of all ranks."""
        return sum(one.pieces[piece] for one in self.ranks) / sum(one.elapsed_ns for one in self.ranks)


def truth_of(job):
    shortest = shortest_of_collectives(job)
    enclosing = enclosing_step_names(job)
    parents = names_of_parents(job)
    pictures = [RankPicture(without_children(rows, parents), shortest, enclosing) for rows in job.ranks if rows.spans]
    slow_first = count_slow_first([picture.iteration_lengths() for picture in pictures])
    return figures(job, [picture.truth(slow_first) for picture in pictures])


def figures(job, ranks):
    steps = max(one.steps for one in ranks)
    elapsed_ns = sum(one.elapsed_ns for one in ranks) / len(ranks)
    in_steps_ns = elapsed_ns - sum(one.pieces[piece] for one in ranks for piece in OUTSIDE_STEPS) / len(ranks)
    beside_ns = [sum(one.pieces[piece] for piece in BESIDE_TRAINING) for one in ranks]
    of_most_ns = np.median(beside_ns)  # what a few ranks do for all counts as training
    steady_ns = in_steps_ns - sum(min(ns, of_most_ns) for ns in beside_ns) / len(ranks)
    truth = Truth(ranks, steps, elapsed_ns / 1e6, elapsed_ns / 1e6 / steps, in_steps_ns / 1e6 / steps)
    truth.steady_step_ms = steady_ns / 1e6 / steps
    if job.tokens_per_step:
        truth.tokens_per_s = job.tokens_per_step * steps / (elapsed_ns * 1e-9)
    if job.flops_per_step and job.peak_flops:
        truth.mfu = job.flops_per_step * steps / (elapsed_ns * 1e-9) / job.peak_flops
    return truth


def count_slow_first(ranks):
    """For each attempt: how many of its first iterations take far longer than is usual in the job.

    ``ranks``: for each, the lengths of its iterations by attempt. The job's iteration is the mean of its ranks'."""
    steps = max(sum(map(len, lengths.values())) for lengths in ranks)
    if steps < LEAST_STEPS:
        return {}
    jobs = {attempt: mean_of_lists([lengths.get(attempt, []) for lengths in ranks])
            for attempt in {attempt for lengths in ranks for attempt in lengths}}
    limit = FIRST_STEP_FACTOR * np.median([length for lengths in jobs.values() for length in lengths])
    most = min(MOST_FIRST_STEPS, max(1, steps // 10))
    slow = {}
    for attempt, lengths in jobs.items():
        usual = [place for place, length in enumerate(lengths) if length <= limit]
        slow[attempt] = min(most, len(lengths), usual[0] if usual else len(lengths))
    return slow


def mean_of_lists(lists):
    return [np.mean([one[i] for one in lists if i < len(one)]) for i in range(max(map(len, lists)))]


def collective_key(span):
    """Collectives without a number are matched by their name and index in the step."""
    number = (span.group, span.coll) if span.coll is not None else (span.name, span.seq)
    return (span.attempt, span.step, *number)


def shortest_of_collectives(job):
    """The transfer of each that two ranks and more were in: how long it took once all were there."""
    durations = defaultdict(list)
    for rows in job.ranks:
        for span in rows.spans:
            if span.kind == "comm":
                durations[collective_key(span)].append(span.end_ns - span.start_ns)
    return {key: min(of_ranks) for key, of_ranks in durations.items() if len(of_ranks) > 1}


def enclosing_step_names(job):
    """Names of step spans in which another span of their thread is nested, anywhere in the job."""
    names = {span.name for rows in job.ranks for span in rows.spans if span.kind == "step"}
    return {name for name in names if any(encloses(rows, name) for rows in job.ranks)}


def encloses(rows, name):
    parents = sorted((span for span in rows.spans if span.kind == "step" and span.name == name),
                     key=lambda one: one.start_ns)
    starts = [parent.start_ns for parent in parents]
    for span in rows.spans:
        at = bisect_right(starts, span.start_ns) - 1
        if at < 0 or span.name == name:
            continue
        if span.end_ns <= parents[at].end_ns and span.depth > parents[at].depth:
            return True
    return False


def names_of_parents(job):
    """Evaluations and checkpoints that hold all that is inside of them. One on a thread of its own does not: sooner or
    later a deeper span begins before it and ends inside of it."""
    inside, crossed = set(), set()
    for rows in job.ranks:
        for parent, spans in deeper_beside(rows):
            for span in spans:
                (inside if is_inside(span, parent) else crossed).add(parent.name)
    return inside - crossed


def deeper_beside(rows):
    """Each evaluation or checkpoint, and the deeper spans that run at any time of it."""
    spans = sorted(rows.spans, key=lambda one: one.start_ns)
    starts = [span.start_ns for span in spans]
    longest_ns = max(span.end_ns - span.start_ns for span in spans)
    for parent in spans:
        if piece_of(parent) in ("evaluation", "checkpoint"):
            first, last = bisect_right(starts, parent.start_ns - longest_ns), bisect_right(starts, parent.end_ns - 1)
            yield parent, [span for span in spans[first:last]
                           if span.end_ns > parent.start_ns and span.depth > parent.depth]


def is_inside(span, parent):
    return span.start_ns >= parent.start_ns - END_TOLERANCE_NS and span.end_ns <= parent.end_ns + END_TOLERANCE_NS


def without_children(rows, parents):
    """A rank whose evaluations and checkpoints are one phase with all that is inside of them."""
    children = {id(span) for parent, spans in deeper_beside(rows) if parent.name in parents
                for span in spans if is_inside(span, parent)}
    return replace(rows, spans=[span for span in rows.spans if id(span) not in children])


class RankPicture:
    """One rank's time, cut at all of its events."""

    def __init__(self, rows, shortest, enclosing):
        self.rows = rows
        self.layers = defaultdict(list)  # piece: intervals
        self.of_phases = defaultdict(list)  # (piece, phase): intervals
        self.steps = [span for span in rows.spans if span.kind == "step" and span.name in enclosing]
        self.phases = [span for span in rows.spans if not (span.kind == "step" and span.name in enclosing)]
        self._lay_comm(shortest)
        self._lay_local()
        self.runs = sorted(run.start_ns for run in rows.runs)
        self._cut()
        self._fill_iterations()

    def _lay_comm(self, shortest):
        self.comm = [span for span in self.phases if span.kind == "comm"]
        for span in self.comm:
            transfer_ns = shortest.get(collective_key(span), span.end_ns - span.start_ns)
            waits_until_ns = span.end_ns - transfer_ns
            waits_as = "bubble" if has_words(span.name, "point_to_point") else "waiting"
            self.layers[waits_as].append((span.start_ns, waits_until_ns))
            self.layers["transfer"].append((waits_until_ns, span.end_ns))

    def _lay_local(self):
        comm = sorted(self.comm, key=lambda one: one.start_ns)
        starts = [one.start_ns for one in comm]
        for span in self.phases:
            if span.kind == "comm":
                continue
            intervals = [(span.start_ns, span.end_ns)]
            if span.kind == "compute" and comm:
                intervals = self._computing(span, comm, starts)
            piece = "compute" if span.kind == "step" else piece_of(span)
            self.layers[piece] += intervals
            self.of_phases[piece, span.name] += intervals

    @staticmethod
    def _computing(span, comm, starts):
        """Its intervals without those in which it is blocked in communication inside of it."""
        left, at = [], span.start_ns
        for one in comm[bisect_right(starts, span.start_ns - 1):]:
            if one.start_ns >= span.end_ns:
                break
            nested = one.stream == span.stream and one.depth > span.depth
            ends_it = abs(span.end_ns - one.end_ns) <= END_TOLERANCE_NS
            if one.end_ns <= span.end_ns and (nested or ends_it):
                left.append((at, one.start_ns))
                at = max(at, one.end_ns)
        return [*left, (at, span.end_ns)]

    def _cut(self):
        spans = self.rows.spans
        self.end_ns = max(span.end_ns for span in spans)
        self.begin_ns = min([span.start_ns for span in spans] + self.runs[:1])
        events = [self.begin_ns, self.end_ns, *self.runs]
        events += [span.start_ns for span in spans] + [span.end_ns for span in spans]
        events += [edge for intervals in self.layers.values() for interval in intervals for edge in interval]
        times = np.unique(np.array(events, dtype=np.int64))
        self.times = times[(times >= self.begin_ns) & (times <= self.end_ns)]
        self.lengths = np.diff(self.times)

    def _covered(self, intervals):
        changes = np.zeros(len(self.times) + 1, dtype=np.int64)
        if intervals:
            edges = np.array([one for one in intervals if one[1] > one[0]], dtype=np.int64).reshape(-1, 2)
            np.add.at(changes, np.searchsorted(self.times, edges[:, 0]), 1)
            np.add.at(changes, np.searchsorted(self.times, edges[:, 1]), -1)
        return np.cumsum(changes)[:len(self.lengths)] > 0

    def _fill_iterations(self):
        self.winners = self._winners()
        self.by_iteration = defaultdict(Counter)  # (attempt, place, step): its pieces
        self.outside = Counter()
        self.iterations = self._iterations()
        for piece, length, iteration in zip(self.winners, self.lengths.tolist(), self.iterations):
            (self.outside if iteration is None else self.by_iteration[iteration])[piece] += length

    def iteration_lengths(self):
        lengths = defaultdict(list)
        for key in sorted(self.by_iteration):
            lengths[key[0]].append(sum(self.by_iteration[key].values()))
        return lengths

    def truth(self, slow_first):
        is_redone = self._find_redone()
        kept = {key: pieces for key, pieces in self.by_iteration.items() if not is_redone(key)}
        slow = [pieces for (attempt, place, _), pieces in kept.items() if place < slow_first.get(attempt, 0)]
        total = self.outside + sum(kept.values(), Counter())
        move_excess(total, slow, sum(kept.values(), Counter()), len(kept))
        total["redone"] = sum(sum(pieces.values()) for key, pieces in self.by_iteration.items() if is_redone(key))
        numbers = {span.step for span in self.rows.spans}
        return RankTruth(self.rows.rank, int(self.end_ns - self.begin_ns), total, max(numbers) - min(numbers) + 1,
                         *self._seen_of_phases(is_redone))

    def _seen_of_phases(self, is_redone):
        """The most and the least that is seen of each phase that is no communication, without steps done again."""
        most, least = Counter(), Counter()
        counts = np.array([iteration is None or not is_redone(iteration) for iteration in self.iterations])
        for piece in {piece for piece, _ in self.of_phases}:
            wins = np.array([one == piece for one in self.winners]) & counts
            covered = {name: self._covered(intervals) & wins for (of, name), intervals in self.of_phases.items()
                       if of == piece}
            alone = sum(one.astype(int) for one in covered.values()) == 1
            for name, one in covered.items():
                most[name] += int(self.lengths[one].sum())
                least[name] += int(self.lengths[one & alone].sum())
        return most, least

    def _winners(self):
        winners = self._outside()
        highest = np.full(len(self.lengths), -1)
        for place in reversed(range(len(PRECEDENCE))):
            highest[self._covered(self.layers[PRECEDENCE[place]])] = place
        for i, place in enumerate(highest.tolist()):
            if place >= 0:
                winners[i] = PRECEDENCE[place]
        self._name_gaps(winners)
        return winners

    def _outside(self):
        """What an instant is that no phase covers: by where it is in the run."""
        winners = ["between"] * len(self.lengths)
        inside = self._covered(self._extents())
        starts = {run.attempt: run.start_ns for run in self.rows.runs}
        lives = []
        for attempt, spans in self._attempts():
            first = min(span.start_ns for span in spans)
            lives.append((starts.get(attempt, first), first, max(span.end_ns for span in spans)))
        for i, at in enumerate(self.times[:-1].tolist()):
            if inside[i]:
                winners[i] = "gap"
            elif any(start <= at < first for start, first, _ in lives):
                winners[i] = "startup"
            elif not any(first <= at < last for _, first, last in lives):
                winners[i] = "restart"
        return winners

    def _attempts(self):
        spans = defaultdict(list)
        for span in self.rows.spans:
            spans[span.attempt].append(span)
        return sorted(spans.items())

    def _extents(self):
        """From a step's first row to its last."""
        extents = {}
        for span in self.rows.spans:
            first, last = extents.get((span.attempt, span.step), (span.start_ns, span.end_ns))
            extents[span.attempt, span.step] = (min(first, span.start_ns), max(last, span.end_ns))
        self.extents = extents
        return list(extents.values())

    def _name_gaps(self, winners):
        """A gap is late if the host launched, after it began, the span on the device that begins where it ends."""
        launches = {}
        for span in self.phases:
            if span.clock == "gpu" and span.lag_ns is not None:
                at = span.start_ns
                launches[at] = max(launches.get(at, 0), at - span.lag_ns)
        begin = None
        for i in range(len(winners) + 1):
            open_gap = i < len(winners) and winners[i] == "gap"
            if open_gap and begin is None:
                begin = i
            if not open_gap and begin is not None:
                launched = launches.get(int(self.times[i]))
                late = launched is not None and launched > int(self.times[begin])
                winners[begin:i] = ["host_late" if late else "uncovered"] * (i - begin)
                begin = None

    def _iterations(self):
        """For each elementary interval, (attempt, place, step) of the iteration that it is in, or None."""
        edges = []
        for attempt, spans in self._attempts():
            firsts = sorted((extent[0], key[1]) for key, extent in self.extents.items() if key[0] == attempt)
            edges += [(first, (attempt, place, step)) for place, (first, step) in enumerate(firsts)]
            edges.append((max(span.end_ns for span in spans), None))
        edges.sort(key=lambda one: one[0])
        starts = [edge[0] for edge in edges]
        found = []
        for at in self.times[:-1].tolist():
            place = bisect_right(starts, at) - 1
            found.append(edges[place][1] if place >= 0 else None)
        return found

    def _find_redone(self):
        firsts = {attempt: min(span.step for span in spans) for attempt, spans in self._attempts()}
        return lambda key: any(attempt > key[0] and first <= key[2] for attempt, first in firsts.items())


def move_excess(total, slow, all_pieces, steps):
    """Makes start-up of what slow first iterations have beyond a usual one."""
    usual = all_pieces - sum(slow, Counter())
    for pieces in slow:
        for piece in set(pieces) - set(STAYS_IN_FIRST_STEPS):
            excess = max(0, pieces[piece] - usual[piece] // (steps - len(slow)))
            total[piece] -= excess
            total["startup"] += excess
