# SPDX-License-Identifier: Apache-2.0
"""Rows of collectives, in jobs of several processes over gloo."""

import subprocess
import sys

import pytest
from conftest import end_ns

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep.torch._groups import compact_ranks, shortened  # noqa: E402
from unboxing import WITH_HOOK, WITHOUT_HOOK  # noqa: E402

pytest_plugins = ("training_jobs",)


def comm_rows(files, rank):
    return sorted((row for row in files.spans(rank=rank) if row["kind"] == "comm"), key=lambda row: row["start_ns"])


def identities(files, rank):
    return {(row["group"], row["coll"]): row["name"] for row in comm_rows(files, rank) if "coll" in row}


EVERY_COLLECTIVE = """
with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument_collectives(prof):
    prof.step(0)
    four = torch.ones(4)
    dist.all_reduce(four)
    dist.broadcast(four, 0)
    dist.reduce(four, 0)
    dist.all_gather([torch.empty(4) for _ in range(ranks)], four)
    dist.gather(four, [torch.empty(4) for _ in range(ranks)] if rank == 0 else None, dst=0)
    dist.scatter(four, [torch.ones(4) for _ in range(ranks)] if rank == 0 else None, src=0)
    dist.barrier()
    dist.all_reduce(four, op=dist.ReduceOp.MAX, async_op=True).wait()
    dist.all_gather_object([None] * ranks, "text")
    if rank < 2:
        (dist.send if rank == 0 else dist.recv)(four, 1 - rank)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("ranks", (2, 3))
def test_each_collective_is_a_row_with_its_bytes_and_the_same_index_on_all_ranks(job, files, ranks):
    job.run(ranks, EVERY_COLLECTIVE)
    whole = 16 * ranks
    expected = [
        ("all_reduce", 16),
        ("broadcast", 16),
        ("reduce", 16),
        ("all_gather", whole),
        ("gather", whole),
        ("scatter", whole),
        ("barrier", None),
        ("all_reduce", 16),
    ]
    for rank in range(ranks):
        rows = [row for row in comm_rows(files, rank) if row["group"] == "world"]
        assert [(row["name"], row.get("bytes")) for row in rows[: len(expected)]] == expected
        assert [row["coll"] for row in rows] == list(range(len(rows)))
        assert identities(files, rank).keys() - {("world/0>1", 0)} == identities(files, 0).keys() - {("world/0>1", 0)}


def test_a_message_has_the_same_index_at_both_its_ends(job, files):
    job.run(
        3,
        """
with cep.Profiler(folder, record_every_n_steps=2) as prof, cep.torch.instrument_collectives(prof):
    for step in range(3):
        prof.step(step)
        one = torch.ones(1)
        if rank > 0:
            dist.recv(one, rank - 1)
        if rank < 2:
            dist.send(one, rank + 1)
dist.destroy_process_group()
""",
    )
    ends = [{(row["name"], row["group"], row["coll"]) for row in comm_rows(files, rank)} for rank in range(3)]
    first, last = 0, 2_000_000
    assert ends[0] == {("send", "world/0>1", first), ("send", "world/0>1", last)}
    both = (("recv", "world/0>1"), ("send", "world/1>2"))
    assert ends[1] == {(name, group, coll) for name, group in both for coll in (first, last)}
    assert ends[2] == {("recv", "world/1>2", first), ("recv", "world/1>2", last)}


def test_groups_have_names_of_their_own_and_are_counted_from_the_begin_of_each_step(job, files):
    job.run(
        4,
        """
even, odd = dist.new_group([0, 2]), dist.new_group([1, 3])
again = dist.new_group([0, 2])
mine = even if rank % 2 == 0 else odd
with cep.Profiler(folder, record_every_n_steps=4) as prof, cep.torch.instrument_collectives(prof, names={mine: "dp"}):
    for step in range(5):
        prof.step(step)
        dist.all_reduce(torch.ones(1), group=mine)
        dist.all_reduce(torch.ones(1), group=mine, async_op=True).wait()
        if rank % 2 == 0:
            dist.all_reduce(torch.ones(1), group=again)
        dist.barrier()
