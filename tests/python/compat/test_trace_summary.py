# SPDX-License-Identifier: Apache-2.0
"""cep.compat.build_profiler() and print_profiler_summary() behave as the functions of these names in trainers."""

import dataclasses
import json

import pytest

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep import _command, compat  # noqa: E402
from cep.torch import _trace  # noqa: E402


@dataclasses.dataclass
class ProfilingConfig:
    """A trainer's own configuration."""

    trace_dir: str
    enable: bool = True
    start_step: int = 1
    end_step: int = 3
    other: str = "an option of the trainer's"


@pytest.fixture
def no_command(monkeypatch):
    monkeypatch.setattr(_command, "command_path", lambda: None)


@pytest.fixture
def real_command(command, monkeypatch):
    monkeypatch.setattr(_command, "command_path", lambda: str(command))


def run(prof, steps=4):
    prof.start()
    for _ in range(steps):
        torch.ones(8, 8) @ torch.ones(8, 8)
        prof.step()
    prof.stop()
    return prof


def replace_trace(directory, rank=0):
    """A trace with a kernel, in the place of one that was made without a GPU."""
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "pid": 0, "tid": 7, "args": {"device": 0}}
    (directory / f"rank_{rank}_trace.json").write_text(json.dumps({"traceEvents": [kernel]}))


@pytest.mark.parametrize("build", (compat.build_profiler, cep.torch.build_profiler))
def test_without_a_rank_the_launchers_counts(tmp_path, monkeypatch, build, no_command):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "8")
    run(build({"directory": str(tmp_path), "end_step": 1}))
    assert (tmp_path / "rank_5_trace.json").exists()


@pytest.mark.parametrize("variable", ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"))
def test_every_launchers_rank_counts(tmp_path, monkeypatch, variable):
    monkeypatch.setenv(variable, "2")
    assert compat.build_profiler({"directory": str(tmp_path), "ranks": [2]})
    assert not compat.build_profiler({"directory": str(tmp_path), "ranks": [0]})


def test_without_a_launcher_the_rank_is_0(tmp_path):
    assert compat.build_profiler({"directory": str(tmp_path), "ranks": [0]})
    profiler = compat.CudaEventProfiler(True, tmp_path, profiler_config={"backend": "host"})
    profiler.close()
    assert (tmp_path / "cuda_events_rank_0.jsonl").exists()


def test_an_event_profiler_takes_the_launchers_rank_too(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "6")
    compat.CudaEventProfiler(True, tmp_path, profiler_config={"backend": "host"}).close()
    assert (tmp_path / "cuda_events_rank_6.jsonl").exists()


@pytest.mark.filterwarnings("ignore:cep")
def test_key_averages_are_those_of_the_traced_steps(tmp_path, no_command):
    averages = run(compat.build_profiler(ProfilingConfig(str(tmp_path)), rank=0)).key_averages()
    assert {event.key: event.count for event in averages}["aten::mm"] == 2


def test_a_job_that_ends_before_the_window_has_no_averages(tmp_path):
    prof = run(compat.build_profiler(ProfilingConfig(str(tmp_path), start_step=50, end_step=51), rank=0))
    with pytest.raises(RuntimeError, match="no step was traced"):
        prof.key_averages()


@pytest.mark.filterwarnings("ignore:cep")
def test_shapes_memory_and_flops_are_recorded_unless_switched_off(tmp_path, no_command):
    averages = run(compat.build_profiler(ProfilingConfig(str(tmp_path)), rank=0)).key_averages()
    assert sum(event.flops or 0 for event in averages) == 2 * 2 * 8**3  # 2 n^3 in each of two steps
    off = {"trace_dir": str(tmp_path), "end_step": 2, "with_flops": False}
    assert not any(event.flops for event in run(compat.build_profiler(off, rank=0)).key_averages())


@pytest.mark.filterwarnings("ignore:cep")
def test_the_summary_has_the_operators_the_flops_and_the_breakdown(tmp_path, real_command, capsys):
    prof = run(compat.build_profiler(ProfilingConfig(str(tmp_path)), rank=0))
    replace_trace(tmp_path)
    compat.print_profiler_summary(prof)
    printed = capsys.readouterr().out
    assert "aten::mm" in printed and "TFLOP" in printed
    assert "matmul" in printed and "gemm" in printed


@pytest.mark.filterwarnings("ignore:cep")
def test_the_summary_is_written_where_asked(tmp_path, real_command, capsys):
    prof = run(compat.build_profiler(ProfilingConfig(str(tmp_path / "traces")), rank=0))
    replace_trace(tmp_path / "traces")
    compat.print_profiler_summary(prof, trace_dir=tmp_path / "elsewhere")
    assert "gemm" in (tmp_path / "elsewhere" / "summary.md").read_text()


def test_the_summary_of_nothing_is_nothing(capsys):
    compat.print_profiler_summary(None)
    assert capsys.readouterr().out == ""


def test_a_summary_without_a_trace_is_a_warning(tmp_path, capsys):
    prof = compat.build_profiler(ProfilingConfig(str(tmp_path)), rank=0)
    with pytest.warns(RuntimeWarning, match="no step was traced"):
        compat.print_profiler_summary(prof)
    assert capsys.readouterr().out == ""


def test_the_rate_counts_the_time_on_the_gpu():
    class Event:
        flops, self_device_time_total = 3e12, 2e6

    class Averages(list):
        def table(self, **_):
            return "table"

    printed = _trace._operators(Averages([Event()]))
    assert printed.endswith("FLOPs of the traced steps: 3 TFLOP, 1.5 TFLOP/s while kernels ran")


def test_the_timers_are_those_of_cep_torch():
    assert compat.CUDATimer is cep.torch.CUDATimer
    assert compat.CUDATimerCollection is cep.torch.CUDATimerCollection


def test_both_functions_of_the_name_return_the_same(tmp_path):
    config = {"trace_dir": str(tmp_path), "start_step": 2, "end_step": 3, "ranks": [0]}
    mine, theirs = (build(config, rank=0) for build in (cep.torch.build_profiler, compat.build_profiler))
    assert type(mine) is type(theirs) and mine._options == theirs._options


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="NoSuchTimer"):
        compat.NoSuchTimer


@pytest.mark.parametrize(("config", "window"), [
    ({"enable": True}, (5, 8, "profiler_traces")),
    ({"start_step": 20}, (20, 23, "profiler_traces")),
    ({"end_step": 3, "trace_dir": "here"}, (0, 3, "here")),
    ({"end_step": 12, "output_dir": "out"}, (5, 12, "out/profiler_traces")),
])
def test_the_defaults_are_those_of_kempnerforge(config, window):
    options = compat.build_profiler(config, rank=0)._options
    assert (options.start_step, options.end_step, str(options.directory)) == window


def test_traces_can_have_the_names_that_tensorboard_looks_for(tmp_path, monkeypatch):
    monkeypatch.setattr(_trace, "summarize_traces", lambda directory: True)
    with cep.torch.build_profiler({"trace_dir": str(tmp_path), "tensorboard": True}, rank=3) as tracer:
        torch.ones(2).sum()
        tracer.step()
    assert [path.name for path in tmp_path.iterdir()] == ["rank_3.pt.trace.json"]
