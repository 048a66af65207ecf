# SPDX-License-Identifier: Apache-2.0
"""Partial summaries: what is summarised in parts is the same, to the last byte, as what is summarised at once."""

import gzip
import itertools
import json
import random
import re
import subprocess
import zlib

import pytest
from conftest import START_NS, attempt_rows, line_of, run_row, span_row, stats_row

OUTPUTS = (["--json"], ["--csv"], [], ["--by", "rank", "--json"], ["--by", "host"], ["--by", "step:7", "--csv"])


def files_of(job):
    return sorted(path.name for path in job.folder.iterdir())


@pytest.fixture
def varied(job):
    """Everything that a summary tells: resumption, copies, loss, open spans, marks, foreign rows, damage, gaps."""
    rng = random.Random(23)
    for rank in range(6):
        slow = {"forward": 1.7} if rank == 4 else None
        job.write(rank, attempt_rows(rank, range(25), rng=rng, world_size=8, slow=slow))
    for rank in (1, 4):
        job.write(rank, attempt_rows(rank, range(15, 40), rng=rng, world_size=8, attempt=2))
    job.write(2, [{"type": "open", "name": "backward", "step": 30, "rank": 2, "start_ns": START_NS + 5, "elapsed_ms": 812.25,
                   "kind": "compute", "clock": "gpu"},
                  {"type": "mark", "name": "checkpoint", "step": 24, "rank": 2, "start_ns": START_NS},
                  stats_row(2, 30, recorded=900, abandoned=3, dropped={"ring": 7, "slots": 0, "pool": 1})])
    job.write(3, [{"type": "mark", "name": "checkpoint", "step": step, "rank": 3, "start_ns": START_NS} for step in (8, 24)],
              tail=b"garbage\n\0\0\0\0\n" + b'{"name":"forw')
    job.write(5, [{"duration_ms": 1 / 3, "name": "öther|\"phase\"", "rank": 5, "step": 2**53 + 1}] * 3)
    (job.folder / "copy.jsonl").write_bytes(job.path(1).read_bytes())
    (job.folder / "foreign.jsonl").write_text("".join(
        line_of({"duration_ms": rng.random() * 1e-3, "name": "all_reduce", "rank": 0, "step": step}) + "\n"
        for step in range(20)))
    (job.folder / "notes.txt").write_text("no rows\n")
    return job


def save(cep, name, files, *options):
    return cep("summarize", "--save", name, *options, *files)


GROUPINGS = {
    "each by itself": lambda files: [[file] for file in files],
    "halves": lambda files: [files[::2], files[1::2]],
    "backwards": lambda files: [files[5:], files[2:5], files[:2]],
    "one": lambda files: [files],
}


def with_partials(cep, files, groups, *, ending=".partial"):
    names = []
    for number, group in enumerate(groups):
        status = 3 if group == ["job/notes.txt"] else 0
        names.append(f"part{number}{ending}")
        cep("summarize", "--save", names[-1], *group, status=status)
    return names


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_partials_summarize_as_the_files(cep, varied, grouping):
    files = [f"job/{name}" for name in files_of(varied)]
    names = with_partials(cep, files, GROUPINGS[grouping](files))
    for output in OUTPUTS:
        whole = cep("summarize", *output, *files)
        parts = cep("summarize", *output, *reversed(names))
        assert parts.stdout == whole.stdout
        assert parts.stderr == whole.stderr
    assert b"in 8 files" in cep("summarize", *files).stdout  # notes.txt is no rank file


def test_order_of_partials_does_not_matter(cep, varied):
    files = [f"job/{name}" for name in files_of(varied)]
    names = with_partials(cep, files, [files[:3], files[3:6], files[6:]])
    outputs = {cep("summarize", "--json", *order).stdout for order in itertools.permutations(names)}
    assert outputs == {cep("summarize", "--json", *files).stdout}


def test_partials_of_partials_and_rank_files_mixed(cep, varied):
    files = [f"job/{name}" for name in files_of(varied)]
    names = with_partials(cep, files, [[file] for file in files[:6]])
    save(cep, "low.partial", names[:3])
    save(cep, "high.partial", ["low.partial", *names[3:5]])
    assert cep.summary("high.partial", names[5], *files[6:]) == cep.summary(*files)