dist.destroy_process_group()
""",
    )
    for rank, name in enumerate(("dp:0,2", "dp:1,3") * 2):
        found = identities(files, rank)
        assert {coll for group, coll in found if group == name} == {0, 1, 4_000_000, 4_000_001}
        assert {coll for group, coll in found if group == "world"} == {0, 4_000_000}
        assert found.keys() == identities(files, rank % 2).keys()
        assert len({group for group, _ in found}) == (3 if rank % 2 == 0 else 2)


def test_a_rank_that_comes_late_begins_last_and_all_others_wait_for_it(job, files):
    job.run(
        3,
        """
announced = dist.FileStore(folder + "/announced", ranks)
all_reduce = dist.all_reduce

def announced_all_reduce(*arguments, **options):
    announced.set(f"step {step} rank {rank}", "inside")
    return all_reduce(*arguments, **options)

dist.all_reduce = announced_all_reduce  # what is wrapped below
with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument_collectives(prof):
    for step in range(4):
        prof.step(step)
        if rank == 1:
            announced.wait([f"step {step} rank {other}" for other in (0, 2)])
        dist.all_reduce(torch.ones(1), async_op=step % 2 == 1) and dist.barrier()
dist.destroy_process_group()
""",
    )
    of_ranks = [[row for row in comm_rows(files, rank) if row["name"] == "all_reduce"] for rank in range(3)]
    assert [len(rows) for rows in of_ranks] == [4, 4, 4]
    for one, late, other in zip(*of_ranks):
        for row in (one, other):
            assert row["start_ns"] < late["start_ns"] <= end_ns(row)


def test_functions_imported_by_name_are_wrapped_and_given_back(job, files):
    job.run(
        2,
        """
import types
from torch.distributed import all_reduce
other = types.ModuleType("other")
other.reduce_all = all_reduce
sys.modules["other"] = other
before = dist.all_reduce
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    with cep.torch.instrument_collectives(prof), cep.torch.instrument_collectives(prof):
        prof.step(0)
        all_reduce(torch.ones(1))
        other.reduce_all(torch.ones(1))
        wrapped = dist.all_reduce
    assert dist.all_reduce is before and all_reduce is before and other.reduce_all is before
    dist.all_reduce(torch.ones(1))
    wrapped(torch.ones(1))
dist.destroy_process_group()
""",
    )
    assert [row["name"] for row in comm_rows(files, 0)] == ["all_reduce"] * 2


def test_only_names_of_modules_follow_a_collective(job, files):
    job.run(
        2,
        """
import functools

def taking():
    class Trainer:
        reduce = staticmethod(dist.all_reduce)

    local = dist.all_reduce
    return [Trainer.reduce, functools.partial(dist.all_reduce), lambda tensor: local(tensor)]

def call(references, size):
    for reference in references:
        reference(torch.ones(size))

before = taking()
with cep.Profiler(folder, record_every_n_steps=2) as prof, cep.torch.instrument_collectives(prof):
    prof.step(0)
    recorded = taking()
    prof.step(1)
    unrecorded = taking()
    call(recorded, 1)  # the wrapper, on a step without rows
    prof.step(2)
    call(before, 2)
    call(unrecorded, 3)
    call(recorded, 4)
    dist.all_reduce(torch.ones(5))
call(recorded, 6)
dist.destroy_process_group()
""",
    )
    for rank in range(2):
        rows = [(row["step"], row["bytes"] // 4) for row in comm_rows(files, rank)]
        assert rows == [(2, 4), (2, 4), (2, 4), (2, 5)]
        assert identities(files, rank) == identities(files, 0)


def test_a_collective_that_raises_is_marked_and_raises(job, files):
    job.run(
        2,
        """
