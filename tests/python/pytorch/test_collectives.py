# SPDX-License-Identifier: Apache-2.0
"""Rows of collectives, in jobs of several processes over gloo."""

import inspect

import pytest
from collective_rows import comm_rows, identities
from conftest import end_ns

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep.torch._operations import OPERATIONS, compact_ranks, shortened  # noqa: E402

pytest_plugins = ("training_jobs",)

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
    job.run(3, """
with cep.Profiler(folder, record_every_n_steps=2) as prof, cep.torch.instrument_collectives(prof):
    for step in range(3):
        prof.step(step)
        one = torch.ones(1)
        if rank > 0:
            dist.recv(one, rank - 1)
        if rank < 2:
            dist.send(one, rank + 1)
""")
    ends = [{(row["name"], row["group"], row["coll"]) for row in comm_rows(files, rank)} for rank in range(3)]
    first, last = 0, 2_000_000
    assert ends[0] == {("send", "world/0>1", first), ("send", "world/0>1", last)}
    both = (("recv", "world/0>1"), ("send", "world/1>2"))
    assert ends[1] == {(name, group, coll) for name, group in both for coll in (first, last)}
    assert ends[2] == {("recv", "world/1>2", first), ("recv", "world/1>2", last)}


def test_groups_have_names_of_their_own_and_are_counted_from_the_begin_of_each_step(job, files):
    job.run(4, """
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
""")
    for rank, name in enumerate(("dp:0,2", "dp:1,3") * 2):
        found = identities(files, rank)
        assert {coll for group, coll in found if group == name} == {0, 1, 4_000_000, 4_000_001}
        assert {coll for group, coll in found if group == "world"} == {0, 4_000_000}
        assert found.keys() == identities(files, rank % 2).keys()
        assert len({group for group, _ in found}) == (3 if rank % 2 == 0 else 2)


def test_a_rank_that_comes_late_begins_last_and_all_others_wait_for_it(job, files):
    job.run(3, """
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
""")
    of_ranks = [[row for row in comm_rows(files, rank) if row["name"] == "all_reduce"] for rank in range(3)]
    assert [len(rows) for rows in of_ranks] == [4, 4, 4]
    for one, late, other in zip(*of_ranks):
        for row in (one, other):
            assert row["start_ns"] < late["start_ns"] <= end_ns(row)