def test_times_below_zero_are_saved_as_they_are(cep, job):
    """A clock that was set back while a span was open, or while the profiler took its own time."""
    job.write(0, [run_row(0), span_row(0, 1, "forward", 2.0, START_NS),
                  {"type": "open", "name": "backward", "step": 2, "rank": 0, "start_ns": START_NS, "elapsed_ms": -1.5},
                  stats_row(0, 2, self_ms=-0.25, trainer_ms=-0.5)])
    save(cep, "a.partial", ["job"])
    assert cep("summarize", "--json", "a.partial").stdout == cep("summarize", "--json", "job").stdout


def test_saving_does_not_change_what_is_printed(cep, varied):
    for output in OUTPUTS:
        assert save(cep, "a.partial", ["job"], *output).stdout == cep("summarize", *output, "job").stdout


def test_the_same_inputs_give_the_same_partial(cep, varied, tmp_path):
    save(cep, "a.partial", ["job"], "--threads", "1")
    save(cep, "b.partial", ["job"], "--threads", "4")
    save(cep, "c.partial", ["b.partial"])
    first = (tmp_path / "a.partial").read_bytes()
    assert (tmp_path / "b.partial").read_bytes() == first
    assert (tmp_path / "c.partial").read_bytes() == first


@pytest.mark.parametrize("ending, magic", [(".partial.gz", b"\x1f\x8b"), (".partial.zst", b"\x28\xb5\x2f\xfd")])
def test_compressed_partials(cep, varied, tmp_path, ending, magic):
    save(cep, "a" + ending, ["job"])
    data = (tmp_path / ("a" + ending)).read_bytes()
    assert data.startswith(magic)
    (tmp_path / "of_any_name").write_bytes(data)
    assert cep.summary("of_any_name") == cep.summary("job")


def test_through_pipes(cep, varied):
    whole = cep.summary("job")
    saved = cep("summarize", "--save", "-", "job").stdout
    assert saved.startswith(b'{"type":"partial","schema":"cep.partial/1",')
    assert json.loads(cep("summarize", "--json", "-", stdin=saved).stdout) == whole
    assert json.loads(cep("summarize", "--json", "-", stdin=gzip.compress(saved)).stdout) == whole


def test_partials_joined_by_cat(cep, varied, tmp_path):
    files = [f"job/{name}" for name in files_of(varied)]
    names = with_partials(cep, files, [files[:4], files[4:]])
    joined = b"".join((tmp_path / name).read_bytes() for name in names)
    assert json.loads(cep("summarize", "--json", "-", stdin=joined).stdout) == cep.summary(*files)


def test_attempts_are_chosen_when_partials_are_summarized(cep, varied):
    save(cep, "a.partial", ["job"])
    for which in ("last", "all"):
        assert cep.summary("--attempt", which, "a.partial") == cep.summary("--attempt", which, "job")


def test_a_saved_attempt_is_the_only_one(cep, varied):
    save(cep, "a.partial", ["job"], "--attempt", "2")
    assert cep.summary("a.partial") == cep.summary("--attempt", "2", "a.partial") == cep.summary("--attempt", "2", "job")
    assert b"saved with --attempt 2" in cep("summarize", "--attempt", "1", "a.partial", status=2).stderr
    save(cep, "all.partial", ["job"])
    assert b"saved with no filter, but the others are read with --attempt 2" in cep(
        "summarize", "--attempt", "2", "all.partial", status=2).stderr


FILTERS = ["--steps", "3:30", "--ranks", "0-1,4", "--phases", "forward,training_step"]


def test_filters_of_a_partial_hold(cep, varied):
    files = [f"job/{name}" for name in files_of(varied) if name.startswith("cuda_events")]
    save(cep, "a.partial", files[:3], *FILTERS)
    save(cep, "b.partial", files[3:], *FILTERS)
    whole = cep.summary(*FILTERS, *files)
    assert cep.summary("a.partial", "b.partial") == whole
    same = ["--phases", "training_step,forward", "--ranks", "0,1,4", "--steps", "3:30"]
    assert cep.summary(*same, "a.partial", "b.partial") == whole


@pytest.mark.parametrize("options, message", [
    (["--steps", "3:31", "a.partial"], "a.partial: saved with --steps 3:30, but the others are read with --steps 3:31"),
    (["a.partial", "job"], "a.partial: saved with --steps 3:30, but the others are read with no filter"),
    (["a.partial", "b.partial"], "a.partial: saved with --steps 3:30, but the others are read with --ranks 1"),
    (["--ranks", "1", "a.partial"], "a.partial: saved with --steps 3:30, but the others are read with --ranks 1"),
])
def test_conflicting_filters_are_refused(cep, four_ranks, options, message):
    save(cep, "a.partial", ["job"], "--steps", "3:30")
    save(cep, "b.partial", ["job"], "--ranks", "1")
    done = cep("summarize", *options, status=2)
    assert done.stdout == b"" and done.stderr.decode() == f"cep: {message}: they cannot be joined\n"


