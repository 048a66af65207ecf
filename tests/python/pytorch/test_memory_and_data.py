# SPDX-License-Identifier: Apache-2.0
"""Counters of the CUDA allocator, waiting for data, copies to the device."""

import collections

import pytest

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep.torch import _memory  # noqa: E402

POOLS = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes")


def allocator_statistics():
    """Statistics in the form of torch._C._cuda_memoryStats(), with a different number in each place."""
    stats = {pool: {"all": {"current": 10 * n + 1, "peak": 10 * n + 2}} for n, pool in enumerate(POOLS)}
    return {**stats, "num_alloc_retries": 71, "num_ooms": 72}


def test_the_allocators_state_becomes_counters_of_recorded_steps(files, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(_memory, "_read_stats", lambda device: asked.append(device) or allocator_statistics())
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(_memory, "_device_bytes", lambda device: 1000 + device)
    with cep.Profiler(tmp_path, record_every_n_steps=2, backend="host") as profiler:
        profiler._set_stream_source((lambda: 0, None))
        for step in range(3):
            profiler.step(step)
            assert cep.torch.record_memory(profiler, device=3) == (step != 1)
    assert asked == [3, 3]
    values = {(row["step"], row["name"]): row["value"] for row in files.typed("counter")}
    expected = {
        "memory.allocated_bytes": 1,
        "memory.peak_allocated_bytes": 2,
        "memory.reserved_bytes": 11,
        "memory.peak_reserved_bytes": 12,
        "memory.active_bytes": 21,
        "memory.inactive_split_bytes": 31,
        "memory.alloc_retries": 71,
        "memory.ooms": 72,
    }
    device = {(0, "memory.device_bytes"): 1003}
    assert values == {**device, **{(step, name): value for step in (0, 2) for name, value in expected.items()}}


def test_statistics_that_a_version_does_not_have_are_left_out():
    assert _memory.memory_counters({"num_ooms": 1}) == {"memory.ooms": 1}


def test_a_process_that_does_not_use_cuda_has_no_memory_counters(profiler):
    if torch.cuda.is_initialized():
        pytest.skip("this process uses CUDA")
    assert not cep.torch.record_memory(profiler)


def test_waits_for_a_loader_are_data_of_the_step_they_are_for(files, tmp_path):
    loader = torch.utils.data.DataLoader(torch.arange(6), batch_size=2)
    with cep.Profiler(tmp_path, record_every_n_steps=2) as profiler:
        batches = cep.torch.iterate(profiler, loader, first_step=10)
        assert len(batches) == 3
        assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3], [4, 5]]
    rows = files.spans("data_load")
    assert {row["step"] for row in rows} == {10, 12} and {row["kind"] for row in rows} == {"data"}
    assert {row["clock"] for row in rows} == {"host"}


Pair = collections.namedtuple("Pair", "inputs targets")


class Moving:
    """A batch with a to() of its own."""

    device = None

    def to(self, device):
        self.device = device
        return self


def test_a_batch_is_moved_as_it_is_built_and_its_bytes_are_counted(files, profiler):
    moving = Moving()
    pair, whole = Pair(torch.ones(2), torch.ones(3)), torch.ones(1, dtype=torch.int64)
    batch = {"pair": pair, "list": [whole, "text"], "own": moving}
    moved = cep.torch.to_device(profiler, batch, "cpu")
    profiler.close()
    assert isinstance(moved["pair"], Pair) and torch.equal(moved["pair"].targets, torch.ones(3))
    assert moved["list"][1] == "text" and moved["own"] is moving and moving.device == "cpu"
    row = files.span("host_to_device")
    assert row["kind"] == "data" and row["bytes"] == 5 * 4 + 8


def test_a_batch_is_moved_off_recorded_steps_too(profiler):
    profiler.close()
    assert torch.equal(cep.torch.to_device(profiler, torch.ones(2), "cpu"), torch.ones(2))
