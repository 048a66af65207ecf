# SPDX-License-Identifier: Apache-2.0
"""Collectives, timed where PyTorch calls NCCL: with stand-ins of libtorch_cuda.so and NCCL, on the fake driver."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import end_ns
from ddp_looks import LOOKS

pytest.importorskip("torch", reason="no torch")
FAKE_DRIVER = Path(os.environ.get("TEST_BUILD_DIRECTORY", ".")).resolve() / "tests" / "fake_cuda" / "libcuda.so.1"

NCCL = """
int fake_cuda_enqueue_work(void*, unsigned long long);
#define WORK(name, result, ...) int name(void* s, void* r, unsigned long n, int type, __VA_ARGS__, void* comm, void* stream) { \
    return fake_cuda_enqueue_work(stream, 1000000), result; }
WORK(ncclAllReduce, op, int op)
WORK(ncclReduceScatter, 0, int op)
int ncclAllGather(void* s, void* r, unsigned long n, int type, void* comm, void* stream) {
    return fake_cuda_enqueue_work(stream, 1000000);
}
int ncclGroupStart(void) { return 0; }
int ncclGroupEnd(void) { return 0; }
"""
PYTORCH = """
int ncclAllReduce(void*, void*, unsigned long, int, int, void*, void*), ncclGroupStart(void), ncclGroupEnd(void);
int ncclAllGather(void*, void*, unsigned long, int, void*, void*), ncclReduceScatter(void*, void*, unsigned long, int, int, void*, void*);
#define CALLER(name, call) int name(unsigned long n, int type, int op, void* comm, void* stream) { return call; }
CALLER(gather, ncclAllGather(0, 0, n, type, comm, stream))
CALLER(scatter, ncclReduceScatter(0, 0, n, type, op, comm, stream))
CALLER(reduce, ncclAllReduce(0, 0, n, type, op, comm, stream))
CALLER(reduce_in_group, ncclGroupStart() + reduce(n, type, op, comm, stream) + ncclGroupEnd())
#ifdef TAKES_ADDRESS
void* called(void) { return (void*)ncclAllReduce; }
#endif
"""
JOB = LOOKS + """
import ctypes, os, threading, torch, torch.distributed as dist, cep.torch
from cep.torch import _collectives, _ddp, _hooks, _operations
driver, pytorch = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL), ctypes.CDLL(sys.argv[3])
context, stream = ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == driver.cuStreamCreate(ctypes.byref(stream), 1) == 0

def reduce(count, type=7, result=0, comm=1, call=pytorch.reduce):
    assert call(ctypes.c_ulong(count), type, result, ctypes.c_void_p(comm), stream) == result

def reduce_often():
    driver.cuCtxSetCurrent(context)
    [reduce(12) for _ in range(50)]

OnDevice = type("OnDevice", (torch.Tensor,), {"is_cuda": True})

def run(name, count, call, kind=OnDevice):
    function = next(one for one in _operations.available_functions() if one.operation.function == name)
    function.original = lambda *given, **named: reduce(count, type=2, call=call)
    recorder.run(function, (), {function.operation.sized_by: torch.ones(3).as_subclass(kind)})

