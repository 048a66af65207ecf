# SPDX-License-Identifier: Apache-2.0
"""Damaged input: each kind has a defined outcome, is counted and located, and loses nothing else."""

import gzip
import random
import subprocess

import pytest
from conftest import START_NS, attempt_rows, line_of, run_row, span_row

GOOD = [span_row(0, step, "f", 1.5, START_NS + step) for step in range(6)]
LINES = [line_of(row).encode() for row in GOOD]


def write(tmp_path, data, name="cuda_events_rank_0.jsonl"):
    (tmp_path / name).write_bytes(data)
    return name


def outcome(cep, path):
    """(spans kept, rows skipped, files cut off, located messages)"""
    summary = cep.summary(path)
    stderr = cep("summarize", path).stderr.decode()
    located = [line.strip() for line in stderr.splitlines() if f"{path}:" in line]
    inputs = summary["inputs"]
    kept = sum(phase["count"] for phase in summary["phases"])
    return kept, inputs["skipped_rows"], inputs["truncated_files"], located


def test_cut_off_last_row(cep, tmp_path):
    path = write(tmp_path, b"\n".join(LINES) + b'\n{"name":"forw')
    assert outcome(cep, path) == (6, 0, 1, [f"{path}:7: cut off in the middle of a row"])


def test_last_row_without_newline_is_whole(cep, tmp_path):
    assert outcome(cep, write(tmp_path, b"\n".join(LINES))) == (6, 0, 0, [])


def test_nul_filled_tail(cep, tmp_path):
    path = write(tmp_path, b"\n".join(LINES) + b"\n" + b"\0" * 100_000)
    assert outcome(cep, path) == (6, 0, 1, [f"{path}:7: NUL bytes instead of rows"])


def test_nul_bytes_before_a_row_of_a_restart(cep, tmp_path):
    path = write(tmp_path, b"\n".join(LINES[:3]) + b"\n" + b"\0" * 500 + b"\n".join(LINES[3:]) + b"\n")
    assert outcome(cep, path) == (6, 0, 0, [f"{path}:4: NUL bytes before a row"])


def test_garbage_line(cep, tmp_path):
    path = write(tmp_path, b"\n".join([*LINES[:2], b"garbage", *LINES[2:]]) + b"\n")
    assert outcome(cep, path) == (6, 1, 0, [f"{path}:3: not valid JSON"])


def test_invalid_utf8(cep, tmp_path):
    path = write(tmp_path, b"\n".join([*LINES[:2], LINES[2].replace(b'"f"', b'"\xff"'), *LINES[3:]]) + b"\n")
    assert outcome(cep, path) == (5, 1, 0, [f"{path}:3: not valid UTF-8"])


def test_windows_line_ends_and_byte_order_mark(cep, tmp_path):
    assert outcome(cep, write(tmp_path, b"\xef\xbb\xbf" + b"\r\n".join(LINES) + b"\r\n")) == (6, 0, 0, [])


def test_blank_lines(cep, tmp_path):
    assert outcome(cep, write(tmp_path, b"\n\n  \n" + b"\n\n".join(LINES) + b"\n\n")) == (6, 0, 0, [])


def test_row_appended_to_a_broken_row_is_kept(cep, tmp_path):
    path = write(tmp_path, b"\n".join([*LINES[:2], LINES[2][:40] + LINES[3], *LINES[4:]]) + b"\n")
    kept, skipped, cut_off, located = outcome(cep, path)
    assert (kept, skipped, cut_off) == (5, 1, 0)
    assert located == [f"{path}:3: a broken row, with an intact one behind it on the same line"]
    assert LINES[3] in cep.merged(path).splitlines()


@pytest.mark.parametrize("line, why", [
    ('{"name":"f","step":1,"rank":0}', "no duration_ms"),
    ('{"name":"f","rank":0,"duration_ms":1}', "no step"),
    ('{"name":"f","step":1,"duration_ms":1}', "no rank"),
    ('{"step":1,"rank":0,"duration_ms":1}', "no name"),
    ('{"name":7,"step":1,"rank":0,"duration_ms":1}', "name is not a string"),
    ('{"name":"f","step":1.5,"rank":0,"duration_ms":1}', "step is not an integer"),
    ('{"name":"f","step":1,"rank":"0","duration_ms":1}', "rank is not an integer"),
    ('{"name":"f","step":1,"rank":0,"duration_ms":"1"}', "duration_ms is not a number"),
    ('{"name":"f","step":1,"rank":0,"duration_ms":null}', "duration_ms is not a number"),
    ('{"name":"f","step":1,"rank":0,"duration_ms":-1}', "duration_ms is negative"),
    ('{"name":"f","step":1,"rank":0,"duration_ms":NaN}', "not valid JSON"),
    ('{"name":"f","step":99999999999999999999,"rank":0,"duration_ms":1}',
     "not valid JSON: a malformed or too large number"),
    ("[1,2]", "not a JSON object"),
    ('{"type":"counter","name":"m","step":1,"rank":0,"value":"x"}', "value is not a number"),
    ('{"type":"run"}', "no rank"),
])
def test_rows_are_never_guessed(cep, tmp_path, line, why):
    path = write(tmp_path, b"\n".join([LINES[0], line.encode(), LINES[1]]) + b"\n")
    assert outcome(cep, path) == (2, 1, 0, [f"{path}:2: {why}"])


