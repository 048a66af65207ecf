# SPDX-License-Identifier: Apache-2.0
"""The rows of a job as different recorders write them. A layout changes what is written, never what happened."""

import numpy as np
from rank_files import START_NS, gpu_run_row, line_of, write_lines

LAYOUTS = ("full", "enclosed", "no_depth", "no_coll", "per_operation", "flat", "lean", "half", "sampled", "lost", "clocks")
FLAT = ("flat", "lean")
ENCLOSED = ("enclosed", "no_depth")
HOST_AHEAD_MS = 1e5  # where programs know nothing of hosts, no launch is in the way


class Writer:
    def __init__(self, program, starts, ends, layout, *, seed=0, extra_row="", kept_ranks=None, stops=None,
                 marks=()):
        """``kept_ranks``: of the layout half. ``stops``: the last step of a rank, by rank. ``marks``: steps behind which
        each rank sets a mark, of a checkpoint."""
        self.program, self.layout, self.extra_row = program, layout, extra_row
        self.starts, self.ends = starts.tolist(), ends.tolist()  # formatted in half the time
        self.rng = np.random.default_rng([seed, 2])
        self.kept_ranks, self.stops, self.marks = kept_ranks, stops or {}, marks
        self.stride = 5 if layout == "sampled" else 1
        self.coll_of_row = self.number_collectives()

    def number_collectives(self):
        """(group, number in a step, how many of them in a step), by row."""
        counts, numbers = {}, []
        by_operation = self.layout == "per_operation"
        known = {}
        for row in self.program.rows:
            if row.group is None:
                numbers.append(None)
                continue
            group = (row.group, row.name) if by_operation else row.group
            number = known.setdefault((group, row.number), counts.get(group, 0))
            counts[group] = max(counts.get(group, 0), number + 1)
            numbers.append((group, number))
        return [one and (one[1], counts[one[0]]) for one in numbers]

    def write(self, folder):
        by_rank = {rank: [] for rank in range(self.program.ranks)}
        for row, coll in zip(self.program.rows, self.coll_of_row):
            name = self.extra_row if row.name == "extra" else row.name
            if name:
                launches = [self.program.launch_of(one) for one in (row.first, row.last)]
                by_rank[row.rank].append((row, name, coll or (0, 0), launches, self.template(row, name, coll).format))
        for rank, rows in by_rank.items():
            if self.layout == "half" and rank not in self.kept_ranks:
                continue
            lines = [] if self.layout in FLAT else [self.run_row(rank)]
            for step in range(0, len(self.starts), self.stride):
                if step <= self.stops.get(rank, step):
                    lines += self.step_lines(rank, rows, step)
                    lines += [self.mark(rank, step)] if step in self.marks and self.layout not in FLAT else []
            write_lines(folder, rank, lines)

    def shift_ns(self, rank):
        return (rank // 4 * 1_700_000_000 if self.layout == "clocks" else 0) + START_NS

    def run_row(self, rank):
        return line_of(gpu_run_row(rank, world_size=self.program.ranks, start_unix_ns=self.shift_ns(rank) - 1_000_000,
                                   stride=self.stride, **self.program.places[rank]))

    def step_lines(self, rank, rows, step):
        """In the order in which they end."""
        starts, ends = self.starts[step], self.ends[step]
        shift_ns, seqs, made = self.shift_ns(rank), {}, []
        for row, name, (number, of_step), (first, last), line in rows:
            start, end = starts[row.first], ends[row.last]
            lag_ms = HOST_AHEAD_MS if first is None else start - ends[first]
            host_ms = 0.1 if first is None or last is None else 0.1 + ends[last] - ends[first]
            if row.name == "extra" and end - start < 1e-6:
                continue
            seq = seqs[name] = seqs.get(name, -1) + 1
            made.append((end, line(step, end - start, shift_ns + round(start * 1e6), seq, step * of_step + number,
                                   host_ms, lag_ms)))
        if self.layout in ENCLOSED:
            first = self.program.first_of_stream[rank, 1]
            end = max(one[0] for one in made)
            last = ends[self.program.last[rank, 1]]
            made.append((last + 1, self.step_row(rank, step, starts[first], max(end, last))))
        made.sort(key=lambda one: one[0])
        if self.layout == "lost":
            made = [one for one in made if self.rng.random() >= 0.05]
        return [line for _, line in made]

    def depth(self, depth):
        return "" if self.layout == "no_depth" else f'"depth":{depth},'

    def template(self, row, name, coll):
        """Of a line: its values are the step, the duration, the start, the numbers in the step and of the collective, how long
        the host took, and how much later the device began."""
        text = f'{{{{"name":"{name}","step":{{0}},"rank":{row.rank},"duration_ms":{{1:.6f}}'
        if self.layout != "flat":
            text += ',"start_ns":{2}'
        if self.layout not in FLAT and row.stream is None:
            text += f',"host_ms":{{1:.6f}},"kind":"{row.kind}","clock":"host",{self.depth(row.depth)}"seq":{{3}}'
        elif self.layout not in FLAT:
            text += (f',"host_ms":{{5:.6f}},"lag_ms":{{6:.6f}},"kind":"{row.kind}","clock":"gpu","seq":{{3}},'
                     f'{self.depth(row.depth)}"device":0,"stream":{row.stream}')
        if coll and self.layout not in (*FLAT, "no_coll"):
            text += f',"group":"{row.group}","coll":{{4}}'
        return text + "}}"

    def mark(self, rank, step):
        start_ns = self.shift_ns(rank) + round(self.ends[step][self.program.last[rank, 1]] * 1e6)
        return f'{{"type":"mark","name":"checkpoint","step":{step},"rank":{rank},"start_ns":{start_ns}}}'

    def step_row(self, rank, step, start, end):
        return (f'{{"name":"train_step","step":{step},"rank":{rank},"duration_ms":{end - start:.6f},'
                f'"start_ns":{self.shift_ns(rank) + round(start * 1e6)},"host_ms":1.0,"lag_ms":{HOST_AHEAD_MS},"kind":"step",'
                f'"clock":"gpu","seq":0,{self.depth(0)}"device":0,"stream":1}}')
