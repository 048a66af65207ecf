# SPDX-License-Identifier: Apache-2.0
"""How far off `cep estimate` is about DDP's buckets and links: real trainings, each predicted from others.

    PYTHONPATH=bindings/python CEP_LIBRARY=build/lib/libcep.so.0 python3 tests/bench/what_if.py --cep build/tools/cep

Two processes over gloo, on a loopback device of their own (a network namespace) whose rate is held. The layers sleep, as a host
does that waits for its GPU, so that two cores are enough. In a round, a training of each size of buckets follows the other, and
then those on a link of twice the rate. Prints what was said of each from the jobs of the round beside what was measured, and
how much the same size differed between the rounds, which no prediction can know. On a machine that has other work, `nice -n -15` in front of it keeps that out of the
figures. Needs PyTorch, `unshare` and `tc`, and no GPU.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAYERS, WIDTH = 40, 512  # each of 1 MiB
FORWARD_S, BACKWARD_S = 0.002, 0.005


# ---- In the process of a rank

def train(folder, rank, ranks, bucket_mb, steps):
    import torch
    import torch.distributed as dist

    import cep
    import cep.torch

    class Sleep(torch.autograd.Function):
        @staticmethod
        def forward(context, inputs):
            time.sleep(FORWARD_S)
            return inputs

        @staticmethod
        def backward(context, gradient):
            time.sleep(BACKWARD_S)
            return gradient

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((WIDTH, WIDTH), 1e-3))

        def forward(self, inputs):
            return Sleep.apply(inputs) @ self.weight

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=ranks)
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*(Layer() for _ in range(LAYERS))), bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.ones(1, WIDTH, requires_grad=True)
    with cep.Profiler(f"{folder}/output", record_every_n_steps=1, backend="host") as profiler, \
            cep.torch.instrument(profiler, model, optimizer):
        for step in range(steps):
            profiler.step(step)
            with profiler.region("training_step"):
                model(batch).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


# ---- In the process that starts them

def run_job(folder, bucket_mb, steps):
    folder.mkdir(parents=True)
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank", f"{rank}", "--folder", folder, "--size", f"{bucket_mb}",
                               "--steps", f"{steps}"], env={**os.environ, "RANK": f"{rank}", "WORLD_SIZE": "2"})
             for rank in range(2)]
    if any([rank.wait() for rank in ranks]):
        sys.exit(f"a rank failed: {folder}")


def ask(command, job):
    """The time of a step; what it would be with other buckets, by size; what it would be on links twice as fast."""
    answer = subprocess.run([command, "estimate", "--json", job / "output"], check=True, stdout=subprocess.PIPE)
    what_if = json.loads(answer.stdout)["what_if"]
    if what_if["reason"]:
        print(f"{job}: {what_if['reason']}")
    changes = {change["key"]: change["step_ms"] for change in what_if["changes"]}
    return (what_if["step_ms"], {size["megabytes"]: size["step_ms"] for size in what_if["buckets"]},
            changes.get("links_2_times"))


def cell(said, measured):
    return f"{said:>9.1f} {100 * (said / measured - 1):+5.1f}%"


def print_round(number, sizes, answers, fast_ms):
    """Returns the errors of what was said of buckets, and of links."""
    measured = {size: answers[size][0] for size in sizes}
    of_buckets = []
    print(f"\nround {number:<12}" + "".join(f"{size:>12} MiB" for size in sizes))
    print("measured, ms      " + "".join(f"{measured[size]:>16.1f}" for size in sizes))
    for now in sizes:
        said = answers[now][1]
        of_others = [size for size in sizes if size != now and said]
        of_buckets += [said[size] / measured[size] - 1 for size in of_others]
        print(f"from {now:>6} MiB   " + "".join(
            cell(said[size], measured[size]) if size in of_others else " " * 16 for size in sizes))
    print("links twice as fast" + "".join(f"{fast_ms[size]:>16.1f}" for size in sizes)[1:])
    of_links = [answers[size][2] / fast_ms[size] - 1 for size in sizes if answers[size][2]]
    print("from the same size" + "".join(
        cell(answers[size][2], fast_ms[size]) if answers[size][2] else " " * 16 for size in sizes))
    return of_buckets, of_links


def print_errors(what, errors):
    if errors:
        size = sorted(abs(error) for error in errors)
        print(f"{what}: {len(size)} figures, median error {statistics.median(size):.1%}, worst {size[-1]:.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cep", default="cep", help="the command (default: that of the PATH)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--rate", type=int, default=1600, help="Mbit/s of the loopback device, which both directions share")
    parser.add_argument("--sizes", default="1,5,25,100", help="of buckets, MiB, of those that cep estimate tries")
    parser.add_argument("--keep", type=Path, help="write the jobs into this directory")
    for name in ("--rank", "--size", "--folder", "--in-namespace"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return train(arguments.folder, int(arguments.rank), 2, float(arguments.size), arguments.steps)
    if arguments.in_namespace is None:
        os.execvp("unshare", ["unshare", "--net", "--map-root-user", sys.executable, *sys.argv, "--in-namespace", "yes"])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    sizes = [int(size) for size in arguments.sizes.split(",")]
    folder = arguments.keep or Path(tempfile.mkdtemp())
    of_buckets, of_links, steps_ms = [], [], {size: [] for size in sizes}
    for number in range(arguments.rounds):
        answers = {}
        for times in (1, 2):
            subprocess.run(["tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", f"{times * arguments.rate}mbit",
                            "burst", "256kb", "latency", "100ms"], check=True)
            for size in sizes:
                job = folder / f"round_{number}_{size}_{times}"
                run_job(job, size, arguments.steps)
                answers[size, times] = ask(arguments.cep, job)
        errors = print_round(number, sizes, {size: answers[size, 1] for size in sizes},
                             {size: answers[size, 2][0] for size in sizes})
        of_buckets += errors[0]
        of_links += errors[1]
        for size in sizes:
            steps_ms[size].append(answers[size, 1][0])
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print_errors("buckets", of_buckets)
    print_errors("links", of_links)
    print_errors("the same size in another round",
                 [a / b - 1 for times in steps_ms.values() for a in times for b in times if a is not b])


if __name__ == "__main__":
    main()
