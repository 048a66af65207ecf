# SPDX-License-Identifier: Apache-2.0
"""Rows of collectives that wait for each other, for tests."""

import random

from conftest import START_NS, run_row, span_row


def transfer_ms(size, alpha_us, beta_gb_per_s):
    return alpha_us / 1e3 + size / (beta_gb_per_s * 1e6)


class Network:
    """Collectives whose ranks come at different times, and leave when the last has come and the bytes have moved."""

    def __init__(self, job, world_size, *, seed=1, coordinates=None):
        self.job = job
        self.rng = random.Random(seed)
        self.colls = {}
        self.waits = []
        self.transfers = []
        self.rows = {rank: [run_row(rank, world_size=world_size, **(coordinates or (lambda _: {}))(rank))]
                     for rank in range(world_size)}

    def collective(self, name, group, ranks, size, duration_ms, *, step=0, names=None, **more):
        coll = self.colls.get(group, 0)
        self.colls[group] = coll + 1
        waits = [self.rng.uniform(0, 5) for _ in ranks]
        waits[self.rng.randrange(len(ranks))] = 0.0
        keys = {"kind": "comm", "group": group, "coll": coll, "bytes": size, **more}
        for i, (rank, wait_ms) in enumerate(zip(ranks, waits)):
            row = span_row(rank, step, names[i] if names else name, wait_ms + duration_ms, START_NS + coll, **keys)
            self.rows[rank].append({key: value for key, value in row.items() if value is not None})
        self.waits.append(waits)
        self.transfers.append((size, duration_ms))

    def write(self, ranks=None):
        for rank in self.rows if ranks is None else ranks:
            self.job.write(rank, self.rows[rank])
        return self.job
