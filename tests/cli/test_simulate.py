# SPDX-License-Identifier: Apache-2.0
import gzip

import numpy as np
import pytest
from simulation import FAULT, QUIET


def end_ns(span):
    return span["start_ns"] + round(span["duration_ms"] * 1e6)


# What the files are.

@pytest.mark.parametrize("layout, settings", [
    ((), {}), (("--ranks", 16, "--tp", 4), {}), (("--ranks", 16, "--pp", 4), {}),
    (("--ranks", 16, "--tp", 2, "--pp", 2, "--overlap", 0.8), {}), ((), {"hidden_collectives": True}),
    (("--ranks-per-host", 2, "--record-every", 7), {"clock_skew_ms": 50}),
    (("--micro-batches", 3), {"start_step": 12345}),
])
def test_check_finds_nothing_wrong(cep, simulate, layout, settings):
    job = simulate("job", "--steps", 30, *layout, **settings)
    report = cep.check("--strict", "job")
    assert (report["severity"], report["complete"], report["findings"]) == ("fine", True, [])
    assert sum(file["rows"] for file in report["files"]) == job.truth["rows"]["total"] == len(job.rows)


def test_rows_are_those_of_the_library(simulate):
    job = simulate("job", "--ranks", 4, "--tp", 2, "--steps", 2)
    run = job.runs[3]
    assert (run["schema"], run["world_size"], run["tp"], run["dp"], run["pp"]) == (1, 4, 1, 1, 0)
    assert list(run)[:9] == ["type", "schema", "run_id", "attempt", "rank", "world_size", "local_rank", "host", "pid"]
    spans = {span["name"]: span for span in job.spans if span["rank"] == 3 and span["step"] == 1}
    assert list(spans["forward"]) == ["name", "step", "rank", "duration_ms", "start_ns", "host_ms", "lag_ms", "kind",
                                      "clock", "seq", "depth", "device", "stream"]
    assert list(spans["data_load"]) == ["name", "step", "rank", "duration_ms", "start_ns", "host_ms", "kind", "clock",
                                        "seq", "depth"]
    assert list(spans["all_reduce"])[-3:] == ["bytes", "group", "coll"]
    kinds = {name: span["kind"] for name, span in spans.items()}
    assert kinds == {"data_load": "data", "host_to_device": "data", "forward": "compute", "backward": "compute",
                     "all_reduce": "comm", "optimizer": "compute", "training_step": "step"}
    types = [row.get("type", "span") for row in job.rows if row["rank"] == 3]
    assert (types[0], types[-1]) == ("run", "stats")
    assert job.rows[-1]["written"] == len(types) - 2


def test_a_step_contains_its_phases(simulate):
    job = simulate("job", "--ranks", 4, "--pp", 2, "--steps", 5)
    steps = {(span["rank"], span["step"]): span for span in job.spans if span["name"] == "training_step"}
    for span in job.spans:
        step = steps[span["rank"], span["step"]]
        assert span["depth"] == 0 if span is step else span["depth"] >= 1
        assert span["start_ns"] >= step["start_ns"]
        if span["name"] != "send":  # which waits for its receiver on a stream of its own
            assert end_ns(span) <= end_ns(step)


def test_only_recorded_steps_are_written(simulate):
    job = simulate("job", "--steps", 95, "--record-every", 10, start_step=5)
    assert sorted({span["step"] for span in job.spans}) == list(range(5, 100, 10))
    assert job.truth["recorded_steps"] == 10


def test_recording_less_leaves_the_steps_as_they_are(simulate):
    every = {(s["rank"], s["step"], s["name"], s["seq"]): s for s in simulate("every").spans}
    some = simulate("some", "--record-every", 9).spans
    assert some and all(span == every[span["rank"], span["step"], span["name"], span["seq"]] for span in some)


# The same again, or not.

def test_same_seed_gives_the_same_bytes_on_any_number_of_threads(simulate):
    arguments = ("--ranks", 12, "--tp", 2)
    settings = {"noise_correlation": 0.5, "drop_fraction": 0.1, "spike_fraction": 0.1, "spike_ms": 9}
    one = simulate("one", *arguments, "--threads", 1, faults=[FAULT], **settings)
    many = simulate("many", *arguments, "--threads", 3, faults=[FAULT], **settings)
    assert one.contents() == many.contents()


