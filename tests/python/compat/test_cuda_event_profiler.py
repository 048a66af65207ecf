# SPDX-License-Identifier: Apache-2.0
"""cep.compat.CudaEventProfiler behaves as the classes of that name that trainers have."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

import cep
from cep import compat
from cep.compat import CudaEventProfiler

FAKE_DRIVER = Path(os.environ.get("TEST_BUILD_DIRECTORY", ".")).resolve() / "tests" / "fake_cuda" / "libcuda.so.1"


def profiler_in(directory, *, enable=True, rank=0, **config):
    return CudaEventProfiler(enable, directory, rank, {"backend": "host", **config})


def rows_in(directory, rank=0):
    return [json.loads(line) for line in (directory / f"cuda_events_rank_{rank}.jsonl").read_text().splitlines()]


def recorded_steps(directory, steps, **config):
    profiler = profiler_in(directory, **config)
    for step in steps:
        with profiler.record("training_step", step=step):
            pass
    profiler.close()
    return [row["step"] for row in rows_in(directory)]


def use_every_call(profiler):
    with profiler.record("training_step", step=0, micro_step=1):
        profiler.maybe_flush(0)
    profiler.flush(blocking=True)
    profiler.close()


@pytest.mark.parametrize("options", [{"enable": False}, {"rank": 3, "ranks": [0, 1]}, {"ranks": []}])
def test_disabled_or_of_a_rank_that_is_not_listed_it_writes_nothing(tmp_path, options):
    profiler = profiler_in(tmp_path / "events", **options)
    assert not profiler.should_record(0)
    use_every_call(profiler)
    assert list(tmp_path.iterdir()) == []


def test_a_listed_rank_beyond_the_first_writes_its_file(tmp_path):
    use_every_call(profiler_in(tmp_path, rank=3, ranks=["3", 70]))
    assert [row["rank"] for row in rows_in(tmp_path, rank=3)] == [3]


def test_without_cuda_it_is_off_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(compat, "_has_cuda", lambda: False)
    with pytest.warns(RuntimeWarning, match="CUDA is not available"):
        profiler = CudaEventProfiler(enable=True, directory=tmp_path / "events", rank=0)
    use_every_call(profiler)
    assert list(tmp_path.iterdir()) == []


def one_row(directory, layout, **metadata):
    profiler = profiler_in(directory, rank=3, record_every_n_steps=1, layout=layout)
    with profiler.record("training_step", step=7, **metadata):
        pass
    profiler.close()
    (row,) = rows_in(directory, rank=3)
    return row


def test_flat_rows_have_four_keys_and_the_metadata_beside_them(tmp_path):
    row = one_row(tmp_path, "flat", micro_step=2, phase="warm-up")
    duration_ms = row.pop("duration_ms")
    assert row == {"name": "training_step", "rank": 3, "step": 7, "micro_step": 2, "phase": "warm-up"}
    assert isinstance(duration_ms, float) and duration_ms >= 0


def test_rows_say_besides_when_and_how_they_were_timed(tmp_path):
    before_ns = time.time_ns()
    row = one_row(tmp_path, None, micro_step=2)
    assert row["micro_step"] == 2
    assert before_ns - 10**9 < row["start_ns"] < time.time_ns() + 10**9
    assert (row["kind"], row["clock"], row["depth"], row["seq"]) == ("step", "host", 0, 0)
    assert row["host_ms"] == row["duration_ms"]
    assert "type" not in row and "meta" not in row


def test_metadata_keep_the_name_of_a_key_that_only_cep_writes(tmp_path):
    row = one_row(tmp_path, "spans", depth="shallow", stream="main")
    assert (row["depth"], row["stream"]) == ("shallow", "main")
    assert row["start_ns"] > 0


def test_a_nested_region_is_deeper_and_has_its_place_in_time(tmp_path):
    profiler = profiler_in(tmp_path)
    with profiler.record("training_step", step=0):
        with profiler.record("forward", step=0):
            pass
    profiler.close()
    inner, outer = rows_in(tmp_path)
    assert (inner["name"], inner["depth"], outer["depth"]) == ("forward", 1, 0)
    assert outer["start_ns"] <= inner["start_ns"]


def test_another_layout_is_named(tmp_path):
    with pytest.raises(cep.OptionError, match="layout"):
        profiler_in(tmp_path / "events", layout="full")
    assert list(tmp_path.iterdir()) == []


def test_metadata_replaces_no_key_of_the_row(tmp_path):
    profiler = profiler_in(tmp_path)
    with profiler.record("training_step", step=0, rank=99, duration_ms=-1.0):
        pass
    profiler.close()
    (row,) = rows_in(tmp_path)
    assert row["rank"] == 0 and row["duration_ms"] >= 0


@pytest.mark.parametrize(("config", "steps", "recorded"), [
    ({"start_step": 2, "end_step": 5, "record_every_n_steps": 2}, range(8), [2, 4]),
    ({"start_step": 2, "end_step": 4, "record_every_n_steps": 2}, range(8), [2, 4]),  # inclusive
    ({}, range(21), [0, 10, 20]),  # the default
    ({"record_every_n_steps": 0, "flush_every_n_steps": 0}, range(3), [0, 1, 2]),  # below one: every step
    ({}, [10, 10, 0, 20], [10, 10, 0, 20]),  # steps may repeat and go back
])  # fmt: skip
def test_the_stride_counts_from_the_start_of_the_window(tmp_path, config, steps, recorded):
    assert recorded_steps(tmp_path, steps, **config) == recorded


def test_should_record_says_what_record_does(tmp_path):
    profiler = profiler_in(tmp_path, start_step=3, end_step=9, record_every_n_steps=3)
    assert [step for step in range(-3, 13) if profiler.should_record(step)] == [3, 6, 9]
    profiler.close()
    assert not profiler.should_record(3)


def test_a_blocking_flush_has_the_rows_in_the_file(tmp_path):
    profiler = profiler_in(tmp_path)
    with profiler.record("training_step", step=0):
        pass
    profiler.flush(blocking=True)
    assert [row["name"] for row in rows_in(tmp_path)] == ["training_step"]
    profiler.close()
    assert len(rows_in(tmp_path)) == 1


def test_a_flush_that_does_not_block_waits_for_no_open_span(tmp_path):
    profiler = profiler_in(tmp_path)
    with profiler.record("training_step", step=0):
        profiler.flush(blocking=False)
        profiler.maybe_flush(0)
        with profiler.record("forward", step=0):
            pass
    profiler.close()
    assert sorted(row["name"] for row in rows_in(tmp_path)) == ["forward", "training_step"]


def test_only_steps_of_the_cadence_flush(tmp_path, monkeypatch):
    profiler = profiler_in(tmp_path, flush_every_n_steps=4)
    flushed = []
    monkeypatch.setattr(profiler._profiler, "flush", lambda timeout: flushed.append(timeout) or True)
    for step in range(9):
        profiler.maybe_flush(step)
    assert flushed == [0, 0, 0]


def test_a_region_that_raises_is_recorded_and_the_exception_passes(tmp_path):
    profiler = profiler_in(tmp_path)
    with pytest.raises(ZeroDivisionError):
        with profiler.record("training_step", step=0):
            1 / 0
    profiler.close()
    assert [row["name"] for row in rows_in(tmp_path)] == ["training_step"]


def test_a_restarted_job_appends(tmp_path):
    assert recorded_steps(tmp_path, [0]) == [0]
    assert recorded_steps(tmp_path, [10]) == [0, 10]


def test_closing_again_does_nothing_and_later_calls_are_ignored(tmp_path):
    profiler = profiler_in(tmp_path)
    profiler.close()
    use_every_call(profiler)
    assert rows_in(tmp_path) == []


def test_threads_record_different_steps_apart(tmp_path):
    profiler = profiler_in(tmp_path, record_every_n_steps=1)
    barrier = threading.Barrier(4)

    def work(step):
        barrier.wait()
        for _ in range(200):
            with profiler.record("work", step=step, of=step):
                pass

    threads = [threading.Thread(target=work, args=(step,)) for step in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    profiler.close()
    rows = rows_in(tmp_path)
    assert len(rows) == 800 and all(row["step"] == row["of"] for row in rows)


def test_a_bad_window_is_named(tmp_path):
    with pytest.raises(cep.OptionError, match="end_step"):
        profiler_in(tmp_path / "events", start_step=5, end_step=2)
    assert list(tmp_path.iterdir()) == []


def test_the_command_reads_its_files(tmp_path, command):
    from example_programs import phases_of_a_summary

    for rank in range(2):
        profiler = profiler_in(tmp_path, rank=rank)
        for step in range(30):
            with profiler.record("training_step", step=step):
                pass
        profiler.close()
    phases = phases_of_a_summary(command, tmp_path)
    assert phases["training_step"]["count"] == 6 and phases["training_step"]["ranks"] == 2


# ---- with CUDA's events, of a fake driver

ON_A_DEVICE = """
import ctypes
from cep import compat

