# SPDX-License-Identifier: Apache-2.0
"""cep.torch on real GPUs: DDP and FSDP2 trainings with a planted straggler, whose rows are then checked.

    torchrun --standalone --nproc_per_node 4 tests/gpu/torch_integration.py

Takes about a minute. Prints a line for each check and ends with status 1 if one failed, 77 where there is nothing to
run on. With --device cpu it runs over gloo, for those who change it.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("torch_integration.py: skipped: no PyTorch", file=sys.stderr)
    sys.exit(77)
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cep
import cep.torch
from integration_checks import (
    SLOW_RANK, check_async, check_buckets, check_buckets_in_backward, check_collectives, check_memory, check_messages, check_no_loss,
    check_phases, check_summary, check_traces, check_verdict, rows_of, spans_of,
)

SLOW_S = 0.010
PARTS = ("ddp", "buckets", "functions", "fsdp", "async", "messages", "traces")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--steps", type=int, default=24, help="of each training")
    parser.add_argument("--width", type=int, default=1024, help="of the model")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--parts", default=",".join(PARTS), help="of the program")
    parser.add_argument("--output-dir", help="kept, where given")
    return parser.parse_args()


class Report:
    """The checks' outcomes, on rank 0."""

    def __init__(self):
        self.failed = 0

    def check(self, what, passed, detail=""):
        self.failed += not passed
        print(f"{'PASS' if passed else 'FAIL'}  {what:<64} {detail}", flush=True)

    def note(self, what, detail):
        print(f"      {what:<64} {detail}", flush=True)


class Setting:
    """This process's place, and how models and batches are made."""

    def __init__(self, options):
        self.options = options
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.on_gpu = options.device == "cuda"
        self.clock = "gpu" if self.on_gpu else "host"
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if self.on_gpu else torch.device("cpu")

    def layers(self):
        torch.manual_seed(0)
        width = self.options.width
        layers = [layer for _ in range(self.options.layers) for layer in (nn.Linear(width, width), nn.GELU())]
        return nn.Sequential(*layers).to(self.device)

    def synchronize(self):
        if self.on_gpu:
            torch.cuda.synchronize()


class Batches:
    """A loader of so many batches, which takes its time on one rank."""

    def __init__(self, setting, count, slow_s=0.0):
        self.setting, self.count = setting, count
        self.slow_s = slow_s if setting.rank == SLOW_RANK else 0.0

    def __len__(self):
        return self.count

    def __iter__(self):
        torch.manual_seed(100 + self.setting.rank)
        for _ in range(self.count):
            time.sleep(self.slow_s)  # its own work
            batch = torch.randn(self.setting.options.batch_size, self.setting.options.width)
            yield batch.pin_memory() if self.setting.on_gpu else batch


def train(setting, model, optimizer, prof, steps):
    for batch in cep.torch.iterate(prof, Batches(setting, steps, SLOW_S), first_step=0):
        batch = cep.torch.to_device(prof, batch, setting.device)
        model(batch).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def ddp(setting, bucket_cap_mb=4):
    ids = [setting.device.index] if setting.on_gpu else None
    return DistributedDataParallel(setting.layers(), device_ids=ids, bucket_cap_mb=bucket_cap_mb)


# ---- Trainings ------------------------------------------------------------------------------------------------------