@pytest.fixture
def partial(cep, four_ranks, tmp_path):
    save(cep, "a.partial", ["job/cuda_events_rank_0.jsonl", "job/cuda_events_rank_1.jsonl"])
    return tmp_path / "a.partial"


def assert_unreadable(cep, why):
    """Nothing of it counts, the other input does, and the message names file and place."""
    done = cep("summarize", "--json", "a.partial", "job/cuda_events_rank_3.jsonl")
    summary = json.loads(done.stdout)
    assert (summary["inputs"]["unreadable_files"], summary["inputs"]["files"]) == (1, 1)
    assert {phase["count"] for phase in summary["phases"]} == {30}
    lines = done.stderr.decode().splitlines()
    assert "1 input unreadable" in lines[0]
    assert f"  a.partial: not a whole partial summary: {why}" in lines
    cep("summarize", "--strict", "a.partial", "job/cuda_events_rank_3.jsonl", status=4)
    cep("summarize", "a.partial", status=3)


def test_cut_off_at_a_line(cep, partial):
    lines = partial.read_bytes().splitlines(keepends=True)
    partial.write_bytes(b"".join(lines[:10]))
    assert_unreadable(cep, "line 10: it ends too early")


def test_cut_off_in_a_line(cep, partial):
    lines = partial.read_bytes().splitlines(keepends=True)
    partial.write_bytes(b"".join(lines[:10]) + lines[10][:15])
    assert_unreadable(cep, "line 11: cut off in the middle of a row")


def test_cut_off_compressed(cep, partial):
    data = gzip.compress(partial.read_bytes())
    partial.write_bytes(data[:-500])
    assert_unreadable_somewhere(cep)


def assert_unreadable_somewhere(cep):
    done = cep("summarize", "--json", "a.partial", "job/cuda_events_rank_3.jsonl")
    assert json.loads(done.stdout)["inputs"]["unreadable_files"] == 1
    assert b"  a.partial: not a whole partial summary: line " in done.stderr


def test_a_line_is_missing(cep, partial):
    lines = partial.read_bytes().splitlines(keepends=True)
    position = next(i for i, line in enumerate(lines) if b'"series_stats"' in line)
    partial.write_bytes(b"".join(lines[:position] + lines[position + 1:]))
    assert_unreadable(cep, f"line {len(lines) - 1}: lines are missing")


def test_a_digit_has_changed(cep, partial):
    lines = partial.read_bytes().splitlines(keepends=True)
    position = next(i for i, line in enumerate(lines) if b'"samples"' in line)
    digit = lines[position].index(b".") + 1
    other = b"1" if lines[position][digit:digit + 1] != b"1" else b"2"
    lines[position] = lines[position][:digit] + other + lines[position][digit + 1:]
    partial.write_bytes(b"".join(lines))
    assert_unreadable(cep, f"line {len(lines)}: the checksum does not fit")


def test_the_first_line_is_missing(cep, partial):
    partial.write_bytes(partial.read_bytes().split(b"\n", 1)[1])
    done = cep("summarize", "a.partial", status=3)
    assert b"a.partial: not a whole partial summary: line " in done.stderr and b"its first line is missing" in done.stderr


def test_rows_behind_a_partial(cep, partial, four_ranks):
    with open(partial, "ab") as file:
        file.write(four_ranks.path(2).read_bytes())
    lines = partial.read_bytes().splitlines()
    end = next(i for i, line in enumerate(lines, 1) if line.startswith(b'{"type":"end"'))
    assert_unreadable(cep, f"line {end + 1}: something behind the end")


def test_rows_before_a_partial(cep, partial, four_ranks):
    rows = four_ranks.path(2).read_bytes()
    partial.write_bytes(rows + partial.read_bytes())
    first = rows.count(b"\n") + 1
    assert_unreadable(cep, f"line {first}: it begins behind rows")


def test_a_newer_version(cep, partial):
    partial.write_bytes(partial.read_bytes().replace(b"cep.partial/1", b"cep.partial/3", 1))
    assert_unreadable(cep, "line 1: of another version")


