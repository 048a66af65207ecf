# SPDX-License-Identifier: Apache-2.0
"""A training job small enough for a laptop, with one fault planted for `cep` to find.

Eight processes, one per rank, train one small network by data-parallel gradient descent, in plain Python: each rank
unpacks its own batches, computes its own gradient, and averages it with the others' in a real all-reduce over
shared memory. In some of the steps the disk of one rank is slow, and all other ranks wait for it in the all-reduce.

    python3 quickstart_job.py output
    cep summarize output
"""

import argparse
import array
import multiprocessing
import random
import sys
import time
import zlib
from operator import mul

import cep

FEATURES = 192
HIDDEN = 12
PARAMETERS = HIDDEN * FEATURES + HIDDEN
BATCH_SIZE = 32
BATCHES = 16  # in a rank's shard of the data, which each epoch uses again
LEARNING_RATE = 0.01
BARRIER_TIMEOUT_S = 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output_dir")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--slow-rank", type=int, default=5, help="the rank with the slow disk; -1: none")
    parser.add_argument("--slow-ms", type=float, default=100.0, help="how long a read takes there, in ms")
    parser.add_argument("--slow-steps", type=int, nargs=2, default=(35, 94), metavar=("FIRST", "LAST"))
    return parser.parse_args()


class Shard:
    """One rank's training data: compressed batches of int8 features, and the targets of a hidden linear model."""

    def __init__(self, rank):
        secret = random.Random(0)
        self.hidden = [secret.uniform(-1, 1) for _ in range(FEATURES)]
        own = random.Random(rank + 1)
        self.batches = [zlib.compress(own.randbytes(BATCH_SIZE * FEATURES), 1) for _ in range(BATCHES)]

    def read(self, index):
        numbers = array.array("b", zlib.decompress(self.batches[index % BATCHES]))
        values = [number / 128 for number in numbers]
        inputs = [values[start : start + FEATURES] for start in range(0, len(values), FEATURES)]
        return inputs, [sum(map(mul, self.hidden, row)) for row in inputs]


class AllReduce:
    """The mean of a vector over the ranks, through shared memory: reduce-scatter, barrier, all-gather."""

    def __init__(self, context, ranks):
        self.ranks = ranks
        self.barrier = context.Barrier(ranks)
        self.contributions = [context.RawArray("d", PARAMETERS) for _ in range(ranks)]
        self.result = context.RawArray("d", PARAMETERS)

    def mean(self, rank, vector):
        self.contributions[rank][:] = vector
        self.barrier.wait(BARRIER_TIMEOUT_S)
        share = slice(PARAMETERS * rank // self.ranks, PARAMETERS * (rank + 1) // self.ranks)
        columns = zip(*(contribution[share] for contribution in self.contributions))
        self.result[share] = [sum(column) / self.ranks for column in columns]
        self.barrier.wait(BARRIER_TIMEOUT_S)
        return self.result[:]


class Network:
    """One hidden layer with rectifiers, one output, squared error. Its gradients are written out by hand."""

    def __init__(self):
        start = random.Random(1)
        self.hidden = [[start.gauss(0, FEATURES**-0.5) for _ in range(FEATURES)] for _ in range(HIDDEN)]
        self.output = [start.gauss(0, HIDDEN**-0.5) for _ in range(HIDDEN)]

    def forward(self, inputs, targets):
        """The hidden layer's activations and the error, for each row."""
        activations = [[max(0.0, sum(map(mul, unit, row))) for unit in self.hidden] for row in inputs]
        return activations, [sum(map(mul, self.output, a)) - target for a, target in zip(activations, targets)]

    def backward(self, inputs, activations, errors):
        """The gradient of the loss as one flat list."""
        hidden = [[0.0] * FEATURES for _ in range(HIDDEN)]
        output = [0.0] * HIDDEN
        for row, active, error in zip(inputs, activations, errors):
            for unit, activation in enumerate(active):
                output[unit] += error * activation / len(inputs)
                if activation > 0:
                    scale = error * self.output[unit] / len(inputs)
                    hidden[unit] = [total + scale * feature for total, feature in zip(hidden[unit], row)]
        return [value for unit in hidden for value in unit] + output

    def descend(self, gradient):
        for unit in range(HIDDEN):
            part = gradient[unit * FEATURES : (unit + 1) * FEATURES]
            self.hidden[unit] = [w - LEARNING_RATE * g for w, g in zip(self.hidden[unit], part)]
        self.output = [w - LEARNING_RATE * g for w, g in zip(self.output, gradient[-HIDDEN:])]


def mean_square(errors):
    return sum(map(mul, errors, errors)) / len(errors)


def train(prof, options, rank, reducer):
    shard = Shard(rank)
    network = Network()
    reducer.barrier.wait(BARRIER_TIMEOUT_S)  # all ranks begin together
    for step in range(options.steps):
        prof.step(step)
        with prof.region("training_step"):
            with prof.region("data_load", stream=cep.HOST):
                if rank == options.slow_rank and options.slow_steps[0] <= step <= options.slow_steps[1]:
                    time.sleep(options.slow_ms / 1000)  # the planted fault: a slow disk
                inputs, targets = shard.read(step)
            with prof.region("forward"):
                activations, errors = network.forward(inputs, targets)
            with prof.region("backward"):
                gradient = network.backward(inputs, activations, errors)
            with prof.region("all_reduce", group="dp", coll=step, bytes=8 * PARAMETERS):
                gradient = reducer.mean(rank, gradient)
            with prof.region("optimizer"):
                network.descend(gradient)
        with prof.region("training_metrics"):
            prof.counter("loss", mean_square(errors))
    return mean_square(errors)


def run_rank(options, rank, reducer):
    with cep.Profiler(
        options.output_dir,
        rank=rank,
        world_size=options.ranks,
        local_rank=rank,
        record_every_n_steps=1,
        backend="host",
        run_id="quickstart",
        meta={"dp": rank},
    ) as prof:
        try:
            loss = train(prof, options, rank, reducer)
        except BaseException:
            reducer.barrier.abort()  # so that the other ranks stop too instead of waiting
            raise
    if rank == 0:
        print(f"rank 0: {options.steps} steps, loss {loss:.4f}, {prof.stats.written} rows")


def main():
    options = arguments()
    context = multiprocessing.get_context("spawn")
    reducer = AllReduce(context, options.ranks)
    start = time.monotonic()
    ranks = [
        context.Process(target=run_rank, args=(options, rank, reducer), name=f"rank {rank}")
        for rank in range(options.ranks)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    failed = [rank.name for rank in ranks if rank.exitcode != 0]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    print(f"{options.ranks} ranks trained for {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
