# SPDX-License-Identifier: Apache-2.0
"""Damaged input: each kind has a defined outcome, is counted and located, and loses nothing else."""

import gzip
import random
import subprocess
from dataclasses import dataclass, field

import pytest
from conftest import ROW_READERS, START_NS, attempt_rows, line_of, run_row, span_row, stats_row

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


HOUR_NS = 3600 * 10**9
NAME = "cuda_events_rank_0.jsonl"


@dataclass
class Damage:
    """What damage does in each command. Files lie in the folder "job"."""

    what: str
    files: dict  # name -> bytes or rows
    kept: int  # spans that summarize counts
    merged: int  # rows that merge writes
    says: list = field(default_factory=list)  # on standard error by summarize and merge, after "cep COMMAND: "
    inputs: dict = field(default_factory=dict)  # what differs from zero in the inputs of summarize
    severity: str = "fine"  # of check
    findings: list = field(default_factory=list)  # of check: (file or None, code, line, message)
    text: str = ""  # a line of what summarize prints


def rows(*of_steps, rank=0, name="f", shift_ns=0, **run):
    """A run row and spans, the way the library writes them."""
    start = run.pop("start_unix_ns", START_NS) + shift_ns
    head = [run_row(rank, start_unix_ns=start, **run)] if run else []
    return head + [span_row(rank, step, name, 1.5, start + 10**6 * (1 + i), **({} if run else {"kind": "compute"}))
                   for i, step in enumerate(of_steps)]


def data_of(content):
    return content if isinstance(content, bytes) else b"".join(line_of(row).encode() + b"\n" for row in content)


def joined(*lines, end=b"\n"):
    return b"\n".join(lines) + end


TWO = {"world_size": 2}