compat._has_cuda = lambda: True  # PyTorch does not know of this driver
driver = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
context = ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0


def launch(duration_ms):
    assert driver.fake_cuda_enqueue_work(None, ctypes.c_uint64(int(duration_ms * 1e6))) == 0


profiler = compat.CudaEventProfiler(True, sys.argv[1], 3, {"record_every_n_steps": 1})
assert driver.fake_cuda_enqueue_gate(None) == 0  # the device is busy: no time of the host is in a span
BODY
assert driver.fake_cuda_misuse_count() == 0
"""


def rows_on_a_device(scripts, directory, body):
    scripts.run(ON_A_DEVICE.replace("BODY", body), FAKE_DRIVER, timeout=60)
    return rows_in(directory, rank=3)


needs_fake_driver = pytest.mark.skipif(not FAKE_DRIVER.exists(), reason="the fake driver is not built")


@needs_fake_driver
def test_a_span_is_as_long_as_its_work_on_the_device(scripts, tmp_path):
    (row,) = rows_on_a_device(scripts, tmp_path, """
with profiler.record("training_step", step=7, micro_step=2):
    launch(1.25)
driver.fake_cuda_open_gates()
profiler.close()
""")
    assert row["duration_ms"] == pytest.approx(1.25, abs=1e-4)  # the device's clock has ticks of 32 ns
    assert {key: row[key] for key in ("name", "rank", "step", "micro_step", "clock")} == {
        "name": "training_step", "rank": 3, "step": 7, "micro_step": 2, "clock": "gpu"}
    assert row["lag_ms"] >= 0 and row["start_ns"] > 0


@needs_fake_driver
def test_a_flush_that_does_not_block_leaves_what_the_device_has_not_finished(scripts, tmp_path):
    rows = rows_on_a_device(scripts, tmp_path, """
with profiler.record("training_step", step=0):
    launch(1)
profiler.maybe_flush(0)
profiler.flush()
assert profiler.path.read_text() == ""
driver.fake_cuda_open_gates()
profiler.flush(blocking=True)
assert profiler.path.read_text().count("training_step") == 1
profiler.close()
""")
    assert len(rows) == 1
