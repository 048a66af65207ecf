# SPDX-License-Identifier: Apache-2.0
"""No call that can block keeps the GIL: the thread that ends the wait may need it.

cuEventRecord() blocks while the GPU's queue is full. Here the fake driver blocks it, and a Python thread releases it,
as a host function on the stream would (cuLaunchHostFunc).
"""

import os
import subprocess
from pathlib import Path

import pytest

from cep import _ffi

FAKE_DRIVER = Path(os.environ.get("TEST_BUILD_DIRECTORY", ".")).resolve() / "tests" / "fake_cuda" / "libcuda.so.1"
KEEPS_LOCK = 4  # FUNCFLAG_PYTHONAPI of ctypes

BLOCKED = """
import ctypes, threading

driver = ctypes.CDLL(sys.argv[2])
assert driver.cuInit(0) == 0
context, stream = ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
driver.fake_cuda_thread_call_count.restype = ctypes.c_uint64
trainer = threading.get_native_id()


def records():
    return driver.fake_cuda_thread_call_count(trainer, b"cuEventRecord")


def release_when_blocked(before):
    while records() == before:
        pass
    driver.fake_cuda_release()


def blocked(call):
    before = records()
    assert driver.fake_cuda_inject(b"cuEventRecord:block") == 0
    releaser = threading.Thread(target=release_when_blocked, args=(before,))
    releaser.start()
    call()
    releaser.join()
    assert records() > before


def body(region, raises=False):
    region.__enter__()
    if raises:
        error = ValueError()
        return lambda: region.__exit__(ValueError, error, None)
    return lambda: region.__exit__(None, None, None)


with cep.Profiler(sys.argv[1], record_every_n_steps=1) as prof:
    prof.step(0)
    plain = prof.region("plain", stream=stream.value)
    given = prof.region("given", stream=stream.value, bytes=1)
    CALL
assert driver.fake_cuda_misuse_count() == 0
"""

CALLS = {
    "begin": "blocked(plain.__enter__); body(plain)()",
    "begin with attributes": "blocked(given.__enter__); body(given)()",
    "end": "blocked(body(plain))",
    "end with an error": "blocked(body(plain, raises=True))",
    "phase": "blocked(lambda: prof.phase('plain', stream=stream.value)); prof.end_phase()",
    "next phase": "prof.phase('one', stream=stream.value); blocked(lambda: prof.phase('two', stream=stream.value))",
    "phase on the host": "prof.phase('one', stream=stream.value); blocked(lambda: prof.phase('two on the host', stream=cep.HOST))",
    "end of a phase": "prof.phase('plain', stream=stream.value); blocked(prof.end_phase)",
}


@pytest.mark.skipif(not FAKE_DRIVER.exists(), reason="the fake driver is not built")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_thread_of_pythons_can_end_the_wait_for_the_gpus_queue(scripts, files, call):
    _, errors = scripts.run(BLOCKED.replace("CALL", call), FAKE_DRIVER, timeout=20)
    assert errors == ""
    assert all(span["clock"] == "gpu" for span in files.spans() if span["name"] != "two on the host")


# What takes each profiler for one of the host clock, whose regions keep the lock.
KEEP = "import cep._ffi; cep._ffi.BACKENDS['host'] = cep._ffi.BACKENDS['auto']\n"


@pytest.mark.skipif(not FAKE_DRIVER.exists(), reason="the fake driver is not built")
def test_a_region_that_kept_the_interpreters_lock_would_hang(scripts):
    call = "assert plain._keeps_lock; print('ready', flush=True); blocked(plain.__enter__)"
    with scripts.start(KEEP + BLOCKED.replace("CALL", call), FAKE_DRIVER) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
        finally:
            process.kill()


@pytest.mark.parametrize("name",
                         ["open_profiler", "close", "flush", "set_meta", "get_stats", "region_get", "options_load_json", "options_load_env"])
def test_calls_that_wait_for_a_disk_or_a_lock_of_the_librarys_give_the_interpreters_lock_up(name):
    assert not getattr(_ffi, name)._flags_ & KEEPS_LOCK


def test_spans_that_make_no_cuda_call_keep_the_interpreters_lock(tmp_path):
    import cep

    with cep.Profiler(tmp_path / "auto") as prof:
        assert prof.region("load", stream=cep.HOST)._keeps_lock
        assert not prof.region("forward")._keeps_lock
        assert not prof.region("forward", stream=1)._keeps_lock
    with cep.Profiler(tmp_path / "host", backend="host") as prof:
        assert prof.region("forward")._keeps_lock
