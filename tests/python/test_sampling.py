# SPDX-License-Identifier: Apache-2.0
"""Which steps and ranks are recorded."""


import cep
import pytest


def run_steps(profiler, steps):
    for step in steps:
        profiler.step(step)
        with profiler.region("forward"):
            pass
    profiler.close()


def recorded_steps(files, rank=0):
    return [row["step"] for row in files.spans("forward", rank)]


def test_by_default_every_tenth_step_is_recorded(tmp_path, files):
    run_steps(cep.Profiler(tmp_path), range(21))
    assert recorded_steps(files) == [0, 10, 20]


def test_step_without_a_number_counts_from_zero(tmp_path, files):
    run_steps(cep.Profiler(tmp_path, record_every_n_steps=2), [None] * 5)
    assert recorded_steps(files) == [0, 2, 4]


def test_step_without_a_number_goes_on_from_the_last(tmp_path, files):
    run_steps(cep.Profiler(tmp_path, record_every_n_steps=1), [7, None])
    assert recorded_steps(files) == [7, 8]


def test_nothing_is_recorded_before_the_first_step(tmp_path, files):
    with cep.Profiler(tmp_path) as profiler:
        assert not profiler.recording
        with profiler.region("forward"):
            pass
    assert files.spans() == []


def test_an_unlisted_rank_leaves_nothing(tmp_path):
    profiler = cep.Profiler(tmp_path / "output", rank=3, world_size=4, ranks=[0, 1])
    assert not profiler.enabled
    run_steps(profiler, range(3))
    assert list(tmp_path.iterdir()) == []


def test_a_listed_rank_is_recorded(tmp_path, files):
    profiler = cep.Profiler(tmp_path, rank=1, world_size=4, ranks=[0, 1])
    assert profiler.enabled
    run_steps(profiler, range(3))
    assert recorded_steps(files, rank=1) == [0]


def test_a_restart_appends_as_the_next_attempt(tmp_path, files):
    run_steps(cep.Profiler(tmp_path), range(21))
    run_steps(cep.Profiler(tmp_path), range(10, 31))
    assert recorded_steps(files) == [0, 10, 20, 10, 20, 30]
    assert [run["attempt"] for run in files.typed("run")] == [1, 2]


@pytest.mark.parametrize("step", [-1, 1.5, "3", 2**63])
def test_an_impossible_step_is_refused_and_changes_nothing(tmp_path, files, step):
    with cep.Profiler(tmp_path, record_every_n_steps=1) as profiler:
        profiler.step(4)
        with pytest.raises(cep.OptionError, match="step"):
            profiler.step(step)
        with profiler.region("forward"):
            pass
    assert recorded_steps(files) == [4]


@pytest.mark.parametrize("first, last, every", [(0, None, 1), (3, 17, 4), (7, 7, 5), (1, None, 6), (0, 12, 12)])
def test_recorded_steps_are_those_of_the_rule_in_any_order(tmp_path, files, first, last, every):
    steps = [*range(20), 40, 7, 7, 3, *range(11, 23), 0]
    given = {} if last is None else {"end_step": last}
    profiler = cep.Profiler(tmp_path, start_step=first, record_every_n_steps=every, flush_every_n_steps=9, **given)
    run_steps(profiler, steps)
    expected = [step for step in steps if first <= step <= (last or 99) and (step - first) % every == 0]
    assert recorded_steps(files) == expected


@pytest.mark.parametrize("every, expected", [(1, [2, 7]), (3, [2, 3, 5, 6])])
def test_what_waits_for_steps_is_called_where_recording_begins_or_ends_or_at_each(tmp_path, every, expected):
    called, wants_steps = [], False

    def listener(recording):
        called.append(step)
        return wants_steps

    with cep.Profiler(tmp_path, record_every_n_steps=every, start_step=2, end_step=6) as profiler:
        profiler._listeners = (listener,)
        for step in range(8):
            profiler.step(step)
        assert called == expected
        profiler._wants_steps = wants_steps = True
        for step in range(8, 12):
            profiler.step(step)
        assert called[-4:] == [8, 9, 10, 11]


def test_a_mark_between_recorded_steps_has_its_own_step(tmp_path, files):
    with cep.Profiler(tmp_path, record_every_n_steps=10, flush_every_n_steps=10) as profiler:
        for step in range(8):
            profiler.step(step)
            if step == 6:
                profiler.mark("checkpoint")
                profiler.mark("evaluation")
    assert [(row["name"], row["step"]) for row in files.typed("mark")] == [("checkpoint", 6), ("evaluation", 6)]


def test_a_phase_ends_where_recording_ends(tmp_path, files):
    with cep.Profiler(tmp_path, record_every_n_steps=2) as profiler:
        for step in range(4):
            profiler.step(step)
            profiler.phase("forward")
            profiler.phase("backward")
        profiler.end_phase()
    assert [(row["name"], row["step"]) for row in files.spans()] == [
        ("forward", 0), ("backward", 0), ("forward", 2), ("backward", 2),
    ]  # fmt: skip


def test_a_bound_of_the_cost_leaves_steps_out(tmp_path, files):
    profiler = cep.Profiler(tmp_path, record_every_n_steps=1, max_overhead_percent=0.01, ring_capacity=1 << 16)
    batch, first, left_out = 10_000, 0, False
    while not left_out:  # the library decides in each flush, if not before
        for step in range(first, first + batch):
            profiler.step(step)
            with profiler.region("forward"):
                left_out |= not profiler.recording
        assert profiler.flush(60)
        first += batch
    profiler.close()
    change = next(row for row in files.typed("mark") if row["name"] == "cep_stride")
    assert (change["from"], change["max_overhead_percent"]) == (1, 0.01) and change["to"] > 1
    after = [step for step in recorded_steps(files) if step > change["step"] + 1]
    assert all(step % change["to"] == 0 for step in after)
    assert profiler.stats.written == profiler.stats.recorded
