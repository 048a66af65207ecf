# SPDX-License-Identifier: Apache-2.0
"""No input of up to 10 MB makes summarize, compare or comm take more than 1 GiB or 10 seconds of CPU: many names, ranks,
steps, groups and counters."""

import gzip
import json
from itertools import count

import pytest
from limits import MAX_INPUT_BYTES, within_limits, write_rows

# Each summarize gives a verdict.
COMMANDS = {
    "phase": ("summarize", "--json"),
    "host": ("summarize", "--json", "--by", "host"),
    "rank": ("summarize", "--json", "--by", "rank"),
    "step": ("summarize", "--json", "--by", "step:1"),
    "compare": ("compare", "--json"),
}


def span(name, step, rank, more=""):
    return f'{{"name":"{name}","step":{step},"rank":{rank},"duration_ms":1{more}}}'


INPUTS = {
    "names": lambda i: span(f"p{i}", 1, 0),
    "names_in_steps": lambda i: span(f"p{i}", i, 0),
    "8000_names": lambda i: span(f"p{i % 8000}", i, 0),
    "8000_names_on_8_ranks": lambda i: span(f"p{i // 8 % 8000}", i // 64000, i % 8),
    "ranks": lambda i: span("a", 1, i),
    "ranks_and_names": lambda i: span(f"p{i}", i, i),
    "steps": lambda i: span("a", i, 0),
    "steps_backwards": lambda i: span("a", 1_000_000 - i, 0),
    "step_spans": lambda i: span(f"s{i}", i, i, ',"kind":"step"'),
    "collectives": lambda i: span("all_reduce", i // 2, i % 2, f',"coll":{i // 2},"group":"g{i}"'),
    "hosts": lambda i: f'{{"type":"run","schema":1,"run_id":"r","attempt":1,"rank":{i},"host":"h{i}"}}\n{span("a", 1, i)}',
    "long_names": lambda i: span("n" * 5000 + str(i), 1, 0),
}


# What takes most in each command, and what takes most in the verdict.
HEAVY = {"names_in_steps": ("rank", "step"), "ranks_and_names": ("rank", "compare"),
         "ranks": ("rank", "compare")}  # the last in one step
CASES = [(name, command) for name, commands in HEAVY.items() for command in commands]
CASES += [(name, "host" if name == "hosts" else "phase") for name in INPUTS if name not in HEAVY]


@pytest.fixture(scope="module")
def written_once(tmp_path_factory):
    """The file of as many rows as there is room for, which several commands read."""
    files = {}

    def write(row):
        if row not in files:
            folder = tmp_path_factory.mktemp("rows")
            files[row] = folder / write_rows(folder, map(row, count()))
        return files[row]
    return write


@pytest.mark.parametrize("name, command", CASES)
def test_many_of_one_thing_stay_within_the_limits(tmp_path, written_once, name, command):
    written = written_once(INPUTS[name])
    arguments = [*COMMANDS[command], written]
    within_limits(tmp_path, *arguments, *([written] if command == "compare" else []))


@pytest.mark.parametrize("names", (40_000, 10**9))
def test_counters_stay_within_the_limits(tmp_path, names):
    rows = (f'{{"type":"counter","name":"c{i * 7919 % names}","step":1,"rank":0,"value":1}}' for i in count())
    within_limits(tmp_path, "summarize", "--json", write_rows(tmp_path, rows))


def test_marks_stay_within_the_limits(tmp_path):
    rows = (f'{{"type":"mark","name":"c{i}","step":{i},"rank":0}}' for i in count())
    within_limits(tmp_path, "summarize", "--json", write_rows(tmp_path, rows))


def test_phases_beyond_a_bound_are_one_to_the_verdict_and_a_note_says_so(tmp_path):
    rows = [span(f"p{i}", i % 40, rank) for rank in range(4) for i in range(5000)]
    rows += [span("all_reduce", step, rank, ',"kind":"comm"') for rank in range(4) for step in range(40)]
    done = within_limits(tmp_path, "summarize", write_rows(tmp_path, rows))
    assert 'the verdict takes the 904 phases with the least time as one, "other phases"' in done.stdout.decode()
    assert "904 phases" in done.stderr


# 0.7 MB and 0.2 MB when compressed. `compare` reads twice what the others do.
COMPRESSED = {
    "a_million_ranks": ("rank", (span("a", 1, rank) for rank in range(1_000_000))),
    "a_rank_that_starts_50000_times": ("compare", (
        f'{{"type":"run","schema":1,"run_id":"r{i}","attempt":{i},"rank":0,"start_unix_ns":{10**18 + i * 10**9}}}\n'
        + span("a", i, 0, f',"start_ns":{10**18 + i * 10**9 + 5}') for i in range(50_000))),
    "a_million_run_rows": ("compare", (
        f'{{"type":"run","schema":1,"run_id":"r","attempt":{i},"rank":0,"start_unix_ns":{10**18 + i}}}\n' + span("a", i, 0)
        for i in range(1_000_000))),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_rows_stay_within_the_limits(tmp_path, name):
    command, rows = COMPRESSED[name]
    written = tmp_path / "cuda_events_rank_0.jsonl.gz"
    written.write_bytes(gzip.compress("\n".join(rows).encode(), 1))
    assert written.stat().st_size < MAX_INPUT_BYTES
    within_limits(tmp_path, *COMMANDS[command], written, *([written] if command == "compare" else []))


def test_ranks_beyond_the_limit_are_left_out_and_counted(cep, tmp_path):
    written = tmp_path / "cuda_events_rank_0.jsonl"
    written.write_text("".join(span("a", 1, rank) + "\n" for rank in range(200_000 + 3)))
    done = cep("summarize", "--json", "--no-verdict", written)
    assert json.loads(done.stdout)["inputs"]["ranks_seen"] == 200_000
    assert b"3 ranks left out: at most 200,000 are kept" in done.stderr


COMM = ',"kind":"comm"'
COLLECTIVES = {
    "names": lambda i: span(f"p{i}", 1, 0, COMM),
    "names_and_sizes": lambda i: span(f"p{i // 2}", 1, i % 2, COMM + f',"bytes":{i // 2 + 1}'),
    "groups": lambda i: span("all_reduce", 1, i % 2, COMM + f',"group":"g{i // 2}","bytes":8'),
    "ranks_and_names": lambda i: span(f"p{i}", 1, i, COMM),
    "sizes": lambda i: span("all_reduce", i // 2, i % 2, COMM + f',"bytes":{i // 2 + 1}'),
}


@pytest.mark.parametrize("name, output", [*((name, "--json") for name in COLLECTIVES), ("ranks_and_names", "--csv"),
                                          ("ranks_and_names", "--markdown")])
def test_collectives_of_many_kinds_stay_within_the_limits(tmp_path, written_once, name, output):
    written = written_once(COLLECTIVES[name])
    within_limits(tmp_path, "comm", output, "--by", "group", written)


def test_a_million_compressed_names_of_collectives_stay_within_the_limits(tmp_path):
    rows = "".join(span(f"p{i}", 1, 0, COMM) + "\n" for i in range(1_000_000))
    compressed = gzip.compress(rows.encode(), 6)
    assert len(compressed) < MAX_INPUT_BYTES
    (tmp_path / "cuda_events_rank_0.jsonl.gz").write_bytes(compressed)
    done = within_limits(tmp_path, "comm", "--json", "cuda_events_rank_0.jsonl.gz")
    found = json.loads(done.stdout)
    assert len(found["models"]) == 10_000
    assert found["left_out"]["spans"] == 990_000 and found["left_out"]["total_ms"] == 990_000
    assert "990,000 spans of other operations are left out" in done.stderr


def test_the_operations_with_the_most_time_are_kept(tmp_path):
    rows = (f'{{"name":"p{i}","step":1,"rank":0,"duration_ms":{i + 1},"kind":"comm"}}' for i in range(12_000))
    done = within_limits(tmp_path, "comm", "--json", write_rows(tmp_path, rows))
    found = json.loads(done.stdout)
    assert [model["total_ms"] for model in found["models"]] == list(range(12_000, 2_000, -1))
    assert found["left_out"] == {"models": 2_000, "spans": 2_000, "total_ms": 2_000 * 2_001 / 2, "sizes": 0}
