# SPDX-License-Identifier: Apache-2.0
"""A step of a job as operations on streams, and the times at which they begin and end.

An operation begins when the one before it on its stream and those that it waits for have ended. The members of a
collective end together, when the last one has begun and the transfer is done. Durations are given from outside, one for
each operation and step, so that the same step can be run with a fault and without. Nothing here is shared with the replay
in the command.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

MAIN, COMM, RECV, SEND, BACK, HOST = 1, 2, 3, 4, 5, None
LAUNCH = "launch"  # of what the host does: an operation begins no sooner than that


def schedule(stage, stages, micro_batches, chunks=1):
    """(backward, chunk, micro-batch) in the order of one forward, one backward, interleaved where there are chunks."""
    total = micro_batches * chunks

    def task(number, backward):
        chunk = number % (stages * chunks) // stages if chunks > 1 else 0
        micro = number // (stages * chunks) * stages + number % stages if chunks > 1 else number
        return backward, chunks - 1 - chunk if backward else chunk, micro

    ahead = min(total, (stages - stage - 1) * 2 + (chunks - 1) * stages if chunks > 1 else stages - stage - 1)
    tasks = [task(number, False) for number in range(ahead)]
    for number in range(total - ahead):
        tasks += [task(number + ahead, False), task(number, True)]
    return tasks + [task(number, True) for number in range(total - ahead, total)]


@dataclass
class Op:
    rank: int
    stream: object
    phase: str
    ms: float
    after: list
    part: tuple = ()  # what tells it from other operations of the phase: micro-batch, layer
    meeting: object = None
    launched: object = None  # (operation, share of its own work): begins no sooner than that much of it is done


@dataclass
class Row:
    rank: int
    name: str
    kind: str
    stream: object
    first: int
    last: int
    group: str = None
    number: int = None  # of the collective within its group and step
    depth: int = 1


class Program:
    """What all ranks do in each step. ``joins_streams``: a rank begins nothing of a step before all of its streams have
    done the step before; else before its main stream has."""

    def __init__(self, ranks, places=None, joins_streams=False):
        self.ranks, self.joins_streams = ranks, joins_streams
        self.places = places or [{} for _ in range(ranks)]
        self.ops, self.rows = [], []
        self.meetings = defaultdict(list)
        self.last = {}
        self.first_of_stream = {}
        self.numbers = defaultdict(dict)  # of the collectives of a group, by meeting

    def op(self, rank, stream, phase, ms, after=(), part=(), meeting=None, launched=None):
        number = len(self.ops)
        waits = list(after)
        if (rank, stream) in self.last:
            waits.append(self.last[rank, stream])
        else:
            self.first_of_stream[rank, stream] = number
        self.last[rank, stream] = number
        self.ops.append(Op(rank, stream, phase, ms, waits, part, meeting, launched))
        if meeting is not None:
            self.meetings[meeting].append(number)
        return number

    def row(self, name, kind, first, last=None, group=None, meeting=None, depth=1):
        op = self.ops[first]
        number = None
        if meeting is not None:
            number = self.numbers[group].setdefault(meeting, len(self.numbers[group]))
        self.rows.append(Row(op.rank, name, kind, op.stream, first, first if last is None else last, group, number,
                             depth))

    def work(self, rank, phase, ms, after=(), part=(), kind="compute", stream=MAIN):
        """An operation with a row of its own."""
        made = self.op(rank, stream, phase, ms, after, part)
        self.row(phase, kind, made)
        return made

    def collective(self, rank, name, group, number, ms, after=(), stream=COMM, depth=1):
        """The part of one rank. ``number`` tells the collectives of a group in a step apart. ``depth``: 2 if a phase
        launches it."""
        made = self.op(rank, stream, name, ms, after, (), (group, number))
        self.row(name, "comm", made, group=group, meeting=(group, number), depth=depth)
        return made

    def launch_of(self, number):
        """The operation of the host that launches another one; None where the job has no hosts."""
        return next((one for one in self.ops[number].after if self.ops[one].phase == LAUNCH), None)

    def compile(self):
        """The order in which times follow from each other: operations that become ready, and meetings that end."""
        waiting = [len(op.after) + (op.launched is not None) for op in self.ops]
        followers, launches = defaultdict(list), defaultdict(list)
        for number, op in enumerate(self.ops):
            for other in op.after:
                followers[other].append(number)
            if op.launched:
                launches[op.launched[0]].append(number)
        absent = {meeting: len(members) for meeting, members in self.meetings.items()}
        ready = [number for number, count in enumerate(waiting) if count == 0]
        order = []
        while ready:
            number = ready.pop()
            meeting = self.ops[number].meeting
            order.append((number, None))
            ended = [number]
            if meeting is not None:
                absent[meeting] -= 1
                ended = self.meetings[meeting] if absent[meeting] == 0 else []
                if ended:
                    order.append((None, ended))
            for follower in [*launches[number], *(follower for one in ended for follower in followers[one])]:
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    ready.append(follower)
        assert sum(number is not None for number, _ in order) == len(self.ops), "a wait that never ends"
        return order

    def earlier_waits(self):
        """By operation: those of the step before that have to end before it begins."""
        if self.joins_streams:
            of_rank = defaultdict(list)
            for (rank, _), number in self.last.items():
                of_rank[rank].append(number)
            return [of_rank[op.rank] for op in self.ops]
        waits = [[self.last[op.rank, MAIN]] for op in self.ops]
        for key, number in self.first_of_stream.items():
            waits[number].append(self.last[key])
        return waits

    def run(self, durations):
        """Starts and ends of all operations, by step. ``durations``: by step and operation, milliseconds."""
        order, earlier = self.compile(), [tuple(waits) for waits in self.earlier_waits()]
        sets = list(set(earlier))
        places = {waits: place for place, waits in enumerate(sets)}
        set_of = [places[waits] for waits in earlier]
        after = [tuple(op.after) for op in self.ops]
        is_alone = [op.meeting is None for op in self.ops]
        launched = [op.launched for op in self.ops]
        starts, ends = np.zeros(durations.shape), np.zeros(durations.shape)
        ended = [0.0] * len(self.ops)
        for step in range(len(durations)):
            own, last_ended, start = durations[step].tolist(), ended, [0.0] * len(self.ops)
            ended = [0.0] * len(self.ops)
            begins = [max([last_ended[one] for one in waits]) for waits in sets]
            for number, members in order:
                if number is None:
                    end = max(start[one] for one in members) + max(own[one] for one in members)
                    for one in members:
                        ended[one] = end
                    continue
                begin = begins[set_of[number]]
                for other in after[number]:
                    if ended[other] > begin:
                        begin = ended[other]
                if launched[number]:
                    other, share = launched[number]
                    begin = max(begin, start[other] + share * own[other])
                start[number] = begin
                if is_alone[number]:
                    ended[number] = begin + own[number]
            starts[step], ends[step] = start, ended
        return starts, ends
