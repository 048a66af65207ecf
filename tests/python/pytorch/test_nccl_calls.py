# SPDX-License-Identifier: Apache-2.0
"""Collectives, timed where PyTorch calls NCCL: with stand-ins of libtorch_cuda.so and NCCL, on the fake driver."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import end_ns, needs_torch
from ddp_looks import LOOKS

needs_torch()
FAKE_DRIVER = Path(os.environ.get("TEST_BUILD_DIRECTORY", ".")).resolve() / "tests" / "fake_cuda" / "libcuda.so.1"

NCCL = """
int fake_cuda_enqueue_work(void*, unsigned long long);
static int depth;
static void* of_group;
static int work(void* stream, int result) {  // in a group at its end
    if (depth) of_group = stream;
    return depth ? 0 : (fake_cuda_enqueue_work(stream, 1000000), result);
}
#define FUNCTION(name, result, ...) int name(void* in, void* out, unsigned long n, int type, __VA_ARGS__ void* comm, void* stream) { \
    return work(stream, result); }
FUNCTION(ncclAllReduce, op, int op,)
FUNCTION(ncclReduceScatter, 0, int op,)
FUNCTION(ncclReduce, 0, int op, int root,)
FUNCTION(ncclBroadcast, 0, int root,)
FUNCTION(ncclAllGather, 0,)
FUNCTION(ncclAlltoAll, 0,)
int ncclSend(void* in, unsigned long n, int type, int peer, void* comm, void* stream) { return work(stream, 0); }
int ncclRecv(void* out, unsigned long n, int type, int peer, void* comm, void* stream) { return work(stream, 0); }
int ncclGroupStart(void) { return ++depth, 0; }
int ncclGroupEnd(void) { return --depth == 0 && of_group ? work(of_group, 0) : 0; }
"""
# It lacks ncclBcast(), as a PyTorch of other versions may lack others.
PYTORCH = """
#define DECLARED(...) void*, void*, unsigned long, int, __VA_ARGS__ void*, void*
int ncclAllReduce(DECLARED(int,)), ncclReduceScatter(DECLARED(int,)), ncclReduce(DECLARED(int, int,)), ncclBroadcast(DECLARED(int,));
int ncclAllGather(DECLARED()), ncclAlltoAll(DECLARED()), ncclGroupStart(void), ncclGroupEnd(void);
int ncclSend(void*, unsigned long, int, int, void*, void*), ncclRecv(void*, unsigned long, int, int, void*, void*);
#define CALLER(name, call) int call_##name(unsigned long n, int type, int op, void* comm, void* stream) { return call; }
CALLER(all_gather, ncclAllGather(0, 0, n, type, comm, stream))
CALLER(all_to_all, ncclAlltoAll(0, 0, n, type, comm, stream))
CALLER(reduce_scatter, ncclReduceScatter(0, 0, n, type, op, comm, stream))
CALLER(all_reduce, ncclAllReduce(0, 0, n, type, op, comm, stream))
CALLER(reduce, ncclReduce(0, 0, n, type, op, 0, comm, stream))
CALLER(broadcast, ncclBroadcast(0, 0, n, type, 0, comm, stream))
CALLER(send, ncclSend(0, n, type, 0, comm, stream))
CALLER(recv, ncclRecv(0, n, type, 0, comm, stream))
CALLER(send_recv, ncclGroupStart() + ncclGroupStart() + call_send(n, type, op, comm, stream) + ncclGroupEnd() + call_recv(n, type, op, comm, stream)
    + ncclGroupEnd())
CALLER(reduce_in_group, ncclGroupStart() + call_all_reduce(n, type, op, comm, stream) + ncclGroupEnd())
CALLER(reduce_in_open_group, ncclGroupStart() + call_all_reduce(n, type, op, comm, stream))
CALLER(end_group, ncclGroupEnd())
#ifdef TAKES_ADDRESS
void* called(void) { return (void*)ncclAllReduce; }
#endif
"""
JOB = LOOKS + """
import ctypes, os, threading, torch, torch.distributed as dist, cep.torch
from cep.torch import _collectives, _ddp, _operations
driver, pytorch = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL), ctypes.CDLL(sys.argv[3])
context, stream = ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == driver.cuStreamCreate(ctypes.byref(stream), 1) == 0

def call(function, count=9, type=7, result=0, comm=1):
    assert getattr(pytorch, f"call_{function}")(ctypes.c_ulong(count), type, result, ctypes.c_void_p(comm), stream) == result

def reduce(count, **others):
    call("all_reduce", count, **others)

def reduce_often():
    driver.cuCtxSetCurrent(context)
    [reduce(12) for _ in range(50)]

