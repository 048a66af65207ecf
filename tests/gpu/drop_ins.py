# SPDX-License-Identifier: Apache-2.0
"""The drop-in classes on a real GPU: their times beside those of torch.cuda.Event round the same work.

    python3 tests/gpu/drop_ins.py

cep must be importable (an installed wheel, or PYTHONPATH and CEP_LIBRARY). Prints PASS or FAIL for each; its status is
1 if one failed, 77 where there is no GPU.
"""

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

import torch

from cep.compat import CudaEventProfiler, build_profiler, print_profiler_summary
from cep.torch import CUDATimer, CUDATimerCollection

BUSY_CYCLES = 20_000_000  # some 10 ms
# Two pairs of events round the same kernel lie some 10 µs apart.
TOLERANCE_MS = 0.1


class Reference:
    """The time of a block by a pair of events of PyTorch's."""

    def __enter__(self):
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.begin.record()
        return self

    def __exit__(self, *raised):
        self.end.record()

    @property
    def milliseconds(self):
        self.end.synchronize()
        return self.begin.elapsed_time(self.end)


def is_near(measured_ms, reference):
    return abs(measured_ms - reference.milliseconds) < TOLERANCE_MS


def rows_in(directory):
    return [json.loads(line) for line in (Path(directory) / "cuda_events_rank_0.jsonl").read_text().splitlines()]


def times_of_a_timer():
    timer = CUDATimer()
    with Reference() as reference:
        timer.start()
        torch.cuda._sleep(BUSY_CYCLES)
        timer.stop()
    return is_near(timer.elapsed_ms(), reference)


def times_of_a_collection():
    timers = CUDATimerCollection(["forward", "backward", "comm"])
    with Reference() as reference:
        timers.start("forward")
        torch.cuda._sleep(BUSY_CYCLES)
        timers.stop("forward")
    times_ms = timers.elapsed_all()
    return is_near(times_ms["forward"], reference) and times_ms["comm"] == 0.0


def rows_of_an_event_profiler():
    with tempfile.TemporaryDirectory() as directory:
        profiler = CudaEventProfiler(True, directory, 0, {"record_every_n_steps": 2})
        references = {}
        for step in range(5):
            torch.cuda._sleep(BUSY_CYCLES)  # so that host time is no part of any
            with Reference() as references[step], profiler.record("training_step", step=step, micro_step=0):
                torch.cuda._sleep(BUSY_CYCLES)
            profiler.maybe_flush(step)
        profiler.flush(blocking=True)
        rows = rows_in(directory)
        profiler.close()
    keys = {"duration_ms", "name", "rank", "step", "micro_step"}
    near = all(set(row) > keys and is_near(row["duration_ms"], references[row["step"]]) for row in rows)
    return near and [row["step"] for row in rows] == [0, 2, 4]


def a_flush_that_does_not_block():
    with tempfile.TemporaryDirectory() as directory:
        profiler = CudaEventProfiler(True, directory, 0)
        with profiler.record("training_step", step=0):
            torch.cuda._sleep(50 * BUSY_CYCLES)
        profiler.flush()
        busy = not torch.cuda.current_stream().query()
        rows_while_busy = len(rows_in(directory))
        profiler.close()
        return busy and rows_while_busy == 0 and len(rows_in(directory)) == 1


def a_printed_summary():
    """Needs the cep command, on PATH or in the package."""
    matrix = torch.ones(512, 512, device="cuda")
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()) as printed:
        prof = build_profiler({"trace_dir": directory, "start_step": 1, "end_step": 3}, rank=0)
        prof.start()
        for _ in range(4):
            matrix @ matrix
            torch.cuda.synchronize()
            prof.step()
        prof.stop()
        print_profiler_summary(prof, trace_dir=directory)
        has_file = (Path(directory) / "summary.md").exists()
    text = printed.getvalue()
    return has_file and all(part in text for part in ("own GPU time", "aten::mm", "while kernels ran", "matmul"))


CHECKS = (
    times_of_a_timer,
    times_of_a_collection,
    rows_of_an_event_profiler,
    a_flush_that_does_not_block,
    a_printed_summary,
)


def main():
    if not torch.cuda.is_available():
        print("SKIP: no GPU")
        return 77
    torch.cuda._sleep(BUSY_CYCLES)
    torch.cuda.synchronize()
    results = {check.__name__: check() for check in CHECKS}
    for name, passed in results.items():
        print("PASS" if passed else "FAIL", name)
    return int(not all(results.values()))


if __name__ == "__main__":
    sys.exit(main())
