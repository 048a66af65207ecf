# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's all-reduces, in jobs of several processes over gloo."""

import subprocess
import sys

import pytest
from collective_rows import comm_rows, identities
from conftest import end_ns, needs_torch
from ddp_looks import LOOKS

needs_torch()

pytest_plugins = ("training_jobs",)

DDP = """
def trained(instrumented, **options):
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Linear(9, 9) for _ in range(4)))
    model = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0005, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    handle = cep.torch.instrument(prof, model, optimizer) if instrumented else None
    for step in range(4):
        prof.step(step)
        with model.no_sync():
            model(torch.randn(3, 9)).pow(2).mean().backward()
        model(torch.randn(3, 9)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    if handle:
        handle.remove()
    return [parameter.detach().clone() for parameter in net.parameters()]

with cep.Profiler(folder, record_every_n_steps=2) as prof:
    for options in ({}, {"gradient_as_bucket_view": True}):
        for mine, plain in zip(trained(True, **options), trained(False, **options)):
            assert torch.equal(mine, plain), (mine - plain).abs().max()
    wait_for_ends(prof)
"""


def test_ddp_reduces_the_same_gradients_and_each_bucket_is_a_row_within_the_backward(job, files):
    job.run(3, DDP)
    for rank in range(3):
        rows, backwards = comm_rows(files, rank), files.spans("backward", rank)
        assert {row["name"] for row in rows} == {"all_reduce"} and {row["step"] for row in rows} == {0, 2}
        assert identities(files, rank) == identities(files, 0)
        assert len(identities(files, rank)) == len(rows)
        # Each instrumented training has all gradients once in each recorded step: no_sync() reduces nothing.
        assert sum(row["bytes"] for row in rows) == 2 * 2 * 4 * (9 * 9 + 9) * 4
        for row in rows:
            assert any(one["start_ns"] <= row["start_ns"] and end_ns(row) <= end_ns(one) for one in backwards)
            assert row["depth"] == 1  # in the backward, and in no other reduction


def test_a_step_that_is_not_recorded_has_nothing_of_ours_in_ddp(job, files):
    job.run(2, LOOKS + """
class Wrapper(torch.nn.Module):  # as Fabric's
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, *args):
        return self.inside(*args)

def train(model):
    model(torch.ones(1, 4)).sum().backward()
    dist.all_reduce(torch.ones(8))  # a row of its own, and one only
    dist.all_reduce(torch.ones(8, dtype=torch.int32), async_op=True).wait()

models = [torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4)) for _ in range(2)]
with cep.Profiler(folder, record_every_n_steps=2) as prof:
    prof.step(0)
    handles = [cep.torch.instrument(prof, model, None) for model in (Wrapper(models[0]), models[1])]
    for step in range(4):
        prof.step(step)
        assert is_before_the_operator() is (step % 2 == 0)
        train(models[0])
    prof.step(4)
    handles[0].remove()
    assert is_before_the_operator()
    train(models[1])
    handles[1].remove()
    assert not is_before_the_operator()
    train(models[1])
    handle = cep.torch.instrument(prof, models[0], None)
    assert is_before_the_operator()
    wait_for_ends(prof)
assert not is_before_the_operator()
assert not any(map(has_hook, models)) and cep.torch.hook_failures() == 0
""")
    for rank in range(2):
        rows = [(row["step"], row["bytes"]) for row in comm_rows(files, rank)]
        assert rows == [(step, size) for step in (0, 2, 4) for size in (80, 32, 32)]
        assert identities(files, rank) == identities(files, 0)


# As PyTorch's allreduce_hook, without a callback that a thread of gloo's calls: as the interpreter ends, that would end the
# process.
USERS_HOOK = """
def users_hook(state, bucket):
    dist.all_reduce(bucket.buffer().div_(ranks), async_op=True).wait()
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
"""


