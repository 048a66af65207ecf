# SPDX-License-Identifier: Apache-2.0
"""Waiting for a loader, and phases back to back."""

import threading

import cep
import pytest
from conftest import end_ns


def test_each_wait_for_an_item_is_a_span_on_the_host_clock(profiler, files):
    assert list(profiler.iterate("data_load", [10, 20, 30])) == [10, 20, 30]
    rows = files.spans("data_load")
    assert len(rows) == 4, "the last wait only finds the end"
    assert {row["clock"] for row in rows} == {"host"}
    assert {row["kind"] for row in rows} == {"data"}
    assert not any("error" in row for row in rows)


def test_the_body_is_not_part_of_the_wait(profiler, files):
    for _ in profiler.iterate("data_load", range(2)):
        with profiler.region("forward"):
            pass
    assert {row["depth"] for row in files.spans("forward")} == {row["depth"] for row in files.spans("data_load")}


def test_it_has_a_length_where_the_loader_has(profiler):
    assert len(profiler.iterate("data_load", [1, 2])) == 2
    with pytest.raises(TypeError):
        len(profiler.iterate("data_load", iter([1, 2])))


def test_it_can_be_iterated_again(profiler):
    epoch = profiler.iterate("data_load", [1, 2])
    assert list(epoch) + list(epoch) == [1, 2, 1, 2]


def test_a_loader_that_raises_is_marked(profiler, files):
    def loader():
        yield 1
        raise OSError("disk gone")

    with pytest.raises(OSError):
        list(profiler.iterate("data_load", loader()))
    assert [row.get("error") for row in files.spans("data_load")] == [None, "OSError"]


def test_with_a_first_step_each_wait_belongs_to_the_step_it_is_for(tmp_path, files):
    with cep.Profiler(tmp_path, record_every_n_steps=1) as profiler:
        for _ in profiler.iterate("data_load", ["a", "b"], first_step=5):
            with profiler.region("forward"):
                pass
    assert [row["step"] for row in files.spans("forward")] == [5, 6]
    assert sorted({row["step"] for row in files.spans("data_load")}) == [5, 6], "finding the end is not a step"


def test_phases_follow_each_other_without_a_gap(profiler, files):
    profiler.phase("forward")
    profiler.phase("backward")
    profiler.phase("optimizer", kind="other")
    profiler.end_phase()
    rows = files.spans()
    assert [row["name"] for row in rows] == ["forward", "backward", "optimizer"]
    assert rows[2]["kind"] == "other"
    for before, after in zip(rows, rows[1:]):
        assert abs(end_ns(before) - after["start_ns"]) <= 1, "a duration is written to the nanosecond"


def test_ending_no_phase_does_nothing(profiler, files):
    profiler.end_phase()
    profiler.phase("forward")
    profiler.end_phase()
    profiler.end_phase()
    assert len(files.spans()) == 1


def test_each_thread_has_a_phase_of_its_own(profiler, files):
    profiler.phase("forward")

    def work():
        profiler.end_phase()
        profiler.phase("load")
        profiler.end_phase()

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert profiler.stats.open_spans == 1
    profiler.end_phase()
    assert sorted(row["name"] for row in files.spans()) == ["forward", "load"]
