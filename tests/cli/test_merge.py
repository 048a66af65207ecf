# SPDX-License-Identifier: Apache-2.0
import gzip
import os
import random
import subprocess

import pytest
from conftest import START_NS, as_rows, attempt_rows, line_of, run_row, span_row, stats_row


def test_unusual_spelling_of_json_passes_through(cep, job):
    line = b'{ "duration_ms" : 1 , "name":"f\\u00f6rward", "rank":0,"extra":[1e2,{"a":null}], "step":9007199254740993 }'
    job.folder.mkdir()
    job.path(0).write_bytes(line + b"\n")
    assert cep.merged("job") == line + b"\n"


def test_sorting_on_disk_gives_the_same(cep, job, tmp_path):
    rng = random.Random(3)
    for rank in range(3):
        rows = attempt_rows(rank, range(3000), rng=rng, world_size=3)
        middle = rows[1:-1]
        rng.shuffle(middle)
        job.write(rank, [rows[0], *middle, rows[-1]])
    spill = tmp_path / "spill"
    spill.mkdir()
    on_disk = cep.merged("--memory-mib", "1", "job", env={"TMPDIR": str(spill)})
    assert on_disk == cep.merged("--memory-mib", "1024", "job")
    assert len(on_disk.splitlines()) == len(job.rows)
    assert list(spill.iterdir()) == []


def test_sorting_on_disk_says_where_it_cannot_write(cep, job, tmp_path):
    job.write(0, attempt_rows(0, range(5000), rng=random.Random(1)))
    done = cep("merge", "--memory-mib", "1", "job", status=5, env={"TMPDIR": str(tmp_path / "nowhere")})
    assert b"nowhere" in done.stderr


def test_rows_without_start_keep_their_order_in_a_step(cep, job):
    names = ["zeta", "alpha", "mid"]
    job.write(1, [{"duration_ms": 1.0, "name": n, "rank": 1, "step": s} for s in range(3) for n in names])
    job.write(0, [{"duration_ms": 1.0, "name": n, "rank": 0, "step": s} for s in range(3) for n in names])
    rows = as_rows(cep.merged("job"))
    assert [(r["step"], r["rank"], r["name"]) for r in rows] == [(s, k, n) for s in range(3) for k in (0, 1) for n in names]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_output_file_is_compressed_by_its_ending(cep, four_ranks, tmp_path, ending):
    cep("merge", "-o", f"out.jsonl{ending}", "job")
    written = (tmp_path / f"out.jsonl{ending}").read_bytes()
    plain = cep.merged("job")
    if ending == ".gz":
        assert gzip.decompress(written) == plain
    elif ending == ".zst":
        assert written[:4] == b"\x28\xb5\x2f\xfd" and cep.merged("-", stdin=written) == plain
    else:
        assert written == plain
    assert sorted(p.name for p in tmp_path.iterdir()) == ["job", f"out.jsonl{ending}"]


@pytest.mark.parametrize("spelled", ["job/cuda_events_rank_0.jsonl", "job/../job/cuda_events_rank_0.jsonl", "link"])
def test_output_that_is_an_input_needs_force(cep, four_ranks, tmp_path, spelled):
    (tmp_path / "link").symlink_to("job/cuda_events_rank_0.jsonl")
    before = four_ranks.path(0).read_bytes()
    merged = cep.merged("job")
    done = cep("merge", "-o", spelled, "job", status=2)
    assert f"--output: this is one of the inputs: {spelled}; --force replaces it".encode() in done.stderr
    assert four_ranks.path(0).read_bytes() == before
    cep("merge", "--force", "-o", spelled, "job")
    assert four_ranks.path(0).read_bytes() == merged and (tmp_path / "link").is_symlink()


def test_output_with_the_name_of_a_rank_file_needs_force(cep, four_ranks, tmp_path):
    done = cep("merge", "-o", "job/cuda_events_rank_9.jsonl", "job", status=2)
    assert b"a rank file has this name" in done.stderr and not four_ranks.path(9).exists()
    cep("merge", "--force", "-o", "job/cuda_events_rank_9.jsonl", "job/cuda_events_rank_0.jsonl")
    assert four_ranks.path(9).read_bytes() == cep.merged("job/cuda_events_rank_0.jsonl")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_replaced_output_keeps_its_mode(cep, four_ranks, tmp_path, mode):
    out = tmp_path / "out.jsonl"
    out.write_bytes(b"old\n")
    out.chmod(mode)
    cep("merge", "-o", "out.jsonl", "job")
    assert out.stat().st_mode & 0o7777 == mode and out.read_bytes() == cep.merged("job")


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_new_output_has_the_mode_of_new_files(cep, four_ranks, tmp_path, mask):
    subprocess.run([cep.program, "merge", "-o", "out.jsonl", "job"], cwd=tmp_path, umask=mask, check=True)
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o7777 == 0o666 & ~mask


def test_full_disk_is_an_error(cep, four_ranks):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([cep.program, "merge", str(four_ranks.folder)], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 5
    assert b"No space left" in done.stderr


def test_closed_pipe_ends_quietly(cep, job):
    job.write(0, attempt_rows(0, range(5000), rng=random.Random(1)))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([cep.program, "merge", str(job.folder)], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_filters_choose_steps_ranks_and_phases(cep, four_ranks):
    rows = as_rows(cep.merged("--steps", "5:7", "--ranks", "0,2-3", "--phases", "forward,backward", "job"))
    spans = [row for row in rows if "type" not in row]
    wanted = [row for row in four_ranks.spans()
              if 5 <= row["step"] <= 7 and row["rank"] != 1 and row["name"] in ("forward", "backward")]
    assert sorted(map(line_of, spans)) == sorted(map(line_of, wanted))
    assert [row["rank"] for row in rows if row.get("type") == "run"] == [0, 2, 3]


def test_attempt_last_keeps_the_later_rows_of_a_repeated_step(cep, resumed):
    rows = as_rows(cep.merged("--attempt", "last", "job"))
    spans = [row for row in rows if "type" not in row]
    wanted = [row for row in resumed.spans()
              if (row["start_ns"] < START_NS + 2 * 10**13) == (row["step"] < 40)]
    assert sorted(map(line_of, spans)) == sorted(map(line_of, wanted))


def test_attempt_number_keeps_that_attempt(cep, resumed):
    rows = as_rows(cep.merged("--attempt", "2", "job"))
    assert {row["attempt"] for row in rows if "type" in row} == {2}
    assert {row["step"] for row in rows if "type" not in row} == set(range(40, 80))


def test_other_rows_are_merged_too(cep, job):
    extra = [
        {"type": "counter", "name": "memory", "step": 1, "rank": 0, "value": 5, "start_ns": START_NS + 3},
        {"type": "mark", "name": "checkpoint", "step": 1, "rank": 0, "start_ns": START_NS + 2},
        {"type": "open", "name": "f", "step": 1, "rank": 0, "start_ns": START_NS + 1, "elapsed_ms": 5.0, "kind": "other",
         "clock": "host"},
        {"type": "something_new", "anything": [1, 2]},
    ]
    job.write(0, [stats_row(0, 1), *extra, span_row(0, 0, "f", 1.0, START_NS), run_row(0)])
    kinds = [row.get("type", "span") for row in as_rows(cep.merged("job"))]
    assert kinds == ["run", "span", "open", "mark", "counter", "something_new", "stats"]
