# SPDX-License-Identifier: Apache-2.0
"""Real trainings with something wrong, each judged by `cep summarize`: DDP and FSDP2, with one rank slowed in its
forward, its backward, its data loading, in a window of steps, now and then, and not at all; by a little; beside another
slow rank; and where nobody waits for it, as the others have as much more to do. DDP that accumulates micro-batches, one rank
of it slow, or of random lengths. A pipeline with a slow rank, and with a stage that has more work; one of
torch.distributed.pipelining with more layers on the last rank; experts of which the last gets more tokens.

What a fault costs is measured: before the recorded steps the same training runs with it and without it, by turns. Beside
that stands what the verdict says steps would take less without it.

GPUs at their power limit are not equally fast. So beside each training stands what the model's forward takes on each rank
alone, measured at the same time on all and without cep, relative to the median rank. A rank that is slower by that
measure may be named, too: in a training without a planted fault, and only such a one.

    torchrun --standalone --nproc_per_node 4 tests/gpu/verdict_runs.py --output-dir runs
    torchrun … tests/gpu/verdict_runs.py --runs clocks,20xddp_none,pipeline_stage

Takes about 7 s a run. Prints the verdict on each beside what was planted, and ends with status 1 if one is wrong, 77
where there is nothing to run on. The rank files of wrong verdicts stay in the output directory, as FILES.tar each; with
--keep those of all. With --host it runs on the CPU and gloo, to check the program: no claim.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("verdict_runs.py: skipped: no PyTorch", file=sys.stderr)
    sys.exit(77)

import cep
import cep.torch
from trainings import SLOW_RANK, TRAININGS, Fault, blocks

REALLY_SLOWER = 1.02  # than the median rank
WARM_UP = 10  # steps
# What the verdict has to say: of stragglers their ranks, phases and pattern; or the kind of the first cause.
ONE = {"ranks": {SLOW_RANK}}
CASES = {
    "none": {},
    "forward": dict(ONE, phases=("forward",), pattern="persistent"),
    "backward": dict(ONE, phases=("backward",), pattern="persistent"),
    "data": dict(ONE, phases=("data_load",), pattern="persistent"),
    "window": dict(ONE, phases=("forward",), pattern="window"),
    "intermittent": dict(ONE, phases=("data_load", "forward"), pattern="intermittent"),
    "small": dict(ONE, phases=("forward",), pattern="persistent"),
    "two": dict(ranks={1, SLOW_RANK}, phases=("forward",), pattern="persistent"),
    "harmless": {},
    "fsdp_harmless": dict(ONE, phases=("data_load",), pattern="persistent"),  # each layer waits for all ranks
    "worker": dict(ONE, cause="ranks"),  # its role has one other rank, so neither is called a straggler
    "stage": {"cause": "stage"},
    "lengths": {"cause": "micro_batches"},
    "layers": {"cause": "stage"},
    "tokens": {"cause": "routing"},
}
FAULTS = ("forward", "backward", "data", "window", "intermittent", "small", "two", "harmless")
RUNS = ["clocks", *(f"{kind}_{case}" for kind in ("ddp", "fsdp") for case in ("none", *FAULTS)), "accumulation_forward",
        "lengths_lengths", "pipeline_none", "pipeline_worker", "pipeline_stage", "schedule_layers", "experts_tokens"]  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output-dir", default="verdict_runs")
    parser.add_argument("--steps", type=int, default=90, help="recorded")
    parser.add_argument("--turns", type=int, default=5, help="with the fault and without, to measure what it costs")
    parser.add_argument("--turn-steps", type=int, default=20, help="of each turn")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--slow-ms", type=float, default=8.0)
    parser.add_argument("--runs", default=",".join(RUNS), help="clocks or KIND_CASE, with NUMBERx before it to repeat")
    parser.add_argument("--zeros", action="store_true", help="all numbers are 0: the GPUs need less power, and no rank "
                        "runs faster because others wait")
    parser.add_argument("--no-buckets", action="store_true", help="one row for all buckets of DDP, and no hook")
    parser.add_argument("--keep", action="store_true", help="the rank files of right verdicts too")
    parser.add_argument("--host", action="store_true", help="on the CPU: checks the program")
    options = parser.parse_args()
    options.type = torch.float32 if options.host else torch.bfloat16
    options.first_recorded = WARM_UP
    return options


def timed_ms(training, prof, first, count):
    """Milliseconds a step of the wall clock."""
    training.settle()
    dist.barrier()
    training.settle()
    start = time.perf_counter()
    training.steps(prof, first, count)
    return (time.perf_counter() - start) * 1e3 / count


def train(kind, case, options, device, directory):
    """Records a training with its fault, and before that runs the same steps with and without it, by turns, not recorded:
    hosts are now fast, now slow. Returns the milliseconds a step when recorded, and of the turns with and without it."""
    fault = Fault(case, options, dist.get_rank(), device)
    training = TRAININGS[kind](options, fault, device)
    off = cep.Profiler(enable=False)
    fault.present = False
    training.steps(off, 0, WARM_UP)
    turns_ms = {True: [], False: []}
    for turn in range(options.turns):
        first = options.first_recorded + turn * options.turn_steps % max(1, options.steps - options.turn_steps)
        for fault.present in (False, True):
            turns_ms[fault.present].append(timed_ms(training, off, first, options.turn_steps))
    prof = cep.Profiler(str(directory), start_step=options.first_recorded, record_every_n_steps=1,
                        flush_every_n_steps=50, meta=training.meta, backend="host" if options.host else "auto")
    buckets = {"ddp_buckets": not options.no_buckets}
    with prof, cep.torch.instrument(prof, training.called, training.optimizer, memory=False, **buckets):
        recorded = timed_ms(training, prof, options.first_recorded, options.steps)
    return recorded, turns_ms[True], turns_ms[False]


def own_slowness(options, device, passes=20):
    """What a forward takes on each rank without any communication, all at the same time; relative to the median."""
    if options.host:
        return [1.0] * dist.get_world_size()
    healthy = Fault("none", options, 0, device)
    model = blocks(options, healthy, device, options.layers).to(device)
    make = torch.zeros if options.zeros else torch.randn
    batch = make(options.batch_size, options.width, device=device, dtype=options.type)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    dist.barrier()
    with torch.no_grad():
        for number in range(2 * passes):
            if number == passes:
                begin.record()
            model(batch)
    end.record()
    end.synchronize()
    times = [None] * dist.get_world_size()
    dist.all_gather_object(times, begin.elapsed_time(end))
    return [time_ms / statistics.median(times) for time_ms in times]


def verdict_on(directory):
    command = [os.environ.get("CEP_COMMAND", "cep"), "summarize", "--json", str(directory)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(answer.stdout)["verdict"]


def is_right(verdict, kind, case, slowness):
    wanted, found = CASES.get(f"{kind}_{case}", CASES[case]), verdict["stragglers"]
    if dist.get_world_size() == 2:  # of which none is the usual one: groups of one rank
        found = [{**group["typical"], "rank": rank} for group in verdict["groups"] for rank in group["slow_ranks"]]
    if "cause" in wanted:
        # The headline too: where it clears the job, it says no slowdown.
        if not verdict["causes"] or verdict["abstained"] or not (verdict["job_slowdown"] or 0) > 1.02:
            return False
        cause = verdict["causes"][0]
        return cause["kind"] == wanted["cause"] and set(cause["ranks"]) == wanted.get("ranks", set(cause["ranks"]))
    if not wanted:
        return not verdict["abstained"] and all(slowness[one["rank"]] >= REALLY_SLOWER for one in found)
    return {one["rank"] for one in found} == wanted["ranks"] and all(
        one["phase"] in wanted["phases"] and one["pattern"] == wanted["pattern"] for one in found
    )


def run_training(kind, case, options, device, directory, name):
    """Whether the verdict on one training is right: on rank 0; None on the others."""
    slowness = own_slowness(options, device)
    recorded, with_fault, without = train(kind, case, options, device, directory)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    dist.barrier()
    if dist.get_rank() != 0:
        return None
    verdict = verdict_on(directory)
    right = is_right(verdict, kind, case, slowness)
    alone = " ".join(f"{ratio:.3f}" for ratio in slowness)
    savings = [100 * (1 - healthy / faulty) for healthy, faulty in zip(without, with_fault, strict=True)]
    error = statistics.stdev(savings) / math.sqrt(len(savings))
    said = 100 * (1 - 1 / verdict["job_slowdown"]) if verdict["job_slowdown"] else float("nan")
    replayed = verdict["replay"]["error"]
    off_by = f"{100 * replayed:4.1f}" if replayed is not None else "   -"
    print(f"{'PASS' if right else 'FAIL'}  {name:<20} {recorded:8.2f} {statistics.mean(with_fault):7.2f} {statistics.mean(without):7.2f} "
          f"{statistics.mean(savings):8.1f} ±{error:4.1f} {said:7.1f} {off_by} "
          f"[{alone}] {verdict['headline']}", flush=True)  # fmt: skip
    return right


def run_clocks(options, device, directory):
    """The ends of small all-reduces, which are the same moment on all ranks but for some microseconds."""
    prof = cep.Profiler(str(directory), record_every_n_steps=1, backend="host" if options.host else "auto")
    number = torch.zeros(1, device=device)
    with prof, cep.torch.instrument_collectives(prof):
        for step in range(500):
            prof.step(step)
            dist.all_reduce(number)
            if device.type == "cuda":
                torch.cuda.synchronize()
    dist.barrier()
    if dist.get_rank() != 0:
        return None
    ends, stated = {}, {}
    for rank in range(dist.get_world_size()):
        (file,) = directory.rglob(f"cuda_events_rank_{rank}.jsonl")
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if row.get("name") == "all_reduce" and row["step"] >= 50:
                ends.setdefault(row["step"], []).append(row["start_ns"] + row["duration_ms"] * 1e6)
            elif row.get("type") == "stats":
                stated[rank] = row.get("clock_error_ns") or 0
    apart_us = sorted((max(times) - min(times)) / 1e3 for times in ends.values())
    allowed_us = sum(sorted(stated.values())[-2:]) / 1e3  # of the two ranks with the largest errors
    middle, high = apart_us[len(apart_us) // 2], apart_us[round(0.99 * len(apart_us))]
    right = middle <= allowed_us
    print(f"{'PASS' if right else 'FAIL'}  clocks: ends of {len(apart_us)} all-reduces are {middle:.1f} us apart on "
          f"{len(stated)} ranks (median; 99 %: {high:.1f}); stated: at most {allowed_us:.1f} us", flush=True)  # fmt: skip
    return right


def run_one(run, number, options, device):
    name = f"{run}_{number}" if number else run
    directory = Path(options.output_dir) / name
    if dist.get_rank() == 0:
        shutil.rmtree(directory, ignore_errors=True)
    dist.barrier()
    if run == "clocks":
        right = run_clocks(options, device, directory)
    else:
        kind, case = run.split("_")
        right = run_training(kind, case, options, device, directory, name)
    if dist.get_rank() == 0:
        if options.keep or not right:
            shutil.make_archive(str(directory), "tar", directory)
        shutil.rmtree(directory)
    return right


def main():
    options = arguments()
    if not options.host and torch.cuda.device_count() < int(os.environ.get("WORLD_SIZE", "1")):
        print("verdict_runs.py: skipped: no GPU for each rank", file=sys.stderr)
        return 77
    if options.host:
        device = torch.device("cpu")
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
    else:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        print(f"{'':26} {'ms a step':>24} {'% less without':>22} {'replay':>5} [each rank alone]")
        print(f"{'':26} {'recorded':>8} {'fault':>7} {'without':>7} {'measured':>8} {'':>5} {'said':>7} {'err %':>5}", flush=True)
    right = []
    for text in options.runs.split(","):
        times, _, run = text.partition("x") if text.split("x")[0].isdigit() else ("1", "", text)
        right += [run_one(run, number, options, device) for number in range(int(times))]
    dist.barrier()
    dist.destroy_process_group()
    return 1 if False in right else 0


if __name__ == "__main__":
    sys.exit(main())