DAMAGES = [
    Damage("cut-off last line", {NAME: joined(*LINES, b'{"name":"forw', end=b"")}, kept=6, merged=6,
           says=["1 file cut off", f"  job/{NAME}:7: cut off in the middle of a row"],
           inputs={"truncated_files": 1}, severity="incomplete",
           findings=[(NAME, "cut_off", 7, "cut off at its end")]),
    Damage("last line without its newline", {NAME: joined(*LINES, end=b"")}, kept=6, merged=6),
    Damage("NUL-filled tail", {NAME: joined(*LINES) + b"\0" * 100_000}, kept=6, merged=6,
           says=["1 file cut off", f"  job/{NAME}:7: NUL bytes instead of rows"],
           inputs={"truncated_files": 1}, severity="incomplete",
           findings=[(NAME, "cut_off", 7, "cut off at its end")]),
    Damage("NUL bytes before the rows of a restart", {NAME: joined(*LINES[:3]) + b"\0" * 500 + joined(*LINES[3:])},
           kept=6, merged=6, says=["damage between rows", f"  job/{NAME}:4: NUL bytes before a row"],
           severity="damaged", findings=[(NAME, "damage", None, "damage between rows")]),
    Damage("garbage line", {NAME: joined(*LINES[:2], b"garbage", *LINES[2:])}, kept=6, merged=6,
           says=["1 row skipped", f"  job/{NAME}:3: not valid JSON"], inputs={"skipped_rows": 1}, severity="damaged",
           findings=[(NAME, "rows_skipped", None, "1 row skipped")]),
    Damage("row appended to a broken row", {NAME: joined(*LINES[:2], LINES[2][:40] + LINES[3], *LINES[4:])},
           kept=5, merged=5, inputs={"skipped_rows": 1}, severity="damaged",
           says=["1 row skipped", f"  job/{NAME}:3: a broken row, with an intact one behind it on the same line"],
           findings=[(NAME, "rows_skipped", None, "1 row skipped"), (NAME, "step_gaps", None, "1 step missing (2)")]),
    Damage("invalid UTF-8", {NAME: joined(*LINES[:2], LINES[2].replace(b'"f"', b'"\xff"'), *LINES[3:])},
           kept=5, merged=5, says=["1 row skipped", f"  job/{NAME}:3: not valid UTF-8"], inputs={"skipped_rows": 1},
           severity="damaged",
           findings=[(NAME, "rows_skipped", None, "1 row skipped"), (NAME, "step_gaps", None, "1 step missing (2)")]),
    Damage("CRLF", {NAME: b"\r\n".join(LINES) + b"\r\n"}, kept=6, merged=6),
    Damage("byte order mark", {NAME: b"\xef\xbb\xbf" + joined(*LINES)}, kept=6, merged=6),
    Damage("empty file beside a good one", {NAME: joined(*LINES), "cuda_events_rank_1.jsonl": b""}, kept=6, merged=6,
           severity="incomplete", findings=[("cuda_events_rank_1.jsonl", "empty", None, "no rows")]),
    Damage("only headers", {NAME: rows(1, 2, **TWO), "cuda_events_rank_1.jsonl": [run_row(1, **TWO), stats_row(1, 0)]},
           kept=2, merged=5, inputs={"runs": 1, "hosts": 1}, text="run       run-a, attempt 1, 2 ranks, steps 1 to 2"),
    Damage("directory with other files",
           {NAME: joined(*LINES), "notes.txt": b"hello", "cuda_events_rank_x.jsonl": b"hello",
            "cuda_events_rank_1.jsonl.tmp": b"hello", "trace.json": b"{}"}, kept=6, merged=6),
    Damage("rank file there twice", {NAME: rows(1, 2, 3, **TWO), "cuda_events_rank_1.jsonl": rows(1, 2, 3, **TWO)},
           kept=3, merged=8, inputs={"duplicate_rows": 3, "runs": 1, "hosts": 1, "missing_ranks": [1]},
           says=["1 of 2 ranks", "  missing rank 1"], severity="damaged",
           findings=[("cuda_events_rank_1.jsonl", "other_rank", None, "4 rows of rank 0 in the file of rank 1"),
                     (None, "missing_ranks", None, "missing rank 1 of 2"),
                     (None, "repeated_rank", None, "the same run in two files: rank 0: job/cuda_events_rank_0.jsonl and "
                                                   "job/cuda_events_rank_1.jsonl")],
           text="; 3 left out: there twice"),
    Damage("rows of a rank in another rank's file", {NAME: [*rows(1, 2, **TWO), *rows(1, 2, rank=1)]}, kept=4, merged=5,
           inputs={"runs": 1, "hosts": 1}, severity="damaged",
           findings=[(NAME, "other_rank", None, "2 rows of rank 1 in the file of rank 0")]),
    Damage("steps going back after a resume",
           {NAME: [*rows(1, 2, 3, 4, world_size=1), *rows(3, 4, 5, world_size=1, attempt=2, shift_ns=HOUR_NS)]},
           kept=5, merged=9, inputs={"superseded_rows": 2, "runs": 2, "hosts": 1}, severity="note",
           findings=[(NAME, "resumed", None, "resumed at step 3 in attempt 2, 2 steps done again")],
           text="; 2 left out: a later attempt did these steps again"),
    Damage("steps going back after a resume, on a host whose clock is hours behind",
           {NAME: [*rows(1, 2, 3, 4, world_size=1),
                   *rows(3, 4, 5, world_size=1, attempt=2, shift_ns=-HOUR_NS, name="g")]},
           kept=5, merged=9, inputs={"superseded_rows": 2, "runs": 2, "hosts": 1}, severity="note",
           findings=[(NAME, "resumed", None, "resumed at step 3 in attempt 2, 2 steps done again")]),
    Damage("steps going back with no run row to tell it", {NAME: rows(1, 2, 3, 2, 3, 4)}, kept=6, merged=6,
           severity="note", findings=[(NAME, "steps_back", 4, "steps go back from 3 to 2: a restart without a run row?")]),
    Damage("two processes writing one file in turn",
           {NAME: [run_row(0, run_id="a", world_size=1), span_row(0, 1, "f", 1.5, START_NS + 1),
                   run_row(0, run_id="b", world_size=1, start_unix_ns=START_NS + 5), span_row(0, 1, "f", 1.5, START_NS + 6),
                   run_row(0, run_id="a", world_size=1), span_row(0, 2, "f", 1.5, START_NS + 9)]},
           kept=2, merged=6, inputs={"superseded_rows": 1, "runs": 2, "hosts": 1}, severity="damaged",
           findings=[(NAME, "interleaved", 5, "two processes write rows of rank 0 in turn"),
                     (NAME, "resumed", None, "resumed at step 1 in run b attempt 1, 1 step done again")]),
    Damage("clocks apart by hours",
           {f"cuda_events_rank_{r}.jsonl": rows(1, 2, rank=r, world_size=3, shift_ns=(2 if r == 1 else 0) * HOUR_NS)
            for r in range(3)}, kept=6, merged=9, inputs={"runs": 1, "hosts": 1}, severity="note",
           findings=[(None, "clocks_apart", None, "rank 1 of run run-a attempt 1 up to 7,200 s from the others in step 1: "
                                                  "the clocks of their hosts differ")]),
]


@pytest.fixture(params=DAMAGES, ids=lambda damage: damage.what)
def damage(request, tmp_path):
    (tmp_path / "job").mkdir()
    for name, content in request.param.files.items():
        (tmp_path / "job" / name).write_bytes(data_of(content))
    return request.param


