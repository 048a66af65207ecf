# SPDX-License-Identifier: Apache-2.0
"""What cep costs a trainer in Python, against the budgets of the project; one run of at most 5 minutes on one GPU.

    python3 price.py [--native FILE] [--bare FILE] [--seconds N] [--json FILE]

The first table times single regions and phases in bursts that fit the GPU's queue, on recorded and unrecorded steps:
bare cuEventRecord() calls of a type in C (the floor), cep through its extension module and through ctypes, event pairs of
PyTorch, NVTX ranges and record_function(). The second and third are of real training steps, one bound by the host (2.5 ms)
and one by the device (4 ms), with three regions: the wall clock of paired blocks, and the trainer's own time a step
outside its phases. Every ratio and difference is of samples of the same round, with its 95 % interval. The last table
compares the figures with the budgets.

Without a GPU (--host) the program runs on the host clock, to check the program and not a budget.
"""

import argparse
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import os
import random
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from resampling import interval

BURST = 128  # regions: 256 records
RECORDED, OFF = 0, 1  # steps: every second is recorded
BUILD = Path(os.environ.get("CEP_LIBRARY", "build/lib/libcep.so.0")).resolve().parents[1]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--native", default=str(BUILD / "bindings/python/native/_native.abi3.so"), metavar="FILE")
    parser.add_argument("--bare", default=str(BUILD / "tests/bench/bare_records.abi3.so"), metavar="FILE")
    parser.add_argument("--seconds", type=float, default=240, help="for the whole run")
    parser.add_argument("--host", action="store_true", help="no GPU: checks the program")
    parser.add_argument("--json", metavar="FILE", help="also write the samples to FILE")
    return parser.parse_args()


def package(binding):
    """A copy of the package with that binding: the choice is made once at import, and this run needs both."""
    os.environ["CEP_BINDING"] = binding
    for name in [name for name in sys.modules if name.split(".")[0] == "cep"]:
        del sys.modules[name]
    return importlib.import_module("cep")


def extension(path, name):
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
    loader.exec_module(module)
    return module


def text(values, digits=2):
    middle, low, high = values
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


# ---- Single regions ---------------------------------------------------------------------------------


def burst(enter):
    """A burst of `with` blocks of what enter() returns."""

    def run():
        for _ in range(BURST):
            with enter():
                pass

    return run


def burst_of(manager):
    def run():
        for _ in range(BURST):
            with manager:
                pass

    return run


def burst_of_calls(function, *args):
    def run():
        for _ in range(BURST):
            function(*args)

    return run


def arms_of_cep(label, profiler):
    region = profiler.region("forward")

    @profiler.region("decorated")
    def decorated():
        pass

    yield f"{label}: with region", burst_of(region)
    yield f"{label}: with prof.region(name)", burst(lambda: profiler.region("forward"))
    yield f"{label}: decorated function", burst_of_calls(decorated)
    yield f"{label}: phase", burst_of_calls(profiler.phase, "forward")


def arms_of_torch(torch, bare):
    events = torch.cuda.Event

    def pair():
        for _ in range(BURST):
            begin, end = events(enable_timing=True), events(enable_timing=True)
            begin.record()
            end.record()

    def nvtx():
        push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
        for _ in range(BURST):
            push("forward")
            pop()

    yield "bare: two records", burst_of(bare)
    yield "bare: one record", burst_of_calls(bare.record)
    yield "event pair", pair
    yield "NVTX push and pop", nvtx


