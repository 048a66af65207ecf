# SPDX-License-Identifier: Apache-2.0
"""Phases that one call of a framework begins and another ends."""

from types import SimpleNamespace

import pytest

import cep

pytest.importorskip("torch")

from cep._native import Phase  # noqa: E402  # after the check that there is torch
from cep.torch._training import TrainingSteps  # noqa: E402


@pytest.fixture
def profiler(tmp_path, files):
    with cep.Profiler(tmp_path, record_every_n_steps=2) as profiler:
        files.profiler = profiler
        yield profiler


def errors(files):
    return [row.get("error") for row in files.spans("backward")]


def test_a_phase_that_never_ended_is_marked_when_the_next_begins(files, profiler):
    phase = Phase(profiler.region("backward"))
    profiler.step(0)
    phase.begin(None)
    phase.begin(None)
    phase.end(None)
    assert errors(files) == ["NotFinished", None]


def test_an_action_of_lightning_that_raised_is_marked_at_the_end_of_its_step(files, profiler):
    actions_type = pytest.importorskip("cep.integrations.lightning", exc_type=ImportError)._Actions
    lightning_profiler = SimpleNamespace(start=lambda name: None, stop=lambda name: None)
    module = SimpleNamespace(automatic_optimization=True)
    trainer = SimpleNamespace(profiler=lightning_profiler, lightning_module=module, training=True, global_step=0)
    actions = actions_type(TrainingSteps(profiler, 0), trainer, times_forward=True)
    trainer.profiler.start("[Strategy]Single.batch_to_device")
    actions.remove()
    profiler.step(1)
    assert [row.get("error") for row in files.spans("host_to_device")] == ["NotFinished"]


def test_an_end_without_a_begin_is_nothing(files, profiler):
    profiler.step(0)
    Phase(profiler.region("backward")).end(None)
    assert errors(files) == []
