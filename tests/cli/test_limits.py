# SPDX-License-Identifier: Apache-2.0
"""No input of up to 10 MB makes check, merge or summarize take more than 1 GiB or 10 seconds of CPU: what is read."""

import functools
import gzip
import json
import os
import subprocess

import pytest
from conftest import START_NS, line_of, run_row, span_row
from limits import MAX_INPUT_BYTES, within_limits


def write_input(folder, data, name="cuda_events_rank_0.jsonl"):
    """Returns the name of the file."""
    assert len(data) <= MAX_INPUT_BYTES
    (folder / name).write_bytes(data)
    return name


def rows_of(lines):
    return b"".join(line_of(row).encode() + b"\n" for row in lines)


TOO_COMPRESSED = "decompresses to over 100 times its size"
READERS = ["summarize", "check", "merge"]
GOOD = rows_of(span_row(0, step, "f", 1.5, START_NS + step) for step in range(6))


def run_command(command):
    return [command, "--json"] if command == "check" else [command]


def zstd_frame(window_log, content_bytes):
    """A frame whose header asks for a window of 2^window_log bytes; its content is one run of newlines a block."""
    header = b"\x28\xb5\x2f\xfd" + bytes([0x00, (window_log - 10) << 3])
    block_bytes = 128 << 10
    blocks = []
    for begin in range(0, content_bytes, block_bytes):
        size = min(block_bytes, content_bytes - begin)
        last = begin + size == content_bytes
        blocks.append(((size << 3) | (1 << 1) | last).to_bytes(3, "little") + b"\n")
    return header + b"".join(blocks)


@pytest.mark.parametrize("command", READERS)
def test_gigabytes_of_blank_lines_in_little_zstd(tmp_path, command):
    data = zstd_frame(20, 34 << 30)
    done = within_limits(tmp_path, *run_command(command), write_input(tmp_path, data), status=(0, 3, 4))
    assert TOO_COMPRESSED in done.stderr + done.stdout.decode()


