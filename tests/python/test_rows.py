# SPDX-License-Identifier: Apache-2.0
"""Rows without a body: counters, marks, times measured elsewhere, facts about the rank; and the counts."""

import time

import cep
import pytest


def test_a_counter_is_recorded_on_recorded_steps(tmp_path, files):
    with cep.Profiler(tmp_path) as profiler:
        for step in range(11):
            profiler.step(step)
            profiler.counter("loss", step / 2)
    assert [(row["step"], row["name"], row["value"]) for row in files.typed("counter")] == [
        (0, "loss", 0.0),
        (10, "loss", 5.0),
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_counter_refuses_what_json_has_no_number_for(profiler, value):
    with pytest.raises(cep.OptionError):
        profiler.counter("loss", value)


@pytest.mark.parametrize("name", ["loss\0 of all", "\0", "", 7])
def test_counters_and_marks_refuse_the_names_that_regions_refuse(profiler, files, name):
    for call in (profiler.region, profiler.mark, lambda name: profiler.counter(name, 1)):
        with pytest.raises(cep.OptionError, match="name"):
            call(name)
    assert files.typed("counter") == [] and files.typed("mark") == []


def test_metadata_with_a_nul_is_refused_whole(profiler, files):
    with pytest.raises(cep.OptionError, match="meta"):
        profiler.mark("checkpoint", '{"path":"model.pt"}\0')
    assert files.typed("mark") == []


def test_a_mark_is_recorded_sampled_or_not(tmp_path, files):
    with cep.Profiler(tmp_path) as profiler:
        profiler.step(3)
        profiler.mark("checkpoint", {"path": "model.pt"})
    (mark,) = files.typed("mark")
    assert (mark["name"], mark["step"], mark["meta"]) == ("checkpoint", 3, {"path": "model.pt"})


def test_a_time_measured_elsewhere_is_a_span(profiler, files):
    start_ns = time.time_ns()
    profiler.add_span("all_reduce", start_ns, 2_500_000, group="dp", coll=4, bytes=1024)
    row = files.span("all_reduce")
    assert row["clock"] == "external"
    assert row["start_ns"] == start_ns
    assert row["duration_ms"] == pytest.approx(2.5)
    assert (row["group"], row["coll"], row["bytes"]) == ("dp", 4, 1024)


def test_a_time_measured_elsewhere_must_be_a_time(profiler):
    with pytest.raises(cep.OptionError, match="duration_ns"):
        profiler.add_span("all_reduce", time.time_ns(), -1)


def test_facts_are_in_the_run_row(tmp_path, files):
    with cep.Profiler(tmp_path, meta={"dp": 1, "model": "tiny"}) as profiler:
        profiler.set_meta({"tp": 0}, flops_per_step=2e12, optimizer="adam")
        profiler.step(0)
    run = files.typed("run")[-1]
    assert (run["dp"], run["tp"], run["flops_per_step"]) == (1, 0, 2e12)
    assert run["meta"].pop("settings") and run["meta"] == {"model": "tiny", "optimizer": "adam"}


@pytest.mark.parametrize("meta", [{"of": object()}, {"of": float("nan")}, [1], "not json", "[1]", {"dp": "first"}])
def test_facts_that_are_no_json_object_are_refused(profiler, meta):
    with pytest.raises(cep.OptionError):
        profiler.set_meta(meta)


def test_facts_that_refer_to_themselves_are_refused(profiler):
    meta = {}
    meta["self"] = meta
    with pytest.raises(cep.OptionError, match="meta"):
        profiler.set_meta(meta)


def test_the_counts_add_up(profiler, files):
    for _ in range(5):
        with profiler.region("forward"):
            pass
    profiler.counter("loss", 1)
    assert profiler.stats.recorded == 6
    profiler.close()
    stats = profiler.stats
    assert stats.written == 6 and stats.lost == 0 and stats.threads == 1
    path = files.directory / "cuda_events_rank_0.jsonl"
    assert stats.bytes_written == path.stat().st_size


def test_flush_writes_what_is_finished(profiler, files_while_open):
    with profiler.region("forward"):
        pass
    assert profiler.flush()
    assert len(files_while_open.spans("forward")) == 1


def test_a_negative_timeout_is_refused(profiler):
    for call in (profiler.flush, profiler.close):
        with pytest.raises(cep.OptionError, match="timeout"):
            call(timeout=-1)


def test_a_closed_profiler_accepts_every_call(profiler, files):
    region = profiler.region("forward")
    rows = len(files.rows())
    profiler.step(1)
    with region, profiler.region("new"):
        pass
    profiler.phase("forward")
    profiler.end_phase()
    profiler.counter("loss", 1)
    profiler.mark("checkpoint")
    profiler.add_span("forward", 0, 1)
    profiler.set_meta(dp=1)
    assert profiler.flush() and profiler.close()
    assert not profiler.recording and not profiler.enabled
    assert len(files.rows()) == rows
