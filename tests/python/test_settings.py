# SPDX-License-Identifier: Apache-2.0
"""The settings in run rows: what is read, what is not, what a trainer adds."""

import os

import cep
import pytest


def run_rows(files):
    return files.typed("run")


def settings(files):
    return run_rows(files)[-1].get("meta", {}).get("settings")


def test_a_run_row_has_the_settings_of_the_machine(files, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    monkeypatch.setenv("NCCL_SECRET_TOKEN", "do not tell")
    cep.Profiler(directory=files.directory).close()
    found = settings(files)
    assert found["OMP_NUM_THREADS"] == "3" and found["ranks_on_host"] == 8
    assert 0 < found["cores"] <= os.cpu_count()
    assert "do not tell" not in (files.directory / "cuda_events_rank_0.jsonl").read_text()
    assert len(run_rows(files)) == 1


@pytest.mark.parametrize("value", ["0", "off"])
def test_settings_can_be_left_out(files, monkeypatch, value):
    monkeypatch.setenv("CEP_SETTINGS", value)
    with cep.Profiler(directory=files.directory) as profiler:
        profiler.add_settings({"batch": 8})
    assert settings(files) is None


@pytest.mark.parametrize("layout", ["flat", "spans"])
def test_rows_of_layouts_without_a_run_row_have_no_settings(files, layout):
    with cep.Profiler(directory=files.directory, layout=layout, record_every_n_steps=1) as profiler:
        profiler.add_settings({"batch": 8})
        profiler.step(0)
        with profiler.region("forward"):
            pass
    assert len(files.rows()) == 1 and "settings" not in files.rows()[0]


def test_the_programs_own_facts_stay(files):
    with cep.Profiler(directory=files.directory, meta={"model": "small", "dp": 1, "settings": {"mine": 5}}) as profiler:
        profiler.set_meta(commit="abc")
    row = run_rows(files)[-1]
    assert row["dp"] == 1 and row["meta"]["model"] == "small" and row["meta"]["commit"] == "abc"
    assert row["meta"]["settings"] == {"mine": 5}


def test_settings_that_are_added_join_the_others(files):
    with cep.Profiler(directory=files.directory) as profiler:
        profiler.add_settings({"batch": 8, "schedule": "cosine"})
        profiler.add_settings({"batch": 16})
        profiler.add_settings({"batch": 16})
    found = settings(files)
    assert (found["batch"], found["schedule"]) == (16, "cosine") and "cores" in found


def test_a_profiler_that_is_off_takes_settings():
    cep.Profiler(enable=False).add_settings({"batch": 8})


def test_what_is_wrong_with_meta_is_said_as_before(files):
    with pytest.raises(cep.Error, match="meta"):
        cep.Profiler(directory=files.directory, meta="[1")
