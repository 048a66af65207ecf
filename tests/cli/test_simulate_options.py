# SPDX-License-Identifier: Apache-2.0
"""Options and scenarios of `cep simulate`, good and bad."""

import json
import re

import pytest
from conftest import ROOT
from simulation import FAULT, Simulation


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
    job = simulate("job", "--ranks", 8, "--tp", 2, "--noise", 0.03, missing_ranks="1", drop_fraction=0.1)
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
    (["--phases", "sleep=1"], "--phases: 'sleep' is not one of data_load"),
    (["--phases", "forward"], "--phases: 'forward' is not NAME=SHARE"),
    (["--host-noise", "0.03"], '--host-noise: not an option; write "host_noise" into a scenario (--scenario FILE)'),
    (["--gzip"], '--gzip: not an option; write "gzip" into a scenario (--scenario FILE)'),
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
    ({"missing_ranks": "5-3"}, "missing_ranks: '5-3' is not a range of ranks"),
    ({"phases": [1]}, "phases: [1] is not an object"),
    ({"faults": {}}, "faults: {} is not an array"),
    ([], "[] is not an object"),
])
def test_bad_scenarios_are_refused_by_file_key_and_value(cep, tmp_path, scenario, says):
    (tmp_path / "bad.json").write_text(json.dumps(scenario))
    done = cep("simulate", "-o", "job", "--scenario", "bad.json", status=2)
    assert "bad.json: " in done.stderr.decode() and says in done.stderr.decode()
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("scenario, says", [
    ({"pp": 2, "dp": 8}, "tp 1 × pp 2 × dp 8 is not ranks 8"),
    ({"pp": 2, "stage_weights": [1]}, "stage_weights: 1 values for pp 2"),
    ({"missing_ranks": "7-9"}, "missing_ranks: 8 is not one of 8 ranks"),
    ({"missing_ranks": "0-7"}, "missing_ranks: no rank is left"),
    ({"gzip": True, "zstd": True}, "gzip and zstd"),
])
def test_settings_that_contradict_each_other_are_refused(cep, tmp_path, scenario, says):
    (tmp_path / "bad.json").write_text(json.dumps(scenario))
    assert "bad.json: " + says in cep("simulate", "-o", "job", "--scenario", "bad.json", status=2).stderr.decode()


def test_options_that_contradict_each_other_name_no_scenario_without_settings(cep, tmp_path):
    (tmp_path / "faults.json").write_text(json.dumps({"faults": [FAULT]}))
    done = cep("simulate", "-o", "job", "--scenario", "faults.json", "--ranks", 8, "--tp", 3, status=2)
    assert done.stderr.startswith(b"cep simulate: tp 3 ")


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


def test_it_says_what_it_wrote_and_what_a_fault_may_have(cep, tmp_path):
    said = cep("simulate", "-o", "job", "--ranks", "2", "--steps", "40").stderr
    lines = [line for path in (tmp_path / "job").glob("*.jsonl") for line in path.read_text().splitlines()]
    rows = sum(json.loads(line).get("type", "span") in ("span", "counter", "mark") for line in lines)
    assert f"cep simulate: wrote 2 files with {rows} span, counter and mark rows to job".encode() in said
    said = cep("simulate", "-o", "other", "--fault", '{"rank": 3, "phase": "forward", "factor": 2}', status=2).stderr
    assert b"--fault: no such key: 'factor'; there are rank," in said and b"slowdown or excess_ms" in said


def test_15_settings_are_options_and_the_page_has_all(cep, simulate):
    text = cep("simulate", "--help").stdout.decode()
    assert "  cep simulate -o " in text.split("Examples:")[1]
    page = (ROOT / "man" / "cep-simulate.1").read_text()
    names = {key: key.replace("_", "-") for key in simulate("job", "--steps", 1).truth["options"]}
    options = [key for key, name in names.items() if f"  --{name} " in text]
    assert len(options) == 15
    assert all(re.search(f"Fl -{name} " if key in options else fr"\.It .*\b{key}\b", page) for key, name in names.items())
