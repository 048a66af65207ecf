# SPDX-License-Identifier: Apache-2.0
"""Options from arguments, the environment and configuration files; which wins, and what is refused."""

import json

import cep
import pytest


@pytest.mark.parametrize("options, named", [
    ({"record_every_n_steps": 0}, "record_every_n_steps"),
    ({"record_every_n_steps": -3}, "record_every_n_steps"),
    ({"record_every_n_steps": 2.5}, "record_every_n_steps"),
    ({"flush_every_n_steps": 0}, "flush_every_n_steps"),
    ({"start_step": -1}, "start_step"),
    ({"start_step": 5, "end_step": 4}, "end_step"),
    ({"rank": 4, "world_size": 4}, "rank"),
    ({"rank": -1}, "rank"),
    ({"rank": 2**40}, "rank"),
    ({"world_size": 0}, "world_size"),
    ({"ranks": []}, "ranks"),
    ({"ranks": [-1]}, "ranks"),
    ({"ranks": 3}, "ranks"),
    ({"layout": "wide"}, "layout"),
    ({"backend": "tpu"}, "backend"),
    ({"ring_capacity": 1}, "ring_capacity"),
    ({"pool_limit": -1}, "pool_limit"),
    ({"max_file_bytes": -1}, "max_file_bytes"),
    ({"max_overhead_percent": -0.1}, "max_overhead_percent: -0.1"),
    ({"max_overhead_percent": 101}, "max_overhead_percent: 101"),
    ({"max_overhead_percent": float("nan")}, "max_overhead_percent: nan"),
    ({"max_overhead_percent": "0.1"}, 'max_overhead_percent: "0.1"'),
    ({"max_overhead_percent": True}, "max_overhead_percent: true"),
    ({"max_overhead_percent": object()}, "max_overhead_percent"),
    ({"config": {"max_overhead_percent": "little"}}, "max_overhead_percent"),
    ({"run_id": 5}, "run_id"),
    ({"directory": "a\0b"}, "directory"),
    ({"meta": {"of": object()}}, "meta"),
    ({"config": {"stride": 3}}, "stride"),
    ({"config": {"start_step": "three"}}, "start_step"),
    ({"config": "{not json"}, ""),
    ({"config": {"of": object()}}, "config"),
])
def test_a_bad_value_is_refused_by_name_and_leaves_nothing(tmp_path, options, named):
    with pytest.raises(cep.OptionError, match=named) as refusal:
        cep.Profiler(tmp_path / "output", **options)
    assert isinstance(refusal.value, ValueError)
    assert refusal.value.code < 0 and refusal.value.message == str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_an_error_with_its_path(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(cep.Error, match="file") as failure:
        cep.Profiler(tmp_path / "file")
    assert failure.value.code == cep.EIO
    assert not isinstance(failure.value, ValueError)


def test_a_missing_configuration_file_is_an_error_with_its_path(tmp_path):
    with pytest.raises(cep.Error, match="missing.json") as failure:
        cep.Profiler(tmp_path, config=tmp_path / "missing.json")
    assert failure.value.code == cep.EIO


@pytest.mark.parametrize("form", ["mapping", "text", "path"])
def test_options_come_from_a_configuration(tmp_path, form):
    config = {"record_every_n_steps": 3, "rank": 2, "world_size": 4}
    if form == "text":
        config = json.dumps(config)
    elif form == "path":
        (tmp_path / "cep.json").write_text(json.dumps(config))
        config = tmp_path / "cep.json"
    with cep.Profiler(tmp_path, config=config) as profiler:
        profiler.step(3)
        assert profiler.recording
    assert (tmp_path / "cuda_event_profiler" / "cuda_events_rank_2.jsonl").exists()


def test_an_argument_wins_over_configuration_and_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("CEP_RECORD_EVERY_N_STEPS", "2")
    with cep.Profiler(tmp_path, record_every_n_steps=5, config={"record_every_n_steps": 3}) as profiler:
        recorded = []
        for step in range(1, 7):
            profiler.step(step)
            recorded.append(profiler.recording)
    assert recorded == [False, False, False, False, True, False]


def test_a_configuration_wins_over_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("CEP_RECORD_EVERY_N_STEPS", "2")
    with cep.Profiler(tmp_path, config={"record_every_n_steps": 3}) as profiler:
        profiler.step(3)
        assert profiler.recording
        profiler.step(2)
        assert not profiler.recording


@pytest.mark.parametrize("enable", (True, False))
@pytest.mark.parametrize("variables", ({"RANK": "3", "SLURM_PROCID": "5"}, {"SLURM_PROCID": "3"}, {"PMI_RANK": "3"}))
def test_the_rank_is_the_one_that_the_library_found(tmp_path, monkeypatch, variables, enable):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with cep.Profiler(tmp_path, world_size=8, enable=enable) as profiler:
        assert (profiler.rank, profiler.enabled) == (3, enable)
        assert profiler.path is None or profiler.path.name == "cuda_events_rank_3.jsonl"
        assert (profiler.path is not None) is enable
    assert (profiler.rank, profiler.enabled) == (3, False)


def test_a_second_profiler_of_a_file_is_off(tmp_path):
    with cep.Profiler(tmp_path) as first, cep.Profiler(tmp_path) as second:
        assert first.enabled and not second.enabled and second.path is None


def test_a_directory_of_ones_own(tmp_path):
    cep.Profiler(None, directory=tmp_path / "profiles").close()
    assert (tmp_path / "profiles" / "cuda_events_rank_0.jsonl").exists()


@pytest.mark.parametrize("how", ["argument", "variable", "configuration", "configuration variable"])
def test_a_job_turned_off_leaves_nothing(tmp_path, monkeypatch, how):
    options = {}
    if how == "argument":
        options["enable"] = False
    elif how == "variable":
        monkeypatch.setenv("CEP_ENABLE", "0")
    elif how == "configuration":
        options["config"] = {"enable": False}
    else:
        monkeypatch.setenv("CEP_CONFIG", '{"enable": false}')
    with cep.Profiler(tmp_path / "output", **options) as profiler:
        assert not profiler.enabled
        profiler.step(0)
        assert not profiler.recording
        with profiler.region("forward", bytes=-1):
            pass
        profiler.counter("loss", 1)
        profiler.mark("checkpoint")
        profiler.set_meta(dp=0)
        assert profiler.stats.recorded == 0
    assert list(tmp_path.iterdir()) == []


def test_enable_as_an_argument_wins_over_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("CEP_ENABLE", "0")
    with cep.Profiler(tmp_path, enable=True) as profiler:
        assert profiler.enabled


def test_a_configuration_that_does_not_say_leaves_an_explicit_profiler_on(tmp_path, monkeypatch):
    monkeypatch.setenv("CEP_CONFIG", '{"start_step": 0}')
    with cep.Profiler(tmp_path) as profiler:
        assert profiler.enabled


def test_from_env_is_off_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with cep.Profiler.from_env() as profiler:
        assert not profiler.enabled
        profiler.step(0)
    assert list(tmp_path.iterdir()) == []


def test_from_env_takes_everything_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("CEP_ENABLE", "1")
    monkeypatch.setenv("CEP_DIRECTORY", str(tmp_path / "profiles"))
    monkeypatch.setenv("CEP_RECORD_EVERY_N_STEPS", "4")
    with cep.Profiler.from_env() as profiler:
        profiler.step(4)
        assert profiler.enabled and profiler.recording
    assert (tmp_path / "profiles" / "cuda_events_rank_0.jsonl").exists()


def test_an_error_survives_pickling():
    import pickle

    error = pickle.loads(pickle.dumps(cep.OptionError(-99, "from a newer library")))
    assert (error.code, error.message) == (-99, "from a newer library")


def test_output_dir_and_directory_must_mean_the_same(tmp_path):
    with pytest.raises(cep.OptionError, match="directory: .* and output_dir"):
        cep.Profiler(tmp_path, directory=tmp_path / "elsewhere")
    assert not list(tmp_path.iterdir())
    with cep.Profiler(tmp_path, directory=tmp_path / "cuda_event_profiler") as profiler:
        assert profiler.path.parent == tmp_path / "cuda_event_profiler"


WRAPPED = """
model: {layers: 12}
profiling:
  enable_cuda_event_profiler: %s
  cuda_event_profiler_config:
    start_step: 3
    record_every_n_steps: 5
    ranks: [0]
"""


def test_a_trainers_yaml_is_read_as_it_stands(files, tmp_path):
    pytest.importorskip("yaml")
    config = tmp_path / "trainer.yaml"
    config.write_text(WRAPPED % "true")
    with cep.Profiler(tmp_path, config=config) as profiler:
        recorded = []
        for step in range(10):
            profiler.step(step)
            recorded.append(profiler.recording)
    assert [step for step in range(10) if recorded[step]] == [3, 8]
    config.write_text(WRAPPED % "false")
    assert not cep.Profiler(tmp_path, config=config).enabled


def test_wrapped_options_may_be_a_mapping(tmp_path):
    wrapped = {"enable_cuda_event_profiler": True, "cuda_event_profiler_config": {"start_step": 4}}
    with cep.Profiler(tmp_path, config=wrapped) as profiler:
        assert profiler._sampling.first == 4
    with pytest.raises(cep.OptionError, match="cuda_event_profiler_config"):
        cep.Profiler(tmp_path, config={"cuda_event_profiler_config": 3})
    with pytest.raises(cep.OptionError, match="stride"):
        cep.Profiler(tmp_path, config={"cuda_event_profiler_config": {"stride": 3}})
