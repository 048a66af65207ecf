# SPDX-License-Identifier: Apache-2.0
"""The cost of recording three regions a step in a real DistributedDataParallel training.

    python3 training.py                              # every GPU, one process each
    torchrun --nproc_per_node 4 training.py
    python3 training.py --nproc 2 --step-ms 20       # no GPU: checks the program, not the claim

The model is a small transformer, with as many layers as bring a step near --step-ms. Each round runs a short block of steps
of each arm, in a random order, timed by the wall clock between two device syncs. A block is compared with the round's two
blocks without instrumentation, which run within a fraction of a second, so slow drifts (clocks, temperatures, neighbours)
cancel out. Many short rounds make the intervals narrow.

    off, off again   no instrumentation; their difference is the noise
    every step       cep, three regions, every step recorded, flush every 10th
    every 10th       cep, three regions, every 10th step recorded, flush every 10th
    event pairs      a torch.cuda.Event pair for each phase of every step; every 10th step reads the finished pairs and
                     writes them as rows, without waiting

    cep phases       every step, prof.phase(): four event records for three phases; and every 10th
    bare records     every step, six cuEventRecord calls by a type in C (--bare FILE): the floor

and with --arms, to find the source of a cost:

    cep on the host clock    every step, no CUDA event
    cep, no step recorded    but the first: the price of calls that do nothing
    empty with               three `with` statements that do nothing: the floor of these
    reused events, not read  two records of existing events for each phase, the minimum of any timing with events

A second table shows the time of an arm's own calls on the trainer's thread within such steps, where nothing of them is in
the caches: the host time of a step minus that of its phases.
"""

import argparse
import contextlib
import gc
import json
import os
import random
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from resampling import interval
from training_arms import ARMS, BARE, DEFAULT_ARMS, EVERY, NEED_A_GPU, OFF, OFF_AGAIN, PAIRS, WithBareRecords

VOCABULARY = 256
WARM_UP_ROUNDS = 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nproc", type=int, default=max(1, torch.cuda.device_count()), help="processes to start")
    parser.add_argument("--rounds", type=int, default=300, help="blocks of each arm")
    parser.add_argument("--block-steps", type=int, default=20)
    parser.add_argument("--warm-up-steps", type=int, default=2, help="untimed steps before each block")
    parser.add_argument("--step-ms", type=float, default=3.0, help="the step to aim at")
    parser.add_argument("--layers", type=int, default=0, help="number of layers, instead of --step-ms")
    parser.add_argument(
        "--bound",
        choices=("host", "device", "both"),
        default="host",
        help="host: a narrow model, whose launches take longer than its kernels; device: a wide model; both: in turn",
    )
    parser.add_argument("--arms", nargs="+", choices=tuple(ARMS), default=DEFAULT_ARMS, metavar="ARM", help=", ".join(ARMS))
    parser.add_argument("--bare", metavar="FILE", help="bare_records.abi3.so of the build, for the arm 'bare records'")
    parser.add_argument("--seconds", type=float, help="as many rounds as fit, instead of --rounds")
    parser.add_argument("--json", metavar="FILE", help="also write the samples to FILE")
    return parser.parse_args()


