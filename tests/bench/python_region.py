# SPDX-License-Identifier: Apache-2.0
"""The cost of a region for the trainer's thread in Python, compared with bare ctypes calls and other ways to time a phase.

    python3 python_region.py [--rounds N] [--host]

With PyTorch and a GPU, spans are timed on PyTorch's current stream, and the same run also measures torch.cuda.Event.
Otherwise everything uses the host clock. Each round runs every case once, in rotating order, as a burst that fits the
GPU's queue (256 events) and the thread's ring. The work after a burst (device sync, flush) is not timed. Ratios compare
bursts of the same round.
"""

import argparse
import ctypes
import json
import math
import statistics
import sys
import tempfile
import time

import cep

BURST = 128  # spans
UNRECORDED, RECORDED = 1, 0  # steps, of which every second is recorded
WARM_UP_ROUNDS = 10

SHIM = "a class that calls begin and end by ctypes"
PAIR_IDIOM = "torch.cuda.Event pair, new for each span"
REUSED = "torch.cuda.Event pair, reused"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--host", action="store_true", help="use the host clock even if there is a GPU")
    parser.add_argument("--json", metavar="FILE", help="also write the samples to FILE")
    return parser.parse_args()


def span_calls(prof):
    """libcep's begin and end through ctypes, as the package calls them."""
    calls = cep._ffi.host_calls if prof._on_host else cep._ffi.device_calls
    return calls.begin, calls.end


def handle_of(prof, name):
    return ctypes.c_void_p(prof._native_region(name, None))


class Shim:
    """A minimal timer through ctypes: one stream, no threads, no nesting, no errors."""

    __slots__ = ("_begin", "_end", "_handle", "_stream", "_recording", "_span")

    def __init__(self, prof, stream):
        self._begin, self._end = span_calls(prof)
        self._handle, self._stream = handle_of(prof, "shim"), stream
        self._recording = prof._recording

    def __enter__(self):
        if self._recording:
            self._span = self._begin(self._handle, self._stream)
        return self

    def __exit__(self, error, value, traceback):
        if self._recording:
            self._end(self._handle, self._span, self._stream)


class ReusedEvents:
    """A phase with two events that are recorded again and again, as in trainers that avoid creating events."""

    __slots__ = ("_start", "_end")

    def __init__(self, torch):
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def __enter__(self):
        self._start.record()
        return self

    def __exit__(self, error, value, traceback):
        self._end.record()


def cases_of_cep(prof, stream):
    """(name, step, body) of every case that does not need PyTorch."""
    region, shim = prof.region("forward"), Shim(prof, stream)
    handle, (begin, end) = handle_of(prof, "forward"), span_calls(prof)

    def empty_loop():
        for _ in range(BURST):
            pass

    def ctypes_calls():
        for _ in range(BURST):
            end(handle, begin(handle, stream), stream)

    def with_shim():
        for _ in range(BURST):
            with shim:
                pass

    def with_region():
        for _ in range(BURST):
            with region:
                pass

    def with_region_looked_up():
        for _ in range(BURST):
            with prof.region("forward"):
                pass

    def with_attributes():
        for coll in range(BURST):
            with prof.region("all_reduce", group="dp", coll=coll, bytes=4096):
                pass

    def phases():
        for _ in range(BURST - 1):
            prof.phase("forward")
        prof.end_phase()

    with_cep = (
        ("with region", with_region),
        ("with prof.region(name)", with_region_looked_up),
        ("with prof.region(name, group, coll, bytes)", with_attributes),
        ("prof.phase(name)", phases),
    )
    yield "empty loop", UNRECORDED, empty_loop
    for step in (UNRECORDED, RECORDED):
        yield SHIM, step, with_shim
        for name, body in with_cep:
            yield name, step, body
    yield "begin and end by ctypes, no class", RECORDED, ctypes_calls


def cases_of_torch(torch):
    """Ways to time a phase without a profiler."""
    reused = [ReusedEvents(torch) for _ in range(BURST)]

    def pair_idiom():
        for _ in range(BURST):
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            start.record()
            end.record()

    def reused_events():
        for events in reused:
            with events:
                pass

    yield PAIR_IDIOM, RECORDED, pair_idiom
    yield REUSED, RECORDED, reused_events


def gpu():
    """PyTorch with CUDA initialised, or None if either is missing."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    return torch


def measure(prof, cases, rounds, settle):
    """Nanoseconds a span by case and round, without the time of the loop itself."""
    samples = {(name, step): [] for name, step, _ in cases}
    for turn in range(-WARM_UP_ROUNDS, rounds):
        for index in range(len(cases)):
            name, step, body = cases[(index + turn) % len(cases)]
            prof.step(step)
            start = time.perf_counter_ns()
            body()
            elapsed = time.perf_counter_ns() - start
            settle()
            if turn >= 0:
                samples[name, step].append(elapsed / BURST)
    loop = statistics.median(samples.pop(("empty loop", UNRECORDED)))
    return {case: [value - loop for value in values] for case, values in samples.items()}


def quartiles(values):
    low, median, high = statistics.quantiles(values, n=4)
    return low, median, high


def ratio_interval(values, peers):
    """Median of the paired ratios, and its 95 % interval by order statistics."""
    ratios = sorted(value / peer for value, peer in zip(values, peers))
    half = 0.98 / math.sqrt(len(ratios))
    place = lambda fraction: ratios[min(len(ratios) - 1, max(0, round(fraction * (len(ratios) - 1))))]  # noqa: E731
    return statistics.median(ratios), place(0.5 - half), place(0.5 + half)


def print_table(samples, step, title):
    shim = samples[SHIM, step]
    print(f"\n{title:56} {'ns':>8} {'q1':>8} {'q3':>8}   ratio to the ctypes class [95 %]")
    for (name, of_step), values in samples.items():
        if of_step == step:
            low, median, high = quartiles(values)
            ratio, least, most = ratio_interval(values, shim)
            print(f"{name:56} {median:8.0f} {low:8.0f} {high:8.0f}   {ratio:.2f} [{least:.2f}, {most:.2f}]")


def print_ratios(samples):
    ours = samples["with region", RECORDED]
    for name in (PAIR_IDIOM, REUSED):
        if (name, RECORDED) in samples:
            ratio, low, high = ratio_interval(samples[name, RECORDED], ours)
            print(f"{name}: {ratio:.2f} [{low:.2f}, {high:.2f}] x `with region`")


def main():
    options = arguments()
    torch = None if options.host else gpu()
    with tempfile.TemporaryDirectory() as folder, cep.Profiler(
        folder, backend="auto" if torch else "host", record_every_n_steps=2, flush_every_n_steps=2**40
    ) as prof:
        stream = ctypes.c_void_p(cep._streams.stream_address(torch.cuda.current_stream() if torch else 0))
        cases = [*cases_of_cep(prof, stream), *(cases_of_torch(torch) if torch else ())]

        def settle():
            if torch:
                torch.cuda.synchronize()
            prof.flush()

        samples = measure(prof, cases, options.rounds, settle)
        lost = prof.stats.lost
    clock = torch.cuda.get_device_name() + f", torch {torch.__version__}" if torch else "host clock"
    print(f"Python {sys.version.split()[0]}, {cep.binding}, {clock}; ns a span, {options.rounds} rounds, median and quartiles")
    print_table(samples, UNRECORDED, "unrecorded step")
    print_table(samples, RECORDED, "recorded")
    print_ratios(samples)
    print(f"spans lost: {lost}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([{"case": name, "step": step, "ns": values} for (name, step), values in samples.items()], file)


if __name__ == "__main__":
    main()