with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument_collectives(prof):
    prof.step(0)
    for asynchronous in (False, True):
        try:
            dist.all_reduce(torch.ones(1, dtype=torch.complex64), async_op=asynchronous, op=dist.ReduceOp.MAX)
        except (RuntimeError, ValueError):
            continue
        raise AssertionError("no error")
    dist.barrier()
dist.destroy_process_group()
""",
    )
    for rank in range(2):
        assert ["error" in row for row in comm_rows(files, rank)] == [True, True, False]


def test_two_open_profilers_cannot_share_the_collectives(job):
    job.run(
        1,
        """
first, second = cep.Profiler(folder + "/1"), cep.Profiler(folder + "/2")
held = cep.torch.instrument_collectives(first)
try:
    cep.torch.instrument_collectives(second)
except RuntimeError as error:
    assert "another open profiler" in str(error)
else:
    raise AssertionError("no error")
first.close()
cep.torch.instrument_collectives(second).remove()
dist.destroy_process_group()
""",
    )


def test_a_handle_removed_twice_leaves_the_functions_to_the_other_handles(job):
    job.run(
        1,
        """
originals = [dist.all_reduce]
prof = cep.Profiler(folder)
prof.step(0)
one, other = (cep.torch.instrument_collectives(prof) for _ in range(2))
one.remove()
one.remove()
assert dist.all_reduce is not originals[0]
other.remove()
assert dist.all_reduce is originals[0]
dist.destroy_process_group()
""",
    )


DDP = """
def trained(instrumented, **options):
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Linear(9, 9) for _ in range(4)))
    model = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0005, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    handle = cep.torch.instrument(model, optimizer, prof) if instrumented else None
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
dist.destroy_process_group()
"""


@pytest.mark.parametrize("how", (WITHOUT_HOOK, WITH_HOOK), ids=("without a hook", "with a hook"))
def test_ddp_reduces_the_same_gradients_and_each_bucket_is_a_row(job, files, how):
    job.run(3, how + DDP)
    for rank in range(3):
        rows = comm_rows(files, rank)
        assert {row["name"] for row in rows} == {"all_reduce"} and {row["step"] for row in rows} == {0, 2}
        assert identities(files, rank) == identities(files, 0)
        assert len(identities(files, rank)) == len(rows)
        # Of each instrumented training, all gradients once in each recorded step: no_sync() reduces nothing.
        assert sum(row["bytes"] for row in rows) == 2 * 2 * 4 * (9 * 9 + 9) * 4


@pytest.mark.parametrize("how", (WITHOUT_HOOK, WITH_HOOK), ids=("without a hook", "with a hook"))
def test_the_reduction_of_a_bucket_lies_within_the_backward(job, files, how):
    job.run(2, how + DDP)
    for rank in range(2):
        backwards = files.spans("backward", rank)
        for row in comm_rows(files, rank):
            assert any(one["start_ns"] <= row["start_ns"] and end_ns(row) <= end_ns(one) for one in backwards)
            assert row["depth"] == 1  # in the backward, and in no other reduction


def test_a_step_that_is_not_recorded_has_nothing_of_ours_in_ddp(job, files):
    job.run(
        2,
        WITHOUT_HOOK
        + """
def train(model):
    model(torch.ones(1, 4)).sum().backward()
    dist.all_reduce(torch.ones(8))  # a row of its own, and one only
    dist.all_reduce(torch.ones(8, dtype=torch.int32), async_op=True).wait()

models = [torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4)) for _ in range(2)]
with cep.Profiler(folder, record_every_n_steps=2) as prof:
    prof.step(0)
    handles = [cep.torch.instrument(model, None, prof) for model in models]
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
    handle = cep.torch.instrument(models[0], None, prof)
    assert is_before_the_operator()
    wait_for_ends(prof)
