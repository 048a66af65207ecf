# SPDX-License-Identifier: Apache-2.0
"""cep.torch.instrument() in the modes in which PyTorch runs a model: which rows there are, and whether torch.compile makes as
many graphs as without.

    python3 tests/gpu/instrument_modes.py --output-dir modes

Prints a line for each mode, and ends with status 1 if one is wrong, 77 without PyTorch 2. Uses a GPU if there is one.
"""

import argparse
import collections
import copy
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torch.distributed as dist

    if int(torch.__version__.split(".")[0]) < 2:
        raise ImportError
except ImportError:
    print("instrument_modes.py: skipped: no PyTorch 2", file=sys.stderr)
    sys.exit(77)
import torch._dynamo
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

import cep
import cep.torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "pytorch"))
import training_modes as modes  # noqa: E402
from integration_checks import rows_of, spans_of  # noqa: E402

DEVICE = modes.DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STEPS, STRIDE = 8, 2
RECORDED = range(0, STEPS, STRIDE)
PHASES = {"forward": 1, "backward": 1, "optimizer": 1}


def scaled(model, optimizer, profiler):
    scaler = torch.amp.GradScaler(DEVICE.type)

    def step():
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            loss = model(modes.new_batch()).float().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def whole_step_compiled(model, optimizer, profiler):
    loss_of = torch.compile(lambda batch: model(batch).sum())
    return modes.updating(lambda _: loss_of(modes.new_batch()).backward())(model, optimizer, profiler)


def in_place(model):
    model.compile()
    return model


def sharded(model):
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    return model


def ddp(model):
    return DistributedDataParallel(model, device_ids=None if DEVICE.type == "cpu" else [DEVICE.index or 0])


TWICE = {"forward": 2, "backward": 2, "optimizer": 1}
BUCKET = {**PHASES, "all_reduce": 1}
# Name: how the model is made, the loop, and the rows of a recorded step.
MODES = {
    "eager": (lambda model: model, modes.plain, PHASES),
    "torch.compile(model)": (torch.compile, modes.plain, PHASES),
    "model.compile()": (in_place, modes.plain, PHASES),
    "a compiled function that calls the model": (lambda model: model, whole_step_compiled, {"backward": 0, "optimizer": 1}),
    "checkpoint, reentrant": (lambda _: modes.Reentrant().to(DEVICE), modes.plain, PHASES),
    "checkpoint, not reentrant": (lambda _: modes.NotReentrant().to(DEVICE), modes.plain, PHASES),
    "accumulation": (lambda model: model, modes.accumulated, TWICE),
    "several backwards, retain_graph": (lambda model: model, modes.retained, {**PHASES, "backward": 2}),
    "closure": (lambda model: model, modes.with_closure, PHASES),
    "autocast and GradScaler": (lambda model: model, scaled, PHASES),
    "inference_mode": (lambda model: model, modes.inferred, {"forward_no_grad": 1}),
    "two threads": (lambda model: model, modes.in_threads, TWICE),
    "DDP": (ddp, modes.plain, BUCKET),
    "DDP, no_sync": (ddp, modes.accumulated, {**TWICE, "all_reduce": 1}),
    "torch.compile(DDP)": (lambda model: torch.compile(ddp(model)), modes.plain, BUCKET),
    "DDP of torch.compile": (lambda model: ddp(torch.compile(model)), modes.plain, BUCKET),
    "a module that calls itself": (lambda _: modes.CallsItself().to(DEVICE), modes.plain, PHASES),
    "FSDP2": (sharded, modes.plain, None),
}


def made(how):
    torch.manual_seed(0)
    return how(modes.Net().to(DEVICE))


def is_before_the_operator():
    """Whether cep stands before the operator with which DDP reduces its buckets."""
    key = "AutogradCUDA" if DEVICE.type == "cuda" else "AutogradCPU"
    return torch._C._dispatch_has_kernel_for_dispatch_key("c10d::allreduce_", key)


