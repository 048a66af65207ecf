# SPDX-License-Identifier: Apache-2.0
"""Reading a process's own timings back from its rank file."""

import json

import pytest

pytest.importorskip("torch", reason="no torch")

from cep._own_rows import OwnRows, OwnSpan  # noqa: E402


def line(name="forward", step=0, **more):
    return json.dumps({"name": name, "step": step, "rank": 0, "duration_ms": 1.5, "kind": "compute", **more}) + "\n"


def append(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def test_only_what_is_added_is_read_and_each_row_once(tmp_path):
    path = tmp_path / "rows"
    append(path, line(step=1))
    rows = OwnRows(path)
    assert list(rows.read()) == []
    append(path, line(step=2) + line(step=3))
    assert list(rows.read()) == [OwnSpan("forward", step, "compute", 1.5) for step in (2, 3)]
    assert list(rows.read()) == []


def test_half_a_line_waits_for_its_other_half(tmp_path):
    path = tmp_path / "rows"
    rows = OwnRows(path)
    whole = line(step=7)
    append(path, whole[:20])
    assert list(rows.read()) == []
    append(path, whole[20:])
    assert [span.step for span in rows.read()] == [7]


def test_other_rows_and_failed_spans_are_left_out(tmp_path):
    path = tmp_path / "rows"
    rows = OwnRows(path)
    append(path, line(type="counter", value=1) + line(error="KeyError") + "garbage\n[]\n\n" + line(step=4))
    assert [span.step for span in rows.read()] == [4]


def test_of_more_than_the_limit_the_newest_whole_lines_are_read(tmp_path):
    path = tmp_path / "rows"
    rows = OwnRows(path, limit_bytes=1000)
    text = [line(step=step) for step in range(100)]
    append(path, "".join(text))
    steps = [span.step for span in rows.read()]
    assert steps == list(range(100 - len(steps), 100)) and len(steps) > 5
    append(path, line(step=100))
    assert [span.step for span in rows.read()] == [100]


def test_a_missing_file_has_no_rows(tmp_path):
    assert list(OwnRows(tmp_path / "missing").read()) == []


def test_a_flat_file_is_read_too(tmp_path):
    path = tmp_path / "rows"
    rows = OwnRows(path)
    append(path, '{"name":"a","step":1,"rank":0,"duration_ms":2.0}\n')
    assert list(rows.read()) == [OwnSpan("a", 1, "other", 2.0)]
