# SPDX-License-Identifier: Apache-2.0
"""The effect of CUDA_DEVICE_MAX_CONNECTIONS=1 on cep's clock anchors, and of cep on the overlap of two streams.

    python3 max_connections.py            # one GPU; starts itself once for each setting

A step issues compute (matrix products) on one stream and transfers (pinned copies to the device, on the copy engine) on
another. It interleaves them, like a trainer that overlaps communication. Its time shows the overlap: without overlap it is
the sum of both, with full overlap the longer one. With one connection all streams share one queue into the GPU, so work
waits for earlier work of other streams.
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

SETTINGS = ("8", "1")
PIECES = 8


def measure(rounds):
    import torch

    import cep

    compute, copies = torch.cuda.Stream(), torch.cuda.Stream()
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    source = torch.empty(16 << 20, dtype=torch.uint8, pin_memory=True)
    target = torch.empty_like(source, device="cuda")

    def multiply():
        with torch.cuda.stream(compute):
            torch.mm(a, a)

    def copy():
        with torch.cuda.stream(copies):
            target.copy_(source, non_blocking=True)

    def step(arm, compute_region, copy_region):
        for _ in range(PIECES):
            if arm == "cep":
                with compute_region:
                    multiply()
                with copy_region:
                    copy()
            else:
                if arm != "copies alone":
                    multiply()
                if arm != "compute alone":
                    copy()

    times = {arm: [] for arm in ("compute alone", "copies alone", "both", "cep")}
    with tempfile.TemporaryDirectory() as directory:
        with cep.Profiler(directory, record_every_n_steps=1) as prof:
            regions = prof.region("compute", "compute", compute), prof.region("copies", "memory", copies)
            for number in range(rounds):
                for arm, ms in times.items():
                    prof.step(number)
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    step(arm, *regions)
                    torch.cuda.synchronize()
                    if number >= rounds // 10:
                        ms.append((time.perf_counter() - start) * 1e3)
        rows = [json.loads(line) for line in next(Path(directory).rglob("*.jsonl")).open()]
    errors = [row["clock_error_ns"] / 1e3 for row in rows if row.get("type") == "run" and row["backend"] == "cuda"]
    lost = prof.stats.recorded - prof.stats.written
    return {"ms": times, "clock_error_us": errors, "lost": lost}


def overlap(ms):
    alone = statistics.median(ms["compute alone"]), statistics.median(ms["copies alone"])
    return {arm: (sum(alone) - statistics.median(ms[arm])) / min(alone) for arm in ("both", "cep")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.rounds)))
        return
    print("connections  compute ms  copies ms  both ms  with cep ms  overlap  overlap with cep  clock error us  lost")
    for setting in SETTINGS:
        environment = dict(os.environ, CUDA_DEVICE_MAX_CONNECTIONS=setting)
        command = [sys.executable, __file__, "--measure", "--rounds", str(options.rounds)]
        result = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
        ms, share = result["ms"], overlap(result["ms"])
        medians = [statistics.median(ms[arm]) for arm in ("compute alone", "copies alone", "both", "cep")]
        errors = result["clock_error_us"]
        print(
            f"{setting:>11}  {medians[0]:10.3f}  {medians[1]:9.3f}  {medians[2]:7.3f}  {medians[3]:11.3f}"
            f"  {share['both']:7.1%}  {share['cep']:16.1%}  {errors[0]:6.1f}..{min(errors):5.1f}  {result['lost']:4}"
        )


if __name__ == "__main__":
    main()
