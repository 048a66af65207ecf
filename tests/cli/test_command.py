# SPDX-License-Identifier: Apache-2.0
import gzip
import re
import subprocess

import pytest
from conftest import COMMANDS, READERS, ROOT, ROW_READERS, as_rows


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(cep, command):
    text = cep(command, "--help").stdout.decode()
    assert f"Usage: cep {command}" in text
    assert f"  cep {command} " in text.split("Examples:")[1]


def test_help_lists_the_commands(cep):
    text = cep("--help").stdout.decode()
    assert all(f"\n  {command} " in text for command in COMMANDS)


def test_the_manual_has_every_command():
    page, see_also = (ROOT / "man/cep.1").read_text().split(".Sh SEE ALSO")
    assert set(COMMANDS) | {"help"} <= set(re.findall(r"^\.It Cm (\w+)$", page, re.MULTILINE))
    assert re.findall(r"^\.Xr cep-(\w+) 1", see_also, re.MULTILINE) == sorted({*COMMANDS} - {"completion"})


def words_in_quotes(page):
    return {word for line in re.findall(r"^\.(?:It )?Ql (.*)", page, re.MULTILINE) for word in line.split()}


def test_the_manual_has_every_key_that_is_read():
    source = (ROOT / "tools/read/row_keys.hpp").read_text()
    page = (ROOT / "man/cep-jsonl.5").read_text()
    sections = {"row": page[page.index(".Ss Spans"):], "run": page[page.index(".Ss run"):page.index(".Ss stats")]}
    for kind, section in sections.items():
        keys = re.search(rf"{kind}_keys = {{(.*?)\n}};", source, re.DOTALL)[1]
        names = re.findall(rf'^    {kind}_key\("(\w+)"', keys, re.MULTILINE)
        assert len(names) == keys.count(f"{kind}_key(")
        assert {*names} - words_in_quotes(section) == set()