class Regions:
    """Times the arms in bursts. Before each burst every profiler is set to a recorded or unrecorded step."""

    def __init__(self, torch, profilers, bare):
        self.profilers = profilers
        self.settle_device = torch.cuda.synchronize if bare is not None else lambda: None
        self.arms = [(name, step, body) for label, profiler in profilers.items()
                     for name, body in arms_of_cep(label, profiler) for step in (RECORDED, OFF)]
        others = list(arms_of_torch(torch, bare)) if bare is not None else []
        others.append(("record_function", burst(lambda: torch.profiler.record_function("forward"))))
        others.append(("nothing", burst_of_calls(lambda: None)))
        self.arms += [(name, RECORDED, body) for name, body in others]
        self.samples = {(name, step): [] for name, step, _ in self.arms}

    def _time(self, name, step, body):
        for profiler in self.profilers.values():
            profiler.step(step)
        start_ns = time.perf_counter_ns()
        body()
        elapsed_ns = time.perf_counter_ns() - start_ns
        for profiler in self.profilers.values():
            profiler.end_phase()
        self.settle_device()
        for profiler in self.profilers.values():
            profiler.flush()
        return elapsed_ns / BURST

    def run(self, seconds):
        order = random.Random(0)
        end = time.monotonic() + seconds
        turn = -10
        while turn < 20 or time.monotonic() < end:
            order.shuffle(self.arms)
            for name, step, body in self.arms:
                sample = self._time(name, step, body)
                if turn >= 0:
                    self.samples[name, step].append(sample)
            turn += 1

    def ratio(self, case, floor):
        if floor not in self.samples or case not in self.samples:
            return None
        return interval([a / b for a, b in zip(self.samples[case], self.samples[floor])])

    def print(self):
        print(f"\n{'ns a region':44} {'recorded':>9} {'q1':>7} {'q3':>7} {'off':>8}   x bare records [95 %]")
        for name in dict.fromkeys(name for name, _ in self.samples):
            low, middle, high = statistics.quantiles(self.samples[name, RECORDED], n=4)
            off = statistics.median(self.samples[name, OFF]) if (name, OFF) in self.samples else None
            floor = ("bare: one record" if "phase" in name else "bare: two records", RECORDED)
            ratio = self.ratio((name, RECORDED), floor)
            off_text = f"{off:8.1f}" if off is not None else " " * 8
            print(f"{name:44} {middle:9.0f} {low:7.0f} {high:7.0f} {off_text}   {text(ratio) if ratio else ''}")


def measure_regions(torch, packages, bare_module, folder, seconds):
    stream = torch.cuda.current_stream().cuda_stream if bare_module is not None else 0
    bare = bare_module.BareRecords(stream, 2 * BURST) if bare_module is not None else None
    profilers = {}
    for label, cep in packages.items():
        backend = "auto" if bare is not None else "host"
        profilers[label] = cep.Profiler(
            os.path.join(folder, label), record_every_n_steps=2, flush_every_n_steps=2**40, backend=backend
        )
    regions = Regions(torch, profilers, bare)
    regions.run(seconds)
    for profiler in profilers.values():
        profiler.close()
    return regions


# ---- Training ---------------------------------------------------------------------------------------

NATIVE, NATIVE_10TH, PHASES, CTYPES, BARE = (
    "native, every step", "native, every 10th", "native phases, every step", "ctypes, every step", "bare records"
)  # fmt: skip


def training_module(packages, bare_library):
    """training.py with the arms of this program."""
    sys.path.insert(0, str(Path(__file__).parent))
    training, arms = importlib.import_module("training"), importlib.import_module("training_arms")
    arms.WithBareRecords.library = bare_library
    native, by_ctypes = packages["native"], packages["ctypes"]
    training.ARMS = {
        arms.OFF: arms.WithoutInstrumentation,
        arms.OFF_AGAIN: arms.WithoutInstrumentation,
        NATIVE: partial(arms.WithCep, package=native),
        NATIVE_10TH: partial(arms.WithCep, package=native, record_every_n_steps=10),
        PHASES: partial(arms.InOneChain, package=native),
        CTYPES: partial(arms.WithCep, package=by_ctypes),
        BARE: arms.WithBareRecords,
        arms.PAIRS: arms.WithEventPairs,
    }
    training.NEED_A_GPU = (arms.PAIRS, BARE)
    return training


class Steps:
    """The training steps of one bound: host or device."""

    def __init__(self, training, device, bound, step_ms):
        self.training, self.bound = training, bound
        self.options = argparse.Namespace(
            bound=bound, step_ms=step_ms, layers=0, arms=list(training.ARMS), warm_up_steps=2, block_steps=20, rounds=20, seconds=None
        )
        self.layers = training.layers_for(device, self.options)
        self.trained = training.Training(device, bound, self.layers)
        self.device = device
        self.blocks, self.own = {}, {}

    def _step_s(self):
        arm = self.training.ARMS[self.training.OFF](self.trained, None)
        arm.step(0)
        start = time.monotonic()
        for number in range(10):
            arm.step(number)
        self.training.wait_for_device(self.device)
        return (time.monotonic() - start) / 10

    def run(self, seconds):
        options, training = self.options, self.training
        arms = len(training.arms_for(self.device, options))
        block_s = arms * (options.block_steps + options.warm_up_steps) * self._step_s()
        options.rounds = max(3, int(0.75 * seconds / block_s) - 5)  # measure() also warms up for 5
        self.blocks, _ = training.measure(self.trained, self.device, options)
        options.rounds = 10 * max(3, int(0.25 * seconds / block_s) - 2)  # measure_own() makes a tenth, and 2 to warm up
        self.own = training.measure_own(self.trained, self.device, options)

    def wall_percent(self, arm):
        return interval(self.training.differences(self.blocks, arm), self.training.midmean)

    def wall_points(self, arm, other):
        """The difference of two arms, in points of a step without instrumentation."""
        pairs = zip(self.training.differences(self.blocks, arm), self.training.differences(self.blocks, other))
        return interval([a - b for a, b in pairs], self.training.midmean)

    def own_us(self, arm):
        return interval(self.own[arm])

    def own_ratio(self, arm, other):
        return interval([a / b for a, b in zip(self.own[arm], self.own[other])])

    def print(self):
        off_ms = statistics.median(self.blocks[self.training.OFF])
        rounds = len(self.blocks[self.training.OFF])
        print(f"\n{self.bound}-bound, {off_ms:.3f} ms a step off, {self.layers} layers, {rounds} rounds")
        print(f"{'':28} {'wall, % [95 %]':28} own, us a step [95 %]")
        for arm in self.blocks:
            if arm != self.training.OFF:
                own = text(self.own_us(arm)) if arm in self.own else ""
                print(f"{arm:28} {text(self.wall_percent(arm), 3):28} {own}")