assert not is_before_the_operator()
assert not any(map(has_hook, models)) and cep.torch.hook_failures() == 0
dist.destroy_process_group()
""",
    )
    for rank in range(2):
        rows = [(row["step"], row["bytes"]) for row in comm_rows(files, rank)]
        assert rows == [(step, size) for step in (0, 2, 4) for size in (80, 32, 32)]
        assert identities(files, rank) == identities(files, 0)


# As PyTorch's allreduce_hook, with a callback that is freed before the interpreter ends: else gloo's threads end the
# process.
USERS_HOOK = """
from cep.torch._future_callbacks import FutureCallback

def users_hook(state, bucket):
    future = dist.all_reduce(bucket.buffer().div_(ranks), async_op=True).get_future()
    return future.then(FutureCallback(lambda done: done.value()[0]))
"""


def test_a_model_that_has_a_hook_and_a_pytorch_that_refuses_keep_the_operator(job, files):
    job.run(
        2,
        WITHOUT_HOOK
        + USERS_HOOK
        + """
hooked, refused = (torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4)) for _ in range(2))
hooked.register_comm_hook(None, users_hook)
taken = torch.library.Library("c10d", "IMPL")

def passes_on(*arguments):
    with cep.torch._ddp_reductions._below_autograd():
        return torch.ops.c10d.allreduce_.default(*arguments)

with cep.Profiler(folder, record_every_n_steps=1) as prof:
    prof.step(0)
    with cep.torch.instrument(hooked, None, prof):
        assert not is_before_the_operator()
        hooked(torch.ones(1, 4)).sum().backward()
    taken.impl("allreduce_", passes_on, "AutogradCPU")
    prof.step(1)
    with cep.torch.instrument(refused, None, prof):
        assert has_hook(refused) and prof.__dict__["_ddp_reductions"]._registration is None
        refused(torch.ones(1, 4)).sum().backward()
    wait_for_ends(prof)
assert cep.torch.hook_failures() == 0
dist.destroy_process_group()
""",
    )
    rows = [(row["step"], row["name"]) for row in comm_rows(files, 0)]
    assert sorted(rows) == [(0, "all_reduce"), (0, "gradient_sync"), (1, "all_reduce")]


def test_a_reduction_that_raises_is_marked_and_raises(job, files):
    job.run(
        1,
        WITHOUT_HOOK
        + """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))

def fails(*arguments):
    raise ArithmeticError("no reduction")

with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument(model, None, prof):
    prof.step(0)
    prof.__dict__["_ddp_reductions"]._operator = fails
    try:
        model(torch.ones(1, 4)).sum().backward()
    except Exception as error:
        assert "no reduction" in str(error), error
    else:
        raise AssertionError("no error")
dist.destroy_process_group()
""",
    )
    assert [row["error"] for row in comm_rows(files, 0)] == ["ArithmeticError"]


# gloo's threads must have freed the user's callback before the interpreter ends, or torch ends the process.
def test_a_hook_of_the_users_is_timed_around_and_counted_once(job, files):
    job.run(
        2,
        """
import threading, weakref
freed = threading.Event()

class Widened:
    def __call__(self, future):
        return future.value()[0].float() / ranks

def half_precision_hook(group, bucket):
    future = dist.all_reduce(bucket.buffer().half(), async_op=True).get_future()
    widened = Widened()
    weakref.finalize(widened, freed.set)
    return future.then(widened)

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument_collectives(prof):
    model.register_comm_hook(None, cep.torch.ddp_comm_hook(prof, half_precision_hook, name="fp16_all_reduce"))
    prof.step(0)
    model(torch.ones(1, 4)).sum().backward()
    assert torch.equal(model.module.bias.grad, torch.ones(4))
    wait_for_ends(prof)
assert freed.wait(60)
dist.destroy_process_group()
""",
    )
    (row,) = comm_rows(files, 0)
    assert (row["name"], row["bytes"], row["group"], row["coll"]) == ("fp16_all_reduce", 80, "world", 0)


# A thread that certainly frees a callback of cep's late, as gloo's threads may.
def test_the_interpreter_waits_until_callbacks_are_freed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        """
import atexit, threading, weakref
callbacks = []
atexit.register(lambda: print("freed" if callbacks[0]() is None else "not freed"))  # the last one to be called
import torch, cep.torch
from cep.torch._future_callbacks import FutureCallback