def test_the_readme_has_every_command():
    assert set(re.findall(r"^\| `cep (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)) == set(COMMANDS)


def test_version(cep):
    assert cep("--version").stdout.startswith(b"cep 0.")


@pytest.mark.parametrize("arguments", [
    ["nonsense"], ["merge"], ["summarize", "--nonsense", "job"], ["summarize", "--json", "--csv", "job"],
    ["summarize", "--steps", "9:1", "job"], ["summarize", "--steps", "a:b", "job"], ["merge", "--ranks", "0,", "job"],
    ["merge", "--ranks", "7-3", "job"], ["merge", "--phases", "a,,b", "job"], ["summarize", "--attempt", "first", "job"],
    ["merge", "--memory-mib", "0", "job"], ["summarize", "--color", "pink", "job"], ["merge", "-", "-"],
    ["merge", "--files-from", "nowhere"],
    *(["comm", *options, "job"] for options in (
        ["--json", "--csv"], ["--by", "rank"], ["--predict", "0"], ["--predict", "1Q"], ["--predict", "1,,2"],
        ["--world", "1"], ["--world", "x"], ["--link-gb-per-s", "0"], ["--link-gb-per-s", "5", "--link-gbps", "5"],
        ["--predict", "9999999999999999999"], ["--predict", "1M,"])),
    ["compare"], ["compare", "job"], ["compare", "job", "job", "job"],
    *(["compare", *options, "job", "job"] for options in (
        ["--json", "--csv"], ["--block", "0"], ["--threshold", "x"], ["--threshold", "-1%"], ["--fail-on", "bound"],
        ["--attempt", "first"], ["--limit", "-1"], ["--max-samples", "-1"], ["--steps", "9:1"])),
])
def test_wrong_usage_has_status_2_and_says_why(cep, four_ranks, arguments):
    done = cep(*arguments, status=2)
    assert done.stdout == b"" and done.stderr.startswith(b"cep")


@pytest.mark.parametrize("arguments", [
    *([command, "job.jsonl"] for command in READERS if command != "compare"), ["compare", "job.jsonl", "job"],
    ["compare", "job", "job.jsonl"], ["compare", "--scaling", "job", "job", "job.jsonl"], ["report", "--compare", "job.jsonl", "job"],
], ids=" ".join)
def test_an_input_is_no_output(cep, four_ranks, tmp_path, arguments):
    before = cep.merged("job")
    (tmp_path / "job.jsonl").write_bytes(before)
    done = cep(*arguments, "-o", "./job.jsonl", status=2)
    assert b"--output: this is one of the inputs: ./job.jsonl" in done.stderr
    assert (tmp_path / "job.jsonl").read_bytes() == before


@pytest.mark.parametrize("arguments", [[command, "job"] for command in ROW_READERS if command != "check"]  # which has said why
                         + [["compare", "job", "other"], ["compare", "other", "job"]], ids=" ".join)
def test_nothing_readable_leaves_the_output_as_it_was(cep, four_ranks, tmp_path, arguments):
    four_ranks.folder.rename(tmp_path / "other")
    four_ranks.write(0, [], tail=b"bad\n")
    (tmp_path / "out.json").write_text("before")
    assert b"no rows" in cep(*arguments, "-o", "out.json", status=3).stderr
    assert (tmp_path / "out.json").read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"job", "other", "out.json"}


@pytest.mark.parametrize("command", ROW_READERS)
def test_damage_is_told_and_a_failure_where_that_is_asked_for(cep, four_ranks, command):
    four_ranks.write(1, [], tail=b"bad\n")
    done = cep(command, "--strict", "job", status=4)
    assert b"1 row skipped" in done.stdout + done.stderr


@pytest.mark.parametrize("command", [command for command in READERS if command != "compare"])
def test_a_list_and_a_rank_file_behind_a_link_are_no_output(cep, four_ranks, tmp_path, command):
    others = tmp_path / "other"
    others.mkdir()
    rank_file = others / "cuda_events_rank_0.jsonl"
    rank_file.write_bytes(four_ranks.path(0).read_bytes())
    (tmp_path / "link").symlink_to(rank_file)
    (tmp_path / "list").write_text("job\n")
    done = cep(command, "job", "-o", "link", status=2)
    assert b"--output: a rank file has this name: " in done.stderr
    done = cep(command, "--files-from", "list", "-o", "./list", status=2)
    assert b"--output: this is the list of the inputs: ./list" in done.stderr
    assert (tmp_path / "list").read_text() == "job\n"
    assert rank_file.read_bytes() == four_ranks.path(0).read_bytes()


@pytest.mark.parametrize("option", ["-o", "--ranks", "--phases", "--steps", "--files-from", "--run", "--attempt"])
def test_an_empty_value_is_refused(cep, four_ranks, option):
    done = cep("summarize", option, "", "job", status=2)
    assert b"its value is empty" in done.stderr and done.stdout == b""


def test_directory_with_the_default_folder_inside(cep, four_ranks, tmp_path):
    outer = tmp_path / "output"
    outer.mkdir()
    four_ranks.folder.rename(outer / "cuda_event_profiler")
    assert cep.summary("output")["inputs"]["files"] == 4


def test_directory_without_rank_files(cep, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.jsonl").write_text("{}\n")
    done = cep("summarize", "empty", status=3)
    assert b"empty: no cuda_events_rank_*.jsonl files" in done.stderr


def test_glob(cep, four_ranks):
    assert cep.summary("job/cuda_events_rank_[02].jsonl")["inputs"]["files"] == 2
    assert b"No such file" in cep("summarize", "job/*.nothing", status=3).stderr


def test_standard_input(cep, four_ranks):
    data = b"".join(four_ranks.path(rank).read_bytes() for rank in range(4))
    assert cep.merged("-", stdin=data) == cep.merged("job")
    assert cep.merged("-", stdin=gzip.compress(data)) == cep.merged("job")


def test_files_from(cep, four_ranks, tmp_path):
    paths = "".join(f"{four_ranks.path(rank)}\n" for rank in range(4))
    (tmp_path / "list").write_text(paths)
    whole = cep.merged("job")
    assert cep.merged("--files-from", "list") == whole
    assert cep.merged("--files-from", "-", stdin=paths.encode()) == whole
    (tmp_path / "zeros").write_text(paths.replace("\n", "\0"))
    assert cep.merged("--files-from", "zeros") == whole
    done = cep("merge", "--files-from", "job", status=2)
    assert done.stderr == b"cep merge: --files-from job: Is a directory\nTry 'cep merge --help'.\n"


def test_compressed_rank_files_of_a_directory(cep, four_ranks):
    whole = cep.merged("job")
    for rank in (0, 1):
        data = four_ranks.path(rank).read_bytes()
        four_ranks.path(rank).unlink()
        if rank == 0:
            (four_ranks.folder / "cuda_events_rank_0.jsonl.gz").write_bytes(gzip.compress(data))
        else:
            subprocess.run(["zstd", "-q", "-o", str(four_ranks.folder / "cuda_events_rank_1.jsonl.zst")], input=data,
                           check=True)
    assert cep.merged("job") == whole


def test_other_files_of_a_directory_are_left_alone(cep, four_ranks):
    (four_ranks.folder / "notes.txt").write_text("hello")
    (four_ranks.folder / "cuda_events_rank_x.jsonl").write_text("hello")
    assert len(as_rows(cep.merged("job"))) == len(four_ranks.rows)


def test_good_input_leaves_standard_error_empty(cep, four_ranks):
    for command in ("merge", "summarize", "check"):
        assert cep(command, "job").stderr == b""
