# SPDX-License-Identifier: Apache-2.0
"""What a region costs the trainer's thread in Python, beside the least that ctypes allows.

    python3 python_region.py [--rounds N]

Recorded spans come in bursts that fit the thread's ring, with a flush between that is not timed.
"""

import argparse
import statistics
import tempfile
import time

import cep
from cep import _ffi

BURST = 2000  # spans; less than half of the default ring's 4096


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--bursts", type=int, default=20, help="bursts in a round")
    return parser.parse_args()


def empty_loop(prof):
    for _ in range(BURST):
        pass


def with_region(prof):
    region = prof.region("forward")
    for _ in range(BURST):
        with region:
            pass


def with_region_looked_up(prof):
    for _ in range(BURST):
        with prof.region("forward"):
            pass


def with_region_and_attributes(prof):
    for coll in range(BURST):
        with prof.region("all_reduce", group="dp", coll=coll, bytes=4096):
            pass


def phases(prof):
    for _ in range(BURST):
        prof.phase("forward")
    prof.end_phase()


def ctypes_pair(prof):
    begin, end = _ffi.begin, _ffi.end
    region, stream = prof.region("forward")._handle, cep._streams.DEFAULT_POINTER
    for _ in range(BURST):
        end(region, begin(region, stream), stream)


UNRECORDED, RECORDED = 1, 0  # steps, of which every second is recorded
CASES = (
    ("unrecorded  with region", with_region, UNRECORDED),
    ("unrecorded  with prof.region(name)", with_region_looked_up, UNRECORDED),
    ("unrecorded  with prof.region(name, group, coll, bytes)", with_region_and_attributes, UNRECORDED),
    ("unrecorded  prof.phase(name)", phases, UNRECORDED),
    ("recorded    begin and end by ctypes alone", ctypes_pair, RECORDED),
    ("recorded    with region", with_region, RECORDED),
    ("recorded    with prof.region(name)", with_region_looked_up, RECORDED),
    ("recorded    with prof.region(name, group, coll, bytes)", with_region_and_attributes, RECORDED),
    ("recorded    prof.phase(name)", phases, RECORDED),
)


def measure(prof, body, bursts):
    """Nanoseconds a span, of the quickest burst: the others were disturbed by what else the machine does."""
    best = None
    for _ in range(bursts):
        start = time.perf_counter_ns()
        body(prof)
        elapsed = time.perf_counter_ns() - start
        best = elapsed if best is None else min(best, elapsed)
        prof.flush()
    return best / BURST


def main():
    options = arguments()
    samples = {label: [] for label, _, _ in CASES}
    with tempfile.TemporaryDirectory() as folder, cep.Profiler(
        folder, backend="host", record_every_n_steps=2, flush_every_n_steps=2**40
    ) as prof:
        for _ in range(options.rounds):
            floor = measure(prof, empty_loop, options.bursts)
            for label, body, step in CASES:
                prof.step(step)
                samples[label].append(measure(prof, body, options.bursts) - floor)
        lost = prof.stats.lost
    print(f"{'ns a span, host clock, loop taken off':56} {'median':>8} {'min':>8} {'max':>8}")
    for label, values in samples.items():
        print(f"{label:56} {statistics.median(values):8.0f} {min(values):8.0f} {max(values):8.0f}")
    print(f"spans lost: {lost}")


if __name__ == "__main__":
    main()