def test_unknown_types_and_keys_are_no_errors(cep, tmp_path):
    extra = b'{"type":"weather","rain":true}\n{"name":"f","step":9,"rank":0,"duration_ms":1,"new_key":{"a":[1]},"depth":"?"}\n'
    path = write(tmp_path, b"\n".join(LINES) + b"\n" + extra)
    assert outcome(cep, path) == (7, 0, 0, [])


def test_only_the_first_bad_rows_are_shown_and_the_rest_counted(cep, tmp_path):
    path = write(tmp_path, LINES[0] + b"\n" + b"bad\n" * 1000)
    stderr = cep("summarize", path).stderr.decode()
    assert "1,000 rows skipped" in stderr.splitlines()[0]
    assert stderr.count(f"{path}:") == 5
    assert "… and 995 more" in stderr


def test_empty_file_beside_good_ones(cep, four_ranks):
    four_ranks.path(4).write_bytes(b"")
    assert cep.summary("job")["inputs"]["rows"] == len(four_ranks.rows)
    assert cep("summarize", "job").stderr == b""


def test_nothing_but_an_empty_file_is_nothing_readable(cep, tmp_path):
    path = write(tmp_path, b"")
    assert b"no rows in any input" in cep("summarize", path, status=3).stderr
    assert b"no rows in any input" in cep("merge", path, status=3).stderr


def test_unreadable_input_beside_good_ones(cep, four_ranks):
    done = cep("summarize", "--json", "job", "nowhere.jsonl")
    assert b"1 input unreadable" in done.stderr and b"nowhere.jsonl: No such file or directory" in done.stderr
    cep("summarize", "--strict", "job", "nowhere.jsonl", status=4)


def test_missing_rank_is_named(cep, four_ranks):
    four_ranks.path(2).unlink()
    done = cep("summarize", "job")
    assert done.stderr.decode().splitlines() == ["cep summarize: 3 of 4 ranks", "  missing rank 2"]
    assert cep.summary("job")["inputs"]["missing_ranks"] == [2]


@pytest.mark.parametrize("command", ["summarize", "merge", "check"])
def test_strict_status(cep, four_ranks, command):
    cep(command, "--strict", "job")
    with open(four_ranks.path(1), "ab") as file:
        file.write(b'{"cut')
    cep(command, "job")
    cep(command, "--strict", "job", status=4)


def test_first_line_says_what_there_was(cep, four_ranks):
    four_ranks.path(3).unlink()
    with open(four_ranks.path(0), "ab") as file:
        file.write(b"bad\nworse\n")
    with open(four_ranks.path(1), "ab") as file:
        file.write(b'{"cut')
    first = cep("merge", "job").stderr.decode().splitlines()[0]
    assert first == "cep merge: 3 of 4 ranks, 1 file cut off, 2 rows skipped"


@pytest.mark.parametrize("compress", [gzip.compress,
                                      lambda data: subprocess.run(["zstd", "-c"], input=data, capture_output=True,
                                                                  check=True).stdout])
class TestCompressed:
    """Found by magic bytes, under any name."""

    def data(self):
        rows = attempt_rows(0, range(3000), rng=random.Random(1))
        return b"".join(line_of(row).encode() + b"\n" for row in rows)

    def test_whole(self, cep, tmp_path, compress):
        data = self.data()
        path = write(tmp_path, compress(data), "rank.bin")
        assert sorted(cep.merged(path).splitlines()) == sorted(data.splitlines())

    def test_several_streams_after_each_other(self, cep, tmp_path, compress):
        data = self.data()
        half = data.index(b"\n", len(data) // 2) + 1
        path = write(tmp_path, compress(data[:half]) + compress(data[half:]))
        assert sorted(cep.merged(path).splitlines()) == sorted(data.splitlines())

    def test_cut_off(self, cep, tmp_path, compress):
        data = self.data()
        path = write(tmp_path, compress(data)[:-2000])
        kept, skipped, cut_off, located = outcome(cep, path)
        assert 0 < kept < data.count(b"\n") and (skipped, cut_off, len(located)) == (0, 1, 1)

    def test_damaged(self, cep, tmp_path, compress):
        packed = bytearray(compress(self.data()))
        packed[-1000:-900] = b"\xff" * 100
        path = write(tmp_path, bytes(packed))
        assert cep.summary(path)["inputs"]["truncated_files"] == 1


def test_rows_of_another_rank_count_for_that_rank(cep, job):
    job.write(0, [run_row(0, world_size=2), span_row(0, 1, "f", 1.0, START_NS + 1), span_row(1, 1, "f", 9.0, START_NS + 2)])
    summary = cep.summary("job")
    assert summary["inputs"]["missing_ranks"] == []
    assert summary["phases"][0]["slowest_rank"] == 1
    findings = cep.check("job")["files"][0]["findings"]
    assert [f["message"] for f in findings if f["code"] == "other_rank"] == ["1 row of rank 1 in the file of rank 0"]