def test_every_byte_counts(cep, partial):
    """Whatever is damaged, the partial is refused or, where the change means nothing, gives the same."""
    whole = cep("summarize", "--json", "a.partial").stdout
    data = partial.read_bytes()
    rng = random.Random(4)
    for position in rng.sample(range(len(data)), 60):
        damaged = bytearray(data)
        damaged[position] ^= 1 << rng.randrange(7)
        partial.write_bytes(bytes(damaged))
        done = subprocess.run([cep.program, "summarize", "--json", "a.partial"], capture_output=True, timeout=60,
                              cwd=cep.folder, check=False)
        assert done.returncode == 3 or done.stdout == whole, (position, done)


def test_beyond_the_budget_partials_hold_histograms(cep, varied, tmp_path):
    files = [f"job/{name}" for name in files_of(varied)]
    few = ["--max-samples", "10"]
    for number, group in enumerate((files[:3], files[3:])):
        save(cep, f"part{number}.partial", group, *few)
    assert b'"type":"histogram"' in (tmp_path / "part0.partial").read_bytes()
    whole = cep("summarize", "--json", *few, *files)
    assert cep("summarize", "--json", *few, "part0.partial", "part1.partial").stdout == whole.stdout
    # Histograms stay what they are, whatever the budget of the command that joins them.
    joined = cep.summary("part1.partial", "part0.partial")
    assert joined["approximate"] and joined["phases"] == json.loads(whole.stdout)["phases"]


def test_a_partial_of_the_first_version_has_histograms_and_no_samples(cep, varied, tmp_path):
    save(cep, "a.partial", ["job"], "--max-samples", "10")
    lines = (tmp_path / "a.partial").read_bytes().splitlines(keepends=True)
    lines = [re.sub(rb'cep.partial/2","halvings":\d+', b'cep.partial/1"', line) for line in lines[:-1]
             if not line.startswith(b'{"type":"samples"')]
    end = b'{"type":"end","lines":%d,"crc32":"%08x"}\n' % (len(lines), zlib.crc32(b"".join(lines)))
    (tmp_path / "old.partial").write_bytes(b"".join(lines) + end)
    old, whole = cep.summary("old.partial"), cep.summary("--max-samples", "10", "job")
    assert old["phases"] == whole["phases"]
    assert old["verdict"]["abstained"] and old["verdict"]["reason"] == "there are more durations than were kept"
    save(cep, "again.partial", ["old.partial"])
    assert (tmp_path / "again.partial").read_bytes() == (tmp_path / "old.partial").read_bytes()


@pytest.mark.parametrize("halvings, why", [
    ("0", "malformed halvings"), ("64", "malformed halvings"), *((text, "no halvings, or one of another type")
                                                                for text in ("-1", "1.5", "null", '"1"'))])
def test_malformed_halvings(cep, partial, halvings, why):
    partial.write_bytes(partial.read_bytes().replace(
        b'"schema":"cep.partial/1"', b'"schema":"cep.partial/2","halvings":' + halvings.encode(), 1))
    assert_unreadable(cep, "line 1: " + why)


def test_samples_of_some_steps_need_histograms_of_all(cep, varied, tmp_path):
    save(cep, "a.partial", ["job"], "--max-samples", "100")
    lines = (tmp_path / "a.partial").read_bytes().splitlines(keepends=True)[:-1]
    assert b"cep.partial/2" in lines[0] and any(line.startswith(b'{"type":"samples"') for line in lines)
    lines = [line for line in lines if not line.startswith(b'{"type":"histogram"')]
    end = b'{"type":"end","lines":%d,"crc32":"%08x"}\n' % (len(lines), zlib.crc32(b"".join(lines)))
    (tmp_path / "a.partial").write_bytes(b"".join(lines) + end)
    done = cep("summarize", "--json", "a.partial", status=3)
    assert b"samples that no histogram counts" in done.stderr


def test_samples_of_steps_that_should_not_be_there(cep, partial):
    partial.write_bytes(partial.read_bytes().replace(
        b'"schema":"cep.partial/1"', b'"schema":"cep.partial/2","halvings":40', 1))
    assert_unreadable(cep, "line 9: a sample of a step that is not kept")


def test_partials_that_fit_by_themselves_and_not_together(cep, four_ranks):
    limit = ["--max-samples", "100"]
    for rank in range(4):
        save(cep, f"{rank}.partial", [four_ranks.path(rank)], *limit)
    whole = cep.summary(*limit, "job")
    assert whole["approximate"]
    assert cep.summary(*limit, *(f"{rank}.partial" for rank in range(4))) == whole


