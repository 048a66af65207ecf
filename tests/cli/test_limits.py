# SPDX-License-Identifier: Apache-2.0
"""No input of up to 10 MB makes check, merge or summarize take more than 1 GiB or 10 seconds of CPU: what is read."""

import functools
import gzip
import json
import os
import subprocess

import pytest
from conftest import ROW_READERS, START_NS, line_of, run_row, span_row
from limits import MAX_INPUT_BYTES, within_limits


def write_input(folder, data, name="cuda_events_rank_0.jsonl"):
    """Returns the name of the file."""
    assert len(data) <= MAX_INPUT_BYTES
    (folder / name).write_bytes(data)
    return name


def rows_of(lines):
    return b"".join(line_of(row).encode() + b"\n" for row in lines)


TOO_COMPRESSED = "decompresses to over 100 times its size"
# The others read as summarize does.
READERS = [command for command in ROW_READERS if command not in ("comm", "estimate", "metrics", "report", "trace")]
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


def zstd(*parts):
    return subprocess.run(["zstd", "-q", "-c"], input=b"".join(parts), capture_output=True, check=True).stdout


def nested(first, last=b""):
    depth = 9_000_000 // len(first + last)
    return b'{"name":"f","step":1,"rank":0,"duration_ms":1,"meta":' + first * depth + b"1" + last * depth + b"}\n" + GOOD


def row_of_bytes(size):
    return b'{"name":"f","step":1,"rank":0,"duration_ms":1.5,"text":"' + b"x" * size + b'"}\n'


def numbered(count, **members):
    """Rows of rank 0, whose members may depend on their number."""
    return rows_of({key: value(i) if callable(value) else value for key, value in ({"rank": 0} | members).items()}
                   for i in range(count))


def start_of(number):
    return START_NS + 10**6 * number


# What each command reads, and what it says of it: `check`, and after | the others.
INPUTS = {
    "gigabytes of blank lines in little zstd": (lambda: zstd_frame(20, 34 << 30), TOO_COMPRESSED),
    "gigabytes of spaces in one line": (lambda: zstd_frame(20, 34 << 30).replace(b"\n", b" "), "too_compressed|cut off"),
    "a zstd window of two gigabytes": (lambda: zstd_frame(31, 1 << 20), ""),
    "deep arrays": (lambda: nested(b"["), "not valid JSON"),
    "deep arrays that end": (lambda: nested(b"[", b"]"), "not valid JSON"),
    "deep objects": (lambda: nested(b'{"a":'), "not valid JSON"),
    "deep objects that end": (lambda: nested(b'{"a":1,"a":', b"}"), "not valid JSON"),
    "a line of nearly 64 MiB and a longer one": (lambda: zstd(row_of_bytes((64 << 20) - 1000), row_of_bytes(70 << 20), GOOD), ""),
    "brace pairs in broken lines": (lambda: (b'{"' * 4_000 + b"\n") * 1200, ""),
    "letters in little zstd": (lambda: zstd(GOOD, b"x\n" * (1 << 27)), ""),
    "braces in little zstd": (lambda: zstd(GOOD, b"{\n" * (1 << 27)), ""),
    "brace pairs in little zstd": (lambda: zstd(GOOD, (b'{"' * 4000 + b"\n") * ((1 << 28) // 8001)), ""),
    "a run row for each of many starts": (
        lambda: numbered(100_000, type="run", run_id="r{}".format, attempt=int) + GOOD * 3, ""),
    "spans behind many run rows without other rows between": (
        lambda: numbered(50_000, type="run", run_id="r{}".format, start_unix_ns=lambda i: START_NS + i)
        + numbered(50_000, name="f", step=int, duration_ms=1, start_ns=lambda i: START_NS + i), ""),
    "stats rows of many attempts": (
        lambda: numbered(50_000, type="run", run_id="r", attempt=int) + numbered(50_000, type="stats", attempt=int, recorded=1), ""),
    "many ranks in one file": (lambda: numbered(180_000, name="f", step=1, rank=lambda i: 2 * i, duration_ms=1), ""),
    "a declared world of a million ranks": (lambda: rows_of([run_row(0, world_size=1 << 20)]) + GOOD, "1–1048575"),
    "a million listed ranks": (
        lambda: rows_of([run_row(0, world_size=1 << 20, config={"ranks": list(range(1_200_000))})]) + GOOD, ""),
    "open rows": (lambda: numbered(100_000, type="open", name="f", step=int, start_ns=lambda i: START_NS + i, elapsed_ms=1), ""),
    "open rows of one place and their spans": (
        lambda: numbered(60_000, type="open", name="f", step=0, start_ns=start_of)
        + numbered(60_000, name="f", step=0, duration_ms=1, start_ns=lambda i: start_of(59_999 - i)), ""),
}  # fmt: skip
WITHOUT_ROWS = ("gigabytes of blank lines in little zstd", "gigabytes of spaces in one line", "a zstd window of two gigabytes",
                "brace pairs in broken lines")  # fmt: skip


@functools.lru_cache(maxsize=1)  # making it takes longer than reading it
def made(name):
    return INPUTS[name][0]()


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("name", INPUTS)
def test_an_input_stays_within_the_limits(tmp_path, name, command):
    verdict = ["--no-verdict"] if name.startswith("spans behind") and command == "summarize" else []
    status = (0, 4) if name not in WITHOUT_ROWS else (0, 3, 4)
    done = within_limits(tmp_path, *run_command(command), *verdict, write_input(tmp_path, made(name)), status=status)
    says = INPUTS[name][1].split("|")
    assert says[0 if command == "check" else -1] in done.stderr + done.stdout.decode()
    assert len(done.stderr) < 10_000


def test_a_stream_that_is_too_large_in_the_middle_of_a_row_says_so(tmp_path):
    data = gzip.compress(GOOD * (130 * 2**20 // len(GOOD)), 9)
    done = within_limits(tmp_path, "check", write_input(tmp_path, data, "cuda_events_rank_0.jsonl.gz"), status=(3, 4))
    assert TOO_COMPRESSED in done.stdout.decode() and "in the middle of a row" not in done.stdout.decode()


def test_rows_before_the_blank_lines_are_kept(tmp_path):
    rows = subprocess.run(["zstd", "-q", "-c"], input=GOOD, capture_output=True, check=True).stdout
    write_input(tmp_path, rows + zstd_frame(20, 34 << 30))
    done = within_limits(tmp_path, "summarize", "--json", "cuda_events_rank_0.jsonl")
    inputs = json.loads(done.stdout)["inputs"]
    assert (inputs["rows"], inputs["truncated_files"]) == (6, 1)


@pytest.mark.parametrize("command", READERS)
def test_millions_of_lines_that_are_no_rows(tmp_path, command):
    done = within_limits(tmp_path, *run_command(command), write_input(tmp_path, GOOD + b"x\n" * 4_900_000))
    if command == "check":
        file = json.loads(done.stdout)["files"][0]
        assert (file["rows"], file["skipped_rows"], file["cut_off"]) == (6, 1_000_001, True)


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