def test_a_stream_that_is_too_large_in_the_middle_of_a_row_says_so(tmp_path):
    data = gzip.compress(GOOD * (130 * 2**20 // len(GOOD)), 9)
    done = within_limits(tmp_path, "check", write_input(tmp_path, data, "cuda_events_rank_0.jsonl.gz"), status=(3, 4))
    assert TOO_COMPRESSED in done.stdout.decode() and "in the middle of a row" not in done.stdout.decode()


@pytest.mark.parametrize("command", READERS)
def test_gigabytes_of_spaces_in_one_line(tmp_path, command):
    data = zstd_frame(20, 34 << 30).replace(b"\n", b" ")
    done = within_limits(tmp_path, *run_command(command), write_input(tmp_path, data), status=(0, 3, 4))
    said = done.stderr + done.stdout.decode()
    assert ("too_compressed" if command == "check" else "cut off") in said


def test_rows_before_the_blank_lines_are_kept(tmp_path):
    rows = subprocess.run(["zstd", "-q", "-c"], input=GOOD, capture_output=True, check=True).stdout
    write_input(tmp_path, rows + zstd_frame(20, 34 << 30))
    done = within_limits(tmp_path, "summarize", "--json", "cuda_events_rank_0.jsonl")
    inputs = json.loads(done.stdout)["inputs"]
    assert (inputs["rows"], inputs["truncated_files"]) == (6, 1)


@pytest.mark.parametrize("command", READERS)
def test_a_zstd_window_of_two_gigabytes(tmp_path, command):
    data = zstd_frame(31, 1 << 20)
    within_limits(tmp_path, *run_command(command), write_input(tmp_path, data), status=(0, 3, 4))


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("brackets", [(b"[", b""), (b"[", b"]"), (b'{"a":', b""), (b'{"a":1,"a":', b"}")])
def test_deep_nesting(tmp_path, command, brackets):
    first, last = brackets
    depth = 9_000_000 // len(first + last)
    row = b'{"name":"f","step":1,"rank":0,"duration_ms":1,"meta":' + first * depth + b"1" + last * depth + b"}\n"
    data = row + GOOD
    done = within_limits(tmp_path, *run_command(command), write_input(tmp_path, data))
    assert "not valid JSON" in done.stderr + done.stdout.decode()


@pytest.mark.parametrize("command", READERS)
def test_a_line_of_nearly_64_mib_and_a_longer_one(tmp_path, command):
    row = b'{"name":"f","step":1,"rank":0,"duration_ms":1.5,"text":"'
    lines = [row + b"x" * ((64 << 20) - 1000) + b'"}\n', row + b"x" * (70 << 20) + b'"}\n', GOOD]
    data = subprocess.run(["zstd", "-q", "-c"], input=b"".join(lines), capture_output=True, check=True).stdout
    within_limits(tmp_path, *run_command(command), write_input(tmp_path, data))


@pytest.mark.parametrize("command", READERS)
def test_many_brace_pairs_in_broken_lines(tmp_path, command):
    data = (b'{"' * 4_000 + b"\n") * 1200
    within_limits(tmp_path, *run_command(command), write_input(tmp_path, data), status=(0, 3, 4))


@pytest.mark.parametrize("command", READERS)
def test_millions_of_lines_that_are_no_rows(tmp_path, command):
    done = within_limits(tmp_path, *run_command(command), write_input(tmp_path, GOOD + b"x\n" * 4_900_000))
    if command == "check":
        file = json.loads(done.stdout)["files"][0]
        assert (file["rows"], file["skipped_rows"], file["cut_off"]) == (6, 1_000_001, True)


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("unit", [b"x\n", b"{\n", b'{"' * 4000 + b"\n"], ids=["letters", "braces", "many braces"])
def test_lines_that_are_no_rows_in_little_zstd(tmp_path, command, unit):
    data = subprocess.run(["zstd", "-q", "-c"], input=GOOD + unit * ((1 << 28) // len(unit)), capture_output=True,
                          check=True).stdout
    within_limits(tmp_path, *run_command(command), write_input(tmp_path, data))


@pytest.mark.parametrize("command", READERS)
def test_a_run_row_for_each_of_many_starts(tmp_path, command):
    runs = [{"type": "run", "rank": 0, "run_id": f"r{i}", "attempt": i} for i in range(100_000)]
    data = rows_of(runs) + GOOD * 3
    within_limits(tmp_path, *run_command(command), write_input(tmp_path, data))


def gzipped(text):
    return gzip.compress(text.encode(), compresslevel=1)


def run_row_text(number, rank=0):
    return (f'{{"type":"run","schema":1,"run_id":"run-{number}","attempt":{number},"rank":{rank},"world_size":8,'
            f'"host":"node","pid":1000,"backend":"cuda","device_name":"NVIDIA H100 80GB HBM3",'
            f'"start_unix_ns":{START_NS + number},"clock_error_ns":2000,"dp":{rank},"tp":0,"pp":0}}\n')


@functools.cache  # making them takes longer than reading them
def million_run_rows(ranks):
    return gzipped("".join(run_row_text(i // ranks, i % ranks) for i in range(1_000_000)))


@pytest.mark.parametrize("command", ["check", "merge"])
@pytest.mark.parametrize("ranks", [1, 1_000_000], ids=["one rank", "many ranks"])
def test_a_million_run_rows(tmp_path, command, ranks):
    name = write_input(tmp_path, million_run_rows(ranks), "cuda_events_rank_0.jsonl.gz")
    done = within_limits(tmp_path, *run_command(command), name)
    assert "more than 524288 runs" in done.stderr


def test_files_of_many_runs_each(tmp_path):
    rows = "".join(f'{{"type":"run","run_id":"r{i}","rank":0}}\n' for i in range(480_000))
    data = gzipped(rows)
    for rank in range(8):
        (tmp_path / f"cuda_events_rank_{rank}.jsonl.gz").write_bytes(data)
    done = within_limits(tmp_path, "check", "--json", ".")
    assert json.loads(done.stdout)["inputs"]["rows"] == 8 * 480_000


@pytest.mark.parametrize("command", ["check", "merge"])
def test_run_rows_that_change_the_start_of_one_of_many_runs(tmp_path, command):
    rows = ['{"type":"run","rank":0,"run_id":"r%d","start_unix_ns":%d}\n' % (i, START_NS + i) for i in range(200_000)]
    for i in range(50_000):
        rows.append('{"type":"run","rank":0,"run_id":"r%d","start_unix_ns":%d}\n' % (i, START_NS + i + 1))
        rows.append('{"name":"f","step":%d,"rank":0,"duration_ms":1,"start_ns":%d}\n' % (i, START_NS + i))
    name = write_input(tmp_path, gzipped("".join(rows)), "cuda_events_rank_0.jsonl.gz")
    within_limits(tmp_path, *run_command(command), name)


def test_check_lists_the_first_of_many_attempts_and_counts_all(tmp_path):
    data = rows_of({"type": "run", "rank": 0, "run_id": "r", "attempt": i, "start_unix_ns": START_NS + i}
                   for i in range(20_000)) + GOOD
    file = json.loads(within_limits(tmp_path, "check", "--json", write_input(tmp_path, data)).stdout)["files"][0]
    assert [attempt["attempt"] for attempt in file["attempts"]] == list(range(10_000))
    messages = [finding["message"] for finding in file["findings"] if finding["code"] == "too_many_attempts"]
    assert messages == ["only the first 10,000 of 20,000 attempts are listed"]


@pytest.mark.parametrize("command", READERS)
def test_spans_behind_many_run_rows_without_other_rows_between(tmp_path, command):
    runs = [{"type": "run", "rank": 0, "run_id": f"r{i}", "start_unix_ns": START_NS + i} for i in range(50_000)]
    spans = [{"name": "f", "step": i, "rank": 0, "duration_ms": 1, "start_ns": START_NS + i} for i in range(50_000)]
    verdict = ["--no-verdict"] if command == "summarize" else []
    within_limits(tmp_path, *run_command(command), *verdict, write_input(tmp_path, rows_of(runs + spans)))


@pytest.mark.parametrize("command", READERS)
def test_stats_rows_of_many_attempts(tmp_path, command):
    runs = [{"type": "run", "rank": 0, "run_id": "r", "attempt": i} for i in range(50_000)]
    stats = [{"type": "stats", "rank": 0, "attempt": i, "recorded": 1} for i in range(50_000)]
    within_limits(tmp_path, *run_command(command), write_input(tmp_path, rows_of(runs + stats)))


@pytest.mark.parametrize("command", READERS)
def test_many_ranks_in_one_file(tmp_path, command):
    data = b"".join(b'{"name":"f","step":1,"rank":%d,"duration_ms":1}\n' % (2 * rank) for rank in range(180_000))
    done = within_limits(tmp_path, *run_command(command), write_input(tmp_path, data))
    assert len(done.stderr) < 10_000


@pytest.mark.parametrize("command", READERS)
def test_a_declared_world_of_a_million_ranks(tmp_path, command):
    data = rows_of([run_row(0, world_size=1 << 20)]) + GOOD
    done = within_limits(tmp_path, *run_command(command), write_input(tmp_path, data))
    assert "1–1048575" in done.stderr + done.stdout.decode()


@pytest.mark.parametrize("command", READERS)
def test_a_million_listed_ranks(tmp_path, command):
    config = {"ranks": list(range(0, 1_200_000))}
    data = rows_of([run_row(0, world_size=1 << 20, config=config)]) + GOOD
    within_limits(tmp_path, *run_command(command), write_input(tmp_path, data))


@pytest.mark.parametrize("command", READERS)
def test_many_open_rows(tmp_path, command):
    opens = [{"type": "open", "name": "f", "step": i, "rank": 0, "start_ns": START_NS + i, "elapsed_ms": 1}
             for i in range(100_000)]
    within_limits(tmp_path, *run_command(command), write_input(tmp_path, rows_of(opens)))


@pytest.mark.parametrize("command", READERS)
def test_many_open_rows_of_one_place_and_their_spans(tmp_path, command):
    opens = [{"type": "open", "name": "f", "step": 0, "rank": 0, "start_ns": START_NS + 10**6 * i}
             for i in range(60_000)]
    spans = [{"name": "f", "step": 0, "rank": 0, "duration_ms": 1, "start_ns": START_NS + 10**6 * i}
             for i in reversed(range(60_000))]
    within_limits(tmp_path, *run_command(command), write_input(tmp_path, rows_of(opens + spans)))


@pytest.fixture(scope="module")
def many_entries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many") / "job"
    folder.mkdir()
    (folder / "cuda_events_rank_0.jsonl").write_bytes(GOOD)
    for number in range(1, 50_000):
        os.symlink("cuda_events_rank_0.jsonl", folder / f"cuda_events_rank_{number}.jsonl")
        os.symlink("cuda_events_rank_0.jsonl", folder / f"other_{number}")
    return folder


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("pattern", ["", "*"])
def test_a_directory_of_many_entries(many_entries, command, pattern):
    done = within_limits(many_entries, *run_command(command), many_entries / pattern)
    assert "named more than once" in done.stderr or command == "check"


@pytest.mark.parametrize("command", READERS)
def test_a_fifo_in_a_directory_is_skipped(tmp_path, command):
    (tmp_path / "job").mkdir()
    write_input(tmp_path / "job", GOOD)
    os.mkfifo(tmp_path / "job" / "cuda_events_rank_1.jsonl")
    done = within_limits(tmp_path, *run_command(command), "job")
    assert "cuda_events_rank_1.jsonl: not a regular file" in done.stderr + done.stdout.decode()


def test_a_fifo_in_a_directory_of_traces_is_skipped(tmp_path):
    (tmp_path / "traces").mkdir()
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}
    write_input(tmp_path / "traces", json.dumps({"traceEvents": [event]}).encode(), "rank0.json")
    os.mkfifo(tmp_path / "traces" / "rank1.json")
    done = within_limits(tmp_path, "kernels", "traces")
    assert "rank1.json: not a regular file" in done.stderr


@pytest.mark.parametrize("command", READERS)
def test_bytes_of_file_names_that_are_no_text(tmp_path, command):
    folder = os.fsencode(tmp_path) + b"/job\xff\x1b[31m"
    os.mkdir(folder)
    with open(folder + b"/cuda_events_rank_0.jsonl", "wb") as file:
        file.write(b"broken\n" + GOOD)
    done = within_limits(tmp_path, *run_command(command), os.fsdecode(folder))
    assert "\x1b" not in done.stderr
