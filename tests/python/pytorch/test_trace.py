# SPDX-License-Identifier: Apache-2.0
"""build_profiler(): which steps torch.profiler traces on which ranks, and what happens to the traces."""

import json
import types

import pytest

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep import _command  # noqa: E402
from cep.torch import _trace  # noqa: E402
from training_jobs import steps_in_trace  # noqa: E402


@pytest.fixture
def stub_command(tmp_path, monkeypatch):
    """Replaces the cep command: writes its arguments to the summary's file."""
    path = tmp_path / "stub"
    path.write_text('#!/bin/sh\nset -e\n[ "$1 $2" = "kernels -o" ]\necho "$@" > "$3"\n')
    path.chmod(0o755)
    monkeypatch.setattr(_command, "command_path", lambda: str(path))


def run(tracer, steps, first_step=0):
    """Steps that each leave their number in a trace."""
    tracer.start(first_step)
    for step in range(first_step, first_step + steps):
        with torch.profiler.record_function(f"step_{step}"):
            torch.ones(3).sum()
        tracer.step()
    tracer.stop()


def config(tmp_path, **more):
    return {"directory": str(tmp_path / "traces"), **more}


def test_the_window_is_traced_and_its_end_is_exclusive(tmp_path, stub_command):
    run(cep.torch.build_profiler(config(tmp_path, start_step=3, end_step=5), rank=0), 8)
    assert steps_in_trace(tmp_path / "traces" / "rank_0_trace.json") == [3, 4]


def test_a_window_from_the_first_step_on_has_no_warm_up(tmp_path, stub_command):
    run(cep.torch.build_profiler(config(tmp_path, end_step=2), rank=0), 4)
    assert steps_in_trace(tmp_path / "traces" / "rank_0_trace.json") == [0, 1]


def test_a_resumed_job_counts_on(tmp_path, stub_command):
    run(cep.torch.build_profiler(config(tmp_path, start_step=102, end_step=103), rank=0), 6, first_step=100)
    assert steps_in_trace(tmp_path / "traces" / "rank_0_trace.json") == [102]


def test_a_job_resumed_after_the_window_has_no_trace(tmp_path, stub_command):
    run(cep.torch.build_profiler(config(tmp_path, start_step=2, end_step=3), rank=0), 6, first_step=100)
    assert not (tmp_path / "traces").exists()


def test_the_summary_waits_for_as_many_ranks_as_the_configuration_says(tmp_path, stub_command):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "rank_0_trace.json").touch()
    run(cep.torch.build_profiler(config(tmp_path, end_step=1, world_size=3), rank=1), 2)
    assert not (tmp_path / "traces" / "summary.md").exists()


def test_the_summary_waits_for_as_many_ranks_as_slurm_started(tmp_path, stub_command, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "3")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "rank_0_trace.json").touch()
    run(cep.torch.build_profiler(config(tmp_path, end_step=1)), 2)
    assert (tmp_path / "traces" / "rank_1_trace.json").exists()
    assert not (tmp_path / "traces" / "summary.md").exists()


def test_torch_profiler_is_not_even_made_outside_the_window(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.profiler, "profile", lambda **_: pytest.fail("made"))
    run(cep.torch.build_profiler(config(tmp_path, start_step=50, end_step=51), rank=0), 40)


def test_a_job_that_ends_within_the_window_has_a_trace_of_what_there_was(tmp_path, stub_command):
    run(cep.torch.build_profiler(config(tmp_path, start_step=1, end_step=100), rank=0), 4)
    assert steps_in_trace(tmp_path / "traces" / "rank_0_trace.json") == [1, 2, 3]


def test_the_last_rank_summarises_all_traces(tmp_path, stub_command):
    directory = tmp_path / "traces"
    options = config(tmp_path, end_step=1, ranks=[1, 4])
    run(cep.torch.build_profiler(options, rank=4), 2)
    assert not (directory / "summary.md").exists()
    run(cep.torch.build_profiler(options, rank=1), 2)
    summary = directory / "summary.md"
    assert summary.read_text().split() == ["kernels", "-o", str(summary), str(directory)]