def train_ddp(setting, folder):
    """Returns the live summary, and whether the parameters are those of a training without cep."""
    steps = setting.options.steps
    finals = []
    summary = None
    for instrumented in (False, True):
        model = ddp(setting)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with cep.Profiler(folder, record_every_n_steps=1, flush_every_n_steps=4, enable=instrumented) as prof:
            with cep.torch.instrument(prof, model, optimizer), cep.torch.gather(prof, steps // 3) as live:
                train(setting, model, optimizer, prof, steps)
                deadline = time.monotonic() + 20
                while instrumented and live.summary is None and live.failure is None and time.monotonic() < deadline:
                    time.sleep(0.01)
                summary = live.summary
                if live.failure:
                    print(f"rank {setting.rank}: gather: {live.failure}", file=sys.stderr)
                dist.barrier()
        finals.append([parameter.detach().clone() for parameter in model.parameters()])
    same = all(torch.equal(one, other) for one, other in zip(*finals))
    return summary, same


def train_buckets(setting, folder):
    """Returns of each step whether no function stands before DDP's operator."""
    model, by_nccl = ddp(setting), []
    with cep.Profiler(folder, record_every_n_steps=2) as prof, cep.torch.instrument(prof, model, None):
        for step in range(setting.options.steps):
            setting.synchronize()
            dist.barrier()
            prof.step(step)
            by_nccl.append(not prof._part(cep.torch._ddp.DDPReductions)._is_registered)
            # Many, so that the device is behind its host, and no span has time of the host in it.
            model(torch.ones(8192, setting.options.width, device=setting.device)).pow(2).mean().backward()
        setting.synchronize()
    return by_nccl


def call_functions(setting, folder):
    """Each function of torch.distributed that moves tensors, and messages. Returns the names of the rows that it should have."""
    ranks, peer = setting.ranks, setting.rank ^ 1
    one, many = torch.ones(ranks << 10, device=setting.device), torch.ones(ranks << 10, device=setting.device)
    parts = lambda: list(torch.ones(ranks, 1 << 10, device=setting.device))
    first = setting.rank == 0
    calls = {
        "broadcast": lambda: dist.broadcast(one, 0),
        "reduce": lambda: dist.reduce(one, 0),
        "all_gather": lambda: dist.all_gather(parts(), one[:1024]),
        "reduce_scatter": lambda: dist.reduce_scatter(one[:1024], parts()),
        "all_to_all": lambda: (dist.all_to_all_single(many, one), dist.all_to_all(parts(), parts())),
        "gather": lambda: dist.gather(one[:1024], parts() if first else None, dst=0),
        "scatter": lambda: dist.scatter(one[:1024], parts() if first else None, src=0),
        "barrier": lambda: (dist.barrier(), dist.barrier(async_op=True).wait()),
        "send" if setting.rank % 2 else "recv": lambda: (dist.send if setting.rank % 2 else dist.recv)(one, peer),
    }
    if ranks % 2:
        calls.popitem()  # the last rank has no peer
    with cep.Profiler(folder, record_every_n_steps=2) as prof, cep.torch.instrument_collectives(prof):
        for step in range(4):
            prof.step(step)
            for call in calls.values():
                call()
        setting.synchronize()
    return list(calls)


def train_fsdp(setting, folder):
    """False on CPUs, and where this PyTorch has no fully_shard."""
    if not setting.on_gpu:
        return False
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        return False
    model = setting.layers()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with cep.Profiler(folder, record_every_n_steps=2) as prof, cep.torch.instrument(prof, model, optimizer):
        train(setting, model, optimizer, prof, setting.options.steps)
        setting.synchronize()
    return True


def time_async(setting, folder, elements, count=20):
    """Asynchronous all-reduces, timed by events on the current stream beside cep's rows. Returns those times in ms."""
    tensor = torch.ones(elements, device=setting.device)
    events = []
    with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument_collectives(prof):
        for step in range(count):
            prof.step(step)
            pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            setting.synchronize()
            pair[0].record()
            work = dist.all_reduce(tensor, async_op=True)
            torch.cuda._sleep(100_000)  # compute beside it, shorter than it
            work.wait()
            pair[1].record()
            events.append(pair)
        setting.synchronize()
    return [begin.elapsed_time(end) for begin, end in events]


def exchange(setting, folder, steps=10):
    """Batches of messages between pairs of ranks, as in a pipeline: one way, and both ways at once."""
    peer = setting.rank ^ 1
    here, there = (torch.ones(1 << 20, device=setting.device) for _ in range(2))
    send, receive = dist.P2POp(dist.isend, here, peer), dist.P2POp(dist.irecv, there, peer)
    with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument_collectives(prof):
        for step in range(steps if peer < setting.ranks else 0):
            prof.step(step)
            setting.synchronize()
            dist.barrier()
            if setting.rank % 2:
                torch.cuda._sleep(20_000_000)  # this rank is late, so the other waits
            for batch in ([send if setting.rank % 2 else receive], [send, receive]):
                for work in dist.batch_isend_irecv(batch):
                    work.wait()
        setting.synchronize()


def trace_some_steps(setting, folder):
    config = {"start_step": 2, "end_step": 4, "directory": str(folder), "ranks": [0, SLOW_RANK]}
    model = ddp(setting)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with cep.torch.build_profiler(config, setting.rank, setting.ranks) as tracer:
            for batch in Batches(setting, 6):
                model(batch.to(setting.device)).pow(2).mean().backward()
                tracer.step()
    return [str(one.message) for one in caught if str(one.message).startswith("cep")]


# ---- The run --------------------------------------------------------------------------------------------------------


def run_ddp(setting, folder, report):
    summary, same = train_ddp(setting, folder)
    dist.barrier()
    if report is None:
        return
    steps = list(range(setting.options.steps))
    every_rank = [rows_of(folder, rank) for rank in range(setting.ranks)]
    check_phases(report, "DDP", every_rank, steps)
    check_collectives(report, "DDP", every_rank, setting.clock, {"all_reduce", "barrier"})
    if setting.on_gpu:
        check_buckets_in_backward(report, every_rank)
        check_memory(report, every_rank, steps)
    check_no_loss(report, "DDP", every_rank)
    check_summary(report, summary)
    check_verdict(report, "DDP", folder)
    report.check("DDP: the parameters are those of a training without cep, to the last bit", same)


def run_buckets(setting, folder, report):
    if not setting.on_gpu:
        return
    by_nccl = train_buckets(setting, folder)
    dist.barrier()
    if report is not None:
        report.check("buckets: NCCL's calls alone are timed from the second recorded step on", all(by_nccl[2::2]))
        check_buckets(report, rows_of(folder, 0), range(4, setting.options.steps, 2))


def run_functions(setting, folder, report):
    if not setting.on_gpu:
        return
    names = call_functions(setting, folder)
    dist.barrier()
    if report is not None:
        rows = spans_of(rows_of(folder, 0))
        for name in names:
            found = [row for row in rows if row["name"] == name]
            right = bool(found) and all(row["clock"] == "gpu" and "error" not in row for row in found)
            report.check(f"functions: {name} is timed on the device in each recorded step",
                         right and {row["step"] for row in found} == {0, 2}, f"{len(found)} rows")
        report.check("functions: no hook has failed", cep.torch.hook_failures() == 0)


def run_fsdp(setting, folder, report):
    has_fsdp = train_fsdp(setting, folder)
    dist.barrier()
    if report is None or not has_fsdp:
        return
    every_rank = [rows_of(folder, rank) for rank in range(setting.ranks)]
    check_phases(report, "FSDP2", every_rank, list(range(0, setting.options.steps, 2)))
    check_collectives(report, "FSDP2", every_rank, setting.clock, {"all_gather", "reduce_scatter"})
    check_no_loss(report, "FSDP2", every_rank)
    check_verdict(report, "FSDP2", folder)


def run_async(setting, folder, report):
    if not setting.on_gpu:
        return
    elements = 64 << 20
    truth_ms = time_async(setting, folder, elements)
    dist.barrier()
    if report is not None:
        check_async(report, rows_of(folder, 0), truth_ms, elements)


def run_messages(setting, folder, report):
    if not setting.on_gpu:  # gloo's messages cannot be timed
        return
    exchange(setting, folder)
    dist.barrier()
    if report is not None:
        check_messages(report, [rows_of(folder, rank) for rank in range(setting.ranks // 2 * 2)])


def run_traces(setting, folder, report):
    complaints = trace_some_steps(setting, folder)
    dist.barrier()
    if report is not None:
        check_traces(report, folder, complaints)


def run(setting, folder):
    """Returns how many checks failed. Rank 0 has the report."""
    report = Report() if setting.rank == 0 else None
    parts = {"ddp": run_ddp, "buckets": run_buckets, "functions": run_functions, "fsdp": run_fsdp,
             "async": run_async, "messages": run_messages, "traces": run_traces}
    for name, part in parts.items():
        if name not in setting.options.parts.split(","):
            continue
        begin = time.monotonic()
        part(setting, folder / name, report)
        if report is not None:
            report.note(f"({name})", f"{time.monotonic() - begin:.1f} s")
    if report is None:
        return 0
    print(f"{report.failed} failed", flush=True)
    return report.failed


def main():
    options = arguments()
    local_rank = int(os.environ.get("LOCAL_RANK", -1))
    if local_rank < 0 or int(os.environ["WORLD_SIZE"]) < 2:
        print("torch_integration.py: skipped: start it with torchrun on 2 or more ranks", file=sys.stderr)
        sys.exit(77)
    if options.device == "cuda":
        if torch.cuda.device_count() <= local_rank:
            print("torch_integration.py: skipped: a GPU for each rank is needed", file=sys.stderr)
            sys.exit(77)
        torch.cuda.set_device(local_rank)
    else:
        torch.set_num_threads(1)
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    setting = Setting(options)
    shared = [options.output_dir or tempfile.mkdtemp()] if setting.rank == 0 else [None]
    dist.broadcast_object_list(shared)
    failed = run(setting, Path(shared[0]))
    dist.barrier()
    if setting.rank == 0 and not options.output_dir:
        shutil.rmtree(shared[0], ignore_errors=True)
    dist.destroy_process_group()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