OnDevice = type("OnDevice", (torch.Tensor,), {"is_cuda": True})
tensor = torch.ones(3).as_subclass(OnDevice)

def run(name, *functions, given=tensor, **others):
    function = next(one for one in _operations.available_functions() if one.operation.function == name)
    function.original = lambda *args, **named: [call(function) for function in functions]
    recorder.run(function, {function.operation.sized_by: given, **others}, (), {})

called = getattr(pytorch, "called", lambda: None)
own = called()
_ddp._KEYS["cuda"] = "AutogradCPU"
dist.is_nccl_available = lambda: True
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""
EVERY_FUNCTION = """
with cep.Profiler(sys.argv[1], record_every_n_steps=2) as prof:
    recorder = _collectives.recorder_of(prof)
    _operations._runs_on_device, dist.get_world_size = lambda group: True, lambda *group: 3
    with cep.torch.instrument_collectives(prof):
        assert own is None or called() != own
        prof.step(0)
        assert driver.fake_cuda_enqueue_gate(stream) == 0  # no time of the host is in a span
        for name in ("all_reduce", "reduce", "broadcast"):
            run(name, name)
        run("all_gather_into_tensor", "all_gather", async_op=True)
        run("reduce_scatter_tensor", "reduce_scatter")
        run("all_to_all_single", "all_to_all")
        run("all_to_all", "send_recv", given=[tensor] * 3)
        run("gather", "send")
        run("barrier", "all_reduce", given=None)
        run("send", "send", dst=1), run("irecv", "recv", src=1)
        run("batch_isend_irecv", "send_recv", given=[type("Message", (), {"group": None, "peer": 1, "tensor": tensor})] * 2)
        run("all_reduce", "reduce_in_group", "all_reduce")  # of which the first is timed
        run("all_reduce", "reduce_in_open_group"), call("end_group")
        run("all_reduce", given=torch.ones(3))
        call("all_reduce")  # nobody has announced it, and no model has its communicator
        run("broadcast")  # no call of NCCL is seen
        prof.step(1)
        call("all_reduce")
    assert called() == own
    driver.fake_cuda_open_gates()
assert driver.fake_cuda_misuse_count() == 0 and cep.torch.hook_failures() == 0
"""
BUCKETS = """
model, comm = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4)), [1]

def hold(prof):
    recorder = _collectives.recorder_of(prof)
    find = recorder.groups.find
    recorder.groups.find = lambda group: find(group)._replace(on_device=True)
    reductions = prof._part(_ddp.DDPReductions)
    release, operator = reductions.hold(dist.group.WORLD, "cuda"), reductions._operator
    reductions._operator = lambda *given: (reduce(20, comm=comm[0]), operator(*given))[1]
    return reductions, release

def train():  # in which the operator calls NCCL
    model(torch.ones(1, 4)).sum().backward()

with cep.Profiler(sys.argv[1], record_every_n_steps=2) as prof:
    prof.step(0)
    reductions, release = hold(prof)
    assert own is None or called() != own
    train(), reduce(21)
    prof.step(1)
    reduce(9)
    prof.step(2)
    assert not is_before_the_operator()
    assert driver.fake_cuda_enqueue_gate(stream) == 0
    for type in (7, 9, 8, 4):
        reduce(8, type=type)
    reduce(1)  # a model of one number
    call("reduce_in_group"), reduce(9, comm=2)
    recorder = _collectives.recorder_of(prof)
    run("recv", "all_reduce", src=None)  # within a function of torch.distributed
    call("all_gather")
    reduce(10, result=1), reduce(11, result=7)
    threads = [threading.Thread(target=reduce_often) for _ in range(2)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    child = os.fork()
    if child == 0:
        reduce(9)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for step in (3, 4):  # a communicator is known as long as it is used, or no other is
        prof.step(step)
        assert not is_before_the_operator()
    comm[0] = 3
    reduce(9, comm=3)
    prof.step(6)
    assert is_before_the_operator()
    train()
    prof.step(8)
    assert not is_before_the_operator()
    reduce(13, comm=3)
    with cep.torch.instrument_collectives(prof):
        release(), reduce(9, comm=3)
    reductions.hold(dist.group.WORLD, "cuda")()  # and once more
    assert called() == own
    reduce(9)
    driver.fake_cuda_open_gates()
with cep.Profiler(sys.argv[1] + "/each", record_every_n_steps=1) as prof:
    prof.step(0), hold(prof), train()
    for step in (1, 2):
        prof.step(step)
        assert is_before_the_operator() is (step == 2)
        comm[0] = 4
        train()
        reduce(9, comm=4)
    prof.step(3)
    assert not is_before_the_operator()
assert driver.fake_cuda_misuse_count() == 0 and cep.torch.hook_failures() == 0
"""

