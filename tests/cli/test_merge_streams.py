# SPDX-License-Identifier: Apache-2.0
"""What merging writes does not depend on how its inputs can be read, nor on the memory that it has."""

import gzip
import random
import subprocess

import pytest
from conftest import START_NS, as_rows, attempt_rows, line_of, run_row, span_row, stats_row


def merged_in_python(paths):
    """The order of cep-merge(1), from the files' lines."""
    keyed = []
    for number, path in enumerate(paths):
        for place, line in enumerate(path.read_bytes().splitlines(keepends=True)):
            keyed.append((key_of(as_rows(line)[0]), number, place, line))
    return b"".join(line for _, _, _, line in sorted(keyed))


def key_of(row):
    if row.get("type") == "run":
        return 0, row["rank"], row["start_unix_ns"], row["attempt"]
    if row.get("type") == "stats":
        return 3, row["rank"], row["start_ns"], row["attempt"]
    if "step" not in row:
        return 2, 0, 0, 0
    return 1, row["step"], row.get("start_ns", -(2**63)), row["rank"]


def restarted_rows(rank, rng, steps=300):
    """Three attempts, each of which begins before the last one ended."""
    rows = []
    for attempt in (1, 2, 3):
        first = (attempt - 1) * steps // 2
        rows += attempt_rows(rank, range(first, first + steps), rng=rng, world_size=6, attempt=attempt)
        rows += [{"type": "something_new", "attempt": attempt},
                 {"type": "mark", "name": "checkpoint", "step": first, "rank": rank}]
    return rows


@pytest.fixture
def restarted(job):
    rng = random.Random(7)
    for rank in range(6):
        job.write(rank, restarted_rows(rank, rng))
    return job


def paths_of(job, ranks):
    return [job.path(rank) for rank in range(ranks)]


@pytest.mark.parametrize("memory_mib", [1, 256])
def test_the_order_is_that_of_a_plain_sort(cep, restarted, memory_mib):
    assert cep.merged("--memory-mib", memory_mib, "job") == merged_in_python(paths_of(restarted, 6))


def rows_that_tie(number, rng):
    """Of three ranks in one file: their keys have few different values, in each part."""
    attempt = 1 + number % 3
    rows = [run_row(rank, attempt=attempt, start_unix_ns=START_NS + rng.randrange(3)) for rank in range(3)]
    for line in range(90):
        rank, step, start_ns = rng.randrange(3), rng.randrange(4), START_NS + rng.randrange(3)
        rows.append(rng.choice([
            stats_row(rank, 1, attempt=attempt, start_ns=start_ns),
            {"type": "later", "rank": rank},
            {"name": "f", "step": step, "rank": rank, "duration_ms": 1},
            {"type": "mark", "name": "m", "step": step, "start_ns": start_ns, "rank": rank},
            span_row(rank, step, "f", 1, start_ns),
        ]) | {"meta": {"place": [number, line]}})
    return rows


def test_rows_that_tie_come_in_the_order_of_files_and_lines(cep, job):
    rng = random.Random(1)
    for number in range(7):
        job.write(number, rows_that_tie(number, rng))
    assert cep.merged("job") == merged_in_python(paths_of(job, 7))


def test_plain_and_compressed_files_merge_to_the_same(cep, restarted):
    plain = cep.merged("job")
    for rank in (1, 4):
        path = restarted.path(rank)
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert cep.merged("job") == plain


def test_a_pipe_merges_to_the_same(cep, restarted):
    assert cep.merged("-", stdin=restarted.path(0).read_bytes()) == cep.merged(restarted.path(0))


def test_standard_input_is_read_from_where_it_stands(cep, restarted):
    first = restarted.path(0).read_bytes().splitlines(keepends=True)[0]
    with open(restarted.path(0), "rb", buffering=0) as file:
        file.seek(len(first))
        rest = subprocess.run([cep.program, "merge", "-"], stdin=file, capture_output=True, timeout=120, check=True).stdout
    assert rest == cep.merged(restarted.path(0)).replace(first, b"", 1)


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("open_files", [8, 9, 12, 40])
def test_few_files_may_be_open(cep, job, open_files, threads):
    rng = random.Random(5)
    for rank in range(60):
        job.write(rank, attempt_rows(rank, range(20), rng=rng, world_size=60))
    limited = ["sh", "-c", f'ulimit -n {open_files} && exec "$0" "$@"', cep.program, "merge", "--threads", str(threads), "-o", "out.jsonl", str(job.folder)]
    done = subprocess.run(limited, cwd=cep.folder, capture_output=True, timeout=120, check=True)
    assert len(done.stderr.splitlines()) == 1 and b"wrote" in done.stderr
    assert (cep.folder / "out.jsonl").read_bytes() == merged_in_python(paths_of(job, 60))


def test_a_step_of_more_rows_than_are_read_at_once(cep, job):
    for rank in range(2):
        rows = [run_row(rank, world_size=2)]
        for step in range(3):
            begin_ns = START_NS + step * 10**12
            rows += [span_row(rank, step, f"layer_{n}", 0.5, begin_ns + n * 10**6) for n in range(4000)]
            rows.append(span_row(rank, step, "training_step", 5000.0, begin_ns - 1000, kind="step", depth=0))
        job.write(rank, rows)
    assert cep.merged("--memory-mib", 1, "job") == merged_in_python(paths_of(job, 2))


def test_rows_longer_than_what_is_read_at_once(cep, job):
    for rank in range(2):
        job.write(rank, [span_row(rank, step, "f", 1.0, START_NS + 7 * (9 - step) + rank, meta={"note": "x" * (100_000 * step)})
                         for step in range(9)])
    assert cep.merged("--memory-mib", 1, "job") == merged_in_python(paths_of(job, 2))


def test_rows_that_fit_need_no_room_on_disk(cep, job, tmp_path):
    # Some 4 MB of rows.
    for rank in range(2):
        job.write(rank, attempt_rows(rank, range(2000), rng=random.Random(rank), world_size=2))
    merged = cep.merged("--memory-mib", 32, "job", env={"TMPDIR": str(tmp_path / "nowhere")})
    assert merged == merged_in_python(paths_of(job, 2))


def test_damaged_lines_do_not_move_the_others(cep, job):
    rng = random.Random(2)
    lines = [line_of(row).encode() for row in attempt_rows(0, range(50), rng=rng)]
    good = list(lines)
    lines.insert(7, b"garbage")
    lines.insert(20, b"")
    lines.insert(30, b'{"name":"forw' + lines.pop(30))
    job.folder.mkdir()
    job.path(0).write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines) + b"\r\n")
    (tmp := job.folder.parent / "good.jsonl").write_bytes(b"".join(line + b"\n" for line in good))
    assert cep.merged("job") == merged_in_python([tmp])


def test_merging_again_and_in_parts_changes_nothing(cep, restarted, tmp_path):
    whole = cep.merged("job")
    assert cep.merged("-", stdin=whole) == whole
    (tmp_path / "a.jsonl").write_bytes(cep.merged(*paths_of(restarted, 3)))
    (tmp_path / "b.jsonl").write_bytes(cep.merged(*paths_of(restarted, 6)[3:]))
    assert cep.merged("b.jsonl", "a.jsonl") == cep.merged("a.jsonl", "b.jsonl")
    spans = [line for line in whole.splitlines() if b'"something_new"' not in line]
    assert [line for line in cep.merged("a.jsonl", "b.jsonl").splitlines() if b'"something_new"' not in line] == spans

