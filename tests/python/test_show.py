# SPDX-License-Identifier: Apache-2.0
"""cep.show(): a job's summary in a notebook."""

import html
import json
import re
import subprocess
import sys
import types
from pathlib import Path

import cep
import pytest
from cep import _command

REPORT = """<!DOCTYPE html><html><body><p title="a & b">'quoted' "text" </iframe></p><script>1 < 2</script></body></html>"""


def span_row(rank, step, name, duration_ms, **more):
    return {"name": name, "step": step, "rank": rank, "duration_ms": duration_ms, "kind": "compute", **more}


@pytest.fixture
def job(tmp_path):
    """Four ranks, of which the last is slow in forward."""
    folder = tmp_path / "output" / "cuda_event_profiler"
    folder.mkdir(parents=True)
    for rank in range(4):
        rows = [{"type": "run", "schema": 1, "run_id": "a", "attempt": 1, "rank": rank, "world_size": 4, "host": "node0"}]
        for step in range(30):
            start_ns = 1_763_700_000_000_000_000 + step * 25_000_000
            work_ms = 20.0 if rank == 3 else 10.0
            rows.append(span_row(rank, step, "step", 25.0, kind="step", depth=0, start_ns=start_ns))
            rows.append(span_row(rank, step, "forward", work_ms, depth=1, start_ns=start_ns))
            rows.append(span_row(rank, step, "all_reduce", 25.0 - work_ms, kind="comm", group="dp", coll=step, depth=1,
                                 start_ns=start_ns + int(work_ms * 1e6)))
        path = folder / f"cuda_events_rank_{rank}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "output"


@pytest.fixture(autouse=True)
def real_command(command, monkeypatch):
    monkeypatch.setenv("CEP_COMMAND", str(command))


@pytest.fixture
def command_with(command, monkeypatch, tmp_path):
    """The command, but `report` runs a shell script instead; its arguments are in a file."""
    def make(report):
        path = tmp_path / "cep-with-report"
        path.write_text(f"""#!/bin/sh
[ "$1" = report ] || exec "{command}" "$@"
shift
printf '%s\\n' "$@" >"{tmp_path}/arguments"
{report}
""")
        path.chmod(0o755)
        monkeypatch.setenv("CEP_COMMAND", str(path))
    return make


class FakeFrame:
    def __init__(self, rows):
        self.rows = rows


@pytest.fixture
def pandas(monkeypatch):
    module = types.ModuleType("pandas")
    module.DataFrame = FakeFrame
    monkeypatch.setitem(sys.modules, "pandas", module)
    return module