def stderr_of(command, says):
    return [f"cep {command}: {says[0]}", *says[1:]] if says else []


def test_damage_in_summarize(cep, damage):
    done = cep("summarize", "job")
    assert done.stderr.decode().splitlines() == stderr_of("summarize", damage.says)
    assert damage.text in done.stdout.decode()
    summary = cep.summary("job")
    assert sum(phase["count"] for phase in summary["phases"]) == damage.kept
    inputs = {key: value for key, value in summary["inputs"].items()
              if value and key not in ("files", "bytes", "rows", "ranks_seen", "ranks_expected")}
    assert inputs == damage.inputs


def test_damage_in_merge(cep, damage):
    done = cep("merge", "job")
    assert done.stderr.decode().splitlines() == stderr_of("merge", damage.says)
    lines = done.stdout.splitlines()
    assert len(lines) == damage.merged
    written = b"\n".join(data_of(content) for content in damage.files.values())
    assert all(line.startswith(b"{") and line.endswith(b"}") and line in written for line in lines)


def test_damage_in_check(cep, damage):
    done = cep("check", "--json", "--lenient", "job")
    assert done.stderr == b""
    report = cep.check("job")
    found = [(None, finding) for finding in report["findings"]]
    for file in report["files"]:
        found += [(file["path"].removeprefix("job/"), finding) for finding in file["findings"]]
    found = [(file, finding) for file, finding in found if finding["code"] != "no_run_row"]  # few of these files have one
    described = [(file, finding["code"], finding.get("line"), finding["message"]) for file, finding in found]
    assert sorted(described, key=str) == sorted(damage.findings, key=str)
    severities = ("fine", "note", "incomplete", "damaged")
    assert max((finding["severity"] for _, finding in found), key=severities.index, default="fine") == damage.severity
    assert severities.index(report["severity"]) >= severities.index(damage.severity)


@pytest.mark.parametrize("command", ROW_READERS)
def test_damage_under_strict(cep, damage, command):
    lacking = bool(damage.says) if command != "check" else damage.severity in ("incomplete", "damaged")
    cep(command, "--strict", "job", status=4 if lacking else 0)


def test_damage_in_compressed_files(cep, damage, tmp_path):
    plain = cep("summarize", "--csv", "job")
    for path in (tmp_path / "job").glob("cuda_events_rank_?.jsonl"):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed = cep("summarize", "--csv", "job")
    assert packed.stdout == plain.stdout
    assert packed.stderr.decode().replace(".jsonl.gz", ".jsonl") == plain.stderr.decode()


def test_only_an_empty_file_is_nothing_readable(cep, tmp_path):
    path = write(tmp_path, b"")
    assert cep("summarize", path, status=3).stderr == b"cep summarize: no rows in any input\n"
    assert cep("merge", path, status=3).stderr == b"cep merge: no rows in any input\n"
    assert cep.check(path, status=3)["files"][0]["findings"][0]["code"] == "empty"


def test_only_headers_everywhere(cep, job):
    job.write(0, [run_row(0), stats_row(0, 0)])
    done = cep("summarize", "job")
    assert done.stderr == b"cep summarize: no spans among the rows that were asked for\n"
    assert b"run       run-a, attempt 1, 1 rank\n" in done.stdout
    assert len(cep.merged("job").splitlines()) == 2


def test_blank_lines(cep, tmp_path):
    assert outcome(cep, write(tmp_path, b"\n\n  \n" + b"\n\n".join(LINES) + b"\n\n")) == (6, 0, 0, [])


@pytest.mark.parametrize("line, why", [
    ('{"name":"f","step":1,"rank":0}', "no duration_ms"),
    ('{"name":"f","step":1,"rank":0,"duration_ms":1e300}', "duration_ms is out of range"),
    ('{"name":"f","step":1,"rank":0,"duration_ms":1,"start_ns":9223372036854775807}', "start_ns is out of range"),
    ('{"name":"f","step":1,"rank":0,"duration_ms":1,"lag_ms":-1e300}', "lag_ms is out of range"),
    ('{"type":"open","name":"f","step":1,"rank":0,"elapsed_ms":1e300}', "elapsed_ms is out of range"),
    ('{"name":"f","step":1,"rank":-1,"duration_ms":1}', "rank is out of range"),
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


def test_unreadable_input_beside_good_ones(cep, four_ranks):
    done = cep("summarize", "--json", "job", "nowhere.jsonl")
    assert b"1 input unreadable" in done.stderr and b"nowhere.jsonl: No such file or directory" in done.stderr
    cep("summarize", "--strict", "job", "nowhere.jsonl", status=4)


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