class LanguageModel(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        block = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(block, layers)
        self.logits = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.logits(self.layers(self.tokens(tokens)))


class Training:
    """One rank's model and the phases of its step."""

    def __init__(self, device, bound, layers):
        width, batch = (256, 4) if bound == "host" else (2048, 8)
        if device.type == "cpu":
            width, batch = 64, 1
        torch.manual_seed(0)
        model = LanguageModel(width, layers).to(device)
        self.model = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        self.tokens = torch.randint(VOCABULARY, (batch, 128), device=device)
        self.ready = torch.zeros(1, device=device)
        self.precision = torch.autocast(device.type, torch.bfloat16, enabled=bound == "device" and device.type == "cuda")

    def forward(self):
        with self.precision:
            logits = self.model(self.tokens)
            return nn.functional.cross_entropy(logits.flatten(0, 1), self.tokens.flatten())

    def backward(self, loss):
        loss.backward()

    def optimize(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


class Stopwatch:
    """A training that sums the host time inside its phases."""

    def __init__(self, training):
        self.training, self.ready = training, training.ready
        self.inside_ns = 0

    def _time(self, phase, *arguments):
        start_ns = time.perf_counter_ns()
        result = phase(*arguments)
        self.inside_ns += time.perf_counter_ns() - start_ns
        return result

    def forward(self):
        return self._time(self.training.forward)

    def backward(self, loss):
        self._time(self.training.backward, loss)

    def optimize(self):
        self._time(self.training.optimize)


def wait_for_device(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Arm:
    """One way to instrument a training. It is kept from block to block, as a job keeps its profiler."""

    def __init__(self, name, training, folder):
        self.training = training
        os.mkdir(folder)
        self.instrumented = ARMS[name](training, folder)
        self.next_step = 0

    def run(self, steps):
        for number in range(self.next_step, self.next_step + steps):
            self.instrumented.step(number)
        self.next_step += steps

    def time_block(self, device, options):
        """Milliseconds a step."""
        self.run(options.warm_up_steps)
        wait_for_device(device)
        dist.all_reduce(self.training.ready)  # a barrier
        wait_for_device(device)
        start_ns = time.perf_counter_ns()
        self.run(options.block_steps)
        wait_for_device(device)
        return (time.perf_counter_ns() - start_ns) / 1e6 / options.block_steps

    def own_us(self, device, options):
        """Microseconds a step of the trainer's thread outside the phases; the training is a Stopwatch."""
        self.run(options.warm_up_steps)
        outside_ns = 0
        for _ in range(options.block_steps):
            self.training.inside_ns = 0
            start_ns = time.perf_counter_ns()
            self.run(1)
            outside_ns += time.perf_counter_ns() - start_ns - self.training.inside_ns
        wait_for_device(device)
        return outside_ns / 1e3 / options.block_steps


@contextlib.contextmanager
def all_arms(training, device, options):
    """The arms by name. At the end `.rows` has the rows that each wrote."""
    with tempfile.TemporaryDirectory() as folder:
        names = arms_for(device, options)
        arms = {name: Arm(name, training, os.path.join(folder, str(i))) for i, name in enumerate(names)}
        yield arms
        for arm in arms.values():
            arm.rows = arm.instrumented.close()


def step_ms_with(layers, device, options):
    training = Training(device, options.bound, layers)
    options_of_a_try = argparse.Namespace(warm_up_steps=20, block_steps=50)
    with tempfile.TemporaryDirectory() as folder:
        arm = Arm(OFF, training, os.path.join(folder, "off"))
        took = torch.tensor([arm.time_block(device, options_of_a_try)], device=device)
    dist.all_reduce(took)
    return took.item() / dist.get_world_size()


def layers_for(device, options):
    """The number of layers for the wanted step time, from a linear fit to two models."""
    if options.layers:
        return options.layers
    few, many = 1, 5
    few_ms, many_ms = (step_ms_with(layers, device, options) for layers in (few, many))
    layer_ms = max(1e-3, (many_ms - few_ms) / (many - few))
    return min(64, max(1, round(few + (options.step_ms - few_ms) / layer_ms)))


def arms_for(device, options):
    arms = [arm for arm in ARMS if arm in (OFF, OFF_AGAIN, *options.arms) and (arm != BARE or WithBareRecords.library)]
    return arms if device.type == "cuda" else [arm for arm in arms if arm not in NEED_A_GPU]


def rounds_in(seconds, round_s, device):
    """How many rounds fit; the same on every rank."""
    slowest = torch.tensor([round_s], device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return max(3, int(seconds / slowest.item()))


def measure(training, device, options):
    """Milliseconds a step by arm and round (of the slowest rank), and rows by arm."""
    order = random.Random(0)  # the same on every rank
    gc.collect()
    gc.freeze()  # or collections of everything that PyTorch's modules hold would hit arms at random
    with all_arms(training, device, options) as arms:
        blocks, names = {name: [] for name in arms}, list(arms)
        turn, rounds = -WARM_UP_ROUNDS, options.rounds
        while turn < rounds:
            order.shuffle(names)
            start = time.monotonic()
            for name in names:
                step_ms = arms[name].time_block(device, options)
                if turn >= 0:
                    blocks[name].append(step_ms)
            turn += 1
            if turn == 0 and options.seconds:
                rounds = rounds_in(options.seconds, time.monotonic() - start, device)
    table = torch.tensor([blocks[name] for name in blocks], dtype=torch.float64, device=device)
    dist.all_reduce(table, dist.ReduceOp.MAX)
    return dict(zip(blocks, table.tolist())), {name: arm.rows for name, arm in arms.items()}


def measure_own(training, device, options):
    """This rank's own_us by arm and round, minus those of the arm without instrumentation (the stopwatch's)."""
    with all_arms(Stopwatch(training), device, options) as arms:
        samples = {name: [] for name in arms if name not in (OFF, OFF_AGAIN)}
        for turn in range(-2, max(3, options.rounds // 10)):
            taken = {name: arm.own_us(device, options) for name, arm in arms.items()}
            for name in samples if turn >= 0 else ():
                samples[name].append(taken[name] - taken[OFF])
    return samples


def midmean(values):
    """The mean of the middle half: as robust as a median, with less variance."""
    values = sorted(values)
    quarter = len(values) // 4
    return statistics.fmean(values[quarter : len(values) - quarter])


def differences(blocks, arm):
    """By round: the extra time of the arm's steps over those without instrumentation, in % of these."""
    if arm == OFF_AGAIN:
        return [100 * (again / off - 1) for off, again in zip(blocks[OFF], blocks[OFF_AGAIN])]
    off = [(one + other) / 2 for one, other in zip(blocks[OFF], blocks[OFF_AGAIN])]
    return [100 * (with_arm / without - 1) for with_arm, without in zip(blocks[arm], off)]


def describe(device, options, layers, blocks):
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU (no claim)"
    off_ms = statistics.median(blocks[OFF] + blocks[OFF_AGAIN])
    return (
        f"{dist.get_world_size()} x {name}, torch {torch.__version__}, {layers} layers, {options.bound}-bound: "
        f"{off_ms:.4f} ms a step off; {options.rounds} rounds of {options.block_steps} steps an arm"
    )


def print_results(device, options, layers, blocks, rows):
    print(describe(device, options, layers, blocks))
    print(f"{'':22} {'ms a step':>10} {'q1':>9} {'q3':>9}   {'difference, % [95 % interval]':32} {'rows':>7}")
    for arm, values in blocks.items():
        low, median, high = statistics.quantiles(values, n=4)
        line = f"{arm:22} {median:10.4f} {low:9.4f} {high:9.4f}"
        if arm != OFF:
            middle, least, most = interval(differences(blocks, arm), midmean)
            line += f"   {f'{middle:+.3f} [{least:+.3f}, {most:+.3f}]':32}"
        else:
            line += f"   {'':32}"
        print(f"{line} {rows[arm]:7}")
    if PAIRS in blocks and EVERY in blocks:
        pairs = list(zip(differences(blocks, EVERY), differences(blocks, PAIRS)))
        share = lambda chosen: midmean([c for c, _ in chosen]) / midmean([p for _, p in chosen])  # noqa: E731
        middle, least, most = interval(pairs, share)
        print(f"cost of cep every step / of event pairs: {middle:.3f} [{least:.3f}, {most:.3f}]")


def print_own(own, off_ms):
    print("\ntime on the trainer's thread, outside the phases")
    print(f"{'':22} {'us a step':>10} {'q1':>9} {'q3':>9}   % of a step")
    for arm, values in own.items():
        low, median, high = statistics.quantiles(values, n=4)
        print(f"{arm:22} {median:10.2f} {low:9.2f} {high:9.2f}   {median / off_ms / 10:.3f}")


def measure_bound(options, device):
    layers = layers_for(device, options)
    training = Training(device, options.bound, layers)
    blocks, rows = measure(training, device, options)
    options.rounds = len(blocks[OFF])
    own = measure_own(training, device, options)
    if dist.get_rank() == 0:
        print_results(device, options, layers, blocks, rows)
        print_own(own, statistics.median(blocks[OFF]))
        print(flush=True)
    return {"ranks": dist.get_world_size(), "layers": layers, "bound": options.bound, "step_ms": blocks, "own_us": own}


def run_rank(options, init_method="env://"):
    WithBareRecords.library = options.bare
    local_rank = int(os.environ["LOCAL_RANK"])
    on_gpu = torch.cuda.is_available() and torch.cuda.device_count() > local_rank
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("nccl" if on_gpu else "gloo", init_method=init_method, rank=rank, world_size=ranks)
    bounds = ("host", "device") if options.bound == "both" else (options.bound,)
    measured = [measure_bound(argparse.Namespace(**{**vars(options), "bound": bound}), device) for bound in bounds]
    if rank == 0 and options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(measured, file)
    dist.destroy_process_group()


def run_spawned(rank, options, init_method):
    """One process of torch.multiprocessing, with the variables that torchrun would set."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(options.nproc))
    run_rank(options, init_method)


def main():
    options = arguments()
    if "RANK" in os.environ:
        run_rank(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run_spawned, (options, f"file://{folder}/meeting_point"), nprocs=options.nproc)


if __name__ == "__main__":
    main()
