# SPDX-License-Identifier: Apache-2.0
"""Jobs whose links are known, and collectives whose ranks wait for each other, for the tests of cep comm."""

import json
import random

import numpy as np
import pytest
from conftest import START_NS, run_row, span_row

SIZES = (65_536, 1_048_576, 8_388_608, 67_108_864, 268_435_456)
FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n, "all_to_all": lambda n: (n - 1) / n, "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1, "reduce": lambda n: 1, "send_recv": lambda n: 1,
}


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


@pytest.fixture
def comm(cep):
    def run(*arguments, **more):
        return json.loads(cep("comm", "--json", *arguments, **more).stdout)
    return run


def planted(job, *, alpha_us=25.0, beta=120.0, ranks=4, sizes=SIZES, repeats=9, noise=0.0, seed=1, name="all_reduce"):
    network = Network(job, ranks, seed=seed)
    for step in range(repeats):
        for size in sizes:
            factor = np.exp(network.rng.gauss(0, noise))
            network.collective(name, "dp", range(ranks), size, transfer_ms(size, alpha_us, beta) * factor, step=step)
    network.write()
    return network


def grouped(job):
    """Twelve groups of two ranks each, of which the last four have a slower network, and one of all ranks."""
    network = Network(job, 24)
    for step in range(4):
        for size in SIZES:
            for g in range(12):
                beta = 50 if g >= 8 else 200
                network.collective("all_reduce", f"tp.dp{g}", (2 * g, 2 * g + 1), size, transfer_ms(size, 5, beta),
                                   step=step)
            network.collective("all_reduce", "world", range(24), size, transfer_ms(size, 90, 30), step=step)
    network.write()