def test_every_reference_to_a_function_follows_whenever_it_was_taken(job, files):
    job.run(2, """
import functools, inspect, types

def taking():
    class Trainer:
        reduce = staticmethod(dist.all_reduce)

    other = types.ModuleType("other")
    other.reduce_all = dist.all_reduce
    local = dist.all_reduce
    return [Trainer.reduce, functools.partial(dist.all_reduce), lambda tensor: local(tensor), other.reduce_all]

def call(references, size):
    for reference in references:
        reference(torch.ones(size))

before, signature, identity = taking(), inspect.signature(dist.all_reduce), dist.all_reduce
with cep.Profiler(folder, record_every_n_steps=2) as prof:
    with cep.torch.instrument_collectives(prof), cep.torch.instrument_collectives(prof):
        prof.step(0)
        recorded = taking()
        assert dist.all_reduce is identity and inspect.signature(dist.all_reduce) == signature
        prof.step(1)
        call(recorded, 1)  # a step without rows
        prof.step(2)
        call(before, 2)
        call(recorded, 3)
    call(recorded, 4)
call(before, 5)
""")
    for rank in range(2):
        rows = [(row["step"], row["bytes"] // 4) for row in comm_rows(files, rank)]
        assert rows == [(2, 2)] * 4 + [(2, 3)] * 4
        assert identities(files, rank) == identities(files, 0)


def test_a_compiled_function_with_a_collective_is_compiled_once(job_with_compiler, files):
    job_with_compiler.run(1, """
graphs = []

def count(graph, inputs):
    graphs.append(graph)
    return graph.forward

@torch.compile(backend=count)
def double(tensor):
    doubled = tensor * 2
    dist.all_reduce(doubled)
    return doubled + 1

with cep.Profiler(folder, record_every_n_steps=2) as prof, cep.torch.instrument_collectives(prof):
    for step in range(4):
        prof.step(step)
        assert torch.equal(double(torch.ones(4)), torch.full((4,), 3.0))
assert len(graphs) == 1, len(graphs)
""")


def test_a_collective_that_raises_is_marked_and_raises(job, files):
    job.run(2, """
with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument_collectives(prof):
    prof.step(0)
    for asynchronous in (False, True):
        try:
            dist.all_reduce(torch.ones(1, dtype=torch.complex64), async_op=asynchronous, op=dist.ReduceOp.MAX)
        except (RuntimeError, ValueError):
            continue
        raise AssertionError("no error")
    dist.barrier()
""")
    for rank in range(2):
        assert ["error" in row for row in comm_rows(files, rank)] == [True, True, False]


def test_of_two_open_profilers_the_newest_records_and_nothing_keeps_the_older_one(job):
    job.run(1, """
import gc, json, warnings, weakref

def attempt(number):
    prof = cep.Profiler(f"{folder}/{number}", record_every_n_steps=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    cep.torch.instrument(prof, model, torch.optim.SGD(model.parameters(), lr=0.1))
    prof.step(0)
    dist.all_reduce(torch.ones(number))
    model(torch.ones(1, 2)).sum().backward()
    return prof

def sizes(number):
    with open(f"{folder}/{number}/cuda_event_profiler/cuda_events_rank_0.jsonl") as file:
        rows = [json.loads(line) for line in file]
    return sorted(row["bytes"] // 4 for row in rows if row.get("kind") == "comm")  # a bucket may end behind what came later

first = attempt(3)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    second = attempt(5)
assert any("from now on" in str(one.message) for one in told), told
gone = weakref.ref(first)
first.flush()
del first
gc.collect()
assert gone() is None, gc.get_referrers(gone())
dist.all_reduce(torch.ones(7))
wait_for_ends(second)
second.close()
assert sizes(3) == [3, 6] and sizes(5) == [5, 6, 7], (sizes(3), sizes(5))
assert cep.torch.hook_failures() == 0
""")


def test_a_handle_removed_twice_leaves_the_functions_to_the_other_handles(job):
    job.run(1, """
import inspect
inner = inspect.unwrap(dist.all_reduce)
original = inner.__code__
prof = cep.Profiler(folder)
prof.step(0)
one, other = (cep.torch.instrument_collectives(prof) for _ in range(2))
one.remove()
one.remove()
assert inner.__code__ is not original
other.remove()
assert inner.__code__ is original
""")


def test_once_it_was_called_a_function_runs_its_own_code_on_other_steps(job, files):
    job.run(1, """
import inspect
inner, other = inspect.unwrap(dist.all_reduce), inspect.unwrap(dist.broadcast)
original = inner.__code__, other.__code__
with cep.Profiler(folder, start_step=2, record_every_n_steps=3) as prof, cep.torch.instrument_collectives(prof):
    for step in range(5):
        prof.step(step)
        dist.all_reduce(torch.ones(1))
        assert (inner.__code__ is original[0]) == (step % 3 != 2), step
        assert other.__code__ is not original[1]
    dist.broadcast(torch.ones(1), 0)
    assert other.__code__ is original[1]
assert inner.__code__ is original[0]
""")
    assert [row["step"] for row in comm_rows(files, 0)] == [2]


def test_every_collective_of_this_pytorch_is_known():
    module = torch.distributed.distributed_c10d
    functions = {name: getattr(module, name) for name in module.__all__ if inspect.isfunction(getattr(module, name))}
    collectives = {name for name, function in functions.items() if "async_op" in inspect.signature(function).parameters}
    assert "all_reduce" in collectives
    assert collectives <= {operation.function for operation in OPERATIONS}


def test_without_a_process_group_nothing_is_changed(profiler):
    inner = inspect.unwrap(torch.distributed.all_reduce)
    before = inner.__code__
    with cep.torch.instrument_collectives(profiler):
        assert inner.__code__ is before


@pytest.mark.parametrize("ranks, text", [
    ([0], "0"),
    ([0, 1], "0,1"),
    ([0, 1, 2, 3], "0-3"),
    ([1, 3, 5], "1-5/2"),
    ([0, 1, 5], "0,1,5"),
    ([3, 2, 1], "3,2,1"),
])
def test_ranks_are_written_short(ranks, text):
    assert compact_ranks(ranks) == text


def test_a_long_name_is_cut_and_stays_its_own():
    one, other = shortened("ü" * 100), shortened("ü" * 101)
    assert len(one.encode()) <= 63 and one != other
