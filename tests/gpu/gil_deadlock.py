# SPDX-License-Identifier: Apache-2.0
"""Whether a trainer hangs where a host function on the stream (cuLaunchHostFunc) needs the interpreter's lock while the
GPU's queue is full.

    python3 tests/gpu/gil_deadlock.py

A stream sleeps, then runs a host function of Python's; behind it regions are recorded until the queue is full and the
record blocks. Each way to record runs in a process of its own, with a time limit.

Takes a minute where one way hangs. Ends with status 1 if the way that is shipped hangs,
77 where there is nothing to run on. tests/python/test_interpreter_lock.py shows the same on the fake driver.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import time
import unittest.mock
from pathlib import Path

import cep
from cep import _ffi

HELD = "GIL held"
SHIPPED = "as shipped"
SKIPPED_STATUS = 77
REGIONS = 2000  # the queue takes a few hundred events
BURST = 64  # regions that it takes without delay
SLEEP_CYCLES = 4_000_000_000  # of the GPU's clock: about 2 s


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=60, help="seconds until a process counts as hanging")
    parser.add_argument("--child", choices=(HELD, SHIPPED), help=argparse.SUPPRESS)
    return parser.parse_args()


def succeeded(code):
    if code != 0:
        raise RuntimeError(f"CUDA error {code}")


class Gpu:
    """The real driver, with PyTorch's context."""

    def __init__(self):
        import torch

        self.torch = torch
        torch.zeros(1, device="cuda")
        self.stream = torch.cuda.Stream()
        self._driver = ctypes.CDLL("libcuda.so.1")

    def hold_stream(self, host_function):
        """Queues a long sleep and then the host function."""
        with self.torch.cuda.stream(self.stream):
            self.torch.cuda._sleep(SLEEP_CYCLES)
        self.launch(host_function)

    def launch(self, host_function):
        succeeded(self._driver.cuLaunchHostFunc(ctypes.c_void_p(self.stream.cuda_stream), host_function, None))

    def synchronize(self):
        self.torch.cuda.synchronize()


def passage_of(prof, gpu, way):
    """A call that times an empty phase."""
    region = prof.region(way, stream=gpu.stream)
    if region._keeps_lock != (way == HELD):
        raise RuntimeError(f"{way}: the region keeps the lock: {region._keeps_lock}")

    def passage():
        with region:
            pass

    return passage


def open_profiler(folder, way):
    """A profiler whose regions keep the interpreter's lock, or do as is shipped."""
    # The package keeps the lock where it takes the profiler for one of the host clock. The library records events.
    backends = {"host": _ffi.BACKENDS["auto"]} if way == HELD else {}
    with unittest.mock.patch.dict(_ffi.BACKENDS, backends):
        # Every step is 0: nothing is flushed while a burst is timed.
        prof = cep.Profiler(Path(folder, way), record_every_n_steps=1, flush_every_n_steps=2**40, pool_limit=65536)
    prof.step(0)
    return prof


def hang_or_not(gpu, way):
    """Records behind a host function that needs the interpreter's lock. Prints what happened, if it ends."""
    ran_at = []
    host_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ran_at.append(time.perf_counter()))
    with tempfile.TemporaryDirectory() as folder, open_profiler(folder, way) as prof:
        call = passage_of(prof, gpu, way)
        gpu.launch(host_function)
        for _ in range(BURST):
            call()
        gpu.synchronize()
        ran_at.clear()
        gpu.hold_stream(host_function)
        began = time.perf_counter()
        longest_s = 0.0
        for _ in range(REGIONS):
            start = time.perf_counter()
            call()
            longest_s = max(longest_s, time.perf_counter() - start)
        ended = time.perf_counter()
        gpu.synchronize()
        stats = prof.stats
    facts = {
        "s": ended - began,
        "longest_s": longest_s,
        "during": bool(ran_at) and ran_at[0] < ended,
        "recorded": stats.recorded,
        "lost": stats.lost,
    }
    print(json.dumps(facts))


def run_child(options, child):
    """What a process of its own printed; None if it had to be ended."""
    command = [sys.executable, __file__, "--child", child]
    try:
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return None
    if process.returncode != 0:
        sys.stderr.write(process.stderr)
        return {"failed": process.returncode}
    return json.loads(process.stdout.splitlines()[-1])


def outcome(options, result):
    if result is None:
        return f"deadlock: no end within {options.limit:g} s"
    if "failed" in result:
        return f"FAILED with status {result['failed']}"
    if not result["during"]:
        return f"no deadlock, but the queue did not fill: {result['s']:.3f} s"
    return (
        f"no deadlock: {REGIONS} regions in {result['s']:.3f} s, the longest wait for the queue "
        f"{result['longest_s']:.3f} s ({result['recorded']} spans recorded, {result['lost']} lost)"
    )


def has_gpu():
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def main():
    options = arguments()
    if options.child:
        hang_or_not(Gpu(), options.child)
        return 0
    if not has_gpu():
        print("gil_deadlock.py: skipped: no PyTorch with a GPU", file=sys.stderr)
        return SKIPPED_STATUS
    passed = True
    for way in (HELD, SHIPPED):
        result = run_child(options, way)
        print(f"{way:24} {outcome(options, result)}", flush=True)
        passed = passed and (way != SHIPPED or (result is not None and "failed" not in result))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