def test_another_seed_gives_other_times(simulate):
    one = simulate("one", "--seed", 1).durations("forward")
    other = simulate("other", "--seed", 2).durations("forward")
    assert not np.any(one == other)


def test_compressed_files_hold_the_same(cep, simulate, tmp_path):
    plain = simulate("plain")
    simulate("gz", gzip=True)
    simulate("zst", zstd=True)
    text = (plain.folder / "cuda_events_rank_0.jsonl").read_bytes()
    assert gzip.decompress((tmp_path / "gz" / "cuda_events_rank_0.jsonl.gz").read_bytes()) == text
    assert cep.merged("plain") == cep.merged("gz") == cep.merged("zst")


# A straggler and those who wait for it.

def test_fault_lengthens_its_own_work_and_the_others_waiting(simulate):
    slow, fast = simulate("slow", faults=[FAULT]), simulate("fast")
    ratio = slow.durations("forward") / fast.durations("forward")
    assert np.allclose(ratio[3], 1.5, atol=1e-6) and np.allclose(np.delete(ratio, 3, axis=0), 1.0)
    excess = slow.durations("forward")[3].mean() - fast.durations("forward")[3].mean()
    assert slow.truth["faults"][0]["own_excess_ms"] == pytest.approx(excess, rel=1e-6)
    assert slow.truth["faults"][0]["slowdown"] == pytest.approx(1.5, rel=1e-9)
    waits = slow.durations("all_reduce") - fast.durations("all_reduce")
    expected = (slow.durations("training_step") - fast.durations("training_step")).mean()
    assert np.allclose(np.delete(waits, 3, axis=0).mean(axis=1), expected, rtol=0.15)
    assert np.all(slow.durations("all_reduce").argmin(axis=0) == 3)


def test_truth_tells_the_jobs_slowdown(simulate):
    slow, fast = simulate("slow", faults=[FAULT]), simulate("fast")
    assert slow.truth["job_slowdown"] == pytest.approx(slow.job_ms() / fast.job_ms(), rel=1e-6)
    assert slow.truth["excess_ms_total"] == pytest.approx(slow.job_ms() - fast.job_ms(), abs=0.01)
    assert slow.truth["job_ms"] == pytest.approx(slow.job_ms(), abs=0.01)
    assert (slow.truth["healthy"], fast.truth["healthy"], fast.truth["job_slowdown"]) == (False, True, 1)


def test_each_of_several_faults_has_its_own_cost(simulate):
    faults = [FAULT, {"rank": 5, "phase": "backward", "excess_ms": 30, "pattern": "window", "first_step": 20,
                      "last_step": 49}]
    both = simulate("both", faults=faults)
    for index, other in enumerate(reversed(faults)):
        without = simulate(f"without-{index}", faults=[other])
        fault = both.truth["faults"][index]
        assert fault["job_excess_ms_total"] == pytest.approx(both.job_ms() - without.job_ms(), abs=0.01)
    assert both.truth["faults"][1]["recorded_steps"] == list(range(20, 50))
    assert both.truth["faults"][1]["touched_step_slowdown"] > both.truth["faults"][1]["job_slowdown"] > 1


@pytest.mark.parametrize("fault, touched", [
    ({}, range(100)),
    ({"first_step": 40}, range(40, 100)),
    ({"pattern": "window", "first_step": 10, "last_step": 19}, range(10, 20)),
    ({"pattern": "flapping", "period_steps": 10, "fraction": 0.3}, [s for s in range(100) if s % 10 < 3]),
])
def test_patterns_touch_their_steps(simulate, fault, touched):
    slow, fast = simulate("slow", faults=[{**FAULT, **fault}]), simulate("fast")
    ratio = slow.durations("forward")[3] / fast.durations("forward")[3]
    assert list(np.flatnonzero(ratio > 1.4)) == list(touched) == slow.truth["faults"][0]["recorded_steps"]
    assert slow.truth["faults"][0]["step_fraction"] == pytest.approx(len(touched) / 100)