called = getattr(pytorch, "called", lambda: None)
own = called()
_ddp._KEYS["cuda"] = "AutogradCPU"
dist.is_nccl_available = lambda: True
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
with cep.Profiler(sys.argv[1], record_every_n_steps=2) as prof:
    prof.step(0)
    reductions = prof._part(_ddp.DDPReductions)
    release, operator = reductions.hold(dist.group.WORLD, "cuda"), reductions._operator
    assert own is None or called() != own
    reductions._operator = lambda *given: (reduce(20), operator(*given))[1]
    [model(torch.ones(1, 4)).sum().backward() for _ in range(2)]  # in which the operator calls NCCL
    prof.step(1)
    reduce(9)
    prof.step(2)
    assert not is_before_the_operator()
    assert driver.fake_cuda_enqueue_gate(stream) == 0  # no time of the host is in a span
    for type in (7, 9, 8, 4):
        reduce(8, type)
    reduce(1)  # PyTorch's barrier
    reduce(9, call=pytorch.reduce_in_group), reduce(9, comm=2)
    _hooks.set_place(_hooks.IN_TIMED), reduce(9), _hooks.set_place(_hooks.OUTSIDE)
    reduce(9, call=pytorch.gather)
    reduce(10, result=1), reduce(11, result=7)
    threads = [threading.Thread(target=reduce_often) for _ in range(2)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    child = os.fork()
    if child == 0:
        reduce(9)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    release(), reductions.hold(dist.group.WORLD, "cuda")()  # and once more
    assert called() == own
    reduce(9)
    recorder = _collectives.recorder_of(prof)
    find, recorder.nccl._find = recorder.groups.find, None
    with cep.torch.instrument_collectives(prof):
        prof.step(4)
        run("all_reduce", 4, pytorch.reduce)  # whose communicator cannot be noted, which the trainer never sees
        recorder.nccl._find = lambda group: find(group)._replace(size=3)
        for name, call in (("all_reduce", "reduce"), ("all_reduce", "reduce"), ("all_gather_into_tensor", "gather"),
                           ("reduce_scatter_tensor", "scatter")):
            run(name, 5, getattr(pytorch, call))
        run("all_reduce", 5, pytorch.reduce, torch.Tensor)
        reduce(9)  # no model's
        prof.step(5)
        run("all_reduce", 5, pytorch.reduce)
    assert called() == own
    driver.fake_cuda_open_gates()
assert driver.fake_cuda_misuse_count() == 0 and cep.torch.hook_failures() == 1
"""


@pytest.mark.skipif(not FAKE_DRIVER.exists(), reason="the fake driver is not built")
@pytest.mark.parametrize("link", (["-Wl,-z,lazy"], ["-Wl,-z,relro,-z,now", "-DTAKES_ADDRESS"]), ids=("lazy", "relro"))
def test_buckets_are_rows_on_nccls_stream_once_the_communicator_was_seen(scripts, files, tmp_path, link):
    libraries = []
    for name, text, flags in (("libnccl.so.2", NCCL, []), ("libtorch_cuda.so", PYTORCH, link)):
        (tmp_path / "text.c").write_text(text)
        command = ["cc", "-shared", "-fPIC", "-w", "-o", tmp_path / name, tmp_path / "text.c", *flags]
        subprocess.run([*command, *(libraries or [FAKE_DRIVER]), f"-Wl,-rpath,{tmp_path},-soname,{name}"], check=True)
        libraries.insert(0, tmp_path / name)
    scripts.run(JOB, FAKE_DRIVER, libraries[0], timeout=60)
    rows = sorted(files.spans(), key=lambda row: row["coll"])
    called = [(row["name"], row["clock"], row["bytes"], row["coll"]) for row in rows if row["step"] == 4]
    assert called == [
        ("all_reduce", "host", 12, 4_000_000), ("all_reduce", "host", 12, 4_000_001), ("all_reduce", "gpu", 20, 4_000_002),
        ("all_gather", "gpu", 60, 4_000_003), ("reduce_scatter", "gpu", 60, 4_000_004), ("all_reduce", "host", 12, 4_000_005)
    ]  # fmt: skip
    rows = [row for row in rows if row["step"] != 4]
    assert [row["coll"] for row in rows] == [0, 1, *range(2_000_000, 2_000_105)]
    assert [(row["bytes"], row.get("error")) for row in rows[1:7]] == [
        (80, None), (32, None), (16, None), (64, None), (40, "DistBackendError"), (44, "Unmeasured")
    ]  # fmt: skip
    assert {row["bytes"] for row in rows[7:]} == {48} and {row["group"] for row in rows} == {"world"}
    assert rows[0]["clock"] == "host" and {(row["clock"], row["stream"]) for row in rows[2:]} == {("gpu", rows[2]["stream"])}
    for row, after in zip(rows[2:6], rows[3:7]):
        assert row["duration_ms"] == pytest.approx(1, abs=1e-4) and end_ns(row) <= after["start_ns"] + 1000