# ---- Budgets ----------------------------------------------------------------------------------------


def budget(name, value, limit, digits=2):
    """A line of the last table; `value` is (middle, low, high), or None where this run has not measured it."""
    if value is None:
        return f"{name:64} {'not measured':>24}"
    state = "kept" if value[0] <= limit else "exceeded"
    return f"{name:64} {text(value, digits):>24} {'<=':>3} {limit:<6g} {state}"


def print_budgets(regions, steps):
    recorded = ("native: with region", RECORDED)
    print("\nbudgets")
    print(budget("with region / two bare records", regions.ratio(recorded, ("bare: two records", RECORDED)), 1.35))
    off = regions.ratio(("native: with region", OFF), ("NVTX push and pop", RECORDED))
    print(budget("with region, off / NVTX push and pop", off, 0.25))
    lookup = regions.ratio(("native: decorated function", RECORDED), recorded)
    print(budget("decorated function / with region", lookup, 1.1))
    for bound, measured in steps.items():
        pairs = measured.training.PAIRS
        print(budget(f"{bound}-bound: own time with three regions, us a step", measured.own_us(NATIVE), 25, 1))
        print(budget(f"{bound}-bound: own time with phases, us a step", measured.own_us(PHASES), 18, 1))
        if pairs in measured.own:
            print(budget(f"{bound}-bound: own time / event pairs", measured.own_ratio(NATIVE, pairs), 0.125, 3))
        if bound == "host":
            print(budget("host-bound: wall clock, %", measured.wall_percent(NATIVE), 1.5))
        elif BARE in measured.blocks:
            print(budget("device-bound: wall clock over bare records, points", measured.wall_points(NATIVE, BARE), 0.15, 3))
        tenth = measured.wall_percent(NATIVE_10TH)
        print(budget(f"{bound}-bound: every 10th step, wall clock, %: interval within 0.3 of 0",
                     (max(abs(tenth[1]), abs(tenth[2])), *tenth[1:]), 0.3, 3))


def main():
    options = arguments()
    import torch
    import torch.distributed as dist

    on_gpu = torch.cuda.is_available() and not options.host
    device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(0)
        torch.zeros(1, device=device)
    else:
        torch.set_num_threads(1)
    packages = {"ctypes": package("ctypes"), "native": package(options.native)}
    assert {label: cep.binding for label, cep in packages.items()} == {"ctypes": "ctypes", "native": "native"}
    bare_module = extension(options.bare, "bare_records") if on_gpu else None
    clock = torch.cuda.get_device_name() if on_gpu else "host clock (no claim)"
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {clock}, libcep {packages['native'].library_version()}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        dist.init_process_group("nccl" if on_gpu else "gloo", init_method=f"file://{folder}/meeting_point", rank=0, world_size=1)
        gc.collect()
        gc.freeze()
        regions = measure_regions(torch, packages, bare_module, folder, 0.2 * options.seconds)
        regions.print()
        training = training_module(packages, options.bare)
        steps = {}
        for bound, step_ms in (("host", 2.5), ("device", 4.0)):
            steps[bound] = Steps(training, device, bound, step_ms)
            steps[bound].run(0.35 * options.seconds)
            steps[bound].print()
        print_budgets(regions, steps)
        dist.destroy_process_group()
    if options.json:
        samples = {f"{name} ({'recorded' if step == RECORDED else 'off'})": v for (name, step), v in regions.samples.items()}
        result = {"ns": samples, **{bound: {"step_ms": s.blocks, "own_us": s.own} for bound, s in steps.items()}}
        Path(options.json).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