def test_a_partial_of_nothing_is_still_written(cep, tmp_path, four_ranks):
    (tmp_path / "empty.jsonl").write_bytes(b"")
    save_status = cep("summarize", "--save", "e.partial", "empty.jsonl", "nowhere.jsonl", status=3)
    assert b"nowhere.jsonl" in save_status.stderr
    joined = cep("summarize", "--json", "e.partial", "job")
    whole = cep("summarize", "--json", "empty.jsonl", "nowhere.jsonl", "job")
    assert (joined.stdout, joined.stderr) == (whole.stdout, whole.stderr)


def test_the_first_damages_of_all_partials_are_shown(cep, tmp_path):
    for rank in range(12):
        row = line_of(span_row(rank, 1, "f", 1.0, START_NS)).encode()
        (tmp_path / f"cuda_events_rank_{rank}.jsonl").write_bytes(row + b"\nbad\nworse\n")
        save(cep, f"{rank}.partial", [f"cuda_events_rank_{rank}.jsonl"])
    whole = cep("summarize", ".")
    parts = cep("summarize", *(f"{rank}.partial" for rank in reversed(range(12))))
    assert parts.stdout == whole.stdout
    assert parts.stderr.decode().replace("cuda_events", "./cuda_events") == whole.stderr.decode()


def test_a_partial_is_replaced_whole_or_not_at_all(cep, four_ranks, tmp_path):
    save(cep, "a.partial", ["job"])
    before = (tmp_path / "a.partial").read_bytes()
    cep("summarize", "--save", "a.partial", "--steps", "9:1", "job", status=2)
    assert (tmp_path / "a.partial").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("a.partial.")] == []
    cep("summarize", "--save", "nowhere/a.partial", "job", status=5)


def test_a_rank_file_is_not_overwritten(cep, four_ranks):
    before = four_ranks.path(0).read_bytes()
    assert b"a rank file has this name" in cep("summarize", "--save", four_ranks.path(0), "job", status=2).stderr
    assert four_ranks.path(0).read_bytes() == before


@pytest.mark.parametrize("command", ["merge", "check"])
def test_other_commands_refuse_partials(cep, partial, four_ranks, command):
    done = cep(command, "job", "a.partial", status=2)
    assert done.stdout == b""
    assert done.stderr == b"cep: a.partial: a partial summary, which only cep summarize and cep compare read\n"


def test_many_ranks(cep, job):
    """One series for each rank and phase, as wide as a large job."""
    rng = random.Random(3)
    job.folder.mkdir()
    rows = [line_of(span_row(rank, step, phase, round(rng.uniform(1, 2), 6), START_NS + step * 1000 + rank))
            for rank in range(2000) for step in range(2) for phase in "abcdefgh"]
    for half in range(2):
        rows_of_half = rows[half * len(rows) // 2:(half + 1) * len(rows) // 2]
        (job.folder / f"half{half}.jsonl").write_text("\n".join(rows_of_half) + "\n")
        save(cep, f"{half}.partial.zst", [f"job/half{half}.jsonl"])
    whole = cep("summarize", "--json", "job/half0.jsonl", "job/half1.jsonl").stdout
    assert cep("summarize", "--json", "0.partial.zst", "1.partial.zst").stdout == whole
    assert json.loads(whole)["inputs"]["ranks_seen"] == 2000


def test_runs_of_equal_start_are_told_apart(cep, job):
    """Two runs that begin at the same time, each in two files: the order of the files says nothing."""
    files = []
    for run_id, offset in (("b", 0.25), ("a", 0.5)):
        for copy in range(2):
            rows = [run_row(0, run_id=run_id), *(span_row(0, step, "f", step + offset, START_NS + step) for step in range(9))]
            job.folder.mkdir(exist_ok=True)
            path = job.folder / f"{run_id}{copy}.jsonl"
            path.write_text("".join(line_of(row) + "\n" for row in rows))
            files.append(path)
    for number, file in enumerate(files):
        save(cep, f"{number}.partial", [file])
    names = [f"{number}.partial" for number in range(4)]
    outputs = {cep("summarize", "--json", *order).stdout for order in itertools.permutations(names)}
    assert outputs == {cep("summarize", "--json", *files).stdout}
    inputs = json.loads(outputs.pop())["inputs"]
    assert (inputs["superseded_rows"], inputs["duplicate_rows"]) == (18, 9)
