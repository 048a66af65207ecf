# SPDX-License-Identifier: Apache-2.0
"""A training step of DistributedDataParallel is captured as a CUDA graph on a recorded step, with timed buckets.

    python3 tests/gpu/ddp_capture.py [--older FOLDER]

Timing a bucket makes a stream of the profiler's wait for the bucket. In a capture that stream would join the capture and
never leave it, and the capture would end with error 904 (cudaErrorStreamCaptureUnjoined). So the hook asks first whether
the stream is capturing. Each line is a process:

- today: has to pass, and the replayed graph has to compute the same gradients as a step that was not captured. So with
  DDP's communication hook, which instrument() uses before PyTorch 2.1 only.
- without the check: today's package with that question answered "no". The capture has to fail.
- older: the package in FOLDER, from before the check, where the capture has to fail too:

      git archive 'e8ca430^' bindings/python/cep | tar -x -C FOLDER --strip-components=2

Ends with status 1 if a line is wrong, 77 without a GPU. cep must be importable (PYTHONPATH and CEP_LIBRARY).
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT_S = 120
DDP_WARM_UP_STEPS = 12  # DDP reads its own timings in the first steps, which no capture allows


def train(folder, with_hook):
    """The gradients of a step, and those after the graph of the same step."""
    import cep
    import cep.torch
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    side = torch.cuda.Stream()
    batch = torch.ones(4, 32, device="cuda")
    with torch.cuda.stream(side):
        model = DistributedDataParallel(torch.nn.Linear(32, 32).cuda(), device_ids=[0])
    with cep.Profiler(folder, record_every_n_steps=1) as profiler:
        if with_hook:
            cep.torch.instrument_ddp(model, profiler)
        else:
            cep.torch.instrument(model, None, profiler, memory=False)
        profiler.step(0)
        with torch.cuda.stream(side):
            for _ in range(DDP_WARM_UP_STEPS):
                model.zero_grad(set_to_none=False)
                model(batch).sum().backward()
        side.synchronize()
        expected = model.module.weight.grad.clone()
        graph = torch.cuda.CUDAGraph()
        profiler.step(1)
        with torch.cuda.graph(graph, stream=side):
            model.zero_grad(set_to_none=False)
            model(batch).sum().backward()
        model.module.weight.grad.zero_()
        graph.replay()
        torch.cuda.synchronize()
        return expected, model.module.weight.grad


def child(how):
    import torch
    import torch.distributed as dist

    # Before NCCL 2.28 and PyTorch's own checks of captures, the watchdog queries events during a capture.
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    os.environ.setdefault("NCCL_ASYNC_ERROR_HANDLING", "0")
    if how.startswith("without the check"):
        torch.cuda.is_current_stream_capturing = lambda: False
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        try:
            expected, replayed = train(folder, with_hook=how.endswith("hook"))
            assert torch.equal(expected, replayed), "the graph computes other gradients"
        except Exception as error:
            print(f"{FAILED}{type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
            os._exit(1)  # NCCL may wait for ever for what a failed capture has left
        dist.destroy_process_group()
    return 0


FAILED = "capture failed: "


def last_error(output):
    lines = [line[len(FAILED):] for line in output.splitlines() if line.startswith(FAILED)]
    return (lines or output.splitlines() or ["no output"])[-1].strip()


def run(how, package):
    """The child's exit status and its error."""
    environment = dict(os.environ)
    if package is not None:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(package), environment.get("PYTHONPATH"))))
        environment.pop("CEP_BINDING", None)  # today's extension module is not the older package's
    command = [sys.executable, str(Path(__file__).resolve()), "--child", how]
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return 1, f"hangs: not done within {TIMEOUT_S} s"
    return done.returncode, "" if done.returncode == 0 else last_error(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--older", type=Path, help="a folder with an older package cep")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        return child(options.child)
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("ddp_capture.py: skipped: no PyTorch with a GPU", file=sys.stderr)
        return 77
    cases = [
        ("today", None, True),
        ("today, with the hook", None, True),
        ("without the check", None, False),
        ("without the check, with the hook", None, False),
    ]
    if options.older is not None:
        cases.append(("older, with the hook", options.older, False))
    wrong = 0
    for how, package, passes in cases:
        status, error = run(how, package)
        right = (status == 0) is passes
        wrong += not right
        print(f"{'PASS' if right else 'FAIL'}  {how:<34} {'captured and replayed' if status == 0 else error}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
