# SPDX-License-Identifier: Apache-2.0
"""Counters of the CUDA allocator, waiting for data, copies to the device."""

import collections
import pickle

import pytest

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep._native import seldom  # noqa: E402
from cep.torch import _instrument, _memory, _pytorch  # noqa: E402

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


def test_instrumented_optimizers_record_memory_at_most_once_a_second(tmp_path, monkeypatch):
    recorded, made = [], []
    monkeypatch.setattr(_memory, "record_memory", lambda profiler: recorded.append(step))
    monkeypatch.setattr(_instrument, "seldom", lambda function: made.append(seldom(function)) or made[0])
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    with cep.Profiler(tmp_path, record_every_n_steps=1, backend="host") as profiler:
        with cep.torch.instrument_optimizers(profiler, optimizer):
            for step in range(4):
                made[0].due_ns -= 10**9 if step == 3 else 0  # as if a second had passed
                profiler.step(step)
                optimizer.step()
    assert recorded == [0, 3]


class Allocator:
    """In the place of PyTorch's, with a device."""

    def __init__(self, monkeypatch):
        self.observers, self.history, self.peak, self.resets = [], [], 0, 0
        monkeypatch.setattr(_memory.torch._C, "_cuda_attach_out_of_memory_observer", self.observers.append, raising=False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "init", lambda: None)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", self.reset)
        monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **given: self.history.append(given))
        monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: {"segments": []})
        monkeypatch.setattr(_memory, "_read_stats", lambda device: {"allocated_bytes": {"all": {"peak": self.peak}}})

    def reset(self, device):
        self.resets += 1

    def run_out(self):
        for observer in self.observers:
            observer(0, 1, 2, 3)


def test_a_snapshot_is_written_once_beside_the_rank_file_and_a_mark_names_it(files, tmp_path, monkeypatch):
    allocator = Allocator(monkeypatch)
    with cep.Profiler(tmp_path, rank=2, world_size=3, backend="host") as profiler:
        path = cep.torch.snapshot_on_oom(profiler=profiler)
        profiler.step(7)
        assert not path.exists()
        allocator.run_out()
        written_ns = path.stat().st_mtime_ns
        allocator.run_out()
    assert path == files.directory / "cuda_memory_rank_2.pickle" and path.stat().st_mtime_ns == written_ns
    assert pickle.loads(path.read_bytes()) == {"segments": []}
    assert allocator.history == [{"max_entries": 100_000}]
    (mark,) = files.typed("mark", rank=2)
    assert (mark["step"], mark["name"]) == (7, "out_of_memory, see cuda_memory_rank_2.pickle")
    assert sorted(one.name for one in files.directory.iterdir() if "memory" in one.name) == [path.name]


def test_a_snapshot_goes_to_a_directory_without_a_profiler(tmp_path, monkeypatch):
    allocator = Allocator(monkeypatch)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    path = cep.torch.snapshot_on_oom(tmp_path / "memory", history=0)
    allocator.run_out()
    assert path == tmp_path / "memory" / "cuda_memory_rank_1.pickle" and path.exists() and allocator.history == []


def test_a_snapshot_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    allocator = Allocator(monkeypatch)
    (tmp_path / "file").write_text("")
    cep.torch.snapshot_on_oom(tmp_path / "file" / "memory")
    with pytest.warns(RuntimeWarning, match="no snapshot"):
        allocator.run_out()


def test_without_cuda_or_with_a_profiler_that_is_off_there_is_no_snapshot(tmp_path, monkeypatch):
    assert cep.torch.snapshot_on_oom(tmp_path) is None
    allocator = Allocator(monkeypatch)
    assert cep.torch.snapshot_on_oom(profiler=cep.Profiler(tmp_path, enable=False)) is None
    assert allocator.observers == [] and allocator.history == []
    with pytest.raises(TypeError, match="directory or a profiler"):
        cep.torch.snapshot_on_oom()


def test_each_phase_of_a_recorded_step_has_its_peak(files, tmp_path, monkeypatch):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with cep.Profiler(tmp_path, record_every_n_steps=2, backend="host") as profiler:
        profiler._set_stream_source((lambda: 0, None))
        with cep.torch.instrument(profiler, model, optimizer, memory=False, memory_phases=True):
            allocator = Allocator(monkeypatch)
            for step in range(3):
                profiler.step(step)
                allocator.peak = 100 + step
                loss = model(torch.ones(2, 4)).sum()
                allocator.peak = 200 + step
                loss.backward()
                allocator.peak = 300 + step
                optimizer.step()
    found = [(row["step"], row["name"], row["value"]) for row in files.typed("counter")]
    phases = {"forward": 100, "backward": 200, "optimizer": 300}
    assert found == [(step, f"memory.peak_bytes.{name}", peak + step) for step in (0, 2) for name, peak in phases.items()]
    assert allocator.resets == 6


@pytest.mark.parametrize("options", [{}, {"memory": False, "memory_phases": True}])
def test_counters_that_cannot_be_read_are_tried_once_and_told(tmp_path, monkeypatch, options):
    def fail(device):
        asked.append(device)
        raise RuntimeError("no statistics")

    asked, model = [], torch.nn.Linear(4, 4)
    optimizers = [torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()]
    Allocator(monkeypatch)
    monkeypatch.setattr(_memory, "_read_stats", fail)
    monkeypatch.setattr(_pytorch, "_failures", 0)
    with cep.Profiler(tmp_path, record_every_n_steps=1, backend="host") as profiler:
        profiler._set_stream_source((lambda: 0, None))
        with cep.torch.instrument(profiler, model, optimizers, **options), pytest.warns(RuntimeWarning, match="no statistics"):
            for step in range(3):
                profiler.step(step)
                model(torch.ones(2, 4)).sum().backward()
                for optimizer in optimizers:
                    optimizer.step()
    assert asked == [0] and cep.torch.hook_failures() == 1


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