future = torch.futures.Future()
callback = FutureCallback(lambda future: None)
callbacks.append(weakref.ref(callback))
future.add_done_callback(callback)
ending = threading.Event()
del callback

def finish_late():
    ending.wait()
    for _ in range(50_000):
        pass
    future.set_result(None)

threading.Thread(target=finish_late, daemon=True).start()
atexit.register(ending.set)  # the first one
"""
    )
    done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "freed\n")


# What a callback frees with itself may take its time, on a thread of gloo.
def test_the_interpreter_waits_while_a_callback_is_being_freed(job):
    outputs = job.run(
        2,
        """
import time
from cep.torch._future_callbacks import FutureCallback

class SlowlyFreed:
    def __call__(self, future):
        pass

    def __del__(self):
        time.sleep(0.2)
        print("freed")

if rank == 1:
    time.sleep(0.2)  # so that rank 0 has its callback before its all-reduce is done
future = dist.all_reduce(torch.ones(4), async_op=True).get_future()
future.add_done_callback(FutureCallback(SlowlyFreed()))
future.wait()
""",
    )
    assert outputs == ["freed\n"] * 2


SYNC = """
announced = dist.FileStore(folder + "/announced", ranks)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(9, 9))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if HAS_HOOK:
    model.register_comm_hook(None, users_hook)
prof = cep.Profiler(folder, record_every_n_steps=2)
with prof, cep.torch.instrument(model, optimizer, prof, ddp_buckets=HAS_HOOK):
    for step in range(5):
        prof.step(step)
        with model.no_sync():
            model(torch.ones(3, 9)).sum().backward()
        loss = model(torch.ones(3, 9)).sum()
        announced.set(f"step {step} rank {rank}", "forward is over")
        if rank == 1:
            announced.wait([f"step {step} rank {other}" for other in (0, 2)])
        loss.backward()
        optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("has_hook", [False, True])
def test_ddps_exposed_all_reduce_is_a_row_without_a_communication_hook_of_ours(job, files, has_hook):
    job.run(3, USERS_HOOK + SYNC.replace("HAS_HOOK", str(has_hook)))
    for rank in range(3):
        rows = files.spans("gradient_sync", rank=rank)
        assert [(row["kind"], row["group"], row["step"]) for row in rows] == [
            ("comm", "world", step) for step in (0, 2, 4)
        ]
        backwards = [row for row in files.spans("backward", rank=rank) if row["seq"] == 1]
        for row, backward in zip(rows, backwards):
            assert backward["start_ns"] <= row["start_ns"] and end_ns(row) <= end_ns(backward)
    for late, other in zip(files.spans("gradient_sync", rank=1), files.spans("gradient_sync", rank=0)):
        assert late["coll"] == other["coll"]
        assert late["start_ns"] <= end_ns(other), "the others wait"


def test_without_a_process_group_nothing_is_wrapped(profiler):
    before = torch.distributed.all_reduce
    with cep.torch.instrument_collectives(profiler):
        assert torch.distributed.all_reduce is before


@pytest.mark.parametrize(
    "ranks, text",
    [
        ([0], "0"),
        ([0, 1], "0,1"),
        ([0, 1, 2, 3], "0-3"),
        ([1, 3, 5], "1-5/2"),
        ([0, 1, 5], "0,1,5"),
        ([3, 2, 1], "3,2,1"),
    ],
)
def test_ranks_are_written_short(ranks, text):
    assert compact_ranks(ranks) == text


def test_a_long_name_is_cut_and_stays_its_own():
    one, other = shortened("ü" * 100), shortened("ü" * 101)
    assert len(one.encode()) <= 63 and one != other