def test_the_first_rank_summarises_where_another_never_finishes(tmp_path, stub_command):
    run(cep.torch.build_profiler(config(tmp_path, end_step=1, ranks=[1, 4]), rank=1), 2)
    assert (tmp_path / "traces" / "summary.md").exists()


def test_a_rank_that_is_not_listed_does_nothing(tmp_path):
    tracer = cep.torch.build_profiler(config(tmp_path, end_step=1, ranks=[1]), rank=0)
    run(tracer, 3)
    assert not tracer.enabled and not (tmp_path / "traces").exists()


@pytest.mark.parametrize("nothing", (None, {}, {"enable": False, "start_step": 1}))
def test_a_configuration_that_asks_for_nothing_is_off(nothing):
    assert not cep.torch.build_profiler(nothing, rank=0).enabled


def test_a_configuration_may_be_an_object(tmp_path):
    options = types.SimpleNamespace(enable=True, start_step=1, end_step=2, output_dir=str(tmp_path), other=1)
    assert _trace.trace_options(options)[:3] == (1, 2, tmp_path / "torch_profiler")


@pytest.mark.parametrize("ranks, listed", [(3, (3,)), ("all", None), (None, None), ([4, "2", 4], (2, 4)), ((), ())])
def test_ranks_may_be_one_rank_or_all(ranks, listed):
    assert _trace.trace_options({"end_step": 1, "ranks": ranks}).ranks == listed


@pytest.mark.parametrize("options, named",
                         [({"start_step": -1}, "start_step"), ({"ranks": "0-3"}, "ranks"), ({"ranks": 1.5}, "ranks"), ({"start_step": 5, "end_step": 5}, "end_step"), ({"x": 1}, "x")])
def test_a_bad_option_is_named(options, named):
    with pytest.raises(cep.OptionError, match=named):
        cep.torch.build_profiler(options, rank=0)


def test_a_missing_command_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(_command, "command_path", lambda: None)
    with pytest.warns(RuntimeWarning, match="no cep command"):
        assert not _trace.summarize_traces(tmp_path)


def test_the_command_itself_reads_the_directory(tmp_path, command, monkeypatch):
    monkeypatch.setattr(_command, "command_path", lambda: None)
    monkeypatch.setenv("CEP_COMMAND", str(command))
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "pid": 0, "tid": 7, "args": {"device": 0}}
    (tmp_path / "rank_0_trace.json").write_text(json.dumps({"traceEvents": [kernel]}))
    assert _trace.summarize_traces(tmp_path)
    assert "gemm" in (tmp_path / "summary.md").read_text()


def test_a_profiler_that_fails_is_a_warning_and_the_job_goes_on(tmp_path, monkeypatch):
    def fail(**_):
        raise OSError("no driver")

    monkeypatch.setattr(torch.profiler, "profile", fail)
    with pytest.warns(RuntimeWarning, match="no driver"):
        run(cep.torch.build_profiler(config(tmp_path, end_step=2), rank=0), 4)


def test_a_trace_that_cannot_be_written_is_a_warning(tmp_path, stub_command):
    (tmp_path / "traces").write_text("a file is in the way")
    with pytest.warns(RuntimeWarning, match="no trace"):
        run(cep.torch.build_profiler(config(tmp_path, end_step=1, ranks=[0, 1]), rank=1), 2)


def test_another_running_profiler_is_left_alone(tmp_path):
    with torch.profiler.profile() as other:
        with pytest.warns(RuntimeWarning, match="runs already"):
            run(cep.torch.build_profiler(config(tmp_path, end_step=1), rank=0), 2)
        torch.ones(3).sum()
    assert any(event.key == "aten::sum" for event in other.key_averages())