def test_the_reductions_of_a_communication_hook_are_rows_in_python_and_in_c(job, files):
    job.run(2, LOOKS + USERS_HOOK + """
in_python, in_c = (torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4)) for _ in range(2))
in_python.register_comm_hook(None, users_hook)
in_c._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    for step, model in enumerate((in_python, in_c)):
        prof.step(step)
        with cep.torch.instrument(prof, model, None):
            model(torch.ones(1, 4)).sum().backward()
            wait_for_ends(prof)
assert cep.torch.hook_failures() == 0
""")
    for rank in range(2):
        assert [(row["step"], row["name"], row["bytes"]) for row in comm_rows(files, rank)] == [
            (0, "all_reduce", 80), (1, "all_reduce", 80)
        ]  # fmt: skip


def test_a_warning_tells_of_an_operator_that_somebody_has_replaced_and_stays_and_of_an_unknown_device(job, files):
    job.run(2, LOOKS + """
import warnings
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
taken = torch.library.Library("c10d", "IMPL")

def passes_on(*arguments):
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.c10d.allreduce_.default(*arguments)

taken.impl("allreduce_", passes_on, "AutogradCPU")
with cep.Profiler(folder, record_every_n_steps=1) as prof, warnings.catch_warnings(record=True) as told:
    prof.step(0)
    with cep.torch.instrument(prof, model, None):
        assert not has_hook(model) and not prof._part(cep.torch._ddp.DDPReductions)._is_registered
        model(torch.ones(1, 4)).sum().backward()
    del cep.torch._ddp._KEYS["cpu"]  # as it lacks that of any other kind
    cep.torch.instrument(prof, model, None).remove()
assert "the all-reduces of DistributedDataParallel are not timed" in str(told[0].message), told
assert "not timed: its parameters are on a device of type cpu" in str(told[1].message), told
assert cep.torch.hook_failures() == 0
""")
    assert comm_rows(files, 0) == []


def test_a_reduction_that_raises_is_marked_and_raises(job, files):
    job.run(1, LOOKS + """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))

def fails(*arguments):
    raise ArithmeticError("no reduction")

with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument(prof, model, None):
    prof.step(0)
    prof._part(cep.torch._ddp.DDPReductions)._operator = fails
    try:
        model(torch.ones(1, 4)).sum().backward()
    except Exception as error:
        assert "no reduction" in str(error), error
    else:
        raise AssertionError("no error")
""")
    assert [row["error"] for row in comm_rows(files, 0)] == ["ArithmeticError"]


SPAN = """
from types import SimpleNamespace
from cep._native import AsyncSpan, expected_callbacks

def end_span_with(future, *further, folder):
    prof = cep.Profiler(folder, record_every_n_steps=1)
    prof.step(0)
    span = AsyncSpan(prof.region("all_reduce", kind="comm"), (4, None, "world", 1, None, True, *further))
    span.end_with(SimpleNamespace(get_future=lambda: future))
"""


# A thread that certainly frees a callback of cep's late, as gloo's threads may.
def test_the_interpreter_waits_until_callbacks_are_freed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        """
import atexit, sys, threading
atexit.register(lambda: print(expected_callbacks()))  # the last one to be called
import torch, cep.torch
"""
        + SPAN
        + """
future = torch.futures.Future()
end_span_with(future, folder=sys.argv[1])
assert expected_callbacks() == (True, 1)
ending = threading.Event()

def finish_late():
    ending.wait()
    for _ in range(50_000):
        pass
    future.set_result(None)

threading.Thread(target=finish_late, daemon=True).start()
atexit.register(ending.set)  # the first one
"""
    )
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], stdout=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "(True, 0)\n")


# What a callback frees with itself may take its time, on a thread of gloo.
def test_the_interpreter_waits_while_a_callback_is_being_freed(job):
    outputs = job.run(2, SPAN + """
import time

class SlowlyFreed:
    def __del__(self):
        time.sleep(0.2)
        print("freed")

announced = dist.FileStore(folder + "/announced", ranks)
if rank == 1:
    announced.wait(["rank 0 has its callback"])  # so that a thread of gloo calls and frees it
future = dist.all_reduce(torch.ones(4), async_op=True).get_future()
end_span_with(future, SlowlyFreed(), folder=folder)
if rank == 0:
    announced.set("rank 0 has its callback", "yes")
future.wait()
""", ending="")
    assert outputs == ["freed\n"] * 2