def printed(command, *arguments):
    return subprocess.run([str(command), *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def test_the_dict_is_what_the_command_prints(command, job):
    shown = cep.show(job)
    assert shown.to_dict() == json.loads(printed(command, "summarize", "--json", job))
    shown.to_dict()["phases"].clear()
    assert shown.to_dict()["phases"], "each is a copy"


def test_it_is_printed_as_by_the_command(command, job):
    text = repr(cep.show(str(job), ranks="1,3"))
    assert text == printed(command, "summarize", "--ranks=1,3", job).strip() and "forward" in text


def test_tables_are_data_frames(job, pandas):
    shown = cep.show(job)
    phases = shown.to_pandas()
    assert isinstance(phases, FakeFrame) and phases.rows == shown.to_dict()["phases"]
    assert [row["rank"] for row in shown.to_pandas("stragglers").rows] == [3]
    everything = shown.to_pandas(None)
    assert everything.keys() == shown.tables().keys()
    assert all(isinstance(frame, FakeFrame) for frame in everything.values())


def test_a_table_that_there_is_not_is_named(job, pandas):
    with pytest.raises(ValueError, match="no table 'phase': it is one of phases, groups"):
        cep.show(job).to_pandas("phase")


def test_pandas_is_needed_for_data_frames_only(job, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    shown = cep.show(job)
    assert repr(shown) and shown.tables()["phases"]
    with pytest.raises(ImportError, match="pandas"):
        shown.to_pandas()


def test_steps_ranks_and_groups_are_chosen(job):
    shown = cep.show(job, steps="10:19", ranks="1,3", by="rank")
    assert shown.to_dict()["window"]["steps"] == 10
    assert {row["rank"] for row in shown.tables()["groups"]} == {1, 3}


def test_several_inputs_are_one_job(job):
    files = sorted((job / "cuda_event_profiler").iterdir())
    assert cep.show(files).to_dict()["inputs"]["ranks_seen"] == 4
    assert cep.show(str(job / "cuda_event_profiler" / "*_rank_[01].jsonl")).to_dict()["inputs"]["ranks_seen"] == 2
    with pytest.raises(ValueError, match="no input"):
        cep.show([])


def test_a_name_that_begins_with_a_hyphen_is_no_option(job, monkeypatch):
    monkeypatch.chdir(job.parent)
    job.rename("--by=rank")
    assert cep.show("--by=rank").to_dict()["by"] == "phase"


# The page.

def test_the_page_is_the_report_in_a_frame_of_its_own(command_with, job, tmp_path):
    command_with(f"cat >\"$2\" <<'END'\n{REPORT}\nEND")
    shown = cep.show(job, ranks="0-2", height=333)
    page = shown._repr_html_()
    (document,) = re.findall(r'^<iframe srcdoc="([^"]*)" sandbox="allow-scripts" [^<>]*height: 333px[^<>]*></iframe>$', page)
    assert html.unescape(document).strip() == REPORT
    option, path, *rest = (tmp_path / "arguments").read_text().splitlines()
    assert option == "-o" and rest == ["--ranks=0-2", str(job)]
    assert not Path(path).exists(), "nothing is left behind"


def test_the_report_is_made_once(command_with, job, tmp_path):
    command_with('echo page >"$2"')
    shown = cep.show(job)
    assert not (tmp_path / "arguments").exists(), "only where it is shown"
    page = shown._repr_html_()
    (tmp_path / "arguments").unlink()
    assert shown._repr_html_() == page and not (tmp_path / "arguments").exists()


def test_without_a_report_the_page_is_the_text(command_with, job):
    command_with("echo \"cep: there is no command 'report'\" >&2; exit 2")
    shown = cep.show(job)
    page = shown._repr_html_()
    assert page == f"<pre>{html.escape(repr(shown))}</pre>"
    assert shown.messages == ""


def test_a_report_that_fails_says_why(command_with, job):
    command_with("echo 'cep report: <disk> full' >&2; exit 1")
    page = cep.show(job)._repr_html_()
    assert "\n\ncep report: &lt;disk&gt; full</pre>" in page and "forward" in page


def test_hostile_names_stay_text(job, command_with):
    command_with("exit 2")
    with open(job / "cuda_event_profiler" / "cuda_events_rank_0.jsonl", "a") as file:
        file.write(json.dumps(span_row(0, 1, "<script>\x1b[31m\n", 1.0)) + "\n")
    shown = cep.show(job)
    assert "<script>" not in shown._repr_html_()
    assert "\x1b" not in repr(shown) and "<script>" in repr(shown)


# What goes wrong.

def test_what_the_command_said_is_kept(job):
    (job / "cuda_event_profiler" / "cuda_events_rank_2.jsonl").unlink()
    shown = cep.show(job)
    assert "rank 2" in shown.messages and shown.messages.strip() in repr(shown)


@pytest.mark.parametrize("name, message", [("missing", "No such file or directory"), ("empty", "no cuda_events_rank_")])
def test_nothing_readable_is_said(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=message):
        cep.show(tmp_path / name)


@pytest.mark.parametrize("arguments", [{"steps": "x"}, {"ranks": "a"}, {"by": "moon"}])
def test_a_bad_argument_is_named(job, arguments):
    with pytest.raises(ValueError, match=f"--{next(iter(arguments))}"):
        cep.show(job, **arguments)


def test_a_command_that_dies_is_said(job, command_with, tmp_path, monkeypatch):
    path = tmp_path / "dying"
    path.write_text("#!/bin/sh\nkill -9 $$\n")
    path.chmod(0o755)
    monkeypatch.setenv("CEP_COMMAND", str(path))
    with pytest.raises(RuntimeError, match="status -9"):
        cep.show(job)


def test_a_missing_command_is_said(job, monkeypatch):
    monkeypatch.setenv("CEP_COMMAND", "/nowhere/cep")
    with pytest.raises(FileNotFoundError, match="CEP_COMMAND: no program: /nowhere/cep"):
        cep.show(job)
    monkeypatch.delenv("CEP_COMMAND")
    monkeypatch.setattr(_command, "command_path", lambda: None)
    with pytest.raises(FileNotFoundError, match="no cep command"):
        cep.show(job)


def test_the_command_of_the_package_is_the_default(job, command, monkeypatch):
    monkeypatch.delenv("CEP_COMMAND")
    monkeypatch.setattr(_command, "command_path", lambda: str(command))
    assert cep.show(job).headline


def test_the_import_of_cep_does_not_import_it(scripts):
    out, _ = scripts.run('print("cep._show" in sys.modules, "pandas" in sys.modules)')
    assert out == "False False\n"
