# SPDX-License-Identifier: Apache-2.0
import gzip
import json
from collections import defaultdict

import numpy as np
import pytest

FAULT = {"rank": 3, "phase": "forward", "slowdown": 1.5}
QUIET = ("--noise", 0, "--host-noise", 0, "--transfer-noise", 0)


def end_ns(span):
    return span["start_ns"] + round(span["duration_ms"] * 1e6)


class Simulation:
    """What a directory of simulated files holds."""

    def __init__(self, folder):
        self.folder = folder
        self.truth = json.loads((folder / "truth.json").read_text())
        self.rows = []
        for path in sorted(folder.glob("cuda_events_rank_*.jsonl")):
            self.rows += [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        self.spans = [row for row in self.rows if "type" not in row]
        self.runs = {row["rank"]: row for row in self.rows if row.get("type") == "run"}

    def durations(self, name):
        """Milliseconds by rank and step, summed over a step."""
        sums = defaultdict(float)
        for span in self.spans:
            if span["name"] == name:
                sums[span["rank"], span["step"]] += span["duration_ms"]
        ranks = sorted({rank for rank, _ in sums})
        steps = sorted({step for _, step in sums})
        return np.array([[sums[rank, step] for step in steps] for rank in ranks])

    def true_start_ns(self, span):
        """The start of a span from the start of the job, by a clock that is right."""
        clock = {clock["host"]: clock for clock in self.truth["clocks"]}[self.runs[span["rank"]]["host"]]
        return (span["start_ns"] - self.truth["start_unix_ns"] - clock["offset_ns"]) / (1 + clock["drift_ppm"] * 1e-6)

    def job_ms(self):
        return max(self.true_start_ns(span) * 1e-6 + span["duration_ms"] for span in self.spans)

    def collectives(self):
        groups = defaultdict(list)
        for span in self.spans:
            if "coll" in span:
                groups[span["group"], span["coll"]].append(span)
        return groups

    def contents(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


@pytest.fixture
def simulate(cep, tmp_path):
    def run(name, *arguments, faults=(), events=()):
        more = [text for fault in faults for text in ("--fault", json.dumps(fault))]
        more += [text for event in events for text in ("--event", json.dumps(event))]
        usual = [("--steps", 100), ("--record-every", 1)]
        more += [part for option in usual if option[0] not in arguments for part in option]
        cep("simulate", "-o", name, *arguments, *more)
        return Simulation(tmp_path / name)
    return run


# What the files are.

@pytest.mark.parametrize("layout", [
    (), ("--ranks", 16, "--tp", 4), ("--ranks", 16, "--pp", 4), ("--ranks", 16, "--tp", 2, "--pp", 2, "--overlap", 0.8),
    ("--hidden-collectives",), ("--clock-skew-ms", 50, "--ranks-per-host", 2, "--record-every", 7),
    ("--start-step", 12345, "--micro-batches", 3),
])
def test_check_finds_nothing_wrong(cep, simulate, layout):
    job = simulate("job", "--steps", 30, *layout)
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
    job = simulate("job", "--steps", 95, "--record-every", 10, "--start-step", 5)
    assert sorted({span["step"] for span in job.spans}) == list(range(5, 100, 10))
    assert job.truth["recorded_steps"] == 10


def test_recording_less_leaves_the_steps_as_they_are(simulate):
    every = {(s["rank"], s["step"], s["name"], s["seq"]): s for s in simulate("every").spans}
    some = simulate("some", "--record-every", 9).spans
    assert some and all(span == every[span["rank"], span["step"], span["name"], span["seq"]] for span in some)


# The same again, or not.

def test_same_seed_gives_the_same_bytes_on_any_number_of_threads(simulate):
    arguments = ("--ranks", 12, "--tp", 2, "--noise-correlation", 0.5, "--drop-fraction", 0.1, "--truncate", 2,
                 "--spike-fraction", 0.1, "--spike-ms", 9)
    one = simulate("one", *arguments, "--threads", 1, faults=[FAULT])
    many = simulate("many", *arguments, "--threads", 3, faults=[FAULT])
    assert one.contents() == many.contents()


def test_another_seed_gives_other_times(simulate):
    one = simulate("one", "--seed", 1).durations("forward")
    other = simulate("other", "--seed", 2).durations("forward")
    assert not np.any(one == other)


def test_compressed_files_hold_the_same(cep, simulate, tmp_path):
    plain = simulate("plain")
    simulate("gz", "--gzip")
    simulate("zst", "--zstd")
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


# Collectives, clocks, noise, pipelines.

@pytest.mark.parametrize("layout", [("--overlap", 0.7), ("--tp", 2), ("--pp", 2), ("--tp", 2, "--pp", 2)])
def test_all_ranks_leave_a_collective_at_once(simulate, layout):
    job = simulate("job", "--ranks", 8, "--ranks-per-host", 2, "--clock-skew-ms", 500, "--clock-drift-ppm", 50,
                   "--steps", 20, *layout)
    offsets = [clock["offset_ns"] for clock in job.truth["clocks"]]
    assert len(offsets) == 4 and 1e8 < np.ptp(offsets) < 1e9
    assert any(abs(clock["drift_ppm"]) > 5 for clock in job.truth["clocks"])
    sizes = set()
    for spans in job.collectives().values():
        ends = [job.true_start_ns(span) + span["duration_ms"] * 1e6 for span in spans]
        sizes.add(len(spans))
        assert np.ptp(ends) < 3, spans
    assert 1 not in sizes


def test_last_to_come_waits_for_the_transfer_only(simulate):
    job = simulate("job", "--transfer-noise", 0)
    transfer = job.truth["transfers"][0]
    found = set()
    for spans in job.collectives().values():
        size = spans[0]["bytes"]
        found.add(size)
        expected_ms = transfer["alpha_us"] * 1e-3 + size / transfer["beta_gb_per_s"] * 1e-6
        assert min(span["duration_ms"] for span in spans) == pytest.approx(expected_ms, abs=2e-6)
    assert sorted(found) == transfer["bytes"] and len(found) == 3


def test_hidden_collectives_make_backward_equally_long_to_its_end(simulate):
    hidden = simulate("hidden", "--hidden-collectives", faults=[FAULT])
    shown = simulate("shown", faults=[FAULT])
    assert {span["kind"] for span in hidden.spans} == {"step", "compute", "data"}
    assert hidden.job_ms() == pytest.approx(shown.job_ms(), abs=1e-3)
    assert np.all(hidden.durations("backward").argmin(axis=0) == 3)


def test_noise_is_as_asked(simulate):
    steps = ("--steps", 2000, "--ranks", 4, "--record-every", 1, "--host-noise", 0)
    logs = np.log(simulate("job", "--noise", 0.04, *steps).durations("backward"))
    assert np.std(logs, axis=1) == pytest.approx(0.04, rel=0.06)
    assert np.abs(np.corrcoef(logs) - np.eye(4)).max() < 0.1
    assert np.exp(logs).mean() == pytest.approx(59, rel=0.003)


def test_noise_of_hosts_and_steps_is_common(simulate):
    job = simulate("job", "--steps", 800, "--ranks", 4, "--ranks-per-host", 2, "--noise", 0, "--host-noise", 0.03,
                   "--step-noise", 0.04)
    logs = np.log(job.durations("forward"))
    assert np.allclose(logs[0], logs[1]) and np.allclose(logs[2], logs[3])
    assert np.std(logs[0]) == pytest.approx(0.05, rel=0.1)
    assert np.std(logs[0] - logs[2]) == pytest.approx(0.03 * np.sqrt(2), rel=0.1)


def test_noise_may_be_correlated_in_time(simulate):
    job = simulate("job", "--steps", 2000, "--ranks", 2, "--noise-correlation", 0.8, "--noise", 0.03)
    logs = np.log(job.durations("forward"))
    for series in logs:
        assert np.corrcoef(series[:-1], series[1:])[0, 1] == pytest.approx(0.8, abs=0.06)
        assert np.std(series) == pytest.approx(0.03, rel=0.15)


def test_ranks_may_differ_for_good(simulate):
    means = simulate("job", *QUIET, "--ranks", 256, "--steps", 2, "--rank-spread", 0.05).durations("forward").mean(axis=1)
    assert np.std(np.log(means)) == pytest.approx(0.05, rel=0.2)


def test_spikes(simulate):
    quiet = simulate("quiet", *QUIET, "--launch-ms", 0)
    job = simulate("job", *QUIET, "--launch-ms", 0, "--spike-fraction", 0.2, "--spike-ms", 40)
    phases = ("data_load", "host_to_device", "forward", "backward", "optimizer")
    excess = sum(job.durations(phase) - quiet.durations(phase) for phase in phases)
    assert np.mean(excess > 1) == pytest.approx(0.2, abs=0.05)
    assert excess[excess > 1].mean() == pytest.approx(40, rel=0.1)


@pytest.mark.parametrize("stages, micro_batches", [(4, 4), (4, 8), (2, 6)])
def test_pipeline_bubble(simulate, stages, micro_batches):
    job = simulate("job", *QUIET, "--ranks", stages, "--pp", stages, "--micro-batches", micro_batches, "--steps", 3,
                   "--latency-us", 0, "--activation-mb", 0.001, "--launch-ms", 0)
    expected = (stages - 1) / (micro_batches + stages - 1)
    busy = job.durations("forward") + job.durations("backward")
    passes = [span for span in job.spans if span["name"] in ("forward", "backward") and span["step"] == 1]
    whole = max(s["start_ns"] * 1e-6 + s["duration_ms"] for s in passes) - min(s["start_ns"] * 1e-6 for s in passes)
    assert 1 - busy[:, 1].mean() / whole == pytest.approx(expected, abs=0.005)
    assert job.truth["bubble_fraction"] == pytest.approx(expected)


def test_stage_weights(simulate):
    job = simulate("job", *QUIET, "--ranks", 4, "--pp", 2, "--stage-weights", "1,1.5", "--steps", 3)
    forward = job.durations("forward").mean(axis=1)
    assert forward[2:] / forward[:2] == pytest.approx(1.5, rel=1e-3)


def test_slow_host_program_leaves_the_device_idle(simulate):
    job = simulate("job", *QUIET, "--launch-ms", 80)
    lags = [span["lag_ms"] for span in job.spans if span["name"] in ("forward", "backward")]
    assert max(lags) < 0.1
    assert simulate("usual", *QUIET).durations("training_step").mean() < 0.5 * job.durations("training_step").mean()


def test_shares_of_phases(simulate):
    job = simulate("job", *QUIET, "--phases", "forward=0.5,backward=1", "--step-ms", 10, "--launch-ms", 0)
    assert job.durations("forward").mean() == pytest.approx(5, abs=0.01)
    assert job.durations("backward").mean() == pytest.approx(10, abs=0.01)
    assert job.durations("optimizer").mean() == pytest.approx(0.8, abs=0.01)


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
    job = simulate("job", *QUIET, events=[{"type": "slowdown_all", "step": 60, "slowdown": 1.2}])
    ratio = job.durations("forward") / job.durations("forward")[:, :1]
    assert np.allclose(ratio[:, :60], 1) and np.allclose(ratio[:, 60:], 1.2, atol=1e-4)
    assert job.truth["healthy"] and job.truth["job_slowdown"] == 1


# Loss.

def test_dropped_spans_are_counted(cep, simulate):
    whole, job = simulate("whole"), simulate("job", "--drop-fraction", 0.2)
    dropped = job.truth["dropped_spans"]
    assert dropped == len(whole.spans) - len(job.spans) == pytest.approx(0.2 * len(whole.spans), rel=0.1)
    stats = [row for row in job.rows if row.get("type") == "stats"]
    assert sum(row["dropped"]["ring"] for row in stats) == dropped == cep.summary("job")["loss"]["dropped"]


def test_truncated_files_end_inside_a_row(cep, simulate):
    whole, job = simulate("whole"), simulate("job", "--truncate", 3)
    cuts = {cut["file"]: cut for cut in job.truth["truncated_files"]}
    assert len(cuts) == 3
    for name, data in job.contents().items():
        if name == "truth.json":
            continue
        before = whole.contents()[name]
        assert before.startswith(data) and (name in cuts) == (len(data) < len(before))
        if name in cuts:
            assert not data.endswith(b"\n") and not data.endswith(b"}") and len(data) == cuts[name]["kept_bytes"]
            assert cuts[name]["lost_rows"] == before.count(b"\n") - data.count(b"\n")
    assert cep.summary("job")["inputs"]["truncated_files"] == 3


def test_missing_ranks_take_part(cep, simulate):
    job = simulate("job", "--missing-ranks", "2,5-6", faults=[{**FAULT, "rank": 5}])
    assert sorted(job.runs) == [0, 1, 3, 4, 7] and job.truth["missing_ranks"] == [2, 5, 6]
    assert cep.check("job")["missing_ranks"] == [2, 5, 6]
    assert job.truth["job_slowdown"] > 1.1


# The command.

def test_scenario(cep, simulate, tmp_path):
    scenario = {"ranks": 4, "steps": 40, "step_ms": 20, "phases": {"forward": 0.4}, "stage_weights": [1, 2], "pp": 2,
                "missing_ranks": [1], "hidden_collectives": False, "faults": [FAULT],
                "events": [{"type": "evaluation", "step": 3}]}
    (tmp_path / "scenario.json").write_text(json.dumps(scenario))
    cep("simulate", "-o", "job", "--scenario", "scenario.json", "--steps", 30)
    truth = json.loads((tmp_path / "job" / "truth.json").read_text())
    options = truth["options"]
    assert (options["ranks"], options["steps"], options["step_ms"], options["dp"]) == (4, 30, 20, 2)
    assert options["phases"]["forward"] == 0.4 and options["stage_weights"] == [1, 2]
    assert [fault["ranks"] for fault in truth["faults"]] == [[3]]
    assert [event["type"] for event in truth["events"]] == ["evaluation"]


def test_options_of_the_truth_are_a_scenario(cep, simulate, tmp_path):
    job = simulate("job", "--ranks", 8, "--tp", 2, "--noise", 0.03, "--missing-ranks", "1", "--drop-fraction", 0.1)
    (tmp_path / "again.json").write_text(json.dumps(job.truth["options"]))
    cep("simulate", "-o", "again", "--scenario", "again.json")
    assert Simulation(tmp_path / "again").contents() == job.contents()


def test_directory_with_rank_files_is_left_alone(cep, simulate):
    job = simulate("job", "--ranks", 4)
    before = job.contents()
    done = cep("simulate", "-o", "job", status=2)
    assert b"job: already has rank files" in done.stderr and b"--force" in done.stderr
    assert job.contents() == before


def test_force_replaces_rank_files_and_nothing_else(cep, simulate, tmp_path):
    simulate("job", "--ranks", 9)
    (tmp_path / "job" / "notes.txt").write_text("mine")
    cep("simulate", "-o", "job", "--ranks", 2, "--steps", 10, "--force")
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == [
        "cuda_events_rank_0.jsonl", "cuda_events_rank_1.jsonl", "notes.txt", "truth.json"]


@pytest.mark.parametrize("arguments, says", [
    (["--ranks", "0"], "--ranks: 0 is not from 1 to"),
    (["--ranks", "x"], "--ranks: 'x' is not a whole number"),
    (["--steps", "1.5"], "--steps: '1.5' is not a whole number"),
    (["--noise", "-0.1"], "--noise: -0.1 is not from 0 to 0.5"),
    (["--noise", "nan"], "--noise: 'nan' is not a number"),
    (["--tp", "3"], "tp 3 "),
    (["--pp", "2", "--dp", "8"], "dp 8 is not ranks 8"),
    (["--pp", "2", "--stage-weights", "1"], "stage_weights: 1 values for pp 2"),
    (["--phases", "sleep=1"], "--phases: 'sleep' is not one of data_load"),
    (["--phases", "forward"], "--phases: 'forward' is not NAME=SHARE"),
    (["--missing-ranks", "7-9"], "missing_ranks: 8 is not one of 8 ranks"),
    (["--missing-ranks", "0-7"], "missing_ranks: no rank is left"),
    (["--missing-ranks", "5-3"], "--missing-ranks: '5-3' is not a range of ranks"),
    (["--truncate", "9"], "truncate: 9 of 8 files"),
    (["--truncate", "1", "--gzip"], "truncate: not with gzip or zstd"),
    (["--gzip", "--zstd"], "gzip and zstd"),
    (["--scenario", "nowhere.json"], "nowhere.json: cannot be read"),
    (["--fault", "{"], "--fault: not valid JSON"),
    (["--nonsense"], "--nonsense"),
])
def test_bad_options_are_refused_by_name(cep, tmp_path, arguments, says):
    done = cep("simulate", "-o", "job", *arguments, status=2)
    assert says in done.stderr.decode()
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("scenario, says", [
    ({"rank": 4}, "no such key: 'rank'"),
    ({"ranks": "four"}, 'ranks: "four" is not a whole number'),
    ({"ranks": 2.5}, "ranks: 2.5 is not a whole number"),
    ({"noise": 3}, "noise: 3 is not from 0 to 0.5"),
    ({"gzip": 1}, "gzip: 1 is not true or false"),
    ({"phases": [1]}, "phases: [1] is not an object"),
    ({"faults": {}}, "faults: {} is not an array"),
    ([], "[] is not an object"),
])
def test_bad_scenarios_are_refused_by_file_key_and_value(cep, tmp_path, scenario, says):
    (tmp_path / "bad.json").write_text(json.dumps(scenario))
    done = cep("simulate", "-o", "job", "--scenario", "bad.json", status=2)
    assert "bad.json: " in done.stderr.decode() and says in done.stderr.decode()
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("change, says", [
    ({"rank": 8}, ".rank: 8 is not one of 8 ranks"),
    ({"rank": None}, "needs one of rank, ranks, host and stage"),
    ({"host": 0}, "needs one of rank, ranks, host and stage"),
    ({"rank": None, "host": 1}, ".host: 1 is not one of 1 hosts"),
    ({"rank": None, "stage": 1}, ".stage: 1 is not one of 1 stages"),
    ({"phase": "sleep"}, ".phase: 'sleep' is not one of data_load"),
    ({"phase": None}, ".phase: missing"),
    ({"pattern": "odd"}, ".pattern: 'odd' is not one of persistent, window"),
    ({"pattern": "window"}, ".pattern: a window needs first_step and last_step"),
    ({"slowdown": 0.5}, ".slowdown: 0.5 is not from 1 to 1000"),
    ({"slowdown": None}, "neither slowdown nor excess_ms"),
    ({"fraction": 2}, ".fraction: 2 is not from 0 to 1"),
    ({"first_step": 1000}, ".first_step: 1000 is not in steps 0 to 999"),
    ({"first_step": 9, "last_step": 3}, ".last_step: 3 is before first_step 9"),
    ({"period_steps": 0}, ".period_steps: 0 is not at least 1"),
    ({"phase": "compute", "excess_ms": 3}, ".excess_ms: needs a single phase"),
    ({"colour": 1}, "no such key: 'colour'"),
])
def test_bad_faults_are_refused_by_their_place(cep, tmp_path, change, says):
    fault = {key: value for key, value in {**FAULT, **change}.items() if value is not None}
    (tmp_path / "bad.json").write_text(json.dumps({"faults": [FAULT, fault]}))
    done = cep("simulate", "-o", "job", "--scenario", "bad.json", status=2)
    assert "bad.json: faults[1]" in done.stderr.decode() and says in done.stderr.decode()


@pytest.mark.parametrize("event, says", [
    ({"step": 3}, ".type: missing"),
    ({"type": "party", "step": 3}, ".type: 'party' is not one of checkpoint"),
    ({"type": "checkpoint"}, ".step: missing"),
    ({"type": "checkpoint", "step": 1000}, ".step: 1000 is not in steps 0 to 999"),
    ({"type": "checkpoint", "step": 3, "slowdown": 2}, "slowdown and phase are of slowdown_all only"),
    ({"type": "slowdown_all", "step": 3}, ".slowdown: missing"),
    ({"type": "slowdown_all", "step": 3, "slowdown": 2, "duration_ms": 3}, "are not of slowdown_all"),
    ({"type": "checkpoint", "every_steps": 0}, ".every_steps: 0 is not at least 1"),
    ({"type": "checkpoint", "step": 3, "colour": 1}, "no such key: 'colour'"),
])
def test_bad_events_are_refused_by_their_place(cep, event, says):
    done = cep("simulate", "-o", "job", "--event", json.dumps(event), status=2)
    assert "--event" in done.stderr.decode() and says in done.stderr.decode()


def test_help_has_examples_and_every_setting(cep, simulate):
    text = cep("simulate", "--help").stdout.decode()
    assert "  cep simulate -o " in text.split("Examples:")[1]
    for key in simulate("job", "--steps", 1).truth["options"]:
        assert "--" + key.replace("_", "-") in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_it(cep, shell):
    script = cep("completion", shell).stdout.decode()
    assert "simulate" in script and "hidden-collectives" in script