def test_intermittent_fault_touches_its_fraction(simulate):
    fault = {**FAULT, "pattern": "intermittent", "fraction": 0.25}
    slow, fast = simulate("slow", "--steps", 600, faults=[fault]), simulate("fast", "--steps", 600)
    ratio = slow.durations("forward")[3] / fast.durations("forward")[3]
    assert list(np.flatnonzero(ratio > 1.4)) == slow.truth["faults"][0]["recorded_steps"]
    assert slow.truth["faults"][0]["step_fraction"] == pytest.approx(0.25, abs=0.06)


def test_drift_grows_evenly(simulate):
    fault = {**FAULT, "pattern": "drift", "first_step": 50}
    slow, fast = simulate("slow", faults=[fault]), simulate("fast")
    ratio = slow.durations("forward")[3] / fast.durations("forward")[3]
    assert np.allclose(ratio[:50], 1.0)
    assert np.allclose(ratio[50:], 1 + 0.5 * np.arange(1, 51) / 50, atol=1e-6)


@pytest.mark.parametrize("victims, ranks", [
    ({"ranks": [1, 6]}, [1, 6]), ({"ranks": "2-4"}, [2, 3, 4]), ({"host": 1}, [4, 5, 6, 7]), ({"stage": 0}, range(4)),
])
def test_victims(simulate, victims, ranks):
    layout = ("--pp", 2, "--ranks-per-host", 4, "--steps", 5)
    fault = {"phase": "compute", "slowdown": 2, **victims}
    slow, fast = simulate("slow", *layout, faults=[fault]), simulate("fast", *layout)
    for phase in ("forward", "backward", "optimizer"):
        ratio = (slow.durations(phase) / fast.durations(phase)).mean(axis=1)
        assert list(np.flatnonzero(ratio > 1.5)) == list(ranks) == slow.truth["faults"][0]["ranks"]


# Events.

def test_events_have_marks_and_phases(simulate):
    job = simulate("job", events=[{"type": "checkpoint", "every_steps": 25, "duration_ms": 500},
                                  {"type": "evaluation", "step": 30}])
    marks = {(row["name"], row["step"]) for row in job.rows if row.get("type") == "mark"}
    assert marks == {("checkpoint", step) for step in (24, 49, 74, 99)} | {("evaluation", 30)}
    saves = [span for span in job.spans if span["name"] == "save_checkpoint"]
    assert len(saves) == 4 * 8 and np.mean([span["duration_ms"] for span in saves]) == pytest.approx(500, rel=0.01)
    assert [event["steps"] for event in job.truth["events"]] == [[24, 49, 74, 99], [30]]
    assert job.truth["healthy"] and job.truth["rows"]["marks"] == 5 * 8


def test_everyone_may_get_slower(simulate):
    job = simulate("job", **QUIET, events=[{"type": "slowdown_all", "step": 60, "slowdown": 1.2}])
    ratio = job.durations("forward") / job.durations("forward")[:, :1]
    assert np.allclose(ratio[:, :60], 1) and np.allclose(ratio[:, 60:], 1.2, atol=1e-4)
    assert job.truth["healthy"] and job.truth["job_slowdown"] == 1


# Loss.

def test_dropped_spans_are_counted(cep, simulate):
    whole, job = simulate("whole"), simulate("job", drop_fraction=0.2)
    dropped = job.truth["dropped_spans"]
    assert dropped == len(whole.spans) - len(job.spans) == pytest.approx(0.2 * len(whole.spans), rel=0.1)
    stats = [row for row in job.rows if row.get("type") == "stats"]
    assert sum(row["dropped"]["ring"] for row in stats) == dropped == cep.summary("job")["loss"]["dropped"]


def test_missing_ranks_take_part(cep, simulate):
    job = simulate("job", missing_ranks="2,5-6", faults=[{**FAULT, "rank": 5}])
    assert sorted(job.runs) == [0, 1, 3, 4, 7] and job.truth["missing_ranks"] == [2, 5, 6]
    assert cep.check("job")["missing_ranks"] == [2, 5, 6]
    assert job.truth["job_slowdown"] > 1.1
