# SPDX-License-Identifier: Apache-2.0
"""Phases that one call of a framework begins and another ends."""

import pytest

import cep

pytest.importorskip("torch")

from cep.torch._training_steps import OpenPhase  # noqa: E402  # after the check that there is torch


@pytest.fixture
def profiler(tmp_path):
    with cep.Profiler(tmp_path, record_every_n_steps=2) as profiler:
        yield profiler


def errors(files):
    return [row.get("error") for row in files.spans("backward")]


def test_a_phase_that_never_ended_is_marked_when_the_next_begins(files, profiler):
    phase = OpenPhase(profiler, profiler.region("backward"))
    profiler.step(0)
    phase.begin()
    phase.begin()
    phase.end()
    profiler.close()
    assert errors(files) == ["NotFinished", None]


def test_it_is_marked_too_where_the_next_one_is_not_recorded(files, profiler):
    phase = OpenPhase(profiler, profiler.region("backward"))
    profiler.step(0)
    phase.begin()
    profiler.step(1)
    phase.begin()
    phase.end()
    profiler.close()
    assert errors(files) == ["NotFinished"]


def test_an_end_without_a_begin_is_nothing(files, profiler):
    profiler.step(0)
    OpenPhase(profiler, profiler.region("backward")).end()
    profiler.close()
    assert errors(files) == []