def train(how, loop, folder, ddp_buckets):
    """The graphs that torch.compile made, its breaks, and the parameters after the training."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = made(how)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    prof = cep.Profiler(folder, record_every_n_steps=STRIDE, enable=folder is not None)
    step_once = loop(model, optimizer, prof)
    with prof, cep.torch.instrument(prof, model, optimizer, ddp_buckets=ddp_buckets, memory=False):
        for step in range(STEPS):
            prof.step(step)
            is_before, may_be = is_before_the_operator(), ddp_buckets and folder is not None and step in RECORDED
            if is_before > may_be or (DEVICE.type == "cpu" and is_before < may_be):  # NCCL's own calls are timed once they are known
                raise AssertionError(f"step {step}: cep is{'' if is_before else ' not'} before the operator")
            step_once()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
    if is_before_the_operator() or cep.torch.hook_failures():
        raise AssertionError(f"cep has stayed before the operator, or {cep.torch.hook_failures()} hooks have failed")
    counters = torch._dynamo.utils.counters
    graphs = counters["stats"].get("unique_graphs", 0), sum(counters["graph_break"].values())
    return graphs, [parameter.detach().clone() for parameter in model.parameters()]


def check_mode(name, folder):
    how, loop, expected = MODES[name]
    ddp_buckets = "all_reduce" in (expected or ())
    graphs_before, plain_weights = train(how, loop, None, ddp_buckets)
    graphs, weights = train(how, loop, folder, ddp_buckets)
    problems = []
    if graphs != graphs_before:
        problems.append(f"{graphs} graphs and breaks, {graphs_before} without cep")
    if not all(torch.equal(one.to_local() if hasattr(one, "to_local") else one,
                           other.to_local() if hasattr(other, "to_local") else other)
               for one, other in zip(weights, plain_weights)):
        problems.append("other weights than without cep")
    rows = spans_of(rows_of(folder, 0))
    failed = [row for row in rows if "error" in row]
    if failed:
        problems.append(f"{len(failed)} rows with an error: {failed[0]}")
    clock = "gpu" if DEVICE.type == "cuda" else "host"
    wrong = [row for row in rows if row["name"] == "all_reduce" and (row["clock"] != clock or row["bytes"] <= 0 or "coll" not in row)]
    if wrong:
        problems.append(f"{len(wrong)} rows of all-reduces that are wrong: {wrong[0]}")
    counts = {step: collections.Counter(row["name"] for row in rows if row["step"] == step) for step in RECORDED}
    found = counts[RECORDED[1]]
    for phase, count in (expected or {**PHASES}).items():
        if count and any(counts[step][phase] != count for step in RECORDED):
            problems.append(f"{phase}: {[counts[step][phase] for step in RECORDED]} rows, not {count}")
    print(f"{'FAIL' if problems else 'PASS'}  {name:<42} {graphs[0]} graphs, {graphs[1]} breaks  {dict(found)}"
          + "".join(f"\n      {problem}" for problem in problems), flush=True)
    return not problems


def check_copies(folder):
    """Copies of an instrumented model work, have no rows, and are read without this package."""
    model = modes.Net().to(DEVICE)
    with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument(prof, model, None):
        prof.step(0)
        saved = io.BytesIO()
        torch.save(model, saved)
        saved.seek(0)
        for twin in (copy.deepcopy(model), AveragedModel(model), torch.load(saved, weights_only=False)):
            twin(modes.new_batch()).sum().backward()
    right = spans_of(rows_of(folder, 0)) == []
    print(f"{'PASS' if right else 'FAIL'}  copies, deep and pickled", flush=True)
    return right


def check_capture(folder):
    """A DDP step with timed buckets, captured as a CUDA graph on recorded steps."""
    side = torch.cuda.Stream()
    batch = torch.ones(2, 8, device=DEVICE)
    with torch.cuda.stream(side):
        model = ddp(modes.Net().to(DEVICE))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with cep.Profiler(folder, record_every_n_steps=1) as prof:
        with cep.torch.instrument(prof, model, optimizer, memory=False):
            prof.step(0)
            with torch.cuda.stream(side):
                for _ in range(12):
                    model(batch).sum().backward()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            prof.step(1)
            with torch.cuda.graph(graph, stream=side):
                model(batch).sum().backward()
            for _ in range(3):
                graph.replay()
            torch.cuda.synchronize()
    if cep.torch.hook_failures():
        raise AssertionError(f"{cep.torch.hook_failures()} hooks have failed")
    print(f"PASS  {'DDP with timed buckets, captured':<42}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output-dir", default="modes")
    options = parser.parse_args()
    output = Path(options.output_dir)
    shutil.rmtree(output, ignore_errors=True)
    # Before NCCL 2.28 and PyTorch's own checks of captures, the watchdog queries events during a capture.
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    with tempfile.TemporaryDirectory() as meeting:
        dist.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo", init_method=f"file://{meeting}/point",
                                rank=0, world_size=1)
        right = []
        for number, name in enumerate(MODES):
            try:
                right.append(check_mode(name, output / str(number)))
            except Exception as error:
                print(f"FAIL  {name:<42} {type(error).__name__}: {error}", flush=True)
                right.append(False)
        right.append(check_copies(output / "copies"))
        if DEVICE.type == "cuda":
            right.append(check_capture(output / "capture"))
        dist.destroy_process_group()
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