pytestmark = pytest.mark.skipif(not FAKE_DRIVER.exists(), reason="the fake driver is not built")


@pytest.fixture(params=(["-Wl,-z,lazy"], ["-Wl,-z,relro,-z,now", "-DTAKES_ADDRESS"]), ids=("lazy", "relro"))
def run(scripts, tmp_path, request):
    libraries = []
    for name, text, flags in (("libnccl.so.2", NCCL, []), ("libtorch_cuda.so", PYTORCH, request.param)):
        (tmp_path / "text.c").write_text(text)
        command = ["cc", "-shared", "-fPIC", "-w", "-o", tmp_path / name, tmp_path / "text.c", *flags]
        subprocess.run([*command, *(libraries or [FAKE_DRIVER]), f"-Wl,-rpath,{tmp_path},-soname,{name}"], check=True)
        libraries.insert(0, tmp_path / name)
    return lambda text: scripts.run(JOB + text, FAKE_DRIVER, libraries[0], timeout=60)


def test_each_function_is_a_row_on_nccls_stream_and_what_is_grouped_is_one(run, files):
    _, told = run(EVERY_FUNCTION)
    rows = [row for row in files.spans() if row["clock"] == "gpu"]
    found = [(row["name"], row.get("bytes"), row["group"], row.get("coll"), row.get("error")) for row in rows]
    world = [(name, size, "world", coll, None) for coll, (name, size) in enumerate((
        ("all_reduce", 12), ("reduce", 12), ("broadcast", 12), ("all_gather", 12), ("reduce_scatter", 12), ("all_to_all", 12),
        ("all_to_all", 36), ("gather", 36), ("barrier", None)
    ))]  # fmt: skip
    assert found == [
        *world, ("send", 12, "world/0>1", 0, None), ("recv", 12, "world/1>0", 0, None), ("send_recv", 24, "world/0-1", 0, None),
        ("all_reduce", 12, "world", 9, None), ("all_reduce", 12, "world", 10, "Unmeasured")
    ]  # fmt: skip
    assert {row["stream"] for row in rows} == {rows[0]["stream"]}
    for row, after in zip(rows[:12], rows[1:13]):
        assert row["duration_ms"] == pytest.approx(1, abs=1e-4) and end_ns(row) <= after["start_ns"] + 1000
    (on_host,) = (row for row in files.spans() if row["clock"] == "host")
    assert (on_host["name"], on_host["coll"]) == ("all_reduce", 11)
    assert "PyTorch's calls of NCCL are not seen" in told


def test_buckets_are_rows_and_a_communicator_that_is_replaced_is_found_again(run, files):
    run(BUCKETS)
    rows = sorted(files.spans(), key=lambda row: row["coll"])
    assert {(row["clock"], row["stream"], row["group"]) for row in rows} == {("gpu", rows[0]["stream"], "world")}
    assert [(row["step"], row["bytes"]) for row in (*rows[:2], *rows[-2:])] == [(0, 80), (0, 84), (6, 80), (8, 52)]
    rows = [row for row in rows if row["step"] == 2]
    assert [row["coll"] for row in rows] == [*range(2_000_000, 2_000_106)]
    assert [(row["bytes"], row.get("error")) for row in rows[:6]] == [
        (32, None), (16, None), (64, None), (4, None), (40, "DistBackendError"), (44, "Unmeasured")
    ]  # fmt: skip
    assert {row["bytes"] for row in rows[6:]} == {48}


def test_where_the_calls_are_not_seen_a_message_tells_what_has_no_rows(scripts, files):
    _, told = scripts.run("""
import torch, torch.distributed as dist, cep.torch
from cep.torch import _ddp, _operations
_ddp._KEYS["cuda"] = "AutogradCPU"
dist.is_nccl_available = lambda: True
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
tensor = torch.ones(3).as_subclass(type("OnDevice", (torch.Tensor,), {"is_cuda": True}))
with cep.Profiler(sys.argv[1], record_every_n_steps=1) as prof:
    _operations._runs_on_device = lambda group: True
    with cep.torch.instrument_collectives(prof):
        release = prof._part(_ddp.DDPReductions).hold(dist.group.WORLD, "cuda")
        prof.step(0)
        dist.all_reduce(tensor, async_op=True).wait()
        dist.all_reduce(tensor)
        model(torch.ones(1, 4)).sum().backward()
        release()
assert cep.torch.hook_failures() == 0
""")
    assert [(row["bytes"], row["coll"]) for row in files.spans()] == [(12, 1)]
    assert told.count("PyTorch's calls of NCCL are not seen") == 1
